"""Drivers that are killed: no row is lost, none is there twice, and no file stays after a cleanup."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import psutil
import pyarrow as pa
import pytest

import lancelet
from memwal.samples import KEY
from spark.conftest import data_files
from spark.dying_driver import work_through
from spark.sessions import MODE

PROGRAM = Path(__file__).with_name("dying_driver.py")
VERSIONS, ROWS = 3, 100
_SECONDS = 300
pytestmark = pytest.mark.skipif(MODE != "local", reason="the programs that die start their own Spark")


def source_of(folder: Path) -> str:
    uri = str(folder / "source.lance")
    for number in range(VERSIONS):
        ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        lance.write_dataset(pa.table({"id": ids}), uri, mode="append")
    return uri


def work(point: str, folder: Path) -> list[str]:
    """The words for one piece of work."""
    name = point.replace(" ", "_")
    return [point, str(folder / "source.lance"), str(folder / f"{name}.lance"), str(folder / f"{name}.checkpoint")]


def run(job: list[str]) -> int:
    """Run the program; what it and Spark started must be gone with it."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *job],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    status = process.wait(_SECONDS)
    left = [other for other in psutil.process_iter() if _session(other.pid) == process.pid]
    _, alive = psutil.wait_procs(left, timeout=30)
    assert not alive, f"still there: {alive}"
    return status


def _session(pid: int) -> int | None:
    try:
        # After the name, which may hold anything: state, parent, group, session.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, IndexError):
        return None


def ids_in(uri: str) -> list[int]:
    return sorted(lance.dataset(uri).to_table()["id"].to_pylist()) if Path(uri).joinpath("_versions").exists() else []


def check(point: str, target: str) -> None:
    """All rows once; after a cleanup, the files of the table and no others."""
    assert ids_in(target) == list(range(VERSIONS * ROWS)), point
    lancelet.dataset(target).cleanup_old_versions(dt.timedelta(0), delete_unverified=True)
    held = {file.path for fragment in lance.dataset(target).get_fragments() for file in fragment.metadata.files}
    assert data_files(target) == held, point
    assert lancelet.dataset(target).verify().ok, point


def die_and_go_on(spark: Any, points: tuple[str, ...], folder: Path) -> None:
    source_of(folder)
    done = {"batch": 0, "before write": ROWS, "written": ROWS, "committed": 2 * ROWS, "checkpointed": 2 * ROWS}
    for point in points:
        job = work(point, folder)
        assert run(job) == -signal.SIGKILL, point
        assert ids_in(job[2]) == list(range(done[point])), point
        # Whoever goes on has never heard of the kill.
        work_through(spark, "lance", *job)
        check(point, job[2])


@pytest.mark.soak
def test_killed_between_write_and_commit(spark, tmp_path):
    die_and_go_on(spark, ("written",), tmp_path)


@pytest.mark.soak
def test_killed_elsewhere(spark, tmp_path):
    die_and_go_on(spark, ("batch", "before write", "committed", "checkpointed"), tmp_path)


@pytest.mark.soak
def test_killed_while_a_batch_goes_into_a_mem_wal(spark, tmp_path):
    """Rows that somebody else wrote between the kill and the restart are newer than the batch, where it was there."""
    source_of(tmp_path)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("text", pa.string())])
    for point, shards in (("upsert written", 0), ("upsert half", 1), ("upsert added", 2)):
        job = work(point, tmp_path)
        target = lancelet.write_dataset(schema.empty_table(), job[2])
        target.initialize_mem_wal(bucket_column="id", num_buckets=2)
        assert run(job) == -signal.SIGKILL, point
        texts = ["newer"] * ROWS
        with lancelet.dataset(job[2]).writer() as writer:
            writer.put(pa.table({"id": list(range(ROWS, 2 * ROWS)), "text": texts}, schema))
        work_through(spark, "lance", *job)
        found = lancelet.dataset(job[2]).lsm_scanner().to_table().to_pylist()
        assert sorted(row["id"] for row in found) == list(range(VERSIONS * ROWS)), point
        newer = sum(row["text"] == "newer" for row in found)
        assert (newer == 0, newer == ROWS) == (shards == 0, shards == 2), point
        before = lancelet.dataset(job[2]).lsm_scanner().count_rows()
        lancelet.dataset(job[2]).compact_mem_wal()
        assert lance.dataset(job[2]).count_rows() == before

"""What goes wrong in the middle, and what others do meanwhile: rows that were acknowledged stay, once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import StorageError
from lancelet.file import FileCache
from lancelet.memwal.collection import collect_garbage
from lancelet.memwal.scan import LevelScan
from lancelet.memwal.view import take_view
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from memwal.faulty import FaultyStore, failing
from memwal.samples import SHARD, keyed_table, manifests, open_writer, rows


@pytest.fixture
def where(tmp_path: Path) -> Path:
    keyed_table(tmp_path / "t", [1, 2, 3], unsharded=True)
    return tmp_path / "t"


def ids(where: Path, *, strong: bool = False) -> list[int]:
    found: list[int] = lancelet.dataset(where).lsm_scanner(strong=strong).to_table()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("state", "the line is cut")])
def test_a_flush_that_ends_after_its_state_landed_keeps_its_run(where: Path, error: BaseException) -> None:
    writer = open_writer(where)
    writer.put(rows([4]))
    states: Any = writer.shard.states
    states.store = FaultyStore(states.store, "manifest/", failing(error))
    with pytest.raises(type(error)):
        writer.flush()
    assert ids(where) == [1, 2, 3, 4]
    writer.put(rows([5]))
    writer.close()
    newest = list(manifests(where, SHARD).values())[-1]
    assert [run.generation for run in newest.sstables] == [1, 2]
    assert ids(where) == [1, 2, 3, 4, 5]


def test_a_handle_of_an_older_version_takes_over_columns_that_came_since(where: Path) -> None:
    old = lancelet.dataset(where)
    lancelet.dataset(where).add_columns(pa.field("y", pa.int64()))
    writer = lancelet.dataset(where).mem_wal_writer(str(SHARD))
    writer.put({"id": [4], "y": [40]})
    old.mem_wal_writer(str(SHARD)).close()
    found = lancelet.dataset(where).lsm_scanner().filter("id = 4").to_table()
    assert found["y"].to_pylist() == [40]


def test_a_router_goes_on_when_the_table_gets_a_column(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    dataset = lancelet.dataset(tmp_path)
    with dataset.writer() as writer:
        lancelet.dataset(tmp_path).add_columns(pa.field("y", pa.int64()))
        writer.put(rows(list(range(10))))
    assert ids(tmp_path) == list(range(10))


def test_a_strong_reader_sees_rows_behind_a_run_that_is_compacted_meanwhile(where: Path) -> None:
    writer = open_writer(where)
    writer.put(rows([4]))
    writer.shard.freeze()
    writer.put(rows([5]))
    snapshot = open_snapshot(where)

    class Overtaken(Snapshot):
        """The newest version is asked for when all logs were read."""

        def latest(self) -> Snapshot:
            if list(manifests(where).values())[-1].current_generation == 1:
                writer.shard.flush()
                lancelet.dataset(where).compact_mem_wal()
            return super().latest()

    first = Overtaken.of(snapshot.store, snapshot.manifest)
    view = take_view(first, FileCache(), strong=True)
    found = [row for batch in LevelScan().batches(view) for row in batch.column("id").to_pylist()]
    assert sorted(found) == [1, 2, 3, 4, 5]


def test_runs_stay_that_a_restored_version_does_not_have(where: Path) -> None:
    dataset = lancelet.dataset(where)
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows([4]))
    before = dataset.version
    dataset.compact_mem_wal()
    compacted = datetime.now(timezone.utc)
    lancelet.dataset(where, version=before).restore()
    assert ids(where) == [1, 2, 3, 4]
    collect_garbage(open_snapshot(where), older_than=timedelta(microseconds=1), now=compacted)
    assert ids(where) == [1, 2, 3, 4]

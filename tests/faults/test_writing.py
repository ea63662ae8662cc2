"""Writes that fail: a clear error, no new version, no files left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from faults.stores import Act, Fault, FaultyStore, Killed, attempt, attempts, files_below
from forked import forked
from lancelet.editing.delete import delete_where
from lancelet.errors import InvalidInput, LanceletError, NotSupported
from lancelet.execution.table_reader import TableReader
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.writing.options import write_options
from lancelet.writing.table import Target, write_table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("t", pa.string())])
MODES = ("create", "append", "overwrite")


def rows(first: int, count: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table([pa.array(keys, pa.int64()), pa.array([f"row {k}" for k in keys])], schema=SCHEMA)


def prepare(where: Path, mode: str) -> list[str]:
    """A table to change, unless one is to be made; returns its files."""
    if mode != "create":
        lancelet.write_dataset(rows(0, 8), where, max_rows_per_file=5)
    return files_below(where)


class Interrupted(Exception):
    """What the user's own code raised."""


def interrupted(error: type[BaseException], after: int) -> Iterator[pa.RecordBatch]:
    for number in range(after):
        yield from rows(100 * number, 50).to_batches()
    raise error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("after", [0, 1, 4])
@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt, MemoryError, GeneratorExit])
def test_input_that_ends_in_an_error(tmp_path: Path, mode: str, after: int, error: type[BaseException]) -> None:
    before = prepare(tmp_path, mode)
    with pytest.raises(error):
        lancelet.write_dataset(interrupted(error, after), tmp_path, SCHEMA, mode, max_rows_per_file=70)
    assert files_below(tmp_path) == before


BAD: dict[str, Any] = {
    "nulls": pa.table({"k": pa.array([1, None], pa.int64()), "t": ["a", "b"]}),
    "other type": pa.table({"k": ["x"], "t": ["y"]}),
    "unknown column": rows(0, 2).append_column("more", [[1, 2]]),
    "missing column": rows(0, 2).select(["t"]),
}
UNSTORABLE: dict[str, Any] = {
    "duplicate names": pa.table([[1], [2]], names=["a", "a"]),
    "duplicate names below": pa.table(
        [pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])], names=["s"]
    ),
    "a dot in a name": pa.table({"a.b": [1]}),
    "interval": pa.table({"a": pa.array([None], pa.month_day_nano_interval())}),
    "union": pa.table({"a": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])}),
    "run-end encoded": pa.table({"a": pa.RunEndEncodedArray.from_arrays([1], [1])}),
    "list view": pa.table({"a": pa.array([[1]], pa.list_view(pa.int8()))}),
    "decimal32": pa.table({"a": pa.array([None], pa.decimal32(5, 2))}),
    "vector of texts": pa.table({"a": pa.array([["a", "b"]], pa.list_(pa.string(), 2))}),
    "vector of lists": pa.table({"a": pa.array([[[1]]], pa.list_(pa.list_(pa.int8()), 1))}),
}


@pytest.mark.parametrize("case", BAD)
def test_data_that_does_not_fit(tmp_path: Path, case: str) -> None:
    before = prepare(tmp_path, "append")
    with pytest.raises(InvalidInput):
        lancelet.write_dataset(BAD[case], tmp_path, mode="append")
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("case", UNSTORABLE)
@pytest.mark.parametrize("mode", ["create", "overwrite"])
def test_data_that_cannot_be_stored(tmp_path: Path, case: str, mode: str) -> None:
    before = prepare(tmp_path, mode)
    with pytest.raises((InvalidInput, NotSupported)):
        lancelet.write_dataset(UNSTORABLE[case], tmp_path, mode=mode)
    assert files_below(tmp_path) == before


def test_nulls_that_come_late(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("s", pa.struct([pa.field("x", pa.int64(), nullable=False)]))])
    good = pa.record_batch([pa.array([{"x": 1}], schema.field("s").type)], schema=schema)
    bad = pa.record_batch([pa.array([{"x": None}], schema.field("s").type)], schema=schema)
    with pytest.raises(InvalidInput):
        lancelet.write_dataset([good, good, bad], tmp_path / "t", schema, max_rows_per_file=1)
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("where", ["/proc/nowhere/t.lance", "{file}/t.lance"])
def test_places_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with pytest.raises(OSError) as caught:
        lancelet.write_dataset(rows(0, 3), where.format(file=blocked))
    assert isinstance(caught.value, LanceletError)
    assert files_below(tmp_path) == ["file"]


LIMITED = """
import resource, sys
import pyarrow as pa, lancelet
where, mode = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
table = pa.table({"x": pa.array(__import__("numpy").random.default_rng(1).integers(0, 2**62, 200_000))})
try:
    lancelet.write_dataset(table, where, mode=mode, max_rows_per_file=30_000)
except lancelet.errors.StorageError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk(tmp_path: Path, mode: str) -> None:
    where = tmp_path / "t"
    if mode != "create":
        lancelet.write_dataset({"x": [1]}, where)
    before = files_below(tmp_path)
    # Files of at most 300,000 bytes: the first file of the write, of 240,000, fits; a larger one would not.
    script = LIMITED.replace("30_000", "60_000")
    done = subprocess.run([sys.executable, "-c", script, where, mode], capture_output=True, text=True, check=True)
    assert "refused: cannot access" in done.stdout
    assert files_below(tmp_path) == before


FILLED = """
import os, shutil, sys
from pathlib import Path
import pyarrow as pa, lancelet
disk, act = Path(sys.argv[1]), sys.argv[2]
table, ballast = disk / "t", disk / "ballast"
rows = pa.table({"k": range(2000), "t": [f"row {k}" for k in range(2000)]})

def files():
    return sorted(str(path) for path in table.rglob("*") if path.is_file())

def attempt():
    if act == "delete":
        lancelet.dataset(table).delete("k % 3 = 0")
    else:
        lancelet.write_dataset(rows, table, mode=act, max_rows_per_file=700)

refused = 0
while True:
    shutil.rmtree(table, ignore_errors=True)
    lancelet.write_dataset(rows, table, max_rows_per_file=1500)
    before, content = files(), lancelet.dataset(table).to_table()
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
    ballast.write_bytes(bytes(free - 4096 * refused))
    try:
        attempt()
    except lancelet.errors.StorageError as error:
        assert "No space left" in str(error), error
        assert files() == before, refused
        assert lancelet.dataset(table).version == 1
        assert lancelet.dataset(table).to_table().equals(content)
        refused += 1
        ballast.unlink()
    else:
        break
assert lancelet.dataset(table).version == 2
print("refused", refused)
"""


@pytest.mark.parametrize("act", ["append", "overwrite", "delete"])
def test_a_disk_that_fills_up_anywhere(tmp_path: Path, act: str) -> None:
    """A disk of 1 MB with room for one page more each time, until the write fits."""
    mount = f'mount -t tmpfs -o size=1m none {tmp_path} && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("a file system of its own size cannot be mounted here")
    done = subprocess.run([*command, sys.executable, "-c", FILLED, tmp_path, act], capture_output=True, text=True)
    assert done.stderr == ""
    assert int(done.stdout.split()[1]) >= 2


def writes(mode: str, stable: bool) -> Act:
    def act(store: FaultyStore) -> None:
        options = write_options(mode, max_rows_per_file=4, enable_stable_row_ids=stable)
        write_table(rows(100, 6), None, Target.at(store), options)

    return act


def deletes(store: FaultyStore) -> None:
    table = TableReader(open_snapshot(store))
    delete_where(table, "k % 2 = 0 or k >= 5", retries=0, timeout=0)


Rows = dict[int, int]
"""Row ids by key."""
OLD, NEW = range(8), range(100, 106)
ACTS = {
    "create": (None, NEW),
    "append": (OLD, (*OLD, *NEW)),
    "overwrite": (OLD, NEW),
    "delete": (OLD, (1, 3)),
}


def content(where: Path) -> Rows | None:
    """What both read."""
    try:
        found = lance.dataset(where).to_table(with_row_id=True)
    except ValueError:
        return None
    assert lancelet.dataset(where).to_table(with_row_id=True).equals(found)
    keys, ids = found["k"].to_pylist(), found["_rowid"].to_pylist()
    assert len(set(ids)) == len(set(keys)) == len(keys)
    return dict(zip(keys, ids, strict=True))


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
def test_a_fault_at_every_operation(tmp_path: Path, name: str, fault: Fault, stable: bool) -> None:
    """The table is the old version or the new one, an error means the old one and no files, and work goes on."""
    act = deletes if name == "delete" else writes(name, stable)
    before_keys, after_keys = ACTS[name]

    def make(where: Path) -> None:
        if before_keys is not None:
            lancelet.write_dataset(rows(0, 8), where, max_rows_per_file=5, enable_stable_row_ids=stable)

    whole = attempt(tmp_path / "whole", make, act)
    assert whole.error is None
    assert any(call.startswith("settle") for call in whole.calls)
    new = content(whole.where)
    assert new is not None
    assert sorted(new) == list(after_keys)
    old = None if before_keys is None else content_of(whole.where, 1)
    for tried in attempts(tmp_path, make, act, fault, whole.calls):
        where = tried.where
        found = content(where)
        tried.check(found, old, new)
        # Whatever was left behind is in nobody's way.
        if isinstance(tried.error, Killed):
            lancelet.write_dataset(rows(500, 2), where, mode="append", enable_stable_row_ids=stable)
            assert sorted(content(where) or ()) == sorted([*(found or ()), 500, 501]), tried.label
    assert len(whole.calls) > 4


def content_of(where: Path, version: int) -> Rows:
    table = lance.dataset(where, version=version).to_table(with_row_id=True)
    return dict(zip(table["k"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


APPENDING = """
import sys
import lancelet
where = sys.argv[1]
print("ready", flush=True)
number = 0
while True:
    lancelet.write_dataset({"writer": [int(sys.argv[2])] * 50, "n": [number] * 50}, where, mode="append", max_rows_per_file=20)
    print(number, flush=True)
    number += 1
"""


def test_killed_writers(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset({"writer": [0] * 50, "n": [0] * 50}, where)
    told = 50
    for writer in range(1, 4):
        process = forked(APPENDING, where, writer)
        lines = [process.stdout.readline() for _ in range(3 + writer)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.communicate()[0].splitlines()
        told += 50 * sum(line.strip().isdecimal() for line in lines)
        count = lance.dataset(where).count_rows()
        # The last commit may have taken place just before its writer could tell.
        assert count in (told, told + 50)
        told = count
        assert lancelet.dataset(where).to_table().num_rows == count
        lancelet.dataset(where).delete(f"writer = {writer} and n = 0")
        told -= 50
    assert lance.dataset(where).count_rows() == told

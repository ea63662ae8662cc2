"""Runs: their files beside those that pylance makes of the same rows, and their rows read by both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidType
from lancelet.file import LanceFileReader
from lancelet.memwal.primary_key import PrimaryKey, bloom_filter, hashes, key_values, last_of_each, may_hold
from lancelet.memwal.run_files import Run
from lancelet.memwal.shard_manifest import ShardStates
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import KEY, OTHER, SHARD, manifests, open_writer, runs, snapshot_of

TEXTS = ["b", "a", "", "long enough to be hashed in several steps", "ü"]
KEYS: dict[str, list[tuple[str, pa.DataType, list[Any]]]] = {
    "int32": [("k", pa.int32(), [5, -1, 2**31 - 1, 0, 7])],
    "int64": [("k", pa.int64(), [5, -1, 2**63 - 1, -(2**63), 7])],
    "string": [("k", pa.string(), TEXTS)],
    "binary": [("k", pa.binary(), [b"\0", b"", b"a\0b", b"\xff" * 20, b"x"])],
    "two": [("k", pa.int32(), [5, -2, 5, 0, 7]), ("j", pa.string(), ["a", "y\0z", "b", "", "a"])],
    "int8": [("k", pa.int8(), [5, -128, 127, 0, 7])],
    "uint64": [("k", pa.uint64(), [5, 2**64 - 1, 0, 2**63, 7])],
    "bool": [("k", pa.bool_(), [True, False, True, False, True])],
    "large_string": [("k", pa.large_string(), TEXTS)],
    "large_binary": [("k", pa.large_binary(), [b"\0", b"", b"a\0b", b"\xff" * 20, b"x"])],
    "mixed": [("k", pa.uint16(), [5, 1, 5, 0, 7]), ("j", pa.large_binary(), [b"\0\0", b"a", b"", b"z", b"\xff"])],
}
FILTERED = ("int32", "int64", "string", "binary", "two")


def keyed(name: str) -> pa.Table:
    columns = KEYS[name]
    fields = [pa.field(key, dtype, nullable=False, metadata=KEY) for key, dtype, _ in columns]
    fields += [pa.field("n", pa.int64())]
    arrays = [pa.array(values, dtype) for _, dtype, values in columns]
    return pa.table([*arrays, pa.array(range(5), pa.int64())], schema=pa.schema(fields))


def without_key() -> pa.Table:
    return pa.table({"n": pa.array([1, 1, 2], pa.int64())})


@pytest.fixture(params=[*KEYS, "no key"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The same rows written by pylance to one shard, and by us to another."""
    name = request.param
    rows = without_key() if name == "no key" else keyed(name)
    dataset = lance.write_dataset(rows.slice(0, 2), tmp_path)
    dataset.create_scalar_index("n", "BTREE")
    dataset.initialize_mem_wal()
    with dataset.mem_wal_writer(str(OTHER)) as theirs, open_writer(tmp_path, SHARD) as ours:
        for writer in (theirs, ours):
            writer.put(rows)
            writer.put(rows.slice(1, 2))
            if name != "no key":
                writer.delete(rows.slice(3, 1))
    return name, tmp_path


def test_runs_have_the_files_of_pylance(pair: tuple[str, Path]) -> None:
    name, where = pair
    (ours,), (theirs,) = runs(where, SHARD), runs(where, OTHER)
    mine, other = open_snapshot(ours), open_snapshot(theirs)
    for message in (mine.manifest.message, other.manifest.message):
        for fragment in message.fragments:
            fragment.deletion_file.ClearField("id")
            for file in fragment.files:
                file.path = ""
                file.ClearField("file_size_bytes")
    assert mine.version == other.version == 1
    assert mine.manifest.message.fields == other.manifest.message.fields
    assert mine.manifest.message.fragments == other.manifest.message.fragments
    assert mine.manifest.message.data_format == other.manifest.message.data_format
    assert (
        [index.name for index in mine.manifest.indices] == [index.name for index in other.manifest.indices] == ["n_idx"]
    )
    assert lance.dataset(ours).to_table() == lance.dataset(theirs).to_table()
    assert (ours / "_pk_index").exists() == (theirs / "_pk_index").exists() == (name != "no key")
    if name in FILTERED or name == "no key":
        assert (ours / "bloom_filter.bin").read_bytes() == (theirs / "bloom_filter.bin").read_bytes()
    else:
        assert (ours / "bloom_filter.bin").read_bytes() == b"\xff" * 32768
    for file in ("page_data.lance", "page_lookup.lance") if name != "no key" else ():
        readers = [LanceFileReader(str(run / "_pk_index" / file)) for run in (ours, theirs)]
        mine_file, other_file = (reader.read_all().to_table() for reader in readers)
        if file == "page_data.lance":
            # Rows of equal keys are in any order.
            mine_file, other_file = (
                table.sort_by([("values", "ascending"), ("ids", "ascending")]) for table in (mine_file, other_file)
            )
        assert mine_file.to_pydict() == other_file.to_pydict()
        assert mine_file.schema.types == other_file.schema.types
        versions = [(run / "_pk_index" / file).read_bytes()[-8:] for run in (ours, theirs)]
        assert versions[0] == versions[1]


def test_states_say_the_same_of_runs(pair: tuple[str, Path]) -> None:
    _, where = pair
    (ours,), (theirs,) = (list(manifests(where, shard).values())[-1].sstables for shard in (SHARD, OTHER))
    assert (ours.generation, ours.physical_rows) == (theirs.generation, theirs.physical_rows)
    assert ours.primary_key_bytes == theirs.primary_key_bytes
    assert ours.HasField("primary_key_bytes") == theirs.HasField("primary_key_bytes")


def test_pylance_reads_and_looks_up_in_runs_of_ours(pair: tuple[str, Path]) -> None:
    name, where = pair
    if name == "no key":
        pytest.skip("pylance does not scan runs without a primary key")
    dataset = lance.dataset(where)
    answers = []
    for shard in (SHARD, OTHER):
        snapshot = snapshot_of(where, shard)
        scanned = lance.LsmScanner.from_snapshots(dataset, [snapshot]).to_table()
        planner = lance.LsmPointLookupPlanner(dataset, [snapshot])
        columns = [(key, dtype) for key, dtype, _ in KEYS[name]]
        found = []
        for row in keyed(name).to_pylist():
            arrays = [pa.array([row[key]], dtype) for key, dtype in columns]
            asked = arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, [key for key, _ in columns])
            found.append(planner.plan_lookup(asked).to_table().to_pylist())
        answers.append((sorted(scanned.to_pylist(), key=str), found))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("shard", [SHARD, OTHER])
@pytest.mark.spread(0.5, each=False)
def test_keys_are_found_in_runs_of_either(pair: tuple[str, Path], shard: Any) -> None:
    name, where = pair
    if name == "no key":
        pytest.skip("there are no keys to look up")
    states = ShardStates.of(open_store(where), shard)
    newest = states.latest()
    assert newest is not None
    schema = open_snapshot(where).manifest.schema
    run = Run.open(states.store, newest.sstables[0], schema)
    key = PrimaryKey.of(schema)
    data = keyed(name).to_pylist()
    for row in data:
        columns = [pa.array([row[column]], dtype) for column, dtype in zip(key.names, key.types, strict=True)]
        assert run.may_hold(hashes(columns))
        expected = {
            at for at, other in enumerate([*data, *data[1:3], data[3]]) if all(other[c] == row[c] for c in key.names)
        }
        assert set(run.rows_of(key, columns).tolist()) == expected


def test_the_key_of_several_columns_sorts_as_the_specification_says() -> None:
    columns = [pa.array([-2], pa.int32()), pa.array(["y\0z"])]
    assert key_values(columns)[0].as_py() == bytes.fromhex("017FFFFFFFFFFFFFFE01" + "7900FF7A" + "0000")


def test_the_filter_knows_its_keys_and_few_others() -> None:
    present, absent = (pa.array(np.arange(first, 8000, 2), pa.int64()) for first in (0, 1))
    data, known, unknown = bloom_filter([present]), hashes([present]), hashes([absent])
    assert known is not None
    assert unknown is not None
    assert may_hold(data, known).all()
    assert may_hold(data, unknown).mean() < 0.01


def test_the_last_row_of_a_key_counts() -> None:
    assert last_of_each(pa.array([3, 1, 3, 2, 1])).tolist() == [2, 3, 4]
    assert last_of_each(pa.array([], pa.int64())).tolist() == []


@pytest.mark.parametrize("dtype", [pa.date32(), pa.float64(), pa.binary(3), pa.decimal128(9, 2), pa.timestamp("us")])
def test_keys_that_pylance_does_not_take_are_refused(tmp_path: Path, dtype: pa.DataType) -> None:
    schema = pa.schema([pa.field("k", dtype, nullable=False, metadata=KEY)])
    lance.write_dataset(schema.empty_table(), tmp_path)
    with pytest.raises(OSError, match="unsupported type"):
        lance.dataset(tmp_path).initialize_mem_wal()
    with pytest.raises(InvalidType, match="Primary key column 'k' has unsupported type"):
        lancelet.dataset(tmp_path).initialize_mem_wal()

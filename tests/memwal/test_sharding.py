"""Which shard rows belong to: the hash of every type as pylance has it, and what cannot be sharded by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput, NotSupported, UnknownColumn
from lancelet.format.schema import schema_from_arrow
from lancelet.memwal.sharding import ShardingField, ShardingSpec, bucket_of, evaluate, spec_of
from memwal.samples import rows

TYPES = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint8": (pa.uint8(), st.integers(0, 255)),
    "uint16": (pa.uint16(), st.integers(0, 2**16 - 1)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats()),
    "string": (pa.string(), st.text(max_size=11)),
    "large_string": (pa.large_string(), st.text(max_size=11)),
    "date32": (pa.date32(), st.integers(-(10**5), 10**5)),
    "time32": (pa.time32("s"), st.integers(0, 86399)),
    "time64": (pa.time64("us"), st.integers(0, 86399 * 10**6)),
    "timestamp": (pa.timestamp("us"), st.integers(-(2**60), 2**60)),
    "zoned": (pa.timestamp("ns", "UTC"), st.integers(-(2**60), 2**60)),
}


def bucketed(buckets: int = 8) -> dict[str, Any]:
    field = {"field_id": "bucket", "source_ids": [0], "transform": "bucket", "expression": None, "result_type": "int32"}
    return {"spec_id": 1, "fields": [{**field, "parameters": {"num_buckets": str(buckets)}}]}


def test_the_vectors_of_the_specification() -> None:
    assert bucket_of(pa.array([1, 2, 3, -1, 123], pa.int64()), 8).tolist() == [4, 4, 3, 0, 2]
    assert bucket_of(pa.array([1, 2, 3, None], pa.int32()), 8).tolist() == [2, 7, 1, 0]
    assert bucket_of(pa.array(["a", "b"]), 8).tolist() == [1, 5]
    assert bucket_of(pa.array([True]), 8).tolist() == [2]
    assert bucket_of(pa.array([1.25], pa.float32()), 8).tolist() == [0]
    assert bucket_of(pa.array([1.25], pa.float64()), 8).tolist() == [0]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    where = tmp_path_factory.mktemp("types")
    return {
        name: lance.write_dataset(pa.table({"x": pa.array([], dtype)}), where / name).lance_schema
        for name, (dtype, _) in TYPES.items()
    }


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=examples(5))
@given(data=st.data())
def test_buckets_are_those_of_pylance(name: str, schemas: dict[str, Any], data: st.DataObject) -> None:
    dtype, values = TYPES[name]
    array = pa.array(data.draw(st.lists(st.none() | values, max_size=20)), dtype)
    first = data.draw(st.integers(0, len(array)))
    batch = pa.record_batch([array[first:]], ["x"])
    spec = bucketed(data.draw(st.sampled_from([1, 2, 8, 1023])))
    theirs = lance.mem_wal.evaluate_sharding_spec(batch, spec, schemas[name])
    ours = evaluate(batch, spec_of(spec), schema_from_arrow(pa.schema([("x", dtype)])))
    assert ours.equals(theirs)


def test_both_zeros_and_all_nans_are_one_value() -> None:
    for dtype in (pa.float32(), pa.float64()):
        zero, minus, nan, other = bucket_of(pa.array([0.0, -0.0, math.nan, -math.nan], dtype), 1024).tolist()
        assert zero == minus
        assert nan == other


@pytest.mark.parametrize("dtype", [pa.float16(), pa.binary(), pa.date64(), pa.duration("s"), pa.decimal128(9, 2)])
def test_types_without_a_hash_are_refused(dtype: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match="Unsupported bucket sharding column type"):
        bucket_of(pa.array([], dtype), 8)


def test_other_transforms() -> None:
    schema = schema_from_arrow(pa.schema([("x", pa.string())]))
    batch = pa.record_batch([pa.array(["a", None])], ["x"])
    identity = ShardingSpec(1, [ShardingField("bucket", [0], "identity", None, "string")])
    assert evaluate(batch, identity, schema).column(0).to_pylist() == ["a", None]
    one = ShardingSpec(1, [ShardingField("bucket", [], "unsharded", None, "int32")])
    assert evaluate(batch, one, schema).column(0).to_pylist() == [0, 0]
    for transform in ("year", "truncate", "multi_bucket", None):
        with pytest.raises(
            NotSupported, match=f"Unsupported MemWAL sharding transform for field 'bucket': {transform!r}"
        ):
            evaluate(batch, ShardingSpec(1, [ShardingField("bucket", [0], transform, None, "int32")]), schema)
    with pytest.raises(InvalidInput, match="missing 'num_buckets'"):
        evaluate(batch, ShardingSpec(1, [ShardingField("bucket", [0], "bucket", None, "int32")]), schema)
    with pytest.raises(InvalidInput, match="positive num_buckets, got 0"):
        evaluate(batch, spec_of(bucketed(0)), schema)
    with pytest.raises(InvalidInput, match="has a spec_id and fields"):
        spec_of({"fields": []})
    with pytest.raises(UnknownColumn, match="column 'x' is not in the data"):
        evaluate(pa.record_batch([pa.array([1])], ["y"]), spec_of(bucketed()), schema)


MODES: dict[str, dict[str, Any]] = {
    "manual": {},
    "bucket": {"bucket_column": "id", "num_buckets": 7},
    "identity": {"identity_column": "text"},
    "unsharded": {"unsharded": True},
    "no indices": {"maintained_indexes": []},
    "some indices": {"maintained_indexes": ["id_idx"]},
    "options": {"unsharded": True, "durable_write": False, "hnsw_params": {"a": {"num_edges": 3}}},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_table_is_initialized_as_pylance_does(tmp_path: Path, mode: str) -> None:
    entries = []
    for library, where in ((lance, tmp_path / "theirs"), (lancelet, tmp_path / "ours")):
        dataset = library.write_dataset(rows([1, 2]), where)
        dataset.create_scalar_index("id", "BTREE")
        assert dataset.mem_wal_index_details() is None
        assert dataset.initialize_mem_wal(**MODES[mode]) is None
        assert dataset.version == 3
        manifest = lancelet.dataset(where).table.snapshot.manifest
        (entry,) = (index for index in manifest.indices if index.name == "__lance_mem_wal")
        entries.append((entry.name, entry.dataset_version, entry.index_details.type_url, list(entry.files)))
        entries.append(lance.dataset(where).mem_wal_index_details())
        assert lancelet.dataset(where).mem_wal_index_details() == entries[-1]
    assert entries[:2] == entries[2:]


@pytest.mark.parametrize(
    "options",
    [
        {"bucket_column": "id"},
        {"bucket_column": "id", "num_buckets": 0},
        {"bucket_column": "id", "num_buckets": 1025},
        {"bucket_column": "nothing", "num_buckets": 8},
        {"identity_column": "id", "unsharded": True},
        {"identity_column": "val"},
        {"maintained_indexes": ["nothing"]},
    ],
)
def test_what_makes_no_sense_is_refused_as_by_pylance(tmp_path: Path, options: dict[str, Any]) -> None:
    lance.write_dataset(rows([1]), tmp_path)
    with pytest.raises((OSError, ValueError)):
        lance.dataset(tmp_path).initialize_mem_wal(**options)
    with pytest.raises(lancelet.errors.LanceletError):
        lancelet.dataset(tmp_path).initialize_mem_wal(**options)
    assert lancelet.dataset(tmp_path).version == 1


def test_a_table_has_one_mem_wal(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(rows([1]), tmp_path)
    dataset.initialize_mem_wal()
    for library in (lance, lancelet):
        with pytest.raises(OSError, match="MemWAL is already initialized"):
            library.dataset(tmp_path).initialize_mem_wal()

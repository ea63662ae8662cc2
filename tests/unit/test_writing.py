"""Schemas that fit, options that make sense, names of files."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidBase, InvalidInput, InvalidOption, InvalidType, NotSupported, TableExists
from lancelet.writing.fit import fitted_schema, new_schema, side_by_side
from lancelet.writing.fragments import data_file_name
from lancelet.writing.options import writable_version, write_options
from lancelet.writing.source import open_source

TABLE = new_schema(
    pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("size", pa.float32())]), "2.2"
)


def test_names_of_data_files() -> None:
    names = {data_file_name() for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"[01]{24}[0-9a-f]{26}\.lance", name) for name in names)


def test_an_error_shows_both_schemas() -> None:
    data = pa.schema([("id", pa.int32()), ("name", pa.string()), ("colour", pa.string())])
    with pytest.raises(InvalidInput) as caught:
        fitted_schema(TABLE, data, "2.2", "2.2", "memory://t")
    assert str(caught.value).splitlines() == [
        "the columns of the data do not fit those of memory://t",
        "  `colour` is not in the table",
        "  `id` is int64 in the table, int32 in the data",
        "  table               data",
        "! id: int64 not null  id: int32",
        "  name: string        name: string",
        "! size: float         -",
        "! -                   colour: string",
        "rename or cast the columns, or write with mode='overwrite'",
    ]


def test_side_by_side_shows_repeated_names() -> None:
    twice = pa.schema([("a", pa.int8()), ("a", pa.int16())])
    assert side_by_side("left", twice, "right", pa.schema([])) == [
        "  left               right",
        "! a: int8, a: int16  -",
    ]


def test_fields_keep_their_ids() -> None:
    fitted = fitted_schema(TABLE, pa.schema([("size", pa.float32()), ("id", pa.int64())]), "2.2", "2.2", "t")
    assert [(field.name, field.id, field.nullable) for field in fitted.fields] == [
        ("size", 2, True),
        ("id", 0, False),
    ]


@pytest.mark.parametrize(
    "stored",
    [
        pa.field("s", pa.struct([("x", pa.int32()), ("y", pa.int32())]), metadata={"lance-encoding:packed": "true"}),
        pa.field("s", pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("y", pa.int32())]))),
        pa.field("s", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())]), 2)),
    ],
    ids=["packed", "map", "vector"],
)
def test_parts_of_whole_columns_cannot_be_left_out(stored: pa.Field) -> None:
    part = pa.struct([("x", pa.int32())])
    if pa.types.is_map(stored.type):
        part = pa.map_(pa.string(), part)
    elif pa.types.is_fixed_size_list(stored.type):
        part = pa.list_(part, 2)
    table = new_schema(pa.schema([stored]), "2.2")
    with pytest.raises(InvalidInput, match="`s.*y` is missing, and cannot be left out there"):
        fitted_schema(table, pa.schema([("s", part)]), "2.2", "2.2", "t")


def test_blobs_and_json_in_the_schema() -> None:
    arrow = pa.schema(
        [
            pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true", "k": "v"}),
            ("json", pa.json_()),
            ("uuid", pa.uuid()),
            ("tensor", pa.fixed_shape_tensor(pa.float32(), (2, 3))),
        ]
    )
    new = new_schema(arrow, "2.2")
    assert [field.logical_type for field in new.fields] == [
        "struct",
        "json",
        "fixed_size_binary:16",
        "fixed_size_list:float:6",
    ]
    assert new.fields[0].metadata == {"k": "v", "ARROW:extension:name": "lance.blob.v2"}
    assert [(child.name, child.id) for child in new.fields[0].children] == [("data", 1), ("uri", 2)]
    assert new.fields[1].metadata["ARROW:extension:name"] == "lance.json"
    assert new.fields[3].metadata["ARROW:extension:metadata"] == '{"shape":[2,3]}'
    assert new_schema(arrow, "2.1").fields[0].logical_type == "large_binary"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"mode": "upsert"}, InvalidInput, "mode is 'upsert'"),
        ({"max_rows_per_file": 0}, InvalidInput, "max_rows_per_file"),
        ({"max_bytes_per_file": -1}, InvalidInput, "max_bytes_per_file"),
        ({"data_storage_version": "next"}, NotSupported, "version 2.3"),
        ({"data_storage_version": "9.9"}, InvalidInput, "no file version 9.9"),
        ({"commit_lock": 5}, InvalidType, "commit_lock is called"),
        ({"commit_lock": lambda version: None}, NotSupported, "commit_lock"),
        ({"target_bases": ["a"]}, InvalidBase, "available bases"),
        ({"target_bases": "a"}, InvalidType, "target_bases"),
        ({"target_all_bases": False}, InvalidBase, "nowhere"),
        ({"external_blob_mode": "ingest", "allow_external_blob_outside_bases": True}, InvalidOption, "references"),
        ({"external_blob_mode": "x"}, InvalidInput, "external_blob_mode"),
        ({"table_id": ["x"]}, InvalidInput, "given twice"),
        ({"initial_bases": [1]}, InvalidType, "DatasetBasePath"),
        ({"auto_cleanup_options": {"interval": 1}}, InvalidInput, "older_than_seconds"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, object], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        lancelet.write_dataset({"x": [1]}, tmp_path / "t", **options)
    assert list(tmp_path.iterdir()) == []


def test_use_legacy_format_is_deprecated(tmp_path: Path) -> None:
    for legacy, version in ((True, "0.1"), (False, "2.2")):
        with pytest.warns(DeprecationWarning, match="data_storage_version"):
            dataset = lancelet.write_dataset({"x": [1]}, tmp_path / version, use_legacy_format=legacy)
        assert dataset.data_storage_version == version


def test_versions_by_name() -> None:
    assert writable_version("stable") == "2.2"
    assert write_options(data_storage_version="2.1").data_storage_version == "2.1"


@pytest.mark.parametrize("data", [None, 5, object()])
def test_data_of_no_use(data: object) -> None:
    with pytest.raises(InvalidType, match="rows cannot be taken from"):
        open_source(data)


@pytest.mark.parametrize("data", [[], iter(())])
def test_iterables_need_a_schema(data: object) -> None:
    with pytest.raises(InvalidInput, match="pass schema="):
        open_source(data)


def test_iterables_hold_batches() -> None:
    source = open_source([1], pa.schema([("a", pa.int64())]))
    with pytest.raises(InvalidType, match="which is no batch"):
        list(source.batches)


def test_a_batch_that_does_not_fit_the_schema_given() -> None:
    source = open_source([pa.record_batch({"a": ["x"]})], pa.schema([("a", pa.int64())]))
    with pytest.raises(InvalidInput, match="! a: int64 +a: string"):
        list(source.batches)


def test_arrow_data_keeps_its_own_schema() -> None:
    source = open_source(pa.table({"a": [1], "b": [2]}), pa.schema([("b", pa.int8())]))
    assert pa.Table.from_batches(source.batches).equals(pa.table({"a": [1], "b": [2]}))


def test_tables_in_memory() -> None:
    dataset = lancelet.write_dataset({"x": [1, 2, 3]}, "memory://unit/writing")
    with pytest.raises(TableExists, match="already exists"):
        lancelet.write_dataset({"x": [1]}, "memory://unit/writing", session=lancelet.Session())
    with pytest.raises(TableExists):
        dataset.insert({"x": [1]}, mode="create")
    dataset.insert({"x": [4]})
    assert dataset.delete("x = 2") == {"num_deleted_rows": 1}
    assert lancelet.dataset("memory://unit/writing").to_table()["x"].to_pylist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("predicate", "error"),
    [("", InvalidInput), ("nope = 1", InvalidInput), ("x =", InvalidInput), ("x", InvalidInput), (None, InvalidType)],
)
def test_deletes_that_make_no_sense(predicate: object, error: type) -> None:
    dataset = lancelet.write_dataset({"x": [1]}, "memory://unit/deletes", mode="overwrite")
    version = dataset.version
    with pytest.raises(error):
        dataset.delete(predicate)
    assert lancelet.dataset("memory://unit/deletes").version == version


def test_references_to_blobs_need_leave() -> None:
    blob = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
    field = pa.field("b", blob, metadata={"ARROW:extension:name": "lance.blob.v2"})
    table = pa.table([pa.array([{"data": None, "uri": "file:///x"}], blob)], schema=pa.schema([field]))
    with pytest.raises(InvalidInput, match="allow_external_blob_outside_bases"):
        lancelet.write_dataset(table, "memory://unit/blobs")
    written = lancelet.write_dataset(table, "memory://unit/blobs", allow_external_blob_outside_bases=True)
    assert written.to_table()["b"].to_pylist()[0]["blob_uri"] == "file:///x"


@pytest.mark.parametrize("operation", [None, lancelet.LanceOperation.BaseOperation(), "append"])
def test_operations_of_no_use(operation: object) -> None:
    lancelet.write_dataset({"x": [1]}, "memory://unit/operations", mode="overwrite")
    with pytest.raises(InvalidType, match="cannot be committed"):
        lancelet.LanceDataset.commit("memory://unit/operations", operation, read_version=1)


def test_a_commit_says_what_it_is_based_on() -> None:
    append = lancelet.LanceOperation.Append([])
    with pytest.raises(InvalidInput, match="read_version is missing"):
        lancelet.LanceDataset.commit("memory://unit/operations", append)
    with pytest.raises(InvalidInput, match="commit_message"):
        lancelet.LanceDataset.commit("memory://unit/operations", lancelet.Transaction(1, append), commit_message="x")
    with pytest.raises(InvalidType, match="FragmentMetadata"):
        lancelet.LanceDataset.commit("memory://unit/operations", lancelet.LanceOperation.Append([1]), read_version=1)


def test_a_fragment_has_rows() -> None:
    with pytest.raises(InvalidInput, match="there are no rows to write"):
        lancelet.LanceFragment.create("memory://unit/fragment", pa.table({"x": pa.array([], pa.int8())}))

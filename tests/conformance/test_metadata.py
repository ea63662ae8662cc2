"""Config and metadata: edits by us and by pylance leave the same table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import CommitConflict, InvalidChange

KEY = "lance-schema:unenforced-primary-key"
SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False, metadata={"old": "1"}),
        pa.field("b", pa.int64(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("s", pa.struct([("x", pa.int32())])),
        pa.field("l", pa.list_(pa.struct([("p", pa.int32())]))),
    ],
    metadata={"who": "test"},
)
Change = Callable[[Any], Any]


def make(path: Path) -> str:
    uri = str(path / "table.lance")
    table = pa.table(
        {"a": [1, 2], "b": [3, 4], "n": [None, 1], "s": [{"x": 1}] * 2, "l": [[{"p": 1}], []]}, schema=SCHEMA
    )
    lance.write_dataset(table, uri)
    return uri


def state(uri: str) -> list[Any]:
    dataset = lance.dataset(uri)

    def below(field: Any) -> Any:
        return field.name(), field.metadata, field.is_unenforced_primary_key(), [below(c) for c in field.children()]

    operation = dataset.read_transaction(dataset.version).operation
    fields = [below(field) for field in dataset.lance_schema.fields()]
    return [dataset.version, operation, fields, dataset.schema.metadata, dataset.config(), dataset.metadata]


def both(uri: str, change: Change) -> Any:
    copy = uri.replace("table.lance", "copy.lance")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(uri, copy)
    expected = change(lance.dataset(uri))
    dataset = lancelet.dataset(copy)
    assert change(dataset) == expected
    assert state(copy) == state(uri)
    assert dataset.config() == lance.dataset(uri).config()
    assert dataset.metadata == lance.dataset(uri).metadata
    assert dataset.schema.equals(lance.dataset(uri).schema, check_metadata=True)
    return expected


@pytest.mark.parametrize("method", ["update_config", "update_metadata", "update_schema_metadata"])
def test_maps(tmp_path, method):
    uri = make(tmp_path)
    for values, options in (
        ({"k": "v", "l": "m"}, {}),
        ({"k": None, "absent": None}, {}),
        ({"l": "n", "ü": "ö"}, {}),
        ({}, {}),
        ({"only": "this"}, {"replace": True}),
        ({"more": "x", "only": None}, {"replace": True}),
        ({}, {"replace": True}),
    ):
        both(uri, lambda dataset, v=values, o=options: getattr(dataset, method)(v, **o))


def test_fields(tmp_path):
    uri = make(tmp_path)
    both(uri, lambda d: d.update_field_metadata({"a": {"k": "v"}, "s.x": {"q": "r"}, "l.item.p": {"m": "n"}}))
    both(uri, lambda d: d.update_field_metadata({"a": {"k": None}, "s": {"z": "1"}}))
    both(uri, lambda d: d.update_field_metadata({"a": {"new": "v"}}, replace=True))
    both(uri, lambda d: d.update_field_metadata({}))
    both(uri, lambda d: d.update_field_metadata({"n": {"lance-encoding:compression": "zstd"}}))
    both(uri, lambda d: d.update_field_metadata({"a": {KEY: "true"}, "b": {f"{KEY}:position": "1"}}))
    # The encoding hint counts from now on.
    lancelet.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    assert lance.dataset(uri).count_rows() == 4


def test_deleted_config_keys(tmp_path):
    uri = make(tmp_path)
    both(uri, lambda d: d.update_config({"k": "v", "l": "m"}))
    both(uri, lambda d: d.delete_config_keys(["k", "absent"]))
    both(uri, lambda d: d.delete_config_keys([]))


def test_deprecated_names_warn(tmp_path):
    uri = make(tmp_path)
    for method, arguments in (
        ("replace_schema_metadata", ({"k": "v"},)),
        ("replace_field_metadata", ("a", {"k": "v"})),
    ):

        def change(dataset: Any, method=method, arguments=arguments) -> None:
            with pytest.warns(DeprecationWarning, match=method):
                getattr(dataset, method)(*arguments)

        both(uri, change)


def refused(uri: str, change: Change, kind: type[Exception], match: str | None = None) -> None:
    before = lance.dataset(uri).version
    for module in (lance, lancelet):
        with pytest.raises(kind):
            change(module.dataset(uri))
    with pytest.raises(kind, match=match):
        change(lancelet.dataset(uri))
    assert lance.dataset(uri).version == before


def test_bad_values(tmp_path):
    uri = make(tmp_path)
    for method in ("update_config", "update_metadata", "update_schema_metadata"):
        refused(uri, lambda d, m=method: getattr(d, m)({"k": 1}), TypeError, "texts")
        refused(uri, lambda d, m=method: getattr(d, m)("k"), TypeError, "dict")
    refused(uri, lambda d: d.delete_config_keys("k"), TypeError, "list")
    refused(uri, lambda d: d.update_field_metadata({"zz": {"k": "v"}}), OSError, "not found")
    refused(uri, lambda d: d.update_field_metadata({"A": {"k": "v"}}), OSError, "not found")
    refused(uri, lambda d: d.update_field_metadata({0: {"k": "v"}}), TypeError, "dict")
    refused(uri, lambda d: d.update_field_metadata({"a": {"k": 1}}), TypeError, "texts")
    refused(uri, lambda d: d.update_field_metadata({"n": {KEY: "true"}}), OSError, "nullable")
    refused(uri, lambda d: d.update_field_metadata({"s.x": {KEY: "true"}}), OSError, "nullable")


def test_a_primary_key_is_chosen_once(tmp_path):
    uri = make(tmp_path)
    both(uri, lambda d: d.update_field_metadata({"a": {KEY: "true"}}))
    both(uri, lambda d: d.update_field_metadata({"a": {"other": "x"}}))
    for edit in ({"a": {KEY: None}}, {"b": {KEY: "true"}}):
        refused(uri, lambda d, e=edit: d.update_field_metadata(e), OSError, "cannot be changed")
    refused(uri, lambda d: d.update_field_metadata({"a": {"k": "v"}}, replace=True), OSError, "cannot be changed")


def test_edits_of_the_same_key_conflict(tmp_path):
    uri = make(tmp_path)
    first, second, third = (lancelet.dataset(uri) for _ in range(3))
    first.update_config({"k": "1"})
    second.update_config({"l": "2"})
    with pytest.raises(CommitConflict):
        third.update_config({"k": "3"})
    assert lance.dataset(uri).config() == {"k": "1", "l": "2"}


def test_a_field_that_is_gone(tmp_path):
    uri = make(tmp_path)
    old = lancelet.dataset(uri)
    lance.dataset(uri).drop_columns(["n"])
    with pytest.raises(ValueError, match="no field"):
        old.update_field_metadata({"n": {"k": "v"}})
    with pytest.raises(InvalidChange, match="not found"):
        lancelet.dataset(uri).update_field_metadata({"n": {"k": "v"}})

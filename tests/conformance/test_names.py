"""Names and texts of any Unicode: what a write takes, a read gives back, and pylance too; the rest is refused first."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import LanceletError
from lancelet.file import LanceFileReader, LanceFileWriter
from lancelet.fragment import LanceFragment, write_fragments
from lancelet.udf import batch_udf

NAMES = st.text(st.characters(categories=("L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co")), min_size=1, max_size=6)
HALF = "a\ud800b"
CHEAP = settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
numbers = itertools.count()


def files_below(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def attempted(call: Any, folder: Path) -> bool:
    """Whether a write took place; one that was refused says why, and leaves nothing."""
    before = files_below(folder)
    try:
        call()
    except LanceletError as error:
        assert files_below(folder) == before
        assert str(error).replace("\n", " ").isprintable()
        return False
    return True


@CHEAP
@example(name="a\0b")
@given(name=NAMES)
def test_columns(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    root = tmp_path_factory.mktemp("names")
    flat, nested = pa.table({name: [1, 2]}), pa.table({"s": [{name: 1}, {name: 2}]})
    for data in (flat, nested):
        place = root / f"t{next(numbers)}"
        if not attempted(lambda data=data, place=place: lancelet.write_dataset(data, place), root):
            assert "\0" in name or "." in name
            for call in (
                lambda data=data: write_fragments(data, root / "f"),
                lambda data=data: LanceFragment.create(root / "f", data),
                lambda data=data: LanceFileWriter(str(root / "x.lance"), data.schema),
            ):
                assert not attempted(call, root)
            continue
        assert lancelet.dataset(place).to_table() == data
        assert lance.dataset(str(place)).schema == data.schema
        assert lancelet.write_dataset(data, place, mode="append").to_table() == pa.concat_tables([data, data])
        assert lancelet.write_dataset(data, place, mode="overwrite").to_table() == data
        with LanceFileWriter(str(root / f"{next(numbers)}.lance"), data.schema) as writer:
            writer.write_batch(data)
        assert LanceFileReader(writer._store.join(writer._name)).read_all().to_table() == data
        assert lancelet.dataset(place).take([1]) == data.slice(1)


@CHEAP
@example(name="a\0b")
@given(name=NAMES)
def test_columns_that_come_later(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    root = tmp_path_factory.mktemp("later")

    @batch_udf()
    def computed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([batch.column(0)], [name])

    changes = [
        lambda dataset: dataset.add_columns({name: "id"}),
        lambda dataset: dataset.add_columns(computed),
        lambda dataset: dataset.add_columns(pa.field(name, pa.int64())),
        lambda dataset: dataset.alter_columns({"path": "id", "name": name}),
        lambda dataset: dataset.merge(pa.table({"k": [1, 2], name: [1, 2]}), "id", "k"),
    ]
    for change in changes:
        dataset = lancelet.write_dataset({"id": [1, 2]}, root / f"t{next(numbers)}")
        if attempted(lambda change=change, dataset=dataset: change(dataset), root):
            names = lancelet.dataset(dataset.uri).to_table().schema.names
            assert name in names
            assert lance.dataset(dataset.uri).schema.names == names
        else:
            assert "\0" in name or "." in name or name in ("id", "k")
            assert lancelet.dataset(dataset.uri).version == 1


@CHEAP
@example(key="k\0", value="\0")
@given(key=NAMES, value=st.text(st.characters(exclude_categories=("Cs",)), max_size=4))
def test_metadata(tmp_path_factory: pytest.TempPathFactory, key: str, value: str) -> None:
    place = str(tmp_path_factory.mktemp("metadata") / "t")
    data = pa.table({"id": [1]}, schema=pa.schema([pa.field("id", pa.int64(), metadata={key: value})], {key: value}))
    dataset = lancelet.write_dataset(data, place, commit_message=value, transaction_properties={key: value})
    dataset.update_config({key: value})
    dataset.update_metadata({key: value})
    dataset.update_schema_metadata({f"2{key}": value})
    dataset.update_field_metadata({"id": {f"2{key}": value}})
    dataset.create_scalar_index("id", "BTREE", name=key)
    for opened in (lancelet.dataset(place), lance.dataset(place)):
        assert opened.config()[key] == opened.metadata[key] == value
        encoded = {key.encode(): value.encode(), f"2{key}".encode(): value.encode()}
        assert opened.schema.metadata == opened.schema.field("id").metadata == encoded
        assert [index.name for index in opened.describe_indices()] == [key]
        assert opened.read_transaction(1).transaction_properties[key] == value


@CHEAP
@given(name=NAMES)
def test_tags_and_branches(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    root = tmp_path_factory.mktemp("refs")
    dataset = lancelet.write_dataset({"id": [1]}, root / "t")
    if attempted(lambda: dataset.tags.create(name, 1), root):
        assert lancelet.dataset(root / "t").tags.list()[name]["version"] == 1
        assert lance.dataset(str(root / "t"), version=name).version == 1
    if attempted(lambda: dataset.create_branch(name), root):
        assert name in lancelet.dataset(root / "t").branches.list()
        assert name in lance.dataset(str(root / "t")).branches.list()


HALVES: dict[str, Any] = {
    "column of a dict": lambda t, p: lancelet.write_dataset({HALF: [1]}, p),
    "value of a dict": lambda t, p: lancelet.write_dataset({"x": [HALF]}, p),
    "value of a row": lambda t, p: lancelet.write_dataset([{"x": HALF}], p),
    "message": lambda t, p: lancelet.write_dataset({"x": [1]}, p, commit_message=HALF),
    "property": lambda t, p: lancelet.write_dataset({"x": [1]}, p, transaction_properties={"k": HALF}),
    "base": lambda t, p: lancelet.write_dataset({"x": [1]}, p, initial_bases=[lancelet.DatasetBasePath(p, HALF)]),
    "place": lambda t, p: lancelet.write_dataset({"x": [1]}, f"{p}{HALF}"),
    "open": lambda t, p: lancelet.dataset(f"{p}{HALF}"),
    "config": lambda t, p: t.update_config({HALF: "v"}),
    "config value": lambda t, p: t.update_config({"k": HALF}),
    "config key": lambda t, p: t.delete_config_keys([HALF]),
    "metadata": lambda t, p: t.update_metadata({"k": HALF}),
    "schema metadata": lambda t, p: t.update_schema_metadata({HALF: "v"}),
    "field metadata": lambda t, p: t.update_field_metadata({"id": {"k": HALF}}),
    "field": lambda t, p: t.update_field_metadata({HALF: {"k": "v"}}),
    "tag": lambda t, p: t.tags.create(HALF, 1),
    "version": lambda t, p: t.checkout_version(HALF),
    "branch": lambda t, p: t.create_branch(HALF),
    "index": lambda t, p: t.create_scalar_index("id", "BTREE", name=HALF),
    "index of": lambda t, p: t.create_scalar_index(HALF, "BTREE"),
    "dropped index": lambda t, p: t.drop_index(HALF),
    "filter": lambda t, p: t.to_table(filter=f"name = '{HALF}'"),
    "filter on": lambda t, p: t.to_table(filter=f"`{HALF}` = 1"),
    "like": lambda t, p: t.count_rows(f"name LIKE '{HALF}%'"),
    "columns": lambda t, p: t.to_table(columns=[HALF]),
    "expression": lambda t, p: t.to_table(columns={"x": f"'{HALF}'"}),
    "output": lambda t, p: t.to_table(columns={HALF: "id"}),
    "take": lambda t, p: t.take([0], columns=[HALF]),
    "delete": lambda t, p: t.delete(f"name = '{HALF}'"),
    "update": lambda t, p: t.update({"name": f"'{HALF}'"}),
    "updated": lambda t, p: t.update({HALF: "1"}),
    "new column": lambda t, p: t.add_columns({HALF: "id"}),
    "new values": lambda t, p: t.add_columns({"x": f"'{HALF}'"}),
    "rename": lambda t, p: t.alter_columns({"path": "id", "name": HALF}),
    "renamed": lambda t, p: t.alter_columns({"path": HALF, "name": "x"}),
    "drop": lambda t, p: t.drop_columns([HALF]),
    "merge": lambda t, p: t.merge_insert(HALF),
    "insert": lambda t, p: t.insert([{"id": 1, "name": HALF}]),
    "order": lambda t, p: t.scanner(order_by=[HALF]).to_table(),
    "clone": lambda t, p: t.shallow_clone(f"{p}{HALF}", 1),
    "file metadata": lambda t, p: LanceFileWriter(f"{p}.lance").add_schema_metadata(HALF, "v"),
    "file": lambda t, p: LanceFileWriter(f"{p}{HALF}.lance", pa.schema({"x": pa.int64()})),
}


@pytest.mark.parametrize("case", HALVES)
def test_half_a_character_is_refused_in_our_own_words(tmp_path: Path, case: str) -> None:
    dataset = lancelet.write_dataset({"id": [1], "name": ["a"]}, tmp_path / "t")
    before = files_below(tmp_path)
    with pytest.raises(LanceletError) as refusal:
        HALVES[case](dataset, str(tmp_path / "new"))
    str(refusal.value).encode()
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("place", ["/data/x.parquet", Path("x.csv"), b"x"], ids=str)
def test_a_place_where_the_rows_belong(tmp_path: Path, place: Any) -> None:
    with pytest.raises(TypeError, match=r"the rows come first.*pyarrow.dataset") as refusal:
        lancelet.write_dataset(place, tmp_path / "t")
    assert os.fsdecode(place) in str(refusal.value)
    assert isinstance(refusal.value, ValueError), "as in pylance"

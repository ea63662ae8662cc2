"""What a manifest says that a file has, the file has: otherwise that is an error, never nulls."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import CorruptFile
from lancelet.format.proto import table_pb2
from lancelet.format.schema import Schema
from lancelet.table.commit.deletion_write import bitmap_bytes
from lancelet.table.commit.operations import DataOverlay
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest import flags
from lancelet.table.manifest.fragment import OverlayFile
from lancelet.testing import assert_identical
from lancelet.writing.fragments import Limits, write_fragment_files

VERSIONS = ("legacy", "2.0", "2.1", "2.2")


def edit(where: Path, change: Callable[[table_pb2.Manifest], object]) -> None:
    """Change the newest manifest of a table in place."""
    path = min((where / "_versions").glob("*.manifest"))
    data = path.read_bytes()
    (position,) = struct.unpack("<q", data[-16:-8])
    message = table_pb2.Manifest.FromString(data[position + 4 : -16])
    change(message)
    body = message.SerializeToString()
    path.write_bytes(data[:position] + struct.pack("<I", len(body)) + body + data[-16:])


def rows(count: int = 6) -> pa.Table:
    return pa.table(
        {
            "a": pa.array(range(count), pa.int64()),
            "t": [f"t{i}" for i in range(count)],
            "s": [{"x": i, "y": [i] * (i % 3)} for i in range(count)],
        }
    )


def claim(file: table_pb2.DataFile, field_id: int, column: int) -> None:
    file.fields.append(field_id)
    if file.file_major_version >= 2:
        file.column_indices.append(column)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("column", [7, 100])
def test_a_claim_that_the_file_does_not_keep_is_an_error(tmp_path: Path, version: str, column: int) -> None:
    """A column added without values is null; once a manifest gives it to the file, it is missing there."""
    lance.write_dataset(rows(), tmp_path, data_storage_version=version)

    def add(message: table_pb2.Manifest) -> None:
        field = message.fields.add()
        field.CopyFrom(message.fields[0])
        field.name, field.id = "new", 50

    edit(tmp_path, add)
    honest = lancelet.dataset(tmp_path)
    assert honest.to_table()["new"].null_count == 6
    assert honest.verify(deep=True).ok
    edit(tmp_path, lambda message: claim(message.fragments[0].files[0], 50, column))
    dataset = lancelet.dataset(tmp_path)
    (name,) = (file.name for file in (tmp_path / "data").iterdir())
    for read in (dataset.to_table, lambda: dataset.take([0]), lambda: dataset.to_table(filter="new is null")):
        with pytest.raises(CorruptFile, match="says that it has field 50") as caught:
            read()
        assert name in str(caught.value)
        assert "'new'" in str(caught.value)
    assert_identical(dataset.to_table(["a"]), rows().select(["a"]))
    for deep in (False, True):
        report = dataset.verify(deep=deep)
        assert not report.ok
        assert "field 50" in str(report)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_field_without_a_column_is_an_error(tmp_path: Path, version: str) -> None:
    lance.write_dataset(rows(), tmp_path, data_storage_version=version)

    def lose(message: table_pb2.Manifest) -> None:
        message.fragments[0].files[0].column_indices[0] = -1

    edit(tmp_path, lose)
    with pytest.raises(CorruptFile, match="field 0"):
        lancelet.dataset(tmp_path).to_table(["a"])
    assert not lancelet.dataset(tmp_path).verify().ok


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_another_version_than_its_manifest_says_is_an_error(tmp_path: Path, version: str) -> None:
    lance.write_dataset(rows(), tmp_path, data_storage_version=version)

    def lie(message: table_pb2.Manifest) -> None:
        file = message.fragments[0].files[0]
        if version == "legacy":
            file.column_indices[:] = range(len(file.fields))
            file.file_major_version, file.file_minor_version = 2, 0
        else:
            del file.column_indices[:]
            file.file_major_version, file.file_minor_version = 0, 2

    edit(tmp_path, lie)
    with pytest.raises(CorruptFile, match="it is a file of version"):
        lancelet.dataset(tmp_path).to_table()


def test_lists_without_items_are_an_error(tmp_path: Path) -> None:
    lance.write_dataset(rows().select(["s"]), tmp_path, data_storage_version="2.0")

    def lose(message: table_pb2.Manifest) -> None:
        items = next(field.id for field in message.fields if field.name == "item")
        file = message.fragments[0].files[0]
        at = list(file.fields).index(items)
        file.fields[at] = -2

    edit(tmp_path, lose)
    with pytest.raises(CorruptFile, match="not their items"):
        lancelet.dataset(tmp_path).to_table()


def test_spilled_row_ids_that_no_file_has_are_an_error(tmp_path: Path) -> None:
    lance.write_dataset(rows(), tmp_path, enable_stable_row_ids=True)

    def lie(message: table_pb2.Manifest) -> None:
        message.fragments[0].column_row_ids.SetInParent()
        message.reader_feature_flags |= 2048
        message.writer_feature_flags |= 2048

    edit(tmp_path, lie)
    with pytest.raises(CorruptFile, match="none of them has field -3"):
        lancelet.dataset(tmp_path).to_table(with_row_id=True)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_renumbered_or_refused_but_never_null(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A legacy file is found by the places of its fields, whatever the manifest calls them, or refused."""
    where = tmp_path_factory.mktemp("t")
    table = rows().append_column("u", pa.array(range(10, 16)))
    lance.write_dataset(table, where, data_storage_version="legacy")
    fields = [field.id for field in lancelet.dataset(where).table.snapshot.manifest.schema.walk()]
    shift = data.draw(st.integers(0, 9))
    moved = {old: old + shift for old in fields}
    if data.draw(st.booleans()):
        moved[data.draw(st.sampled_from(fields))] = data.draw(st.integers(40, 60))
    renamed = data.draw(st.booleans())

    def renumber(message: table_pb2.Manifest) -> None:
        for field in message.fields:
            field.id = moved[field.id]
            if field.parent_id != -1:
                field.parent_id = moved[field.parent_id]
            if renamed and field.name == "u":
                field.name = "other"
        file = message.fragments[0].files[0]
        file.fields[:] = [moved[field] for field in file.fields]

    edit(where, renumber)
    names = [*table.column_names[:-1], "other" if renamed else "u"]
    try:
        found = lancelet.dataset(where).to_table()
    except CorruptFile as error:
        assert "the manifest says that it has field" in str(error)
        assert renamed
        return
    assert_identical(found.rename_columns(table.column_names), table)
    assert found.column_names == names


def test_an_overlay_of_a_child_leaves_its_siblings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells belong to single fields: new values of ``s.x`` say nothing about ``s.y``."""
    monkeypatch.setattr(flags, "READABLE", flags.READABLE | flags.Feature.OVERLAY_FILES)
    table = pa.table({"s": [{"x": i, "y": f"y{i}"} for i in range(5)]})
    dataset = lancelet.write_dataset(table, tmp_path)
    snapshot = dataset.table.snapshot
    (top,) = snapshot.manifest.schema.fields
    part = Schema((replace(top, children=top.children[:1]),))
    values = pa.record_batch({"s": [{"x": 70}, {"x": 90}]})
    with WrittenFiles(snapshot.store) as files:
        fragments = write_fragment_files(snapshot.store, part, [values], version="2.2", limits=Limits(), files=files)
        overlay = OverlayFile(fragments[0].files[0], (bitmap_bytes(np.array([1, 3], np.uint32)),), 0)
        commit(snapshot, DataOverlay(((0, (overlay,)),)), files=files)
    wanted = [{"x": {1: 70, 3: 90}.get(i, i), "y": f"y{i}"} for i in range(5)]
    assert lancelet.dataset(tmp_path).to_table()["s"].to_pylist() == wanted
    assert lancelet.dataset(tmp_path).take([3, 0])["s"].to_pylist() == [wanted[3], wanted[0]]

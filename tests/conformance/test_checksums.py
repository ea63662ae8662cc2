"""Checksums of files: on request every changed bit is found, pylance does not mind them, and without them nothing changes."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancelet
from lancelet.errors import CorruptFile, InvalidInput, InvalidOption
from lancelet.file.checksums import check_file
from lancelet.file.writer import FileWriter
from lancelet.format.schema import schema_from_arrow
from lancelet.store import open_store
from lancelet.store.checksum import Checksum
from lancelet.testing import assert_identical

FLIPS = 300


def rows(start: int = 0, count: int = 400) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"a": numbers, "b": [f"row {n % 50}" for n in numbers], "f": [n / 7 for n in numbers]})


def checked(where: Path) -> dict[str, bool]:
    """Which files have checksums, all of which are right."""
    store = open_store(where)
    return {path.name: check_file(store.open(str(path.relative_to(where)))) for path in where.rglob("*.lance")}


@pytest.mark.parametrize("cuts", [(), (1,), (31, 32), (7, 40, 41, 100), (64, 96)])
def test_the_hash_does_not_depend_on_pieces(cuts: tuple[int, ...]) -> None:
    data = bytes(range(256))[:151]
    whole, pieces = Checksum(), Checksum()
    whole.update(data)
    for start, stop in zip((0, *cuts), (*cuts, len(data)), strict=True):
        pieces.update(data[start:stop])
    assert whole.digest() == pieces.digest()
    # Of the published XXH64 of nothing, with seed 0.
    assert Checksum().digest() == 0xEF46DB3751D8E999


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_every_changed_bit_is_found(tmp_path: Path, version: str) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(rows(), where, checksums=True, data_storage_version=version, max_rows_per_file=200)
    assert list(checked(where).values()) == [True, True]
    files = sorted((where / "data").iterdir())
    draw = random.Random(version)
    for _ in range(FLIPS // 3):
        file = draw.choice(files)
        intact = file.read_bytes()
        data = bytearray(intact)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
        report = lancelet.verify(where, deep=True)
        assert str(file) in str(report.errors), str(report)
        with pytest.raises(CorruptFile, match=file.name):
            lancelet.dataset(where, verify_checksums=True).to_table()
        file.write_bytes(intact)
    assert lancelet.verify(where, deep=True).ok
    assert_identical(lancelet.dataset(where, verify_checksums=True).to_table(), rows())


def test_every_changed_bit_of_an_index_is_found(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(rows(), where, checksums=True).create_scalar_index("b", "BITMAP")
    (file,) = (where / "_indices").rglob("*.lance")
    intact = file.read_bytes()
    draw = random.Random(1)
    for _ in range(30):
        data = bytearray(intact)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
        assert str(file) in [finding.place for finding in lancelet.verify(where, deep=True).errors]
        with pytest.raises(CorruptFile, match=file.name):
            lancelet.dataset(where, verify_checksums=True).to_table(filter="b = 'row 3'")


def test_files_of_blobs_are_checked(tmp_path: Path) -> None:
    where = tmp_path / "t"
    schema = pa.schema([("a", pa.int64()), lancelet.blob_field("b")])
    values = lancelet.blob_array([b"x" * 5_000_000, b"y" * 200_000, b"small"])
    lancelet.write_dataset(pa.table([pa.array(range(3)), values], schema=schema), where, checksums=True)
    assert lancelet.verify(where, deep=True).findings == ()
    for side in (where / "data").rglob("*.blob"):
        intact = side.read_bytes()
        side.write_bytes(intact[:7] + b"z" + intact[8:])
        assert [(f.kind, f.place) for f in lancelet.verify(where, deep=True).errors] == [("wrong checksum", str(side))]
        side.write_bytes(intact)


def test_the_config_has_every_write_add_them(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = lancelet.write_dataset(rows(), where, checksums=True)
    assert dataset.config()["lancelet.checksums"] == "true"
    lancelet.write_dataset(rows(400), where, mode="append")
    dataset = lancelet.dataset(where)
    dataset.update({"b": "'new'"}, where="a = 3")
    dataset.merge_insert("a").when_matched_update_all().execute(rows(10, 5))
    dataset.add_columns({"c": "a + 1"})
    for kind, column in (("BTREE", "a"), ("BITMAP", "b")):
        dataset.create_scalar_index(column, kind)
    dataset.optimize.compact_files(target_rows_per_fragment=10_000)
    assert all(checked(where).values())
    assert lancelet.verify(where, deep=True).ok
    lancelet.write_dataset(pa.table({"x": [1]}), where, mode="overwrite", checksums=False)
    assert not all(checked(where).values())


def test_a_table_that_was_there_can_begin_with_them(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = lancelet.write_dataset(rows(), where)
    assert set(checked(where).values()) == {False}
    dataset.update_config({"lancelet.checksums": "true"})
    lancelet.write_dataset(rows(400), where, mode="append")
    assert sorted(checked(where).values()) == [False, True]
    assert lancelet.dataset(where, verify_checksums=True).count_rows("a >= 0") == 800


def test_pylance_reads_and_changes_such_tables(tmp_path: Path) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(rows(), where, checksums=True, max_rows_per_file=100).create_scalar_index("a", "BTREE")
    theirs = lance.dataset(where)
    theirs.validate()
    assert_identical(theirs.to_table(), rows())
    assert theirs.to_table(filter="a = 7").num_rows == 1
    before = {name for name, has in checked(where).items() if has}
    lance.write_dataset(rows(400), where, mode="append")
    theirs = lance.dataset(where)
    theirs.delete("a = 5")
    theirs.update({"b": "'x'"}, where="a = 150")
    theirs.add_columns({"c": "a * 2"})
    # Files keep their checksums whatever pylance commits; its own files have none.
    assert {name for name, has in checked(where).items() if has} == before
    assert lancelet.verify(where, deep=True).ok
    theirs.optimize.compact_files()
    ours = lancelet.dataset(where, verify_checksums=True)
    assert_identical(ours.to_table(), lance.dataset(where).to_table())


def test_without_them_files_are_what_they_were(tmp_path: Path) -> None:
    """A file with a checksum is the same file, with one more buffer at its end."""
    store = open_store(tmp_path)
    batch = rows().combine_chunks().to_batches()[0]
    sizes: dict[Any, bytes] = {}
    for checksums in (False, True):
        with FileWriter(
            store.open_sink(f"{checksums}.lance"), schema_from_arrow(batch.schema), checksums=checksums
        ) as out:
            out.write_batch(batch)
            out.finish()
        sizes[checksums] = (tmp_path / f"{checksums}.lance").read_bytes()
    plain, more = sizes[False], sizes[True]
    assert more.startswith(plain[:-40])
    assert len(plain) < len(more) <= len(plain) + 16 + 64 + 64


def test_how_readers_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(rows(), where, checksums=True)
    (file,) = (where / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    lancelet.dataset(where).to_table()
    asked = lancelet.dataset(where, verify_checksums=True)
    for dataset in (asked, pickle.loads(pickle.dumps(asked))):
        with pytest.raises(CorruptFile, match="checksum"):
            dataset.to_table()
    with pytest.raises(InvalidInput, match="session"):
        lancelet.dataset(where, session=lancelet.Session(), verify_checksums=True)
    monkeypatch.setitem(os.environ, "LANCELET_VERIFY_CHECKSUMS", "1")
    with pytest.raises(CorruptFile, match="checksum"):
        lancelet.dataset(where).to_table()
    with pytest.raises(InvalidInput, match="checksums is True"):
        lancelet.write_dataset(rows(), tmp_path / "u", checksums="yes")


@pytest.mark.parametrize("count", [20, 6000])
def test_deleted_rows_are_checked_whenever_they_are_read(tmp_path: Path, count: int) -> None:
    where = tmp_path / "t"
    lancelet.write_dataset(rows(count=20_000), where, checksums=True).delete(f"a < {count} or a % 7 = 3")
    left = rows(count=20_000).filter(pc.field("a") >= count).filter(pc.field("a") - pc.field("a") / 7 * 7 != 3)
    for engine in (lancelet, lance):
        assert_identical(engine.dataset(where).to_table(), left)
    (file,) = (where / "_deletions").iterdir()
    offsets = pa.ipc.open_file(file).read_all().column(0).to_numpy().copy()
    stored = pa.ipc.open_file(file).get_batch_with_custom_metadata(0).custom_metadata
    offsets[-1] += 1
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    with pa.ipc.new_file(file, schema) as out:
        out.write_batch(pa.record_batch([pa.array(offsets)], schema=schema), custom_metadata=stored)
    with pytest.raises(CorruptFile, match="checksum"):
        lancelet.dataset(where).to_table()
    assert not lancelet.verify(where).ok


def test_files_of_version_0_1_cannot_have_them(tmp_path: Path) -> None:
    """Refused wherever they would be left out without a word."""
    rows = pa.table({"a": [1, 2]})
    with pytest.raises(InvalidOption, match="version 0.1"):
        lancelet.write_dataset(rows, tmp_path / "new", data_storage_version="legacy", checksums=True)
    assert not (tmp_path / "new").exists()
    dataset = lancelet.write_dataset(rows, tmp_path / "t", data_storage_version="legacy")
    with pytest.raises(InvalidOption, match="version 0.1"):
        dataset.insert(rows, checksums=True)
    dataset.update_config({"lancelet.checksums": "true"})
    for change in (
        lambda: dataset.insert(rows),
        lambda: dataset.update({"a": "a + 1"}),
        lambda: dataset.add_columns({"b": "a"}),
    ):
        with pytest.raises(InvalidOption, match="version 0.1"):
            change()
    assert dataset.verify(deep=True).findings == ()
    dataset.insert(rows, checksums=False)
    assert dataset.to_table()["a"].to_pylist() == [1, 2, 1, 2]
    dataset = lancelet.write_dataset(rows, tmp_path / "t", mode="overwrite", data_storage_version="stable")
    dataset.insert(rows)
    assert dataset.to_table()["a"].to_pylist() == [1, 2, 1, 2]

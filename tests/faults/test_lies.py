"""Tables that lie on purpose: every lie is refused by name."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import lancelet
from lancelet.errors import CorruptFile, LanceletError, MissingFile, NotSupported, TableNotFound, UnsafePath
from lancelet.format.proto import table_pb2


@pytest.fixture
def table(tables: dict[str, Path], tmp_path: Path) -> Path:
    where = tmp_path / "outer" / "t"
    shutil.copytree(tables["2.2"], where)
    return where


def _manifest(table: Path) -> Path:
    return min((table / "_versions").glob("*.manifest"))


def _edit(table: Path, change: Callable[[table_pb2.Manifest], object]) -> None:
    """Rewrite the newest manifest after ``change``: sections before it stay, the footer is made anew."""
    path = _manifest(table)
    data = path.read_bytes()
    (start,) = struct.unpack("<q", data[-16:-8])
    (length,) = struct.unpack_from("<I", data, start)
    message = table_pb2.Manifest.FromString(data[start + 4 : start + 4 + length])
    change(message)
    body = message.SerializeToString()
    path.write_bytes(data[:start] + struct.pack("<I", len(body)) + body + struct.pack("<q", start) + data[-8:])


def _read_all(table: Path) -> None:
    dataset = lancelet.dataset(table)
    dataset.to_table(with_row_id=True)
    dataset.take([5, 1])


def test_an_edit_that_changes_nothing(table: Path) -> None:
    _edit(table, lambda manifest: None)
    _read_all(table)


@pytest.mark.parametrize(
    "path", ["../../secret.lance", "../../../etc/passwd", "a/../../../x.lance", "/etc/passwd", ".."]
)
def test_a_path_that_leaves_the_table(table: Path, path: str) -> None:
    (data,) = (table / "data").iterdir()
    shutil.copy(data, table.parent / "secret.lance")
    _edit(table, lambda manifest: setattr(manifest.fragments[0].files[0], "path", path))
    with pytest.raises(UnsafePath, match="path"):
        _read_all(table)


@pytest.mark.parametrize("flag", [512, 4096, 8192, 1 << 17, 1 << 40, 1 << 63])
def test_an_unknown_reader_flag(table: Path, flag: int) -> None:
    _edit(table, lambda manifest: setattr(manifest, "reader_feature_flags", manifest.reader_feature_flags | flag))
    with pytest.raises(NotSupported, match=str(flag)):
        lancelet.dataset(table)


def test_an_unknown_writer_flag_does_not_hinder_reading(table: Path) -> None:
    _edit(table, lambda manifest: setattr(manifest, "writer_feature_flags", manifest.writer_feature_flags | 1 << 40))
    _read_all(table)


LIES: dict[str, Callable[[table_pb2.Manifest], object]] = {
    "a fragment of 2^60 rows": lambda m: setattr(m.fragments[0], "physical_rows", 2**60),
    "a file of 2^60 bytes": lambda m: setattr(m.fragments[0].files[0], "file_size_bytes", 2**60),
    "a file of 3 bytes": lambda m: setattr(m.fragments[0].files[0], "file_size_bytes", 3),
    "columns the file does not have": lambda m: m.fragments[0].files[0].column_indices.__setitem__(0, 9999),
    "fewer columns than fields": lambda m: m.fragments[0].files[0].column_indices.pop(),
    "a base that is not registered": lambda m: setattr(m.fragments[0].files[0], "base_id", 77),
    "a deletion base that is not registered": lambda m: setattr(m.fragments[0].deletion_file, "base_id", 77),
    "a deletion file that is not there": lambda m: setattr(m.fragments[0].deletion_file, "id", 1),
    "a data file that is not there": lambda m: setattr(m.fragments[0].files[0], "path", "gone.lance"),
    "a field type nobody knows": lambda m: setattr(m.fields[0], "logical_type", "quaternion"),
    "a vector of 2^40": lambda m: setattr(m.fields[0], "logical_type", "fixed_size_list:float:1099511627776"),
    "a vector of negative size": lambda m: setattr(m.fields[0], "logical_type", "fixed_size_list:float:-4"),
    "a decimal of 900 digits": lambda m: setattr(m.fields[0], "logical_type", "decimal:128:900:2"),
    "a field that is its own parent": lambda m: setattr(m.fields[1], "parent_id", m.fields[1].id),
    "a parent that is not there": lambda m: setattr(m.fields[1], "parent_id", 12345),
    "a file version nobody knows": lambda m: setattr(m.fragments[0].files[0], "file_major_version", 9),
    "row ids that are not row ids": lambda m: setattr(m.fragments[0], "inline_row_ids", b"\xff\xff\xff"),
    "row ids of 2^60 rows": lambda m: setattr(
        m.fragments[0], "inline_row_ids", bytes.fromhex("0a0c0a0a1080808080808080801000")[:14]
    ),
    "too few row ids": lambda m: setattr(m.fragments[0], "inline_row_ids", bytes.fromhex("0a040a021003")),
    "a fragment tree": lambda m: m.fragment_tree.SetInParent(),
    "the same fragment twice": lambda m: m.fragments.append(m.fragments[0]),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_in_a_manifest(table: Path, lie: str) -> None:
    _edit(table, LIES[lie])
    try:
        _read_all(table)
    except LanceletError as error:
        assert len(str(error)) > 20
        assert "Traceback" not in str(error)
    else:
        # Some lies do not matter: a local file knows its own size and version, and rows may be listed twice.
        harmless = {
            "a file of 2^60 bytes",
            "a file of 3 bytes",
            "a file version nobody knows",
            "the same fragment twice",
        }
        assert lie in harmless


def test_missing_files_are_named(table: Path) -> None:
    for folder in ("data", "_deletions"):
        (path,) = (table / folder).iterdir()
        moved = path.rename(table / "aside")
        with pytest.raises(MissingFile, match=path.name):
            _read_all(table)
        moved.rename(path)


def test_every_footer_is_checked_for_its_magic(table: Path) -> None:
    for path in ((table / "data").iterdir().__next__(), _manifest(table)):
        data = path.read_bytes()
        path.write_bytes(data[:-4] + b"LACN")
        with pytest.raises(CorruptFile, match=path.name):
            _read_all(table)
        path.write_bytes(data)


@pytest.mark.parametrize("numbers", [(2, 9), (3, 0), (7, 7), (0, 9)])
def test_an_unknown_file_version_is_named(table: Path, numbers: tuple[int, int]) -> None:
    (path,) = (table / "data").iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:-8] + struct.pack("<HH", *numbers) + data[-4:])
    with pytest.raises(NotSupported, match=rf"{numbers[0]}\.{numbers[1]}"):
        _read_all(table)


def test_a_page_encoding_of_the_future(table: Path) -> None:
    (path,) = (table / "data").iterdir()
    data = path.read_bytes()
    assert b"/lance.encodings21.PageLayout" in data
    path.write_bytes(data.replace(b"/lance.encodings21.PageLayout", b"/lance.encodings99.PageLayout"))
    with pytest.raises(LanceletError, match="encodings99"):
        _read_all(table)


@pytest.mark.parametrize("content", [b"", b"x", b"LANC", b"\x00" * 16, b"\x00" * 64 + b"LANC", b"\xff" * 4096])
def test_a_manifest_of_rubbish(table: Path, content: bytes) -> None:
    _manifest(table).write_bytes(content)
    with pytest.raises(LanceletError):
        lancelet.dataset(table)


def test_a_folder_instead_of_a_file(table: Path) -> None:
    (path,) = (table / "data").iterdir()
    path.unlink()
    path.mkdir()
    with pytest.raises(LanceletError, match=path.name):
        _read_all(table)


def test_two_naming_schemes_in_one_table(table: Path) -> None:
    shutil.copy(_manifest(table), table / "_versions" / "2.manifest")
    with pytest.raises(LanceletError):
        lancelet.dataset(table)


def test_no_version_left(table: Path) -> None:
    for path in (table / "_versions").glob("*.manifest"):
        path.unlink()
    with pytest.raises(TableNotFound):
        lancelet.dataset(table)

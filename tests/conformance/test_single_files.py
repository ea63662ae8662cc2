"""Single data files without a table: writing, reading, and what else lies in their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.file
import pyarrow as pa
import pytest

import lancelet
import lancelet.file
from lancelet.errors import InvalidInput, InvalidType, LanceletError
from lancelet.testing import assert_identical

ROWS = pa.table(
    {
        "a": pa.array(range(3000), pa.int64()),
        "b": pa.array([None if n % 7 == 0 else f"text {n % 50}" for n in range(3000)]),
        "c": pa.array([[n, n + 1][: n % 3] for n in range(3000)], pa.list_(pa.int32())),
    }
)
LIBRARIES = {"pylance": lance, "lancelet": lancelet}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "stable", None])
@pytest.mark.parametrize("schema", [None, ROWS.schema], ids=["schema of the rows", "schema"])
def test_both_read_what_either_wrote(tmp_path: Path, version: str | None, schema: pa.Schema | None) -> None:
    for name, library in LIBRARIES.items():
        path = str(tmp_path / f"{name}.lance")
        with library.file.LanceFileWriter(path, schema, version=version, max_page_bytes=8192) as writer:
            writer.write_batch(ROWS.slice(0, 1000))
            assert writer.add_global_buffer(b"buffer") == 1
            writer.write_batch(ROWS.slice(1000).combine_chunks().to_batches()[0])
            writer.add_schema_metadata("key", "value")
            assert writer.size_bytes is None
        assert writer.size_bytes == Path(path).stat().st_size
        assert writer.close() is None
        for reader in (lance.file.LanceFileReader(path), lancelet.file.LanceFileReader(path)):
            assert_identical(reader.read_all().to_table().replace_schema_metadata(None), ROWS)
            assert reader.num_rows() == 3000
            assert reader.read_global_buffer(1) == b"buffer"
            assert reader.metadata().schema.metadata == {b"key": b"value"}


def test_columns_of_the_metadata(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lance")
    with lancelet.file.LanceFileWriter(path) as writer:
        writer.write_batch(ROWS)
    ours, theirs = (library.file.LanceFileReader(path).metadata() for library in (lancelet, lance))

    def shown(metadata: Any) -> list[Any]:
        return [[[(b.position, b.size) for b in page.buffers] for page in column.pages] for column in metadata.columns]

    assert shown(ours) == shown(theirs)
    assert "mini_block_layout" in ours.columns[0].pages[0].encoding


WRITER_ERRORS: dict[str, Any] = {
    "no rows": lambda file, path: file.LanceFileWriter(path).close(),
    "other column": lambda file, path: file.LanceFileWriter(path, ROWS.schema).write_batch(pa.table({"z": [1]})),
    "other type": lambda file, path: file.LanceFileWriter(path, pa.schema([("a", pa.int32())])).write_batch(ROWS),
    "list": lambda file, path: file.LanceFileWriter(path).write_batch([1]),
    "unknown version": lambda file, path: file.LanceFileWriter(path, version="9"),
    "legacy version": lambda file, path: file.LanceFileWriter(path, ROWS.schema, version="legacy"),
    "no pages": lambda file, path: file.LanceFileWriter(path, ROWS.schema, max_page_bytes=0),
    "text buffer": lambda file, path: file.LanceFileWriter(path, ROWS.schema).add_global_buffer("x"),
    "number as key": lambda file, path: file.LanceFileWriter(path, ROWS.schema).add_schema_metadata(1, 2),
    "nulls": lambda file, path: file.LanceFileWriter(
        path, pa.schema([pa.field("a", pa.int64(), nullable=False)])
    ).write_batch(pa.table({"a": pa.array([None], pa.int64())})),
}


@pytest.mark.parametrize("case", WRITER_ERRORS)
def test_what_a_writer_refuses(tmp_path: Path, case: str) -> None:
    with pytest.raises((ValueError, TypeError, NotImplementedError)) as theirs:
        WRITER_ERRORS[case](lance.file, str(tmp_path / "theirs.lance"))
    with pytest.raises(LanceletError) as ours:
        WRITER_ERRORS[case](lancelet.file, str(tmp_path / "ours.lance"))
    assert isinstance(ours.value, theirs.type)


def test_an_error_leaves_no_file_and_another_write_replaces_one(tmp_path: Path) -> None:
    path = str(tmp_path / "x.lance")

    def interrupted() -> None:
        with lancelet.file.LanceFileWriter(path) as writer:
            writer.write_batch(ROWS)
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    for rows in (5, 7):
        with lancelet.file.LanceFileWriter(path) as writer:
            writer.write_batch(ROWS.slice(0, rows))
        assert lancelet.file.LanceFileReader(path).num_rows() == rows
    with pytest.raises(InvalidInput, match="closed"):
        writer.write_batch(ROWS)


def test_sessions_agree(tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"0123456789")
    found = {}
    for name, library in LIBRARIES.items():
        session = library.file.LanceFileSession(str(tmp_path / name))
        with session.open_writer("a/b.lance") as writer:
            writer.write_batch(ROWS)
        with session.open_writer("c.lance", schema=ROWS.schema, version="2.1"):
            pass
        session.upload_file(local, "up/file")
        session.upload_file(local, "up/file")
        session.download_file("up/file", tmp_path / f"down {name}")
        found[name] = [
            session.contains("a/b.lance"),
            session.contains("a"),
            session.contains("nothing"),
            sorted(session.list()),
            session.list("a"),
            session.list("nothing"),
            vars(session.list_with_delimiter()),
            vars(session.list_with_delimiter("a/")),
            session.read_range("up/file", 2, 3),
            (tmp_path / f"down {name}").read_bytes(),
            session.open_reader("a/b.lance", columns=["a"]).read_range(5, 2).to_table().to_pylist(),
            session.open_reader("c.lance").num_rows(),
            session.delete_file("c.lance"),
            sorted(session.list()),
        ]
    assert found["lancelet"] == found["pylance"]


SESSION_ERRORS: dict[str, Any] = {
    "read of nothing": lambda s: s.read_range("nothing", 0, 5),
    "read past the end": lambda s: s.read_range("x.lance", 0, 1 << 20),
    "negative": lambda s: s.read_range("x.lance", -1, 1),
    "delete of nothing": lambda s: s.delete_file("nothing"),
    "upload of nothing": lambda s: s.upload_file("/nowhere/at/all", "x"),
    "download of nothing": lambda s: s.download_file("nothing", "/nowhere/at/all"),
    "download to nowhere": lambda s: s.download_file("x.lance", "/nowhere/at/all"),
    "reader of nothing": lambda s: s.open_reader("nothing.lance"),
}


@pytest.mark.parametrize("case", SESSION_ERRORS)
def test_what_a_session_refuses(tmp_path: Path, case: str) -> None:
    raised = []
    for library in (lance, lancelet):
        session = library.file.LanceFileSession(str(tmp_path / library.__name__))
        with session.open_writer("x.lance") as writer:
            writer.write_batch(ROWS)
        with pytest.raises((OSError, ValueError, OverflowError)) as caught:
            SESSION_ERRORS[case](session)
        raised.append(caught)
    assert isinstance(raised[1].value, LanceletError)
    assert isinstance(raised[1].value, raised[0].type)


@pytest.mark.parametrize("path", ["", "/x", "../x", "a//b", "a/../../x", "."])
def test_a_session_stays_in_its_folder(tmp_path: Path, path: str) -> None:
    session = lancelet.file.LanceFileSession(str(tmp_path / "inner"))
    for call in (session.contains, session.delete_file, session.open_reader, session.open_writer):
        with pytest.raises(InvalidInput, match="inside its folder"):
            call(path)


def test_sessions_elsewhere() -> None:
    session = lancelet.file.LanceFileSession("memory://single/files")
    with session.open_writer("a/b.lance") as writer:
        writer.write_batch(ROWS)
    assert vars(session.list_with_delimiter()) == {"common_prefixes": ["a"], "objects": []}
    assert session.list_with_delimiter("a").objects == ["a/b.lance"]
    assert_identical(session.open_reader("a/b.lance").read_all().to_table(), ROWS)
    with pytest.raises(InvalidType, match="namespace_client is a LanceNamespace"):
        lancelet.file.LanceFileSession("memory://x", namespace_client=object(), table_id=["t"])


def test_files_made_for_a_table(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    dataset = lancelet.write_dataset(ROWS, where)
    with dataset.new_file_session().open_writer("data/new.lance") as writer:
        writer.write_batch(ROWS.select(["c", "a"]).slice(0, 10))
    theirs = lance.fragment.DataFile.create(lance.dataset(where), "new.lance")
    ours = lancelet.fragment.DataFile.create(dataset, "new.lance")
    for name in ("path", "fields", "column_indices", "file_major_version", "file_minor_version", "file_size_bytes"):
        assert getattr(ours, name) == getattr(theirs, name)
    fragment = lancelet.FragmentMetadata(0, [ours], 10)
    committed = lancelet.LanceDataset.commit(where, lancelet.LanceOperation.Append([fragment]), read_version=1)
    assert_identical(lance.dataset(where).to_table(), committed.to_table())
    assert committed.to_table().slice(3000)["b"].null_count == 10
    for wrong in ("nothing.lance", "other.lance", "typed.lance"):
        with dataset.new_file_session().open_writer("data/other.lance") as writer:
            writer.write_batch(pa.table({"z": [1]}))
        with dataset.new_file_session().open_writer("data/typed.lance") as writer:
            writer.write_batch(pa.table({"a": ["x"]}))
        with pytest.raises(ValueError):
            lancelet.fragment.DataFile.create(dataset, wrong)
    with pytest.raises(ValueError, match="base path 3"):
        lancelet.fragment.DataFile.create(dataset, "new.lance", base_id=3)

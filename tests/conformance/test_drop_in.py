"""What programs for pylance rely on in passing: attributes, kinds of errors, environment variables, warnings."""

from __future__ import annotations

import gc
import importlib
import json
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import lance.file
import lance.fragment
import lance.progress
import pyarrow as pa
import pytest

import lancelet
import lancelet.progress
from lancelet.errors import InvalidInput
from lancelet.file import LanceFileReader, LanceFileWriter
from lancelet.format.proto import table_pb2
from lancelet.store import open_store

BOTH = pytest.mark.parametrize("library", [lance, lancelet], ids=lambda library: library.__name__)


@BOTH
def test_progress_of_a_fragment_names_its_file(tmp_path: Path, library: Any) -> None:
    folder = tmp_path / "progress"
    kind = importlib.import_module(f"{library.__name__}.progress").FileSystemFragmentWriteProgress
    create = importlib.import_module(f"{library.__name__}.fragment").LanceFragment.create
    table = str(tmp_path / "t")
    written = create(table, pa.table({"x": [1]}), 7, progress=kind(folder.as_uri()), mode="create")
    assert [path.name for path in folder.iterdir()] == ["fragment_7.json"]
    told = json.loads((folder / "fragment_7.json").read_text())
    assert (told["id"], [file["path"] for file in told["files"]]) == (7, [written.files[0].path])


@BOTH
def test_names(library: Any) -> None:
    module = importlib.import_module(f"{library.__name__}.dataset")
    assert module.LANCE_COMMIT_MESSAGE_KEY == "__lance_commit_message"
    assert importlib.import_module(f"{library.__name__}.fragment").DEFAULT_MAX_BYTES_PER_FILE == 90 << 30


@BOTH
def test_the_path_of_a_file_can_be_called(tmp_path: Path, library: Any) -> None:
    file = library.write_dataset(pa.table({"x": [1]}), str(tmp_path / "t")).get_fragments()[0].metadata.files[0]
    with pytest.warns(DeprecationWarning, match="path"):
        called = file.path()
    assert called == file.path == pickle.loads(pickle.dumps(file)).path
    assert json.loads(json.dumps(file.path)) == file.path


@BOTH
def test_an_empty_fragment_is_refused(tmp_path: Path, library: Any) -> None:
    create = importlib.import_module(f"{library.__name__}.fragment").LanceFragment.create
    with pytest.raises(OSError):
        create(str(tmp_path / "t"), pa.table({"x": pa.array([], pa.int64())}))


@BOTH
def test_system_columns_come_as_often_as_they_are_taken(tmp_path: Path, library: Any) -> None:
    dataset = library.write_dataset(pa.table({"x": [1, 2, 3]}), str(tmp_path / "t"))
    wanted = ["_rowid", "x", "_rowid", "x", "_rowaddr", "_rowaddr"]
    taken = dataset.take([2, 0], columns=wanted)
    assert taken.schema.names == ["_rowid", "x", "_rowid", "_rowaddr", "_rowaddr"]
    assert [column.to_pylist() for column in taken.columns] == [[2, 0], [3, 1], [2, 0], [2, 0], [2, 0]]
    assert dataset._take_rows([1], columns=["_rowid", "_rowid"]).schema.names == ["_rowid", "_rowid"]


@BOTH
def test_the_environment_says_how_many_rows_a_batch_has(
    tmp_path: Path, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = library.write_dataset(pa.table({"x": range(20)}), str(tmp_path / "t"))
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "7")
    assert [batch.num_rows for batch in dataset.to_batches()] == [7, 7, 6]
    assert [batch.num_rows for batch in dataset.get_fragments()[0].to_batches()] == [7, 7, 6]
    assert [batch.num_rows for batch in dataset.to_batches(batch_size=15)] == [15, 5]


def test_a_number_of_rows_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = lancelet.write_dataset({"x": range(20)}, tmp_path / "t")
    for text in ("0", "many", "-1"):
        monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", text)
        with pytest.raises(InvalidInput, match="LANCE_DEFAULT_BATCH_SIZE"):
            dataset.to_table()
    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "")
    assert dataset.to_table().num_rows == 20


@BOTH
def test_writes_are_counted(tmp_path: Path, library: Any) -> None:
    dataset = library.write_dataset(pa.table({"x": range(5000)}), str(tmp_path / "t"))
    dataset.io_stats_incremental()
    dataset.delete("x < 10")
    stats = dataset.io_stats_incremental()
    assert (stats.write_iops > 0, stats.written_bytes > 100) == (True, True)
    nothing = dataset.io_stats_incremental()
    assert (nothing.write_iops, nothing.written_bytes) == (0, 0)


@BOTH
def test_a_writer_that_is_let_go_leaves_nothing(tmp_path: Path, library: Any) -> None:
    kind = importlib.import_module(f"{library.__name__}.file").LanceFileWriter
    writer = kind(str(tmp_path / "x.lance"), pa.schema({"x": pa.int64()}))
    writer.write_batch(pa.table({"x": range(5000)}))
    assert not writer.closed
    del writer
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    with kind(str(tmp_path / "x.lance")) as writer:
        writer.write_batch(pa.table({"x": [1]}))
    assert writer.closed
    del writer
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["x.lance"]


def test_a_program_that_ends_before_it_closes_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, pyarrow as pa; from lancelet.file import LanceFileWriter\n"
        "writer = LanceFileWriter(sys.argv[1]); writer.write_batch(pa.table({'x': [1]}))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.lance")], check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [1, 100, 8192])
def test_pages_are_as_small_as_they_are_asked_for(tmp_path: Path, size: int) -> None:
    data = pa.table({"x": range(2000), "s": ["x" * (i % 7) for i in range(2000)]})
    pages: list[list[int]] = []
    for kind, reader in ((lance.file.LanceFileWriter, lance.file.LanceFileReader), (LanceFileWriter, LanceFileReader)):
        path = str(tmp_path / f"{kind.__module__}.lance")
        with kind(path, data.schema, max_page_bytes=size, version="2.0") as writer:
            writer.write_batch(data)
        pages.append([len(column.pages) for column in reader(path).metadata().columns])
    assert pages[0] == pages[1]
    path = str(tmp_path / "x.lance")
    with LanceFileWriter(path, data.schema, max_page_bytes=size) as writer:
        writer.write_batch(data)
    assert [len(column.pages) for column in LanceFileReader(path).metadata().columns] == pages[0]
    assert lance.file.LanceFileReader(path).read_all().to_table() == data


@BOTH
def test_blobs_of_rows_that_are_gone(tmp_path: Path, library: Any) -> None:
    blobs = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.table({"b": pa.array([b"a", b"bb"], pa.large_binary())}, schema=pa.schema([blobs]))
    dataset = library.write_dataset(data, str(tmp_path / "t"), data_storage_version="2.1")
    dataset.delete("_rowid = 0")
    for how in ("ids", "addresses"):
        with pytest.raises(NotImplementedError):
            dataset.take_blobs("b", **{how: [0, 1]})
        with pytest.raises(NotImplementedError):
            dataset.read_blobs("b", **{how: [0]})
    assert dataset.take_blobs("b", indices=[0])[0].readall() == b"bb"


def test_caches_that_may_keep_nothing(tmp_path: Path) -> None:
    lancelet.write_dataset({"x": range(1000)}, tmp_path / "t").create_scalar_index("x", "BTREE")
    session = lancelet.Session(index_cache_size_bytes=0, metadata_cache_size_bytes=0)
    dataset = lancelet.dataset(tmp_path / "t", session=session)
    assert dataset.to_table(filter="x = 7").num_rows == 1
    dataset.prewarm_index("x_idx")
    assert session.size_bytes() == 0


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "NGRAM", "LABEL_LIST"])
@pytest.mark.parametrize("place", ["memory", "local"])
def test_an_index_that_is_in_memory_is_not_read_again(tmp_path: Path, kind: str, place: str) -> None:
    uri = f"memory://warm/{kind}" if place == "memory" else str(tmp_path / "t")
    values: dict[str, Any] = {"NGRAM": [f"word {i}" for i in range(3000)], "LABEL_LIST": [[i % 9] for i in range(3000)]}
    dataset = lancelet.write_dataset({"x": values.get(kind, [i % 500 for i in range(3000)])}, uri)
    dataset.create_scalar_index("x", kind)
    question = {"NGRAM": "contains(x, 'word 12')", "LABEL_LIST": "array_has_any(x, [3])"}.get(kind, "x = 7")
    truth = dataset.count_rows(question)
    warm = lancelet.dataset(uri)
    warm.prewarm_index("x_idx")
    assert warm.session().index_cache_size_bytes() > sum(
        segment.size_bytes for segment in warm.describe_indices()[0].segments
    )
    for path in open_store(uri).list_objects("_indices"):
        open_store(uri).delete(path.path)
    assert warm.count_rows(question) == truth > 0


@pytest.mark.parametrize(("flags", "version"), [(4, "2.2"), (0, "0.1")])
def test_a_table_of_old_without_files(tmp_path: Path, flags: int, version: str) -> None:
    lancelet.write_dataset({"x": pa.array([], pa.int64())}, tmp_path / "t", data_storage_version="2.0")
    (path,) = (tmp_path / "t" / "_versions").glob("*.manifest")
    data = path.read_bytes()
    at = struct.unpack("<Q", data[-16:-8])[0]
    (size,) = struct.unpack_from("<I", data, at)
    manifest = table_pb2.Manifest.FromString(data[at + 4 : at + 4 + size])
    manifest.ClearField("data_format")
    manifest.ClearField("transaction_section")
    manifest.reader_feature_flags = manifest.writer_feature_flags = flags
    message = manifest.SerializeToString()
    path.write_bytes(struct.pack("<I", len(message)) + message + struct.pack("<Q", 0) + data[-8:])
    for library in (lance, lancelet):
        assert library.dataset(str(tmp_path / "t")).data_storage_version == version


WARNED: dict[str, Any] = {
    "list_indices": lambda library, dataset, uri: dataset.list_indices(),
    "index_cache_size": lambda library, dataset, uri: library.dataset(uri, index_cache_size=3),
    "use_legacy_format": lambda library, dataset, uri: library.write_dataset(
        pa.table({"x": [1]}), f"{uri}2", use_legacy_format=False
    ),
    "fragments": lambda library, dataset, uri: importlib.import_module(
        f"{library.__name__}.fragment"
    ).LanceFragment.create(f"{uri}3", pa.table({"x": [1]}), use_legacy_format=False),
    "data_files": lambda library, dataset, uri: dataset.get_fragments()[0].metadata.data_files(),
    "field_ids": lambda library, dataset, uri: dataset.get_fragments()[0].metadata.files[0].field_ids(),
    "merge": lambda library, dataset, uri: library.LanceOperation.Merge([], pa.schema({"x": pa.int64()})),
    "schema metadata": lambda library, dataset, uri: dataset.replace_schema_metadata({"a": "b"}),
    "field metadata": lambda library, dataset, uri: dataset.replace_field_metadata("x", {"a": "b"}),
}


@BOTH
@pytest.mark.parametrize("case", WARNED)
def test_what_is_deprecated(tmp_path: Path, library: Any, case: str) -> None:
    uri = str(tmp_path / "t")
    dataset = library.write_dataset(pa.table({"x": [1]}), uri)
    with pytest.warns(DeprecationWarning, match="deprecated|out of use") as caught:
        WARNED[case](library, dataset, uri)
    if library is lancelet and case != "fragments":
        assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}


@BOTH
def test_what_ray_and_daft_call(tmp_path: Path, library: Any) -> None:
    """Datasets, fragments and parts of indices go to other processes and come back; the rest is done by their numbers."""
    rows = pa.table({"id": range(100), "s": ["x", "y"] * 50})
    dataset = library.write_dataset(rows, tmp_path / "t", max_rows_per_file=25)
    sent = pickle.loads(pickle.dumps(dataset))
    numbers = [fragment.metadata.id for fragment in sent.get_fragments()]
    assert [sent.get_fragment(number).count_rows() for number in numbers] == [25] * 4
    assert all(file.path.endswith(".lance") for one in sent.get_fragments() for file in one.data_files())
    chosen = {"fragments": [sent.get_fragment(number) for number in numbers[1:3]], "columns": ["id"]}
    found = pa.Table.from_batches(sent.scanner(**chosen, filter="id % 2 = 0").to_reader())
    assert found["id"].to_pylist() == list(range(26, 75, 2))
    told: dict[str, Any] = {"column": "id", "index_type": "BTREE", "name": "id_idx", "replace": False, "train": True}
    parts = [pickle.dumps(sent.create_index_uncommitted(**told, fragment_ids=[number])) for number in numbers]
    dataset = dataset.commit_existing_index_segments("id_idx", "id", [pickle.loads(part) for part in parts])
    assert dataset.describe_indices()[0].num_rows_indexed == 100
    again = [sent.create_index_uncommitted(**{**told, "replace": True}, fragment_ids=numbers)]
    assert library.dataset(dataset.uri).commit_existing_index_segments("id_idx", "id", again).version == 3
    written = library.fragment.write_fragments(
        pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()), tmp_path / "t", schema=rows.schema,
        max_rows_per_file=1000, max_rows_per_group=1024, max_bytes_per_file=1 << 30, mode="append", storage_options={},
    )  # fmt: skip
    append = library.LanceOperation.Append([pickle.loads(pickle.dumps(fragment)) for fragment in written])
    done = library.LanceDataset.commit(str(tmp_path / "t"), append, read_version=3, storage_options={})
    assert done.count_rows() == 200


def test_what_ray_still_hands_over(tmp_path: Path) -> None:
    """An argument of earlier releases of pylance, always None; whoever uses it is told what to give instead."""
    rows = pa.table({"id": [1, 2]})
    former: dict[str, Any] = {"storage_options_provider": None}
    written = lancelet.fragment.write_fragments(rows, tmp_path / "t", **former)
    overwrite = lancelet.LanceOperation.Overwrite(rows.schema, written)
    assert lancelet.LanceDataset.commit(tmp_path / "t", overwrite, **former).count_rows() == 2
    assert lancelet.LanceDataset(tmp_path / "t", **former).count_rows() == 2
    for act in (
        lambda: lancelet.fragment.write_fragments(rows, tmp_path / "t", storage_options_provider=3),
        lambda: lancelet.LanceDataset.commit(tmp_path / "t", overwrite, storage_options_provider=3),
        lambda: lancelet.LanceDataset(tmp_path / "t", storage_options_provider=3),
    ):
        with pytest.raises(TypeError, match="namespace_client"):
            act()

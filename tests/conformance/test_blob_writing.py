"""Blob columns as they are written: where payloads go by their size, prepared columns, values that are refused."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.blob import (
    Blob,
    BlobColumn,
    BlobDescriptor,
    BlobDescriptorArrayBuilder,
    BlobType,
    blob_array,
    blob_field,
)
from lancelet.errors import InvalidInput, InvalidOption, InvalidType, LanceletError, NotSupported, UnfitData
from lancelet.format.blob_types import BLOB_V2_NAME, LOGICAL, LOGICAL_WITHOUT_RANGES

INLINE, PACKED, DEDICATED, EXTERNAL = range(4)
SMALL = {"inline_size_threshold": 10, "dedicated_size_threshold": 100, "pack_file_size_threshold": 150}


def payload(size: int) -> bytes:
    return bytes(np.random.default_rng(size).integers(0, 256, size, np.uint8))


def blobs(*sizes: int | None) -> list[bytes | None]:
    return [None if size is None else payload(size) for size in sizes]


def table(library: Any, *columns: tuple[str, list[Any]], **thresholds: int) -> pa.Table:
    schema = pa.schema([library.blob_field(name, **thresholds) for name, _ in columns])
    return pa.table([library.blob_array(values) for _, values in columns], schema=schema)


def contents(dataset: Any, column: str = "b") -> list[bytes | None]:
    count = dataset.count_rows()
    return [None if file is None else file.readall() for file in dataset.take_blobs(column, indices=range(count))]


def side_files(where: Path) -> list[tuple[str, bytes]]:
    """Names and bytes, with the names of the data files taken away; fragment after fragment."""
    found = []
    for fragment in lance.dataset(str(where)).get_fragments():
        for file in fragment.data_files():
            folder = where / "data" / file.path.removesuffix(".lance")
            found += [(path.name, path.read_bytes()) for path in sorted(folder.glob("*"))]
    return found


def places(dataset: Any) -> list[tuple[Any, ...] | None]:
    """What descriptions say, but for positions in the data file: those are each writer's own."""
    rows = [row[name] for row in dataset.to_table().to_pylist() for name in ("b", "c")]
    return [row and (row["kind"], row["kind"] and row["position"], row["size"], row["blob_id"]) for row in rows]


def files_below(where: Path) -> set[Path]:
    return {path for path in where.rglob("*") if path.is_file()}


@settings(max_examples=examples(40), deadline=None)
@given(
    first=st.lists(st.none() | st.integers(0, 130), min_size=1, max_size=12),
    seed=st.integers(0, 9),
    inline=st.sampled_from([None, 0, 10, 60]),
    dedicated=st.sampled_from([None, 1, 50, 100]),
    pack=st.sampled_from([None, 1, 90, 150]),
    override=st.sampled_from([None, 70]),
    rows=st.sampled_from([3, 1000]),
)
def test_payloads_go_where_pylance_has_them(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[int | None],
    seed: int,
    inline: int | None,
    dedicated: int | None,
    pack: int | None,
    override: int | None,
    rows: int,
) -> None:
    where = tmp_path_factory.mktemp("sizes")
    second = [None if size is None else (size * 7 + seed) % 120 for size in first]
    thresholds = {
        name: number
        for name, number in (
            ("inline_size_threshold", inline),
            ("dedicated_size_threshold", dedicated),
            ("pack_file_size_threshold", pack),
        )
        if number is not None
    }
    made = []
    for library in (lance, lancelet):
        data = table(library, ("b", blobs(*first)), ("c", blobs(*second)), **thresholds)
        place = where / library.__name__
        library.write_dataset(data, str(place), max_rows_per_file=rows, blob_pack_file_size_threshold=override)
        made.append((lance.dataset(str(place)), side_files(place)))
    (theirs, their_files), (ours, our_files) = made
    assert our_files == their_files
    assert places(ours) == places(theirs)
    assert contents(ours) == contents(lancelet.dataset(where / "lancelet")) == blobs(*first)
    assert contents(ours, "c") == contents(lancelet.dataset(where / "lance"), "c") == blobs(*second)


def test_the_sizes_without_thresholds(tmp_path: Path) -> None:
    sizes = (0, 1, None, 64 << 10, (64 << 10) + 1, 4 << 20, (4 << 20) + 1)
    dataset = lancelet.write_dataset(table(lancelet, ("b", blobs(*sizes))), tmp_path / "t")
    kinds = [None if blob is None else blob["kind"] for blob in dataset.to_table()["b"].to_pylist()]
    assert kinds == [INLINE, INLINE, None, INLINE, PACKED, PACKED, DEDICATED]
    assert contents(lance.dataset(str(tmp_path / "t"))) == contents(dataset) == blobs(*sizes)
    assert dataset.verify(deep=True).ok


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_large_blobs_of_the_first_kind(tmp_path: Path, version: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = blobs(5, None, 70_000, 5 << 20)
    data = pa.table([pa.array(values, pa.large_binary())], schema=pa.schema([field]))
    dataset = lancelet.write_dataset(data, tmp_path / "t", data_storage_version=version)
    assert contents(lance.dataset(str(tmp_path / "t"))) == contents(dataset) == values
    assert len(side_files(tmp_path / "t")) == (2 if version == "2.2" else 0)


def test_both_append_to_one_table(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    expected: list[bytes | None] = []
    for number, library in enumerate((lancelet, lance, lancelet, lance)):
        values = blobs(number, 20 + number, 200 + number, None)
        expected += values
        first = {} if number else SMALL
        library.write_dataset(table(library, ("b", values), **first), where, mode="append" if number else "create")
    assert contents(lance.dataset(where)) == contents(lancelet.dataset(where)) == expected
    assert lancelet.dataset(where).schema.field("b").metadata == lance.dataset(where).schema.field("b").metadata


@pytest.mark.parametrize("compactor", [lance, lancelet], ids=["pylance", "lancelet"])
def test_changes_carry_payloads_along(tmp_path: Path, compactor: Any) -> None:
    where = tmp_path / "t"
    values = blobs(5, 50, 200, None, 60, 300)
    data = table(lancelet, ("b", values), **SMALL).add_column(0, "k", [range(6)])
    lancelet.write_dataset(data, where, max_rows_per_file=2)
    dataset = lancelet.dataset(where)
    dataset.update({"k": "k + 10"}, where="k = 2")
    dataset.delete("k = 0")
    extra = table(lancelet, ("b", blobs(70, 400)), **SMALL).add_column(0, "k", [[1, 9]])
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(extra)
    compactor.dataset(str(where)).optimize.compact_files()
    expected = {1: payload(70), 3: None, 4: payload(60), 5: payload(300), 9: payload(400), 12: payload(200)}
    for library in (lance, lancelet):
        found = library.dataset(str(where))
        assert dict(zip(found.to_table()["k"].to_pylist(), contents(found), strict=True)) == expected
    dataset = lancelet.dataset(where)
    assert {blob["kind"] for blob in dataset.to_table()["b"].to_pylist() if blob} == {PACKED, DEDICATED}
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert dict(zip(dataset.to_table()["k"].to_pylist(), contents(dataset), strict=True)) == expected
    kept = {path.parent.name for path in where.rglob("*.blob")}
    assert kept == {f.path.removesuffix(".lance") for one in dataset.get_fragments() for f in one.data_files()}
    clone = dataset.deep_clone(tmp_path / "clone", None)
    assert contents(clone) == contents(dataset)


def test_blobs_in_structs(tmp_path: Path) -> None:
    values = blobs(5, 50, 200)
    made = {}
    for library in (lance, lancelet):
        field = library.blob_field("b", **SMALL)
        inner = pa.StructArray.from_arrays([library.blob_array(values)], fields=[field])
        data = pa.table([inner], schema=pa.schema([pa.field("s", inner.type)]))
        made[library] = library.write_dataset(data, str(tmp_path / library.__name__))
    rows = [row["s"]["b"] for row in made[lancelet].to_table().to_pylist()]
    assert rows == [row["s"]["b"] for row in made[lance].to_table().to_pylist()]
    assert [row["kind"] for row in rows] == [INLINE, PACKED, DEDICATED]
    assert contents(made[lancelet], "s.b") == values


def test_null_structs_may_hold_anything(tmp_path: Path) -> None:
    """What is below a null is no value, and not judged as one."""
    parts = [pa.array([b"a", None], pa.large_binary()), pa.array([None, None], pa.string())]
    below = pa.StructArray.from_arrays(parts, fields=list(LOGICAL_WITHOUT_RANGES))
    field = pa.field("b", LOGICAL_WITHOUT_RANGES, metadata={"ARROW:extension:name": BLOB_V2_NAME})
    outer = pa.StructArray.from_arrays([below], fields=[field], mask=pa.array([False, True]))
    data = pa.table([outer], schema=pa.schema([pa.field("s", outer.type)]))
    dataset = lancelet.write_dataset(data, tmp_path / "t")
    assert dataset.to_table(blob_handling="all_binary")["s"].to_pylist() == [{"b": b"a"}, None]


def test_references_beside_payloads(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(payload(500))
    uri = outside.as_uri()
    values = [b"x", uri, Blob.from_uri(uri, 100, 50), None, Blob.empty(), payload(50), payload(300)]
    data = table(lancelet, ("b", values), **SMALL)
    expected = [b"x", payload(500), payload(500)[100:150], None, b"", payload(50), payload(300)]
    kept = lancelet.write_dataset(data, tmp_path / "kept", allow_external_blob_outside_bases=True)
    kinds = [None if blob is None else blob["kind"] for blob in kept.to_table()["b"].to_pylist()]
    assert kinds == [INLINE, EXTERNAL, EXTERNAL, None, INLINE, PACKED, DEDICATED]
    read = lancelet.write_dataset(data, tmp_path / "read", external_blob_mode="ingest")
    assert EXTERNAL not in [blob and blob["kind"] for blob in read.to_table()["b"].to_pylist()]
    for dataset in (kept, read, lance.dataset(str(tmp_path / "kept")), lance.dataset(str(tmp_path / "read"))):
        assert contents(dataset) == expected


BLOB_KEY = "ARROW:extension:name"
FULL = pa.struct([("data", pa.large_binary()), ("uri", pa.string()), ("position", pa.uint64()), ("size", pa.uint64())])
WRONG_VALUES = {
    "both": (FULL, {"data": b"x", "uri": "file:///x"}),
    "neither": (FULL, {"data": None, "uri": None}),
    "empty uri": (FULL, {"data": None, "uri": ""}),
    "empty range": (FULL, {"uri": "file:///x", "position": 1, "size": 0}),
    "half a range": (FULL, {"uri": "file:///x", "position": 1}),
    "range of data": (FULL, {"data": b"x", "position": 1, "size": 1}),
    "one child": (pa.struct([("data", pa.large_binary())]), {"data": b"x"}),
    "three children": (pa.struct(list(FULL)[:3]), {"data": b"x"}),
    "short offsets": (pa.struct([("data", pa.binary()), ("uri", pa.string())]), {"data": b"x"}),
    "other order": (pa.struct([("uri", pa.string()), ("data", pa.large_binary())]), {"data": b"x"}),
    "never null": (
        pa.struct([pa.field("data", pa.large_binary(), nullable=False), ("uri", pa.string())]),
        {"data": b""},
    ),
    "no struct": (pa.large_binary(), b"x"),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_values_that_pylance_refuses_too(tmp_path: Path, case: str) -> None:
    dtype, value = WRONG_VALUES[case]
    field = pa.field("b", dtype, metadata={BLOB_KEY: BLOB_V2_NAME})
    data = pa.table([pa.array([value], dtype)], schema=pa.schema([field]))
    with pytest.raises(OSError):
        lance.write_dataset(data, str(tmp_path / "theirs"), allow_external_blob_outside_bases=True)
    with pytest.raises(UnfitData, match="'b'"):
        lancelet.write_dataset(data, tmp_path / "ours", allow_external_blob_outside_bases=True)
    assert files_below(tmp_path / "ours") == set()


@pytest.mark.parametrize(
    ("key", "text"), [("inline", "x"), ("inline", "-1"), ("dedicated", "0"), ("pack-file", "0"), ("pack-file", "1e3")]
)
def test_thresholds_that_are_none(tmp_path: Path, key: str, text: str) -> None:
    name = f"lance-encoding:blob-{key}-size-threshold"
    schema = pa.schema([pa.field("b", LOGICAL, metadata={BLOB_KEY: BLOB_V2_NAME, name: text})])
    data = pa.table([blob_array([b"x"]).storage], schema=schema)
    with pytest.raises(OSError):
        lance.write_dataset(data, str(tmp_path / "theirs"))
    with pytest.raises(UnfitData, match=name):
        lancelet.write_dataset(data, tmp_path / "ours")


def test_a_column_keeps_its_thresholds(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(table(lancelet, ("b", [b"x"]), **SMALL), tmp_path / "t")
    before = files_below(tmp_path)
    for library in (lance, lancelet):
        data = table(library, ("b", [b"x"]), inline_size_threshold=30)
        with pytest.raises(OSError, match="blob-inline-size-threshold"):
            library.write_dataset(data, str(tmp_path / "t"), mode="append")
    assert files_below(tmp_path) == before
    lancelet.write_dataset(table(lancelet, ("b", [b"y"]), inline_size_threshold=10), dataset, mode="append")


def test_a_failed_write_leaves_no_side_files(tmp_path: Path) -> None:
    schema = pa.schema([blob_field("b", **SMALL)])

    def batches() -> Any:
        yield pa.record_batch([blob_array(blobs(50, 60, 200))], schema=schema)
        raise RuntimeError("no more")

    dataset = lancelet.write_dataset(table(lancelet, ("b", [b"x"]), **SMALL), tmp_path / "t")
    before = files_below(tmp_path)
    with pytest.raises(RuntimeError, match="no more"):
        lancelet.write_dataset(batches(), dataset, schema=schema, mode="append")
    assert files_below(tmp_path) == before


def test_fragments_with_side_files_without_a_commit(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    lance.write_dataset(table(lance, ("b", [b"x"]), **SMALL), where)
    written = lancelet.fragment.write_fragments(table(lancelet, ("b", blobs(50, 200))), where)
    dataset = lance.LanceDataset.commit(
        where,
        lance.LanceOperation.Append([lance.FragmentMetadata.from_json(json.dumps(f.to_json())) for f in written]),
        read_version=1,
    )
    assert contents(dataset) == contents(lancelet.dataset(where)) == [b"x", payload(50), payload(200)]


@pytest.mark.parametrize("writer", [lance, lancelet], ids=["pylance", "lancelet"])
@pytest.mark.parametrize("committer", [lance, lancelet], ids=["by pylance", "by lancelet"])
def test_prepared_columns(tmp_path: Path, writer: Any, committer: Any) -> None:
    where = str(tmp_path / "t")
    dataset = writer.write_dataset(table(writer, ("b", [b"first"])), where)
    session = dataset.new_file_session()
    packed = session.open_packed_blob_writer("data/x.lance", 1)
    packed.write_blob(b"one")
    packed.write_blobs(pa.chunked_array([pa.array([b"two", None], pa.binary()), pa.array([b"", b"3"], pa.binary())]))
    dedicated = session.open_dedicated_blob_writer("data/x.lance", 2)
    dedicated.write(b"large ")
    dedicated.write(memoryview(b"one"))
    builder = writer.BlobDescriptorArrayBuilder("b")
    builder.extend(packed.finish())
    builder.append(dedicated.finish())
    builder.append_inline(b"inside")
    builder.append_null()
    builder.extend_packed(1, [0, 3], [3, 3])
    builder.append_dedicated(2, 9)
    column = builder.finish()
    schema = pa.schema([builder.field])
    with session.open_writer("data/x.lance", schema=schema) as file:
        file.write_batch(pa.record_batch([column], schema=schema))
    described = committer.fragment.DataFile.create(committer.dataset(where), "x.lance")
    fragment = committer.FragmentMetadata(0, [described], len(column))
    committer.LanceDataset.commit(where, committer.LanceOperation.Append([fragment]), read_version=1)
    expected = [b"first", b"one", b"two", None, b"", b"3", b"large one", b"inside", None, b"one", b"two", b"large one"]
    assert contents(lance.dataset(where)) == contents(lancelet.dataset(where)) == expected


def test_a_packed_writer_makes_the_column_too(tmp_path: Path) -> None:
    made = []
    for library in (lance, lancelet):
        session = library.file.LanceFileSession(str(tmp_path / library.__name__))
        writer = session.open_packed_blob_writer("x.lance", 7)
        with pytest.raises(ValueError, match="finish_array"):
            _ = writer.field
        writer.write_blobs(pa.array([b"first", None, b""], pa.large_binary()))
        array = writer.finish_array("payload")
        made.append((array, writer.field, max(path.name for path in tmp_path.rglob("*.blob"))))
    (theirs, their_field, name), (ours, our_field, our_name) = made
    assert ours.equals(theirs)
    assert our_field.equals(their_field, check_metadata=True)
    assert name == our_name


def test_prepared_columns_belong_to_one_file(tmp_path: Path) -> None:
    builder = BlobDescriptorArrayBuilder("b")
    builder.append_inline(b"inside")
    inside = pa.table([builder.finish()], schema=pa.schema([builder.field]))
    dataset = lancelet.write_dataset(inside, tmp_path / "t")
    assert contents(lance.dataset(str(tmp_path / "t"))) == contents(dataset) == [b"inside"]
    builder = BlobDescriptorArrayBuilder("b")
    builder.extend_packed(1, [0], [5])
    beside = pa.table([builder.finish()], schema=pa.schema([builder.field]))
    with pytest.raises(UnfitData, match="LanceFileSession"):
        lancelet.write_dataset(beside, dataset, mode="append")


def test_managed_blobs_are_described_as_pylance_does() -> None:
    made = []
    for library in (lance, lancelet):
        builder = library.BlobDescriptorArrayBuilder("b")
        builder.append_managed("_blobs/x.blob", 1, 5)
        builder.append_managed("x.blob", 1, 0, base_id=7)
        builder.append_null()
        builder.append_inline(b"")
        made.append(builder.finish())
    assert made[0].equals(made[1])


BUILDER_ERRORS: dict[str, Any] = {
    "no descriptor": lambda b: b.append(b"x"),
    "text": lambda b: b.append_inline("x"),
    "lengths": lambda b: b.extend_packed(1, [0], [1, 2]),
    "id 0": lambda b: b.append_dedicated(0, 6),
    "packed id 0": lambda b: b.extend_packed(0, [0], [1]),
    "negative": lambda b: b.extend_packed(1, [-1], [1]),
    "empty path": lambda b: b.append_managed("", 0, 5),
    "absolute path": lambda b: b.append_managed("/x", 0, 5),
    "path that leads out": lambda b: b.append_managed("../x", 0, 5),
    "after the end": lambda b: (b.finish(), b.append_null()),
    "two ends": lambda b: (b.finish(), b.finish()),
}


@pytest.mark.parametrize("case", BUILDER_ERRORS)
def test_what_a_builder_refuses(case: str) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)) as theirs:
        BUILDER_ERRORS[case](lance.BlobDescriptorArrayBuilder("b"))
    with pytest.raises(LanceletError) as ours:
        BUILDER_ERRORS[case](BlobDescriptorArrayBuilder("b"))
    assert isinstance(ours.value, theirs.type)


WRITER_ERRORS: dict[str, Any] = {
    "id 0": lambda s: s.open_packed_blob_writer("x.lance", 0),
    "negative id": lambda s: s.open_packed_blob_writer("x.lance", -1),
    "long id": lambda s: s.open_dedicated_blob_writer("x.lance", 1 << 32),
    "other suffix": lambda s: s.open_packed_blob_writer("x.txt", 1),
    "text": lambda s: s.open_packed_blob_writer("x.lance", 1).write_blob("x"),
    "none": lambda s: s.open_packed_blob_writer("x.lance", 1).write_blob(None),
    "list": lambda s: s.open_packed_blob_writer("x.lance", 1).write_blobs([b"x"]),
    "numbers": lambda s: s.open_packed_blob_writer("x.lance", 1).write_blobs(pa.array([1])),
    "two ends": lambda s: [w := s.open_dedicated_blob_writer("x.lance", 1), w.finish(), w.finish()],
    "after the end": lambda s: [w := s.open_dedicated_blob_writer("x.lance", 1), w.finish(), w.write(b"")],
}


@pytest.mark.parametrize("case", WRITER_ERRORS)
def test_what_writers_refuse(tmp_path: Path, case: str) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)) as theirs:
        WRITER_ERRORS[case](lance.file.LanceFileSession(str(tmp_path / "theirs")))
    with pytest.raises(LanceletError) as ours:
        WRITER_ERRORS[case](lancelet.file.LanceFileSession(str(tmp_path / "ours")))
    assert isinstance(ours.value, theirs.type)


def test_a_side_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    session = lancelet.file.LanceFileSession(str(tmp_path))
    with session.open_packed_blob_writer("x.lance", 1) as writer:
        writer.write_blob(b"one")
        writer.finish()
    with pytest.raises(LanceletError):
        session.open_packed_blob_writer("x.lance", 1)
    with session.open_packed_blob_writer("x.lance", 2) as writer:
        writer.write_blob(b"given up")
    assert session.list() == ["x/10000000000000000000000000000000.blob"]


def test_values_to_write() -> None:
    array = blob_array([b"x", None, "file:///x", Blob.empty(), Blob.from_uri("s3://a", 1, 2), memoryview(b"q")])
    theirs = lance.blob_array(
        [b"x", None, "file:///x", lance.Blob.empty(), lance.Blob.from_uri("s3://a", 1, 2), memoryview(b"q")]
    )
    assert array.storage.equals(theirs.storage)
    assert array.type.extension_name == theirs.type.extension_name
    assert pickle.loads(pickle.dumps(array)).equals(array)
    assert pickle.loads(pickle.dumps(BlobType())) == BlobType()
    assert BlobDescriptor() == BlobDescriptor()
    for wrong in ({}, {"data": b"", "uri": "x"}, {"uri": ""}, {"position": 1}, {"uri": "x", "position": 1}):
        with pytest.raises(ValueError):
            lance.Blob(**wrong)
        with pytest.raises(InvalidInput):
            Blob(**wrong)
    with pytest.raises(InvalidType):
        blob_array([1])
    with pytest.raises(InvalidInput):
        blob_array([""])


FIELD_ERRORS: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "negative": ({"inline_size_threshold": -1}, InvalidInput),
    "truth": ({"inline_size_threshold": True}, InvalidType),
    "text": ({"inline_size_threshold": "1"}, InvalidType),
    "no bytes": ({"dedicated_size_threshold": 0}, InvalidInput),
    "no pack": ({"pack_file_size_threshold": 0}, InvalidInput),
    "too many": ({"pack_file_size_threshold": 1 << 64}, InvalidOption),
}


@pytest.mark.parametrize("case", FIELD_ERRORS)
def test_what_a_field_refuses(case: str) -> None:
    options, kind = FIELD_ERRORS[case]
    with pytest.raises((ValueError, TypeError, OverflowError)) as theirs:
        lance.blob_field("b", **options)
    with pytest.raises(kind) as ours:
        blob_field("b", **options)
    assert isinstance(ours.value, theirs.type)


@pytest.mark.parametrize("dtype", [pa.binary(), pa.large_binary()])
def test_a_column_in_memory_as_files(dtype: pa.DataType) -> None:
    values = pa.chunked_array([pa.array([b"abc", None], dtype), pa.array([b""], dtype)])
    read = [file.read() for file in BlobColumn(values)]
    assert read == [file.read() for file in lance.BlobColumn(values)] == [b"abc", b"", b""]
    for wrong in (pa.array(["a"]), [b"a"]):
        with pytest.raises(InvalidInput):
            BlobColumn(wrong)


def test_blobs_need_a_version_that_has_them(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"2\.2"):
        lancelet.write_dataset(table(lancelet, ("b", [b"x"])), tmp_path / "t", data_storage_version="2.1")
    assert files_below(tmp_path) == set()

"""The file writer: what goes in comes out, by lancelet and by pylance, whatever the type, the nulls and the cut."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

from conformance.grid import FAMILIES, Size, cells, columns
from lancelet.encoding.fetch import run
from lancelet.encoding.rows import RowRange
from lancelet.errors import InvalidInput, LanceletError, NotSupported, StorageError
from lancelet.file.reader import open_file
from lancelet.file.writer import FileWriter, _memory
from lancelet.format.schema import Field, Schema, schema_from_arrow
from lancelet.store import LocalStore, Sink, open_store
from unit.file.written import NAME, layouts, read, round_trip, write

VERSIONS = ("2.0", "2.1", "2.2")
SIZES = (Size("empty", 0), Size("one", 1), Size("chunk", 1024), Size("pages", 700))
PLAIN = {name: tuple(kind for kind in kinds if kind.exact) for name, kinds in FAMILIES.items() if name != "extensions"}


@pytest.mark.spread(0.3)
@pytest.mark.slow
@pytest.mark.parametrize(("family", "size", "version"), cells(PLAIN, SIZES, VERSIONS))
def test_grid(tmp_path: Path, family: str, size: Size, version: str) -> None:
    """Every type, every pattern of values, every share of nulls."""
    table = columns(PLAIN[family], version, size)
    options = {"batch": 250, "page_bytes": 2000} if size.name == "pages" else {}
    round_trip(tmp_path, table, version, **options)


@pytest.mark.spread(0.3)
@pytest.mark.parametrize("family", ["numbers", "texts", "vectors", "structs", "lists", "dictionaries"])
@pytest.mark.parametrize("version", VERSIONS)
def test_sliced_batches(tmp_path: Path, version: str, family: str) -> None:
    """Arrays that begin and end inside of their buffers."""
    table = columns(tuple(kind for kind in FAMILIES[family] if kind.exact), version, Size("some", 137))
    round_trip(tmp_path, table.slice(13, 91), version, batch=17)


def test_garbage_is_dropped(tmp_path: Path) -> None:
    """What lies beneath null lists and structs is not stored."""
    items = pa.array(range(10_000), pa.int64())
    lists = pa.ListArray.from_arrays(pa.array(range(0, 10_001, 10), pa.int32()), items)
    masked = pa.ListArray.from_arrays(lists.offsets, items, mask=pa.array([row % 2 == 0 for row in range(1000)]))
    structs = pa.StructArray.from_arrays([lists], ["l"], mask=pa.array([row % 3 > 0 for row in range(1000)]))
    texts = pa.array(["secret"] * 1000)
    hidden = pa.Array.from_buffers(
        pa.string(), 1000, [pa.py_buffer(bytes([0b01010101] * 125)), *texts.buffers()[1:]], 500
    )
    table = pa.table({"masked": masked, "structs": structs, "hidden": hidden})
    round_trip(tmp_path, table)
    assert [page[0].mini_block_layout.num_items for page in layouts(tmp_path)[:2]] == [5000, 3340]


def test_layers_are_exact(tmp_path: Path) -> None:
    """A page declares no nulls that it does not have: not those beneath a null parent, nor those of other pages."""
    inner = pa.array([1, None, 3], pa.int32())
    table = pa.table({"s": pa.StructArray.from_arrays([inner], ["x"], mask=pa.array([False, True, False]))})
    write(tmp_path, table, "2.1")
    assert list(layouts(tmp_path)[0][0].mini_block_layout.layers) == [1, 3]
    pieces = pa.table({"x": pa.chunked_array([range(100), [None, *range(99)]], pa.int16())})
    write(tmp_path, pieces, "2.1", page_bytes=200)
    assert [list(page.mini_block_layout.layers) for page in layouts(tmp_path)[0]] == [[1], [3], [1]]


def test_metadata_of_the_file(tmp_path: Path) -> None:
    table = pa.table({"a": [1], "s": [{"p": 1.0, "q": "x"}], "l": [[2]]})
    done = write(tmp_path, table)
    assert done.fields == (0, 2, 3, 5)
    assert done.column_indices == (0, 1, 2, 3)
    assert (done.major, done.minor) == (2, 2)
    file = open_file(LocalStore(tmp_path).open(NAME))
    assert file.version == "2.2"
    assert file.schema() == schema_from_arrow(table.schema)


def test_the_same_data_makes_the_same_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({f"c{i}": rng.integers(0, 50, 30_000).astype(str) for i in range(4)} | {"v": rng.random(30_000)})
    write(tmp_path, table, batch=7000, page_bytes=40_000, threads=4)
    first = (tmp_path / NAME).read_bytes()
    write(tmp_path, table, batch=7000, page_bytes=40_000, threads=1)
    assert (tmp_path / NAME).read_bytes() == first


def test_memory_is_bounded(tmp_path: Path) -> None:
    """However long the input, what waits is a few pages."""
    page = 64 << 10
    batch = pa.record_batch({"x": np.arange(5000), "y": np.arange(5000) / 3})
    with FileWriter(LocalStore(tmp_path).open_sink(NAME), schema_from_arrow(batch.schema), page_bytes=page) as writer:
        waiting = 0
        for _ in range(200):
            writer.write_batch(batch)
            waiting = max(waiting, writer.size - writer._sink.tell())
        assert writer.finish().num_rows == 1_000_000
    assert waiting < 8 * page


def test_large_batches_become_pages(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"x": np.arange(100_000)}), page_bytes=100_000)
    assert len(layouts(tmp_path)[0]) == 8


def test_vectors_are_written_as_they_lie(tmp_path: Path) -> None:
    """Wide vectors without nulls are one run of bytes, from however many batches."""
    matrix = np.random.default_rng(0).random((300, 128), np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), 128)
    round_trip(tmp_path, pa.table({"v": vectors}), batch=70)
    assert matrix.tobytes() in (tmp_path / NAME).read_bytes()


def test_extension_arrays(tmp_path: Path) -> None:
    ids = pa.array([uuid.UUID(int=row).bytes for row in range(5)], pa.uuid())
    table = pa.table({"u": ids, "j": pa.array(['{"a":1}', None, "[]", "2", '"x"'], pa.json_())})
    schema = Schema(
        (
            Field(0, "u", "fixed_size_binary:16", metadata={"ARROW:extension:name": "arrow.uuid"}),
            Field(1, "j", "json", metadata={"ARROW:extension:name": "lance.json"}),
        )
    )
    write(tmp_path, table, schema=schema)
    found = read(tmp_path)
    assert found["u"].to_pylist() == [uuid.UUID(int=row).bytes for row in range(5)]
    assert found["j"][0].as_py() == bytes.fromhex("400000011000000120000002615001")


def test_global_buffers(tmp_path: Path) -> None:
    batch = pa.record_batch({"x": [1, 2]})
    with FileWriter(LocalStore(tmp_path).open_sink(NAME), schema_from_arrow(batch.schema)) as writer:
        assert writer.add_global_buffer(b"first") == 1
        writer.write_batch(batch)
        assert writer.add_global_buffer(b"second") == 2
        writer.add_schema_metadata("k", "v")
        writer.finish()
    file = LanceFileReader(str(tmp_path / NAME))
    assert [bytes(file.read_global_buffer(number)) for number in (1, 2)] == [b"first", b"second"]
    assert file.metadata().schema.metadata == {b"k": b"v"}
    assert read(tmp_path)["x"].to_pylist() == [1, 2]


def test_no_rows_and_no_columns(tmp_path: Path) -> None:
    assert write(tmp_path, pa.table({"x": pa.array([], pa.int32())})).num_rows == 0
    assert LanceFileReader(str(tmp_path / NAME)).read_all().to_table().num_rows == 0
    assert write(tmp_path, pa.table({})).fields == ()


# Blobs


@pytest.mark.parametrize("version", VERSIONS)
def test_blobs(tmp_path: Path, version: str) -> None:
    """Payloads lie at aligned positions outside of the pages; pylance finds them."""
    values = [b"x" * 300, None, b"", b"yy"] * 100
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array(values, pa.large_binary()), pa.array(range(400))], pa.schema([field, ("i", pa.int64())]))
    write(tmp_path, table, version, batch=90)
    file = LanceFileReader(str(tmp_path / NAME))
    assert file.read_all().to_table()["b"].to_pylist() == values
    assert file.take_rows([1, 2, 3, 399]).to_table()["b"].to_pylist() == [None, b"", b"yy", b"yy"]
    assert _fetched(tmp_path, read(tmp_path)["b"]) == values


@pytest.mark.parametrize("shape", ["binary", "struct"])
def test_blob_descriptors(tmp_path: Path, shape: str) -> None:
    """Blobs of the second kind: a descriptor a row, data in this file or at a URI."""
    children = (Field(1, "data", "large_binary"), Field(2, "uri", "string"))
    schema = Schema((Field(0, "b", "struct", True, children, {"ARROW:extension:name": "lance.blob.v2"}),))
    values = [b"x" * 300, None, b"", b"yy"] * 30
    data = pa.array(values, pa.large_binary())
    if shape == "struct":
        uris = pa.array([None, "s3://far/away", None, None] * 30, pa.string())
        data = pa.StructArray.from_arrays([data, uris], ["data", "uri"])
    write(tmp_path, pa.table({"b": data}), schema=schema)
    found = read(tmp_path)["b"]
    inside = [blob is not None and blob["kind"] == 0 for blob in found.to_pylist()]
    assert [value for value, here in zip(_fetched(tmp_path, found), inside, strict=True) if here] == [
        value for value in values if value is not None
    ]
    outside = found[1].as_py()
    assert outside is None if shape == "binary" else (outside["kind"], outside["blob_uri"]) == (3, "s3://far/away")
    assert LanceFileReader(str(tmp_path / NAME)).read_all().to_table()["b"].to_pylist() == found.to_pylist()


def _fetched(folder: Path, blobs: pa.Array) -> list[bytes | None]:
    data = (folder / NAME).read_bytes()
    places = [None if blob is None else (blob["position"], blob["size"]) for blob in blobs.to_pylist()]
    # So says 2.0 that a blob is null.
    places = [None if place == (1, 0) else place for place in places]
    assert all(place is None or place[0] % 64 == 0 for place in places)
    return [None if place is None else data[place[0] : sum(place)] for place in places]


# Version 2.0


def test_version_2_0(tmp_path: Path) -> None:
    """Every field has a column, the footer has a number of its own, and null structs have no place."""
    table = pa.table({"a": [1, 2], "s": [{"p": 1.0, "q": "x"}] * 2, "l": [[2], None]})
    done = write(tmp_path, table, "2.0")
    assert done.fields == (0, 1, 2, 3, 4, 5)
    assert (done.major, done.minor) == (2, 0)
    assert (tmp_path / NAME).read_bytes()[-8:] == b"\0\0\x03\0LANC"
    with pytest.raises(InvalidInput, match="does not encode struct validity; use file version 2.1"):
        write(tmp_path, pa.table({"s": [{"x": 1}, None]}), "2.0")
    with pytest.raises(NotSupported, match="Lance v2.0 has no field encoding for 'm'"):
        write(tmp_path, pa.table({"m": pa.array([], pa.map_(pa.string(), pa.int8()))}), "2.0")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", ["zstd", "lz4", "fsst", "none"])
def test_compression_of_2_0(tmp_path: Path, setting: str) -> None:
    words = pa.array([f"some words and the number {n}" for n in range(3000)] + [None, ""])
    kinds = {"s": words, "b": words.cast(pa.binary())}
    fields = [
        pa.field(name, column.type, metadata={"lance-encoding:compression": setting}) for name, column in kinds.items()
    ]
    done = round_trip(tmp_path, pa.table(list(kinds.values()), pa.schema(fields)), "2.0")
    assert (done.size < 200_000) == (setting != "none")


# Refusals


@pytest.mark.parametrize(
    ("table", "version", "kind", "words"),
    [
        (pa.table({"a.b": [1]}), "2.2", InvalidInput, "cannot contain `.`"),
        (pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))}), "2.1", NotSupported, "maps"),
        (pa.table({"p": pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", pa.int8())]), 1))}), "2.1", NotSupported, "structs"),
        (pa.table({"v": pa.array([["a"]], pa.list_(pa.string(), 1))}), "2.2", NotSupported, "fixed-size list"),
        (pa.table({"l": pa.array([[[{"x": 1}]]], pa.list_(pa.list_(pa.struct([("x", pa.int8())]), 1)))}), "2.2", NotSupported, "list"),
        (pa.table({"x": [1]}), "2.3", NotSupported, "2.3"),
    ],
)  # fmt: skip
def test_refused_schemas(tmp_path: Path, table: pa.Table, version: str, kind: type[LanceletError], words: str) -> None:
    with pytest.raises(kind, match=words):
        write(tmp_path, table, version)
    assert list(tmp_path.iterdir()) == []


def test_refused_nulls(tmp_path: Path) -> None:
    """Nulls where the schema allows none, at the top and deep inside; nothing is left behind."""
    field = pa.field("x", pa.int8(), nullable=False)
    holes = pa.array([1, None], pa.int8())
    struct = pa.StructArray.from_arrays([holes], fields=[field])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), holes, type=pa.list_(field))
    for name, column in {"x": holes, "s": struct, "l": lists}.items():
        schema = Schema(schema_from_arrow(pa.schema([field if name == "x" else (name, column.type)])).fields)
        with pytest.raises(InvalidInput, match="non-nullable"):
            write(tmp_path, pa.table({name: column}), schema=schema)
        assert list(tmp_path.iterdir()) == []


def test_nulls_hidden_by_a_null_parent_are_no_nulls(tmp_path: Path) -> None:
    field = pa.field("x", pa.int8(), nullable=False)
    struct = pa.StructArray.from_arrays([pa.array([1, None], pa.int8())], fields=[field], mask=pa.array([False, True]))
    write(tmp_path, pa.table({"s": struct}))
    assert read(tmp_path)["s"].to_pylist() == [{"x": 1}, None]


def test_batches_that_do_not_fit(tmp_path: Path) -> None:
    schema = schema_from_arrow(pa.schema([("x", pa.int32()), ("y", pa.string())]))
    for batch in (
        pa.record_batch({"x": pa.array([1], pa.int32())}),
        pa.record_batch({"x": pa.array([1], pa.int64()), "y": ["a"]}),
        pa.record_batch({"x": pa.array([1], pa.int32()), "z": ["a"]}),
    ):
        with pytest.raises(InvalidInput):
            write(tmp_path, pa.Table.from_batches([batch]), schema=schema)
        assert list(tmp_path.iterdir()) == []


# Sinks


@pytest.fixture(params=["local", "memory", "s3"])
def sink_store(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    if request.param == "local":
        return LocalStore(tmp_path)
    if request.param == "memory":
        return open_store(f"memory://{uuid.uuid4().hex}")
    bucket = request.getfixturevalue("bucket")
    return open_store(f"{bucket.uri}/t", bucket.options)


def test_sinks(sink_store: LocalStore) -> None:
    """The same file on disk, in memory and on S3, in several parts."""
    numbers = np.random.default_rng(0).integers(0, 2**62, 1_500_000)
    table = pa.table({"x": numbers})
    with FileWriter(sink_store.open_sink("data/f.lance"), schema_from_arrow(table.schema)) as writer:
        for batch in table.to_batches(max_chunksize=400_000):
            writer.write_batch(batch)
        size = writer.finish().size
    source = sink_store.open("data/f.lance")
    assert source.size == size
    file = open_file(source)
    found = run(file.read(file.schema().fields[0], RowRange(1_499_990, 1_500_000)), source)
    assert found.to_pylist() == numbers[-10:].tolist()


def test_given_up_sinks_leave_nothing(sink_store: LocalStore) -> None:
    sink: Sink = sink_store.open_sink("data/f.lance")
    sink.write(b"x" * 100)
    sink.abort()
    assert not sink_store.exists("data/f.lance")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(StorageError):
        LocalStore(tmp_path).open_sink("f")
    assert (tmp_path / "f").read_bytes() == b"old"


@pytest.mark.parametrize(
    "dtype", [pa.int8(), pa.uint64(), pa.float16(), pa.timestamp("us"), pa.bool_(), pa.string()], ids=str
)
def test_sizes_of_arrays_are_those_that_arrow_tells(dtype: pa.DataType) -> None:
    whole = pa.array([0, 1] * 50).cast(dtype)
    for array in (whole, pa.concat_arrays([whole, pa.nulls(3, dtype)]), whole.slice(0, 0)):
        for part in (array, array.slice(7), array.slice(3, 20)):
            assert _memory(part) == max(part.nbytes, len(part) // 8)

"""Few rows of many columns, read in one go, are the rows that were written; what is not plain is left out."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter

import lancelet
from drawing import examples
from lancelet.encoding.kernels.page_plans import PagePlans
from lancelet.encoding.kernels.small_pages import read_columns
from lancelet.encoding.rows import RowIndices, RowRange
from lancelet.encoding.v2_1.leaf_batch import MOST_ROWS, LeafBatch, is_small
from lancelet.file.reader import StructuralFile, open_file
from lancelet.format.schema import schema_from_arrow
from lancelet.store import open_store
from lancelet.testing import assert_identical, difference, random_array

PLAIN = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "uint64": pa.uint64(),
    "half": pa.float16(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal": pa.decimal128(20, 2),
    "fixed": pa.binary(3),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
}
PATTERNS = ("random", "low", "runs", "sorted")
ROWS = 2500


def open_mapped(path: Path) -> StructuralFile:
    reader = open_file(open_store(str(path.parent)).open(path.name))
    assert isinstance(reader, StructuralFile)
    return reader


def write(path: Path, table: pa.Table, version: str, *, pages: int = 1) -> StructuralFile:
    with LanceFileWriter(str(path), table.schema, version=version, data_cache_bytes=1) as writer:
        step = -(-table.num_rows // pages)
        for start in range(0, table.num_rows, step):
            # Copies: pylance does not take slices of every nested type.
            rows = pa.array(range(start, min(start + step, table.num_rows)))
            writer.write_batch(table.take(rows).combine_chunks().to_batches()[0])
    return open_mapped(path)


def columns_of(nulls: str, pattern: str) -> pa.Table:
    arrays = {
        name: random_array(dtype, ROWS, number, pattern=pattern, nulls=nulls)  # type: ignore[arg-type]
        for number, (name, dtype) in enumerate(PLAIN.items())
    }
    return pa.table(arrays)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", ["none", "some", "all"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_plain_type(tmp_path: Path, version: str, nulls: str, pattern: str) -> None:
    table = columns_of(nulls, pattern)
    reader = write(tmp_path / "f.lance", table, version, pages=2)
    fields = reader.schema().fields
    batch = reader.batch(fields)
    assert batch is not None
    read = 0
    for start, stop in ((0, ROWS), (0, 1), (1023, 1026), (1249, 1251), (1250, ROWS), (700, 1800), (ROWS - 1, ROWS)):
        expected = table.slice(start, stop - start)
        for array, column in zip(batch.read(RowRange(start, stop)), expected.columns, strict=True):
            if array is not None:
                array.validate(full=True)
                assert difference(array, column.combine_chunks()) is None
                read += 1
    assert read >= 7 * len(PLAIN) // 2


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_what_small_tables_consist_of_is_read_together(tmp_path: Path, version: str) -> None:
    """If one of these went the long way, nobody would see it but by its time."""
    rng = np.random.default_rng(0)
    mask = rng.random(1000) < 0.1
    texts = np.char.add("row number ", rng.integers(0, 10**9, 1000).astype(str))
    table = pa.table(
        {
            "id": np.arange(1000),
            "nulls": pa.array(rng.integers(0, 10**6, 1000), pa.int32(), mask=mask),
            "float": rng.random(1000),
            "bool": rng.random(1000) < 0.5,
            "text": pa.array(texts),
            "text with nulls": pa.array(texts, mask=mask),
            "category": pa.array(np.array(["a", "bb", "ü"])[rng.integers(0, 3, 1000)]),
            "void": pa.nulls(1000, pa.int64()),
            "no text": pa.nulls(1000, pa.string()),
            "same": np.full(1000, 7),
        }
    )
    reader = write(tmp_path / "f.lance", table, version)
    batch = reader.batch(reader.schema().fields)
    assert batch is not None
    arrays = batch.read(RowRange(0, 1000))
    assert [name for name, array in zip(table.column_names, arrays, strict=True) if array is None] == []
    for array, column in zip(arrays, table.columns, strict=True):
        assert difference(array, column.combine_chunks()) is None


def test_fsst_is_read_together(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("t", pa.string(), metadata={"lance-encoding:compression": "fsst"})])
    texts = pa.array([f"https://example.org/ä/{i * 997}/index.html" if i % 5 else None for i in range(3000)])
    reader = write(tmp_path / "f.lance", pa.table([texts], schema=schema), "2.2")
    batch = reader.batch(reader.schema().fields)
    assert batch is not None
    (array,) = batch.read(RowRange(100, 2900))
    assert array is not None
    assert difference(array, texts.slice(100, 2800)) is None


def test_dictionaries_of_packed_numbers_are_read_together(tmp_path: Path) -> None:
    """pylance packs the items of a dictionary where they are small."""
    numbers = [at * 7919 % 499 for at in range(1000)]
    column = pa.array([[{"x": number}] * (number % 5) for number in numbers])
    lance.write_dataset(pa.table({"points": column}), tmp_path, data_storage_version="2.2")
    (path,) = (tmp_path / "data").iterdir()
    reader = open_mapped(path)
    assert reader._plans is not None
    (plan,) = reader._plans.describe(0) or [{}]
    assert plan["dictionary"][:2] == ("inline", 64)
    batch = reader.batch(reader.schema().fields)
    assert batch is not None
    (array,) = batch.read(RowRange(0, len(column)))
    assert array is not None
    assert difference(array, column) is None


def test_what_is_stored_otherwise_is_left_out(tmp_path: Path) -> None:
    table = pa.table({
        "vector": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2)), "dict": pa.array(["a", "b"]).dictionary_encode(),
        "null": pa.nulls(2), "vectors": pa.array([[[1.0, 2.0]], []], pa.list_(pa.list_(pa.float32(), 2))), "plain": [1, 2],
    })  # fmt: skip
    reader = write(tmp_path / "f.lance", table, "2.2")
    batch = reader.batch(reader.schema().fields)
    assert batch is not None
    arrays = batch.read(RowRange(0, 2))
    assert [array is not None for array in arrays] == [False] * 4 + [True]


NESTED = {
    "struct": pa.struct([("x", pa.int64()), ("y", pa.string())]),
    "structs": pa.struct([("x", pa.struct([("y", pa.int8()), ("z", pa.bool_())])), ("s", pa.large_string())]),
    "list": pa.list_(pa.int32()),
    "texts": pa.large_list(pa.string()),
    "points": pa.list_(pa.struct([("x", pa.int32()), ("y", pa.float64())])),
    "lists": pa.list_(pa.list_(pa.struct([("x", pa.int16()), ("l", pa.list_(pa.string()))]))),
    "map": pa.map_(pa.string(), pa.int32()),
}


@pytest.mark.parametrize("nulls", ["none", "some", "all"])
@pytest.mark.parametrize("pattern", ["random", "low"])
def test_nested_columns(tmp_path: Path, nulls: str, pattern: str) -> None:
    table = pa.table({
        name: random_array(dtype, 700, number, pattern=pattern, nulls=nulls)  # type: ignore[arg-type]
        for number, (name, dtype) in enumerate(NESTED.items())
    })  # fmt: skip
    reader = write(tmp_path / "f.lance", table, "2.2", pages=2)
    batch = reader.batch(reader.schema().fields)
    assert batch is not None
    read = set()
    for start, stop in ((0, 700), (3, 400), (0, 1), (349, 351)):
        expected = table.slice(start, stop - start)
        for array, name in zip(batch.read(RowRange(start, stop)), NESTED, strict=True):
            if array is not None:
                array.validate(full=True)
                assert difference(array, expected[name].combine_chunks()) is None, name
                read.add(name)
    if nulls != "all":
        assert read == set(NESTED)


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 1023), min_size=1, max_size=40, unique=True), st.integers(0, 1400))
def test_single_rows_are_cut_out(one_file: tuple[pa.Table, StructuralFile], picks: list[int], first: int) -> None:
    table, reader = one_file
    rows = np.array(sorted(picks), np.int64) + first
    batch = reader.batch(reader.schema().fields)
    assert batch is not None
    assert is_small(RowIndices(rows))
    arrays = batch.read(RowIndices(rows))
    for array, column in zip(arrays, table.take(pa.array(rows)).columns, strict=True):
        assert array is None or difference(array, column.combine_chunks()) is None


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, StructuralFile]:
    table = columns_of("some", "random")
    return table, write(tmp_path_factory.mktemp("one") / "f.lance", table, "2.2", pages=3)


def test_rows_outside_of_the_file_are_not_read(one_file: tuple[pa.Table, StructuralFile]) -> None:
    _, reader = one_file
    batch = reader.batch(reader.schema().fields)
    assert batch is not None
    for start, stop in ((0, ROWS + 1), (ROWS, ROWS + 1), (5, 5), (-1, 3), (7, 3)):
        assert batch.read(RowRange(start, stop)) == [None] * len(PLAIN)


def test_many_rows_are_read_column_by_column() -> None:
    assert is_small(RowRange(0, MOST_ROWS))
    assert not is_small(RowRange(0, MOST_ROWS + 1))
    assert not is_small(RowRange(3, 3))
    assert not is_small(RowIndices(np.array([0, 5000])))
    assert not is_small(RowIndices(np.array([], np.int64)))


def test_text_that_is_not_utf8_is_left_to_the_decoder_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    write(path, pa.table({"t": [f"text {i}" for i in range(100)]}), "2.2")
    for text, wrong in ((b"text 42", b"text \xff2"), (b"text 42", b"text 4\xc3"), (b"text 9", b"\xed\xa0\x80t 9")):
        data = path.read_bytes().replace(text, wrong, 1)
        (tmp_path / "wrong.lance").write_bytes(data)
        reader = open_mapped(tmp_path / "wrong.lance")
        batch = reader.batch(reader.schema().fields)
        assert batch is not None
        assert batch.read(RowRange(0, 100)) == [None]
        assert batch.read(RowRange(0, 100)) == [None]


def test_kernel_arguments_that_disagree() -> None:
    plans = PagePlans(np.zeros(10, np.uint8), np.zeros((1, 2), np.int64), 5)
    one, dtypes = np.zeros(1, np.int64), [pa.int64(), pa.uint16()]
    take = pa.Array._import_from_c
    with pytest.raises(ValueError, match="differ in number"):
        read_columns(plans, one, np.zeros(2, np.int64), one + 1, 0, 1, None, dtypes, take)
    assert read_columns(plans, one - 9, one + 64, one + 1, 0, 1, None, dtypes, take) == [None]
    assert read_columns(plans, one + 9, one + 64, one + 1, 0, 1, None, dtypes, take) == [None]


def test_fields_that_are_asked_for_again_share_what_is_known_of_them() -> None:
    fields = schema_from_arrow(pa.schema(PLAIN.items())).fields
    assert LeafBatch.of(fields) is LeafBatch.of(list(fields))
    assert LeafBatch.of(fields[:2]) is not LeafBatch.of(fields)
    assert LeafBatch.of(fields).widths.tolist()[-4:] == [-33, -65, -32, -64]


def test_tables_of_small_fragments_are_what_pylance_reads(tmp_path: Path) -> None:
    table = columns_of("some", "low")
    lance.write_dataset(table, tmp_path, max_rows_per_file=300)
    ours, theirs = lancelet.dataset(tmp_path), lance.dataset(tmp_path)
    assert_identical(ours.to_table(), theirs.to_table())
    assert_identical(ours.to_table(filter="int32 > 0"), theirs.to_table(filter="int32 > 0"))
    rows = [0, 299, 300, 301, 2499, 7, 7]
    assert_identical(ours.take(rows), theirs.take(rows))
    assert ours.to_table(limit=7, offset=1234).equals(table.slice(1234, 7))

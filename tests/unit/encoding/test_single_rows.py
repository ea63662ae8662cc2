"""Single rows of several files, picked in one call, are the rows that were written, in the order that was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.encoding.kernels.page_plans import PagePlans
from lancelet.encoding.kernels.single_rows import pick_columns
from lancelet.encoding.v2_1.leaf_batch import LeafBatch, pick_together
from lancelet.file.reader import StructuralFile
from lancelet.testing import difference
from unit.encoding.test_small_pages import PATTERNS, PLAIN, ROWS, columns_of, open_mapped, write


def picked_of(files: list[StructuralFile], owners: list[int], rows: list[int]) -> list[pa.Array] | None:
    fields = files[0].schema().fields
    batches = [file.batch(fields) for file in files]
    assert all(batches)
    return pick_together([batch for batch in batches if batch], np.array(owners, np.int64), np.array(rows, np.int64))


def check(tables: list[pa.Table], files: list[StructuralFile], owners: list[int], rows: list[int]) -> int:
    """Every column on its own, so that one that is left to others hides no other; tells how many were picked."""
    done = 0
    for name in tables[0].column_names:
        fields = [field for field in files[0].schema().fields if field.name == name]
        batches = [file.batch(fields) for file in files]
        arrays = pick_together([b for b in batches if b], np.array(owners, np.int64), np.array(rows, np.int64))
        if arrays is None:
            continue
        (array,) = arrays
        array.validate(full=True)
        starts = np.cumsum([0, *(table.num_rows for table in tables)])
        whole = pa.concat_tables(tables).column(name).combine_chunks()
        expected = whole.take(pa.array(starts[owners] + np.array(rows)))
        assert difference(array, expected) is None, name
        done += 1
    return done


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("nulls", ["none", "some", "all"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_plain_type(tmp_path: Path, version: str, nulls: str, pattern: str) -> None:
    table = columns_of(nulls, pattern)
    other = table.slice(100, 700).combine_chunks()
    files = [write(tmp_path / "a", table, version, pages=3), write(tmp_path / "b", other, version)]
    draws = np.random.default_rng(len(pattern))
    for count in (1, 2, 40, 600):
        owners = draws.integers(0, 2, count).tolist()
        rows = [int(draws.integers(0, (ROWS, 700)[owner])) for owner in owners]
        assert check([table, other], files, owners, rows) >= len(PLAIN) - 3
    edges = [0, ROWS - 1, 833, 834, 1023, 1024, 0, 0, ROWS - 1]
    check([table, other], files, [0] * len(edges), edges)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, ROWS - 1)), min_size=1, max_size=60))
def test_rows_in_any_order_and_more_than_once(
    two_files: tuple[list[pa.Table], list[StructuralFile]], picks: list[tuple[int, int]]
) -> None:
    tables, files = two_files
    assert check(tables, files, [owner for owner, _ in picks], [row for _, row in picks]) >= len(PLAIN) - 1


@pytest.fixture(scope="module")
def two_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[pa.Table], list[StructuralFile]]:
    folder = tmp_path_factory.mktemp("two")
    tables = [columns_of("some", "random"), columns_of("none", "sorted")]
    return tables, [write(folder / str(n), table, "2.2", pages=n + 1) for n, table in enumerate(tables)]


def test_what_rows_of_searches_consist_of_is_picked_together(tmp_path: Path) -> None:
    """If one of these went the long way, nobody would see it but by its time."""
    rng = np.random.default_rng(0)
    count = 5000
    mask = rng.random(count) < 0.1
    texts = np.char.add("row number ", rng.integers(0, 10**9, count).astype(str))
    table = pa.table(
        {
            "id": np.arange(count),
            "nulls": pa.array(rng.integers(0, 10**6, count), pa.int32(), mask=mask),
            "float": rng.random(count),
            "bool": rng.random(count) < 0.5,
            "text": pa.array(texts),
            "text with nulls": pa.array(texts, mask=mask),
            "void": pa.nulls(count, pa.int64()),
            "no text": pa.nulls(count, pa.string()),
            "same": np.full(count, 7),
            "runs": np.repeat(np.arange(count // 500), 500),
        }
    )
    files = [write(tmp_path / "f.lance", table, "2.2", pages=2)]
    rows = rng.integers(0, count, 50).tolist()
    assert check([table], files, [0] * 50, rows) == table.num_columns
    arrays = picked_of(files, [0] * 50, rows)
    assert arrays is not None
    assert pa.table(arrays, table.column_names).equals(table.take(rows).combine_chunks())


@pytest.mark.parametrize("items", [3, 900])
def test_dictionaries(tmp_path: Path, items: int) -> None:
    """Items are looked up where they lie; those that are compressed as a whole are inflated once."""
    numbers = np.random.default_rng(items).integers(0, items, 20_000)
    named = pa.array([None if n == 1 else f"item {n} ü" for n in numbers])
    table = pa.table({"text": named, "wide": named.cast(pa.large_string()), "number": numbers * 10**12})
    reader = write(tmp_path / "f.lance", table, "2.2")
    assert reader._plans is not None
    kinds = [plan["dictionary"] for column in range(3) for plan in reader._plans.describe(column) or ()]
    assert any(kinds)
    rows = list(range(0, 20_000, 37))[::-1]
    assert check([table], [reader], [0] * len(rows), rows) == 3


def test_fsst(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("t", pa.string(), metadata={"lance-encoding:compression": "fsst"})])
    texts = pa.array([f"https://example.org/ä/{i * 997}/index.html" if i % 5 else None for i in range(3000)])
    table = pa.table([texts], schema=schema)
    reader = write(tmp_path / "f.lance", table, "2.2")
    assert check([table], [reader], [0] * 400, [i * 7919 % 3000 for i in range(400)]) == 1


def test_what_is_stored_otherwise_is_left_to_others(tmp_path: Path) -> None:
    table = pa.table({
        "vector": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2)), "dict": pa.array(["a", "b"]).dictionary_encode(),
        "null": pa.nulls(2), "struct": pa.array([{"x": 1}, {"x": 2}]), "list": pa.array([[1], [2]]), "plain": [1, 2],
    })  # fmt: skip
    reader = write(tmp_path / "f.lance", table, "2.2")
    plain = [LeafBatch.of([field]).is_plain for field in reader.schema().fields]
    assert plain == [False] * 5 + [True]
    for field in reader.schema().fields[:3]:
        batch = reader.batch([field])
        assert batch is not None
        assert pick_together([batch], np.zeros(1, np.int64), np.zeros(1, np.int64)) is None


def test_rows_that_are_not_there_are_refused(tmp_path: Path) -> None:
    table = pa.table({"n": np.arange(10), "t": [str(n) for n in range(10)]})
    files = [write(tmp_path / "f.lance", table, "2.2")]
    for row in (10, -1, 2**62, -(2**62)):
        with pytest.raises(ValueError, match="of a file of 10 rows"):
            picked_of(files, [0, 0], [0, row])
    for owner in (1, -1, 2**62):
        with pytest.raises(ValueError, match="in file"):
            picked_of(files, [0, owner], [0, 0])


def test_text_that_is_not_utf8_is_left_to_the_decoder_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    write(path, pa.table({"t": [f"text {i}" for i in range(100)]}), "2.2")
    (tmp_path / "wrong.lance").write_bytes(path.read_bytes().replace(b"text 42", b"text \xff2", 1))
    reader = open_mapped(tmp_path / "wrong.lance")
    assert picked_of([reader], [0], [42]) is None
    right = picked_of([reader], [0, 0], [41, 43])
    assert right is not None
    assert right[0].to_pylist() == ["text 41", "text 43"]


def test_chunks_that_contradict_themselves_are_left_to_the_decoder_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    table = pa.table({"n": np.arange(5000)})
    reader = write(path, table, "2.2")
    assert reader._plans is not None
    (plan,) = reader._plans.describe(0) or [{}]
    start, _ = plan["buffers"][0]
    data = bytearray(path.read_bytes())
    for word, why in ((0x000F, "too many rows"), (0xFFF9, "too many bytes"), (0x0010, "the last, in the middle")):
        wrong = data.copy()
        wrong[start : start + 2] = word.to_bytes(2, "little")
        (tmp_path / "wrong.lance").write_bytes(wrong)
        assert picked_of([open_mapped(tmp_path / "wrong.lance")], [0], [4]) is None, why


def test_kernel_arguments_that_disagree() -> None:
    plans = PagePlans(np.zeros(10, np.uint8), np.zeros((1, 2), np.int64), 5)
    one, take = np.zeros(1, np.int64), pa.Array._import_from_c
    for arguments in (
        ([plans], [], one + 64, one, one, [pa.int64()]),
        ([plans], [one], one + 64, one, np.zeros(2, np.int64), [pa.int64()]),
        ([plans], [one], one + 64, one, one, []),
        ([plans], [np.zeros(2, np.int64)], one + 64, one, one, [pa.int64()]),
    ):
        with pytest.raises(ValueError, match="numbers? of columns|differ in number"):
            pick_columns(*arguments, take)  # type: ignore[arg-type]
    assert pick_columns([plans], [one - 9], one + 64, one, one, [pa.int64()], take) is None
    assert pick_columns([plans], [one + 9], one + 64, one, one, [pa.int64()], take) is None
    assert pick_columns([plans], [one], one + 12, one, one, [pa.int64()], take) is None
    assert pick_columns([plans], [one], one - 7, one, one, [pa.int64()], take) is None


def test_an_array_that_nobody_takes_over_is_given_back(tmp_path: Path) -> None:
    reader = write(tmp_path / "f.lance", pa.table({"n": np.arange(10)}), "2.2")

    def refuse(address: int, dtype: pa.DataType) -> pa.Array:
        raise MemoryError(f"{address} {dtype}")

    bound = reader.batch(reader.schema().fields)
    assert bound is not None
    zero = np.zeros(1, np.int64)
    with pytest.raises(MemoryError, match="int64"):
        pick_columns([bound.plans], [bound.columns], bound.leaves.widths, zero, zero, bound.leaves.dtypes, refuse)
    (found,) = pick_columns(
        [bound.plans],
        [bound.columns],
        bound.leaves.widths,
        zero,
        zero + 7,
        bound.leaves.dtypes,
        pa.Array._import_from_c,
    ) or [None]
    assert found is not None
    assert found.to_pylist() == [7]

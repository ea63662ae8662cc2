"""Sets of rows: their algebra and their stored form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancelet.errors import CorruptFile
from lancelet.index.row_set import RowSet, scan_stored
from lancelet.index.row_set_wire import gather_rows, group_rows, read_entries, scatter_spans, sort_spans, write_sets

NEAR = st.integers(0, 200)
ANY = st.integers(0, 2**34)
NUMBERS = st.lists(NEAR | ANY, max_size=80)
RUNS = st.lists(st.tuples(st.sampled_from([0, 70, 65_000, 1 << 31]), st.integers(1, 9_000)), max_size=4)


def rows_of(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint64)


@given(NUMBERS, NUMBERS)
def test_algebra(left: list[int], right: list[int]) -> None:
    one, other = RowSet.of(rows_of(left)), RowSet.of(rows_of(right))
    assert one.numbers().tolist() == sorted(set(left))
    assert (one | other).numbers().tolist() == sorted({*left, *right})
    assert (one & other).numbers().tolist() == sorted({*left} & {*right})
    assert RowSet.union([one, other, one]) == one | other
    assert len(one) == len(set(left))


@given(st.lists(NEAR | ANY | st.integers(0, 2**64 - 1), max_size=80), st.integers(0, 20))
def test_gathered_rows(numbers: list[int], containers: int) -> None:
    """Bitmaps as those of sorted rows; or none, when there are too many containers."""
    found = gather_rows(rows_of(numbers), containers * 8192)
    if len({number >> 16 for number in numbers}) > max(containers, 1):
        assert found is None
    else:
        assert found is not None
        assert RowSet({high: BitMap.deserialize(data) for high, data in found.items()}) == RowSet.of(rows_of(numbers))
        assert all(data == RowSet.of(rows_of(numbers)).bitmap(high).serialize() for high, data in found.items())


@pytest.mark.parametrize(("fragments", "rows"), [(10, 1_000_000), (1, 70_000), (3, 2**32), (3000, 9)])
def test_many_rows_in_any_order(fragments: int, rows: int) -> None:
    drawn = np.random.default_rng(3)
    highs, lows = (drawn.integers(0, most, 20_000).astype(np.uint64) for most in (fragments, rows))
    numbers = highs << np.uint64(32) | lows
    assert np.array_equal(RowSet.of(numbers).numbers(), np.unique(numbers))
    assert RowSet.of(numbers) == RowSet.of(np.sort(numbers))


@given(st.lists(NUMBERS, min_size=1, max_size=6))
def test_stored_sets(sets: list[list[int]]) -> None:
    """Many sets at once are stored as each one is, and read back."""
    rows = [np.sort(rows_of(numbers)) for numbers in sets]
    data, offsets = write_sets(np.concatenate(rows), np.cumsum([len(one) for one in rows]))
    for at, numbers in enumerate(rows):
        alone = RowSet.of(numbers)
        assert data[offsets[at] : offsets[at + 1]].tobytes() == alone.serialize()
        assert RowSet.deserialize(alone.serialize(), "", "") == alone
    entries = scan_stored(data, offsets, "", "")
    assert read_entries(data, *entries[1:]).tolist() == [n for one in rows for n in np.unique(one).tolist()]
    assert RowSet.deserialize_union(data, offsets, "", "") == RowSet.of(np.concatenate(rows))


@given(RUNS, NUMBERS)
def test_bitmaps_with_runs(runs: list[tuple[int, int]], others: list[int]) -> None:
    """Nobody here writes them; they can be read."""
    bitmap = BitMap(number % 2**32 for number in others)
    for start, length in runs:
        bitmap.add_range(start, start + length)
    bitmap.run_optimize()
    stored = RowSet({5: bitmap}).serialize()
    found = RowSet.deserialize(stored, "", "")
    assert found == RowSet({5: bitmap})
    entries = scan_stored(np.frombuffer(stored, np.uint8), np.array([0, len(stored)]), "", "")
    assert np.array_equal(read_entries(np.frombuffer(stored, np.uint8), *entries[1:]), found.numbers())


def test_dense_sets() -> None:
    """Bit containers, and unions of many sets as bitmaps."""
    rows = np.arange(200_000, dtype=np.uint64)
    rows[100_000:] += np.uint64(1 << 32)
    ends = np.array([60_000, 60_001, 150_000, 200_000])
    data, offsets = write_sets(rows, ends)
    for start, stop, low, high in zip([0, *ends[:-1]], ends, offsets[:-1], offsets[1:], strict=True):
        assert data[low:high].tobytes() == RowSet.of(rows[start:stop]).serialize()
    assert RowSet.deserialize_union(data, offsets, "", "") == RowSet.of(rows)
    assert RowSet.of(rows[::-1]) == RowSet.of(rows)


def test_whole_fragments() -> None:
    whole = RowSet.whole([3, 9])
    assert RowSet.deserialize(whole.serialize(), "", "") == whole
    assert RowSet.deserialize(b"\0\0\0\0", "", "") == RowSet()
    empty = RowSet({4: BitMap()})
    assert RowSet.deserialize(empty.serialize(), "", "") == RowSet()


@given(
    RUNS,
    NUMBERS,
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=3),
    st.integers(0, 30),
)
def test_damaged_sets(
    runs: list[tuple[int, int]], numbers: list[int], changes: list[tuple[int, int]], cut: int
) -> None:
    """Refused, or another set: never anything else."""
    bitmap = BitMap(number % 2**32 for number in numbers)
    for start, length in runs:
        bitmap.add_range(start, start + length)
    if len(numbers) % 2:
        bitmap.run_optimize()
    data = bytearray((RowSet({1: bitmap}) | RowSet.of(rows_of(numbers))).serialize())
    for place, byte in changes:
        data[place % len(data)] = byte
    stored = bytes(data[: len(data) - cut])
    try:
        found = RowSet.deserialize(stored, "some/file", "a place")
    except CorruptFile as error:
        assert "some/file" in str(error)
        return
    assert RowSet.deserialize(found.serialize(), "", "") == found


@given(st.lists(NUMBERS, max_size=5))
def test_sorted_spans(spans: list[list[int]]) -> None:
    rows = rows_of([number for span in spans for number in span])
    sort_spans(rows, np.cumsum([len(span) for span in spans], dtype=np.int64))
    assert rows.tolist() == [number for span in spans for number in sorted(span)]


@given(st.lists(st.integers(0, 9)))
def test_grouped_rows(codes: list[int]) -> None:
    rows, ends = group_rows(np.array(codes, np.int32), 10, np.arange(len(codes), dtype=np.uint64))
    assert rows.tolist() == sorted(range(len(codes)), key=lambda at: codes[at])
    assert ends.tolist() == [sum(code <= group for code in codes) for group in range(10)]


def test_kernels_refuse_what_does_not_fit() -> None:
    rows, one = np.arange(4, dtype=np.uint64), np.array([1])
    for call in (
        lambda: group_rows(np.array([0, 5], np.int32), 2, rows[:2]),
        lambda: group_rows(np.array([-1], np.int32), 2, rows[:1]),
        lambda: group_rows(np.array([0], np.int32), 1, rows),
        lambda: scatter_spans(rows.copy(), np.array([3]), np.array([0]), np.array([0]), np.array([2]), rows),
        lambda: scatter_spans(rows.copy(), np.array([0]), np.array([1]), np.array([0]), np.array([2]), rows),
        lambda: scatter_spans(rows.copy(), np.array([0]), np.array([0]), np.array([0]), np.array([9]), rows),
        lambda: sort_spans(rows.copy(), np.array([3, 2])),
        lambda: write_sets(rows[::-1].copy(), np.array([4])),
        lambda: write_sets(rows, np.array([5])),
        lambda: read_entries(np.zeros(8, np.uint8), one, np.array([0]), np.array([9]), one),
        lambda: read_entries(np.zeros(8, np.uint8), one, np.array([0]), np.array([8]), one),
    ):
        with pytest.raises(ValueError, match="range|needed"):
            call()


def test_rows_of_one_fragment_by_their_offsets() -> None:
    offsets = np.array([2, 3, 70_000], np.int64)
    assert RowSet.of_fragment(5, offsets) == RowSet.of(offsets.astype(np.uint64) | np.uint64(5 << 32))
    assert not RowSet.of_fragment(5, offsets[:0])

"""Row ids and versions as they are written: the forms of the reference, and the same values when read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancelet.errors import CorruptFile
from lancelet.format.proto import rowids_pb2
from lancelet.table.rows.row_id_write import (
    complete_row_ids,
    encode_row_ids,
    encode_versions,
    range_of_ids,
    same_version,
    stamp_versions,
)
from lancelet.table.rows.row_ids import parse_row_ids, parse_versions


def ids(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def form(data: bytes) -> str | None:
    (segment,) = rowids_pb2.RowIdSequence.FromString(data).segments
    return segment.WhichOneof("segment")


def without(count: int, holes: list[int]) -> np.ndarray:
    return ids([value for value in range(count) if value not in set(holes)])


@pytest.mark.parametrize(
    "values, expected",
    [
        (ids([]), "range"),
        (ids(list(range(5, 9))), "range"),
        (ids([3, 1]), "array"),
        (ids([3, 3]), "array"),
        (without(1000, [500]), "range_with_holes"),
        (without(1000, list(range(1, 1000, 100))), "range_with_holes"),
        (without(1000, list(range(1, 1000, 20))), "range_with_bitmap"),
        (ids(list(range(0, 100_000, 1000))), "sorted_array"),
        (ids([0, 2**63]), "sorted_array"),
        (ids([1, 6]), "range_with_bitmap"),
    ],
)
def test_the_smallest_form_is_chosen(values: np.ndarray, expected: str) -> None:
    data = encode_row_ids(values)
    assert form(data) == expected
    assert parse_row_ids(data, len(values), "file", "ids").slice(0, len(values)).tolist() == values.tolist()


def test_bitmap_bits_begin_at_the_lowest() -> None:
    data = encode_row_ids(ids([0, 3, 4, 6, 7, 8, 9]))
    assert rowids_pb2.RowIdSequence.FromString(data).segments[0].range_with_bitmap.bitmap == bytes.fromhex("d903")


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300), max_size=60), st.booleans())
def test_any_ids_come_back(values: list[int], ascending: bool) -> None:
    chosen = sorted(set(values)) if ascending else values
    data = encode_row_ids(ids(chosen))
    assert parse_row_ids(data, len(chosen), "file", "ids").slice(0, len(chosen)).tolist() == chosen


def test_missing_ids_are_filled_in() -> None:
    data, following = complete_row_ids(None, 4, 10, "file", "ids")
    assert (data, following) == (range_of_ids(10, 4), 14)
    data, following = complete_row_ids(encode_row_ids(ids([1])), 2, 6, "file", "ids")
    assert (form(data), following) == ("range_with_bitmap", 7)
    assert parse_row_ids(data, 2, "file", "ids").slice(0, 2).tolist() == [1, 6]
    data, following = complete_row_ids(b"", 2, 6, "file", "ids")
    assert (data, following) == (range_of_ids(6, 2), 8)
    whole = encode_row_ids(ids([5, 2]))
    assert complete_row_ids(whole, 2, 6, "file", "ids") == (whole, 6)
    with pytest.raises(CorruptFile):
        complete_row_ids(whole, 1, 6, "file", "ids")


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(1, 3), max_size=40))
def test_versions_come_back(versions: list[int]) -> None:
    sequence = parse_versions(encode_versions(ids(versions)), len(versions), "file", "versions")
    assert sequence.slice(0, len(versions)).tolist() == versions


def test_versions_are_stamped() -> None:
    sequence = parse_versions(same_version(3, 5), 5, "file", "versions")
    data = stamp_versions(sequence, np.array([1, 4]), 9)
    assert parse_versions(data, 5, "file", "versions").slice(0, 5).tolist() == [3, 9, 3, 3, 9]

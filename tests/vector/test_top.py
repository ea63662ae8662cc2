"""The nearest few rows: the same ones in whatever order they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancelet.index.vector.top import Top

MARKS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(st.lists(MARKS, max_size=60), st.integers(1, 12), st.integers(1, 7))
def test_the_nearest_are_those_of_a_sort(marks: list[float], count: int, pieces: int) -> None:
    numbers = np.array(marks, np.float32)
    rows = np.random.default_rng(len(marks)).permutation(len(marks)).astype(np.uint64)
    top = Top(count)
    for part in range(pieces):
        top.add(numbers[part::pieces].copy(), rows[part::pieces].copy())
    numbers, rows = numbers[~np.isnan(numbers)], rows[~np.isnan(numbers)]
    order = np.lexsort((rows, numbers))[:count]
    found, which = top.sorted()
    assert found.tolist() == numbers[order].tolist()
    assert which.tolist() == rows[order].tolist()
    assert len(top) == len(order)


@given(st.lists(st.floats(0, 10, width=32), max_size=60), st.floats(0, 10, width=32), st.floats(0, 10, width=32))
def test_a_range_has_its_lower_bound_but_not_its_upper_one(marks: list[float], lower: float, upper: float) -> None:
    numbers = np.array(marks, np.float32)
    top = Top(100, lower, upper)
    top.add(numbers, np.arange(len(marks), dtype=np.uint64))
    assert top.sorted()[0].tolist() == sorted(numbers[(numbers >= lower) & (numbers < upper)].tolist())


def test_no_row_at_all_is_not_a_question() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        Top(0)
    with pytest.raises(ValueError, match="a distance for each row"):
        Top(1).add(np.zeros(2, np.float32), np.zeros(1, np.uint64))


@given(st.lists(MARKS, max_size=60), st.integers(1, 12), st.integers(1, 5))
def test_lists_that_are_joined_have_the_nearest_of_all(marks: list[float], count: int, pieces: int) -> None:
    numbers, rows = np.array(marks, np.float32), np.arange(len(marks), dtype=np.uint64)
    whole, joined = Top(count), Top(count)
    whole.add(numbers, rows)
    for part in range(pieces):
        own = Top(count)
        own.add(numbers[part::pieces].copy(), rows[part::pieces].copy())
        joined.join(own)
    assert [found.tolist() for found in joined.sorted()] == [found.tolist() for found in whole.sorted()]
    assert joined.limit == whole.limit

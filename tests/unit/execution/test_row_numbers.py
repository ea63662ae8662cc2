"""Row numbers as callers give them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancelet.errors import InvalidType, LanceletError, RowNotFound
from lancelet.execution.row_numbers import row_numbers


@pytest.mark.parametrize(
    "rows",
    [
        [3, 1],
        (3, 1),
        range(3, -1, -2),
        np.array([3, 1]),
        np.array([3, 1], np.uint8),
        np.array([3, 1], np.uint64),
        pa.array([3, 1]),
        pa.array([3, 1], pa.uint32()),
        pa.chunked_array([[3], [1]]),
        [np.int32(3), True],
        np.array([3, 1], object),
        [pa.scalar(3), pa.scalar(1)],
    ],
)
def test_every_form_of_the_same_rows(rows: Any) -> None:
    numbers = row_numbers(rows)
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [3, 1]


@pytest.mark.parametrize(
    "rows", [[], (), range(0), np.array([]), pa.array([], pa.int64()), pa.chunked_array([], pa.int8())]
)
def test_no_rows(rows: Any) -> None:
    assert row_numbers(rows).tolist() == []


@pytest.mark.parametrize(
    "rows",
    [
        [1.0],
        ["1"],
        [None],
        5,
        "12",
        b"12",
        None,
        {1},
        pa.array([1, None]),
        np.array([1.5]),
        [[1, 2]],
        np.zeros((2, 2), int),
    ],
)
def test_what_is_no_row_number(rows: Any) -> None:
    with pytest.raises(InvalidType) as caught:
        row_numbers(rows)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "rows", [[-1], [0, -5], [2**63], [2**64], [2**80, 1], np.array([2**63], np.uint64), [-(2**70)]]
)
def test_what_no_table_can_have(rows: Any) -> None:
    with pytest.raises(RowNotFound) as caught:
        row_numbers(rows)
    for kind in (LanceletError, IndexError, OverflowError, OSError, ValueError):
        assert isinstance(caught.value, kind)


def test_one_row_is_the_common_case() -> None:
    assert row_numbers([7]).tolist() == [7]
    assert row_numbers([0]).dtype == np.int64

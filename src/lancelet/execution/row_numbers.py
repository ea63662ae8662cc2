"""Row numbers as callers give them: lists, ranges, numpy and Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import Indices
from lancelet.errors import InvalidType, RowNotFound


def row_numbers(rows: Any) -> Indices:
    """As an array of 64-bit integers."""
    if type(rows) is list and len(rows) == 1 and type(rows[0]) is int and 0 <= rows[0] < 2**63:
        return np.array(rows, np.int64)
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        if rows.null_count:
            raise InvalidType("a row number is null")
        array = rows.to_numpy(zero_copy_only=False) if isinstance(rows, pa.Array) else rows.to_numpy()
    elif isinstance(rows, (np.ndarray, Sequence)) and not isinstance(rows, (str, bytes)):
        array = np.asarray(rows)
    else:
        raise InvalidType(f"rows are a list or an array of numbers, not {type(rows)}")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        return _one_by_one(rows, array)
    return _checked(array)


def _one_by_one(rows: Any, array: np.ndarray[Any, Any]) -> Indices:
    """Objects that count as integers; numbers beyond 64 bits end up here too."""
    numbers = []
    for value in rows:
        if hasattr(value, "as_py"):
            value = value.as_py()
        if not isinstance(value, (int, np.integer)):
            raise InvalidType(f"a row number is an integer, not {value!r}")
        numbers.append(int(value))
    wrong = next((n for n in numbers if not 0 <= n < 2**64), None)
    if wrong is not None:
        raise RowNotFound(f"row number {wrong} is out of range")
    return _checked(np.array(numbers, np.uint64))


def _checked(array: np.ndarray[Any, Any]) -> Indices:
    if array.dtype.kind == "u" and int(array.max()) >= 2**63:
        raise RowNotFound(f"row number {int(array.max())} is out of range")
    if array.dtype.kind == "i" and int(array.min()) < 0:
        raise RowNotFound(f"row numbers cannot be negative, got {int(array.min())}")
    return array.astype(np.int64, copy=False)

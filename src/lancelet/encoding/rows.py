"""Which rows of a file to read: a range, or a sorted set of row numbers."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ranges: TypeAlias = list[tuple[int, int]]
"""Byte ranges as (offset, length)."""
Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Read-only bytes of a file."""
Indices: TypeAlias = npt.NDArray[np.int64]
Decode: TypeAlias = Generator[Ranges, list[Bytes], pa.Array]
"""A decoder: yields the byte ranges that it needs next, is sent their bytes, returns the array."""
Step: TypeAlias = Generator[Ranges, list[Bytes], Any]


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows ``start`` up to, not including, ``stop``."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def within(self, start: int, stop: int) -> RowRange:
        """The part inside [start, stop), counted from ``start``."""
        first = max(self.start, start)
        return RowRange(first - start, max(min(self.stop, stop), first) - start)

    def clip(self, start: int, stop: int) -> RowRange:
        """The part inside [start, stop)."""
        first = max(self.start, start)
        return RowRange(first, max(min(self.stop, stop), first))

    def shift(self, by: int) -> RowRange:
        return RowRange(self.start + by, self.stop + by)

    def to_indices(self) -> Indices:
        return np.arange(self.start, self.stop, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RowIndices:
    """Sorted, unique row numbers."""

    values: Indices

    def __len__(self) -> int:
        return len(self.values)

    def within(self, start: int, stop: int) -> RowIndices:
        """The part inside [start, stop), counted from ``start``."""
        first, last = np.searchsorted(self.values, (start, stop))
        return RowIndices(self.values[first:last] - start)

    def clip(self, start: int, stop: int) -> RowIndices:
        """The part inside [start, stop)."""
        first, last = self.values.searchsorted((start, stop))
        return RowIndices(self.values[first:last])

    def shift(self, by: int) -> RowIndices:
        return RowIndices(self.values + by)

    def to_indices(self) -> Indices:
        return self.values


Rows: TypeAlias = RowRange | RowIndices

"""Lists taken apart: flat values, and for each row where its items begin and how many there are.

Functions that make lists work out which values each row has, as positions among the flat values,
and gather them once. A null row has no items.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.signature import as_array

__all__ = ["Ints", "Lists", "codes_of", "rows_of", "take_apart"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_MOST_ITEMS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Lists:
    """``values[starts[row] : starts[row] + lengths[row]]`` are the items of a row."""

    values: pa.Array
    starts: Ints
    lengths: Ints
    valid: Bools

    def __len__(self) -> int:
        return len(self.lengths)

    def positions(self, lengths: Ints | None = None) -> Ints:
        """Where the items of all rows are, one row after the other, or the first ``lengths`` of each."""
        counts = self.lengths if lengths is None else lengths
        return np.repeat(self.starts, counts) + places(counts)

    def rows(self) -> Ints:
        """The row of each item."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def items(self) -> pa.Array:
        """The values that rows have, in the order of the rows."""
        return pick_rows(self.values, pa.array(self.positions()))


def places(lengths: Ints) -> Ints:
    """0, 1, 2, ... within each row."""
    total = int(lengths.sum())
    if total > _MOST_ITEMS:
        raise InvalidInput(f"lists of {total} items altogether are too long; read fewer rows at a time")
    return np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def take_apart(lists: Datum, rows: int) -> Lists:
    """The parts of a column of lists of any sort, also of a constant list."""
    array = as_array(lists, rows)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_null(array.type):
        empty = np.zeros(rows, np.int64)
        return Lists(pa.nulls(0), empty, empty, valid)
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = (np.arange(rows, dtype=np.int64) + array.offset) * size
        lengths = np.full(rows, size, np.int64)
    else:
        offsets = array.offsets.to_numpy().astype(np.int64)
        starts, lengths = offsets[:-1], np.diff(offsets)
    return Lists(array.values, starts, np.where(valid, lengths, 0), valid)


def put_together(values: pa.Array, lengths: Ints, valid: Bools, kind: pa.DataType) -> pa.Array:
    """Lists of ``lengths`` items each out of flat values."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    if values.type != kind.value_type:
        values = values.cast(kind.value_type)
    mask = None if valid.all() else pa.array(~valid)
    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, kind, mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, kind, mask=mask)


def rows_of(args: list[Datum]) -> tuple[int, bool]:
    """How many rows the arguments have, and whether they are constants, which count as one row."""
    lengths = [len(arg) for arg in args if isinstance(arg, pa.Array)]
    return (lengths[0], False) if lengths else (1, True)


def codes_of(*arrays: pa.Array) -> list[Ints]:
    """A number for each value, the same for equal values in all of the arrays; null equals null, NaN equals NaN."""
    kind = next((array.type for array in arrays if not pa.types.is_null(array.type)), pa.null())
    joined = pa.concat_arrays([array if array.type == kind else array.cast(kind) for array in arrays])
    if pa.types.is_null(kind):
        codes = np.zeros(len(joined), np.int64)
    elif pa.types.is_nested(kind):
        numbers: dict[str, int] = {}
        codes = np.array([numbers.setdefault(repr(value), len(numbers)) for value in joined.to_pylist()], np.int64)
    else:
        encoded = joined.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
    bounds = np.cumsum([0, *(len(array) for array in arrays)])
    return [codes[first:last] for first, last in pairwise(bounds)]

"""One page of a column: what every layout has in common."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lancelet.encoding.fetch import FileBytes
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.place import Place
from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import Bytes, Indices, Ranges, RowRange, Rows
from lancelet.encoding.v2_1.levels import Entries, Levels, PageLevels, entry_ranges, expand_ranges


@dataclass(frozen=True, slots=True)
class PageContext:
    """Everything a page decoder needs to know about its surroundings."""

    file: FileBytes
    place: Place
    offsets: tuple[int, ...]
    """Positions of the page's buffers in the file."""
    sizes: tuple[int, ...]
    rows: int
    """Top-level rows; elements for a fixed-size list of structs."""
    dtype: pa.DataType
    """Type of the leaf."""
    kinds: tuple[int, ...]
    """Layers of nesting that the schema asks for, innermost first."""

    def buffer(self, index: int) -> Generator[Ranges, list[Bytes], Bytes]:
        if index >= len(self.offsets):
            raise self.place.corrupt(f"the page has no buffer {index}")
        return (yield from self.file.fetch_one(self.offsets[index], self.sizes[index], self.place))


@dataclass(frozen=True, slots=True)
class PageRows:
    """What was read from a page: level entries, and the values of the visible ones."""

    entries: Entries
    values: pa.Array


class PageDecoder(Protocol):
    """A layout's decoder. ``rows`` count from the page's first row and are never empty."""

    @property
    def nbytes(self) -> int:
        """Memory held between reads."""
        ...

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]: ...


def select(array: pa.Array, starts: Indices, stops: Indices) -> pa.Array:
    """The slots in some ranges of an array."""
    if len(starts) == 1:
        first, last = int(starts[0]), int(stops[0])
        return array if first == 0 and last == len(array) else array.slice(first, last - first)
    return pick_rows(array, arrow_array(expand_ranges(starts, stops)))


def select_levels(levels: Levels | None, starts: Indices, stops: Indices) -> Levels | None:
    if levels is None:
        return None
    if len(starts) == 1:
        return levels[starts[0] : stops[0]]
    return levels[expand_ranges(starts, stops)]


def select_rows(
    reps: Levels | None, defs: Levels | None, values: pa.Array, rows: Rows, shape: PageLevels, context: PageContext
) -> PageRows:
    """Cut rows out of a whole page's levels and values."""
    place = context.place
    if shape.lists:
        if reps is None:
            raise place.corrupt("lists without repetition levels")
        starts = np.flatnonzero(reps == shape.lists).astype(np.int64)
        if len(starts) != context.rows or (len(starts) and starts[0] != 0):
            raise place.corrupt(f"repetition levels of {len(starts)} rows in a page of {context.rows}")
        bounds = np.append(starts, len(reps))
    else:
        bounds = None
    if isinstance(rows, RowRange):
        first, last = np.array([rows.start], np.int64), np.array([rows.stop], np.int64)
    else:
        first, last = rows.values, rows.values + 1
    if bounds is not None:
        first, last = bounds[first], bounds[last]
    ranges = entry_ranges(first, last, defs, shape.max_visible)
    count = int((ranges.stops - ranges.starts).sum())
    defs = shape.common(select_levels(defs, ranges.starts, ranges.stops), place)
    entries = Entries(count, select_levels(reps, ranges.starts, ranges.stops), defs)
    return PageRows(entries, select(values, ranges.value_starts, ranges.value_stops))

"""Layers of nesting, and the levels that carry them (spec encodings.md 2).

Each leaf column has a stack of layers, innermost first: the leaf itself, then the
structs (item layers) and lists around it. A page says which layers may hold
nulls or empty lists, and numbers its definition levels accordingly; pages of one
column may differ. So the first thing done with a page's levels is to renumber
them as if every layer could hold everything::

    item layer   +1   null
    list layer   +1   null list      +2   empty list

Then the levels of all pages can be joined, and folded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancelet.encoding.kernels import levels as kernel
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Indices
from lancelet.format.proto import encodings21_pb2 as pb

Levels = npt.NDArray[np.uint16]

ITEM, LIST = 1, 2
"""Kinds of layers; the number is also how many definition levels it has."""

_ITEMS = {pb.REPDEF_ALL_VALID_ITEM: (), pb.REPDEF_NULLABLE_ITEM: (1,)}
_LISTS = {
    pb.REPDEF_ALL_VALID_LIST: (),
    pb.REPDEF_NULLABLE_LIST: (1,),
    pb.REPDEF_EMPTYABLE_LIST: (2,),
    pb.REPDEF_NULL_AND_EMPTY_LIST: (1, 2),
}


@dataclass(frozen=True, slots=True)
class PageLevels:
    """How one page numbers its levels."""

    renumber: Levels
    """Page level -> common level."""
    max_visible: int
    """Greatest page level of an entry that owns a value slot."""
    lists: int
    """Number of list layers; an entry with this repetition level starts a row."""

    @classmethod
    def of(cls, layers: Sequence[pb.RepDefLayer], kinds: Sequence[int], place: Place) -> PageLevels:
        """Match a page's layers with the kinds that the schema asks for."""
        if len(layers) != len(kinds):
            raise place.corrupt(f"the page has {len(layers)} layers of nesting, its field {len(kinds)}")
        renumber, base, max_visible, lists = [0], 0, None, 0
        for layer, kind in zip(layers, kinds, strict=True):
            steps = (_ITEMS if kind == ITEM else _LISTS).get(layer)
            if steps is None:
                raise place.corrupt(
                    f"layer {layer} stands where the schema has {'an item' if kind == ITEM else 'a list'}"
                )
            if kind == LIST:
                if max_visible is None:
                    max_visible = len(renumber) - 1
                lists += 1
            renumber.extend(base + step for step in steps)
            base += kind
        return cls(np.array(renumber, np.uint16), len(renumber) - 1 if max_visible is None else max_visible, lists)

    @property
    def has_definition(self) -> bool:
        return len(self.renumber) > 1

    def common(self, defs: Levels | None, place: Place) -> Levels | None:
        """Renumber; also where levels beyond the page's own are found out."""
        if defs is None or len(defs) == 0:
            return defs
        top = len(self.renumber) - 1
        if self.renumber[top] == top:
            if int(defs.max()) > top:
                raise place.corrupt(f"a definition level above {top}")
            return defs
        defs = writable(defs)
        if not kernel.renumber(defs, self.renumber):
            raise place.corrupt(f"a definition level above {top}")
        return defs


@dataclass(frozen=True, slots=True)
class Entries:
    """Which level entries of a page were read; levels are renumbered, absent ones are all zero."""

    count: int
    reps: Levels | None
    defs: Levels | None


def writable(levels: Levels) -> Levels:
    """Levels that may be changed: decoded ones are ours, those that lie plain in a mapped file are not."""
    return levels if levels.flags.writeable else levels.copy()


def join_entries(parts: Sequence[Entries]) -> Entries:
    """Levels of several pages end to end."""
    if len(parts) == 1:
        return parts[0]
    return Entries(
        sum(part.count for part in parts),
        _join([part.reps for part in parts], parts),
        _join([part.defs for part in parts], parts),
    )


def _join(levels: list[Levels | None], parts: Sequence[Entries]) -> Levels | None:
    if all(level is None for level in levels):
        return None
    return np.concatenate(
        [np.zeros(part.count, np.uint16) if level is None else level for level, part in zip(levels, parts, strict=True)]
    )


@dataclass(frozen=True, slots=True)
class EntryRanges:
    """Runs of level entries, and the runs of value slots that they own."""

    starts: Indices
    stops: Indices
    value_starts: Indices
    value_stops: Indices


def entry_ranges(starts: Indices, stops: Indices, defs: Levels | None, max_visible: int) -> EntryRanges:
    """Translate entry ranges into value ranges; touching ranges are merged."""
    if len(starts) > 1:
        split = np.flatnonzero(starts[1:] != stops[:-1]) + 1
        starts = starts[np.concatenate(([0], split))]
        stops = stops[np.concatenate((split - 1, [len(stops) - 1]))]
    if defs is None:
        return EntryRanges(starts, stops, starts, stops)
    bounds = np.stack((starts, stops), axis=1).reshape(-1)
    visible = np.empty(len(bounds), np.int64)
    kernel.visible_before(defs, max_visible, bounds, visible)
    pairs = visible.reshape(-1, 2)
    return EntryRanges(starts, stops, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))


def expand_ranges(starts: Indices, stops: Indices) -> Indices:
    """All numbers in the ranges, end to end."""
    lengths = stops - starts
    total = int(lengths.sum())
    shifts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    numbers: Indices = np.arange(total, dtype=np.int64) + shifts
    return numbers

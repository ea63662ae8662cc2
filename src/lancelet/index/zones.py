"""Zones: stretches of a fragment, of each of which an index keeps a summary.

::

    fragment_id   uint64
    zone_start    uint64   offset of the first row in the fragment
    zone_length   uint64   up to and with the last row

A zone has so many rows that were live when it was made; rows that were deleted may lie between them, so it can be
longer. Zones never cross fragments, and say nothing of rows outside of all of them. Rows whose value is null are
a set of rows in a global buffer that the metadata names (``null_bitmap``); the oldest files have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import CorruptFile
from lancelet.index.row_set import RowSet
from lancelet.table.rows.addresses import OFFSET_BITS, OFFSET_MASK, fragment_of, row_address, split_addresses

if TYPE_CHECKING:
    from lancelet.index.kind import Rename
    from lancelet.index.row_set import RowNumbers

Longs = npt.NDArray[np.int64]

FRAGMENT, START, LENGTH = "fragment_id", "zone_start", "zone_length"
FIELDS = tuple(pa.field(name, pa.uint64(), nullable=False) for name in (FRAGMENT, START, LENGTH))
_FOLLOWED_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Zones:
    """Where zones are."""

    fragments: Longs
    starts: Longs
    stops: Longs
    """The offset after the last row."""

    @classmethod
    def read(cls, batch: pa.RecordBatch, path: str) -> Zones:
        """From the columns of a file, which are checked."""
        for name in (FRAGMENT, START, LENGTH):
            if batch[name].type != pa.uint64() or batch[name].null_count:
                raise CorruptFile(path, f"column {name!r} is not made of uint64 without nulls")
        fragments, starts, lengths = (numpy_array(batch[name]) for name in (FRAGMENT, START, LENGTH))
        limit = np.uint64(OFFSET_MASK)
        wrong = (fragments > limit) | (starts > limit) | (lengths > limit) | (starts + lengths > limit + np.uint64(1))
        if wrong.any():
            at = int(wrong.argmax())
            raise CorruptFile(
                path, f"zone {at} has {lengths[at]} rows from {starts[at]} of fragment {fragments[at]} on"
            )
        first = starts.astype(np.int64)
        return cls(fragments.astype(np.int64), first, first + lengths.astype(np.int64))

    def __len__(self) -> int:
        return len(self.fragments)

    @property
    def nbytes(self) -> int:
        return self.fragments.nbytes + self.starts.nbytes + self.stops.nbytes

    def arrays(self) -> list[pa.Array]:
        """The columns of a file."""
        return [arrow_array(part.astype(np.uint64)) for part in (self.fragments, self.starts, self.stops - self.starts)]

    def rows(self, chosen: npt.NDArray[np.bool_]) -> RowSet:
        """All rows of some zones."""
        at = np.flatnonzero(chosen)
        if not len(at):
            return RowSet()
        fragments, starts, stops = self.fragments[at], self.starts[at], self.stops[at]
        # Neighbours become one range: most of the ranges of a common value are.
        begins = np.flatnonzero(np.append(True, (fragments[1:] != fragments[:-1]) | (starts[1:] != stops[:-1])))
        ends = np.append(begins[1:], len(fragments)) - 1
        return RowSet.ranges(fragments[begins].tolist(), starts[begins].tolist(), stops[ends].tolist())

    def take(self, which: Longs | slice) -> Zones:
        """Some of the zones."""
        return Zones(self.fragments[which], self.starts[which], self.stops[which])

    def followed(self, rename: Rename) -> tuple[Longs, Zones]:
        """Where the rows of the zones are now: for each new zone the number of the old one, and the new zones.

        A zone whose rows went into several fragments becomes several. What is known of the old zone holds
        for the new ones, since it holds for any of its rows.
        """
        found: list[tuple[Longs, Zones]] = []
        for zone, rows in self._stretches():
            found.append(_followed(zone, *rename(rows)))
        if not found:
            return np.empty(0, np.int64), self
        which = np.concatenate([number for number, _ in found])
        zones = [part for _, part in found]
        return which, Zones(
            np.concatenate([part.fragments for part in zones]),
            np.concatenate([part.starts for part in zones]),
            np.concatenate([part.stops for part in zones]),
        )

    def _stretches(self) -> Iterator[tuple[Longs, RowNumbers]]:
        """All addresses in the zones, with the numbers of the zones; of many zones at once, but not too many."""
        ends = np.cumsum(self.stops - self.starts)
        first = before = 0
        while first < len(self):
            last = max(int(np.searchsorted(ends, before + _FOLLOWED_AT_ONCE, side="right")), first + 1)
            # A single zone may be longer than what fits: then it goes in pieces.
            for start in range(0, int(ends[last - 1]) - before, _FOLLOWED_AT_ONCE):
                yield self._addresses(first, last, start, start + _FOLLOWED_AT_ONCE)
            first, before = last, int(ends[last - 1])

    def _addresses(self, first: int, last: int, start: int, stop: int) -> tuple[Longs, RowNumbers]:
        lengths = self.stops[first:last] - self.starts[first:last]
        ends = np.cumsum(lengths)
        place = np.arange(start, min(stop, int(ends[-1])))
        zone = np.searchsorted(ends, place, side="right")
        offset = self.starts[first:last][zone] + place - (ends - lengths)[zone]
        rows = self.fragments[first:last][zone].astype(np.uint64) << np.uint64(OFFSET_BITS) | offset.astype(np.uint64)
        return zone + first, rows


def _followed(zone: Longs, rows: RowNumbers, kept: npt.NDArray[np.bool_]) -> tuple[Longs, Zones]:
    zone, rows = zone[kept], rows[kept]
    if not len(rows):
        nothing = np.empty(0, np.int64)
        return nothing, Zones(nothing, nothing, nothing)
    fragment, offset = split_addresses(rows)
    order = np.lexsort((offset, fragment, zone))
    zone, fragment, offset = zone[order], fragment[order], offset[order]
    begins = np.flatnonzero(np.append(True, (zone[1:] != zone[:-1]) | (fragment[1:] != fragment[:-1])))
    ends = np.append(begins[1:], len(zone)) - 1
    return zone[begins], Zones(fragment[begins], offset[begins], offset[ends] + 1)


@dataclass(frozen=True, slots=True)
class Pieces:
    """A batch of rows cut at the borders of zones."""

    begins: Longs
    """Positions in the batch; the first is 0."""
    zones: Zones
    """What of each zone is in the batch."""
    goes_on: bool
    """Whether the first piece belongs to the zone of the last one of the batch before."""


class ZoneCutter:
    """Cuts rows into zones, batch by batch."""

    def __init__(self, rows_per_zone: int) -> None:
        self._size = rows_per_zone
        self._fragment = -1
        self._rows = 0
        """Those of the last zone so far."""

    def cut(self, rows: RowNumbers) -> Pieces:
        """Cut a batch of at least one row, in ascending order of addresses."""
        begins: list[Longs] = []
        start = 0
        goes_on = False
        while start < len(rows):
            fragment = fragment_of(int(rows[start]))
            stop = int(np.searchsorted(rows, np.uint64(row_address(fragment, OFFSET_MASK)), side="right"))
            before = self._rows if fragment == self._fragment and self._rows < self._size else 0
            cuts = np.arange(start - before, stop, self._size)
            self._fragment, self._rows = fragment, stop - int(cuts[-1])
            goes_on = goes_on or before > 0
            cuts[0] = start
            begins.append(cuts)
            start = stop
        at = np.concatenate(begins)
        fragments, first = split_addresses(rows[at])
        _, final = split_addresses(rows[np.append(at[1:], len(rows)) - 1])
        return Pieces(at, Zones(fragments, first, final + 1), goes_on)


def joined(before: Zones, after: Zones) -> Zones:
    """One zone out of what two batches have of it."""
    return Zones(before.fragments, before.starts, after.stops)

"""Ranges of an object that are wanted piece by piece, and fetched whole.

A scan reads the rows of a file in units, and asks for its part of every page. Where pages are small it is cheaper to
fetch each of them once, with what describes it: whoever asks for a part of one first has all of it fetched, and the
others wait for that. A page stays until all of its rows were read.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from lancelet.store.source import Bytes, ByteSource, Ranges


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """Where a page lies in its object, and which rows it has."""

    start: int
    stop: int
    first: int
    last: int
    """The one after its last row."""


@dataclass(slots=True)
class _Page:
    """The bytes of a page; None before they are there, and when they could not be fetched."""

    arrived: threading.Event = field(default_factory=threading.Event)
    data: Bytes | None = None


class WholeRanges:
    """Reads of one object, some pages of which are fetched whole. Safe to use from several threads."""

    __slots__ = ("_extents", "_left", "_lock", "_pages", "_source", "_starts")

    def __init__(self, source: ByteSource, extents: Sequence[Extent]) -> None:
        """``extents`` are ascending and apart from each other."""
        self._source = source
        self._extents = extents
        self._starts = [extent.start for extent in extents]
        self._left = [extent.last - extent.first for extent in extents]
        self._pages: dict[int, _Page] = {}
        self._lock = threading.Lock()

    def read(self, ranges: Ranges) -> list[Bytes]:
        """The bytes of each (offset, length) pair, read-only, in the order asked for."""
        owners = [self._owner(offset, length) for offset, length in ranges]
        pages, mine = self._claim(owners)
        outside = [(offset, length) for (offset, length), owner in zip(ranges, owners, strict=True) if owner < 0]
        missing = [(self._starts[number], self._extents[number].stop - self._starts[number]) for number in mine]
        try:
            answers = self._source.read([*missing, *outside])
            for number, data in zip(mine, answers[: len(mine)], strict=True):
                pages[number].data = data
        finally:
            self._settle(mine, pages)
        rest = iter(answers[len(mine) :])
        return [
            next(rest) if owner < 0 else self._part(pages[owner], owner, offset, length)
            for (offset, length), owner in zip(ranges, owners, strict=True)
        ]

    def release(self, first: int, last: int) -> None:
        """Say that the rows from ``first`` to before ``last`` were read. No two calls are about the same rows."""
        with self._lock:
            for number, extent in enumerate(self._extents):
                self._left[number] -= max(min(extent.last, last) - max(extent.first, first), 0)
                if self._left[number] <= 0:
                    self._pages.pop(number, None)

    def _owner(self, offset: int, length: int) -> int:
        """The page that holds a piece; -1: none does, or it is not read any more."""
        found = bisect_right(self._starts, offset) - 1
        inside = found >= 0 and offset + length <= self._extents[found].stop and self._left[found] > 0
        return found if inside else -1

    def _claim(self, owners: Sequence[int]) -> tuple[dict[int, _Page], list[int]]:
        """The pages that are needed, and which of them nobody has asked for yet."""
        pages: dict[int, _Page] = {}
        mine = []
        with self._lock:
            for number in owners:
                if number < 0 or number in pages:
                    continue
                if number not in self._pages:
                    self._pages[number] = _Page()
                    mine.append(number)
                pages[number] = self._pages[number]
        return pages, mine

    def _settle(self, mine: Sequence[int], pages: dict[int, _Page]) -> None:
        """Tell those who wait; what could not be fetched may be asked for again."""
        with self._lock:
            for number in mine:
                if pages[number].data is None:
                    self._pages.pop(number, None)
                pages[number].arrived.set()

    def _part(self, page: _Page, number: int, offset: int, length: int) -> Bytes:
        page.arrived.wait()
        if page.data is None:
            # Whoever fetched it has failed; this one fails for its own reason, or not at all.
            return self._source.read([(offset, length)])[0]
        at = offset - self._starts[number]
        return page.data[at : at + length]

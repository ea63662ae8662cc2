"""One object of a store that answers with copies of ranges: they are merged before they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile, StorageError
from lancelet.store.coalesce import Span, merge, split
from lancelet.store.source import Bytes, Ranges, out_of_range

# Above this, the size that a manifest claims is checked before memory is set aside for it.
TRUSTED_READ = 256 << 20
KEPT_END = 64 << 10
_EMPTY: Bytes = np.empty(0, np.uint8)
_EMPTY.flags.writeable = False


class RangedStore(Protocol):
    """What a source needs of its store."""

    def join(self, path: str) -> str: ...

    def size_of(self, path: str) -> int: ...

    def fetch(self, path: str, parts: list[tuple[int, int]]) -> list[Any]:
        """The bytes of each (start, stop). No two parts overlap."""


class RangedSource:
    """One object, read by range. Its end, with which readers begin, is kept; of a small object that is all of it."""

    __slots__ = ("_end", "_key", "_known", "_store", "mapped", "path", "size")

    def __init__(self, store: RangedStore, key: str, size: int, *, known: bool) -> None:
        self.path = store.join(key)
        self.size = size
        self.mapped: Bytes | None = None
        self._store = store
        self._key = key
        self._known = known
        self._end = _EMPTY

    def read(self, ranges: Ranges) -> list[Bytes]:
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > self.size:
                raise out_of_range(self.path, offset, length, self.size)
        end = self._end
        base = self.size - len(end)
        asked = [(offset, length) for offset, length in ranges if offset < base]
        if not asked:
            return [end[offset - base : offset - base + length] for offset, length in ranges]
        fetched = iter(self._read(asked))
        views = [
            next(fetched) if offset < base else end[offset - base : offset - base + length] for offset, length in ranges
        ]
        if len(ranges) == 1 and sum(ranges[0]) == self.size and base == self.size and len(views[0]) <= KEPT_END:
            self._end = views[0]
            if len(views[0]) == self.size:
                self.mapped = views[0]
        return views

    def _read(self, ranges: Ranges) -> list[Bytes]:
        spans = merge(ranges)
        if not self._known and sum(span.stop - span.start for span in spans) > TRUSTED_READ:
            self._verify_size()
        views: list[Bytes] = [_EMPTY] * len(ranges)
        for span, parts in zip(spans, self._fetch(spans), strict=True):
            for index in span.members:
                offset, length = ranges[index]
                views[index] = _cut(parts, offset - span.start, length)
        return views

    def read_pieces(self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], out: Bytes) -> bool:
        """Nothing is mapped."""
        return False

    def reserve(self, ranges: int, nbytes: int) -> None:
        """Nothing is mapped."""

    def hold(self, start: int, stop: int) -> bool:
        """What there is as a whole is in memory already."""
        return True

    def release(self, start: int, stop: int) -> None:
        """Nothing is kept."""

    def _fetch(self, spans: list[Span]) -> Iterator[list[Bytes]]:
        """The parts of each span, all but the last of one size."""
        if not spans:
            return
        parts = [split(span) for span in spans]
        try:
            fetched = iter(self._store.fetch(self._key, [part for group in parts for part in group]))
        except StorageError:
            # Stores have many words for a range past the end; the size says it plainly.
            self._verify_size()
            raise
        for group in parts:
            pieces = [np.frombuffer(next(fetched), np.uint8) for _ in group]
            for (start, stop), piece in zip(group, pieces, strict=True):
                if piece.size != stop - start:
                    raise CorruptFile(
                        self.path, f"has no {stop - start} bytes at {start}; is it shorter than recorded?"
                    )
                piece.flags.writeable = False
            yield pieces

    def _verify_size(self) -> None:
        if self._known:
            return
        size = self._store.size_of(self._key)
        if size != self.size:
            raise CorruptFile(self.path, f"has {size} bytes, but {self.size} are recorded for it")
        self._known = True


def _cut(parts: list[Bytes], offset: int, length: int) -> Bytes:
    """A piece of what came in parts; a copy only where it lies in several."""
    step = len(parts[0])
    first, last = offset // step, (offset + length - 1) // step
    if first == last:
        at = offset - first * step
        return parts[first][at : at + length]
    joined = np.concatenate(
        [parts[first][offset - first * step :], *parts[first + 1 : last], parts[last][: offset + length - last * step]]
    )
    joined.flags.writeable = False
    return joined

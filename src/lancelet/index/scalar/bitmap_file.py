"""The file of BITMAP and LABEL_LIST indices (spec indices.md 5 and 6), read.

::

    bitmap_page_lookup.lance
        keys      the type of the column, or of its items; a null key first, then ascending (oldest files: in any order)
        bitmaps   binary, the rows that have the key (lancelet.index.row_set)
    metadata      lance:index_stats        {"num_bitmaps": number of keys}
                  lance:label_list_nulls   LABEL_LIST: the global buffer with the rows whose list is null

Keys are kept in memory, bitmaps are read when they are asked for.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array, numpy_type
from lancelet.errors import CorruptFile
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.dictionaries import plain_values
from lancelet.index.scalar.sort_keys import order_of, places_of, words_of
from lancelet.index.scalar.value_types import has_order, has_words, key_type
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder

FILE: Final = "bitmap_page_lookup.lance"
KEYS: Final = "keys"
BITMAPS: Final = "bitmaps"
STATISTICS: Final = "lance:index_stats"
LIST_NULLS: Final = "lance:label_list_nulls"

Places = npt.NDArray[np.int64]
"""Rows of the file, ascending."""

_BLOCK_BYTES: Final = 8 << 20
_FEW_VALUES: Final = 16
_FEW_SETS: Final = 64
"""So many sets are read one by one, and kept."""
_RECENT_BYTES: Final = 64 << 20
_SET_BYTES: Final = 512
"""About what a set takes beyond its stored form."""


def _narrow(dtype: pa.DataType) -> pa.DataType:
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(dtype, dtype)


class SortedKeys:
    """Distinct values without nulls, in ascending order as filters see it.

    All NaN are one value above infinity and both zeros are one; so some of the keys of a file may be equal here, and
    ``order`` tells where each one was among those given.
    """

    def __init__(self, values: pa.Array) -> None:
        self.dtype: pa.DataType = values.type
        self.order: Places | None = None
        if has_words(self.dtype):
            self._words: npt.NDArray[np.uint64] | None = meant_words(values)
            if (self._words[1:] < self._words[:-1]).any():
                self.order = np.argsort(self._words, kind="stable")
                self._words = self._words[self.order]
            return
        self._words = None
        self._values = values = as_bytes(values)
        if len(values) > 1 and pc.any(pc.less(values[1:], values[:-1])).as_py():
            self.order = order_of(values).astype(np.int64)
            self._values = values.take(self.order)

    def __len__(self) -> int:
        return len(self._values) if self._words is None else len(self._words)

    @property
    def nbytes(self) -> int:
        held = self._values.nbytes if self._words is None else self._words.nbytes
        return int(held + (0 if self.order is None else self.order.nbytes))

    @property
    def texts(self) -> pa.Array:
        """The keys of a column of texts."""
        return self._values.view(self.dtype)

    def equal_to(self, values: pa.Array) -> Places:
        """Where the keys are that equal one of the values."""
        values = self._alike(values)
        if self._words is not None:
            words = np.unique(meant_words(values))
            starts = np.searchsorted(self._words, words)
            return _spread(starts, np.searchsorted(self._words, words, side="right"))
        if len(values) > _FEW_VALUES:
            values = values.unique()
            starts = places_of(self._values, values, after=False)
            return np.sort(_spread(starts, places_of(self._values, values, after=True)))
        found = [range(self._bisect(bisect_left, one), self._bisect(bisect_right, one)) for one in values.unique()]
        return np.array(sorted(chain.from_iterable(found)), np.int64)

    def first_from(self, value: pa.Scalar, with_equal: bool) -> int:
        """Where the keys begin that are above a value, or equal to it."""
        one = self._alike(pa.repeat(value, 1))
        if self._words is not None:
            return int(np.searchsorted(self._words, meant_words(one), side="left" if with_equal else "right")[0])
        return self._bisect(bisect_left if with_equal else bisect_right, one[0])

    def _alike(self, values: pa.Array) -> pa.Array:
        """Values as the keys are held."""
        if self._words is not None or values.type == self.dtype:
            return as_bytes(values)
        return as_bytes(values.cast(self.dtype))

    def _bisect(self, search: Callable[..., int], value: pa.Scalar) -> int:
        return search(range(len(self)), value.as_py(), key=lambda at: self._values[at].as_py())

    def starting_with(self, prefix: bytes) -> tuple[int, int]:
        """Where the keys begin and end that start with these bytes."""
        assert self._words is None
        everything = range(len(self))
        start = bisect_left(everything, prefix, key=lambda at: self._values[at].as_py())
        # The key's beginning is at most the prefix up to the last key that starts with it.
        stop = bisect_right(everything, prefix, key=lambda at: self._values[at].as_py()[: len(prefix)])
        return start, max(start, stop)

    def holding(self, pieces: tuple[str, ...]) -> Places:
        """Where the texts are that hold these pieces in this order."""
        if len(pieces) == 1:
            found = pc.match_substring(self.texts, pieces[0])
        else:
            found = pc.match_substring_regex(self.texts, "(?s)" + ".*".join(re.escape(piece) for piece in pieces))
        return np.flatnonzero(found.to_numpy(zero_copy_only=False))


def meant_words(values: pa.Array) -> npt.NDArray[np.uint64]:
    """Words of values without nulls, in the order of filters."""
    words = words_of(values)
    if pa.types.is_floating(values.type):
        exact = np.array([-np.inf, -0.0, 0.0, np.inf], numpy_type(values.type))
        lowest, minus_zero, zero, highest = words_of(pa.array(exact, values.type))
        words[(words < lowest) | (words > highest)] = np.uint64(2**64 - 1)
        words[words == minus_zero] = zero
    return words


def as_bytes(values: pa.Array) -> pa.Array:
    """Texts as bytes: they compare in the same way, whatever the bytes are."""
    if pa.types.is_string(values.type):
        return values.view(pa.binary())
    return values.view(pa.large_binary()) if pa.types.is_large_string(values.type) else values


def _spread(starts: Places, stops: Places) -> Places:
    """All numbers in ranges that do not overlap."""
    lengths = stops - starts
    total = np.cumsum(lengths)
    return np.repeat(starts - (total - lengths), lengths) + np.arange(int(total[-1]) if len(total) else 0)


class RecentSets:
    """Sets that were read, up to a number of bytes; the least recently used go first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._sets: OrderedDict[int, tuple[RowSet, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.nbytes = 0

    def find(self, places: list[int]) -> dict[int, RowSet]:
        """Those of these rows of the file that are here."""
        with self._lock:
            known = [place for place in places if place in self._sets]
            for place in known:
                self._sets.move_to_end(place)
            return {place: self._sets[place][0] for place in known}

    def keep(self, place: int, rows: RowSet, nbytes: int) -> None:
        """Put in the set of a row of the file."""
        size = nbytes + _SET_BYTES
        with self._lock:
            if place in self._sets or size > self._max_bytes:
                return
            self._sets[place] = rows, size
            self.nbytes += size
            while self.nbytes > self._max_bytes:
                _, (_, gone) = self._sets.popitem(last=False)
                self.nbytes -= gone


@dataclass(frozen=True, slots=True)
class BitmapFile:
    """An open file."""

    reader: IndexFileReader
    keys: SortedKeys
    places: Places
    """The row of the file for each of the keys."""
    null_rows: RowSet
    """The rows of the null key."""
    null_bytes: int
    recent: RecentSets

    @classmethod
    def open(cls, folder: IndexFolder, dtype: pa.DataType) -> BitmapFile:
        """Open a file over a column, or over items, of this type."""
        reader = folder.open(FILE)
        stored, wanted = key_type(reader.type(KEYS)), key_type(dtype)
        if not has_order(stored) or _narrow(stored) != _narrow(wanted):
            raise CorruptFile(reader.path, f"its keys are {stored}, but the column is {wanted}")
        if reader.type(BITMAPS) not in (pa.binary(), pa.large_binary()):
            raise CorruptFile(reader.path, f"its bitmaps are {reader.type(BITMAPS)}, not binary")
        values = plain_values(reader.read([KEYS]).column(0))
        missing = numpy_array(values.is_null())
        keys = SortedKeys(values.drop_null())
        places = np.flatnonzero(~missing)
        nulls = read_blocks(reader, [BITMAPS], np.flatnonzero(missing))
        stored_nulls = [stored_sets(batch.column(BITMAPS), reader.path) for _, batch in nulls]
        return cls(
            reader,
            keys,
            places if keys.order is None else places[keys.order],
            RowSet.union(RowSet.deserialize_union(*sets, reader.path, BITMAPS) for sets in stored_nulls),
            sum(len(data) for data, _ in stored_nulls),
            RecentSets(_RECENT_BYTES),
        )

    @property
    def nbytes(self) -> int:
        return self.reader.nbytes + self.keys.nbytes + self.places.nbytes + self.null_bytes + self.recent.nbytes

    def rows_of(self, keys: Places) -> RowSet:
        """The rows of some of the sorted keys."""
        places = np.sort(self.places[keys])
        if len(places) > _FEW_SETS:
            return self._union(places)
        found = self.recent.find(places.tolist())
        missing = np.array([place for place in places.tolist() if place not in found], np.int64)
        for at, batch in read_blocks(self.reader, [BITMAPS], missing):
            data, offsets = stored_sets(batch.column(BITMAPS), self.reader.path)
            for place, start, stop in zip(missing[at:].tolist(), offsets[:-1], offsets[1:], strict=False):
                found[place] = RowSet.deserialize(data[start:stop].tobytes(), self.reader.path, BITMAPS)
                self.recent.keep(place, found[place], int(stop - start))
        return RowSet.union(found.values())

    def _union(self, places: Places) -> RowSet:
        path = self.reader.path
        return RowSet.union(
            RowSet.deserialize_union(*stored_sets(batch.column(BITMAPS), path), path, BITMAPS)
            for _, batch in read_blocks(self.reader, [BITMAPS], places)
        )

    def blocks(self) -> Iterator[tuple[pa.Array, npt.NDArray[np.uint8], Places]]:
        """All keys and their stored sets, in steps of a few MiB."""
        for _, batch in read_blocks(self.reader, [KEYS, BITMAPS], np.arange(self.reader.num_rows)):
            yield plain_values(batch.column(KEYS)), *stored_sets(batch.column(BITMAPS), self.reader.path)


def read_blocks(reader: IndexFileReader, columns: list[str], places: Places) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Columns of some rows, in steps of a few MiB, each with the number of rows before it."""
    at = 0
    step = max(1, _BLOCK_BYTES * reader.num_rows // max(reader.size, 1))
    while at < len(places):
        chosen = places[at : at + step]
        first, last = int(chosen[0]), int(chosen[-1])
        together = last - first + 1 == len(chosen)
        batch = reader.slice(columns, first, last + 1) if together else reader.take(columns, chosen)
        yield at, batch
        at += len(chosen)
        # The size of a step was a guess: sets differ in size.
        if batch.nbytes > 2 * _BLOCK_BYTES:
            step = max(1, step // 2)
        elif batch.nbytes < _BLOCK_BYTES // 2:
            step *= 2


def stored_sets(bitmaps: pa.Array, path: str) -> tuple[npt.NDArray[np.uint8], Places]:
    """The bytes of stored sets, and where each begins and the last ends."""
    if bitmaps.null_count:
        raise CorruptFile(path, "a key has no bitmap", BITMAPS)
    if not len(bitmaps):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    wide = np.dtype(np.int32 if pa.types.is_binary(bitmaps.type) else np.int64)
    _, offsets, data = bitmaps.buffers()
    ends = np.frombuffer(offsets, wide, len(bitmaps) + 1, bitmaps.offset * wide.itemsize).astype(np.int64)
    return np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), ends

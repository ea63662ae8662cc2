"""Sets of rows, as indices answer and store them.

A row is 64 bits: its address, or a stable row id. A set keeps a Roaring bitmap
of the low halves for each high half (the fragment, for addresses), or notes that all
of a fragment's rows are in it::

    u32 number of entries                                  stored form (spec indices.md 2.3)
    each: u32 high half, u32 length, Roaring bitmap        length 0: all rows of the fragment

Sets are values: operations make new ones.
"""

from __future__ import annotations

import array
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancelet.errors import CorruptFile
from lancelet.index.row_set_wire import gather_rows, read_entries, scan_sets, unite_entries
from lancelet.index.sorting import sort_words
from lancelet.table.rows.addresses import OFFSET_MASK, fragment_of, fragments_of, row_addresses

RowNumbers = npt.NDArray[np.uint64]

_COUNT: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<II")
_ALL: Final = None
"""In the place of a bitmap: all rows of the fragment."""
_NONE: Final = BitMap()
_FEW_BYTES: Final = 1 << 20
_BYTES_A_ROW: Final = 32
_MOST_BYTES: Final = 256 << 20
"""Rows are united in a field of bits as long as it is this small; else they are sorted."""
_MANY: Final = 4096
"""So many rows are not sorted if they need not be."""


class StoredEntries(NamedTuple):
    """The entries of stored sets, one after the other."""

    sets: npt.NDArray[np.int64]
    """The set of each, from 0."""
    highs: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    """Where its Roaring bitmap lies."""
    sizes: npt.NDArray[np.int64]
    """Its number of rows; -1: all rows of the fragment."""


class RowSet:
    """Rows of a table.

    Examples
    --------
    >>> import numpy as np
    >>> some = RowSet.of(np.array([3, 5, 1 << 32], np.uint64))
    >>> some & RowSet.whole([1])
    RowSet(1 row of 1 fragment)
    >>> some.inverted({0: 6, 1: 1}).numbers().tolist()
    [0, 1, 2, 4]
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[int, BitMap | None] | None = None) -> None:
        self._parts: Mapping[int, BitMap | None] = parts or {}

    @classmethod
    def of(cls, numbers: RowNumbers) -> RowSet:
        """The set of these rows, given in any order."""
        if not len(numbers):
            return cls()
        if len(numbers) > 1 and (numbers[1:] < numbers[:-1]).any():
            found = None
            if len(numbers) >= _MANY:
                found = gather_rows(np.ascontiguousarray(numbers), _most_bits(len(numbers)))
            if found is not None:
                return cls({high: BitMap.deserialize(data) for high, data in found.items()})
            numbers = numbers.copy()
            sort_words(numbers)
        low = (numbers & np.uint64(OFFSET_MASK)).astype(np.uint32)
        first, last = fragment_of(int(numbers[0])), fragment_of(int(numbers[-1]))
        return cls({first: _bitmap(low)}) if first == last else cls._grouped(fragments_of(numbers), low)

    @classmethod
    def of_fragment(cls, fragment: int, offsets: npt.NDArray[np.int64]) -> RowSet:
        """Rows of one fragment, by ascending offsets."""
        return cls({fragment: _bitmap(offsets.astype(np.uint32))}) if len(offsets) else cls()

    @classmethod
    def _grouped(cls, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint32]) -> RowSet:
        """The rows of these halves, of which the high ones ascend."""
        starts = np.flatnonzero(np.diff(high, prepend=~high[:1]))
        stops = [*starts[1:].tolist(), len(high)]
        keys = high[starts].tolist()
        return cls({k: _bitmap(low[a:b]) for k, a, b in zip(keys, starts.tolist(), stops, strict=True)})

    @classmethod
    def whole(cls, fragments: Iterable[int]) -> RowSet:
        """All rows of these fragments."""
        return cls(dict.fromkeys(fragments, _ALL))

    @classmethod
    def ranges(cls, fragments: Iterable[int], starts: Iterable[int], stops: Iterable[int]) -> RowSet:
        """The rows from ``start`` to before ``stop`` of each fragment; a fragment may come several times."""
        parts: dict[int, BitMap | None] = {}
        for fragment, start, stop in zip(fragments, starts, stops, strict=True):
            part = parts.setdefault(fragment, BitMap())
            assert part is not None
            part.add_range(start, stop)
        return cls(parts)

    @property
    def fragments(self) -> frozenset[int]:
        """The high halves that occur."""
        return frozenset(key for key, part in self._parts.items() if part is _ALL or part)

    def __bool__(self) -> bool:
        return bool(self.fragments)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowSet) or self.fragments != other.fragments:
            return False
        return all(self._parts[key] == other._parts[key] for key in self.fragments)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = "all rows" if self.has_whole else f"{len(self)} row{'s' * (len(self) != 1)}"
        count = len(self.fragments)
        return f"RowSet({rows} of {count} fragment{'s' * (count != 1)})"

    @property
    def has_whole(self) -> bool:
        """Whether all rows of some fragment are in it, whatever their number."""
        return any(part is _ALL for part in self._parts.values())

    def __len__(self) -> int:
        """The number of rows; unknown, and an error, when all rows of some fragment are in it."""
        total = 0
        for part in self._parts.values():
            if part is _ALL:
                raise ValueError("a set with whole fragments has no length")
            total += len(part)
        return total

    def is_whole(self, fragment: int) -> bool:
        """Whether all rows of a fragment are in it."""
        return fragment in self._parts and self._parts[fragment] is _ALL

    def offsets(self, fragment: int) -> npt.NDArray[np.int64]:
        """The rows of one fragment in ascending order; not for a whole one."""
        return np.asarray(self.bitmap(fragment).to_array(), np.uint32).astype(np.int64)

    def bitmap(self, fragment: int) -> BitMap:
        """The rows of one fragment, not to be changed; not for a whole one."""
        part = self._parts.get(fragment, _NONE)
        if part is _ALL:
            raise ValueError(f"fragment {fragment} is in the set as a whole")
        return part

    def agrees(self, other: RowSet, fragment: int) -> bool:
        """Whether both have the same rows of a fragment."""
        mine, theirs = (rows._parts.get(fragment, _NONE) for rows in (self, other))
        return mine is theirs or mine == theirs

    def numbers(self) -> RowNumbers:
        """All rows in ascending order; not for sets with whole fragments."""
        parts = [row_addresses(key, self.offsets(key)) for key in sorted(self.fragments)]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    def __contains__(self, number: int) -> bool:
        if (key := fragment_of(number)) not in self._parts:
            return False
        part = self._parts[key]
        return part is _ALL or number & OFFSET_MASK in part

    def __and__(self, other: RowSet) -> RowSet:
        few, many = (self, other) if len(self._parts) <= len(other._parts) else (other, self)
        parts: dict[int, BitMap | None] = {}
        for key, mine in few._parts.items():
            if key in many._parts:
                theirs = many._parts[key]
                parts[key] = theirs if mine is _ALL else mine if theirs is _ALL else mine & theirs
        return RowSet(parts)

    def __or__(self, other: RowSet) -> RowSet:
        parts = dict(self._parts)
        for key, theirs in other._parts.items():
            if key not in parts:
                parts[key] = theirs
            else:
                mine = parts[key]
                parts[key] = _ALL if mine is _ALL or theirs is _ALL else mine | theirs
        return RowSet(parts)

    @classmethod
    def union(cls, sets: Iterable[RowSet]) -> RowSet:
        """The rows of all of them."""
        gathered: dict[int, list[BitMap]] = {}
        whole: set[int] = set()
        for one in sets:
            for key, part in one._parts.items():
                if part is _ALL:
                    whole.add(key)
                else:
                    gathered.setdefault(key, []).append(part)
        parts: dict[int, BitMap | None] = {key: _united(found) for key, found in gathered.items()}
        parts.update(dict.fromkeys(whole, _ALL))
        return cls(parts)

    def inverted(self, rows: Mapping[int, int]) -> RowSet:
        """The other rows of the fragments in ``rows``, which tells how many each has."""
        parts: dict[int, BitMap | None] = {}
        for key, count in rows.items():
            if key not in self._parts:
                parts[key] = _ALL
            elif (part := self._parts[key]) is not _ALL:
                parts[key] = BitMap(range(count)) - part if part else _ALL
        return RowSet(parts)

    def within(self, fragments: Iterable[int]) -> RowSet:
        """The part of it that is in these fragments."""
        wanted = set(fragments)
        return RowSet({key: part for key, part in self._parts.items() if key in wanted})

    def counted(self, rows: Mapping[int, int]) -> RowSet:
        """The same set with whole fragments spelled out by their numbers of rows."""
        return RowSet({k: BitMap(range(rows[k])) if part is _ALL else part for k, part in self._parts.items()})

    def items(self) -> Iterator[tuple[int, npt.NDArray[np.int64] | None]]:
        """Each fragment with its rows in ascending order, None for all of them; by ascending fragment."""
        for key in sorted(self.fragments):
            yield key, None if self.is_whole(key) else self.offsets(key)

    def serialize(self) -> bytes:
        """The stored form."""
        pieces = [_COUNT.pack(len(self._parts))]
        for key in sorted(self._parts):
            part = self._parts[key]
            data = b"" if part is _ALL else part.serialize()
            pieces += (_ENTRY.pack(key, len(data)), data)
        return b"".join(pieces)

    @classmethod
    def deserialize(cls, data: bytes, path: str, place: str) -> RowSet:
        """Read the stored form; ``path`` and ``place`` name it in errors."""
        return cls.deserialize_union(np.frombuffer(data, np.uint8), np.array([0, len(data)]), path, place)

    @classmethod
    def deserialize_union(
        cls, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], path: str, place: str
    ) -> RowSet:
        """The union of stored sets, each of which lies between two of the ascending offsets."""
        entries = scan_stored(data, offsets, path, place)
        order = np.argsort(entries.highs, kind="stable")
        highs = entries.highs[order]
        borders = np.flatnonzero(np.diff(highs, prepend=-1, append=-1)).tolist()
        parts: dict[int, BitMap | None] = {}
        for first, last in pairwise(borders):
            parts[int(highs[first])] = _united_entries(data, entries, order[first:last])
        return cls(parts)


def scan_stored(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], path: str, place: str) -> StoredEntries:
    """The entries of stored sets, all checked."""
    try:
        return StoredEntries(*scan_sets(data, offsets))
    except ValueError as error:
        raise CorruptFile(path, f"not a set of rows: {error}", place) from None


def _most_bits(rows: int) -> int:
    return min(max(_FEW_BYTES, _BYTES_A_ROW * rows), _MOST_BYTES)


def _united(bitmaps: list[BitMap]) -> BitMap:
    return bitmaps[0] if len(bitmaps) == 1 else BitMap.union(*bitmaps)


def _united_entries(data: npt.NDArray[np.uint8], entries: StoredEntries, some: npt.NDArray[np.int64]) -> BitMap | None:
    """All rows of stored entries with the same high half."""
    if len(some) == 1:
        one = int(some[0])
        whole = entries.sizes[one] < 0
        return _ALL if whole else BitMap.deserialize(data[entries.starts[one] : entries.stops[one]].tobytes())
    starts, stops, sizes = entries.starts[some], entries.stops[some], entries.sizes[some]
    if (sizes < 0).any():
        return _ALL
    united = unite_entries(data, starts, stops, _most_bits(int(sizes.sum())))
    if united is not None:
        return BitMap.deserialize(united)
    return _bitmap(
        (read_entries(data, entries.highs[some], starts, stops, sizes) & np.uint64(OFFSET_MASK)).astype(np.uint32)
    )


def _bitmap(low: npt.NDArray[np.uint32]) -> BitMap:
    """The set of these numbers, given in any order."""
    if len(low) > 1 and (low[1:] < low[:-1]).any():
        low = np.sort(low)
    # Of all that a bitmap can be made of, this is by far the fastest. Runs would be smaller; pylance stores none.
    return BitMap(array.array("I", low.tobytes()), optimize=False)

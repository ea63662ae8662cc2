"""An open BTREE segment: finding rows in its pages.

A question becomes ranges of the order. The ends of a range are searched in the pages that they fall into, so that however
long it is, values are read of two pages at most; then the ids of the rows between. Pages whose values were
searched stay in memory, as many as fit.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array, numpy_type
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.index.kind import ROW, VALUE, Entries, Rename, Source
from lancelet.index.questions import Answer, Between, IsIn, Missing, Question, StartsWith
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.btree_files import IDS, LOOKUP, MAX, MIN, OLD_IDS, VALUES
from lancelet.index.scalar.dictionaries import plain_values
from lancelet.index.scalar.digests import value_digests
from lancelet.index.scalar.external_sort import batch_rows
from lancelet.index.scalar.printed import printed
from lancelet.index.scalar.sort_keys import (
    Keys,
    compared,
    distinct,
    find,
    is_ascending,
    kept_keys,
    keys_between,
    keys_of,
)
from lancelet.index.scalar.value_types import key_type

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder

_KEPT_BYTES: Final = 256 << 20
"""How much of the pages stays in memory."""
_KEPT_IDS: Final = 1 << 14
"""Ids of answers with at most so many rows stay in memory too, for the same may be asked again."""
_PAGES_AT_ONCE: Final = 256
"""How many pages are asked for together."""
_SCATTERED: Final = 1 << 16
"""Up to so many rows of many ranges are read one by one, all at once."""

_Places = npt.NDArray[np.int64]
_Kept = int | tuple[tuple[int, int], ...]
_End = tuple[Keys, bool]
"""Ascending keys, and whether the rows that are equal to them come before the end of a range."""


@dataclass(slots=True)
class PageFile:
    """A file with pages. It is opened when it is first needed."""

    folder: IndexFolder
    name: str
    first: int
    """The number of its first page in the lookup."""
    pages: int
    dtype: pa.DataType
    page_rows: int
    ids: str = IDS
    """The column of the ids, once it is open."""
    _reader: IndexFileReader | None = None

    @property
    def reader(self) -> IndexFileReader:
        if self._reader is None:
            reader = self.folder.open(self.name)
            self.ids = OLD_IDS if OLD_IDS in reader.columns else IDS
            if key_type(reader.type(VALUES)) != self.dtype or reader.type(self.ids) != pa.uint64():
                types = f"{reader.type(VALUES)} and {reader.type(self.ids)}"
                raise CorruptFile(reader.path, f"has values and ids of {types}, not of {self.dtype} and uint64")
            if -(-reader.num_rows // self.page_rows) != self.pages:
                raise CorruptFile(
                    reader.path, f"has {reader.num_rows} rows, not {self.pages} pages of {self.page_rows}"
                )
            self._reader = reader
        return self._reader

    @property
    def nbytes(self) -> int:
        return 0 if self._reader is None else self._reader.nbytes


@dataclass(slots=True)
class _Search:
    """Values that are looked for."""

    keys: Keys
    after: bool
    rows: _Places
    """What was found of each: the first row of its page, until that is searched."""
    pages: dict[int, tuple[int, int]]
    """The pages to search, and which of the keys in each: the first, and the one after the last."""


@dataclass(slots=True)
class _PageCache:
    """Keys of pages by their numbers, and ids by the ranges of rows; those that were used least recently go first."""

    pages: OrderedDict[_Kept, tuple[Keys, int]] = field(default_factory=OrderedDict)
    nbytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, number: _Kept) -> Keys | None:
        with self.lock:
            if number not in self.pages:
                return None
            self.pages.move_to_end(number)
            return self.pages[number][0]

    def put(self, number: _Kept, keys: Keys) -> None:
        keys = kept_keys(keys)
        size = sum(array.nbytes for array in keys) if isinstance(keys, tuple) else keys.nbytes
        with self.lock:
            if number in self.pages:
                return
            self.pages[number] = keys, size
            self.nbytes += size
            while self.nbytes > _KEPT_BYTES:
                _, (_, gone) = self.pages.popitem(last=False)
                self.nbytes -= gone


@dataclass(slots=True)
class BTreeSegment:
    """An open segment.

    Rows are counted as if every page were full: row ``r`` is in page ``r // page_rows``. So the place of a row in the
    order is known without opening the files before its own.
    """

    path: str
    """Of the lookup."""
    dtype: pa.DataType
    page_rows: int
    parts: tuple[PageFile, ...]
    lookup: pa.RecordBatch
    null_pages: int
    """So many pages at the beginning have nulls only."""
    nulls_after: int
    """So many nulls are at the beginning of the page after them."""
    mins: pa.Array
    """Of the pages that have values. What is there for a page that begins with nulls has no meaning."""
    maxs: pa.Array
    _min_keys: Keys = field(init=False)
    _max_keys: Keys = field(init=False)
    _cache: _PageCache = field(default_factory=_PageCache)
    _missing: RowSet | None = None

    def __post_init__(self) -> None:
        self._min_keys, self._max_keys = keys_of(self.mins), keys_of(self.maxs)

    @property
    def nbytes(self) -> int:
        """What is kept in memory."""
        missing = 0 if self._missing is None else len(self._missing.serialize())
        return 2 * int(self.lookup.nbytes) + missing + self._cache.nbytes + sum(part.nbytes for part in self.parts)

    @property
    def _pages(self) -> int:
        return len(self.mins) + self.null_pages

    @property
    def _first(self) -> int:
        """The first row that is not null."""
        return self.null_pages * self.page_rows + self.nulls_after

    @property
    def _end(self) -> int:
        return self._pages * self.page_rows

    def ask(self, question: Question) -> Answer:
        """Rows in the segment's own terms."""
        if isinstance(question, Missing):
            return Answer(self.nulls(), True, RowSet())
        return Answer(RowSet.of(self._ids(self._rows_of(self._ranges(question)))), True, self.nulls)

    def share(self, question: Question) -> float:
        """About which share of the rows an answer has, as far as the lookup tells."""
        if not self._pages:
            return 0.0
        if isinstance(question, Missing):
            return self._first / self._end
        pages = 0
        for low, high in self._ranges(question):
            start = 0 if low is None else int(find(self._max_keys, *low).sum())
            stop = len(self.maxs) if high is None else int(find(self._max_keys, *high).sum())
            pages += max(0, stop - start)
        return min(1.0, pages / self._pages)

    def nulls(self) -> RowSet:
        """The rows whose value is null; kept once they have been read."""
        if self._missing is None:
            self._missing = RowSet.of(self._ids([(0, self._first)])) if self._first else RowSet()
        return self._missing

    def statistics(self) -> Mapping[str, Any]:
        """What ``index_statistics`` tells of a segment."""
        if not self._pages:
            return {}
        least = greatest = "N/A"
        if self.null_pages < self._pages:
            least = printed(self.lookup.column(MIN)[self.null_pages])
            greatest = printed(self.lookup.column(MAX)[-1])
        return {"min": least, "max": greatest, "num_pages": self._pages}

    def rows(self, rename: Rename | None, streams: int) -> Iterator[pa.RecordBatch]:
        """All rows in order, as they are called now; ``streams`` such streams are read in turn."""
        before: pa.Array | None = None
        for part in self.parts:
            reader = part.reader
            step = batch_rows(reader.size, reader.num_rows, streams)
            for start in range(0, reader.num_rows, step):
                batch = reader.slice([VALUES, part.ids], start, min(start + step, reader.num_rows))
                values, ids = plain_values(batch.column(VALUES)), batch.column(part.ids)
                before = _check_order(values, before, reader.path)
                if rename is not None:
                    numbers, kept = rename(numpy_array(ids))
                    keep = arrow_array(kept)
                    values, ids = values.filter(keep), arrow_array(numbers).filter(keep)
                yield pa.RecordBatch.from_arrays([values, ids], names=[VALUE, ROW])

    def entries(self, source: Source) -> Iterator[Entries]:
        """All rows by page; every page must be as the lookup tells."""
        for part in self.parts:
            for number in range(part.pages):
                start = number * self.page_rows
                stop = min(start + self.page_rows, part.reader.num_rows)
                stored, ids = part.reader.slice([VALUES, part.ids], start, stop).columns
                values = plain_values(stored)
                if ids.null_count:
                    raise CorruptFile(part.reader.path, "has rows without an id")
                place = part.first + number - self.null_pages
                if place >= 0:
                    self._checked(place, values, part)
                elif values.null_count < len(values):
                    raise CorruptFile(part.reader.path, f"page {number} has values where {LOOKUP} tells of nulls alone")
                yield value_digests(values), numpy_array(ids)

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], None]:
        return value_digests(values), None

    def _ranges(self, question: Question) -> list[tuple[_End | None, _End | None]]:
        """The ranges of the order that a question asks for; without an end they go on to the first or last value."""
        match question:
            case IsIn(values) if pa.types.is_floating(self.dtype):
                return self._float_ranges(values)
            case IsIn(values):
                wanted = keys_of(distinct(values))
                return [((wanted, False), (wanted, True))]
            case Between(low, high, with_low, with_high) if pa.types.is_floating(self.dtype):
                start, stop = (None if end is None else float(end.as_py()) for end in (low, high))
                return self._between_floats(start, stop, with_low, with_high)
            case Between(low, high, with_low, with_high):
                return [
                    (
                        None if low is None else (keys_of(pa.repeat(low, 1)), not with_low),
                        None if high is None else (keys_of(pa.repeat(high, 1)), with_high),
                    )
                ]
            case StartsWith(prefix):
                return [_prefixed(prefix.encode() if isinstance(prefix, str) else prefix)]
            case _:
                raise InvalidInput(f"a BTREE index does not answer {type(question).__name__}")

    def _float_ranges(self, values: pa.Array) -> list[tuple[_End | None, _End | None]]:
        """NaN, with whatever sign, is above infinity, and both zeros are one; the order keeps all of these apart."""
        numbers = numpy_array(values)
        missing = np.isnan(numbers)
        zeros = np.array([0.0, -0.0] if (numbers == 0).any() else [], numbers.dtype)
        wanted = keys_of(distinct(pa.array(np.append(numbers[~missing], zeros), self.dtype)))
        return [((wanted, False), (wanted, True)), *(self._nans() if missing.any() else [])]

    def _between_floats(
        self, low: float | None, high: float | None, with_low: bool, with_high: bool
    ) -> list[tuple[_End | None, _End | None]]:
        to_nan = high is None or (math.isnan(high) and with_high)
        if low is not None and math.isnan(low):
            return self._nans() if with_low and to_nan else []
        if low is None:
            start = self._float(-math.inf), False
        else:
            start = self._float(low or (-0.0 if with_low else 0.0)), not with_low
        if high is None or math.isnan(high):
            stop = self._float(math.inf), True
        else:
            stop = self._float(high or (0.0 if with_high else -0.0)), with_high
        return [(start, stop), *(self._nans() if to_nan else [])]

    def _nans(self) -> list[tuple[_End | None, _End | None]]:
        """Those below and those above all numbers."""
        return [(None, (self._float(-math.inf), False)), ((self._float(math.inf), True), None)]

    def _float(self, value: float) -> Keys:
        return keys_of(pa.array(np.array([value], numpy_type(self.dtype))))

    def _rows_of(self, ranges: Sequence[tuple[_End | None, _End | None]]) -> list[tuple[int, int]]:
        """The first row of each range, and the one after its last."""
        found = iter(self._places([end for pair in ranges for end in pair if end is not None]))
        rows: list[tuple[int, int]] = []
        for low, high in ranges:
            starts = [self._first] if low is None else next(found).tolist()
            stops = [self._end] if high is None else next(found).tolist()
            rows += zip(starts, stops, strict=True)
        return rows

    def _places(self, ends: Sequence[_End]) -> list[_Places]:
        """For ascending keys the first rows that are not below them, or, ``after`` equal ones, that are above."""
        searches = [self._search(keys, after) for keys, after in ends]
        wanted = sorted({number for search in searches for number in search.pages})
        for at in range(0, len(wanted), _PAGES_AT_ONCE):
            for number, keys in self._read(wanted[at : at + _PAGES_AT_ONCE]).items():
                for search in searches:
                    if number in search.pages:
                        start, stop = search.pages[number]
                        search.rows[start:stop] += find(keys, keys_between(search.keys, start, stop), search.after)
        return [search.rows for search in searches]

    def _search(self, keys: Keys, after: bool) -> _Search:
        """Find the pages of keys: each the first whose last value is not below, or, ``after`` equal ones, above."""
        pages = find(self._max_keys, keys, after)
        rows = (pages + self.null_pages) * self.page_rows
        # Where the first value of the page is so too, the row is the first of the page.
        inside = find(self._min_keys, keys, after) > pages
        if self.nulls_after:
            mixed = pages == 0
            rows[mixed] += self.nulls_after
            inside |= mixed
        if len(pages) == 1:
            return _Search(keys, after, rows, {int(pages[0]): (0, 1)} if inside[0] else {})
        # What is searched in one page is one piece of the ascending keys.
        places = np.flatnonzero(inside)
        numbers, at, counts = np.unique(pages[places], return_index=True, return_counts=True)
        starts = places[at]
        pieces = zip(starts.tolist(), (starts + counts).tolist(), strict=True)
        return _Search(keys, after, rows, dict(zip(numbers.tolist(), pieces, strict=True)))

    def _read(self, wanted: Sequence[int]) -> dict[int, Keys]:
        """The keys of pages, without the nulls before them."""
        found: dict[int, Keys] = {}
        missing = []
        for number in wanted:
            keys = self._cache.get(number)
            if keys is None:
                missing.append(number)
            else:
                found[number] = keys
        for part, numbers in self._by_part(np.array(missing) + self.null_pages) if missing else ():
            starts = (numbers - part.first) * self.page_rows
            stops = np.minimum(starts + self.page_rows, part.reader.num_rows)
            arrays = part.reader.slices(VALUES, list(zip(starts.tolist(), stops.tolist(), strict=True)))
            for number, array in zip((numbers - self.null_pages).tolist(), arrays, strict=True):
                found[number] = self._checked(number, plain_values(array), part)
                self._cache.put(number, found[number])
        return found

    def _checked(self, number: int, array: pa.Array, part: PageFile) -> Keys:
        """The keys of a page, which must be as the lookup says."""
        skipped = self.nulls_after if number == 0 else 0
        values = array.slice(skipped)
        fits = array.null_count == skipped and not values.null_count and len(values) > 0
        if fits:
            ends = values.take(arrow_array(np.array([0, len(values) - 1])))
            known = pa.concat_arrays([self.mins.slice(number, 1), self.maxs.slice(number, 1)])
            fits = not compared(ends, known)[int(skipped > 0) :].any() and is_ascending(values)
        if not fits:
            page = number + self.null_pages - part.first
            raise CorruptFile(part.reader.path, f"page {page} does not have the values that {LOOKUP} tells of it")
        return keys_of(values)

    def _by_part(self, numbers: _Places) -> Iterator[tuple[PageFile, _Places]]:
        """Ascending numbers of pages by the file that has them."""
        firsts = np.array([part.first for part in self.parts])
        owners = firsts.searchsorted(numbers, "right") - 1
        for owner in np.unique(owners).tolist():
            yield self.parts[owner], numbers[owners == owner]

    def _ids(self, ranges: Sequence[tuple[int, int]]) -> npt.NDArray[np.uint64]:
        """The ids of ranges of rows."""
        found: list[npt.NDArray[np.uint64]] = []
        wanted = tuple((start, stop) for start, stop in ranges if start < stop)
        few = 0 < sum(stop - start for start, stop in wanted) <= _KEPT_IDS
        kept = self._cache.get(wanted) if few else None
        if kept is not None and not isinstance(kept, tuple):
            return kept
        for part in self.parts:
            base = part.first * self.page_rows
            top = base + part.pages * self.page_rows
            mine = [(max(start - base, 0), stop - base) for start, stop in wanted if start < top and stop > base]
            if mine:
                found += _read_ids(part, mine)
        ids = np.concatenate(found) if found else np.empty(0, np.uint64)
        if few:
            ids.setflags(write=False)
            self._cache.put(wanted, ids)
        return ids


def _read_ids(part: PageFile, ranges: Sequence[tuple[int, int]]) -> list[npt.NDArray[np.uint64]]:
    """The ids of ranges of rows, of which the last may go on after the end of the file."""
    reader = part.reader
    ends = [(start, min(stop, reader.num_rows)) for start, stop in ranges if start < reader.num_rows]
    if len(ends) > 1 and sum(stop - start for start, stop in ends) <= _SCATTERED:
        starts, stops = np.array(ends).T
        lengths = stops - starts
        rows = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        arrays = [reader.take([part.ids], np.unique(rows)).column(0)]
    else:
        arrays = reader.slices(part.ids, ends)
    if any(array.null_count for array in arrays):
        raise CorruptFile(reader.path, "has rows without an id")
    return [numpy_array(array) for array in arrays]


def _prefixed(prefix: bytes) -> tuple[_End | None, _End | None]:
    """What begins so: up to where the last byte that can be is one more."""
    begin = prefix.rstrip(b"\xff")
    after = begin[:-1] + bytes([begin[-1] + 1]) if begin else None
    ends = [None if end is None else (keys_of(pa.array([end], pa.binary())), False) for end in (prefix, after)]
    return ends[0], ends[1]


def _check_order(values: pa.Array, before: pa.Array | None, path: str) -> pa.Array | None:
    """Raise unless values ascend, nulls first, and none is below the last value before them; the last value now."""
    nulls = values.null_count
    present = values.slice(nulls)
    if present.null_count or (nulls and before is not None):
        raise CorruptFile(path, "has nulls after values")
    if not len(present):
        return before
    joined = present if before is None else pa.concat_arrays([before, present])
    if not is_ascending(joined):
        raise CorruptFile(path, "has values that are not in order")
    return present.slice(len(present) - 1)

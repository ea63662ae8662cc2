"""One leaf column: finds the pages that hold the rows, and joins what they give."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import bit_width
from lancelet.encoding.fetch import FileBytes, gather
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices, Ranges, RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.constant import zero_slots
from lancelet.encoding.v2_1.fullzip import FullZipPage
from lancelet.encoding.v2_1.levels import Entries, join_entries
from lancelet.encoding.v2_1.miniblock import MiniBlockPage, MiniBlockRun, Recipe, join_values, recipe_key
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder, PageRows
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings21_pb2 as pb

OpenPage: TypeAlias = Callable[[column_pb2.Encoding, PageContext], pb.MiniBlockLayout | PageDecoder]
"""Finds a page's decoder; of a mini-block page only its layout, for such pages are read in runs."""
_MAX_ELEMENTS = 2**28
"""Of fixed-size lists of structs in one take; the length of the lists is only a claim of the schema."""


_PADDING = 64
"""How much there is between the buffers of a page at most."""


@dataclass(frozen=True, slots=True)
class LeafType:
    """What the schema says of a leaf: its type, the layers around it, rows per page row."""

    dtype: pa.DataType
    kinds: tuple[int, ...]
    """Innermost first."""
    multiplier: int = 1
    """Level entries a row where the leaf sits in a fixed-size list of structs."""


@dataclass(frozen=True, slots=True)
class Records:
    """Rows that lie in a mapped file as they are, one after the other in each page."""

    data: Bytes
    """The file."""
    size: int
    """Bytes of a row."""
    starts: Indices
    """The first row of each page."""
    places: Indices
    """Where row 0 would lie if the page began with it."""

    def at(self, rows: Indices) -> Indices:
        """Where some rows begin."""
        if len(self.starts) == 1:
            return rows * self.size + int(self.places[0])
        return rows * self.size + self.places[self.starts.searchsorted(rows, "right") - 1]

    def runs(self, rows: RowRange) -> Iterator[tuple[RowRange, int]]:
        """Some rows in pieces that lie without gaps, each with where it begins."""
        page = int(self.starts.searchsorted(rows.start, "right")) - 1
        start = rows.start
        while start < rows.stop:
            stop = rows.stop if page + 1 == len(self.starts) else min(rows.stop, int(self.starts[page + 1]))
            yield RowRange(start, stop), start * self.size + int(self.places[page])
            start, page = stop, page + 1


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Some rows as they are stored."""

    data: Bytes
    size: int
    """Bytes of a row."""
    places: Indices
    """Where each begins in ``data``."""

    def matrix(self) -> Bytes:
        """A row of bytes for each, copied."""
        # What begins at each byte, of which some are picked; sizes are those of the buffer.
        anywhere = np.ndarray((len(self.data) - self.size + 1, self.size), np.uint8, self.data, strides=(1, 1))
        found: Bytes = anywhere[self.places]
        return found


class LeafColumn:
    """Reads rows of one leaf column."""

    __slots__ = ("_bounds", "_file", "_index", "_metadata", "_open_page", "_records", "_runs", "leaf", "stored_bytes")

    def __init__(
        self,
        metadata: column_pb2.ColumnMetadata,
        index: int,
        leaf: LeafType,
        file: FileBytes,
        open_page: OpenPage,
    ) -> None:
        self._metadata = metadata
        self._index = index
        self._file = file
        self._open_page = open_page
        self.leaf = leaf
        lengths = [page.length for page in metadata.pages]
        if any(length > 2**40 for length in lengths):
            raise Place(file.path, f"column {index}").corrupt("a page of an impossible number of rows")
        self._bounds = [0, *itertools.accumulate(lengths)]
        self._runs: list[PageRun] | None = None
        self._records: Records | Literal[False] | None = None
        self.stored_bytes = sum(sum(page.buffer_sizes) for page in metadata.pages)

    def records(self) -> Records | None:
        """Where lists of fixed size lie in a mapped file; None where they are stored otherwise."""
        if self._records is None:
            self._records = self._find_records()
        return self._records or None

    def _find_records(self) -> Records | Literal[False]:
        if self._file.mapped is None or self.leaf.multiplier != 1 or not pa.types.is_fixed_size_list(self.leaf.dtype):
            return False
        if self._runs is None:
            self._runs = self._open_runs()
        starts, places = [], []
        size = self.leaf.dtype.list_size * bit_width(self.leaf.dtype.value_type) // 8
        for run in self._runs:
            place = run.decoder.plain_lists if isinstance(run.decoder, FullZipPage) else None
            if place is None or place + (run.stop - run.start) * size > len(self._file.mapped):
                # A page that the file is too short for is told of by whoever reads it.
                return False
            starts.append(run.start)
            places.append(place - run.start * size)
        return Records(self._file.mapped, size, np.array(starts, np.int64), np.array(places, np.int64))

    @property
    def nbytes(self) -> int:
        return 8 * len(self._bounds) + sum(run.decoder.nbytes for run in self._runs or ())

    @property
    def rows(self) -> int:
        """Rows that the pages hold."""
        return self._bounds[-1] // self.leaf.multiplier

    def extents(self, rows: RowRange) -> list[tuple[int, int, RowRange]]:
        """From where to where in the file the pages lie, and their rows: of pages that lie there alone, and wholly in a range."""
        times = self.leaf.multiplier
        found = []
        for number, page in enumerate(self._metadata.pages):
            first, last = self._bounds[number], self._bounds[number + 1]
            buffers = zip(page.buffer_offsets, page.buffer_sizes, strict=False)
            pieces = [(at, at + size) for at, size in buffers if size]
            if not pieces or first % times or last % times:
                continue
            start, stop = min(start for start, _ in pieces), max(stop for _, stop in pieces)
            alone = stop - start <= sum(page.buffer_sizes) + _PADDING * len(pieces)
            if alone and rows.start * times <= first < last <= rows.stop * times:
                found.append((start, stop, RowRange(first // times, last // times)))
        return found

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], list[PageRows]]:
        """Level entries and visible values of some rows, in one or more parts."""
        rows = self._scaled(rows)
        if len(rows) == 0:
            return [PageRows(Entries(0, None, None), zero_slots(self.leaf.dtype, 0))]
        if isinstance(rows, RowRange):
            first, last = rows.start, rows.stop - 1
        else:
            first, last = int(rows.values[0]), int(rows.values[-1])
        if first < 0 or last >= self._bounds[-1]:
            raise Place(self._file.path, f"column {self._index}").corrupt(
                f"the pages hold {self._bounds[-1]} rows, not row {last}"
            )
        runs = self._runs
        if runs is None:
            runs = self._runs = self._open_runs()
        begin = bisect.bisect_right(runs, first, key=_start) - 1
        end = bisect.bisect_right(runs, last, key=_start) - 1
        if begin == end:
            return [(yield from runs[begin].read(rows))]
        steps = []
        for run in runs[begin : end + 1]:
            inside = rows.clip(run.start, run.stop)
            if len(inside):
                steps.append(run.read(inside))
        return (yield from gather(steps))

    def _scaled(self, rows: Rows) -> Rows:
        times = self.leaf.multiplier
        if times == 1:
            return rows
        if isinstance(rows, RowRange):
            return RowRange(rows.start * times, rows.stop * times)
        if len(rows) * times > _MAX_ELEMENTS:
            raise Place(self._file.path, f"column {self._index}").too_large(f"{len(rows)} lists of {times} structs")
        return RowIndices((rows.values[:, None] * times + np.arange(times)).reshape(-1))

    def _open_runs(self) -> list[PageRun]:
        """Parse the pages' layouts; neighbouring mini-block pages of one recipe become one run."""
        runs: list[PageRun] = []
        waiting: list[MiniBlockPage] = []
        waiting_key = b""

        def flush() -> None:
            if waiting:
                recipe = Recipe.of(waiting[0].layout, self.leaf.kinds, waiting[0].context.place)
                stop = waiting[-1].first_row + waiting[-1].context.rows
                runs.append(PageRun(waiting[0].first_row, stop, 0, MiniBlockRun(tuple(waiting), recipe)))
                waiting.clear()

        for page, message in enumerate(self._metadata.pages):
            if message.length == 0:
                continue
            start, stop = self._bounds[page], self._bounds[page + 1]
            context = self._context(page, message)
            opened = self._open_page(message.encoding, context)
            if not isinstance(opened, pb.MiniBlockLayout):
                flush()
                runs.append(PageRun(start, stop, start, opened))
                continue
            key = recipe_key(opened)
            if key != waiting_key:
                flush()
                waiting_key = key
            waiting.append(MiniBlockPage(opened, context, start))
        flush()
        return runs

    def _context(self, page: int, message: column_pb2.ColumnMetadata.Page) -> PageContext:
        place = Place(self._file.path, f"column {self._index} page {page}")
        if len(message.buffer_offsets) != len(message.buffer_sizes):
            raise place.corrupt("buffer offsets and sizes differ in number")
        offsets, sizes = tuple(message.buffer_offsets), tuple(message.buffer_sizes)
        if any(offset + size > self._file.size for offset, size in zip(offsets, sizes, strict=True)):
            raise place.corrupt(f"a buffer lies outside of the file's {self._file.size} bytes")
        return PageContext(self._file, place, offsets, sizes, message.length, self.leaf.dtype, self.leaf.kinds)


@dataclass(frozen=True, slots=True)
class PageRun:
    """Neighbouring pages with one decoder."""

    start: int
    stop: int
    shift: int
    """What the decoder calls row 0."""
    decoder: PageDecoder

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        return self.decoder.read(rows.shift(-self.shift) if self.shift else rows)


def _start(run: PageRun) -> int:
    return run.start


def join_parts(parts: Sequence[PageRows], place: Place) -> PageRows:
    """Parts of one read end to end."""
    if len(parts) == 1:
        return parts[0]
    return PageRows(join_entries([p.entries for p in parts]), join_values([p.values for p in parts], place))

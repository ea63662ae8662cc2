"""Segments of RTREE indices (:mod:`lancelet.index.scalar.rtree`), open and written (spec indices.md 12).

::

    page_data.lance   bbox  struct xmin, ymin, xmax, ymax    first all rows, in the order of a Hilbert curve through the
                      id    uint64                           middles of their boxes; then, level by level, the pages
                                                             before, each with the box around it; the last page is the root
    nulls.lance       nulls binary, one row                  the rows without a geometry (row_set)

    page_size rows are a page; a level ends with a shorter one. In the metadata of page_data: page_size, num_pages,
    num_items (rows in the lowest level), bbox, the box around all as JSON
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import CorruptFile
from lancelet.index.geometry import Boxes, boxes, meets
from lancelet.index.kind import ROW, VALUE, Entries, NewRows, Source
from lancelet.index.questions import Answer, Missing, Overlaps, Question
from lancelet.index.row_set import RowNumbers, RowSet
from lancelet.index.scalar.digests import NULL, number_digests, set_entries
from lancelet.index.scalar.external_sort import sorted_within
from lancelet.index.scalar.hilbert import along_curve
from lancelet.index.spilled_arrays import SpilledArrays

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter

_PAGES, _NULLS = "page_data.lance", "nulls.lance"
_BBOX, _ID, _NULL_ROWS = "bbox", "id", "nulls"
_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
_WORDS: Final = ("minx", "miny", "maxx", "maxy")
_BOX: Final = pa.struct([pa.field(side, pa.float64(), nullable=False) for side in _SIDES])
_SCHEMA: Final = pa.schema(
    [
        pa.field(_BBOX, _BOX, nullable=False, metadata={"ARROW:extension:name": "geoarrow.box"}),
        pa.field(_ID, pa.uint64(), nullable=False),
    ]
)
_ROWS_AT_ONCE: Final = 1 << 16
_MOST_PLACES: Final = 1 << 32
_WORDS_OF_A_RECORD: Final = 5
"""A box and its row, on the way into a segment."""
_HELD_SHARE: Final = 4
"""What part of the memory holds them before they are put in order."""


class RTree:
    """An open segment. The boxes around pages are in memory; pages are read when they are asked for."""

    def __init__(self, folder: IndexFolder) -> None:
        self.file = folder.open(_PAGES)
        self.page_size = _number(self.file, "page_size")
        self.items = _number(self.file, "num_items")
        levels = _levels(self.items, self.page_size) if self.page_size > 1 or self.items < 2 else []
        if self.file.num_rows != sum(levels) or self.file.columns != (_BBOX, _ID):
            raise CorruptFile(self.file.path, f"{self.file.num_rows} rows are no tree over {self.items} boxes", _BBOX)
        self.upper, pages = self._read(self.items, self.file.num_rows)
        if len(pages) and not np.array_equal(pages, np.arange(len(pages))):
            raise CorruptFile(self.file.path, "its pages are out of order", _ID)
        self.levels = levels
        rows = folder.open(_NULLS).read([_NULL_ROWS])[_NULL_ROWS]
        data = rows[0].as_py() if len(rows) else b""
        self.nulls = RowSet.deserialize(data, self.file.path, _NULLS) if data else RowSet()

    @property
    def nbytes(self) -> int:
        return int(self.upper.nbytes + self.file.nbytes)

    def statistics(self) -> Mapping[str, Any]:
        offsets: list[int] = []
        first = 0
        for count in self.levels:
            offsets += range(first, first + count, self.page_size)
            first += count
        told = json.loads(self.file.metadata.get("bbox", "null"))
        return {
            "page_size": self.page_size,
            "num_pages": len(offsets),
            "num_items": self.items,
            "bbox": told,
            "page_offsets": offsets,
        }

    def ask(self, question: Question) -> Answer:
        if isinstance(question, Missing):
            return Answer(self.nulls, exact=True)
        assert isinstance(question, Overlaps)
        wanted = question.low_x, question.low_y, question.high_x, question.high_y
        found = [RowSet.of(np.sort(rows[meets(around, wanted)])) for around, rows in self._leaves(wanted)]
        return Answer(RowSet.union(found), exact=False, nulls=self.nulls)

    def _leaves(self, wanted: tuple[float, float, float, float]) -> Iterator[tuple[Boxes, RowNumbers]]:
        """The pages of rows that may have what is wanted."""
        size = self.page_size
        if len(self.levels) < 2:
            yield self._read(0, self.items)
            return
        # Every level above the rows, from the root down: rows of the file, less those of the lowest level.
        last = len(self.upper)
        pages = np.arange(-(-self.levels[-1] // size))
        for level in range(len(self.levels) - 1, 0, -1):
            first = last - self.levels[level]
            places = first + (pages[:, None] * size + np.arange(size)).reshape(-1)
            places = places[places < last]
            pages = places[meets(self.upper[places], wanted)] - first
            last = first
        for page in pages.tolist():
            yield self._read(page * size, min((page + 1) * size, self.items))

    def pages(self) -> Iterator[tuple[Boxes, RowNumbers]]:
        """All boxes of rows, some at a time."""
        for start in range(0, self.items, _ROWS_AT_ONCE):
            yield self._read(start, min(start + _ROWS_AT_ONCE, self.items))

    def entries(self, source: Source) -> Iterator[Entries]:
        for around, rows in self.pages():
            yield _digests(around), rows
        yield from set_entries(self.nulls, NULL, source)

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Of boxes, as the kind makes them of geometries; what has none is nowhere."""
        around = _boxes_of(values)
        empty = np.isnan(around).any(axis=1)
        found = np.where(empty, np.uint64(0), _digests(np.nan_to_num(around)))
        nulls = np.asarray(values.is_null())
        found[nulls] = NULL
        return found, ~empty | nulls

    def _read(self, start: int, stop: int) -> tuple[Boxes, RowNumbers]:
        batch = self.file.slice([_BBOX, _ID], start, stop)
        return _boxes_of(batch[_BBOX]), np.asarray(batch[_ID])


def read_page_size(folder: IndexFolder) -> int:
    """How many boxes a page of a segment has."""
    return max(_number(folder.open(_PAGES), "page_size"), 2)


def box_array(values: pa.Array, extension: str) -> pa.Array:
    """Boxes around geometries as an array; those without one have no numbers, null is null."""
    around, some = boxes(values, extension)
    around = np.where(some[:, None], around, np.nan)
    mask = pa.array(~np.asarray(values.is_valid()))
    return pa.StructArray.from_arrays([pa.array(around[:, side]) for side in range(4)], fields=list(_BOX), mask=mask)


def write_segment(sources: Sequence[Source], rows: NewRows, out: SegmentWriter, page_size: int) -> None:
    """Put the boxes of older segments and of new rows in order, and boxes around them.

    The order is known when all boxes are: until then they are in a temporary file, where they do not fit into memory.
    """
    with SpilledArrays(out.memory_limit // _HELD_SHARE) as records:
        total, count, nulls = _gathered(sources, rows, records)
        told = {name: None if np.isnan(side) else float(side) for name, side in zip(_WORDS, total, strict=True)}
        levels = _levels(count, page_size)
        metadata = {
            "page_size": str(page_size),
            "num_pages": str(sum(-(-size // page_size) for size in levels)),
            "num_items": str(count),
            "bbox": json.dumps(told, separators=(",", ":")),
        }
        with out.create(_PAGES, _SCHEMA.with_metadata(metadata)) as file:
            upper = _Pages(page_size)
            for around, ids in _along_curve(records, total, out.memory_limit):
                file.write(_batch(around, ids))
                upper.add(around)
            first_page = 0
            for _ in levels[1:]:
                level = upper.boxes()
                for start in range(0, len(level), _ROWS_AT_ONCE):
                    part = level[start : start + _ROWS_AT_ONCE]
                    file.write(_batch(part, np.arange(first_page + start, first_page + start + len(part)).astype("u8")))
                first_page += len(level)
                upper = _Pages(page_size)
                upper.add(level)
    schema = pa.schema([pa.field(_NULL_ROWS, pa.binary(), nullable=False)])
    with out.create(_NULLS, schema) as file:
        file.write(pa.RecordBatch.from_arrays([pa.array([nulls.serialize()], pa.binary())], schema=schema))


class _Pages:
    """Boxes around pages of boxes, which come a few at a time."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._count = 0
        self._parts: list[Boxes] = []

    def add(self, around: Boxes) -> None:
        if not len(around):
            return
        begun = self._count % self._page_size
        starts = np.arange(-begun, len(around), self._page_size)
        starts[0] = 0
        found = np.concatenate(
            [np.minimum.reduceat(around[:, :2], starts), np.maximum.reduceat(around[:, 2:], starts)], axis=1
        )
        if begun:
            last = self._parts[-1][-1]
            last[:2], last[2:] = np.minimum(last[:2], found[0, :2]), np.maximum(last[2:], found[0, 2:])
            found = found[1:]
        if len(found):
            self._parts.append(found)
        self._count += len(around)

    def boxes(self) -> Boxes:
        return np.concatenate(self._parts)


def _gathered(
    sources: Sequence[Source], rows: NewRows, records: SpilledArrays
) -> tuple[npt.NDArray[np.float64], int, RowSet]:
    """Take all boxes in; tells the box around them, how many they are, and the rows without a geometry."""
    nulls: list[RowSet] = []
    total, count = np.full(4, np.nan), 0

    def add(around: Boxes, ids: RowNumbers) -> None:
        nonlocal count
        if not len(ids):
            return
        count += len(ids)
        # Columns are looked at one by one, which is faster.
        here = [(np.min if side < 2 else np.max)(around[:, side]) for side in range(4)]
        total[:2], total[2:] = np.fmin(total[:2], here[:2]), np.fmax(total[2:], here[2:])
        records.add(np.concatenate([around.view(np.uint64), ids[:, None]], axis=1))

    for source in sources:
        assert isinstance(source.segment, RTree)
        for around, ids in source.segment.pages():
            now, kept = (ids, np.ones(len(ids), np.bool_)) if source.rename is None else source.rename(ids)
            add(around[kept], now[kept])
        nulls.append(source.renamed(source.segment.nulls))
    for batch in rows.batches:
        values, numbers = batch.column(VALUE), np.asarray(batch.column(ROW))
        around, some = boxes(values, rows.extension)
        add(around[some], numbers[some])
        nulls.append(RowSet.of(np.sort(numbers[np.asarray(values.is_null())])))
    return total, count, RowSet.union(nulls)


def _along_curve(
    records: SpilledArrays, total: npt.NDArray[np.float64], memory_limit: int
) -> Iterator[tuple[Boxes, RowNumbers]]:
    """Boxes and their rows in the order of a curve, of equal places the first before the others."""
    if not records.is_spilled:
        found = np.concatenate([np.empty((0, _WORDS_OF_A_RECORD), np.uint64), *records])
        order = _order(_curve(found, total))
        for start in range(0, len(order), _ROWS_AT_ONCE):
            some = found[order[start : start + _ROWS_AT_ONCE]]
            yield some[:, :4].view(np.float64), some[:, 4]
        return
    width = 8 * _WORDS_OF_A_RECORD

    def keyed() -> Iterator[pa.RecordBatch]:
        before = 0
        for some in records:
            places = np.arange(before, before + len(some), dtype=np.uint64) % np.uint64(_MOST_PLACES)
            keys = _curve(some, total).astype(np.uint64) << np.uint64(32) | places
            before += len(some)
            content = pa.Array.from_buffers(pa.binary(width), len(some), [None, pa.py_buffer(some)])
            yield pa.RecordBatch.from_arrays([pa.array(keys), content], names=[VALUE, ROW])

    for batch in sorted_within(keyed(), memory_limit):
        content = batch.column(ROW)
        for start in range(0, len(content), _ROWS_AT_ONCE):
            part = content.slice(start, _ROWS_AT_ONCE)
            words = np.frombuffer(part.buffers()[1], np.uint64, len(part) * _WORDS_OF_A_RECORD, part.offset * width)
            some = words.reshape(-1, _WORDS_OF_A_RECORD)
            yield np.ascontiguousarray(some[:, :4]).view(np.float64), np.ascontiguousarray(some[:, 4])


def _batch(around: Boxes, numbers: RowNumbers) -> pa.RecordBatch:
    columns = [pa.array(np.ascontiguousarray(around[:, side])) for side in range(4)]
    return pa.RecordBatch.from_arrays(
        [pa.StructArray.from_arrays(columns, fields=list(_BOX)), pa.array(numbers)], schema=_SCHEMA
    )


def _boxes_of(values: pa.Array) -> Boxes:
    columns = [np.asarray(values.field(side).fill_null(np.nan), np.float64) for side in _SIDES]
    return np.stack(columns, axis=1) if columns else np.empty((0, 4))


def _digests(around: Boxes) -> npt.NDArray[np.uint64]:
    """A hash of all four sides."""
    words = np.ascontiguousarray(around + 0.0).view(np.uint64).reshape(-1, 4)
    total = number_digests(words[:, 0])
    for side in range(1, 4):
        total = number_digests(total ^ words[:, side])
    return total


def _levels(items: int, page_size: int) -> list[int]:
    """Rows of each level, the lowest first; the last one is a single page."""
    levels = []
    while items:
        levels.append(items)
        if items <= page_size:
            break
        items = -(-items // page_size)
    return levels


def _curve(records: npt.NDArray[np.uint64], total: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """How far along a Hilbert curve over all boxes the middle of each is."""
    spans = total[2:] - total[:2]
    spans[(spans == 0) | ~np.isfinite(spans)] = 1
    around = np.ascontiguousarray(records[:, :4]).view(np.float64)
    return along_curve(around, *total[:2].tolist(), *spans.tolist())


def _order(keys: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """The order of keys, of equal ones the first before the others; numbers are sorted faster than places."""
    if len(keys) > _MOST_PLACES:
        return np.argsort(keys, kind="stable").astype(np.uint64)
    both: npt.NDArray[np.uint64] = keys.astype(np.uint64) << np.uint64(32)
    both |= np.arange(len(keys), dtype=np.uint64)
    both.sort()
    both &= np.uint64(_MOST_PLACES - 1)
    return both


def _number(file: IndexFileReader, name: str) -> int:
    text = file.metadata.get(name, "")
    if not text.isdecimal():
        raise CorruptFile(file.path, f"{name} is {text!r}, and no number", "schema metadata")
    return int(text)

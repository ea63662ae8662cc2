"""Segments of BTREE indices (:mod:`lancelet.index.scalar.btree`), opened by their lookup, and written anew.

For the files see :mod:`lancelet.index.scalar.btree_files`, for how they are searched
:mod:`lancelet.index.scalar.btree_segment`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import CorruptFile
from lancelet.index.kind import ROW, VALUE, NewRows, Source
from lancelet.index.scalar.btree_files import (
    DATA,
    LOOKUP,
    MAX,
    MIN,
    NULLS,
    PAGE,
    PAGE_ROWS,
    PAGE_ROWS_KEY,
    PART_DATA,
    PART_LOOKUP,
    PARTITIONED_KEY,
    PARTS_KEY,
    part_number,
    write_segment_files,
)
from lancelet.index.scalar.btree_segment import BTreeSegment, PageFile
from lancelet.index.scalar.dictionaries import plain_values
from lancelet.index.scalar.external_sort import merge_sorted, sorted_within
from lancelet.index.scalar.sort_keys import compared, is_ascending

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter


def read_page_rows(folder: IndexFolder) -> int:
    """The rows of a page of a segment."""
    return _read_page_rows(_open_lookup(folder)[0])


def open_segment(folder: IndexFolder, dtype: pa.DataType) -> BTreeSegment:
    """Read the lookup of a segment over values of a type."""
    reader, alone = _open_lookup(folder)
    lookup = _read_lookup(reader, dtype)
    if alone is not None:
        files = [(PART_DATA.format(alone), lookup.num_rows)]
    elif reader.metadata.get(PARTITIONED_KEY) == "true":
        files = _part_files(reader, lookup.num_rows)
    else:
        files = [(DATA, lookup.num_rows)]
    page_rows = _read_page_rows(reader)
    parts, first = [], 0
    for name, pages in files:
        parts.append(PageFile(folder, name, first, pages, dtype, page_rows))
        first += pages
    return _segment(reader.path, lookup, dtype, page_rows, tuple(parts))


def write_segment(
    sources: Sequence[Source], rows: NewRows, dtype: pa.DataType, out: SegmentWriter, page_rows: int | None
) -> None:
    """Sort new rows and merge them with those of older segments; files have values of the type ``dtype``."""
    streams = []
    for source in sources:
        assert isinstance(source.segment, BTreeSegment)
        page_rows = page_rows or source.segment.page_rows
        streams.append(source.segment.rows(source.rename, len(sources) + 1))
    merged = merge_sorted([*streams, sorted_within(_plain(rows.batches), out.memory_limit)])
    write_segment_files(merged, dtype, out, page_rows or PAGE_ROWS)


def _plain(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows whose values are without dictionaries, which differ from batch to batch."""
    for batch in batches:
        if pa.types.is_dictionary(batch.column(VALUE).type):
            batch = pa.RecordBatch.from_arrays([plain_values(batch.column(VALUE)), batch.column(ROW)], [VALUE, ROW])
        yield batch


def _read_lookup(reader: IndexFileReader, dtype: pa.DataType) -> pa.RecordBatch:
    """The lookup, by ascending number of page."""
    stored = reader.read([MIN, MAX, NULLS, PAGE])
    lookup = pa.RecordBatch.from_arrays([plain_values(array) for array in stored.columns], stored.schema.names)
    for name, wanted in ((MIN, dtype), (MAX, dtype), (NULLS, pa.uint32()), (PAGE, pa.uint32())):
        column = lookup.column(name)
        if column.type != wanted:
            raise CorruptFile(reader.path, f"column {name!r} is {column.type}, not {wanted}")
        if name in (NULLS, PAGE) and column.null_count:
            raise CorruptFile(reader.path, f"column {name!r} has nulls")
    numbers = numpy_array(lookup.column(PAGE))
    if not np.array_equal(np.sort(numbers), np.arange(len(numbers))):
        raise CorruptFile(reader.path, "does not name every page once")
    return lookup if is_ascending(lookup.column(PAGE)) else lookup.take(arrow_array(np.argsort(numbers)))


def _open_lookup(folder: IndexFolder) -> tuple[IndexFileReader, int | None]:
    """The lookup, and the number of the part that it is about when that is not all of the segment."""
    names = {file.path for file in folder.entry.files}
    alone = None
    if names and LOOKUP not in names:
        # What one process of several wrote, without the others.
        found = [number for name in names if (number := part_number(name, PART_LOOKUP)) is not None]
        alone = found[0] if len(found) == 1 and PART_DATA.format(found[0]) in names else None
    return folder.open(LOOKUP if alone is None else PART_LOOKUP.format(alone)), alone


def _read_page_rows(reader: IndexFileReader) -> int:
    text = reader.metadata.get(PAGE_ROWS_KEY, str(PAGE_ROWS))
    if not text.isdecimal() or not 0 < int(text) < 1 << 32:
        raise CorruptFile(reader.path, f"{PAGE_ROWS_KEY} is {text!r}")
    return int(text)


def _part_files(reader: IndexFileReader, pages: int) -> list[tuple[str, int]]:
    """Names of the files with pages, and how many each has."""
    text = reader.metadata.get(PARTS_KEY, "")
    try:
        found = [(PART_DATA.format(int(number)), int(count)) for number, count in json.loads(text)]
    except (ValueError, TypeError):
        raise CorruptFile(reader.path, f"{PARTS_KEY} is {text!r}") from None
    if any(count < 0 for _, count in found) or sum(count for _, count in found) != pages:
        raise CorruptFile(reader.path, f"{PARTS_KEY} is {text!r}, but there are {pages} pages")
    return [(name, count) for name, count in found if count]


def _segment(
    path: str, lookup: pa.RecordBatch, dtype: pa.DataType, page_rows: int, parts: tuple[PageFile, ...]
) -> BTreeSegment:
    """Check that nulls come first and pages are in order: what is found by searching relies on it."""
    low, high, counts = (lookup.column(name) for name in (MIN, MAX, NULLS))
    null_pages = high.null_count
    with_nulls = numpy_array(counts)[null_pages:]
    nulls_after = int(with_nulls[0]) if len(with_nulls) else 0
    high, low = high.slice(null_pages), low.slice(null_pages)
    if (
        high.null_count
        or low.null_count != (nulls_after > 0)
        or (nulls_after and low[0].is_valid)
        or with_nulls[1:].any()
        or nulls_after >= page_rows
    ):
        raise CorruptFile(path, "has pages with nulls after pages with values, or counts of nulls that cannot be")
    if nulls_after:
        low = pa.concat_arrays([high.slice(0, 1), low.slice(1)])
    if (compared(low, high) > 0).any() or (compared(low[1:], high[:-1]) < 0).any():
        raise CorruptFile(path, "has pages that are not in order")
    return BTreeSegment(path, dtype, page_rows, parts, lookup, null_pages, nulls_after, low, high)

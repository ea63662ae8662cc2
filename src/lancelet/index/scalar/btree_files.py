"""The files of a BTREE segment (spec indices.md 4), and writing them.

All values are in one order (:mod:`lancelet.index.scalar.sort_keys`), nulls first, and cut into pages of the same number
of rows. A second file says what is in which page::

    page_data.lance      values   ids               page_lookup.lance   min   max   null_count   page_idx
                         null     17   )                                null  "b"            2          0
                         null      3   )  page 0
                         "a"      11   )                                metadata: batch_size = rows of a page
                         "b"       4   )
                         "b"       9   )  page 1                        "b"   "c"            0          1
                         "c"       2   )

A page's ``min`` is its first value and its ``max`` the last one. Only the last page may be short.

A segment may have its rows in several files, each with a range of the values and with pages of its own; then the lookup
says so, and how many pages each file has. So engines write ranges side by side, and one process the lookup::

    part_0_page_data.lance, part_4294967296_page_data.lance, ...      named by the number of the part in the upper 32 bits
    page_lookup.lance    metadata: range_partitioned = true, page_num_per_range_partition = [[0, 7], [4294967296, 5]]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import arrow_array
from lancelet.errors import InvalidInput
from lancelet.index.kind import ROW, VALUE, Built
from lancelet.index.metadata import IndexFile
from lancelet.index.scalar.dictionaries import StoredForm
from lancelet.index.scalar.external_sort import sorted_within
from lancelet.index.scalar.sort_keys import key_at
from lancelet.index.scalar.value_types import key_type

if TYPE_CHECKING:
    from lancelet.index.folder import SegmentWriter

DATA: Final = "page_data.lance"
LOOKUP: Final = "page_lookup.lance"
PART_DATA: Final = "part_{}_page_data.lance"
PART_LOOKUP: Final = "part_{}_page_lookup.lance"
VALUES, IDS = "values", "ids"
OLD_IDS: Final = "row_ids"
"""As the first writers called them."""
MIN, MAX, NULLS, PAGE = "min", "max", "null_count", "page_idx"
PAGE_ROWS_KEY: Final = "batch_size"
PARTITIONED_KEY: Final = "range_partitioned"
PARTS_KEY: Final = "page_num_per_range_partition"
PAGE_ROWS: Final = 4096
_PART_SHIFT: Final = 32


@dataclass(frozen=True, slots=True)
class Pages:
    """What a lookup has to know of the pages of one file; can be pickled."""

    mins: pa.Array
    maxs: pa.Array
    null_counts: pa.Array

    def __len__(self) -> int:
        return len(self.mins)


@dataclass(frozen=True, slots=True)
class PartLookup:
    """A range of a segment's values, written to a file of its own; can be pickled."""

    part: int
    number: int
    """The part, and below it the attempt: what the file is named by."""
    pages: Pages
    page_rows: int
    file: IndexFile | None
    """None when there are no rows, and so no file."""


def part_number(name: str, pattern: str) -> int | None:
    """The number in the name of a file of a part, if it is one."""
    before, after = pattern.split("{}")
    number = name[len(before) : -len(after)]
    return int(number) if name == pattern.format(number) and number.isdecimal() else None


def write_segment_files(batches: Iterator[pa.RecordBatch], dtype: pa.DataType, out: SegmentWriter, rows: int) -> None:
    """Write a segment of sorted batches with the columns ``value`` and ``row``, in pages of ``rows`` rows."""
    pages = _write_data(DATA, batches, dtype, out, rows)
    _write_lookup([pages], dtype, out, {PAGE_ROWS_KEY: str(rows), PARTITIONED_KEY: "false"})


def write_part(
    batches: Iterable[pa.RecordBatch],
    dtype: pa.DataType,
    out: SegmentWriter,
    part: int,
    page_rows: int = PAGE_ROWS,
    attempt: int = 0,
) -> PartLookup:
    """Write one range of the values of a segment whose parts several processes write.

    The rows of a range, batches with the columns ``value`` and ``row``, come in any order; no value may be
    above one of the next part. ``out`` is for the same segment everywhere. Attempts at one part that may run side by
    side have numbers, so that each has a file of its own. :func:`finish_parts` makes a segment of the parts.
    """
    number = part << _PART_SHIFT | attempt
    ordered = sorted_within(batches, out.memory_limit)
    first = next(ordered, None)
    if first is None:
        return PartLookup(part, number, Pages(*_no_pages(dtype)), page_rows, None)

    def again() -> Iterator[pa.RecordBatch]:
        yield first
        yield from ordered

    pages = _write_data(PART_DATA.format(number), again(), dtype, out, page_rows)
    return PartLookup(part, number, pages, page_rows, out.written[-1])


def finish_parts(parts: Iterable[PartLookup], dtype: pa.DataType, out: SegmentWriter) -> Built:
    """Make a segment of parts, whatever the order in which they come: write its lookup."""
    filled = sorted((part for part in parts if part.file is not None), key=lambda part: part.part)
    if not filled:
        write_segment_files(iter(()), dtype, out, PAGE_ROWS)
        return built(out)
    _check_parts(filled)
    for part in filled:
        assert part.file is not None
        if part.file not in out.written:
            out.adopt(part.file)
    numbers = [[part.number, len(part.pages)] for part in filled]
    metadata = {
        PAGE_ROWS_KEY: str(filled[0].page_rows),
        PARTITIONED_KEY: "true",
        PARTS_KEY: json.dumps(numbers, separators=(",", ":")),
    }
    _write_lookup([part.pages for part in filled], dtype, out, metadata)
    return built(out)


def built(out: SegmentWriter) -> Built:
    """Segments name rows by address; where rows have other ids, a version of its own tells that they do."""
    return Built(index_version=1 if out.stable_row_ids else 0)


def _check_parts(parts: Sequence[PartLookup]) -> None:
    for one, other in pairwise(parts):
        if one.part == other.part:
            raise InvalidInput(f"part {one.part} of an index was written twice; give every range a number of its own")
        if one.page_rows != other.page_rows:
            raise InvalidInput("the parts of an index have pages of one size; write them with the same page_rows")
        last, first = one.pages.maxs[-1:], other.pages.mins[:1]
        if last.null_count:
            continue
        if first.null_count or key_at(last, 0) > key_at(first, 0):
            raise InvalidInput(
                f"part {one.part} of an index ends with {last[0]}, which is above the first value of part "
                f"{other.part}, {first[0]}; number the ranges in the order of their values"
            )


def _write_data(
    name: str, batches: Iterator[pa.RecordBatch], dtype: pa.DataType, out: SegmentWriter, page_rows: int
) -> Pages:
    """Write sorted rows, and note the first and the last value of every page."""
    schema = pa.schema([pa.field(VALUES, dtype), pa.field(IDS, pa.uint64(), nullable=False)])
    mins, maxs, _ = ([array] for array in _no_pages(key_type(dtype)))
    form = StoredForm(dtype)
    total = nulls = 0
    last = mins[0]
    with out.create(name, schema) as file:
        for batch in batches:
            if not (count := batch.num_rows):
                continue
            values = batch.column(VALUE)
            file.write(pa.RecordBatch.from_arrays([form.of(values), batch.column(ROW)], schema=schema))
            places = np.arange(-total % page_rows, count, page_rows)
            mins.append(values.take(arrow_array(places)))
            places = np.arange(-(total + 1) % page_rows, count, page_rows)
            maxs.append(values.take(arrow_array(places)))
            last = values.slice(count - 1)
            total += count
            nulls += values.null_count
    if total % page_rows:
        maxs.append(last)
    pages = np.arange(-(-total // page_rows), dtype=np.int64)
    counts = np.clip(nulls - pages * page_rows, 0, page_rows).astype(np.uint32)
    return Pages(pa.concat_arrays(mins), pa.concat_arrays(maxs), arrow_array(counts))


def _write_lookup(files: Sequence[Pages], dtype: pa.DataType, out: SegmentWriter, metadata: dict[str, str]) -> None:
    schema = pa.schema(
        [
            pa.field(MIN, dtype),
            pa.field(MAX, dtype),
            pa.field(NULLS, pa.uint32(), nullable=False),
            pa.field(PAGE, pa.uint32(), nullable=False),
        ],
        metadata=metadata,
    )
    mins, maxs, counts = (
        pa.concat_arrays(arrays)
        for arrays in zip(*((pages.mins, pages.maxs, pages.null_counts) for pages in files), strict=True)
    )
    form = StoredForm(dtype)
    mins, maxs = form.of(mins), form.of(maxs)
    numbers = arrow_array(np.arange(len(mins), dtype=np.uint32))
    with out.create(LOOKUP, schema) as file:
        file.write(pa.RecordBatch.from_arrays([mins, maxs, counts, numbers], schema=schema))


def _no_pages(dtype: pa.DataType) -> tuple[pa.Array, pa.Array, pa.Array]:
    return pa.nulls(0, dtype), pa.nulls(0, dtype), pa.nulls(0, pa.uint32())

"""Segments of LABEL_LIST indices (:mod:`lancelet.index.scalar.label_list`), open and written.

The file is that of :mod:`lancelet.index.scalar.bitmap_file`, with items as keys: a row is in the set of every item of
its list, once, and in that of the null key when some item is null. Empty lists and null lists are in none of them. From
version 1 on, a global buffer of the file holds the rows whose list is null; in older files these are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile
from lancelet.index.kind import ROW, VALUE, Entries, NewRows, Source
from lancelet.index.questions import Answer, HasItems, Question
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.bitmap_build import BitmapBuilder, BuildLimits
from lancelet.index.scalar.bitmap_file import LIST_NULLS, BitmapFile
from lancelet.index.scalar.digests import NULL_LIST, bitmap_entries, list_digests, set_entries
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter

_WITHOUT_NULLS = 0
WITH_NULLS = 1


@dataclass(frozen=True, slots=True)
class LabelListSegment:
    """An open segment."""

    file: BitmapFile
    list_nulls: RowSet | None
    """The rows whose list is null; None when the file does not tell."""
    list_null_bytes: int

    @property
    def nbytes(self) -> int:
        return self.file.nbytes + self.list_null_bytes

    def ask(self, question: Question) -> Answer:
        if not isinstance(question, HasItems):
            raise TypeError(f"a LABEL_LIST index is not asked {question}")
        items = question.items
        if question.every:
            found = [self._having(items[at : at + 1]) for at in range(len(items))]
            return Answer(reduce(and_, found), True, self.list_nulls)
        return Answer(self._having(items), True, self.list_nulls)

    def _having(self, items: pa.Array) -> RowSet:
        """The rows that have any of these items."""
        found = self.file.rows_of(self.file.keys.equal_to(items.drop_null()))
        return found | self.file.null_rows if items.null_count else found

    def entries(self, source: Source) -> Iterator[Entries]:
        yield from bitmap_entries(self.file, source, exact=True)
        if self.list_nulls is not None:
            yield from set_entries(self.list_nulls, NULL_LIST, source)

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_] | None]:
        known = None if self.list_nulls is not None else np.asarray(values.is_valid())
        return list_digests(values), known

    def statistics(self) -> Mapping[str, Any]:
        return {"num_bitmaps": self.file.reader.num_rows}


def open_segment(folder: IndexFolder, dtype: pa.DataType) -> LabelListSegment:
    """Open a segment over lists."""
    file = BitmapFile.open(folder, dtype.value_type)
    if LIST_NULLS not in file.reader.metadata:
        return LabelListSegment(file, None, 0)
    stored = _list_nulls(file.reader)
    return LabelListSegment(file, RowSet.deserialize(stored, file.reader.path, LIST_NULLS), len(stored))


def write_segment(sources: Sequence[Source], rows: NewRows, out: SegmentWriter) -> int:
    """Write a segment of the entries of older ones and of new rows, and tell its version."""
    nulls: RowSet | None = RowSet()
    with BitmapBuilder(rows.dtype.value_type, BuildLimits.within(out.memory_limit)) as builder:
        for source in sources:
            assert isinstance(source.segment, LabelListSegment)
            builder.add_file(source.segment.file, source)
            theirs = source.segment.list_nulls
            nulls = None if nulls is None or theirs is None else nulls | source.renamed(theirs)
        for batch in rows.batches:
            lists = batch.column(VALUE)
            numbers = numpy_array(batch.column(ROW)).astype(np.uint64, copy=False)
            builder.add_rows(lists.flatten(), numbers[numpy_array(pc.list_parent_indices(lists))])
            if lists.null_count and nulls is not None:
                nulls |= RowSet.of(numbers[numpy_array(lists.is_null())])
        if nulls is None:
            builder.write(out, {})
            return _WITHOUT_NULLS
        builder.write(out, {LIST_NULLS: nulls.serialize()})
    return WITH_NULLS


def _list_nulls(reader: IndexFileReader) -> bytes:
    number = reader.metadata[LIST_NULLS]
    if not number.isdecimal() or len(number) > 9:
        raise CorruptFile(reader.path, f"{LIST_NULLS} is {number!r}, not the number of a buffer")
    return reader.global_buffer(int(number))

"""LABEL_LIST: for each distinct item the rows whose list has it.

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
import pyarrow.compute as pc

from lancelet.errors import CorruptFile, InvalidInput, InvalidType
from lancelet.index.kind import ROW, VALUE, Built, Entries, Kind, NewRows, Source
from lancelet.index.questions import Answer, HasItems, Question
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.bitmap_build import BitmapBuilder
from lancelet.index.scalar.bitmap_file import LIST_NULLS, BitmapFile, key_type
from lancelet.index.scalar.digests import NULL_LIST, bitmap_entries, list_digests, set_entries
from lancelet.index.scalar.options import refuse_options
from lancelet.index.scalar.sort_keys import has_order

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFileReader, IndexFolder, SegmentWriter
    from lancelet.index.metadata import IndexMetadata

_WITHOUT_NULLS = 0
_WITH_NULLS = 1


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


class LabelListKind:
    """The kind of index that users call ``LABEL_LIST``."""

    name = "LABEL_LIST"
    type_url = "/lance.table.LabelListIndexDetails"
    by_address = False
    newest_version = _WITH_NULLS
    follows_moves = True

    def check(self, column: pa.Field, options: Mapping[str, Any]) -> None:
        if not _is_list(column.type):
            raise InvalidType(
                f"column {column.name!r} is {column.type}; a LABEL_LIST index takes lists and large lists"
            )
        if not has_order(key_type(column.type.value_type)):
            raise InvalidInput(
                f"column {column.name!r} is {column.type}; the items of a LABEL_LIST index must be single values"
            )
        refuse_options(self.name, options)

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        # Every list has all of no items, also those that are under no key.
        if not isinstance(question, HasItems) or (question.every and not len(question.items)):
            return False
        return _is_list(dtype) and has_order(key_type(dtype.value_type))

    def options(self, folder: IndexFolder) -> Mapping[str, Any]:
        return {}

    def names_addresses(self, entry: IndexMetadata) -> bool:
        return False

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> LabelListSegment:
        file = BitmapFile.open(folder, dtype.value_type)
        if LIST_NULLS not in file.reader.metadata:
            return LabelListSegment(file, None, 0)
        stored = _list_nulls(file.reader)
        return LabelListSegment(file, RowSet.deserialize(stored, file.reader.path, LIST_NULLS), len(stored))

    def write(self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, Any]) -> Built:
        nulls: RowSet | None = RowSet()
        with BitmapBuilder(rows.dtype.value_type) as builder:
            for source in sources:
                assert isinstance(source.segment, LabelListSegment)
                builder.add_file(source.segment.file, source)
                theirs = source.segment.list_nulls
                nulls = None if nulls is None or theirs is None else nulls | source.renamed(theirs)
            for batch in rows.batches:
                lists = batch.column(VALUE)
                numbers = batch.column(ROW).to_numpy().astype(np.uint64, copy=False)
                builder.add_rows(lists.flatten(), numbers[pc.list_parent_indices(lists).to_numpy()])
                if lists.null_count and nulls is not None:
                    nulls |= RowSet.of(numbers[lists.is_null().to_numpy(zero_copy_only=False)])
            if nulls is None:
                builder.write(out, {})
                return Built(index_version=_WITHOUT_NULLS)
            builder.write(out, {LIST_NULLS: nulls.serialize()})
        return Built(index_version=_WITH_NULLS)


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype))


def _list_nulls(reader: IndexFileReader) -> bytes:
    number = reader.metadata[LIST_NULLS]
    if not number.isdecimal() or len(number) > 9:
        raise CorruptFile(reader.path, f"{LIST_NULLS} is {number!r}, not the number of a buffer")
    return reader.global_buffer(int(number))


KIND: Kind = LabelListKind()

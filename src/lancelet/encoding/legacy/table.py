"""The page table of a legacy file, and columns read through it (spec file-format.md 4.2, 4.6).

::

    {i64 position, i64 length} for each field id from the smallest to the largest, for each batch

Structs and holes between the ids have (0, 0). ``length`` counts items; a page of
lists has one more, the last offset.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import MAX_INT32, dictionary_array, is_variable, list_array, nulls, struct_array
from lancelet.encoding.fetch import gather
from lancelet.encoding.legacy.pages import (
    Entries,
    Spans,
    decode_plain,
    decode_variable,
    fetch_offsets,
    require,
)
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Decode, Indices, RowRange, Rows, Step
from lancelet.format.schema import Field

ENTRY_SIZE = 16
LARGEST = 2**48
"""No position or length in a file is greater."""
IMPLICIT_ITEMS = 1 << 27
"""List items that may exist beyond what the file has bits for (nulls take no bytes)."""


class PageTable:
    """The pages of all fields that share a page table.

    ``dictionary`` makes a step that reads the values of a dictionary field.
    """

    __slots__ = (
        "_dictionary",
        "_entries",
        "_field_ids",
        "_file_size",
        "_first_id",
        "_path",
        "_position",
        "batch_offsets",
    )

    def __init__(
        self, path: str, file_size: int, position: int, field_ids: frozenset[int], batch_offsets: Indices,
        dictionary: Callable[[Field], Step],
    ) -> None:  # fmt: skip
        self._path = path
        self._file_size = file_size
        self._position = position
        self._field_ids = field_ids
        self._first_id = min(field_ids, default=0)
        self._dictionary = dictionary
        self._entries: dict[int, Entries] = {}
        self.batch_offsets = batch_offsets
        rows = max(field_ids) - self._first_id + 1 if field_ids else 0
        if self._first_id < 0 or position + rows * self.batches * ENTRY_SIZE > file_size:
            raise Place(path, "page table").corrupt(
                f"{rows} fields of {self.batches} batches at {position} do not fit into {file_size} bytes"
            )

    @property
    def batches(self) -> int:
        return len(self.batch_offsets) - 1

    def read(self, field: Field, rows: Rows) -> Decode:
        """These rows of a field; children that the file does not have are null."""
        return (yield from self._read(field, self._split(rows)))

    def _read(self, field: Field, spans: Spans) -> Decode:
        place = Place(self._path, f"field '{field.name}'")
        dtype = field.arrow_type
        if not any(node.id in self._field_ids for node in field.walk()):
            return nulls(spans.total, dtype, place)
        if pa.types.is_struct(dtype):
            children = yield from gather([self._read(child, spans) for child in field.children])
            return struct_array(dtype, spans.total, children)
        if field.is_blob:
            raise place.unsupported("a blob column in a legacy file")
        entries = yield from self._entries_of(field.id, place)
        if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
            return (yield from self._lists(field, dtype, entries, spans))
        require(not (spans.stops > entries.lengths[spans.batches]).any(), place, "a page has too few values")
        if pa.types.is_null(dtype):
            return nulls(spans.total, dtype, place)
        if pa.types.is_dictionary(dtype):
            keys, values = yield from gather([decode_plain(dtype.index_type, entries, spans), self._dictionary(field)])
            return dictionary_array(keys, values, dtype, place)
        if is_variable(dtype):
            return (yield from decode_variable(dtype, field.nullable, entries, spans))
        return (yield from decode_plain(dtype, entries, spans))

    def _lists(self, field: Field, dtype: pa.DataType, entries: Entries, spans: Spans) -> Decode:
        width = np.dtype("<i4") if pa.types.is_list(dtype) else np.dtype("<i8")
        place = entries.place
        require(not (spans.stops >= entries.lengths[spans.batches]).any(), place, "a page has too few lists")
        lengths, begins, totals = yield from fetch_offsets(width, entries, spans)
        total = int(lengths.sum())
        require(total <= 8 * self._file_size + IMPLICIT_ITEMS, place, f"lists of {total} items")
        if total > MAX_INT32 and pa.types.is_list(dtype):
            raise place.too_large(f"{total} list items")
        filled = totals > 0
        below = Spans(spans.batches[filled], begins[filled], (begins + totals)[filled])
        has_items = any(node.id in self._field_ids for node in field.children[0].walk())
        require(has_items, place, "the file has the lists, but not their items")
        items = yield from self._read(field.children[0], below)
        return list_array(dtype, lengths, None, items, place)

    def _entries_of(self, field_id: int, place: Place) -> Step:
        found = self._entries.get(field_id)
        if found is None:
            require(field_id in self._field_ids, place, "the file has its children, but not itself")
            size = self.batches * ENTRY_SIZE
            (data,) = yield [(self._position + (field_id - self._first_id) * size, size)]
            table = np.frombuffer(data, "<i8").reshape(-1, 2)
            require(not (table < 0).any() and not (table > LARGEST).any(), place, "a page table entry is out of range")
            found = Entries(table[:, 0].copy(), table[:, 1].copy(), self._file_size, place)
            self._entries[field_id] = found
        return found

    def _split(self, rows: Rows) -> Spans:
        """The rows as spans, cut at the borders of batches."""
        borders = self.batch_offsets
        if len(rows) == 0:
            empty = np.zeros(0, np.int64)
            return Spans(empty, empty, empty)
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, RowRange) else (rows.values[0], rows.values[-1])
        inside = first >= 0 and last < borders[-1]
        require(bool(inside), Place(self._path, "batches"), f"row {int(last)} is needed, there are {int(borders[-1])}")
        if isinstance(rows, RowRange):
            begin = int(np.searchsorted(borders, first, "right")) - 1
            end = int(np.searchsorted(borders, last, "right"))
            batches = np.arange(begin, end, dtype=np.int64)
            starts = np.maximum(borders[begin:end], rows.start)
            stops = np.minimum(borders[begin + 1 : end + 1], rows.stop)
        else:
            of_row = np.searchsorted(borders, rows.values, "right") - 1
            follows = (np.diff(rows.values) == 1) & (np.diff(of_row) == 0)
            heads = np.concatenate(([0], np.flatnonzero(~follows) + 1))
            tails = np.append(heads[1:], len(of_row)) - 1
            batches, starts, stops = of_row[heads], rows.values[heads], rows.values[tails] + 1
        return Spans(batches, starts - borders[batches], stops - borders[batches])

"""Columns of a 2.0 file by field (spec file-format.md 1.6, 3.5, 3.11).

Every field owns a column, parents too::

    struct      header column without data; the children lie in columns of their own, row for row
    list        offsets column; the items are one running sequence over the item column's pages,
                whose boundaries have nothing to do with those of the offsets
    the rest    one column, fixed-size lists, packed structs and blobs included
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import (
    MAX_INT32,
    concat,
    is_variable,
    list_array,
    nulls,
    pack_validity,
    struct_array,
    variable_array,
)
from lancelet.encoding.extents import DEFAULT_GAP, expand_spans
from lancelet.encoding.fetch import gather
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Decode, Indices, RowIndices, RowRange, Rows, Step
from lancelet.encoding.v2_0.dictionary import decode_dictionary, decode_dictionary_strings
from lancelet.encoding.v2_0.fixed import decode_fixed, decode_packed
from lancelet.encoding.v2_0.page import Extent, Page, PagedColumn
from lancelet.encoding.v2_0.variable import Spans, decode_binary, fetch_spans
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings20_pb2 as pb
from lancelet.format.schema import BLOB_V1_DESCRIPTOR, Field, Schema

IMPLICIT_ITEMS = 1 << 27
"""List items that may exist beyond what the file has bits for (nulls take no bytes)."""


class ColumnReader20:
    """Decodes the columns of one 2.0 file.

    Parameters
    ----------
    path
        The file, for error texts.
    columns
        The file's column metadata, in order.
    column_of
        Field id to column number.
    file_size
        No byte beyond it is asked for.
    schema
        The file's own schema; needed to read some of the children of a packed struct.
    file_buffers
        Offset and size of the global buffers.
    gap
        Bytes between wanted ones that are cheaper to fetch than to skip; anything for a mapped file.
    """

    __slots__ = ("_cache", "_column_of", "_columns", "_file_buffers", "_file_size", "_gap", "_packed", "_path")

    def __init__(
        self, path: str, columns: Sequence[column_pb2.ColumnMetadata], column_of: Mapping[int, int], file_size: int,
        *, schema: Schema | None = None, file_buffers: Sequence[Extent] = (), gap: int = DEFAULT_GAP,
    ) -> None:  # fmt: skip
        self._path = path
        self._columns = columns
        self._column_of = column_of
        self._file_size = file_size
        self._file_buffers = file_buffers
        self._gap = gap
        self._cache: dict[int, PagedColumn] = {}
        self._packed = {field.id: field for field in schema.walk() if field.is_packed} if schema is not None else {}

    def read(self, field: Field, rows: Rows) -> Decode:
        """These rows of a field; children that the file does not have are null."""
        place = Place(self._path, f"field '{field.name}'")
        if not any(node.id in self._column_of for node in field.walk()):
            return nulls(len(rows), field.arrow_type, place)
        if field.logical_type == "struct" and not field.is_packed:
            self.check(field)
            children = yield from gather([self.read(child, rows) for child in field.children])
            return struct_array(_struct_type(field, children), len(rows), children)
        column = self._column(field)
        if pa.types.is_list(field.arrow_type) or pa.types.is_large_list(field.arrow_type):
            return (yield from self._list(field, column, rows))
        if field.is_blob != column.is_blob:
            kind = "holds" if column.is_blob else "does not hold"
            raise place.corrupt(f"its column {kind} blobs, and the schema says otherwise")
        if field.is_packed or column.is_blob:
            return (yield from self._packed_rows(field, column, rows))
        return (yield from self._leaf(field, column, rows))

    def check(self, field: Field) -> None:
        """Refuse a field of which the manifest says that the file has it, and the file has not."""
        if field.id in self._column_of:
            self._column(field)

    def _leaf(self, field: Field, column: PagedColumn, rows: Rows) -> Decode:
        dtype = field.arrow_type
        pages = _pages(column, rows)
        if pages and is_variable(dtype) and pages[0][0].encoding.HasField("list"):
            return (yield from self._listed_strings(field, column, rows))
        steps = [_decode(page, page.encoding, dtype, part) for page, part in pages]
        return concat((yield from gather(steps)), dtype, column.place)

    def _column(self, field: Field) -> PagedColumn:
        number = self._column_of.get(field.id)
        if number is None:
            raise Place(self._path, f"field '{field.name}'").corrupt("the file has its children, but not itself")
        return self._column_at(number, field)

    def _column_at(self, number: int, field: Field) -> PagedColumn:
        if not 0 <= number < len(self._columns):
            place = Place(self._path, f"field '{field.name}'")
            raise place.corrupt(
                f"the manifest says that it has field {field.id} as column {number}, but its columns are {len(self._columns)}"
            )
        column = self._cache.get(number)
        if column is None:
            column = self._cache[number] = PagedColumn(
                self._path, number, self._columns[number], self._file_buffers, self._file_size, self._gap
            )
        return column

    def _list(self, field: Field, column: PagedColumn, rows: Rows) -> Decode:
        spans: Spans = yield from self._spans(column, rows)
        total = int(spans.lengths.sum())
        if total > MAX_INT32 and pa.types.is_list(field.arrow_type):
            raise column.place.too_large(f"{total} list items")
        if not any(node.id in self._column_of for node in field.children[0].walk()):
            raise column.place.corrupt("the file has the lists, but not their items")
        items = yield from self.read(field.children[0], _item_rows(spans))
        return list_array(field.arrow_type, spans.lengths, pack_validity(spans.valid), items, column.place)

    def _listed_strings(self, field: Field, column: PagedColumn, rows: Rows) -> Decode:
        """The first 2.0 writers stored a string as a list of bytes; these lie in the column after the offsets."""
        spans: Spans = yield from self._spans(column, rows)
        number = self._column_of[field.id] + 1
        bytes_field = Field(number, field.name, "uint8", nullable=False)
        items = yield from self._leaf(bytes_field, self._column_at(number, field), _item_rows(spans))
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(spans.lengths, out=offsets[1:])
        data = np.frombuffer(items.buffers()[1], np.uint8, len(items), items.offset)
        return variable_array(field.arrow_type, offsets, data, pack_validity(spans.valid), column.place)

    def _spans(self, column: PagedColumn, rows: Rows) -> Step:
        """The items of each row, in the whole item column."""
        parts = list(column.split(rows))
        bases = self._item_bases(column, max((number for number, _ in parts), default=-1) + 1)
        found: list[Spans] = yield from gather(
            [_list_spans(column.page(number), int(bases[number]), part) for number, part in parts]
        )
        if not found:
            return Spans(np.zeros(0, np.int64), np.zeros(0, np.int64), np.ones(0, np.bool_))
        spans = Spans(
            np.concatenate([part.starts for part in found]),
            np.concatenate([part.lengths for part in found]),
            np.concatenate([part.valid for part in found]),
        )
        total = int(spans.lengths.sum())
        if total > 8 * self._file_size + IMPLICIT_ITEMS:
            raise column.place.corrupt(f"lists of {total} items in a file of {self._file_size} bytes")
        return spans

    def _item_bases(self, column: PagedColumn, pages: int) -> Indices:
        """The number of the first item of each list page."""
        counts = [column.page(number).encoding.list.num_items for number in range(pages)]
        if any(count > 2**40 for count in counts):
            raise column.place.corrupt(f"a page claims {max(counts)} list items")
        return np.cumsum([0, *counts], dtype=np.int64)

    def _packed_rows(self, field: Field, column: PagedColumn, rows: Rows) -> Decode:
        """A packed struct, or the positions and sizes of blobs."""
        dtype = field.arrow_type
        if column.is_blob:
            if not field.is_blob:
                raise column.place.corrupt(f"the column holds blobs, field '{field.name}' is a {dtype}")
            dtype = BLOB_V1_DESCRIPTOR
            types, wanted = [child.type for child in dtype], [0, 1]
        else:
            stored = self._packed.get(field.id, field).children
            order = {child.id: number for number, child in enumerate(stored)}
            missing = [child.name for child in field.children if child.id not in order]
            if missing:
                raise column.place.corrupt(f"the packed struct '{field.name}' has no child '{missing[0]}'")
            types = [child.arrow_type for child in stored]
            wanted = [order[child.id] for child in field.children]
        steps = [decode_packed(page, page.encoding, types, wanted, part) for page, part in _pages(column, rows)]
        tables: list[list[pa.Array]] = yield from gather(steps)
        children = [
            concat([table[i] for table in tables], types[number], column.place) for i, number in enumerate(wanted)
        ]
        return struct_array(dtype, len(rows), children)


def _pages(column: PagedColumn, rows: Rows) -> list[tuple[Page, Rows]]:
    return [(column.page(number), part) for number, part in column.split(rows)]


def _decode(page: Page, encoding: pb.ArrayEncoding, dtype: pa.DataType, rows: Rows) -> Decode:
    """Rows of one page of a column without children."""
    dictionary = encoding.WhichOneof("array_encoding") == "dictionary"
    if pa.types.is_dictionary(dtype):
        if not dictionary:
            raise page.place.corrupt(f"encoding '{encoding.WhichOneof('array_encoding')}' for a column of {dtype}")
        return (yield from decode_dictionary(page, encoding.dictionary, dtype, rows, _decode))
    if pa.types.is_string(dtype) and dictionary:
        return (yield from decode_dictionary_strings(page, encoding.dictionary, dtype, rows, _decode))
    if is_variable(dtype):
        return (yield from decode_binary(page, encoding, dtype, rows))
    return (yield from decode_fixed(page, encoding, dtype, rows))


def _list_spans(page: Page, base: int, rows: Rows) -> Step:
    """Spans of items in the whole item column."""
    if page.encoding.WhichOneof("array_encoding") != "list":
        raise page.place.corrupt(f"encoding '{page.encoding.WhichOneof('array_encoding')}' for a column of lists")
    message = page.encoding.list
    spans = yield from fetch_spans(page, message.offsets, message.null_offset_adjustment, message.num_items, rows)
    return Spans(spans.starts + base, spans.lengths, spans.valid)


def _item_rows(spans: Spans) -> Rows:
    """The items of sorted spans; a range where they follow each other."""
    filled = spans.lengths > 0
    starts, lengths = spans.starts[filled], spans.lengths[filled]
    if len(starts) == 0:
        return RowRange(0, 0)
    ends = starts + lengths
    if bool((starts[1:] == ends[:-1]).all()):
        return RowRange(int(starts[0]), int(ends[-1]))
    return RowIndices(expand_spans(starts, lengths))


def _struct_type(field: Field, children: list[pa.Array]) -> pa.DataType:
    """The type of a struct; blobs in it are descriptors."""
    return pa.struct(
        [child.arrow_field.with_type(array.type) for child, array in zip(field.children, children, strict=True)]
    )

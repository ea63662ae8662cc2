"""Full-zip pages (spec encodings.md 4).

::

    buffer 0   entry after entry: [control word: rep << bits_def | def] [value]
    buffer 1   row index: rows + 1 offsets into buffer 0; only for variable values or lists

A fixed-width page without lists needs no index: row r starts at r times the
record size. Without levels such a page *is* the column, and a range of it is
handed out as a view of the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import bit_width
from lancelet.encoding.compression import inflate
from lancelet.encoding.kernels import fullzip
from lancelet.encoding.rows import Bytes, Indices, Ranges, RowRange, Rows
from lancelet.encoding.v2_1.codecs import (
    ChunkBuffer,
    SymbolTable,
    check,
    expand_fsst,
    gather_slices,
    join_parts,
    refusal,
    scheme_of,
    split_records,
    variable_width,
)
from lancelet.encoding.v2_1.levels import Entries, Levels, PageLevels
from lancelet.encoding.v2_1.pages import PageContext, PageRows
from lancelet.encoding.v2_1.values import Fixed, FixedList, Record, Values, Variable, allocate, to_arrow
from lancelet.format.proto import encodings21_pb2 as pb

_INDEX_WORDS = (1, 2, 4, 8)


class FullZipPage:
    """Decoder of one full-zip page."""

    __slots__ = ("_context", "_fixed", "_layout", "_prefix", "_record", "_shape", "_word")

    def __init__(self, layout: pb.FullZipLayout, context: PageContext) -> None:
        self._layout = layout
        self._context = context
        self._shape = PageLevels.of(layout.layers, context.kinds, context.place)
        place = context.place
        bits = layout.bits_rep + layout.bits_def
        if layout.bits_rep > 16 or layout.bits_def > 16 or (self._shape.lists == 0 and layout.bits_rep):
            raise place.corrupt(f"control words of {layout.bits_rep} + {layout.bits_def} bits")
        self._word = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
        kind = layout.WhichOneof("details")
        if kind == "bits_per_value":
            if layout.bits_per_value % 8 or layout.bits_per_value == 0:
                raise place.corrupt(f"zipped values of {layout.bits_per_value} bits")
            self._fixed, self._prefix = layout.bits_per_value // 8, 0
        elif kind == "bits_per_offset" and layout.bits_per_offset in (32, 64):
            self._fixed, self._prefix = -1, layout.bits_per_offset // 8
        else:
            raise place.corrupt("zipped values of neither fixed nor variable width")
        self._record = self._word + self._fixed if self._fixed >= 0 and self._shape.lists == 0 else 0

    @property
    def nbytes(self) -> int:
        return 0

    @property
    def plain_lists(self) -> int | None:
        """Where the first row lies in the file, if each row is nothing but the bytes of a list of fixed size."""
        context, lists = self._context, self._layout.value_compression.fixed_size_list
        items = lists.values.flat
        dtype = context.dtype
        if self._word or not self._record or not pa.types.is_fixed_size_list(dtype) or lists.has_validity:
            return None
        if lists.values.WhichOneof("compression") != "flat" or lists.items_per_value != dtype.list_size:
            return None
        bits = _item_bits(dtype, 1)
        if bits % 8 or items.bits_per_value != bits or dtype.list_size * bits != self._record * 8:
            return None
        if not context.sizes or context.sizes[0] < context.rows * self._record:
            return None
        return context.offsets[0]

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        if self._record:
            return (yield from self._read_records(rows))
        return (yield from self._read_indexed(rows))

    def _read_records(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        """Rows of one size: a range is a slice of the file, scattered rows are gathered."""
        context, place, record = self._context, self._context.place, self._record
        if not context.sizes or context.sizes[0] < context.rows * record:
            raise place.corrupt(f"{context.rows} records of {record} bytes do not fit into the page's buffer")
        base = context.offsets[0]
        if isinstance(rows, RowRange):
            data = yield from context.file.fetch_one(base + rows.start * record, len(rows) * record, place)
        else:
            sizes = np.full(len(rows), record, np.int64)
            data = yield from context.file.fetch_joined(base + rows.values * record, sizes, place)
        if self._word == 0:
            values = self._values(Fixed(data, self._fixed * 8, len(rows)))
            return PageRows(Entries(len(rows), None, None), values)
        starts, stops = np.zeros(1, np.int64), np.array([len(data)], np.int64)
        return self._unzip(data, starts, stops, len(rows))

    def _read_indexed(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        """Rows of varying size: the row index says where they are."""
        context, place = self._context, self._context.place
        if isinstance(rows, RowRange) and len(rows) == context.rows:
            data = yield from context.buffer(0)
            starts, stops = np.zeros(1, np.int64), np.array([len(data)], np.int64)
            return self._unzip(data, starts, stops, len(rows))
        if isinstance(rows, RowRange):
            bounds = yield from self._index(np.array([rows.start, rows.stop], np.int64))
            starts, stops = bounds[:1], bounds[1:]
        else:
            wanted = np.unique(np.concatenate((rows.values, rows.values + 1)))
            bounds = yield from self._index(wanted)
            starts = bounds[np.searchsorted(wanted, rows.values)]
            stops = bounds[np.searchsorted(wanted, rows.values + 1)]
        # Rows that overlap would multiply the page's bytes.
        if (stops < starts).any() or (stops > context.sizes[0]).any() or (starts[1:] < stops[:-1]).any():
            raise place.corrupt("a row index that does not rise or leaves its page")
        data = yield from context.file.fetch_joined(context.offsets[0] + starts, stops - starts, place)
        ends = (stops - starts).cumsum()
        return self._unzip(data, ends - (stops - starts), ends, len(rows))

    def _index(self, wanted: Indices) -> Generator[Ranges, list[Bytes], Indices]:
        """Entries of the row index; its word size follows from its length."""
        context, place = self._context, self._context.place
        if len(context.sizes) < 2:
            raise place.corrupt("rows of varying size without a row index")
        word, rest = divmod(context.sizes[1], context.rows + 1)
        if rest or word not in _INDEX_WORDS:
            raise place.corrupt(f"a row index of {context.sizes[1]} bytes for {context.rows} rows")
        sizes = np.full(len(wanted), word, np.int64)
        data, positions = yield from context.file.fetch(context.offsets[1] + wanted * word, sizes, place)
        raw = np.empty(len(wanted) * word, np.uint8)
        if fullzip.gather_records(data, positions, word, raw) >= 0:
            raise place.corrupt("a row index outside of the file")
        found = raw.view(f"<u{word}")
        if word == 8 and len(found) and int(found.max()) > 2**62:
            raise place.corrupt("a row index with impossible offsets")
        return found.astype(np.int64)

    def _unzip(self, data: Bytes, starts: Indices, stops: Indices, rows: int) -> PageRows:
        """Split zipped entries into levels and values."""
        layout, place, shape = self._layout, self._context.place, self._shape
        bits_def, visible = layout.bits_def, shape.max_visible
        totals = np.zeros(3, np.int64)
        bad = fullzip.count_entries(
            data, starts, stops, self._word, bits_def, visible, self._fixed, self._prefix, totals
        )
        if bad >= 0:
            raise place.corrupt("zipped entries do not end where their row does")
        count, slots, size = totals.tolist()
        reps = np.empty(count if layout.bits_rep else 0, np.uint16)
        defs = np.empty(count if bits_def else 0, np.uint16)
        offsets = np.empty(0 if self._fixed >= 0 else slots + 1, np.int64)
        buffer, out = allocate(size)
        bad = fullzip.unzip(
            data, starts, stops, self._word, bits_def, visible, self._fixed, self._prefix, reps, defs, offsets, out
        )
        if bad >= 0:
            raise place.corrupt("zipped entries that change while they are read")
        entry_reps = self._row_starts(reps if layout.bits_rep else None, count, rows)
        entry_defs = shape.common(defs, place) if bits_def else None
        raw: Values = Fixed(buffer, self._fixed * 8, slots) if self._fixed >= 0 else Variable(offsets, buffer)
        return PageRows(Entries(count, entry_reps, entry_defs), self._values(raw))

    def _row_starts(self, reps: Levels | None, count: int, rows: int) -> Levels | None:
        """Check that the entries are those of as many rows as were asked for."""
        lists = self._shape.lists
        if lists and reps is None:
            # No repetition bits: every list of the page holds at most one item.
            reps = np.full(count, lists, np.uint16)
        found = count if reps is None else int(np.count_nonzero(reps == lists))
        if found != rows or (reps is not None and len(reps) and reps[0] != lists):
            raise self._context.place.corrupt(f"{found} rows in zipped entries where {rows} were expected")
        return reps

    def _values(self, raw: Values) -> pa.Array:
        decoded = _decode_values(self._layout.value_compression, raw, self._context)
        return to_arrow(decoded, self._context.dtype, self._context.place)


def _decode_values(codec: pb.CompressiveEncoding, raw: Values, context: PageContext) -> Values:
    """Per-value codecs: each record or byte string decodes by itself."""
    place = context.place
    kind = codec.WhichOneof("compression")
    match kind:
        case "flat" if isinstance(raw, Fixed):
            return raw
        case "fixed_size_list" if isinstance(raw, Fixed):
            return _split_lists(codec.fixed_size_list, raw, context)
        case "packed_struct" if isinstance(raw, Fixed):
            return split_records(raw, list(codec.packed_struct.bits_per_value), place)
        case "variable" if isinstance(raw, Variable):
            variable_width(codec.variable, place)
            return raw
        case "fsst" if isinstance(raw, Variable):
            return expand_fsst(SymbolTable.parse(codec.fsst.symbol_table, place), raw, place)
        case "general" if isinstance(raw, Variable):
            return _decode_values(codec.general.values, _inflate(codec.general, raw, context), context)
        case "variable_packed_struct" if isinstance(raw, Variable):
            return _split_variable_records(codec.variable_packed_struct, raw, context)
    raise refusal(kind, "a full-zip page", place)


def _inflate(codec: pb.General, raw: Variable, context: PageContext) -> Variable:
    """Every value is a compressed buffer of its own; a null has none."""
    scheme = scheme_of(codec, context.place)
    data = np.frombuffer(raw.data, np.uint8)
    bounds = raw.offsets.tolist()
    parts = [inflate(data[start:stop], scheme, context.place) for start, stop in itertools.pairwise(bounds)]
    joined: ChunkBuffer = join_parts(parts)
    return Variable(np.append(joined.positions, len(joined.data)), joined.data)


def _split_lists(codec: pb.FixedSizeList, raw: Fixed, context: PageContext) -> FixedList:
    """Records of validity bitmaps, outermost first, then the items (spec 7.2)."""
    place = context.place
    levels, items, innermost = [], 1, codec
    while True:
        items *= int(innermost.items_per_value)
        if not 1 <= items <= 2**31 - 1:
            raise place.corrupt(f"lists of {items} items")
        levels.append((int(innermost.items_per_value), items, innermost.has_validity))
        if innermost.values.WhichOneof("compression") != "fixed_size_list":
            break
        innermost = innermost.values.fixed_size_list
    kind = innermost.values.WhichOneof("compression")
    nothing = kind == "constant" and not innermost.values.constant.value
    if kind != "flat" and not nothing:
        raise refusal(kind, "a zipped list", place)
    # Items that are all null have no bytes of their own, whether they are numbers or lists.
    bits = _item_bits(context.dtype, len(levels)) if nothing else int(innermost.values.flat.bits_per_value)
    bitmap_bytes = [(count + 7) // 8 if valid else 0 for _, count, valid in levels]
    item_bytes = 0 if nothing else (items * bits + 7) // 8
    record = raw.bits // 8
    if bits == 0 or (bits % 8 and bits != 1 and not nothing) or sum(bitmap_bytes) + item_bytes != record:
        raise place.corrupt(f"lists of {items} items of {bits} bits in records of {record} bytes")
    if record == item_bytes and (bits != 1 or items % 8 == 0) and not nothing:
        values: Values = Fixed(raw.data, bits, raw.count * items)
        bitmaps: list[Bytes | None] = [None] * len(levels)
    else:
        matrix = np.frombuffer(raw.data, np.uint8)[: raw.count * record].reshape(raw.count, record)
        bounds = np.cumsum([0, *bitmap_bytes])
        bitmaps = [
            _bits(matrix[:, bounds[k] : bounds[k + 1]], count) if valid else None
            for k, (_, count, valid) in enumerate(levels)
        ]
        tail = matrix[:, bounds[-1] :]
        if nothing:
            data = np.zeros((raw.count * items * bits + 7) // 8, np.uint8)
        else:
            data = _bits(tail, items) if bits == 1 else np.ascontiguousarray(tail).reshape(-1)
        values = Fixed(data, bits, raw.count * items)
    for (size, count, _), bitmap in zip(reversed(levels), reversed(bitmaps), strict=True):
        values = FixedList(values, size, bitmap, raw.count * count // size)
    assert isinstance(values, FixedList)
    return values


def _item_bits(dtype: pa.DataType, depth: int) -> int:
    """Width of the items so deep in nested fixed-size lists; such lists are as wide as what is in them."""
    count = 1
    while pa.types.is_fixed_size_list(dtype):
        count *= 1 if depth > 0 else dtype.list_size
        dtype, depth = dtype.value_type, depth - 1
    return count * bit_width(dtype)


def _bits(rows: np.ndarray[Any, np.dtype[np.uint8]], count: int) -> Bytes:
    """Bitmaps that start anew in each row, joined into one."""
    bits = np.unpackbits(np.ascontiguousarray(rows), axis=1, count=count, bitorder="little")
    return np.packbits(bits.reshape(-1), bitorder="little")


def _split_variable_records(codec: pb.VariablePackedStruct, raw: Variable, context: PageContext) -> Record:
    """Records of fixed fields and length-prefixed ones; a null row has an empty record (spec 7.4)."""
    place = context.place
    if not pa.types.is_struct(context.dtype) or context.dtype.num_fields != len(codec.fields):
        raise place.corrupt(f"packed structs of {len(codec.fields)} fields in a column of {context.dtype}")
    widths, prefixes = [], []
    for field in codec.fields:
        if field.WhichOneof("layout") == "bits_per_value" and field.bits_per_value % 8 == 0 and field.bits_per_value:
            widths.append(field.bits_per_value // 8)
            prefixes.append(0)
        elif field.WhichOneof("layout") == "bits_per_length" and field.bits_per_length in (32, 64):
            widths.append(-1)
            prefixes.append(field.bits_per_length // 8)
        else:
            raise place.corrupt("a packed struct field of neither fixed nor variable width")
    data = np.frombuffer(raw.data, np.uint8)
    starts = np.empty((len(widths), raw.count), np.int64)
    sizes = np.empty((len(widths), raw.count), np.int64)
    bad = fullzip.split_record_fields(
        data, raw.offsets, np.array(widths, np.int64), np.array(prefixes, np.int64), starts, sizes
    )
    if bad >= 0:
        raise place.corrupt(f"packed struct {bad} does not hold its fields")
    children: list[Values] = []
    for k, field in enumerate(codec.fields):
        if widths[k] >= 0:
            buffer, out = allocate(raw.count * widths[k])
            check(fullzip.gather_slices(data, starts[k], sizes[k], widths[k], out), "packed structs", place)
            piece: Values = Fixed(buffer, widths[k] * 8, raw.count)
        else:
            piece = gather_slices(data, starts[k], sizes[k], place)
        children.append(_decode_values(field.value, piece, context))
    return Record(tuple(children), raw.count)

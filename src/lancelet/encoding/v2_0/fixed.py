"""Pages of fixed-width values (spec file-format.md 3.2 to 3.4, 3.10, 3.13).

::

    nullable          no_nulls  { values }
                      some_nulls{ validity: flat 1 bit, values }
                      all_nulls { }                                    no buffers
    values            flat | fixed_size_list{ dimension, items } | bitpacked | bitpacked_for_non_neg
    items             nullable again, dimension items a row
    packed_struct     rows of child values side by side, no nulls

A fixed-size list multiplies the values of a row: ``per_row`` carries the product
down, so that the rows of a take are gathered whole whatever the nesting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.assemble import bit_width, fixed_array, fixed_buffer, nulls, pick_bits, shift_bits
from lancelet.encoding.compression import inflate
from lancelet.encoding.extents import join, plan_extents, take_fixed
from lancelet.encoding.fetch import gather
from lancelet.encoding.kernels.bitpack import unpack_blocks
from lancelet.encoding.rows import Bytes, Decode, Indices, RowIndices, RowRange, Rows, Step
from lancelet.encoding.v2_0.page import Page
from lancelet.format.proto import encodings20_pb2 as pb

BLOCK = 1024
"""Values in a block of bitpacked_for_non_neg."""


def decode_fixed(page: Page, encoding: pb.ArrayEncoding, dtype: pa.DataType, rows: Rows, per_row: int = 1) -> Decode:
    """``per_row`` values for each of the rows."""
    count = len(rows) * per_row
    validity: Bytes | None = None
    values, mask = split_nullable(page, encoding)
    if values is None:
        return nulls(count, dtype, page.place)
    if pa.types.is_null(dtype):
        raise page.place.corrupt("a column of null type has values")
    if mask is None:
        body = yield from _values(page, values, dtype, rows, per_row)
    else:
        body, validity = yield from gather(
            [_values(page, values, dtype, rows, per_row), fetch_flat(page, flat_of(page, mask, 1), rows, per_row)]
        )
    bitmap = None if validity is None else pa.py_buffer(validity)
    if isinstance(body, pa.Array):
        return pa.Array.from_buffers(dtype, count, [bitmap], children=[body])
    return pa.Array.from_buffers(dtype, count, [bitmap, fixed_buffer(body, dtype)])


def split_nullable(page: Page, encoding: pb.ArrayEncoding) -> tuple[pb.ArrayEncoding | None, pb.ArrayEncoding | None]:
    """Values and validity of an encoding; no values means that all are null, no validity that none is."""
    if encoding.WhichOneof("array_encoding") != "nullable":
        return encoding, None
    match encoding.nullable.WhichOneof("nullability"):
        case "no_nulls":
            return encoding.nullable.no_nulls.values, None
        case "some_nulls":
            return encoding.nullable.some_nulls.values, encoding.nullable.some_nulls.validity
        case "all_nulls":
            return None, None
    raise page.place.corrupt("a nullable encoding does not say which of its kinds it is")


def flat_of(page: Page, encoding: pb.ArrayEncoding, bits: int) -> pb.Flat:
    """A flat encoding of values that must be ``bits`` wide and cannot be null."""
    values, mask = split_nullable(page, encoding)
    if values is None or mask is not None:
        raise page.place.corrupt("nulls where the format allows none")
    if values.WhichOneof("array_encoding") != "flat":
        raise page.place.unsupported(f"encoding '{values.WhichOneof('array_encoding')}' where only flat is known")
    if values.flat.bits_per_value != bits:
        raise page.place.corrupt(f"values of {values.flat.bits_per_value} bits where {bits} are needed")
    return values.flat


def is_compressed(flat: pb.Flat) -> bool:
    return flat.HasField("compression") and flat.compression.scheme not in ("", "none")


def fetch_flat(page: Page, flat: pb.Flat, rows: Rows, per_row: int = 1) -> Step:
    """The bytes of the rows' values, side by side; bits begin at bit 0."""
    extent = page.buffer(flat.buffer)
    bits = flat.bits_per_value * per_row
    if is_compressed(flat):
        (packed,) = yield [extent]
        data = inflate(packed, flat.compression.scheme, page.place)
        _check_size(page, bits, len(data))
        return _cut(data, rows, bits)
    return (yield from fetch_rows(page, extent, rows, bits))


def fetch_rows(page: Page, extent: tuple[int, int], rows: Rows, bits: int) -> Step:
    """Only the bytes of these rows out of a buffer of rows that are ``bits`` wide."""
    offset, size = extent
    _check_size(page, bits, size)
    if isinstance(rows, RowRange):
        first, stop = rows.start * bits, rows.stop * bits
        (data,) = yield [(offset + first // 8, (stop + 7) // 8 - first // 8)]
        return shift_bits(data, first % 8, stop - first)
    if bits % 8 == 0:
        plan = plan_extents(offset + rows.values * (bits // 8), bits // 8, page.gap)
        buffers = yield plan.ranges
        return take_fixed(join(buffers), plan.positions, bits // 8)
    positions = _bits_of(rows, bits)
    plan = plan_extents(offset + (positions >> 3), 1, page.gap)
    buffers = yield plan.ranges
    return pick_bits(join(buffers), plan.positions * 8 + (positions & 7))


def decode_packed(
    page: Page, encoding: pb.ArrayEncoding, types: Sequence[pa.DataType], wanted: Sequence[int], rows: Rows
) -> Step:
    """The wanted children of packed rows, as a list of arrays; ``types`` are those of all children."""
    packed = encoding.packed_struct
    widths = [bit_width(dtype) // 8 for dtype in types]
    if encoding.WhichOneof("array_encoding") != "packed_struct" or len(packed.inner) != len(types):
        raise page.place.corrupt(f"not a packed struct of {len(types)} children")
    if any(bit_width(dtype) == 0 or bit_width(dtype) % 8 for dtype in types):
        raise page.place.unsupported("a packed struct with children that are not whole bytes")
    row_width = sum(widths)
    data = yield from fetch_rows(page, page.buffer(packed.buffer), rows, row_width * 8)
    table = data.reshape(len(rows), row_width)
    starts = np.cumsum([0, *widths]).tolist()
    return [
        fixed_array(types[i], len(rows), np.ascontiguousarray(table[:, starts[i] : starts[i + 1]]).reshape(-1))
        for i in wanted
    ]


def _values(page: Page, encoding: pb.ArrayEncoding, dtype: pa.DataType, rows: Rows, per_row: int) -> Step:
    """The values under the nulls: bytes, or for fixed-size lists the array of their items."""
    kind = encoding.WhichOneof("array_encoding")
    if pa.types.is_fixed_size_list(dtype):
        listed = encoding.fixed_size_list
        if kind != "fixed_size_list" or listed.dimension != dtype.list_size:
            raise page.place.corrupt(f"encoding '{kind}' of dimension {listed.dimension} for a column of {dtype}")
        if listed.has_validity:
            raise page.place.unsupported("a fixed-size list that stores its own validity")
        return (yield from decode_fixed(page, listed.items, dtype.value_type, rows, per_row * dtype.list_size))
    bits = bit_width(dtype)
    match kind:
        case "flat":
            return (yield from fetch_flat(page, flat_of(page, encoding, bits), rows, per_row))
        case "bitpacked":
            return (yield from _bitpacked(page, encoding.bitpacked, bits, _each(rows, per_row)))
        case "bitpacked_for_non_neg":
            return (yield from _bitpacked_blocks(page, encoding.bitpacked_for_non_neg, bits, rows, per_row))
    raise page.place.unsupported(f"encoding '{kind}' for a column of {dtype}")


def _bitpacked(page: Page, packed: pb.Bitpacked, bits: int, items: Rows) -> Step:
    """Values of a few bits each, one after the other (spec 3.13)."""
    width = packed.compressed_bits_per_value
    if packed.uncompressed_bits_per_value != bits or not 0 < width <= bits or bits not in (8, 16, 32, 64):
        raise page.place.corrupt(
            f"values packed from {packed.uncompressed_bits_per_value} bits to {width}, not from {bits}"
        )
    data = yield from fetch_rows(page, page.buffer(packed.buffer), items, width)
    table = np.unpackbits(data, count=len(items) * width, bitorder="little").reshape(len(items), width)
    wide = np.zeros((len(items), bits), np.uint8)
    wide[:, :width] = table
    if packed.signed:
        wide[:, width:] = table[:, -1:]
    return np.packbits(wide.reshape(-1), bitorder="little")


def _bitpacked_blocks(page: Page, packed: pb.BitpackedForNonNeg, bits: int, rows: Rows, per_row: int) -> Step:
    """Blocks of 1024 values in FastLanes order, the last one padded (spec 3.13)."""
    width = packed.compressed_bits_per_value
    if packed.uncompressed_bits_per_value != bits or width > bits or bits not in (8, 16, 32, 64):
        raise page.place.corrupt(
            f"values packed from {packed.uncompressed_bits_per_value} bits to {width}, not from {bits}"
        )
    offset, size = page.buffer(packed.buffer)
    blocks = -(-page.length * per_row // BLOCK)
    if blocks * 128 * width > size:
        raise page.place.corrupt(f"{blocks} blocks of {128 * width} bytes in a buffer of {size}")
    items = _each(rows, per_row)
    if len(items) == 0:
        return np.empty(0, np.uint8)
    first, last = (items.start, items.stop - 1) if isinstance(items, RowRange) else (items.values[0], items.values[-1])
    first, last = int(first) // BLOCK, int(last) // BLOCK
    (data,) = yield [(offset + first * 128 * width, (last + 1 - first) * 128 * width)]
    count = (last + 1 - first) * BLOCK
    out = np.empty(count * bits // 8, np.uint8)
    whole = np.array([count], np.int64)
    if unpack_blocks(data, np.zeros(1, np.int64), np.array([len(data)], np.int64), whole, bits, width, out) >= 0:
        raise page.place.corrupt("packed blocks are cut short")
    return _cut(out, items.within(first * BLOCK, (last + 1) * BLOCK), bits)


def _each(rows: Rows, per_row: int) -> Rows:
    """Rows of ``per_row`` values as the numbers of those values."""
    if isinstance(rows, RowRange):
        return RowRange(rows.start * per_row, rows.stop * per_row)
    return rows if per_row == 1 else RowIndices(_bits_of(rows, per_row))


def _bits_of(rows: RowIndices, bits: int) -> Indices:
    positions: npt.NDArray[np.int64] = (rows.values[:, None] * bits + np.arange(bits)).reshape(-1)
    return positions


def _cut(data: Bytes, rows: Rows, bits: int) -> Bytes:
    """The rows out of all values of a page."""
    if isinstance(rows, RowRange):
        first, stop = rows.start * bits, rows.stop * bits
        return shift_bits(data[first // 8 : (stop + 7) // 8], first % 8, stop - first)
    if bits % 8 == 0:
        return take_fixed(data, rows.values * (bits // 8), bits // 8)
    return pick_bits(data, _bits_of(rows, bits))


def _check_size(page: Page, bits: int, size: int) -> None:
    needed = (page.length * bits + 7) // 8
    if needed > size:
        raise page.place.corrupt(f"{page.length} values of {bits} bits need {needed} bytes, the buffer has {size}")

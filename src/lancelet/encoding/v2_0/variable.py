"""Pages of strings and binary, and end offsets in general (spec file-format.md 3.6, 3.9, 3.11, 3.13).

::

    indices   N x u64 end offsets, no leading 0        ["x", null, "yz"]  ->  1, 5, 3    A = 4
    bytes     of all values                                                   "xyz"

``null_adjustment`` A is the number of bytes plus one; a null row stores its end plus
A. A row starts where the row before it ends, so each row needs two indices.
Lists store their offsets the same way, counted in items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.assemble import pack_validity, variable_array
from lancelet.encoding.compression import inflate
from lancelet.encoding.extents import join, plan_extents, take_fixed, take_variable
from lancelet.encoding.fetch import gather
from lancelet.encoding.kernels.fsst import SPARE, expand, expanded_size
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Decode, Indices, RowRange, Rows, Step
from lancelet.encoding.v2_0.fixed import fetch_flat, flat_of, is_compressed, split_nullable
from lancelet.encoding.v2_0.page import Page
from lancelet.format.proto import encodings20_pb2 as pb

SYMBOL_TABLE_SIZE = 2312
SYMBOL_TABLE_MAGIC = b"TSSF"

Expand = Callable[[Indices, Bytes], tuple[Indices, Bytes]]


@dataclass(frozen=True, slots=True)
class Spans:
    """Where each row's values lie; null rows span nothing."""

    starts: Indices
    lengths: Indices
    valid: npt.NDArray[np.bool_]


def decode_binary(page: Page, encoding: pb.ArrayEncoding, dtype: pa.DataType, rows: Rows) -> Decode:
    """Strings or binary under ``binary``, ``fsst`` or the fixed-width form of old experiments."""
    match encoding.WhichOneof("array_encoding"):
        case "binary":
            return (yield from _binary(page, encoding.binary, dtype, rows, None))
        case "fsst":
            table = SymbolTable(encoding.fsst.symbol_table, page.place)
            if encoding.fsst.binary.WhichOneof("array_encoding") != "binary":
                raise page.place.unsupported("fsst around something that is not binary")
            return (yield from _binary(page, encoding.fsst.binary.binary, dtype, rows, table.expand))
        case "nullable" | "fixed_size_binary":
            return (yield from _equal_lengths(page, encoding, dtype, rows))
    raise page.place.unsupported(f"encoding '{encoding.WhichOneof('array_encoding')}' for a column of {dtype}")


def fetch_spans(page: Page, encoding: pb.ArrayEncoding, adjustment: int, limit: int, rows: Rows) -> Step:
    """Spans of rows from their end offsets; no end may exceed ``limit``."""
    flat = flat_of(page, encoding, 64)
    if is_compressed(flat):
        raise page.place.unsupported("compressed offsets")
    if adjustment == 0:
        # Only pages without rows leave it out.
        raise page.place.corrupt("offsets without a null adjustment")
    count = len(rows)
    if isinstance(rows, RowRange):
        lead = 1 if rows.start > 0 else 0
        data = yield from fetch_flat(page, flat, RowRange(rows.start - lead, rows.stop))
        ends, valid = _normalise(page, data, adjustment, limit)
        previous = np.zeros(count, np.int64)
        previous[1 - lead :] = ends[: count - 1 + lead]
        ends, valid = ends[lead:], valid[lead:]
    else:
        offset, size = page.buffer(flat.buffer)
        if page.length * 8 > size:
            raise page.place.corrupt(f"{page.length} offsets do not fit into {size} bytes")
        lead_of = np.minimum(rows.values, 1)
        plan = plan_extents(offset + (rows.values - lead_of) * 8, 8 + 8 * lead_of, page.gap)
        joined = join((yield plan.ranges))
        ends, valid = _normalise(page, take_fixed(joined, plan.positions + 8 * lead_of, 8), adjustment, limit)
        previous, _ = _normalise(page, take_fixed(joined, plan.positions, 8), adjustment, limit)
        previous = np.where(lead_of == 0, 0, previous)
    lengths = ends - previous
    if bool((lengths < 0).any()) or bool((previous[1:] < ends[:-1]).any()):
        raise page.place.corrupt("offsets decrease")
    return Spans(previous, np.where(valid, lengths, 0), valid)


def _normalise(page: Page, data: Bytes, adjustment: int, limit: int) -> tuple[Indices, npt.NDArray[np.bool_]]:
    raw = np.frombuffer(data, np.uint64)
    if len(raw) == 0:
        return np.zeros(0, np.int64), np.ones(0, np.bool_)
    valid = raw < np.uint64(adjustment)
    ends = raw if bool(valid.all()) else np.where(valid, raw, raw - np.uint64(adjustment))
    if ends.max() > limit:
        raise page.place.corrupt(f"an offset of {ends.max()} where {limit} is the end")
    return ends.astype(np.int64), valid


def _binary(page: Page, binary: pb.Binary, dtype: pa.DataType, rows: Rows, expand_values: Expand | None) -> Decode:
    flat = flat_of(page, binary.bytes, 8)
    extent = page.buffer(flat.buffer)
    if len(rows) == 0:
        return pa.array([], dtype)
    if is_compressed(flat):
        # How far the offsets may go is known only after inflating.
        ends, packed = yield from gather(
            [fetch_spans(page, binary.indices, binary.null_adjustment, 2**62, rows), _whole(extent)]
        )
        spans: Spans = ends
        data = inflate(packed, flat.compression.scheme, page.place)
        if int((spans.starts + spans.lengths).max()) > len(data):
            raise page.place.corrupt(f"an offset beyond the {len(data)} bytes of the page")
        offsets, values = take_variable(data, spans.starts, spans.lengths)
    else:
        spans = yield from fetch_spans(page, binary.indices, binary.null_adjustment, extent[1], rows)
        gap = 2**62 if isinstance(rows, RowRange) else page.gap
        plan = plan_extents(extent[0] + spans.starts, spans.lengths, gap)
        offsets, values = take_variable(join((yield plan.ranges)), plan.positions, spans.lengths)
    if expand_values is not None:
        offsets, values = expand_values(offsets, values)
    return variable_array(dtype, offsets, values, pack_validity(spans.valid), page.place)


def _whole(extent: tuple[int, int]) -> Step:
    (data,) = yield [extent]
    return data


def _equal_lengths(page: Page, encoding: pb.ArrayEncoding, dtype: pa.DataType, rows: Rows) -> Decode:
    """Values that all have the same length; null rows take as much room (spec 3.13)."""
    values, mask = split_nullable(page, encoding)
    if values is None:
        return pa.nulls(len(rows), dtype)
    width = values.fixed_size_binary.byte_width
    if values.WhichOneof("array_encoding") != "fixed_size_binary" or width == 0:
        raise page.place.unsupported(f"encoding '{values.WhichOneof('array_encoding')}' for a column of {dtype}")
    steps = [fetch_flat(page, flat_of(page, values.fixed_size_binary.bytes, 8), rows, width)]
    if mask is not None:
        steps.append(fetch_flat(page, flat_of(page, mask, 1), rows))
    data, *bitmaps = yield from gather(steps)
    valid = np.ones(len(rows), np.bool_)
    if bitmaps:
        valid = np.unpackbits(bitmaps[0], count=len(rows), bitorder="little").astype(np.bool_)
    starts = np.arange(len(rows), dtype=np.int64) * width
    offsets, content = take_variable(data, starts, np.where(valid, width, 0))
    return variable_array(dtype, offsets, content, pack_validity(valid), page.place)


class SymbolTable:
    """The symbols of an FSST page (spec encodings.md 6.7)."""

    __slots__ = ("_lengths", "_passes", "_place", "_symbols")

    def __init__(self, table: bytes, place: Place) -> None:
        if len(table) != SYMBOL_TABLE_SIZE or table[4:8] != SYMBOL_TABLE_MAGIC or table[3] > 1:
            raise place.corrupt("not an FSST symbol table")
        count = table[0]
        self._place = place
        self._passes = table[3] == 0
        self._symbols = np.zeros(256, np.uint64)
        self._lengths = np.zeros(256, np.uint8)
        self._symbols[:count] = np.frombuffer(table, "<u8", count, 8)
        self._lengths[:count] = np.frombuffer(table, np.uint8, count, 8 + 8 * count)
        if self._lengths.max() > 8:
            raise place.corrupt("an FSST symbol is longer than 8 bytes")

    def expand(self, offsets: Indices, codes: Bytes) -> tuple[Indices, Bytes]:
        """The values that the codes stand for."""
        if self._passes:
            return offsets, codes
        out = np.empty(expanded_size(codes, self._lengths) + SPARE, np.uint8)
        out_offsets = np.zeros(len(offsets), np.int64)
        wrong = expand(codes, offsets, self._symbols, self._lengths, out_offsets, out)
        if wrong >= 0:
            raise self._place.corrupt(f"value {wrong} is not valid FSST")
        return out_offsets, out[: int(out_offsets[-1])]

"""Constant pages: everything null, or one value over and over (spec encodings.md 5).

::

    inline value, or no buffers at all      0 buffers, or [rep, def]
    scalar too big to inline                [scalar] or [scalar, rep, def]
    scalar buffer                           u32 n; u32 length of each; n Arrow buffers of a length-1 array
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import MAX_IMPLICIT_BYTES, bit_width
from lancelet.encoding.fetch import gather
from lancelet.encoding.kernels import levels as levels_kernel
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Ranges, Rows
from lancelet.encoding.v2_1.codecs import decode_block
from lancelet.encoding.v2_1.levels import LIST, Entries, Levels, PageLevels
from lancelet.encoding.v2_1.pages import PageContext, PageRows, select_rows
from lancelet.encoding.v2_1.values import Fixed, Variable, to_arrow
from lancelet.format.proto import encodings21_pb2 as pb

_MAX_BYTES = 2**31 - 1


class ConstantPage:
    """Decoder of one constant page."""

    __slots__ = ("_context", "_hollow", "_layout", "_scalar", "_shape")

    def __init__(self, layout: pb.ConstantLayout, context: PageContext) -> None:
        self._layout = layout
        self._context = context
        # A struct without fields has one layer whatever is around it, and says nothing of what is around it.
        self._hollow = pa.types.is_struct(context.dtype) and context.dtype.num_fields == 0 and LIST not in context.kinds
        self._shape = PageLevels.of(layout.layers, context.kinds[:1] if self._hollow else context.kinds, context.place)
        if len(context.sizes) > 3:
            raise context.place.corrupt(f"a constant page of {len(context.sizes)} buffers")
        self._scalar = not layout.HasField("inline_value") and len(context.sizes) in (1, 3)

    @property
    def nbytes(self) -> int:
        return 0

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        context, layout = self._context, self._layout
        raw: Bytes | None = None
        buffers = yield from gather([context.buffer(index) for index in range(len(context.sizes))])
        if self._scalar:
            raw = buffers[0]
        if len(context.sizes) < 2:
            # Without levels all rows are alike, and null unless there is a value.
            null = raw is None and not layout.HasField("inline_value")
            check_memory(len(rows) * 2, context.place)
            defs = np.ones(len(rows), np.uint16) if null and self._shape.has_definition and not self._hollow else None
            defs = self._shape.common(defs, context.place)
            return PageRows(Entries(len(rows), None, defs), self._repeat(raw, len(rows)))
        reps = self._levels(buffers[-2], "rep_compression", layout.num_rep_values)
        defs = self._levels(buffers[-1], "def_compression", layout.num_def_values)
        entries = self._count(reps, defs)
        visible = entries if defs is None else levels_kernel.count_visible(defs, self._shape.max_visible)
        # Only their number matters.
        values = pa.Array.from_buffers(pa.null(), visible, [None])
        part = select_rows(reps, defs, values, rows, self._shape, context)
        return PageRows(part.entries, self._repeat(raw, len(part.values)))

    def _levels(self, data: Bytes, codec: str, recorded: int) -> Levels | None:
        context, place = self._context, self._context.place
        if self._layout.HasField(codec):
            if recorded > context.rows + 2**32 or recorded > (len(data) + 1) * 2**16:
                raise place.corrupt(f"{recorded} levels in {len(data)} bytes")
            if recorded == 0:
                return None
            block = decode_block(getattr(self._layout, codec), data, int(recorded), place)
            if not isinstance(block, Fixed) or block.bits != 16:
                raise place.corrupt("levels that are not 16-bit numbers")
            return np.frombuffer(block.data, np.uint16)
        if len(data) % 2:
            raise place.corrupt("levels that are not 16-bit numbers")
        return np.frombuffer(data, "<u2") if len(data) else None

    def _count(self, reps: Levels | None, defs: Levels | None) -> int:
        found = {len(levels) for levels in (reps, defs) if levels is not None}
        if len(found) > 1 or (reps is None and found - {self._context.rows}):
            raise self._context.place.corrupt("repetition levels, definition levels and rows differ in number")
        return found.pop() if found else self._context.rows

    def _repeat(self, raw: Bytes | None, count: int) -> pa.Array:
        """``count`` times the value; zeros where there is none."""
        context, place, dtype = self._context, self._context.place, self._context.dtype
        if raw is not None:
            parts = _scalar_buffers(raw, place)
            if len(parts) == 2:
                return _repeat_text(parts[1], count, context)
            if len(parts) != 1:
                raise place.corrupt(f"a constant of {len(parts)} buffers")
            value = parts[0].tobytes()
        elif self._layout.HasField("inline_value"):
            value = self._layout.inline_value
        else:
            check_memory(count * max(bit_width(dtype), 8) // 8, place)
            return zero_slots(dtype, count)
        check_memory(count * len(value), place)
        if pa.types.is_boolean(dtype):
            bits = 0xFF if value and value[0] & 1 else 0
            return pa.Array.from_buffers(dtype, count, [None, pa.py_buffer(bytes([bits]) * ((count + 7) // 8))], 0)
        if bit_width(dtype) != len(value) * 8:
            raise place.corrupt(f"a constant of {len(value)} bytes in a column of {dtype}")
        return to_arrow(Fixed(np.tile(np.frombuffer(value, np.uint8), count), len(value) * 8, count), dtype, place)


def zero_slots(dtype: pa.DataType, count: int) -> pa.Array:
    """Slots for nulls."""
    if pa.types.is_struct(dtype) and dtype.num_fields == 0:
        return pa.Array.from_buffers(dtype, count, [None], 0)
    return pa.nulls(count, dtype)


def check_memory(size: int, place: Place) -> None:
    """The values of a constant page have no bytes of their own in the file that would bound them."""
    if size > MAX_IMPLICIT_BYTES:
        raise place.too_large(f"{size} bytes of one repeated value")


def _repeat_text(value: Bytes, count: int, context: PageContext) -> pa.Array:
    check_memory(len(value) * count + 8 * count, context.place)
    if len(value) * count > _MAX_BYTES and context.dtype in (pa.string(), pa.binary()):
        raise context.place.too_large(f"{count} times a constant of {len(value)} bytes")
    offsets = np.arange(count + 1, dtype=np.int64) * len(value)
    return to_arrow(Variable(offsets, np.tile(value, count)), context.dtype, context.place)


def _scalar_buffers(raw: Bytes, place: Place) -> list[Bytes]:
    if len(raw) < 4:
        raise place.corrupt("a constant without header")
    count = int.from_bytes(raw[:4].tobytes(), "little")
    if count > 8 or len(raw) < 4 + 4 * count:
        raise place.corrupt(f"a constant of {count} buffers in {len(raw)} bytes")
    sizes = np.frombuffer(raw[4 : 4 + 4 * count], "<u4").astype(np.int64)
    ends = 4 + 4 * count + np.cumsum(sizes)
    if count and ends[-1] > len(raw):
        raise place.corrupt("a constant longer than its buffer")
    return [raw[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]

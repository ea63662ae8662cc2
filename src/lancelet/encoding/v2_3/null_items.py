"""Zipped fixed-size lists whose items are all null: only their validity is stored.

::

    record   for each list level with item validity, outermost first: one bit an item, padded to bytes
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Ranges, Rows
from lancelet.encoding.v2_1.fullzip import FullZipPage
from lancelet.encoding.v2_1.levels import LIST
from lancelet.encoding.v2_1.pages import PageContext, PageRows
from lancelet.format.proto import encodings21_pb2 as pb

_MAX_ITEMS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Level:
    size: int
    items: int
    """Items of this level in one record."""
    has_validity: bool


class NullItemsPage:
    """Decoder of a full-zip page of such lists: reads records of bits, and makes lists of them."""

    __slots__ = ("_context", "_levels", "_records")

    def __init__(self, layout: pb.FullZipLayout, context: PageContext) -> None:
        place = context.place
        self._context = context
        self._levels = _levels_of(layout.value_compression.fixed_size_list, place)
        size = sum((level.items + 7) // 8 for level in self._levels if level.has_validity)
        if layout.bits_per_value != size * 8 or not self._levels[-1].has_validity:
            raise place.corrupt(f"validity of {size} bytes in records of {layout.bits_per_value} bits")
        plain = pb.FullZipLayout()
        plain.CopyFrom(layout)
        plain.value_compression.flat.bits_per_value = size * 8
        self._records = FullZipPage(plain, replace(context, dtype=pa.binary(size)))

    @property
    def nbytes(self) -> int:
        return self._records.nbytes

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        part = yield from self._records.read(rows)
        count = len(part.values)
        width = part.values.type.byte_width
        start = part.values.offset * width
        raw = np.frombuffer(part.values.buffers()[1] or b"", np.uint8)[start : start + count * width]
        bits = _split(raw.reshape(count, width), self._levels)
        innermost = bits[-1]
        assert innermost is not None
        defs = part.entries.defs
        if defs is not None:
            kinds = self._context.kinds
            visible = defs[defs <= (kinds.index(LIST) if LIST in kinds else len(kinds))]
            innermost = innermost[visible == 0]
        if innermost.any():
            raise self._context.place.corrupt("a list item that is neither null nor stored")
        return PageRows(part.entries, _lists(self._context.dtype, count, self._levels, bits, self._context.place))


def _levels_of(codec: pb.FixedSizeList, place: Place) -> tuple[_Level, ...]:
    levels, items = [], 1
    while True:
        items *= int(codec.items_per_value)
        if not 1 <= items <= _MAX_ITEMS:
            raise place.corrupt(f"lists of {items} items")
        levels.append(_Level(int(codec.items_per_value), items, codec.has_validity))
        if codec.values.WhichOneof("compression") != "fixed_size_list":
            break
        codec = codec.values.fixed_size_list
    if codec.values.constant.HasField("value"):
        raise place.unsupported("zipped lists of one repeated item are not known")
    return tuple(levels)


def _split(records: Bytes, levels: Sequence[_Level]) -> list[Bytes | None]:
    """One row of bits for each record and level with validity."""
    bits: list[Bytes | None] = []
    at = 0
    for level in levels:
        if not level.has_validity:
            bits.append(None)
            continue
        size = (level.items + 7) // 8
        piece = np.ascontiguousarray(records[:, at : at + size])
        bits.append(np.unpackbits(piece, axis=1, count=level.items, bitorder="little"))
        at += size
    return bits


def _lists(
    dtype: pa.DataType, count: int, levels: Sequence[_Level], bits: Sequence[Bytes | None], place: Place
) -> pa.Array:
    """Lists without validity of their own, down to null items."""
    if not pa.types.is_fixed_size_list(dtype) or dtype.list_size != levels[0].size:
        raise place.corrupt(f"lists of {levels[0].size} items in a column of {dtype}")
    if len(levels) == 1:
        items = pa.nulls(count * levels[0].size, dtype.value_type)
    else:
        items = _lists(dtype.value_type, count * levels[0].size, levels[1:], bits[1:], place)
        own = bits[0]
        if own is not None:
            validity = pa.py_buffer(np.packbits(own.reshape(-1), bitorder="little"))
            children = [items.values]
            items = pa.Array.from_buffers(items.type, len(items), [validity], -1, children=children)
    return pa.Array.from_buffers(dtype, count, [None], 0, children=[items])

"""Constant pages: nothing but nulls, or one value over and over (spec encodings.md 5)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.encode.levels import encode_level_block
from lancelet.encoding.v2_1.encode.messages import EncodedPage
from lancelet.encoding.v2_1.encode.shred import Shredded
from lancelet.encoding.v2_1.encode.values import Strings, Words
from lancelet.encoding.v2_1.levels import Levels
from lancelet.format.file_versions import V2_1
from lancelet.format.proto import encodings21_pb2 as pb

INLINE_BYTES = 32
FEW_ENTRIES = 64
"""Levels of a constant page are not compressed: beyond this many entries other layouts are smaller."""
_EMPTY = np.empty(0, np.uint8)


def null_page(page: Shredded, version: str) -> EncodedPage:
    """A page without a single valid value."""
    leaf = page.leaf
    if pa.types.is_struct(page.values.type) and page.reps is None:
        # A struct without fields: its column says no more than how many rows there are.
        layout = pb.ConstantLayout(layers=[pb.REPDEF_NULLABLE_ITEM])
        return _page(page, layout, ())
    layout = pb.ConstantLayout(layers=page.layers)
    if len(leaf.nodes) == 1:
        return _page(page, layout, ())
    reps, defs = _raw(page.reps), _raw(page.defs)
    if version != V2_1:
        if page.reps is not None:
            codec, reps = encode_level_block(page.reps, version)
            layout.rep_compression.CopyFrom(codec)
            layout.num_rep_values = page.entries
        if page.defs is not None:
            codec, defs = encode_level_block(page.defs, version)
            layout.def_compression.CopyFrom(codec)
            layout.num_def_values = page.entries
    return _page(page, layout, (reps, defs))


def scalar_page(page: Shredded, value: bytes | tuple[bytes, ...]) -> EncodedPage:
    """A page of one value: small ones lie in the layout, others in a buffer of their own."""
    layout = pb.ConstantLayout(layers=page.layers)
    buffers: list[Bytes] = []
    if isinstance(value, bytes):
        layout.inline_value = value
    else:
        head = struct.pack(f"<I{len(value)}I", len(value), *map(len, value))
        buffers.append(np.frombuffer(head + b"".join(value), np.uint8))
    if page.reps is not None or page.defs is not None:
        buffers += [_raw(page.reps), _raw(page.defs)]
    return _page(page, layout, buffers)


def scalar_of(values: Words | Strings, index: int) -> bytes | tuple[bytes, ...]:
    """The value at ``index`` as a constant page holds it."""
    if isinstance(values, Strings):
        start, stop = int(values.offsets[index]), int(values.offsets[index + 1])
        offsets = np.array([0, stop - start], np.int64 if values.wide else np.int32).tobytes()
        return offsets, values.data[start:stop].tobytes()
    if values.bits == 1:
        return bytes([values.data[index // 8] >> (index % 8) & 1])
    size = values.bits // 8
    value = values.data[index * size : (index + 1) * size].tobytes()
    return value if size <= INLINE_BYTES else (value,)


def _raw(levels: Levels | None) -> Bytes:
    return _EMPTY if levels is None else levels.view(np.uint8)


def _page(page: Shredded, layout: pb.ConstantLayout, buffers: Sequence[Bytes]) -> EncodedPage:
    pieces = tuple((buffer,) for buffer in buffers)
    return EncodedPage(page.length, page.rows, pb.PageLayout(constant_layout=layout), pieces)

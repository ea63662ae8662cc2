"""Small columns in one step: most of what a table of few rows costs is deciding, not encoding.

``kernels/small_encode.pyx`` makes the bytes; the layouts that go with them are few, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from lancelet.encoding.kernels import small_encode as kernel
from lancelet.encoding.v2_1.encode.messages import Codec, EncodedPage, described, flat, inline, runs, variable
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.shred import Leaf
from lancelet.format.file_versions import V2_1
from lancelet.format.proto import encodings21_pb2 as pb

WORDS: Final[Mapping[int, int]] = {
    kind.id: kind.bit_width
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us"), pa.duration("us")),
    )
}
"""Bits of plain values, by the number of their type."""
_STRINGS = {pa.string().id: 4, pa.binary().id: 4, pa.large_string().id: 8, pa.large_binary().id: 8}
_LEVEL_BITS = 16
_VALID, _NULLABLE = pb.REPDEF_ALL_VALID_ITEM, pb.REPDEF_NULLABLE_ITEM
_KEPT_LAYOUTS = 256
_KINDS = {kernel.FLAT: flat, kernel.INLINE: inline, kernel.RUNS: runs, kernel.VARIABLE: variable}


def encode_small(array: pa.Array, leaf: Leaf, options: EncodeOptions) -> EncodedPage | None:
    """The page of a short column of plain values; None when it takes more than one chunk, or another kind of page."""
    count = len(array)
    if not 0 < count <= kernel.LARGEST or len(leaf.nodes) > 1 or not options.is_plain:
        return None
    dtype, field = array.type, leaf.field
    bits, word = WORDS.get(dtype.id), _STRINGS.get(dtype.id)
    if (bits is None and word is None) or field.is_json or dtype != field.arrow_type:
        return None
    nulls = array.null_count
    if nulls and not field.nullable:
        return None
    validity, data, *text = array.buffers()
    known = validity if nulls else None
    large = options.version != V2_1
    if bits is not None:
        made = kernel.encode_words(data, bits, array.offset, count, known, large)
    else:
        made = kernel.encode_strings(data, text[0], word or 0, array.offset, count, known, large)
    if made is None:
        return None
    values, levels, chunk_word, chunk = made
    if values in (kernel.ONE_VALUE, kernel.NULLS):
        constant = pb.ConstantLayout(layers=[_NULLABLE if values == kernel.NULLS else _VALID])
        if chunk_word:
            constant.inline_value = chunk_word
        pieces = ((np.frombuffer(chunk, np.uint8),),) if chunk else ()
        return EncodedPage(count, count, pb.PageLayout(constant_layout=constant), pieces)
    layout, shown = _layout(values, bits or (word or 0) * 8, levels, count, large)
    buffers = ((np.frombuffer(chunk_word, np.uint8),), (np.frombuffer(chunk, np.uint8),))
    return EncodedPage(count, count, layout, buffers, described=shown)


@lru_cache(maxsize=_KEPT_LAYOUTS)
def _layout(values: int, bits: int, levels: int, count: int, large: bool) -> tuple[pb.PageLayout, bytes]:
    """A layout, and how a file has it."""
    nullable = levels != kernel.NO_LEVELS
    codec: Codec = _KINDS[values](bits)
    layout = pb.MiniBlockLayout(
        value_compression=codec,
        layers=[_NULLABLE if nullable else _VALID],
        num_buffers=2 if values == kernel.RUNS else 1,
        num_items=count,
        has_large_chunk=large,
    )
    if nullable:
        layout.def_compression.CopyFrom(_KINDS[levels](_LEVEL_BITS))
    page = pb.PageLayout(mini_block_layout=layout)
    return page, described(EncodedPage(count, count, page, ()))

"""Mini-block pages put together from encoded values and levels (spec encodings.md 3).

::

    buffer 0   one word a chunk: (bytes / 8 - 1) << 4 | log2 of its items, 0 for the last
    buffer 1   chunks: header, rep, def, value buffers, each padded to 8 bytes
    buffer 2   dictionary, if any
    last       repetition index, if there are lists: rows that end in a chunk, entries after the last end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lancelet.encoding.kernels import pack
from lancelet.encoding.kernels import shred as kernel
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.encode.levels import encode_levels
from lancelet.encoding.v2_1.encode.messages import Codec, EncodedPage
from lancelet.encoding.v2_1.encode.shred import Shredded
from lancelet.encoding.v2_1.levels import Levels
from lancelet.format.file_versions import V2_1
from lancelet.format.proto import encodings21_pb2 as pb

_NO_BOUNDS = np.empty(0, np.int64)
LARGEST = 4096
"""Most items of a chunk."""
CHUNK_LIMIT = 8186
"""Fewer bytes of values than this go into a chunk of fixed-width values."""
SMALL_CHUNK = 32 << 10
"""The most bytes that a chunk of 2.1 can have."""
LARGE_CHUNK = 1 << 31
"""The most bytes that a later one can have: its word has 28 bits for their eighth."""


@dataclass(frozen=True, slots=True)
class Part:
    """One buffer of every chunk, back to back."""

    data: Bytes
    sizes: Indices


@dataclass(frozen=True, slots=True)
class Chunked:
    """Values of a page, cut into chunks and encoded."""

    codec: Codec
    counts: Indices
    """Items a chunk: powers of two, but for the last."""
    parts: tuple[Part, ...]

    @property
    def nbytes(self) -> int:
        return sum(int(part.sizes.sum()) for part in self.parts)


@dataclass(frozen=True, slots=True)
class EncodedDictionary:
    """The items of a page, each once."""

    codec: Codec
    count: int
    data: Bytes


def even_counts(total: int, each: int) -> Indices:
    """As many chunks of ``each`` items as it takes; the last has what is left."""
    counts = np.full(max(-(-total // each), 1), each, np.int64)
    counts[-1] = total - each * (len(counts) - 1)
    return counts


def bounds_of(counts: Indices) -> Indices:
    bounds: Indices = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    return bounds


def mini_block_page(
    page: Shredded, chunked: Chunked, dictionary: EncodedDictionary | None, version: str
) -> EncodedPage | None:
    """The whole page; None when a chunk came out larger than the version can say."""
    large = version != V2_1
    counts = chunked.counts
    if page.defs is None and page.reps is None:
        bounds = _NO_BOUNDS
    elif page.defs is not None and page.entries != len(page.values):
        bounds = np.empty(len(counts) + 1, np.int64)
        kernel.entry_bounds(page.defs, page.max_visible, counts, bounds)
    else:
        bounds = bounds_of(counts)
    described = pb.PageLayout()
    layout = described.mini_block_layout
    layout.value_compression.CopyFrom(chunked.codec)
    layout.layers.extend(page.layers)
    layout.num_buffers = len(chunked.parts)
    layout.num_items = len(page.values)
    layout.has_large_chunk = large
    level_parts = _level_parts(layout, page, bounds, version)
    parts = [*level_parts, *chunked.parts]
    sizes = [part.sizes for part in parts]
    total = pack.chunk_bytes(sizes, len(counts), len(level_parts), large, LARGE_CHUNK if large else SMALL_CHUNK)
    if total < 0:
        return None
    out = np.empty(total, np.uint8)
    words = np.empty(len(counts) * (4 if large else 2), np.uint8)
    pack.assemble([part.data for part in parts], sizes, counts, bounds, len(level_parts), large, words, out)
    buffers: list[Bytes] = [words, out]
    if dictionary is not None:
        layout.dictionary.CopyFrom(dictionary.codec)
        layout.num_dictionary_items = dictionary.count
        buffers.append(dictionary.data)
    if page.reps is not None:
        layout.repetition_index_depth = 1
        index = np.empty((len(counts), 2), np.int64)
        kernel.repetition_index(page.reps, page.leaf.lists, bounds, index)
        buffers.append(index.reshape(-1).view(np.uint8))
    pieces = tuple((buffer,) for buffer in buffers)
    return EncodedPage(page.length, page.rows, described, pieces)


def _level_parts(layout: pb.MiniBlockLayout, page: Shredded, bounds: Indices, version: str) -> list[Part]:
    parts = []
    streams: Sequence[tuple[Levels | None, Codec]] = (
        (page.reps, layout.rep_compression),
        (page.defs, layout.def_compression),
    )
    for levels, message in streams:
        if levels is not None:
            codec, data, sizes = encode_levels(levels, bounds, version)
            message.CopyFrom(codec)
            parts.append(Part(data, sizes))
    return parts

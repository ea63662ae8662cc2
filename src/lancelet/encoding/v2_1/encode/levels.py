"""Level streams as blocks of 16-bit words, one block a chunk (spec encodings.md 3.3 and 9.2).

One codec serves all chunks of a page: whichever comes out smallest.
"""

from __future__ import annotations

import numpy as np

from lancelet.encoding.kernels import pack
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.encode.messages import Codec, flat, inline, out_of_line, runs
from lancelet.encoding.v2_1.levels import Levels
from lancelet.format.file_versions import V2_1

BITS = 16
_LIMIT = 65535
"""A block's size has to fit into 16 bits."""


def encode_levels(levels: Levels, bounds: Indices, version: str) -> tuple[Codec, Bytes, Indices]:
    """The levels of all chunks: codec, bytes back to back, size of each chunk's block."""
    raw = levels.view(np.uint8)
    counts = np.diff(bounds)
    width = int(levels.max()).bit_length() if len(levels) else 0
    best_sizes = counts * 2
    best, total = "flat", len(raw)
    packed = np.empty(len(counts), np.int64)
    if len(levels) <= pack.BLOCK:
        packed[:] = 2 + 128 * width
        kind = "inline"
    else:
        pack.blocks_sizes(BITS, width, bounds, packed)
        kind = "blocks"
    if int(packed.sum()) < total and int(packed.max()) <= _LIMIT:
        best, best_sizes, total = kind, packed, int(packed.sum())
    run_counts = np.empty(len(counts), np.int64)
    if version != V2_1 and 8 * len(counts) + 3 * _fewest_runs(levels) < total:
        pack.count_runs(levels, bounds, run_counts)
        sizes = 8 + 3 * run_counts
        if int(sizes.sum()) < total and int(sizes.max()) <= _LIMIT:
            best, best_sizes, total = "runs", sizes, int(sizes.sum())
    out = raw if best == "flat" else np.empty(total, np.uint8)
    match best:
        case "inline":
            widths = np.full(len(counts), width, np.uint8)
            pack.pack_inline(raw, BITS, bounds, widths, out, np.empty(len(counts), np.int64))
            return inline(BITS), out, best_sizes
        case "blocks":
            pack.pack_blocks(raw, BITS, bounds, width, out)
            return out_of_line(BITS, width), out, best_sizes
        case "runs":
            pack.run_blocks(levels, bounds, run_counts, out)
            return runs(BITS), out, best_sizes
    return flat(BITS), out, best_sizes


def _fewest_runs(levels: Levels) -> int:
    """Runs of the whole stream; chunks only add to them."""
    widths = np.empty(len(levels) // pack.BLOCK + 1, np.uint8)
    return max(pack.survey(levels.view(np.uint8), BITS, len(levels), widths), len(levels) // 255)


def encode_level_block(levels: Levels, version: str) -> tuple[Codec, Bytes]:
    """One stream as a single block, as constant pages have it."""
    width = int(levels.max()).bit_length() if len(levels) else 0
    bounds = np.array([0, len(levels)], np.int64)
    packed = np.empty(1, np.int64)
    pack.blocks_sizes(BITS, width, bounds, packed)
    raw = levels.view(np.uint8)
    if len(levels) > pack.BLOCK and packed[0] < len(raw):
        out = np.empty(int(packed[0]), np.uint8)
        pack.pack_blocks(raw, BITS, bounds, width, out)
        return out_of_line(BITS, width), out
    return flat(BITS), raw

"""Fixed-width values in chunks: plain, bit-packed, runs, byte streams (spec encodings.md 6 and 9.2).

One pass over the page's words measures the width of every block of 1024 and counts the runs; the codec with the
fewest bytes wins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lancelet.encoding.kernels import pack
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.encode.chunks import CHUNK_LIMIT, LARGEST, Chunked, Part, bounds_of, even_counts
from lancelet.encoding.v2_1.encode.general import compress_chunks
from lancelet.encoding.v2_1.encode.messages import byte_streams, fixed_list, flat, inline, runs
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.values import Lists, Validity, Words

WORD_BITS = (8, 16, 32, 64)
_ENTROPY_LIMIT = 4.0
_SAMPLE = 1024


@dataclass(frozen=True, slots=True)
class Survey:
    """What the words of a page are like."""

    widths: Bytes
    """Bits that each block of 1024 words needs."""
    runs: int

    @classmethod
    def of(cls, words: Words) -> Survey:
        widths = np.zeros(max(-(-words.count // pack.BLOCK), 1), np.uint8)
        return cls(widths, pack.survey(words.data, words.bits, words.count, widths))

    def packed_bytes(self, bits: int) -> int:
        return len(self.widths) * (bits // 8) + 128 * int(self.widths.sum(dtype=np.int64))

    def run_bytes(self, words: Words) -> int:
        """At most: runs end at 255 words and at chunks."""
        return (self.runs + words.count // 255 + words.count // LARGEST) * (words.bits // 8 + 1)


def items_per_chunk(bits: int) -> int:
    """The largest power of two of values that stay below a chunk's limit."""
    items = LARGEST
    while items > 2 and items * bits // 8 >= CHUNK_LIMIT:
        items //= 2
    return items


def encode_words(words: Words, survey: Survey | None, options: EncodeOptions) -> Chunked:
    """The values of a page under the codec that suits them."""
    chunked = _chosen(words, survey, options)
    return compress_chunks(chunked, options) if options.general else chunked


def _chosen(words: Words, survey: Survey | None, options: EncodeOptions) -> Chunked:
    if survey is None or options.compression == "none" or words.count == 0:
        return _flat(words)
    if words.bits in (32, 64) and _splits(words, options):
        return _streams(words)
    raw, packed, run = words.nbytes, survey.packed_bytes(words.bits), survey.run_bytes(words)
    threshold = options.rle_threshold
    if run < min(raw, packed) and (threshold is None or survey.runs < threshold * words.count):
        return _runs(words)
    return _inline(words, survey) if packed < raw else _flat(words)


def _flat(words: Words) -> Chunked:
    counts = even_counts(words.count, items_per_chunk(words.bits))
    return Chunked(flat(words.bits), counts, (_plain(words.data, counts * words.bits),))


def _plain(data: Bytes, bits: Indices) -> Part:
    """Chunks of whole bytes, as they lie; only the last may end within a byte."""
    return Part(data, (bits + 7) // 8)


def _inline(words: Words, survey: Survey) -> Chunked:
    counts = even_counts(words.count, pack.BLOCK)
    out = np.empty(survey.packed_bytes(words.bits), np.uint8)
    sizes = np.empty(len(counts), np.int64)
    pack.pack_inline(words.data, words.bits, bounds_of(counts), survey.widths, out, sizes)
    return Chunked(inline(words.bits), counts, (Part(out, sizes),))


def _runs(words: Words) -> Chunked:
    view = words.data.view(f"<u{words.bits // 8}")
    values, lengths = np.empty(words.count, view.dtype), np.empty(words.count, np.uint8)
    counts, found = np.empty(words.count // 2 + 1, np.int64), np.empty(words.count // 2 + 1, np.int64)
    chunks = pack.encode_runs(view, LARGEST, CHUNK_LIMIT, values, lengths, counts, found)
    counts, found = counts[:chunks].copy(), found[:chunks].copy()
    heads = Part(values.view(np.uint8), found * (words.bits // 8))
    return Chunked(runs(words.bits), counts, (heads, Part(lengths, found)))


def _streams(words: Words) -> Chunked:
    item = words.bits // 8
    counts = even_counts(words.count, 4096 // item)
    out = np.empty(words.nbytes, np.uint8)
    pack.split_streams(words.data, item, bounds_of(counts), out)
    return Chunked(byte_streams(words.bits), counts, (Part(out, counts * item),))


def _splits(words: Words, options: EncodeOptions) -> bool:
    """Whether the bytes of the values do better apart: only worth it under a general compression."""
    if options.general is None or options.bss == "off":
        return False
    if options.bss == "on":
        return True
    item = words.bits // 8
    step = max(words.count // _SAMPLE, 1)
    rows = words.data.reshape(-1, item)[::step]
    entropies = []
    for column in range(item):
        shares = np.bincount(rows[:, column], minlength=256) / len(rows)
        shares = shares[shares > 0]
        entropies.append(float(-(shares * np.log2(shares)).sum()))
    return sum(entropies) / item < _ENTROPY_LIMIT


def encode_lists(lists: Lists, options: EncodeOptions) -> Chunked:
    """Fixed-size lists: the validity of each level that has nulls, then the flattened items."""
    levels, items = unnest(lists)
    sizes = np.cumprod([size for size, _ in levels])
    record = int(sizes[-1]) * items.bits + sum(
        int(size) for size, (_, validity) in zip(sizes, levels, strict=True) if validity is not None
    )
    counts = even_counts(lists.count, items_per_chunk(record))
    parts = [
        _bit_part(np.packbits(validity, bitorder="little"), counts * int(size))
        for size, (_, validity) in zip(sizes, levels, strict=True)
        if validity is not None
    ]
    bits = counts * int(sizes[-1]) * items.bits
    parts.append(_bit_part(items.data, bits) if items.bits == 1 else _plain(items.data, bits))
    codec = flat(items.bits)
    for size, validity in reversed(levels):
        codec = fixed_list(size, codec, validity is not None)
    chunked = Chunked(codec, counts, tuple(parts))
    return compress_chunks(chunked, options) if options.general and len(parts) == 1 else chunked


def unnest(lists: Lists) -> tuple[list[tuple[int, Validity]], Words]:
    """Size and item validity of each level of nesting, outermost first, and the innermost items."""
    levels: list[tuple[int, Validity]] = []
    inner: Words | Lists = lists
    while isinstance(inner, Lists):
        levels.append((inner.size, inner.validity))
        inner = inner.items
    return levels, inner


def _bit_part(bitmap: Bytes, counts: Indices) -> Part:
    """A bitmap in chunks that each start at a byte."""
    sizes = (counts + 7) // 8
    if not (counts[:-1] % 8).any():
        return Part(bitmap, sizes)
    out = np.empty(int(sizes.sum()), np.uint8)
    pack.slice_bits(bitmap, 0, counts, out)
    return Part(out, sizes)

"""Dictionaries of pages: when they pay, and how their items are stored (spec encodings.md 7.1 and 9.2).

A sample tells most columns apart before anything is hashed; then distinct values are
numbered until there are more than could pay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lancelet.encoding.kernels import pack
from lancelet.encoding.kernels import strings as kernel
from lancelet.encoding.kernels.fullzip import gather_slices
from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.encode.chunks import Chunked, EncodedDictionary
from lancelet.encoding.v2_1.encode.general import LZ4_LIMIT, compressor
from lancelet.encoding.v2_1.encode.messages import Codec, flat, general, inline, out_of_line, variable
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.values import Strings, Words, leaf_values
from lancelet.encoding.v2_1.encode.words import Survey, encode_words
from lancelet.errors import NotSupported
from lancelet.format.file_versions import V2_1

INDEX_BITS = 32
_FEWEST = 100
_MOST_ITEMS = 100_000
_SAMPLE_BLOCKS = 32
_SAMPLE_BLOCK = 128
_SAMPLED = _SAMPLE_BLOCKS * _SAMPLE_BLOCK
_LONG = 200
"""Of values with more bytes than this on average a smaller sample has to do."""
_UNIQUE_SHARE = 0.98
_CLEARLY = 0.95
"""A dictionary has to save at least a twentieth: looking items up costs readers time."""


def dictionary_of_words(
    words: Words, survey: Survey | None, options: EncodeOptions
) -> tuple[Chunked, EncodedDictionary] | None:
    """Indices and items of fixed-width values; None when they are smaller without."""
    item = words.bits // 8
    wanted = (16,) if options.version == V2_1 else (8, 16)
    if item not in wanted or words.count < _FEWEST:
        return None
    rival = words.nbytes
    if survey is not None:
        rival = min(rival, survey.packed_bytes(words.bits), survey.run_bytes(words))
    seen = _sampled_words(words)
    runs = words.count if survey is None else survey.runs
    if seen > _UNIQUE_SHARE * min(words.count, _SAMPLED):
        return None
    if _with_indices(seen * item, seen, words.count, runs) >= _CLEARLY * rival:
        return None
    cap = min(words.count // options.dict_divisor, _MOST_ITEMS, rival // item)
    if words.count > _SAMPLED and _expected(seen, _SAMPLED) > cap:
        return None
    indices, firsts = np.empty(words.count, np.uint32), np.empty(max(cap, 1), np.int64)
    found = kernel.distinct_words(words.data, item, cap, _table(cap), indices, firsts)
    if found <= 0:
        return None
    size = _with_indices(found * item, found, words.count, runs)
    if size >= _CLEARLY * rival or size > options.dict_size_ratio * words.nbytes:
        return None
    items = np.ascontiguousarray(words.data.reshape(-1, item)[firsts[:found]]).reshape(-1)
    return _indices(indices, options), encode_items(Words(items, words.bits, found), options)


def distinct_strings(strings: Strings, options: EncodeOptions) -> tuple[int, Words, Strings] | None:
    """Expected bytes, indices and items of a dictionary of strings; None when it cannot pay."""
    count = strings.count
    if count < _FEWEST:
        return None
    raw = strings.nbytes + strings.word * count
    seen = 0
    block = _SAMPLE_BLOCK if strings.nbytes < _LONG * count else _SAMPLE_BLOCK // 8
    sampled = min(count, _SAMPLE_BLOCKS * block)
    if count >= 1024:
        starts = np.linspace(0, count - min(block, count), _SAMPLE_BLOCKS).astype(np.int64)
        indices, firsts = np.empty(_SAMPLE_BLOCKS * block, np.uint32), np.empty(sampled + 1, np.int64)
        seen = kernel.distinct(strings.offsets, strings.data, starts, block, sampled, _table(sampled), indices, firsts)
        if block < _SAMPLE_BLOCK:
            # Nulls are empty. Beside long values they cost nothing, and say nothing about whether those repeat.
            sampled -= int(sampled * _empty_share(strings, starts, block))
        if seen > _UNIQUE_SHARE * sampled:
            return None
    cap = min(count // options.dict_divisor, _MOST_ITEMS)
    if count > sampled and _expected(seen, sampled) > cap:
        return None
    indices, firsts = np.empty(count, np.uint32), np.empty(max(cap, 1), np.int64)
    whole = np.zeros(1, np.int64)
    found = kernel.distinct(strings.offsets, strings.data, whole, count, cap, _table(cap), indices, firsts)
    if found <= 0:
        return None
    firsts = firsts[:found]
    starts = strings.offsets[firsts].astype(np.int64)
    lengths = strings.offsets[firsts + 1].astype(np.int64) - starts
    size = _with_indices(int(lengths.sum()) + strings.word * found, found, count, count)
    if size > options.dict_size_ratio * raw:
        return None
    offsets = np.zeros(found + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    gather_slices(strings.data, starts, lengths, 0, data)
    items = replace(strings, offsets=offsets, data=data)
    return size, Words(indices.view(np.uint8), INDEX_BITS, count), items


def encode_indices(indices: Words, options: EncodeOptions) -> Chunked:
    """Indices pack well by themselves; the compression that was asked for is the items' matter."""
    return encode_words(indices, Survey.of(indices), replace(options, compression=None, bss="off"))


def encode_items(items: Words | Strings, options: EncodeOptions) -> EncodedDictionary:
    """The items of a page as one block."""
    if isinstance(items, Strings):
        plain: tuple[Codec, Bytes] = (variable(items.word * 8), _string_block(items))
        count = items.count
    else:
        plain = (flat(items.bits), items.data[: items.nbytes])
        count = items.count
    best = plain
    if options.version != V2_1:
        if isinstance(items, Words) and items.bits == 64:
            best = _packed(items) or plain
        scheme = options.dict_compression
        if scheme != "none" and len(plain[1]):
            scheme = "zstd" if len(plain[1]) > LZ4_LIMIT else scheme
            data = compressor(scheme, options.dict_level)(plain[1])
            if len(data) < len(best[1]):
                best = general(scheme, options.dict_level, plain[0]), np.frombuffer(data, np.uint8)
    return EncodedDictionary(best[0], count, best[1])


def items_of(array: pa.Array) -> Words | Strings:
    """The values of a dictionary column's dictionary."""
    values = leaf_values(array, None)
    if isinstance(values, Strings):
        return _rebased(values)
    if isinstance(values, Words) and values.bits % 8 == 0:
        return values
    raise NotSupported(
        f"Unsupported data type: a dictionary of {array.type}; Lance stores dictionaries of plain values"
    )


def _rebased(strings: Strings) -> Strings:
    start, stop = int(strings.offsets[0]), int(strings.offsets[-1])
    return replace(strings, offsets=strings.offsets - start, data=strings.data[start:stop])


def _string_block(strings: Strings) -> Bytes:
    """Offset width, start of the bytes, offsets from 0, bytes (spec 6.2)."""
    dtype = np.dtype(f"<u{strings.word}")
    start = (2 + len(strings.offsets)) * strings.word
    head = np.concatenate((np.array([strings.word * 8, start]), strings.offsets)).astype(dtype)
    return np.concatenate((head.view(np.uint8), strings.data[: strings.nbytes]))


def _packed(items: Words) -> tuple[Codec, Bytes] | None:
    """64-bit items packed to the bits that the largest needs, when that is smaller."""
    survey = Survey.of(items)
    width = int(survey.widths.max())
    bounds, sizes = np.array([0, items.count], np.int64), np.empty(1, np.int64)
    if width >= items.bits:
        return None
    if items.count <= pack.BLOCK:
        out = np.empty(8 + 128 * width, np.uint8)
        if len(out) >= items.nbytes:
            return None
        pack.pack_inline(items.data, items.bits, bounds, survey.widths, out, sizes)
        return inline(items.bits), out
    pack.blocks_sizes(items.bits, width, bounds, sizes)
    out = np.empty(int(sizes[0]), np.uint8)
    pack.pack_blocks(items.data, items.bits, bounds, width, out)
    return out_of_line(items.bits, width), out


def _indices(indices: np.ndarray[tuple[int], np.dtype[np.uint32]], options: EncodeOptions) -> Chunked:
    return encode_indices(Words(indices.view(np.uint8), INDEX_BITS, len(indices)), options)


def _with_indices(items: int, distinct: int, count: int, runs: int) -> int:
    """Bytes of a dictionary page: its items, and indices that are packed or in runs."""
    return items + min(count * max(distinct - 1, 1).bit_length() // 8, runs * 5)


def _expected(seen: int, sampled: int) -> float:
    """Roughly how many distinct values there are when so many of a sample were: repeats grow rare as they are many."""
    return sampled * sampled / (2 * max(sampled - seen, 1)) if 2 * seen > sampled else float(seen)


def _empty_share(strings: Strings, starts: Indices, block: int) -> float:
    """How many of some blocks of values are empty."""
    bounds = strings.offsets[starts[:, None] + np.arange(block + 1)]
    return float(np.mean(bounds[:, 1:] == bounds[:, :-1]))


def _sampled_words(words: Words) -> int:
    """Distinct values among some of the words."""
    item = words.bits // 8
    data = words.data
    if words.count > _SAMPLED:
        starts = np.linspace(0, words.count - _SAMPLE_BLOCK, _SAMPLE_BLOCKS).astype(np.int64)
        chosen = (starts[:, None] + np.arange(_SAMPLE_BLOCK)).reshape(-1)
        data = data.reshape(-1, item)[chosen].reshape(-1)
    count = len(data) // item
    indices, firsts = np.empty(count, np.uint32), np.empty(count, np.int64)
    return kernel.distinct_words(data, item, count, _table(count), indices, firsts)


def _table(cap: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.empty(1 << (2 * cap + 1).bit_length(), np.int64)

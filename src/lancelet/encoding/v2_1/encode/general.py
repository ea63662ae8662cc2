"""General compression on request: LZ4 and zstd in the framing of the format (spec encodings.md 6.9)::

lz4    u32 uncompressed length | one raw block
zstd   u64 uncompressed length | one frame

A frame of a few bytes, as zstd writes it: it does not try to make them fewer (RFC 8878, 3.1.1)::

    28 b5 2f fd | 20: one segment, whose length takes a byte | its length | u24 length << 3 | 1: the last block, raw | bytes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import Bytes, Indices
from lancelet.encoding.v2_1.encode.chunks import Chunked, Part
from lancelet.encoding.v2_1.encode.messages import general
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.values import Strings

LZ4_LIMIT = 0x7E000000
"""The most bytes that one LZ4 block can hold."""
_WORTHWHILE = 4096
_PREFIX = {"lz4": 4, "zstd": 8}
_ZSTD_LEVEL = 1
_RAW_FRAME = 6
"""As many bytes are never compressed by zstd, whatever they are."""
_FRAME_HEAD = 8 + 9
Compress: TypeAlias = Callable[[Bytes], bytes]
_Squeeze: TypeAlias = Callable[[memoryview], bytes]


def compressor(scheme: str, level: int | None) -> Compress:
    """Compresses one buffer after the other, each with its length before it; LZ4 has no levels. For one thread."""
    squeeze, prefix = _squeeze(scheme, level), _PREFIX[scheme]
    return lambda data: len(data).to_bytes(prefix, "little") + squeeze(data.data)


def _squeeze(scheme: str, level: int | None) -> _Squeeze:
    """Makes one block or frame after the other."""
    if scheme == "lz4":
        codec = pa.Codec("lz4_raw")
        return lambda data: bytes(codec.compress(pa.py_buffer(data), asbytes=True))
    # Keeps its context from one buffer to the next, which for small ones is half of the work; Arrow's codec does not.
    from zstandard import ZstdCompressor

    squeeze: _Squeeze = ZstdCompressor(level=_ZSTD_LEVEL if level is None else level).compress
    return squeeze


def compress_chunks(chunked: Chunked, options: EncodeOptions) -> Chunked:
    """The first buffer of every chunk compressed, if the page is the smaller for it."""
    scheme = options.general
    first = chunked.parts[0]
    raw = int(first.sizes.sum())
    if scheme is None or raw < _WORTHWHILE:
        return chunked
    data, sizes = _pieces(first.data, np.cumsum(first.sizes) - first.sizes, first.sizes, scheme, options.level)
    if len(data) >= raw:
        return chunked
    codec = general(scheme, options.level, chunked.codec)
    return replace(chunked, codec=codec, parts=(Part(data, sizes), *chunked.parts[1:]))


def compress_values(strings: Strings, level: int | None) -> Strings:
    """Every value as a zstd frame of its own."""
    starts, lengths = strings.offsets[:-1].astype(np.int64), np.diff(strings.offsets).astype(np.int64)
    data, sizes = _frames(strings.data, starts, lengths, level)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return replace(strings, offsets=offsets, data=data)


def _pieces(data: Bytes, starts: Indices, sizes: Indices, scheme: str, level: int | None) -> tuple[Bytes, Indices]:
    """Each piece by itself: the bytes of all back to back, and their sizes."""
    squeeze, prefix, view = _squeeze(scheme, level), _PREFIX[scheme], data.data
    stops = (starts + sizes).tolist()
    # Lengths and what they are of by turns: there may be as many pieces as values.
    both = [b""] * (2 * len(stops))
    both[::2] = sizes.astype(f"<u{prefix}").view(f"V{prefix}").tolist()
    both[1::2] = pieces = [squeeze(view[start:stop]) for start, stop in zip(starts.tolist(), stops, strict=True)]
    return np.frombuffer(b"".join(both), np.uint8), np.fromiter(map(len, pieces), np.int64, len(pieces)) + prefix


def _frames(data: Bytes, starts: Indices, sizes: Indices, level: int | None) -> tuple[Bytes, Indices]:
    """What :func:`_pieces` makes of values by zstd; those of a few bytes, mostly nearly all, are written together."""
    is_small = sizes <= _RAW_FRAME
    small, large = np.flatnonzero(is_small), np.flatnonzero(~is_small)
    others, other_sizes = _pieces(data, starts[large], sizes[large], "zstd", level)
    if not len(small):
        return others, other_sizes
    lengths = sizes + _FRAME_HEAD
    lengths[large] = other_sizes
    ends = np.cumsum(lengths)
    found = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    places, counts = (ends - lengths)[small], sizes[small].astype(np.uint8)
    head = np.zeros((len(small), _FRAME_HEAD), np.uint8)
    head[:, 8:13] = np.frombuffer(b"\x28\xb5\x2f\xfd\x20", np.uint8)
    head[:, 0] = head[:, 13] = counts
    head[:, 14] = counts << 3 | 1
    found[places[:, None] + np.arange(_FRAME_HEAD)] = head
    for at in range(_RAW_FRAME):
        longer = np.flatnonzero(counts > at)
        found[places[longer] + _FRAME_HEAD + at] = data[starts[small[longer]] + at]
    other_ends = np.cumsum(other_sizes)
    for place, start, stop in zip(
        (ends - lengths)[large].tolist(), (other_ends - other_sizes).tolist(), other_ends.tolist(), strict=True
    ):
        found[place : place + stop - start] = others[start:stop]
    return found, lengths

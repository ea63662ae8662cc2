"""General compression on request: LZ4 and zstd in the framing of the format (spec encodings.md 6.9)::

lz4    u32 uncompressed length | one raw block
zstd   u64 uncompressed length | one frame
"""

from __future__ import annotations

from dataclasses import replace

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
_CODECS = {"lz4": "lz4_raw", "zstd": "zstd"}


def compressor(scheme: str, level: int | None) -> pa.Codec:
    """A codec; LZ4 has no levels."""
    return pa.Codec(_CODECS[scheme], compression_level=level if scheme == "zstd" else None)


def compress(data: Bytes, scheme: str, codec: pa.Codec) -> bytes:
    """One buffer with its length before it."""
    head = len(data).to_bytes(_PREFIX[scheme], "little")
    return head + bytes(codec.compress(pa.py_buffer(data), asbytes=True))


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
    lengths = np.diff(strings.offsets).astype(np.int64)
    data, sizes = _pieces(strings.data, strings.offsets[:-1].astype(np.int64), lengths, "zstd", level)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return replace(strings, offsets=offsets, data=data)


def _pieces(data: Bytes, starts: Indices, sizes: Indices, scheme: str, level: int | None) -> tuple[Bytes, Indices]:
    """Each piece by itself: the bytes of all back to back, and their sizes."""
    codec = compressor(scheme, level)
    pieces = [
        compress(data[start : start + size], scheme, codec)
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]
    return np.frombuffer(b"".join(pieces), np.uint8), np.array([len(piece) for piece in pieces], np.int64)

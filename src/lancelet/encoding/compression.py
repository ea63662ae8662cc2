"""Whole buffers compressed with LZ4 or ZSTD (spec encodings.md 6.9).

::

    LZ4    u32 uncompressed length, one raw LZ4 block
    ZSTD   u64 uncompressed length, one frame   (or a bare frame, from old writers)
"""

from __future__ import annotations

import pyarrow as pa

from lancelet.encoding.fetch import Place
from lancelet.encoding.rows import Bytes

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_MAX_RATIO = 255
_TRUSTED_SIZE = 16 << 20
_MAX_SIZE = 1 << 36


def decompress(scheme: str, data: Bytes, place: Place) -> pa.Buffer:
    """Inflate one buffer; a length that lies costs no more memory than the data really holds."""
    if len(data) == 0:
        return pa.py_buffer(b"")
    try:
        if scheme == "lz4":
            return _lz4(data, place)
        return _zstd(data, place)
    except (OSError, ValueError, pa.ArrowException, MemoryError) as error:
        raise place.corrupt(f"{scheme} data does not decompress: {error}") from None


def _lz4(data: Bytes, place: Place) -> pa.Buffer:
    if len(data) < 4:
        raise ValueError("no length")
    size = int.from_bytes(data[:4].tobytes(), "little")
    if size > _LZ4_MAX_RATIO * len(data):
        raise ValueError(f"{len(data)} bytes cannot hold {size}")
    return _exact(pa.Codec("lz4_raw").decompress(pa.py_buffer(data[4:]), size), size)


def _zstd(data: Bytes, place: Place) -> pa.Buffer:
    bare = len(data) < 8 or (data[:4].tobytes() == ZSTD_MAGIC and not data[4] & 8)
    frame = pa.py_buffer(data if bare else data[8:])
    if bare:
        return _inflate(frame, _MAX_SIZE)
    size = int.from_bytes(data[:8].tobytes(), "little")
    if size == 0:
        return pa.py_buffer(b"")
    if size > _TRUSTED_SIZE:
        return _exact(_inflate(frame, size), size)
    return _exact(pa.Codec("zstd").decompress(frame, size), size)


def _inflate(frame: pa.Buffer, limit: int) -> pa.Buffer:
    """Stream, so that memory follows the data and not the claimed length."""
    out = pa.BufferOutputStream()
    with pa.input_stream(frame, compression="zstd") as stream:
        while piece := stream.read(1 << 20):
            if out.tell() + len(piece) > limit:
                raise ValueError("longer than its recorded length")
            out.write(piece)
    return out.getvalue()


def _exact(buffer: pa.Buffer, size: int) -> pa.Buffer:
    if buffer.size != size:
        raise ValueError(f"{buffer.size} bytes where {size} were recorded")
    return buffer

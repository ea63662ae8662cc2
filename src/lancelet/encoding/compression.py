"""Buffers compressed as a whole (spec file-format.md 3.8)::

    zstd   u64 uncompressed length | one frame       older files: a bare frame
    lz4    u32 uncompressed length | one raw block

The length is a claim. No LZ4 block expands more than 255 times and no zstd frame
more than 128 KiB for each 4 bytes, so a greater claim is refused outright; above a
modest size zstd is inflated piece by piece, so that memory follows what is really there.
"""

from __future__ import annotations

import struct
import threading

import numpy as np
import pyarrow as pa

from lancelet.encoding.kernels.lz4 import block_size
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes
from lancelet.errors import LanceletError

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LZ4_RATIO = 255
ZSTD_RATIO = 32768
AT_ONCE = 64 << 20
SMALL = 1 << 20
LARGEST = 4 << 30


def inflate(data: Bytes, scheme: str, place: Place) -> Bytes:
    """The raw content of a compressed buffer."""
    if len(data) == 0:
        return data
    try:
        match scheme:
            case "zstd":
                return _zstd(data, place)
            case "lz4":
                return _lz4(data, place)
    except LanceletError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise place.corrupt(f"{scheme} data does not decompress: {error}") from None
    raise place.unsupported(f"compression '{scheme}' is not known")


def _lz4(data: Bytes, place: Place) -> Bytes:
    if len(data) < 4:
        raise place.corrupt(f"an lz4 buffer of {len(data)} bytes has no length")
    (size,) = struct.unpack("<I", data[:4].tobytes())
    if size > LZ4_RATIO * (len(data) - 4):
        raise place.corrupt(f"{len(data)} bytes of lz4 claim to hold {size}")
    if size == 0:
        return np.empty(0, np.uint8)
    if block_size(data[4:]) != size:
        raise place.corrupt(f"an lz4 block does not hold the {size} bytes that it claims")
    return _filled(pa.Codec("lz4_raw").decompress(pa.py_buffer(data[4:]), decompressed_size=size))


def _zstd(data: Bytes, place: Place) -> Bytes:
    if len(data) < 8 or data[:4].tobytes() == ZSTD_MAGIC:
        return _stream(data, None, place)
    (size,) = struct.unpack("<Q", data[:8].tobytes())
    frame = data[8:]
    if size > min(ZSTD_RATIO * len(frame), LARGEST):
        raise place.corrupt(f"{len(data)} bytes of zstd claim to hold {size}")
    if size == 0:
        return np.empty(0, np.uint8)
    if size > AT_ONCE:
        return _stream(frame, size, place)
    if size <= SMALL:
        return _small_frame(frame, size, place)
    return _filled(pa.Codec("zstd").decompress(pa.py_buffer(frame), decompressed_size=size))


class _Contexts(threading.local):
    """One for each thread, kept from frame to frame: to make one costs more than a small frame, and Arrow makes one for each."""

    def __init__(self) -> None:
        # Not every table has such frames.
        from zstandard import ZstdDecompressor, ZstdError, frame_content_size

        self.error = ZstdError
        self.decompress = ZstdDecompressor().decompress
        self.content_size = frame_content_size


_contexts: _Contexts | None = None


def _small_frame(frame: Bytes, size: int, place: Place) -> Bytes:
    global _contexts
    if _contexts is None:
        _contexts = _Contexts()
    view = frame.data
    try:
        # What the frame says of itself is what would be allocated.
        if _contexts.content_size(view) in (size, -1):
            raw = _contexts.decompress(view, max_output_size=size, allow_extra_data=False)
            if len(raw) == size:
                return np.frombuffer(raw, np.uint8)
    except _contexts.error as error:
        raise place.corrupt(f"zstd data does not decompress: {error}") from None
    raise place.corrupt(f"a frame of zstd does not hold the {size} bytes that it claims")


def _stream(frame: Bytes, size: int | None, place: Place) -> Bytes:
    pieces: list[Bytes] = []
    total = 0
    with pa.input_stream(pa.BufferReader(pa.py_buffer(frame)), compression="zstd") as stream:
        while piece := stream.read(AT_ONCE):
            total += len(piece)
            if total > (LARGEST if size is None else size):
                raise place.corrupt(f"zstd data holds more than the {size or LARGEST} bytes expected")
            pieces.append(np.frombuffer(piece, np.uint8))
    if size is not None and total != size:
        raise place.corrupt(f"zstd data holds {total} bytes, {size} were claimed")
    return np.concatenate(pieces) if pieces else np.empty(0, np.uint8)


def _filled(buffer: pa.Buffer) -> Bytes:
    return np.frombuffer(buffer, np.uint8)

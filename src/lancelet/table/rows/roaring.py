"""32-bit Roaring bitmaps in the portable form, read with every length checked.

::

    u32 cookie      12346: no run containers, then u32 number of containers
                    low half 12347: high half + 1 containers, then one bit each: is it a run container
    per container   u16 high half of its values, u16 cardinality - 1
    per container   u32 offset (left out in the second form with fewer than 4 containers)
    containers      run: u16 count, then (u16 first, u16 length - 1) pairs
                    up to 4096 values: sorted u16 low halves; else: 8192 bytes, one bit a value
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile

COOKIE = 12346
RUN_COOKIE = 12347
OFFSETS_FROM = 4
ARRAY_LIMIT = 4096
BITMAP_BYTES = 8192
MAX_CONTAINERS = 65536


def decode_roaring(data: bytes, path: str, place: str, *, limit: int | None = None) -> npt.NDArray[np.uint32]:
    """The values in ascending order.

    ``limit`` bounds the number of values, which run containers could otherwise make much larger than the bytes.
    """

    at = 0

    def corrupt(reason: str) -> CorruptFile:
        return CorruptFile(path, f"not a Roaring bitmap: {reason}", place)

    def take(count: int, dtype: str) -> npt.NDArray[np.uint32]:
        nonlocal at
        stop = at + count * np.dtype(dtype).itemsize
        if stop > len(data):
            raise corrupt(f"ends after {len(data)} bytes, at least {stop} are needed")
        part = np.frombuffer(data, dtype, count, at) if count else np.empty(0, dtype)
        at = stop
        return part.astype(np.uint32)

    cookie = int(take(1, "<u4")[0])
    if cookie == COOKIE:
        count = int(take(1, "<u4")[0])
        runs = np.zeros(0, np.uint8)
    elif cookie & 0xFFFF == RUN_COOKIE:
        count = (cookie >> 16) + 1
        runs = np.unpackbits(take((count + 7) // 8, "u1").astype(np.uint8), bitorder="little")
    else:
        raise corrupt(f"starts with {cookie}")
    if count > MAX_CONTAINERS:
        raise corrupt(f"claims {count} containers")
    header = take(2 * count, "<u2")
    keys, sizes = header[0::2], header[1::2].astype(np.int64) + 1
    if np.any(np.diff(keys.astype(np.int64)) <= 0):
        raise corrupt("containers are out of order")
    if limit is not None and int(sizes.sum()) > limit:
        raise corrupt(f"has {int(sizes.sum())} values, at most {limit} are possible")
    if not len(runs) or count >= OFFSETS_FROM:
        take(count, "<u4")
    parts = []
    for index in range(count):
        size = int(sizes[index])
        low: npt.NDArray[np.uint32] | None
        if len(runs) and runs[index]:
            low = _runs(take(2 * int(take(1, "<u2")[0]), "<u2"), size)
        elif size <= ARRAY_LIMIT:
            low = take(size, "<u2")
        else:
            bits = np.unpackbits(take(BITMAP_BYTES, "u1").astype(np.uint8), bitorder="little")
            low = np.flatnonzero(bits).astype(np.uint32)
        if low is None or len(low) != size or np.any(low[1:] <= low[:-1]):
            raise corrupt(f"container {index} does not hold {size} ascending values")
        parts.append(low | (keys[index] << np.uint32(16)))
    if at != len(data):
        raise corrupt(f"has {len(data) - at} bytes too many")
    return np.concatenate(parts) if parts else np.empty(0, np.uint32)


def _runs(pairs: npt.NDArray[np.uint32], size: int) -> npt.NDArray[np.uint32] | None:
    """Values of a run container; None when its runs do not add up to ``size``."""
    first, lengths = pairs[0::2].astype(np.int64), pairs[1::2].astype(np.int64) + 1
    if int(lengths.sum()) != size or np.any(first + lengths > MAX_CONTAINERS):
        return None
    starts = np.cumsum(lengths) - lengths
    return (np.repeat(first - starts, lengths) + np.arange(size)).astype(np.uint32)

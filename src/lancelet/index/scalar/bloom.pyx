"""Split-block Bloom filters, as Parquet has them (spec indices.md 2.5).

A filter is a row of blocks of eight 32-bit words. A value's XXH64 chooses the block with its upper half; its lower half,
times one odd number for each word, chooses a bit of that word.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from lancelet.encoding.kernels.words cimport half_at, long_at, put_half

import numpy as np

cdef enum:
    BLOCK_BYTES = 32
    WORDS = 8

cdef uint64_t P1 = 0x9E3779B185EBCA87
cdef uint64_t P2 = 0xC2B2AE3D27D4EB4F
cdef uint64_t P3 = 0x165667B19E3779F9
cdef uint64_t P4 = 0x85EBCA77C2B2AE63
cdef uint64_t P5 = 0x27D4EB2F165667C5

cdef uint32_t[8] SALT
SALT[:] = [
    0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
]


cdef inline uint64_t rotated(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)


cdef inline uint64_t stirred(uint64_t sum, uint64_t word) noexcept nogil:
    return rotated(sum + word * P2, 31) * P1


cdef uint64_t xxh64(const uint8_t * at, int64_t length, uint64_t seed) noexcept nogil:
    """XXH64."""
    cdef const uint8_t * stop = at + length
    cdef uint64_t h, a, b, c, d
    if length >= 32:
        a = seed + P1 + P2
        b = seed + P2
        c = seed
        d = seed - P1
        while stop - at >= 32:
            a = stirred(a, long_at(at))
            b = stirred(b, long_at(at + 8))
            c = stirred(c, long_at(at + 16))
            d = stirred(d, long_at(at + 24))
            at += 32
        h = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
        h = (h ^ stirred(0, a)) * P1 + P4
        h = (h ^ stirred(0, b)) * P1 + P4
        h = (h ^ stirred(0, c)) * P1 + P4
        h = (h ^ stirred(0, d)) * P1 + P4
    else:
        h = seed + P5
    h += <uint64_t>length
    while stop - at >= 8:
        h = rotated(h ^ stirred(0, long_at(at)), 27) * P1 + P4
        at += 8
    if stop - at >= 4:
        h = rotated(h ^ <uint64_t>half_at(at) * P1, 23) * P2 + P3
        at += 4
    while at < stop:
        h = rotated(h ^ at[0] * P5, 11) * P1
        at += 1
    h = (h ^ h >> 33) * P2
    h = (h ^ h >> 29) * P3
    return h ^ h >> 32


def hash_fixed(const uint8_t[::1] data, int64_t width, uint64_t seed=0):
    """Hashes of values of ``width`` bytes each."""
    if width <= 0 or data.shape[0] % width:
        raise ValueError("whole values are needed")
    cdef Py_ssize_t i, count = data.shape[0] // width
    hashes = np.empty(count, np.uint64)
    cdef uint64_t[::1] out = hashes
    with nogil:
        for i in range(count):
            out[i] = xxh64(&data[0] + i * width, width, seed)
    return hashes


def hash_spans(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Hashes of the spans of bytes between neighbouring offsets."""
    cdef Py_ssize_t i, count = offsets.shape[0] - 1
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    cdef int64_t before
    cdef bint good = count >= 0 and offsets[0] >= 0 and offsets[count] <= data.shape[0]
    hashes = np.empty(max(count, 0), np.uint64)
    cdef uint64_t[::1] out = hashes
    if good:
        with nogil:
            for i in range(count):
                before = offsets[i]
                if offsets[i + 1] < before or offsets[i + 1] > data.shape[0]:
                    good = False
                    break
                out[i] = xxh64(start + before, offsets[i + 1] - before, 0)
    if not good:
        raise ValueError("offsets that ascend within the bytes are needed")
    return hashes


cdef inline uint64_t block_of(uint64_t h, uint64_t blocks) noexcept nogil:
    return ((h >> 32) * blocks) >> 32


def insert(const uint64_t[::1] hashes, const uint8_t[::1] valid, const int64_t[::1] starts, uint8_t[:, ::1] filters):
    """Put hashes into filters: those from ``starts[i]`` to before the next start into the i-th.

    Hashes whose ``valid`` is 0 are left out; without any ``valid`` all go in.
    """
    cdef Py_ssize_t i, k, count = starts.shape[0], total = hashes.shape[0]
    cdef int64_t start, stop
    cdef uint64_t blocks = filters.shape[1] // BLOCK_BYTES
    cdef bint some = valid.shape[0] > 0
    cdef uint32_t x
    cdef uint8_t * block
    cdef int w
    if filters.shape[0] != count or filters.shape[1] % BLOCK_BYTES or not blocks or blocks >> 32:
        raise ValueError("a filter of whole blocks for each start is needed")
    if some and valid.shape[0] != total:
        raise ValueError("validity has the wrong size")
    for i in range(count):
        stop = starts[i + 1] if i + 1 < count else total
        if starts[i] < 0 or starts[i] > stop or stop > total:
            raise ValueError("starts that ascend are needed")
    with nogil:
        for i in range(count):
            start = starts[i]
            stop = starts[i + 1] if i + 1 < count else total
            for k in range(start, stop):
                if some and not valid[k]:
                    continue
                block = &filters[i, 0] + block_of(hashes[k], blocks) * BLOCK_BYTES
                x = <uint32_t>hashes[k]
                for w in range(WORDS):
                    put_half(block + 4 * w, half_at(block + 4 * w) | (<uint32_t>1) << ((x * SALT[w]) >> 27))


cdef inline bint may_hold(const uint8_t * block, uint32_t x) noexcept nogil:
    """Whether all bits of a hash, of which ``x`` are the lower ones, are set in its block."""
    cdef int w
    for w in range(WORDS):
        if not half_at(block + 4 * w) >> ((x * SALT[w]) >> 27) & 1:
            return False
    return True


def probe(const uint64_t[::1] hashes, const uint8_t[::1] data, const int64_t[::1] offsets):
    """For each filter between neighbouring offsets: may it hold any of the hashes? 2 where the filter cannot be one."""
    cdef Py_ssize_t i, k, count = offsets.shape[0] - 1
    cdef int64_t length
    cdef uint64_t blocks
    cdef const uint8_t * block
    found = np.zeros(max(count, 0), np.uint8)
    cdef uint8_t[::1] out = found
    with nogil:
        for i in range(count):
            length = offsets[i + 1] - offsets[i]
            if offsets[i] < 0 or offsets[i + 1] > data.shape[0] or length < BLOCK_BYTES or length % BLOCK_BYTES:
                out[i] = 2
                continue
            blocks = <uint64_t>length // BLOCK_BYTES
            for k in range(hashes.shape[0]):
                block = &data[0] + offsets[i] + block_of(hashes[k], blocks) * BLOCK_BYTES
                if may_hold(block, <uint32_t>hashes[k]):
                    out[i] = 1
                    break
    return found


def probe_each(const uint64_t[::1] hashes, const uint8_t[::1] data):
    """For each of the hashes: may one filter hold it?"""
    cdef Py_ssize_t k, count = hashes.shape[0]
    cdef uint64_t blocks = data.shape[0] // BLOCK_BYTES
    cdef const uint8_t * block
    if data.shape[0] < BLOCK_BYTES or data.shape[0] % BLOCK_BYTES or blocks >> 32:
        raise ValueError("a filter of whole blocks is needed")
    found = np.zeros(count, np.uint8)
    cdef uint8_t[::1] out = found
    with nogil:
        for k in range(count):
            block = &data[0] + block_of(hashes[k], blocks) * BLOCK_BYTES
            out[k] = may_hold(block, <uint32_t>hashes[k])
    return found

"""SipHash-1-3 with keys of zero, by which the filters of runs are made (spec memwal.md 7).

A state of four words takes in the bytes of a value, eight at a time, with one round each; the last word has what is left, and the
length in its upper byte. Three rounds end it.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from lancelet.encoding.kernels.words cimport long_at

import numpy as np


cdef struct State:
    uint64_t a
    uint64_t b
    uint64_t c
    uint64_t d


cdef inline uint64_t rotated(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)


cdef inline void stir(State * s) noexcept nogil:
    """One round."""
    s.a += s.b
    s.b = rotated(s.b, 13) ^ s.a
    s.a = rotated(s.a, 32)
    s.c += s.d
    s.d = rotated(s.d, 16) ^ s.c
    s.a += s.d
    s.d = rotated(s.d, 21) ^ s.a
    s.c += s.b
    s.b = rotated(s.b, 17) ^ s.c
    s.c = rotated(s.c, 32)


cdef uint64_t sip13(const uint8_t * at, int64_t length) noexcept nogil:
    cdef State s
    cdef uint64_t word
    cdef int64_t i, left = length & 7
    cdef const uint8_t * stop = at + (length - left)
    s.a = 0x736f6d6570736575
    s.b = 0x646f72616e646f6d
    s.c = 0x6c7967656e657261
    s.d = 0x7465646279746573
    while at < stop:
        word = long_at(at)
        s.d ^= word
        stir(&s)
        s.a ^= word
        at += 8
    word = <uint64_t>length << 56
    for i in range(left):
        word |= <uint64_t>at[i] << (8 * i)
    s.d ^= word
    stir(&s)
    s.a ^= word
    s.c ^= 0xFF
    stir(&s)
    stir(&s)
    stir(&s)
    return s.a ^ s.b ^ s.c ^ s.d


def hash_fixed(const uint8_t[::1] data, int64_t width):
    """Hashes of values of ``width`` bytes each."""
    if width <= 0 or data.shape[0] % width:
        raise ValueError("whole values are needed")
    cdef Py_ssize_t i, count = data.shape[0] // width
    hashes = np.empty(count, np.uint64)
    cdef uint64_t[::1] out = hashes
    with nogil:
        for i in range(count):
            out[i] = sip13(&data[0] + i * width, width)
    return hashes


def hash_spans(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Hashes of the spans of bytes between neighbouring offsets."""
    cdef Py_ssize_t i, count = offsets.shape[0] - 1
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    cdef bint good = count >= 0 and offsets[0] >= 0 and offsets[count] <= data.shape[0]
    hashes = np.empty(max(count, 0), np.uint64)
    cdef uint64_t[::1] out = hashes
    if good:
        with nogil:
            for i in range(count):
                if offsets[i + 1] < offsets[i] or offsets[i + 1] > data.shape[0]:
                    good = False
                    break
                out[i] = sip13(start + offsets[i], offsets[i + 1] - offsets[i])
    if not good:
        raise ValueError("offsets that ascend within the bytes are needed")
    return hashes

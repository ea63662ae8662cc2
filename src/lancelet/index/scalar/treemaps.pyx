"""Treemaps: sets of rows without the lengths of their bitmaps (spec indices.md 2.4).

::

    u64 number of entries                                  a treemap
    each: u32 high half, Roaring bitmap

Otherwise they are the sets of :mod:`lancelet.index.row_set`, which have a u32 number of entries, and a u32 length before
each bitmap; so they are read and written as those, and changed on the way.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

cdef enum:
    COOKIE = 12346
    RUN_COOKIE = 12347
    ARRAY_LIMIT = 4096
    BIT_BYTES = 8192
    OFFSETS_FROM = 4
    MAX_CONTAINERS = 65536


cdef inline uint16_t word_at(const uint8_t * at) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, at, 2)
    return value


cdef inline uint32_t half_at(const uint8_t * at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline uint64_t long_at(const uint8_t * at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef int64_t roaring_bytes(const uint8_t * data, int64_t length) noexcept nogil:
    """How long the bitmap is that begins here, of at most ``length`` bytes; -1 when it is none."""
    cdef int64_t count, at, i, size
    cdef const uint8_t * is_run = NULL
    cdef const uint8_t * header
    if length < 8:
        return -1
    if half_at(data) == COOKIE:
        count = half_at(data + 4)
        at = 8
    elif word_at(data) == RUN_COOKIE:
        count = <int64_t>word_at(data + 2) + 1
        is_run = data + 4
        at = 4 + (count + 7) // 8
    else:
        return -1
    if count > MAX_CONTAINERS:
        return -1
    header = data + at
    at += 4 * count
    if is_run == NULL or count >= OFFSETS_FROM:
        at += 4 * count
    if at > length:
        return -1
    for i in range(count):
        size = <int64_t>word_at(header + 4 * i + 2) + 1
        if is_run != NULL and is_run[i >> 3] >> (i & 7) & 1:
            if at + 2 > length:
                return -1
            at += 2 + 4 * <int64_t>word_at(data + at)
        else:
            at += 2 * size if size <= ARRAY_LIMIT else BIT_BYTES
        if at > length:
            return -1
    return at


def with_lengths(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Treemaps as sets, which still have to be checked; raises ValueError where the bytes are no treemap."""
    cdef Py_ssize_t count = offsets.shape[0] - 1
    cdef Py_ssize_t i
    cdef int64_t at, stop, length, total = 0, to = 0
    cdef uint64_t entries, k
    cdef uint32_t half
    cdef bint good = count >= 0
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] + 8 or offsets[i + 1] > data.shape[0]:
            raise ValueError("a set of rows ends early")
        entries = long_at(start + offsets[i])
        # An entry has at least its high half and an empty bitmap.
        if entries > <uint64_t>(offsets[i + 1] - offsets[i]) // 12:
            raise ValueError("a set of rows claims too many entries")
        total += offsets[i + 1] - offsets[i] - 4 + 4 * <int64_t>entries
    places = np.zeros(max(count, 0) + 1, np.int64)
    sets = np.empty(total, np.uint8)
    cdef int64_t[::1] place = places
    cdef uint8_t[::1] out = sets
    with nogil:
        for i in range(count):
            at = offsets[i]
            stop = offsets[i + 1]
            entries = long_at(start + at)
            half = <uint32_t>entries
            memcpy(&out[to], &half, 4)
            at += 8
            to += 4
            for k in range(entries):
                length = roaring_bytes(start + at + 4, stop - at - 4) if stop - at >= 4 else -1
                if length < 0:
                    good = False
                    break
                memcpy(&out[to], start + at, 4)
                half = <uint32_t>length
                memcpy(&out[to + 4], &half, 4)
                memcpy(&out[to + 8], start + at + 4, length)
                at += 4 + length
                to += 8 + length
            if not good or at != stop:
                good = False
                break
            place[i + 1] = to
    if not good:
        raise ValueError("a set of rows is not made of Roaring bitmaps")
    return sets, places


def without_lengths(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Sets as treemaps; not for sets with whole fragments."""
    cdef Py_ssize_t count = offsets.shape[0] - 1
    cdef Py_ssize_t i
    cdef int64_t at, length, total = 0, to = 0
    cdef uint64_t entries, k
    cdef bint good = count >= 0
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] + 4 or offsets[i + 1] > data.shape[0]:
            raise ValueError("a set of rows ends early")
        total += offsets[i + 1] - offsets[i] + 4
    places = np.zeros(max(count, 0) + 1, np.int64)
    maps = np.empty(total, np.uint8)
    cdef int64_t[::1] place = places
    cdef uint8_t[::1] out = maps
    with nogil:
        for i in range(count):
            at = offsets[i]
            entries = half_at(start + at)
            memcpy(&out[to], &entries, 8)
            at += 4
            to += 8
            for k in range(entries):
                length = -1
                if offsets[i + 1] - at >= 8:
                    length = half_at(start + at + 4)
                if length <= 0 or at + 8 + length > offsets[i + 1]:
                    good = False
                    break
                memcpy(&out[to], start + at, 4)
                memcpy(&out[to + 4], start + at + 8, length)
                at += 8 + length
                to += 4 + length
            if not good or at != offsets[i + 1]:
                good = False
                break
            place[i + 1] = to
    if not good:
        raise ValueError("a set of rows with all its bitmaps is needed")
    return maps[:to], places

"""Treemaps: sets of rows without the lengths of their bitmaps (spec indices.md 2.4).

::

    u64 number of entries                                  a treemap
    each: u32 high half, Roaring bitmap

Otherwise they are the sets of :mod:`lancelet.index.row_set`, which have a u32 number of entries, and a u32 length before
each bitmap; so they are read and written as those, and changed on the way.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from lancelet.encoding.kernels.words cimport half_at, long_at, put_half, put_long
from lancelet.index.roaring_walk cimport Container, Roaring, next_container, open_roaring

import numpy as np


cdef int64_t roaring_bytes(const uint8_t * data, int64_t length) noexcept nogil:
    """How long the bitmap is that begins here, of at most ``length`` bytes; below 0 when it is none."""
    cdef Roaring bitmap
    cdef Container one
    cdef int64_t i
    if length < 0 or open_roaring(&bitmap, data, length) < 0:
        return -1
    for i in range(bitmap.count):
        if next_container(&bitmap, &one) < 0:
            return -1
    return bitmap.at


cdef Py_ssize_t count_spans(const uint8_t[::1] data, const int64_t[::1] offsets, int64_t least) except -1:
    """How many spans of at least so many bytes there are between neighbouring offsets."""
    cdef Py_ssize_t i, count = offsets.shape[0] - 1
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] + least or offsets[i + 1] > data.shape[0]:
            raise ValueError("a set of rows ends early")
    return max(count, 0)


def with_lengths(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Treemaps as sets, which still have to be checked; raises ValueError where the bytes are no treemap."""
    cdef Py_ssize_t i, count = count_spans(data, offsets, 8)
    cdef int64_t at, stop, length, total = 0, to = 0
    cdef uint64_t entries, k
    cdef bint good = True
    for i in range(count):
        entries = long_at(&data[offsets[i]])
        # An entry has at least its high half and an empty bitmap.
        if entries > <uint64_t>(offsets[i + 1] - offsets[i]) // 12:
            raise ValueError("a set of rows claims too many entries")
        total += offsets[i + 1] - offsets[i] - 4 + 4 * <int64_t>entries
    places, sets = np.zeros(count + 1, np.int64), np.empty(total, np.uint8)
    cdef int64_t[::1] place = places
    cdef uint8_t[::1] out = sets
    with nogil:
        for i in range(count):
            at = offsets[i] + 8
            stop = offsets[i + 1]
            entries = long_at(&data[offsets[i]])
            put_half(&out[to], entries)
            to += 4
            for k in range(entries):
                length = roaring_bytes(&data[0] + at + 4, stop - at - 4)
                if length < 0:
                    good = False
                    break
                memcpy(&out[to], &data[at], 4)
                put_half(&out[to + 4], length)
                memcpy(&out[to + 8], &data[at + 4], length)
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
    cdef Py_ssize_t i, count = count_spans(data, offsets, 4)
    cdef int64_t at, length, to = 0
    cdef uint64_t entries, k
    cdef bint good = True
    places = np.zeros(count + 1, np.int64)
    # Each set gets four bytes more for its number of entries, and four less for each of these.
    maps = np.empty((offsets[count] - offsets[0] if count else 0) + 4 * count, np.uint8)
    cdef int64_t[::1] place = places
    cdef uint8_t[::1] out = maps
    with nogil:
        for i in range(count):
            at = offsets[i] + 4
            entries = half_at(&data[offsets[i]])
            put_long(&out[to], entries)
            to += 8
            for k in range(entries):
                length = half_at(&data[at + 4]) if offsets[i + 1] - at >= 8 else -1
                if length <= 0 or at + 8 + length > offsets[i + 1]:
                    good = False
                    break
                memcpy(&out[to], &data[at], 4)
                memcpy(&out[to + 4], &data[at + 8], length)
                at += 8 + length
                to += 4 + length
            if not good or at != offsets[i + 1]:
                good = False
                break
            place[i + 1] = to
    if not good:
        raise ValueError("a set of rows with all its bitmaps is needed")
    return maps[:to], places

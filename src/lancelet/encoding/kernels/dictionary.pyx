# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Looking up strings in a dictionary.

Most items are short, so 16 bytes are copied whatever the length: the dictionary's
bytes and the output both need ``SPARE`` bytes more than they hold.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

SPARE = 16

ctypedef fused Index:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused Offset:
    int32_t
    int64_t


def look_up_offsets(const Index[::1] indices, const Offset[::1] offsets, Offset[::1] out, int64_t limit):
    """Offsets of the items that ``indices`` name, laid end to end; -1 when an index or the total goes too far."""
    cdef Py_ssize_t i, n = indices.shape[0]
    cdef uint64_t items
    cdef int64_t done = 0
    if out.shape[0] != n + 1 or offsets.shape[0] == 0:
        raise ValueError("output has the wrong size")
    items = offsets.shape[0] - 1
    with nogil:
        out[0] = 0
        for i in range(n):
            if indices[i] >= items:
                done = limit + 1
                break
            done += offsets[indices[i] + 1] - offsets[indices[i]]
            if done > limit:
                break
            out[i + 1] = <Offset>done
    return done if done <= limit else -1


def look_up_bytes(
    const Index[::1] indices, const Offset[::1] offsets, const uint8_t[::1] data, const Offset[::1] out_offsets,
    uint8_t[::1] out,
):
    """Copy the items whose offsets :func:`look_up_offsets` has made; -1, or the number of one that does not fit."""
    cdef Py_ssize_t i, n = indices.shape[0]
    cdef uint64_t items = offsets.shape[0]
    cdef int64_t start, length, at, from_limit = data.shape[0] - 16, to_limit = out.shape[0] - 16
    if out_offsets.shape[0] != n + 1:
        raise ValueError("output has the wrong size")
    with nogil:
        for i in range(n):
            at = out_offsets[i]
            length = out_offsets[i + 1] - at
            start = offsets[indices[i]] if indices[i] < items else -1
            if start < 0 or at < 0 or length < 0 or start > from_limit or at > to_limit:
                with gil:
                    return i
            if length > 16 and (length - 16 > from_limit - start or length - 16 > to_limit - at):
                with gil:
                    return i
            if length <= 16:
                memcpy(&out[0] + at, &data[0] + start, 16)
            else:
                memcpy(&out[0] + at, &data[0] + start, length)
    return -1

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
    cdef uint64_t items = offsets.shape[0] - 1
    cdef int64_t done = 0
    if out.shape[0] != n + 1:
        raise ValueError("output has the wrong size")
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
    """Copy the items whose offsets :func:`look_up_offsets` has made. Offsets of the dictionary are known to rise."""
    cdef Py_ssize_t i, n = indices.shape[0]
    cdef int64_t start, length
    if out_offsets.shape[0] != n + 1 or out.shape[0] < out_offsets[n] + SPARE:
        raise ValueError("output is too small")
    if data.shape[0] < offsets[offsets.shape[0] - 1] + SPARE:
        raise ValueError("dictionary has no spare bytes")
    with nogil:
        for i in range(n):
            start = offsets[indices[i]]
            length = out_offsets[i + 1] - out_offsets[i]
            if length <= 16:
                memcpy(&out[0] + out_offsets[i], &data[0] + start, 16)
            else:
                memcpy(&out[0] + out_offsets[i], &data[0] + start, length)

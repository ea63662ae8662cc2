"""The least and the greatest of byte strings, stretch by stretch."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

import numpy as np


cdef inline int compared(const uint8_t * a, int64_t a_size, const uint8_t * b, int64_t b_size) noexcept nogil:
    cdef int64_t shared = a_size if a_size < b_size else b_size
    cdef int order
    if shared:
        if a[0] != b[0]:
            return <int>a[0] - <int>b[0]
        order = memcmp(a, b, shared)
        if order:
            return order
    return (a_size > b_size) - (a_size < b_size)


def extremes(const uint8_t[::1] data, const int64_t[::1] offsets, const uint8_t[::1] valid, const int64_t[::1] starts):
    """Where the least and the greatest string of each stretch are; -1 where it has none.

    A stretch goes from its start to the next one's; strings whose ``valid`` is 0 are left out.
    """
    cdef Py_ssize_t i, k, count = starts.shape[0], total = offsets.shape[0] - 1
    cdef int64_t start, stop, least, most, at, size
    cdef bint some = valid.shape[0] > 0
    cdef const uint8_t * base = &data[0] if data.shape[0] else NULL
    if total < 0 or (some and valid.shape[0] != total):
        raise ValueError("validity has the wrong size")
    for i in range(count):
        stop = starts[i + 1] if i + 1 < count else total
        if starts[i] < 0 or starts[i] > stop or stop > total:
            raise ValueError("starts that ascend are needed")
    lows, highs = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    cdef int64_t[::1] low = lows
    cdef int64_t[::1] high = highs
    cdef bint good = True
    with nogil:
        for k in range(total):
            if offsets[k] < 0 or offsets[k + 1] < offsets[k] or offsets[k + 1] > data.shape[0]:
                good = False
                break
        if good:
            for i in range(count):
                start = starts[i]
                stop = starts[i + 1] if i + 1 < count else total
                least = -1
                most = -1
                for k in range(start, stop):
                    if some and not valid[k]:
                        continue
                    if least < 0:
                        least = k
                        most = k
                        continue
                    at = offsets[k]
                    size = offsets[k + 1] - at
                    if compared(base + at, size, base + offsets[least], offsets[least + 1] - offsets[least]) < 0:
                        least = k
                    elif compared(base + at, size, base + offsets[most], offsets[most + 1] - offsets[most]) > 0:
                        most = k
                low[i] = least
                high[i] = most
    if not good:
        raise ValueError("offsets that ascend within the bytes are needed")
    return lows, highs

"""How far along a Hilbert curve points are, so that near ones come together.

The curve goes through a square of 2^16 cells a side: a quarter of it is a curve of its own, the two lower ones turned, the
right one of them mirrored too.
"""

from libc.stdint cimport uint32_t

import numpy as np

cdef enum:
    BITS = 16


cdef inline double _cell(double low, double high, double least, double span) noexcept nogil:
    """The middle of a side, as a cell; 0 where there is no number."""
    cdef double most = (1 << BITS) - 1
    cdef double place = most * ((low + high) / 2 - least) / span
    if not place > 0:
        return 0
    return place if place < most else most


def along_curve(const double[:, ::1] boxes, double left, double bottom, double width, double height):
    """For the middle of each box; ``left`` and the others are of the box around all."""
    found = np.empty(boxes.shape[0], np.uint32)
    cdef uint32_t[::1] out = found
    cdef uint32_t x, y, right, upper, lower, mirrored, turned, along, most = (1 << BITS) - 1
    cdef Py_ssize_t i
    cdef int bit
    if boxes.shape[1] != 4:
        raise ValueError("a box has four sides")
    with nogil:
        for i in range(boxes.shape[0]):
            x = <uint32_t>_cell(boxes[i, 0], boxes[i, 2], left, width)
            y = <uint32_t>_cell(boxes[i, 1], boxes[i, 3], bottom, height)
            along = 0
            for bit in range(BITS - 1, -1, -1):
                right, upper = (x >> bit) & 1, (y >> bit) & 1
                along = along << 2 | ((3 * right) ^ upper)
                # Nobody can foretell the quarter: masks instead of branches.
                lower = upper - 1
                mirrored = most & lower & -right
                x ^= mirrored
                y ^= mirrored
                turned = (x ^ y) & lower
                x ^= turned
                y ^= turned
            out[i] = along
    return found

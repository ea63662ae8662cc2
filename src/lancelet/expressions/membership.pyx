"""Whether numbers are among some others, by a table of those:

::

    slots     a power of two of them, at least eight times as many as there are numbers, so that most are free
    place     the upper bits of number * odd; from there on, the first slot that has the number or is free
    free      a number that is not wanted, which says of itself that it is not there

Numbers are told apart by their bits, so that signed ones come as unsigned ones of the same width.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

import numpy as np

ctypedef fused Word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef uint64_t ODD = 0x9E3779B97F4A7C15


def among(const Word[::1] values, const Word[::1] wanted):
    """A bit for each value, the first one lowest: whether it is one of those that are wanted."""
    cdef Py_ssize_t i, n = values.shape[0]
    cdef int bit, shift = 61
    cdef uint64_t mask, place
    cdef Word free, value
    cdef uint8_t byte
    found = np.zeros((n + 7) // 8, np.uint8)
    distinct = np.unique(wanted)
    missing = np.flatnonzero(distinct != np.arange(len(distinct)).astype(distinct.dtype))
    if len(distinct) == 0 or n == 0:
        return found
    if <uint64_t>(len(distinct) - 1) == <uint64_t><Word>-1:
        found[:] = 255  # there is no number that is not wanted
        return found
    free = <Word>(missing[0] if len(missing) else len(distinct))
    while (<uint64_t>1 << (64 - shift)) < 8 * <uint64_t>len(distinct):
        shift -= 1
    mask = (<uint64_t>1 << (64 - shift)) - 1
    table = np.full(mask + 1, free, distinct.dtype)
    cdef Word[::1] slots = table
    cdef const Word[::1] numbers = distinct
    cdef uint8_t[::1] out = found
    with nogil:
        for i in range(numbers.shape[0]):
            place = <uint64_t>numbers[i] * ODD >> shift
            while slots[place] != free:
                place = (place + 1) & mask
            slots[place] = numbers[i]
        for i in range(0, n, 8):
            byte = 0
            for bit in range(<int>min(<Py_ssize_t>8, n - i)):
                value = values[i + bit]
                place = <uint64_t>value * ODD >> shift
                while slots[place] != value and slots[place] != free:
                    place = (place + 1) & mask
                byte |= <uint8_t>((slots[place] == value) & (value != free)) << bit
            out[i >> 3] = byte
    return found

# Words of 8, 16, 32 or 64 bits that lie anywhere.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline uint64_t read_word(const uint8_t *at, int bits) noexcept nogil:
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight
    if bits == 8:
        return at[0]
    if bits == 16:
        memcpy(&two, at, 2)
        return two
    if bits == 32:
        memcpy(&four, at, 4)
        return four
    memcpy(&eight, at, 8)
    return eight

# Words of 8, 16, 32 or 64 bits that lie anywhere.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline uint16_t word_at(const uint8_t *at) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, at, 2)
    return value


cdef inline uint32_t half_at(const uint8_t *at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline uint64_t long_at(const uint8_t *at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint64_t read_word(const uint8_t *at, int bits) noexcept nogil:
    if bits == 8:
        return at[0]
    if bits == 16:
        return word_at(at)
    return half_at(at) if bits == 32 else long_at(at)


cdef inline void put_word(uint8_t *at, uint64_t value) noexcept nogil:
    cdef uint16_t word = <uint16_t>value
    memcpy(at, &word, 2)


cdef inline void put_half(uint8_t *at, uint64_t value) noexcept nogil:
    cdef uint32_t half = <uint32_t>value
    memcpy(at, &half, 4)


cdef inline void put_long(uint8_t *at, uint64_t value) noexcept nogil:
    memcpy(at, &value, 8)

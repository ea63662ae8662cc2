# Single items of a chunk's levels and of packed values, for those who know where the chunk lies.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t

cdef uint64_t packed_item(const uint8_t *block, int bits, int width, int item) noexcept nogil
cdef bint level_of(
    const uint8_t *at, int64_t size, int codec, int width, int64_t count, int64_t item, uint16_t *out
) noexcept nogil

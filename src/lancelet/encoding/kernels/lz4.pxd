# Small LZ4 blocks, expanded.

from libc.stdint cimport int64_t, uint8_t

cdef uint8_t *inflate(const uint8_t **at, int64_t *size, int64_t most) noexcept nogil

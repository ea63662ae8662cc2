# What other kernels use of bloom.pyx: the hash.
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef uint64_t xxh64(const uint8_t * at, int64_t length, uint64_t seed) noexcept nogil

# What the writer uses of fst.pyx: the checksum at the end.
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef uint32_t checksum(const uint8_t * data, int64_t size) noexcept nogil

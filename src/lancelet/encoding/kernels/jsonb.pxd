# What other kernels use of jsonb.pyx: the text of a value.
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef struct Text:
    uint8_t *data
    int64_t size
    int64_t room

cdef int reserve(Text *out, int64_t more) noexcept nogil
cdef int put(Text *out, const char *text, int64_t size) noexcept nogil
cdef int put_number(Text *out, const uint8_t *at, int64_t size) noexcept nogil
cdef int put_value(Text *out, uint32_t entry, const uint8_t *at, int depth) noexcept nogil
cdef bytes taken(Text *out)

# Arrays as Arrow's C interface hands them over: the memory that they are made of is freed by whoever takes them.

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void **buffers
    ArrowArray **children
    ArrowArray *dictionary
    void (*release)(ArrowArray *) noexcept nogil
    void *private_data


cdef struct Buffers:
    const void *shown[3]
    void *held[3]


cdef inline void release_array(ArrowArray *array) noexcept nogil:
    cdef Buffers *buffers = <Buffers *>array.private_data
    cdef int k
    for k in range(3):
        free(buffers.held[k])
    free(buffers)
    array.release = NULL


cdef inline bint export_array(
    ArrowArray *array, void *validity, void *second, void *third, int64_t length, int64_t offset, int64_t nulls
) noexcept nogil:
    """An Arrow array that owns its buffers from now on; ``validity`` is shown where there are nulls."""
    cdef Buffers *buffers = <Buffers *>calloc(1, sizeof(Buffers))
    if buffers == NULL:
        return False
    buffers.held[0] = validity
    buffers.held[1] = buffers.shown[1] = second
    buffers.held[2] = buffers.shown[2] = third
    buffers.shown[0] = validity if nulls else NULL
    array.length = length
    array.null_count = nulls
    array.offset = offset
    array.n_buffers = 2 if third == NULL else 3
    array.buffers = buffers.shown
    array.private_data = buffers
    array.release = release_array
    return True

from libc.stdint cimport uint64_t


cdef class Top:
    cdef Py_ssize_t size, capacity
    cdef float* marks
    cdef uint64_t* rows
    # What a row has to be nearer than, or as near as with a lower number, to get in; infinite while there is room.
    cdef readonly float limit
    # Rows nearer than that are passed over, and those as far as the other: a range [lower, upper).
    cdef float lower, upper

    cdef void push(self, float mark, uint64_t row) noexcept nogil

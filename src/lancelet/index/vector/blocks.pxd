from libc.stdint cimport int64_t, uint64_t

cdef enum:
    MOST_COLUMNS = 8


cdef struct Entries:
    Py_ssize_t count
    const uint64_t* rows
    # Where each column of codes begins, and how many bytes it has.
    const unsigned char* columns[MOST_COLUMNS]
    Py_ssize_t sizes[MOST_COLUMNS]
    # A byte for each entry, 0 where it does not count; NULL: all do.
    const unsigned char* kept


cdef class Block:
    cdef Entries entries
    cdef Py_ssize_t columns
    cdef tuple arrays


cdef class Blocks:
    cdef Entries* entries
    cdef readonly Py_ssize_t count
    # Entries of all of them.
    cdef readonly Py_ssize_t total
    cdef list held

    cdef int check(self, int column, Py_ssize_t width) except -1
    cdef int check_groups(self, const int64_t[::1] ends, const int64_t[::1] which, list tops) except -1

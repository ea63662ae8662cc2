# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""FSST: training a symbol table and encoding strings with it (spec encodings.md 6.7)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "fsst_table.h" nogil:
    ctypedef struct FsstTable:
        int count
        uint64_t symbol[256]
        uint8_t length[256]
    int fsst_train(FsstTable *table, const uint8_t *data, const int64_t *offsets, int64_t strings)
    void fsst_clear(FsstTable *table)
    void fsst_add(FsstTable *table, uint64_t symbol, int length)
    int64_t fsst_encode(const FsstTable *table, const void *offsets, int wide, int64_t count, const uint8_t *data,
                        int64_t size, int64_t *ends, uint8_t *out)

ctypedef fused offset_t:
    int32_t
    int64_t

SPARE = 8


cdef class Table:
    """A trained symbol table."""

    cdef FsstTable *table

    def __cinit__(self):
        self.table = <FsstTable *>malloc(sizeof(FsstTable))
        if self.table == NULL:
            raise MemoryError
        fsst_clear(self.table)

    def __dealloc__(self):
        free(self.table)

    def train(self, const uint8_t[::1] data, const int64_t[::1] offsets):
        """Learn from a sample of strings, data[offsets[i]:offsets[i + 1]]."""
        cdef Py_ssize_t i, n = offsets.shape[0] - 1
        cdef int ready
        if n < 1 or offsets[0] < 0 or offsets[n] > data.shape[0]:
            raise ValueError("a sample outside of its buffer")
        for i in range(n):
            if offsets[i + 1] < offsets[i]:
                raise ValueError("offsets that fall")
        if data.shape[0] == 0:
            return
        with nogil:
            ready = fsst_train(self.table, &data[0], &offsets[0], n)
        if not ready:
            raise MemoryError

    def symbols(self):
        """The symbols in the order of their codes."""
        return [self.table.symbol[i].to_bytes(8, "little")[:self.table.length[i]] for i in range(self.table.count)]

    def encode(self, const offset_t[::1] offsets, const uint8_t[::1] data, int64_t[::1] out_offsets, uint8_t[::1] out):
        """Codes of all strings; ``out`` has room for twice their bytes and SPARE more. Returns the bytes used."""
        cdef Py_ssize_t i, n = offsets.shape[0] - 1
        cdef int64_t used
        cdef bint falls = False
        for i in range(n):
            falls |= offsets[i + 1] < offsets[i]
        if n < 0 or falls or offsets[0] < 0 or offsets[n] > data.shape[0] or out_offsets.shape[0] < n + 1:
            raise ValueError("strings outside of their buffer")
        if out.shape[0] < 2 * (<int64_t>offsets[n] - offsets[0]) + SPARE:
            raise ValueError("output is too small")
        out_offsets[0] = 0
        if n == 0 or data.shape[0] == 0:
            for i in range(n):
                out_offsets[i + 1] = 0
            return 0
        with nogil:
            used = fsst_encode(self.table, &offsets[0], sizeof(offset_t) == 8, n, &data[0], data.shape[0],
                               &out_offsets[1], &out[0])
        return used

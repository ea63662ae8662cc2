from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "terms.h" nogil:
    ctypedef struct TermSlot:
        pass
    ctypedef struct TermTable:
        uint8_t * bytes
        uint64_t * starts
        uint64_t room, spaces, mask, seed
        uint32_t count
    uint32_t TERMS_FULL
    int terms_open(TermTable * table, uint64_t seed)
    void terms_close(TermTable * table)
    uint32_t terms_find(const TermTable * table, const uint8_t * bytes, uint64_t length)
    uint32_t terms_intern(TermTable * table, const uint8_t * bytes, uint64_t length)


cdef class Terms:
    cdef TermTable table

# What the metadata of a file says of the pages of its columns, where they are of the usual kinds.

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    MOST_BUFFERS = 4
    MOST_INLINE = 32
    MOST_LAYERS = 8
    SYMBOL_TABLE_BYTES = 2312

cdef enum PageKind:
    MINI_BLOCK = 1
    CONSTANT = 2

cdef enum Codec:
    ABSENT = 0
    FLAT = 1
    INLINE = 2
    OUT_OF_LINE = 3
    RUNS = 4
    STRINGS = 5
    STREAMS = 6

cdef struct Coding:
    Codec codec
    int64_t bits
    # Of a value, or of an offset into strings; of what is packed out of line, bits as packed.
    const uint8_t *symbols
    # The FSST table that strings are written with, if any.
    bint lz4
    # Whether all of it is compressed once more.

cdef struct Chunk:
    # Where a chunk of values begins: its first row in the page, its first byte in the buffer.
    int64_t row
    int64_t at

cdef struct Page:
    PageKind kind
    int64_t first
    # Its first row, counted from the column's.
    int64_t rows
    int64_t items
    int num_buffers
    int64_t offsets[MOST_BUFFERS]
    int64_t sizes[MOST_BUFFERS]
    int num_layers
    uint8_t layers[MOST_LAYERS]
    bint large
    int64_t index_depth
    Coding reps
    Coding levels
    Coding values
    Coding dictionary
    int64_t dictionary_items
    int inline_size
    uint8_t inline_value[MOST_INLINE]
    int64_t num_chunks
    Chunk *chunks
    # Of pages without lists, once somebody asked for single rows: all chunks, and the end of the last.
    uint8_t *inflated
    int64_t inflated_size
    # And the items of a dictionary that is compressed.

cdef struct Column:
    bint known
    # Whether it was looked at.
    bint plain
    # Whether all of its pages could be planned here.
    int64_t rows
    int64_t stored
    Py_ssize_t num_pages
    Page *pages


cdef class PagePlans:
    cdef const uint8_t[::1] data
    cdef const int64_t[:, ::1] places
    cdef int64_t file_rows
    cdef Column *columns
    cdef Py_ssize_t num_columns
    cdef readonly Py_ssize_t nbytes
    cdef Column *column(self, Py_ssize_t index) except NULL
    cdef bint open_page(self, Page *page) except -1

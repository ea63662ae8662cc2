# What jsonb_items.pyx uses of jsonb_select.pyx: items, containers and numbers.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    _GOOD = 0
    _TOO_SHORT = 1
    _BAD_KIND = 2
    _BAD_NUMBER = 3
    _TOO_DEEP = 4
    _NO_MEMORY = 5
    _UNFIT = 6
    _NOTHING = 255

    NULL_KIND = 0
    STRING = 1
    NUMBER = 2
    FALSE_KIND = 3
    TRUE_KIND = 4
    CONTAINER = 5

cdef struct Item:
    const uint8_t *at
    int64_t size
    uint8_t kind

cdef struct Items:
    Item *data
    int64_t count
    int64_t room

cdef struct Number:
    bint is_double
    bint negative
    uint64_t magnitude
    double value

cdef uint32_t word(const uint8_t *at) noexcept nogil
cdef int shape_of(const Item *item, bint *is_array, int64_t *count) noexcept nogil
cdef int children(const Item *parent, int64_t low, int64_t high, Items *out) noexcept nogil
cdef int read_number(const uint8_t *at, int64_t size, Number *out) noexcept nogil

# Values of small pages, decoded chunk after chunk into memory of our own.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

from lancelet.encoding.kernels.page_plans cimport MOST_LAYERS, Coding, Page

cdef enum:
    SPARE = 64  # bytes behind every buffer, so that short pieces can be copied as long ones
    MOST_TEXT = 0x7FFFFFFF
    SYMBOLS_MARK = 0x46535354  # of FSST tables


cdef struct Piece:
    const uint8_t *at
    int64_t size


cdef struct Shape:
    uint16_t renumber[2 * MOST_LAYERS + 1]
    int top
    int max_visible
    int lists


cdef struct Target:
    # What the column's type wants: single bits, values of so many bytes, or strings.
    bint is_bits
    bint is_text
    bint is_string
    bint is_wide
    int64_t item
    # What there is so far.
    int64_t capacity
    int64_t count
    int64_t nulls
    uint8_t *validity
    uint8_t *values
    int64_t used
    int64_t room
    uint8_t *offsets
    # Of nested columns.
    bint is_nested
    int64_t kinds
    Shape shape
    uint16_t *reps
    uint16_t *defs
    int64_t entries
    int64_t entry_room
    int64_t row_starts
    bint has_defs
    # Of the chunk at hand, or of the page.
    uint16_t *levels
    int64_t level_room
    uint8_t *indices
    int64_t index_room
    uint8_t *inflated
    const uint8_t *items
    int64_t *item_offsets
    int64_t num_items


cdef inline void put_offset(Target *target, int64_t index, int64_t offset) noexcept nogil:
    if target.is_wide:
        (<int64_t *>target.offsets)[index] = offset
    else:
        (<int32_t *>target.offsets)[index] = <int32_t>offset


cdef inline int64_t offset_of(Target *target, int64_t index) noexcept nogil:
    if target.is_wide:
        return (<int64_t *>target.offsets)[index]
    return (<int32_t *>target.offsets)[index]


cdef bint decode_entries(Page *page, Shape *shape, Piece reps, Piece defs, int64_t entries, int64_t count, Target *target) noexcept nogil
cdef bint decode_validity(Coding *coding, Piece piece, int64_t count, Target *target) noexcept nogil
cdef bint look_up(Page *page, Piece *pieces, int64_t count, Target *target, bint has_levels) noexcept nogil
cdef bint decode_coded_strings(Coding *coding, Piece piece, int64_t count, Target *target) noexcept nogil
cdef bint decode_strings(Coding *coding, Piece piece, int64_t count, Target *target) noexcept nogil
cdef bint grow(Target *target, int64_t more) noexcept nogil
cdef bint decode_words(Coding *coding, Piece *pieces, int64_t count, uint8_t *out) noexcept nogil
cdef bint read_shape(Page *page, int64_t kinds, Shape *shape) noexcept nogil
cdef bint open_dictionary(Page *page, Piece piece, Target *target) noexcept nogil
cdef void clear_target(Target *target) noexcept nogil
cdef bint is_utf8(const uint8_t *at, int64_t size) noexcept nogil

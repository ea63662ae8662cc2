# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What jsonb_select.pyx finds in JSONB, as numbers, texts, truths or JSONB of its own."""

from libc.math cimport isfinite, round as round_half_away
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset

from lancelet.encoding.kernels.jsonb cimport Text, put, put_number, put_value, reserve, taken
from lancelet.encoding.kernels.jsonb_select cimport (
    _GOOD, _NOTHING, _UNFIT, CONTAINER, FALSE_KIND, NULL_KIND, NUMBER, STRING, TRUE_KIND,
    Item, Items, Number, children, read_number, shape_of, word,
)

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *s, char **endptr, void *overflow_exception) except? -1.0

UNFIT = _UNFIT


cdef inline void put_word(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = value >> 24
    at[1] = (value >> 16) & 255
    at[2] = (value >> 8) & 255
    at[3] = value & 255


def gather(
    const uint8_t[::1] data, const int64_t[::1] ends, const uint8_t[::1] kinds, const int64_t[::1] starts,
    const int64_t[::1] sizes, int64_t[::1] out_offsets,
):
    """JSONB of the items of each row: the only one, or an array of several; nothing for none. Fills ``out_offsets``."""
    cdef Py_ssize_t i, n = ends.shape[0] - 1
    cdef int64_t k, count, head, first
    cdef uint32_t header = 0x20000000  # of a lone scalar; that of an array is four times as much
    cdef int status = _GOOD
    cdef Text out
    cdef const uint8_t *base = &data[0] if data.shape[0] > 0 else NULL
    out.data = NULL
    out.size = out.room = 0
    with nogil:
        out_offsets[0] = 0
        for i in range(n):
            first = ends[i]
            count = ends[i + 1] - first
            if count == 1 and kinds[first] == CONTAINER:
                status = put(&out, <const char *>base + starts[first], sizes[first])
            elif count and kinds[first] != _NOTHING:
                head = 4 + 4 * count
                status = reserve(&out, head)
                if status == _GOOD:
                    put_word(out.data + out.size, header if count == 1 else (header << 2) | <uint32_t>count)
                    for k in range(count):
                        put_word(out.data + out.size + 4 + 4 * k,
                                 <uint32_t>kinds[first + k] << 28 | <uint32_t>sizes[first + k])
                    out.size += head
                    for k in range(count):
                        status = put(&out, <const char *>base + starts[first + k], sizes[first + k])
                        if status:
                            break
            if status:
                break
            out_offsets[i + 1] = out.size
    data_of_all = taken(&out)
    if status:
        raise MemoryError("JSON values do not fit into memory")
    return data_of_all


cdef int parse_double(const uint8_t *at, int64_t size, double *out) except -1:
    """1 when a text is a number as a whole; words for infinity and NaN are."""
    cdef bytes text = (<const char *>at)[:size]
    cdef int64_t i
    cdef uint8_t c
    if size == 0:
        return 0
    for i in range(size):
        c = at[i]
        if c <= 32 or c == 95 or c > 126:
            return 0
    try:
        out[0] = PyOS_string_to_double(text, NULL, NULL)
    except ValueError:
        return 0
    return 1


cdef int parse_integer(const uint8_t *at, int64_t size, int64_t *out) noexcept nogil:
    """1 when a text is an integer of 64 bits as a whole."""
    cdef int64_t i = 0
    cdef uint64_t value = 0, most = 0x7FFFFFFFFFFFFFFF
    cdef bint negative = size > 0 and at[0] == 45
    if size > 0 and (at[0] == 45 or at[0] == 43):
        i = 1
    if i == size:
        return 0
    if negative:
        most += 1
    while i < size:
        if at[i] < 48 or at[i] > 57 or value > (most - (at[i] - 48)) / 10:
            return 0
        value = value * 10 + (at[i] - 48)
        i += 1
    out[0] = <int64_t>(~value + 1) if negative else <int64_t>value
    return 1


cdef inline int rounded(double value, int64_t *out) noexcept nogil:
    value = round_half_away(value)
    if not (value >= -9223372036854775808.0 and value < 9223372036854775808.0):
        return 0
    out[0] = <int64_t>value
    return 1


ctypedef int (*Reader)(const uint8_t *at, int64_t size, uint8_t kind, void *out) noexcept nogil


cdef tuple read_items(
    const uint8_t[::1] data, const uint8_t[::1] kinds, const int64_t[::1] starts, const int64_t[::1] sizes,
    Reader read, void *out, int64_t width, uint8_t[::1] out_valid,
):
    """Read each item into ``width`` bytes of ``out``; nothing and null are 0, and not valid, where that is asked.

    Returns (-1, 0), or the row that cannot be read, and why.
    """
    cdef Py_ssize_t i = 0
    cdef int status = _GOOD
    cdef bint is_value
    cdef bint marks = out_valid is not None
    cdef const uint8_t *base = &data[0] if data.shape[0] > 0 else NULL
    cdef uint8_t *to = <uint8_t *>out
    with nogil:
        for i in range(kinds.shape[0]):
            is_value = kinds[i] != _NOTHING and kinds[i] != NULL_KIND
            if marks:
                out_valid[i] = is_value
            memset(to + i * width, 0, width)
            if is_value:
                status = read(base + starts[i], sizes[i], kinds[i], to + i * width)
                if status:
                    break
    if status:
        return i, status
    return -1, 0


cdef int as_integer(const uint8_t *at, int64_t size, uint8_t kind, void *to) noexcept nogil:
    cdef int64_t *out = <int64_t *>to
    cdef Number number
    cdef double value = 0
    cdef int status
    if kind == TRUE_KIND or kind == FALSE_KIND:
        out[0] = kind == TRUE_KIND
        return _GOOD
    if kind == NUMBER:
        status = read_number(at, size, &number)
        if status:
            return status
        if number.is_double:
            return _GOOD if rounded(number.value, out) else _UNFIT
        if number.magnitude > <uint64_t>0x7FFFFFFFFFFFFFFF + number.negative:
            return _UNFIT
        out[0] = <int64_t>(~number.magnitude + 1) if number.negative else <int64_t>number.magnitude
        return _GOOD
    if kind != STRING:
        return _UNFIT
    if parse_integer(at, size, out):
        return _GOOD
    with gil:
        return _GOOD if parse_double(at, size, &value) and rounded(value, out) else _UNFIT


def integers(
    const uint8_t[::1] data, const uint8_t[::1] kinds, const int64_t[::1] starts, const int64_t[::1] sizes,
    int64_t[::1] out, uint8_t[::1] out_valid,
):
    """Items as integers; nothing and null are null. Returns (-1, 0), or the row that is none, and why."""
    cdef void *to = &out[0] if out.shape[0] > 0 else NULL
    return read_items(data, kinds, starts, sizes, as_integer, to, 8, out_valid)


cdef int as_double(const uint8_t *at, int64_t size, uint8_t kind, void *to) noexcept nogil:
    cdef double *out = <double *>to
    cdef Number number
    cdef int status
    if kind == NUMBER:
        status = read_number(at, size, &number)
        out[0] = number.value
        return status
    if kind == TRUE_KIND or kind == FALSE_KIND:
        out[0] = kind == TRUE_KIND
        return _GOOD
    if kind != STRING:
        return _UNFIT
    with gil:
        return _GOOD if parse_double(at, size, out) else _UNFIT


def floats(
    const uint8_t[::1] data, const uint8_t[::1] kinds, const int64_t[::1] starts, const int64_t[::1] sizes,
    double[::1] out, uint8_t[::1] out_valid,
):
    """The same as doubles."""
    cdef void *to = &out[0] if out.shape[0] > 0 else NULL
    return read_items(data, kinds, starts, sizes, as_double, to, 8, out_valid)


cdef bint is_word(const uint8_t *at, int64_t size, const char *name, int64_t length) noexcept nogil:
    cdef int64_t i
    cdef uint8_t c
    if size != length:
        return False
    for i in range(size):
        c = at[i]
        if 65 <= c <= 90:
            c |= 32
        if c != <uint8_t>name[i]:
            return False
    return True


cdef int as_truth(const uint8_t *at, int64_t size, uint8_t kind, void *to) noexcept nogil:
    cdef uint8_t *out = <uint8_t *>to
    if kind == TRUE_KIND or kind == FALSE_KIND:
        out[0] = kind == TRUE_KIND
    elif kind == STRING and (is_word(at, size, b"true", 4) or is_word(at, size, b"yes", 3)):
        out[0] = 1
    elif not (kind == STRING and (is_word(at, size, b"false", 5) or is_word(at, size, b"no", 2))):
        return _UNFIT
    return _GOOD


def truths(
    const uint8_t[::1] data, const uint8_t[::1] kinds, const int64_t[::1] starts, const int64_t[::1] sizes,
    uint8_t[::1] out, uint8_t[::1] out_valid,
):
    """The same as true (1) or false (0); also the words true, yes, false and no."""
    cdef void *to = &out[0] if out.shape[0] > 0 else NULL
    return read_items(data, kinds, starts, sizes, as_truth, to, 1, out_valid)


cdef int put_plain(Text *out, const uint8_t *at, int64_t size, uint8_t kind) noexcept nogil:
    """A value as text without quotes."""
    cdef Number number
    cdef int status
    if kind == STRING:
        return put(out, <const char *>at, size)
    if kind == TRUE_KIND:
        return put(out, b"true", 4)
    if kind == FALSE_KIND:
        return put(out, b"false", 5)
    if kind != NUMBER:
        return _UNFIT
    status = read_number(at, size, &number)
    if status or not number.is_double or isfinite(number.value):
        return status or put_number(out, at, size)
    if number.value != number.value:
        return put(out, b"NaN", 3)
    return put(out, b"inf", 3) if number.value > 0 else put(out, b"-inf", 4)


def texts(
    const uint8_t[::1] data, const uint8_t[::1] kinds, const int64_t[::1] starts, const int64_t[::1] sizes,
    int64_t[::1] out_offsets, uint8_t[::1] out_valid,
):
    """The same as texts. Returns the texts, and as before."""
    cdef Py_ssize_t i = 0, n = kinds.shape[0]
    cdef int status = _GOOD
    cdef Text out
    cdef const uint8_t *base = &data[0] if data.shape[0] > 0 else NULL
    out.data = NULL
    out.size = out.room = 0
    with nogil:
        out_offsets[0] = 0
        for i in range(n):
            out_valid[i] = kinds[i] != _NOTHING and kinds[i] != NULL_KIND
            if out_valid[i]:
                status = put_plain(&out, base + starts[i], sizes[i], kinds[i])
                if status:
                    break
            out_offsets[i + 1] = out.size
    found = taken(&out)
    if status:
        return b"", i, status
    return found, -1, 0


cdef inline bint is_array(const uint8_t *at, int64_t size) noexcept nogil:
    """Whether a container is an array."""
    return size >= 4 and at[0] >> 5 == 4


cdef int as_tag(const uint8_t *at, int64_t size, uint8_t kind, void *to) noexcept nogil:
    cdef uint8_t *out = <uint8_t *>to
    cdef Number number
    cdef int status
    if kind == TRUE_KIND or kind == FALSE_KIND:
        out[0] = 1
    elif kind == STRING:
        out[0] = 4
    elif kind == CONTAINER:
        out[0] = 5 if is_array(at, size) else 6
    elif kind == NUMBER:
        status = read_number(at, size, &number)
        if status:
            return status
        out[0] = 3 if number.is_double or number.magnitude > <uint64_t>0x7FFFFFFFFFFFFFFF + number.negative else 2
    return _GOOD


def type_tags(
    const uint8_t[::1] data, const uint8_t[::1] kinds, const int64_t[::1] starts, const int64_t[::1] sizes,
    uint8_t[::1] out,
):
    """0 null, 1 boolean, 2 integer of 64 bits, 3 another number, 4 text, 5 array, 6 object. Returns as ``integers``."""
    cdef void *to = &out[0] if out.shape[0] > 0 else NULL
    return read_items(data, kinds, starts, sizes, as_tag, to, 1, None)


cdef int as_length(const uint8_t *at, int64_t size, uint8_t kind, void *to) noexcept nogil:
    if kind == CONTAINER and is_array(at, size):
        (<int64_t *>to)[0] = word(at) & 0x1FFFFFFF
    return _GOOD


def array_sizes(
    const uint8_t[::1] data, const uint8_t[::1] kinds, const int64_t[::1] starts, const int64_t[::1] sizes,
    int64_t[::1] out,
):
    """How many elements arrays have; 0 for what is no array. Returns as ``integers``, though no row is refused."""
    cdef void *to = &out[0] if out.shape[0] > 0 else NULL
    return read_items(data, kinds, starts, sizes, as_length, to, 8, None)


def arrays_with(
    const uint8_t[::1] data, const int64_t[::1] ends, const uint8_t[::1] kinds, const int64_t[::1] starts,
    const int64_t[::1] sizes, const uint8_t[::1] wanted, uint8_t[::1] out,
):
    """Rows with an array, among their items, of which an element has this text, in quotes or not.

    Returns (-1, 0), or the row that lies, and why.
    """
    cdef Py_ssize_t i = 0, n = ends.shape[0] - 1
    cdef int64_t k, e, size = wanted.shape[0]
    cdef int status = _GOOD
    cdef bint holds_elements = False
    cdef int64_t count = 0
    cdef Text text
    cdef Items below
    cdef Item item
    cdef const uint8_t *base = &data[0] if data.shape[0] > 0 else NULL
    cdef const uint8_t *name = &wanted[0] if size > 0 else NULL
    text.data = NULL
    text.size = text.room = 0
    below.data, below.count, below.room = NULL, 0, 0
    with nogil:
        for i in range(n):
            out[i] = 0
            for k in range(ends[i], ends[i + 1]):
                item.kind, item.at, item.size = kinds[k], base + starts[k], sizes[k]
                if item.kind != CONTAINER:
                    continue
                status = shape_of(&item, &holds_elements, &count)
                if status:
                    break
                if not holds_elements:
                    continue
                below.count = 0
                status = children(&item, 0, 0x1FFFFFFF, &below)
                if status:
                    break
                for e in range(below.count):
                    text.size = 0
                    status = put_value(&text, <uint32_t>below.data[e].kind << 28 | <uint32_t>below.data[e].size,
                                       below.data[e].at, 1)
                    if status:
                        break
                    if (text.size == size and memcmp(text.data, name, size) == 0) or (
                        text.size == size + 2 and text.data[0] == 34 and text.data[size + 1] == 34
                        and memcmp(text.data + 1, name, size) == 0
                    ):
                        out[i] = 1
                        break
                if status or out[i]:
                    break
            if status:
                break
    free(text.data)
    free(below.data)
    if status:
        return i, status
    return -1, 0

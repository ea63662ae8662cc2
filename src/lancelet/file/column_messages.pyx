# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The metadata of all columns of a file at once (spec file-format.md 1.4).

A table of many columns has a message for each, and many small ones are most of what a small file costs. They are
written as ``column.proto`` says, fields by their numbers::

    column  what is known without pages | 2: page ...
    page    1: offsets of its buffers | 2: their sizes | 3: length | 4: encoding, direct (2: 1: bytes) | 5: priority
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline Py_ssize_t _width(uint64_t number) noexcept nogil:
    cdef Py_ssize_t found = 1
    while number >= 128:
        number >>= 7
        found += 1
    return found


cdef inline uint8_t *_number(uint8_t *out, uint64_t number) noexcept nogil:
    while number >= 128:
        out[0] = <uint8_t>(number & 127 | 128)
        number >>= 7
        out += 1
    out[0] = <uint8_t>number
    return out + 1


cdef inline uint8_t *_field(uint8_t *out, int tag, uint64_t number) noexcept nogil:
    out[0] = <uint8_t>tag
    return _number(out + 1, number)


cdef Py_ssize_t _packed(list numbers) except -1:
    cdef Py_ssize_t found = 0
    cdef uint64_t number
    for number in numbers:
        found += _width(number)
    return found


cdef uint8_t *_pack(uint8_t *out, list numbers) except NULL:
    cdef uint64_t number
    for number in numbers:
        out = _number(out, number)
    return out


cdef bytes _page(uint64_t length, uint64_t priority, bytes described, list offsets, list sizes):
    """A page with its tag and size."""
    cdef Py_ssize_t shown = PyBytes_GET_SIZE(described), places = _packed(offsets), lengths = _packed(sizes)
    cdef Py_ssize_t direct = 1 + _width(shown) + shown, encoding = 1 + _width(direct) + direct, total
    cdef bytes made
    cdef uint8_t *out
    total = 1 + _width(encoding) + encoding
    if places:
        total += 1 + _width(places) + places
    if lengths:
        total += 1 + _width(lengths) + lengths
    if length:
        total += 1 + _width(length)
    if priority:
        total += 1 + _width(priority)
    made = PyBytes_FromStringAndSize(NULL, 1 + _width(total) + total)
    out = _field(<uint8_t *>PyBytes_AS_STRING(made), 0x12, total)
    if places:
        out = _pack(_field(out, 0x0A, places), offsets)
    if lengths:
        out = _pack(_field(out, 0x12, lengths), sizes)
    if length:
        out = _field(out, 0x18, length)
    out = _field(_field(_field(out, 0x22, encoding), 0x12, direct), 0x0A, shown)
    memcpy(out, PyBytes_AS_STRING(described), shown)
    out += shown
    if priority:
        _field(out, 0x28, priority)
    return made


def column_messages(list columns, uint64_t at):
    """The messages back to back, and the table of where each is and how long, if the first is at ``at``.

    A column is what is known of it without pages, and its pages: length, priority, encoding, offsets and sizes of the
    buffers.
    """
    cdef list parts = []
    cdef bytes head, piece, table = PyBytes_FromStringAndSize(NULL, 16 * len(columns))
    cdef list pages
    cdef tuple page
    cdef uint64_t[2] place
    cdef Py_ssize_t i = 0
    for head, pages in columns:
        parts.append(head)
        place[0], place[1] = at, PyBytes_GET_SIZE(head)
        for page in pages:
            piece = _page(page[0], page[1], page[2], page[3], page[4])
            parts.append(piece)
            place[1] += PyBytes_GET_SIZE(piece)
        memcpy(<uint8_t *>PyBytes_AS_STRING(table) + 16 * i, place, 16)
        at += place[1]
        i += 1
    return b"".join(parts), table

"""Split the bytes of a row id or version sequence into its entries.

Updates write one range for each row, so that a sequence can have as many
messages as rows; making a Python object of each would dominate a scan. Plain
ranges are read here, in the one form that serializers write::

    RowIdSequence              repeated 0a <length> <segment>
    RowDatasetVersionSequence  repeated 0a <length> [0a <length> <segment>] [10 <version>]
    segment that is a range    0a <length> [08 <start>] [10 <end>]

Whatever looks different is left to the protobuf library.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from lancelet.table.rows.varint cimport read_varint

import numpy as np


cdef bint read_block(const uint8_t* data, Py_ssize_t* at, Py_ssize_t stop, Py_ssize_t* end) noexcept nogil:
    """Enter a block behind the tag 0a; ``end`` is where it ends."""
    cdef uint64_t length = 0
    if at[0] >= stop or data[at[0]] != 0x0A:
        return False
    at[0] += 1
    if not read_varint(data, at, stop, &length) or length > <uint64_t>(stop - at[0]):
        return False
    end[0] = at[0] + <Py_ssize_t>length
    return True


cdef bint read_number(const uint8_t* data, Py_ssize_t* at, Py_ssize_t stop, uint8_t tag, uint64_t* value) noexcept nogil:
    """A number behind ``tag``, or 0 when it is left out."""
    value[0] = 0
    if at[0] < stop and data[at[0]] == tag:
        at[0] += 1
        return read_varint(data, at, stop, value)
    return True


cdef bint read_range(const uint8_t* data, Py_ssize_t at, Py_ssize_t stop, uint64_t* start, uint64_t* end) noexcept nogil:
    cdef Py_ssize_t inner = 0
    if not read_block(data, &at, stop, &inner) or inner != stop:
        return False
    if not read_number(data, &at, inner, 0x08, start) or not read_number(data, &at, inner, 0x10, end):
        return False
    return at == inner


def split_entries(const uint8_t[::1] data, bint versioned):
    """Entries of a sequence, or None when it is not in the plain form.

    Returns ``(is_range, starts, ends, versions, firsts, lasts)``; ``data[firsts[i]:lasts[i]]`` is the segment of
    entry *i*, to be parsed where ``is_range`` is false.
    """
    cdef Py_ssize_t size = data.shape[0], at = 0, end = 0, inner = 0, count = 0, index = 0
    cdef const uint8_t* bytes_ = &data[0] if size else NULL
    cdef bint good = True
    while at < size:
        if not read_block(bytes_, &at, size, &end):
            return None
        at = end
        count += 1
    is_range = np.zeros(count, np.bool_)
    starts, ends, versions = np.zeros(count, np.uint64), np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    firsts, lasts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    cdef uint8_t[::1] out_is_range = is_range.view(np.uint8)
    cdef uint64_t[::1] out_starts = starts
    cdef uint64_t[::1] out_ends = ends
    cdef uint64_t[::1] out_versions = versions
    cdef int64_t[::1] out_firsts = firsts
    cdef int64_t[::1] out_lasts = lasts
    with nogil:
        at = 0
        for index in range(count):
            read_block(bytes_, &at, size, &end)
            inner = end
            if versioned:
                inner = at
                if at < end and bytes_[at] == 0x0A:
                    if not read_block(bytes_, &at, end, &inner):
                        good = False
                        break
            out_firsts[index] = at
            out_lasts[index] = inner
            out_is_range[index] = read_range(bytes_, at, inner, &out_starts[index], &out_ends[index])
            at = inner
            if versioned:
                if not read_number(bytes_, &at, end, 0x10, &out_versions[index]) or at != end:
                    good = False
                    break
    return (is_range, starts, ends, versions, firsts, lasts) if good else None

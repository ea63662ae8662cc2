"""Take the bytes of a Manifest message apart: its fragments, each still as bytes, and the rest.

Versions of a table share most of their fragments, byte for byte. Whoever reads
hundreds of versions compares these bytes and parses only what is new.
"""

from libc.stdint cimport uint8_t, uint64_t

from lancelet.table.rows.varint cimport read_varint

cdef enum:
    FRAGMENT = 0x12  # field 2, behind a length


def split_manifest(bytes data not None):
    """``(rest, fragments)``; None when the bytes are not plainly fields one after another."""
    cdef const uint8_t* raw = data
    cdef Py_ssize_t stop = len(data)
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t kept = 0  # where the run of other fields begins that ends at `begin`
    cdef uint64_t tag = 0
    cdef uint64_t length = 0
    cdef list fragments = []
    cdef list rest = []
    while at < stop:
        begin = at
        if not read_varint(raw, &at, stop, &tag):
            return None
        if tag & 7 == 0:
            if not read_varint(raw, &at, stop, &length):
                return None
            continue
        elif tag & 7 == 1:
            length = 8
        elif tag & 7 == 5:
            length = 4
        elif tag & 7 != 2 or not read_varint(raw, &at, stop, &length):
            return None
        if length > <uint64_t>(stop - at):
            return None
        if tag == FRAGMENT:
            fragments.append(raw[at:at + <Py_ssize_t>length])
            if kept < begin:
                rest.append(raw[kept:begin])
            kept = at + <Py_ssize_t>length
        at += <Py_ssize_t>length
    if kept < stop:
        rest.append(raw[kept:stop])
    return b"".join(rest), fragments

# Numbers as protobuf writes them: seven bits to a byte, the low ones first.

from libc.stdint cimport uint8_t, uint64_t


cdef inline bint read_varint(const uint8_t* data, Py_ssize_t* at, Py_ssize_t stop, uint64_t* value) noexcept nogil:
    """Read a number and step behind it; False when it does not end before ``stop`` or has more than 64 bits."""
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while at[0] < stop and shift < 70:
        byte = data[at[0]]
        at[0] += 1
        if shift == 63 and byte > 1:
            return False
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = result
            return True
        shift += 7
    return False

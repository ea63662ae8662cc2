# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""How many bytes an LZ4 block really expands to.

Arrow's decoder is told the size and does not say when the block ends early; what
it did not write is old memory. A block is a chain of sequences::

    token (high nibble: literals, low nibble: match - 4; 15 = more bytes follow)
    literals | u16 match offset | ...          the last sequence ends after its literals
"""

from libc.stdint cimport int64_t, uint8_t


def block_size(const uint8_t[::1] block):
    """The expanded size, or -1 if the chain of sequences leaves the block."""
    cdef Py_ssize_t at = 0, end = block.shape[0]
    cdef int64_t total = 0, literals, match
    cdef uint8_t token, more
    with nogil:
        while at < end:
            token = block[at]
            at += 1
            literals = token >> 4
            if literals == 15:
                more = 255
                while more == 255:
                    if at >= end:
                        with gil:
                            return -1
                    more = block[at]
                    at += 1
                    literals += more
            if literals > end - at:
                with gil:
                    return -1
            at += literals
            total += literals
            if at == end:
                break
            if end - at < 2:
                with gil:
                    return -1
            at += 2
            match = token & 15
            if match == 15:
                more = 255
                while more == 255:
                    if at >= end:
                        with gil:
                            return -1
                    more = block[at]
                    at += 1
                    match += more
            total += match + 4
    return total

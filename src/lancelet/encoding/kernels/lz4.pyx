# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""LZ4 blocks: how many bytes one really expands to, and these bytes of a small one.

Arrow's decoder is told the size and does not say when the block ends early; what
it did not write is old memory. A block is a chain of sequences::

    token (high nibble: literals, low nibble: match - 4; 15 = more bytes follow)
    literals | u16 match offset | ...          the last sequence ends after its literals
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from lancelet.encoding.kernels.words cimport half_at, word_at

cdef enum:
    SPARE = 64  # bytes behind what was expanded, so that short pieces of it can be copied as long ones


cdef inline bint _extended(const uint8_t *block, int64_t end, int64_t *at, int64_t *length) noexcept nogil:
    """Add the bytes that go on with a length of 15; False where the block ends before they do."""
    cdef uint8_t more = 255
    while more == 255:
        if at[0] >= end:
            return False
        more = block[at[0]]
        at[0] += 1
        length[0] += more
    return True


def block_size(const uint8_t[::1] block):
    """The expanded size, or -1 if the chain of sequences leaves the block."""
    cdef int64_t at = 0, end = block.shape[0], total = 0, literals, match
    cdef uint8_t token
    with nogil:
        while at < end:
            token = block[at]
            at += 1
            literals = token >> 4
            if literals == 15 and not _extended(&block[0], end, &at, &literals):
                with gil:
                    return -1
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
            if match == 15 and not _extended(&block[0], end, &at, &match):
                with gil:
                    return -1
            total += match + 4
    return total


cdef bint _expand(const uint8_t *block, int64_t end, uint8_t *out, int64_t size) noexcept nogil:
    """Expand a block that holds just so many bytes."""
    cdef int64_t at = 0, done = 0, literals, match, back, k
    cdef uint8_t token
    while at < end:
        token = block[at]
        at += 1
        literals = token >> 4
        if literals == 15 and not _extended(block, end, &at, &literals):
            return False
        if literals > end - at or literals > size - done:
            return False
        memcpy(out + done, block + at, literals)
        at += literals
        done += literals
        if at == end:
            break
        if end - at < 2:
            return False
        back = word_at(block + at)
        at += 2
        match = token & 15
        if match == 15 and not _extended(block, end, &at, &match):
            return False
        match += 4
        if back == 0 or back > done or match > size - done:
            return False
        for k in range(match):
            out[done + k] = out[done + k - back]
        done += match
    return done == size


cdef uint8_t *inflate(const uint8_t **at, int64_t *size, int64_t most) noexcept nogil:
    """A block behind its size, as new memory that ``at`` and ``size`` tell of from then on; NULL where it is damaged or too large."""
    cdef int64_t expanded
    cdef uint8_t *out
    if size[0] < 4:
        return NULL
    expanded = half_at(at[0])
    if expanded > most or expanded > 255 * (size[0] - 4):
        return NULL
    out = <uint8_t *>malloc(expanded + SPARE)
    if out == NULL or not _expand(at[0] + 4, size[0] - 4, out, expanded):
        free(out)
        return NULL
    at[0] = out
    size[0] = expanded
    return out

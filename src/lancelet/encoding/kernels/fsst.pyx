# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""FSST expansion (spec encodings.md 6.7).

A code below 255 stands for a symbol of 1 to 8 bytes; 255 says that the next
byte is meant literally. Symbols are stored padded to 8 bytes, so expansion
writes 8 bytes and advances by the symbol's length: the output needs 8 spare bytes.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

SPARE = 8


def expanded_size(const uint8_t[::1] codes, const uint8_t[::1] lengths):
    """Upper bound of the expanded size of all values: what the codes say, escapes counted as one byte each."""
    cdef Py_ssize_t i, n = codes.shape[0]
    cdef int64_t a = 0, b = 0, c = 0, d = 0
    cdef uint8_t[256] size
    if lengths.shape[0] != 256:
        raise ValueError("a symbol table has 256 lengths")
    for i in range(256):
        size[i] = lengths[i]
    size[255] = 1
    with nogil:
        for i in range(0, n - 3, 4):
            a += size[codes[i]]
            b += size[codes[i + 1]]
            c += size[codes[i + 2]]
            d += size[codes[i + 3]]
        for i in range(n - n % 4, n):
            a += size[codes[i]]
    return a + b + c + d


def expand(
    const uint8_t[::1] codes, const int64_t[::1] offsets, const uint64_t[::1] symbols, const uint8_t[::1] lengths,
    int64_t[::1] out_offsets, uint8_t[::1] out,
):
    """Expand value i = codes[offsets[i]:offsets[i + 1]]; returns -1, or the index of the value that lies."""
    cdef Py_ssize_t i, n = offsets.shape[0] - 1
    cdef int64_t done = 0, at, end, limit = out.shape[0] - SPARE, size = codes.shape[0]
    cdef uint8_t code
    cdef bint roomy
    cdef uint64_t[256] symbol
    cdef int64_t[256] step
    cdef const uint8_t *source
    cdef uint8_t *target
    if n < 0 or symbols.shape[0] != 256 or lengths.shape[0] != 256 or out_offsets.shape[0] != n + 1 or limit < 0:
        return 0
    # Copies of our own: writes to the output cannot touch them, so they stay in registers and cache.
    for i in range(256):
        if lengths[i] > 8:
            return 0
        symbol[i] = symbols[i]
        step[i] = lengths[i]
    source = &codes[0] if size > 0 else NULL
    target = &out[0]
    with nogil:
        out_offsets[0] = 0
        for i in range(n):
            at = offsets[i]
            end = offsets[i + 1]
            if at < 0 or end < at or end > size:
                with gil:
                    return i
            # A code makes at most 8 bytes: when all of them fit, none needs a check of its own.
            roomy = (limit - done) // 8 >= end - at
            while at < end:
                if not roomy and done > limit:
                    with gil:
                        return i
                code = source[at]
                at += 1
                if code != 255:
                    memcpy(target + done, &symbol[code], 8)
                    done += step[code]
                elif at < end:
                    target[done] = source[at]
                    at += 1
                    done += 1
                else:
                    with gil:
                        return i
            out_offsets[i + 1] = done
    return -1

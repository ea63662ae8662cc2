# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Signatures of texts: for each of many hash functions the least hash of all runs of tokens in a text, cut to 16 bits.

A run is ``shingle`` tokens in a row, joined by the byte 0x1F; a shorter text is one run. Of the hash x of a run, function i
makes a[i] * x + b[i]; of the least of these the signature keeps the upper bits of its product with c[i].
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from lancelet.index.scalar.bloom cimport xxh64

cdef enum:
    SEED = 42
    SEPARATOR = 0x1F


def sign(
    const uint8_t[::1] data, const int64_t[::1] offsets, const uint32_t[::1] terms, const int64_t[::1] starts,
    int64_t shingle, const uint64_t[::1] a, const uint64_t[::1] b, const uint64_t[::1] c, uint16_t[:, ::1] out,
):
    """The signatures of texts: the terms of text i are those from ``starts[i]`` to ``starts[i + 1]``, at least one.

    The bytes of term t are ``data[offsets[t]:offsets[t + 1]]``.
    """
    cdef Py_ssize_t count = starts.shape[0] - 1, hashes = a.shape[0], i, h
    cdef int64_t known = offsets.shape[0] - 1, first, last, at, k, size, length, room = 0
    cdef uint64_t x, value
    cdef uint64_t *least
    cdef uint8_t *scratch = NULL
    cdef uint8_t *grown
    cdef bint good = True
    if b.shape[0] != hashes or c.shape[0] != hashes or out.shape[0] != count or out.shape[1] != hashes or shingle < 1:
        raise ValueError("arrays of one length are needed")
    for i in range(count):
        if starts[i] < 0 or starts[i + 1] <= starts[i] or starts[i + 1] > terms.shape[0]:
            raise ValueError("every text needs a term")
    for i in range(terms.shape[0]):
        if terms[i] >= known:
            raise ValueError("terms without bytes")
    for i in range(known):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > data.shape[0]:
            raise ValueError("offsets that ascend within the bytes are needed")
    least = <uint64_t *>malloc(max(hashes, 1) * sizeof(uint64_t))
    if least == NULL:
        raise MemoryError
    with nogil:
        for i in range(count):
            for h in range(hashes):
                least[h] = 0xFFFFFFFFFFFFFFFF
            first = starts[i]
            last = max(starts[i + 1] - shingle, first)
            for at in range(first, last + 1):
                size = 0
                for k in range(at, min(at + shingle, starts[i + 1])):
                    length = offsets[terms[k] + 1] - offsets[terms[k]]
                    if size + length + 1 > room:
                        grown = <uint8_t *>realloc(scratch, 2 * (size + length) + 64)
                        if grown == NULL:
                            good = False
                            break
                        scratch = grown
                        room = 2 * (size + length) + 64
                    if k > at:
                        scratch[size] = SEPARATOR
                        size += 1
                    if length:
                        memcpy(scratch + size, &data[offsets[terms[k]]], length)
                    size += length
                if not good:
                    break
                x = xxh64(scratch, size, SEED)
                for h in range(hashes):
                    value = a[h] * x + b[h]
                    if value < least[h]:
                        least[h] = value
            if not good:
                break
            for h in range(hashes):
                out[i, h] = <uint16_t>((c[h] * least[h]) >> 48)
    free(least)
    free(scratch)
    if not good:
        raise MemoryError

"""Trigrams of texts: which rows have which.

A trigram is a number: the codes of its three letters or digits as digits to the base 37. Codes of capitals, which only
unusual characters become, are above the base, so numbers can be larger than 37 ** 3, and meet.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc

import numpy as np

cdef enum:
    BASE = 37
    SEPARATOR = 0x80
    TOKENS = 255 * BASE * BASE + 255 * BASE + 255 + 1
    SPREAD = 2

NULL_TOKEN = 0
"""Of the rows without a text."""
TOKEN_LIMIT = TOKENS


cdef struct Found:
    uint32_t * tokens
    int64_t used
    int64_t space


cdef inline bint has_space(Found * found, int64_t more) noexcept nogil:
    cdef uint32_t * larger
    cdef int64_t space
    if found.used + more <= found.space:
        return True
    space = found.space * 2 + more
    larger = <uint32_t *>realloc(found.tokens, space * sizeof(uint32_t))
    if larger == NULL:
        return False
    found.tokens = larger
    found.space = space
    return True


cdef inline uint32_t next_character(const uint8_t * data, int64_t * at, int64_t stop) noexcept nogil:
    """The character of several bytes that begins here; one that nothing is known of when the bytes are none."""
    cdef uint8_t first = data[at[0]]
    cdef uint32_t character
    cdef int more, i
    if first >= 0xF0:
        character, more = first & 7, 3
    elif first >= 0xE0:
        character, more = first & 15, 2
    else:
        character, more = first & 31, 1
    at[0] += 1
    for i in range(more):
        if at[0] >= stop or data[at[0]] & 0xC0 != 0x80:
            return 0xFFFFFFFF
        character = character << 6 | (data[at[0]] & 0x3F)
        at[0] += 1
    return character


cdef inline void see(Found * found, uint32_t * last, int64_t * counts, uint32_t row, uint32_t token) noexcept nogil:
    if last[token] != row:
        last[token] = row
        counts[token] += 1
        found.tokens[found.used] = token
        found.used += 1


cdef void read_text(
    Found * found, uint32_t * last, int64_t * counts, uint32_t row, const uint8_t * data, int64_t at, int64_t stop,
    const uint64_t * table, uint64_t limit,
) noexcept nogil:
    cdef uint32_t first = 0, second = 0, third, character
    cdef uint64_t codes
    cdef int held = 0, count
    while at < stop:
        character = data[at]
        if character < 0x80:
            at += 1
        else:
            character = next_character(data, &at, stop)
        codes = table[character] if character < limit else 0
        count = codes & 0xFF
        if count == 0:
            held = 0
            continue
        while count:
            codes >>= 8
            count -= 1
            third = codes & 0xFF
            if third == SEPARATOR:
                held = 0
                continue
            if held >= 2:
                see(found, last, counts, row, (first * BASE + second) * BASE + third)
            else:
                held += 1
            first = second
            second = third


def sorted_postings(
    const uint8_t[::1] data, const int64_t[::1] offsets, const uint8_t[::1] valid, const uint64_t[::1] table,
):
    """Which texts have which trigrams.

    Texts whose ``valid`` is 0 have the token ``NULL_TOKEN``. ``table`` is that of :mod:`lancelet.index.scalar.folding`.

    Returns
    -------
    tuple of arrays
        The tokens that occur, in ascending order; how many texts have each; and these texts' numbers, ascending, token
        by token.
    """
    cdef Py_ssize_t rows = offsets.shape[0] - 1
    cdef Py_ssize_t i, k
    cdef int64_t length, at, total
    cdef bint some = valid.shape[0] > 0
    cdef bint good = rows >= 0 and rows < 0xFFFFFFFF and (not some or valid.shape[0] == rows)
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    cdef Found found
    if good:
        for i in range(rows):
            if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > data.shape[0]:
                good = False
                break
    if not good or not table.shape[0]:
        raise ValueError("offsets that ascend within the bytes are needed")
    last_array, counts_array = np.zeros(TOKENS, np.uint32), np.zeros(TOKENS, np.int64)
    ends_array = np.empty(rows, np.int64)
    cdef uint32_t[::1] last = last_array
    cdef int64_t[::1] counts = counts_array
    cdef int64_t[::1] ends = ends_array
    found.used = 0
    found.space = 1024
    found.tokens = <uint32_t *>malloc(found.space * sizeof(uint32_t))
    good = found.tokens != NULL
    with nogil:
        for i in range(rows):
            if not good:
                break
            length = offsets[i + 1] - offsets[i]
            # No character becomes more than twice as many as it has bytes, and no text has a trigram twice here.
            good = has_space(&found, min(SPREAD * length, <int64_t>TOKENS) + 1)
            if good:
                if some and not valid[i]:
                    see(&found, &last[0], &counts[0], i + 1, 0)
                else:
                    read_text(
                        &found, &last[0], &counts[0], i + 1, start, offsets[i], offsets[i + 1], &table[0], table.shape[0]
                    )
                ends[i] = found.used
    if not good:
        free(found.tokens)
        raise MemoryError
    tokens = np.flatnonzero(counts_array).astype(np.uint32)
    sizes = counts_array[tokens]
    texts_array = np.empty(found.used, np.uint32)
    cdef uint32_t[::1] texts = texts_array
    with nogil:
        total = 0
        for k in range(TOKENS):
            at = counts[k]
            counts[k] = total
            total += at
        k = 0
        for i in range(rows):
            while k < ends[i]:
                texts[counts[found.tokens[k]]] = i
                counts[found.tokens[k]] += 1
                k += 1
    free(found.tokens)
    return tokens, sizes, texts_array

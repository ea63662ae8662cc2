# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Byte strings of a page: what they are like, which are distinct, and their chunks (spec encodings.md 6.2)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    """
    #define lancelet_fetch(place) __builtin_prefetch(place)
    """
    void lancelet_fetch(const void *place) nogil

cdef enum:
    AHEAD = 32
    FAR = 1 << 14  # words of a table that the nearest caches have no room for

ctypedef fused offset_t:
    int32_t
    int64_t


def survey(const offset_t[::1] offsets, const uint8_t[::1] data):
    """(longest value, whether all values are equal)."""
    cdef Py_ssize_t i, n = offsets.shape[0] - 1
    cdef int64_t length, longest = 0, first
    cdef bint equal = True
    _check(offsets, data)
    if n <= 0:
        return 0, True
    first = <int64_t>offsets[1] - offsets[0]
    with nogil:
        for i in range(n):
            length = <int64_t>offsets[i + 1] - offsets[i]
            if length > longest:
                longest = length
            equal &= length == first
        if equal and first > 0:
            for i in range(1, n):
                if memcmp(&data[offsets[i]], &data[offsets[0]], first) != 0:
                    equal = False
                    break
    return longest, equal


cdef int _check(const offset_t[::1] offsets, const uint8_t[::1] data) except -1:
    cdef Py_ssize_t i, n = offsets.shape[0] - 1
    cdef bint falls = False
    if n < 0:
        raise ValueError("no offsets")
    for i in range(n):
        falls |= offsets[i + 1] < offsets[i]
    if falls or offsets[0] < 0 or offsets[n] > data.shape[0]:
        raise ValueError("value offsets do not rise within the data")
    return 0


def plan_chunks(const offset_t[::1] offsets, int64_t word, int64_t target, int64_t largest, int64_t[::1] counts):
    """Values of each chunk: a power of two whose offsets and bytes fit into ``target``, or two; the last has the rest."""
    cdef int64_t n = offsets.shape[0] - 1, start = 0, chunk = 0, take, size
    if counts.shape[0] < n // 2 + 1:
        raise ValueError("output is too small")
    with nogil:
        while start < n:
            size = <int64_t>offsets[n] - offsets[start] + (n - start + 1) * word
            if n - start <= 2 or (size <= target and n - start <= largest):
                take = n - start
            else:
                take = 2
                while take * 2 <= min(n - start, largest):
                    if <int64_t>offsets[start + take * 2] - offsets[start] + (take * 2 + 1) * word > target:
                        break
                    take *= 2
            counts[chunk] = take
            chunk += 1
            start += take
    return chunk


def write_chunks(const offset_t[::1] offsets, const uint8_t[::1] data, int word, const int64_t[::1] counts,
                 uint8_t[::1] out, int64_t[::1] sizes):
    """Chunk after chunk: offsets from the chunk's start in words of 4 or 8 bytes, then the bytes, padded to a word."""
    cdef Py_ssize_t c, chunks = counts.shape[0]
    cdef int64_t start = 0, at = 0, i, base, length, n = offsets.shape[0] - 1, need
    cdef uint32_t four
    cdef uint64_t eight
    _check(offsets, data)
    need = <int64_t>offsets[n] - offsets[0]
    for c in range(chunks):
        start += counts[c]
        need += (counts[c] + 2) * word
        if counts[c] < 0:
            raise ValueError("a negative count")
    if start != n or out.shape[0] < need or sizes.shape[0] < chunks or word not in (4, 8):
        raise ValueError("output is too small")
    start = 0
    with nogil:
        for c in range(chunks):
            base = (counts[c] + 1) * word - <int64_t>offsets[start]
            if word == 4:
                for i in range(counts[c] + 1):
                    four = <uint32_t>(base + offsets[start + i])
                    memcpy(&out[at + 4 * i], &four, 4)
            else:
                for i in range(counts[c] + 1):
                    eight = <uint64_t>(base + offsets[start + i])
                    memcpy(&out[at + 8 * i], &eight, 8)
            length = <int64_t>offsets[start + counts[c]] - offsets[start]
            sizes[c] = (counts[c] + 1) * word + length
            if length > 0:
                memcpy(&out[at + (counts[c] + 1) * word], &data[offsets[start]], length)
            while sizes[c] % word:
                out[at + sizes[c]] = 0x48
                sizes[c] += 1
            at += sizes[c]
            start += counts[c]
    return at


cdef inline uint64_t _mix(uint64_t a) noexcept nogil:
    a ^= a >> 32
    a *= <uint64_t>0x9FB21C651E98DF25
    a ^= a >> 29
    return a


cdef inline uint64_t _short(const uint8_t *text, int64_t size) noexcept nogil:
    """Fewer than 8 bytes as a word; strings of one length that differ have words that differ."""
    cdef uint32_t head, tail
    if size >= 4:
        memcpy(&head, text, 4)
        memcpy(&tail, text + size - 4, 4)
        return head | <uint64_t>tail << 32
    if size > 0:
        return text[0] | <uint64_t>text[size // 2] << 8 | <uint64_t>text[size - 1] << 16
    return 0


cdef inline uint64_t _hash(const uint8_t *text, int64_t size) noexcept nogil:
    cdef uint64_t state = <uint64_t>size * <uint64_t>0x9E3779B97F4A7C15, word
    if size < 8:
        return _mix(state ^ _short(text, size))
    while size > 8:
        memcpy(&word, text, 8)
        state = _mix(state ^ word) * <uint64_t>0x9E3779B97F4A7C15
        text += 8
        size -= 8
    # The last word overlaps the one before.
    memcpy(&word, text + size - 8, 8)
    return _mix(state ^ word)


cdef inline bint _same(const uint8_t *a, const uint8_t *b, int64_t size) noexcept nogil:
    """memcmp for short strings, without the call."""
    cdef uint64_t left, right
    if size < 8:
        return _short(a, size) == _short(b, size)
    while size > 8:
        memcpy(&left, a, 8)
        memcpy(&right, b, 8)
        if left != right:
            return False
        a += 8
        b += 8
        size -= 8
    # The last word overlaps the one before.
    memcpy(&left, a + size - 8, 8)
    memcpy(&right, b + size - 8, 8)
    return left == right


cdef inline void _fetch(const uint64_t *codes, int count, const int64_t *table, int64_t mask, const int64_t *firsts,
                        const offset_t *offsets, const uint8_t *text) noexcept nogil:
    """Have what some values will be compared with on its way from memory, for all of them at once."""
    cdef int k
    cdef int64_t other
    for k in range(count):
        lancelet_fetch(&table[codes[k] & <uint64_t>mask])
    for k in range(count):
        other = table[codes[k] & <uint64_t>mask]
        if other >= 0:
            lancelet_fetch(&firsts[other & <int64_t>0xFFFFFFFF])
    for k in range(count):
        other = table[codes[k] & <uint64_t>mask]
        if other >= 0:
            lancelet_fetch(&offsets[firsts[other & <int64_t>0xFFFFFFFF]])
    for k in range(count):
        other = table[codes[k] & <uint64_t>mask]
        if other >= 0:
            lancelet_fetch(text + offsets[firsts[other & <int64_t>0xFFFFFFFF]])


def distinct(const offset_t[::1] offsets, const uint8_t[::1] data, const int64_t[::1] blocks, int64_t block, int64_t cap,
             int64_t[::1] table, uint32_t[::1] indices, int64_t[::1] firsts):
    """Number the distinct values of some blocks of values in the order in which they first occur.

    ``table`` has a power of two of words, more than twice ``cap``. ``indices`` receives the number of each value,
    ``firsts`` where each distinct one occurs first. Returns how many there are, -1 when more than ``cap``."""
    cdef Py_ssize_t b, n = offsets.shape[0] - 1
    cdef int64_t i, j, found = 0, size, slot, mask = table.shape[0] - 1, other, at = 0, stop, start
    cdef int k, some
    cdef uint64_t code
    cdef uint64_t[AHEAD] codes
    cdef bint far = mask >= FAR
    cdef const uint8_t *text = &data[0] if data.shape[0] else NULL
    _check(offsets, data)
    if table.shape[0] & mask or table.shape[0] <= 2 * cap or firsts.shape[0] < cap:
        raise ValueError("table is too small")
    for b in range(blocks.shape[0]):
        if blocks[b] < 0 or blocks[b] >= n:
            raise ValueError("a block outside of the values")
        at += min(blocks[b] + block, n) - blocks[b]
    if indices.shape[0] < at:
        raise ValueError("output is too small")
    at = 0
    with nogil:
        memset(&table[0], 0xFF, table.shape[0] * sizeof(int64_t))
        for b in range(blocks.shape[0]):
            stop = min(blocks[b] + block, n)
            start = blocks[b]
            some = 0
            for i in range(blocks[b], stop):
                if i == start + some:
                    start = i
                    some = <int>min(stop - i, AHEAD)
                    for k in range(some):
                        codes[k] = _hash(text + offsets[i + k], <int64_t>offsets[i + k + 1] - offsets[i + k])
                    if far:
                        _fetch(codes, some, &table[0], mask, &firsts[0], &offsets[0], text)
                size = <int64_t>offsets[i + 1] - offsets[i]
                code = codes[i - start]
                slot = <int64_t>(code & <uint64_t>mask)
                # The upper half of a word is part of the hash: most strangers are told apart without their bytes.
                while True:
                    other = table[slot]
                    if other == -1:
                        if found == cap:
                            with gil:
                                return -1
                        firsts[found] = i
                        table[slot] = <int64_t>((code >> 33) << 32) | found
                        other = found
                        found += 1
                        break
                    if (other >> 32) == <int64_t>(code >> 33):
                        j = firsts[other & <int64_t>0xFFFFFFFF]
                        if <int64_t>offsets[j + 1] - offsets[j] == size and _same(text + offsets[j], text + offsets[i], size):
                            other &= <int64_t>0xFFFFFFFF
                            break
                    slot = (slot + 1) & mask
                indices[at] = <uint32_t>other
                at += 1
    return found


def distinct_words(const uint8_t[::1] data, int64_t item, int64_t cap, int64_t[::1] table, uint32_t[::1] indices,
                   int64_t[::1] firsts):
    """:func:`distinct` for words of ``item`` bytes (8 or 16)."""
    cdef int64_t i, j, n = data.shape[0] // item, found = 0, slot, mask = table.shape[0] - 1, other
    cdef uint64_t code, low, high = 0
    if item not in (8, 16):
        raise ValueError(f"words of {item} bytes")
    if table.shape[0] & mask or table.shape[0] <= 2 * cap or firsts.shape[0] < cap or indices.shape[0] < n:
        raise ValueError("outputs are too small")
    with nogil:
        memset(&table[0], 0xFF, table.shape[0] * sizeof(int64_t))
        for i in range(n):
            memcpy(&low, &data[i * item], 8)
            if item == 16:
                memcpy(&high, &data[i * item + 8], 8)
            code = _mix((low ^ _mix(high)) * <uint64_t>0x9E3779B97F4A7C15)
            slot = <int64_t>(code & <uint64_t>mask)
            while True:
                other = table[slot]
                if other == -1:
                    if found == cap:
                        with gil:
                            return -1
                    firsts[found] = i
                    table[slot] = found
                    other = found
                    found += 1
                    break
                j = firsts[other]
                if memcmp(&data[j * item], &data[i * item], item) == 0:
                    break
                slot = (slot + 1) & mask
            indices[i] = <uint32_t>other
    return found

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Keys as 64-bit words, and finding words in a set of them.

XXH64 is the hash that the format's key filter uses as well (spec table-format.md
7.5)::

    32 bytes or more   four lanes of 8 bytes, merged
    then               words of 8 bytes, one of 4, single bytes
    at last            an avalanche
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

import numpy as np

cdef extern from *:
    """
    #define LC_PREFETCH(p) __builtin_prefetch((p), 0, 1)
    """
    void LC_PREFETCH(const void *) nogil

cdef uint64_t P1 = 11400714785074694791U
cdef uint64_t P2 = 14029467366897019727U
cdef uint64_t P3 = 1609587929392839161U
cdef uint64_t P4 = 9650029242287828579U
cdef uint64_t P5 = 2870177450012600261U

ctypedef struct Slot:
    uint64_t word
    int64_t row

cdef enum:
    AHEAD = 16


cdef inline uint64_t rotate(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline uint64_t lane(uint64_t state, uint64_t word) noexcept nogil:
    return rotate(state + word * P2, 31) * P1


cdef inline uint64_t merge(uint64_t state, uint64_t other) noexcept nogil:
    return (state ^ lane(0, other)) * P1 + P4


cdef inline uint64_t avalanche(uint64_t value) noexcept nogil:
    value = (value ^ (value >> 33)) * P2
    value = (value ^ (value >> 29)) * P3
    return value ^ (value >> 32)


cdef inline uint64_t mixed(uint64_t value) noexcept nogil:
    """Spreads a word over all bits; no two words become one."""
    value = (value ^ (value >> 33)) * <uint64_t>0xff51afd7ed558ccdU
    value = (value ^ (value >> 33)) * <uint64_t>0xc4ceb9fe1a85ec53U
    return value ^ (value >> 33)


cdef uint64_t hash_one(const uint8_t * data, int64_t size) noexcept nogil:
    cdef const uint8_t * at = data
    cdef const uint8_t * stop = data + size
    cdef uint64_t a, b, c, d, word, state
    cdef uint32_t half
    if size >= 32:
        a, b, c, d = P1 + P2, P2, 0, 0 - P1
        while stop - at >= 32:
            memcpy(&word, at, 8)
            a = lane(a, word)
            memcpy(&word, at + 8, 8)
            b = lane(b, word)
            memcpy(&word, at + 16, 8)
            c = lane(c, word)
            memcpy(&word, at + 24, 8)
            d = lane(d, word)
            at += 32
        state = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18)
        state = merge(merge(merge(merge(state, a), b), c), d)
    else:
        state = P5
    state += <uint64_t>size
    while stop - at >= 8:
        memcpy(&word, at, 8)
        state = rotate(state ^ lane(0, word), 27) * P1 + P4
        at += 8
    if stop - at >= 4:
        memcpy(&half, at, 4)
        state = rotate(state ^ (<uint64_t>half * P1), 23) * P2 + P3
        at += 4
    while at < stop:
        state = rotate(state ^ (<uint64_t>at[0] * P5), 11) * P1
        at += 1
    return avalanche(state)


def hash_spans(const uint8_t[::1] data, const int64_t[::1] offsets):
    """XXH64 of the bytes between every two offsets, which ascend and lie within ``data``."""
    cdef Py_ssize_t count = offsets.shape[0] - 1
    out = np.empty(max(count, 0), np.uint64)
    cdef uint64_t[::1] found = out
    cdef Py_ssize_t i
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    with nogil:
        for i in range(count):
            found[i] = hash_one(start + offsets[i], offsets[i + 1] - offsets[i])
    return out


def hash_fixed(const uint8_t[::1] data, Py_ssize_t width):
    """XXH64 of every ``width`` bytes."""
    cdef Py_ssize_t count = data.shape[0] // width
    out = np.empty(count, np.uint64)
    cdef uint64_t[::1] found = out
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            found[i] = hash_one(&data[0] + i * width, width)
    return out


def combine(const uint64_t[::1] left, const uint64_t[::1] right):
    """One word out of two; the order counts."""
    cdef Py_ssize_t count = left.shape[0]
    out = np.empty(count, np.uint64)
    cdef uint64_t[::1] found = out
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            found[i] = mixed(rotate(left[i], 17) * P1 + right[i] + P3)
    return out


def fold_spans(const uint64_t[::1] words, const int64_t[::1] offsets):
    """One word for the words between every two offsets, which ascend and lie within ``words``."""
    cdef Py_ssize_t count = offsets.shape[0] - 1
    out = np.empty(max(count, 0), np.uint64)
    cdef uint64_t[::1] found = out
    cdef Py_ssize_t i
    cdef int64_t k
    cdef uint64_t state
    with nogil:
        for i in range(count):
            state = P5 + <uint64_t>(offsets[i + 1] - offsets[i])
            for k in range(offsets[i], offsets[i + 1]):
                state = mixed(rotate(state, 17) * P1 + words[k] + P3)
            found[i] = state
    return out


def set_bits(const uint64_t[::1] hashes, uint32_t[::1] words):
    """Put hashes into a split-block filter: one bit in each of the 8 words of a block."""
    cdef Py_ssize_t i, k
    cdef uint64_t blocks = words.shape[0] // 8
    cdef uint64_t block
    cdef uint32_t low
    cdef uint32_t[8] salts = [
        0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU, 0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U
    ]
    with nogil:
        for i in range(hashes.shape[0]):
            block = ((hashes[i] >> 32) * blocks) >> 32
            low = <uint32_t>hashes[i]
            for k in range(8):
                words[block * 8 + k] |= <uint32_t>1 << ((low * salts[k]) >> 27)


cdef inline uint64_t spread(uint64_t word) noexcept nogil:
    """A cheap hash, whose upper bits count."""
    return (word ^ (word >> 32)) * P1


cdef class WordIndex:
    """Which rows have a word. Rows that do not count have no entry.

    Slots of a table twice as large as the number of words hold a word and the first of its rows; further rows of
    the same word are a chain, in the order of the rows. A bitmap of 8 to 16 bits a word tells most words that are
    not there, without a look at the table.
    """

    cdef Slot * slots
    cdef uint8_t * seen
    cdef int slot_shift
    cdef int seen_shift
    cdef uint64_t top
    cdef readonly Py_ssize_t num_words
    cdef readonly bint has_repeats
    cdef readonly object following
    """Of each row the next one with the same word, -1 for none; None when no word repeats."""

    def __cinit__(self, const uint64_t[::1] words, const uint8_t[::1] valid=None):
        cdef Py_ssize_t count = words.shape[0]
        cdef int bits = 4
        while (<uint64_t>1 << bits) < <uint64_t>count * 2:
            bits += 1
        self.slot_shift = 64 - bits
        self.seen_shift = 64 - bits - 3
        self.top = (<uint64_t>1 << bits) - 1
        self.slots = <Slot *>malloc((self.top + 1) * sizeof(Slot))
        self.seen = <uint8_t *>calloc(self.top + 1, 1)
        if self.slots == NULL or self.seen == NULL:
            raise MemoryError
        self.following = None
        cdef Py_ssize_t repeats
        with nogil:
            repeats = self.fill(words, valid, NULL)
        self.num_words = count
        self.has_repeats = repeats > 0
        if repeats == 0:
            return
        following = np.full(count, -1, np.int64)
        cdef int64_t[::1] chain = following
        with nogil:
            self.fill(words, valid, &chain[0])
        self.following = following

    def __dealloc__(self):
        free(self.slots)
        free(self.seen)

    cdef Py_ssize_t fill(self, const uint64_t[::1] words, const uint8_t[::1] valid, int64_t * chain) noexcept nogil:
        """Put in the rows from the last to the first, so that chains ascend; returns how many words repeat."""
        cdef Py_ssize_t i, k, repeats = 0
        cdef Py_ssize_t count = words.shape[0]
        cdef bint some = valid is not None
        cdef uint64_t at, hashed
        for at in range(self.top + 1):
            self.slots[at].row = -1
        for i in range(count - 1, -1, -1):
            k = i - AHEAD
            if k >= 0:
                LC_PREFETCH(&self.slots[spread(words[k]) >> self.slot_shift])
            if some and not valid[i]:
                continue
            hashed = spread(words[i])
            at = hashed >> self.seen_shift
            self.seen[at >> 3] |= <uint8_t>(1 << (at & 7))
            at = hashed >> self.slot_shift
            while self.slots[at].row >= 0 and self.slots[at].word != words[i]:
                at = (at + 1) & self.top
            if self.slots[at].row >= 0:
                repeats += 1
                if chain != NULL:
                    chain[i] = self.slots[at].row
            self.slots[at].word = words[i]
            self.slots[at].row = i
        return repeats

    def find(self, const uint64_t[::1] words, const uint8_t[::1] valid=None):
        """Pairs of equal words: positions in ``words``, ascending, and rows of the index."""
        cdef Py_ssize_t count = words.shape[0]
        positions, rows = np.empty(count, np.int64), np.empty(count, np.int64)
        cdef int64_t[::1] places = positions
        cdef int64_t[::1] found = rows
        cdef Py_ssize_t total, i, done = 0
        cdef int64_t[::1] chain
        cdef int64_t row
        with nogil:
            total = self.sieve(words, valid, places)
            total = self.probe(words, places, found, total)
        if self.following is None or total == 0:
            return positions[:total], rows[:total]
        chain = self.following
        with nogil:
            for i in range(total):
                row = found[i]
                while row >= 0:
                    done += 1
                    row = chain[row]
        all_positions, all_rows = np.empty(done, np.int64), np.empty(done, np.int64)
        cdef int64_t[::1] wide_places = all_positions
        cdef int64_t[::1] wide_found = all_rows
        with nogil:
            done = 0
            for i in range(total):
                row = found[i]
                while row >= 0:
                    wide_places[done] = places[i]
                    wide_found[done] = row
                    done += 1
                    row = chain[row]
        return all_positions, all_rows

    cdef Py_ssize_t sieve(
        self, const uint64_t[::1] words, const uint8_t[::1] valid, int64_t[::1] places
    ) noexcept nogil:
        """Where the words are that the bitmap does not rule out."""
        cdef Py_ssize_t i, total = 0
        cdef Py_ssize_t count = words.shape[0]
        cdef uint64_t at
        cdef uint8_t bit
        if valid is None:
            for i in range(count):
                at = spread(words[i]) >> self.seen_shift
                places[total] = i
                total += (self.seen[at >> 3] >> (at & 7)) & 1
            return total
        for i in range(count):
            at = spread(words[i]) >> self.seen_shift
            places[total] = i
            bit = (self.seen[at >> 3] >> (at & 7)) & 1
            total += bit and valid[i]
        return total

    cdef Py_ssize_t probe(
        self, const uint64_t[::1] words, int64_t[::1] places, int64_t[::1] found, Py_ssize_t count
    ) noexcept nogil:
        """Keep the places whose words are in the table, with their first rows."""
        cdef Py_ssize_t i, total = 0
        cdef uint64_t at, word
        cdef int64_t place
        for i in range(count):
            if i + AHEAD < count:
                LC_PREFETCH(&self.slots[spread(words[places[i + AHEAD]]) >> self.slot_shift])
            place = places[i]
            word = words[place]
            at = spread(word) >> self.slot_shift
            while self.slots[at].row >= 0:
                if self.slots[at].word == word:
                    places[total] = place
                    found[total] = self.slots[at].row
                    total += 1
                    break
                at = (at + 1) & self.top
        return total

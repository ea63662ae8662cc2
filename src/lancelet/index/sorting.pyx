# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sorting in bounded memory: words of 64 bits, and spans of bytes. Equal ones keep their order.

Both scatter their input into buckets by the highest bits that differ, then each
bucket in the same way, until a bucket is so small that insertion is quicker::

    words   0110|1001...        bits that all words of a bucket share are skipped
    spans   8 bytes at a time as a big-endian word; those that share them go on with the next 8
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

import numpy as np

cdef extern from *:
    """
    #define LC_BSWAP64(x) __builtin_bswap64(x)
    #define LC_BITS64(x) (64 - __builtin_clzll(x))
    """
    uint64_t LC_BSWAP64(uint64_t) nogil
    int LC_BITS64(uint64_t) nogil

ctypedef struct Entry:
    uint64_t word
    uint32_t at

ctypedef struct Group:
    int64_t start
    int64_t stop
    int64_t depth

cdef enum:
    FEW = 32
    WIDE_BITS = 11
    WIDE = 2048
    NARROW_BITS = 8
    NARROW = 256
    MANY = 65536


cdef void insert_words(Entry * entries, int64_t count) noexcept nogil:
    cdef int64_t i, j
    cdef Entry one
    for i in range(1, count):
        one = entries[i]
        j = i
        while j > 0 and entries[j - 1].word > one.word:
            entries[j] = entries[j - 1]
            j -= 1
        entries[j] = one


cdef void radix(Entry * entries, int64_t count, Entry * spare) noexcept nogil:
    """Sort by the word; ``spare`` has room for as many entries."""
    cdef int64_t counts[WIDE + 1]
    cdef uint64_t differing = 0
    cdef uint64_t first
    cdef int64_t i, start, size
    cdef int shift, bits, buckets, digit
    if count <= FEW:
        insert_words(entries, count)
        return
    first = entries[0].word
    for i in range(1, count):
        differing |= entries[i].word ^ first
    if differing == 0:
        return
    bits = WIDE_BITS if count >= MANY else NARROW_BITS
    buckets = 1 << bits
    shift = LC_BITS64(differing) - bits
    if shift < 0:
        shift = 0
    for i in range(buckets + 1):
        counts[i] = 0
    for i in range(count):
        counts[((entries[i].word >> shift) & (buckets - 1)) + 1] += 1
    for i in range(buckets):
        counts[i + 1] += counts[i]
    memcpy(spare, entries, count * sizeof(Entry))
    for i in range(count):
        digit = (spare[i].word >> shift) & (buckets - 1)
        entries[counts[digit]] = spare[i]
        counts[digit] += 1
    if shift == 0:
        return
    # Each count is now where its bucket ends.
    start = 0
    for i in range(buckets):
        size = counts[i] - start
        if size > 1:
            radix(entries + start, size, spare)
        start = counts[i]


cdef int64_t spread(
    const uint64_t * words, int64_t count, Entry * entries, int64_t * ends, int * below_bits
) noexcept nogil:
    """Scatter words into buckets, and tell where these end and how many bits are still unsorted; the largest's size."""
    cdef uint64_t differing = 0
    cdef int64_t i, size
    cdef int64_t largest = 0
    cdef int shift, digit
    for i in range(1, count):
        differing |= words[i] ^ words[0]
    shift = LC_BITS64(differing) - WIDE_BITS if differing else 0
    if shift < 0:
        shift = 0
    for i in range(WIDE):
        ends[i] = 0
    for i in range(count):
        ends[(words[i] >> shift) & (WIDE - 1)] += 1
    size = 0
    for i in range(WIDE):
        largest = max(largest, ends[i])
        size += ends[i]
        ends[i] = size - ends[i]
    for i in range(count):
        digit = (words[i] >> shift) & (WIDE - 1)
        entries[ends[digit]].word, entries[ends[digit]].at = words[i], <uint32_t>i
        ends[digit] += 1
    below_bits[0] = shift
    return largest


cdef Entry * sort_entries(const uint64_t * words, int64_t count, Entry * entries) noexcept nogil:
    """Fill ``entries`` with words in order. What it needed beside is handed on, with room for any words that are equal."""
    cdef int64_t ends[WIDE]
    cdef int shift
    cdef int64_t i, start
    cdef int64_t largest = spread(words, count, entries, ends, &shift)
    cdef Entry * spare = <Entry *>malloc(largest * sizeof(Entry))
    if spare == NULL or shift == 0:
        return spare
    start = 0
    for i in range(WIDE):
        if ends[i] - start > 1:
            radix(entries + start, ends[i] - start, spare)
        start = ends[i]
    return spare


cdef inline uint64_t word_at(const uint8_t * data, int64_t left) noexcept nogil:
    """The next 8 bytes as a number that sorts as they do; what is missing counts as zeros."""
    cdef uint64_t word = 0
    if left >= 8:
        memcpy(&word, data, 8)
    elif left > 0:
        memcpy(&word, data, left)
    return LC_BSWAP64(word)


cdef inline int compare(const uint8_t * one, int64_t size, const uint8_t * other, int64_t other_size) noexcept nogil:
    cdef int64_t both = min(size, other_size)
    cdef int sign = memcmp(one, other, both) if both else 0
    if sign == 0:
        return (size > other_size) - (size < other_size)
    return (sign > 0) - (sign < 0)


cdef inline bint below(
    const uint8_t * data, const int64_t * offsets, uint32_t one, uint32_t other, int64_t depth
) noexcept nogil:
    """Whether a span sorts before another; both share their first ``depth`` bytes."""
    return compare(
        data + offsets[one] + depth,
        offsets[one + 1] - offsets[one] - depth,
        data + offsets[other] + depth,
        offsets[other + 1] - offsets[other] - depth,
    ) < 0


cdef void insert_spans(
    Entry * entries, int64_t count, const uint8_t * data, const int64_t * offsets, int64_t depth
) noexcept nogil:
    cdef int64_t i, j
    cdef Entry one
    for i in range(1, count):
        one = entries[i]
        j = i
        while j > 0 and below(data, offsets, one.at, entries[j - 1].at, depth):
            entries[j] = entries[j - 1]
            j -= 1
        entries[j] = one


cdef int64_t shared(
    const Entry * entries, int64_t count, const uint8_t * data, const int64_t * offsets, int64_t depth
) noexcept nogil:
    """How many bytes all spans have in common, from ``depth`` on."""
    cdef const uint8_t * first = data + offsets[entries[0].at] + depth
    cdef int64_t most = offsets[entries[0].at + 1] - offsets[entries[0].at] - depth
    cdef int64_t i, same, left
    cdef const uint8_t * other
    for i in range(1, count):
        other = data + offsets[entries[i].at] + depth
        left = offsets[entries[i].at + 1] - offsets[entries[i].at] - depth
        if left < most:
            most = left
        same = 0
        while same < most and first[same] == other[same]:
            same += 1
        most = same
        if most == 0:
            break
    return most


cdef int64_t by_length(
    Entry * entries, int64_t count, Entry * spare, const int64_t * offsets, int64_t depth
) noexcept nogil:
    """Put spans that end within these 8 bytes before the others, the shortest first; how many they are."""
    cdef int64_t counts[10]
    cdef int64_t i, left
    for i in range(10):
        counts[i] = 0
    for i in range(count):
        left = offsets[entries[i].at + 1] - offsets[entries[i].at] - depth
        entries[i].word = <uint64_t>(left if left < 9 else 9)
        counts[entries[i].word] += 1
    if counts[9] == count:
        return 0
    left = count - counts[9]
    for i in range(1, 10):
        counts[i] += counts[i - 1]
    memcpy(spare, entries, count * sizeof(Entry))
    for i in range(count - 1, -1, -1):
        counts[spare[i].word] -= 1
        entries[counts[spare[i].word]] = spare[i]
    return left


cdef struct Work:
    Group * groups
    int64_t room
    int64_t waiting
    bint failed


cdef void put_aside(Work * work, Entry * entries, Group one, Entry * spare, const int64_t * offsets) noexcept nogil:
    """Of spans that are sorted by 8 bytes, note those that must be compared further."""
    cdef int64_t i, ended
    cdef int64_t start = one.start
    cdef Group * more
    for i in range(one.start + 1, one.stop + 1):
        if i < one.stop and entries[i].word == entries[start].word:
            continue
        if i - start > 1:
            ended = by_length(entries + start, i - start, spare, offsets, one.depth)
            if i - start - ended > 1:
                if work.waiting == work.room:
                    more = <Group *>realloc(work.groups, 2 * work.room * sizeof(Group))
                    if more == NULL:
                        work.failed = True
                        return
                    work.groups = more
                    work.room *= 2
                work.groups[work.waiting].start = start + ended
                work.groups[work.waiting].stop = i
                work.groups[work.waiting].depth = one.depth + 8
                work.waiting += 1
        start = i


cdef bint sort_entries_of_spans(
    Entry * entries, int64_t count, const uint8_t * data, const int64_t * offsets
) noexcept nogil:
    """Fill ``entries`` with spans in order; False when there is no memory."""
    cdef Work work
    cdef Group one
    cdef int64_t i
    cdef Entry * mine
    cdef Entry * spare
    cdef uint64_t * words = <uint64_t *>malloc(count * sizeof(uint64_t))
    if words == NULL:
        return False
    for i in range(count):
        entries[i].at = <uint32_t>i
    one.start, one.stop, one.depth = 0, count, shared(entries, count, data, offsets, 0)
    for i in range(count):
        words[i] = word_at(data + offsets[i] + one.depth, offsets[i + 1] - offsets[i] - one.depth)
    spare = sort_entries(words, count, entries)
    free(words)
    if spare == NULL:
        return False
    work.room, work.waiting, work.failed = 64, 0, False
    work.groups = <Group *>malloc(work.room * sizeof(Group))
    if work.groups == NULL:
        free(spare)
        return False
    put_aside(&work, entries, one, spare, offsets)
    while work.waiting and not work.failed:
        work.waiting -= 1
        one = work.groups[work.waiting]
        mine = entries + one.start
        count = one.stop - one.start
        if count <= FEW:
            insert_spans(mine, count, data, offsets, one.depth)
            continue
        one.depth += shared(mine, count, data, offsets, one.depth)
        for i in range(count):
            mine[i].word = word_at(
                data + offsets[mine[i].at] + one.depth, offsets[mine[i].at + 1] - offsets[mine[i].at] - one.depth
            )
        radix(mine, count, spare)
        put_aside(&work, entries, one, spare, offsets)
    free(work.groups)
    free(spare)
    return not work.failed


def sort_words(uint64_t[::1] words):
    """Where each of the sorted words was before, as uint32; ``words`` itself is sorted too."""
    cdef int64_t count = words.shape[0]
    if count >> 32:
        raise OverflowError(f"{count} words are too many to sort at once")
    order = np.arange(count, dtype=np.uint32)
    if count < 2:
        return order
    cdef uint32_t[::1] places = order
    cdef Entry * entries
    cdef Entry * spare = NULL
    cdef int64_t i = 1
    cdef bint done
    with nogil:
        while i < count and words[i - 1] <= words[i]:
            i += 1
        done = i == count
        if not done:
            entries = <Entry *>malloc(count * sizeof(Entry))
            if entries != NULL:
                spare = sort_entries(&words[0], count, entries)
            done = spare != NULL
            if done:
                for i in range(count):
                    words[i], places[i] = entries[i].word, entries[i].at
            free(spare)
            free(entries)
    if not done:
        raise MemoryError
    return order


def sort_spans(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Where each of the sorted spans was before, as uint32.

    The spans lie between every two offsets, which ascend and are within ``data``.
    """
    cdef int64_t count = offsets.shape[0] - 1
    if count >> 32:
        raise OverflowError(f"{count} spans are too many to sort at once")
    order = np.arange(max(count, 0), dtype=np.uint32)
    if count < 2:
        return order
    cdef uint32_t[::1] places = order
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    cdef const int64_t * ends = &offsets[0]
    cdef Entry * entries
    cdef int64_t i = 1
    cdef bint done
    with nogil:
        while i < count and not below(start, ends, <uint32_t>i, <uint32_t>(i - 1), 0):
            i += 1
        done = i == count
        if not done:
            entries = <Entry *>malloc(count * sizeof(Entry))
            done = entries != NULL and sort_entries_of_spans(entries, count, start, ends)
            if done:
                for i in range(count):
                    places[i] = entries[i].at
            free(entries)
    if not done:
        raise MemoryError
    return order


def find_spans(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const uint8_t[::1] wanted_data,
    const int64_t[::1] wanted_offsets,
    bint after,
):
    """For each wanted span how many of sorted ones are below it; or, ``after`` equal ones, not above it."""
    cdef int64_t count = wanted_offsets.shape[0] - 1
    found = np.empty(max(count, 0), np.int64)
    cdef int64_t[::1] places = found
    cdef const uint8_t * mine = &data[0] if data.shape[0] else NULL
    cdef const uint8_t * theirs = &wanted_data[0] if wanted_data.shape[0] else NULL
    cdef int64_t i, low, high, middle
    cdef int sign
    with nogil:
        for i in range(count):
            low, high = 0, offsets.shape[0] - 1
            while low < high:
                middle = (low + high) >> 1
                sign = compare(
                    mine + offsets[middle],
                    offsets[middle + 1] - offsets[middle],
                    theirs + wanted_offsets[i],
                    wanted_offsets[i + 1] - wanted_offsets[i],
                )
                if sign < 0 or (after and sign == 0):
                    low = middle + 1
                else:
                    high = middle
            places[i] = low
    return found


def compare_spans(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const uint8_t[::1] other_data,
    const int64_t[::1] other_offsets,
):
    """For each span -1 when it is below the one in the same place of others, 1 when it is above, else 0."""
    cdef int64_t count = min(offsets.shape[0], other_offsets.shape[0]) - 1
    found = np.empty(max(count, 0), np.int8)
    cdef signed char[::1] signs = found
    cdef const uint8_t * mine = &data[0] if data.shape[0] else NULL
    cdef const uint8_t * theirs = &other_data[0] if other_data.shape[0] else NULL
    cdef int64_t i
    with nogil:
        for i in range(count):
            signs[i] = <signed char>compare(
                mine + offsets[i],
                offsets[i + 1] - offsets[i],
                theirs + other_offsets[i],
                other_offsets[i + 1] - other_offsets[i],
            )
    return found

"""Many sets of rows at once, to and from their stored form.

The form is that of :mod:`lancelet.index.row_set`: entries of one high half each, with a Roaring bitmap of the
low halves, whose layout :mod:`lancelet.table.rows.roaring` draws. Written are array containers up to 4096 values and
bit containers above, as pylance writes them; read is everything, and every byte is checked before it is used.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from lancelet.encoding.kernels.words cimport half_at, long_at, put_half, put_word, word_at
from lancelet.index.roaring_walk cimport (
    ARRAY_LIMIT, BIT_BYTES, CONTAINERS, COOKIE, MAX_CONTAINERS, NO_COOKIE, SHORT, Container, Roaring, container_bytes,
    next_container, open_roaring,
)

from itertools import pairwise

import numpy as np

cdef extern from *:
    """
    #define LC_POPCOUNT(x) __builtin_popcountll(x)
    #define LC_LOWEST(x) __builtin_ctzll(x)
    """
    int LC_POPCOUNT(uint64_t) nogil
    int LC_LOWEST(uint64_t) nogil

# What is wrong with a set, apart from what a walk finds.
cdef enum:
    KEY_ORDER = -4
    VALUES = -5
    TRAILING = -6
    HIGH_ORDER = -7
    SET_TRAILING = -8

_REASONS = {
    SHORT: "it ends early",
    NO_COOKIE: "a Roaring bitmap begins with unknown bytes",
    CONTAINERS: "a Roaring bitmap claims too many containers",
    KEY_ORDER: "the containers of a Roaring bitmap are out of order",
    VALUES: "a container of a Roaring bitmap does not hold its number of ascending values",
    TRAILING: "a Roaring bitmap has bytes too many",
    HIGH_ORDER: "its fragments are out of order",
    SET_TRAILING: "it has bytes too many",
}


# Grouping rows by key.

def group_rows(const int32_t[::1] groups, Py_ssize_t count, const uint64_t[::1] rows):
    """Rows by their group, of which there are ``count``, otherwise in their order, and where the rows of each end."""
    cdef Py_ssize_t total = groups.shape[0]
    if rows.shape[0] != total or count < 0:
        raise ValueError("a group for each row is needed")
    grouped, ends = np.empty(total, np.uint64), np.zeros(count, np.int64)
    cdef uint64_t[::1] out = grouped
    cdef int64_t[::1] at = ends
    cdef Py_ssize_t i
    cdef int64_t before = 0, here
    cdef bint good = True
    with nogil:
        for i in range(total):
            if groups[i] < 0 or groups[i] >= count:
                good = False
                break
            at[groups[i]] += 1
        if good:
            for i in range(count):
                here = at[i]
                at[i] = before
                before += here
            for i in range(total):
                out[at[groups[i]]] = rows[i]
                at[groups[i]] += 1
    if not good:
        raise ValueError("a group is out of range")
    return grouped, ends


def scatter_spans(
    uint64_t[::1] out, int64_t[::1] places, const int64_t[::1] codes, const int64_t[::1] starts,
    const int64_t[::1] ends, const uint64_t[::1] rows,
):
    """Copy each span of ``rows`` to the place of its code in ``out``, and move that place behind it."""
    cdef Py_ssize_t i
    cdef int64_t size, code
    cdef bint good = codes.shape[0] == starts.shape[0] == ends.shape[0]
    if good:
        with nogil:
            for i in range(codes.shape[0]):
                code = codes[i]
                size = ends[i] - starts[i]
                if size < 0 or starts[i] < 0 or ends[i] > rows.shape[0] or code < 0 or code >= places.shape[0]:
                    good = False
                    break
                if places[code] < 0 or places[code] + size > out.shape[0]:
                    good = False
                    break
                if size:
                    memcpy(&out[places[code]], &rows[starts[i]], size * 8)
                    places[code] += size
    if not good:
        raise ValueError("a span is out of range")


cdef void merge_pieces(uint64_t * data, Py_ssize_t count, uint64_t * spare) noexcept nogil:
    """Sort by merging the ascending pieces that are there, pairwise, until one is left."""
    cdef uint64_t * source = data
    cdef uint64_t * target = spare
    cdef uint64_t * swap
    cdef Py_ssize_t at, middle, stop, left, right, to, pieces
    while True:
        at = 0
        to = 0
        pieces = 0
        while at < count:
            middle = at + 1
            while middle < count and source[middle] >= source[middle - 1]:
                middle += 1
            stop = middle
            if stop < count:
                stop += 1
                while stop < count and source[stop] >= source[stop - 1]:
                    stop += 1
            left = at
            right = middle
            while left < middle and right < stop:
                if source[right] < source[left]:
                    target[to] = source[right]
                    right += 1
                else:
                    target[to] = source[left]
                    left += 1
                to += 1
            memcpy(target + to, source + left, (middle - left) * 8)
            to += middle - left
            memcpy(target + to, source + right, (stop - right) * 8)
            to += stop - right
            at = stop
            pieces += 1
        swap = source
        source = target
        target = swap
        if pieces <= 1:
            break
    if source != data:
        memcpy(data, source, count * 8)


def sort_spans(uint64_t[::1] rows, const int64_t[::1] ends):
    """Sort each span in place. Spans follow one another, from the first row on; sorted ones cost little."""
    cdef Py_ssize_t i, k
    cdef int64_t start = 0, longest = 0
    cdef uint64_t * spare = NULL
    cdef bint good = True
    for i in range(ends.shape[0]):
        if ends[i] < start or ends[i] > rows.shape[0]:
            raise ValueError("a span is out of range")
        longest = max(longest, ends[i] - start)
        start = ends[i]
    with nogil:
        start = 0
        for i in range(ends.shape[0]):
            for k in range(start + 1, ends[i]):
                if rows[k] < rows[k - 1]:
                    if spare == NULL:
                        spare = <uint64_t *>malloc(longest * 8)
                        if spare == NULL:
                            good = False
                            break
                    merge_pieces(&rows[start], ends[i] - start, spare)
                    break
            if not good:
                break
            start = ends[i]
        free(spare)
    if not good:
        raise MemoryError


# Writing sets.

cdef inline Py_ssize_t container_stop(const uint64_t * rows, Py_ssize_t at, Py_ssize_t stop, int64_t * distinct) noexcept nogil:
    """Where the rows end that share all but their last 16 bits, and how many different ones they are."""
    cdef uint64_t key = rows[at] >> 16
    cdef int64_t found = 1
    at += 1
    while at < stop and rows[at] >> 16 == key:
        found += rows[at] != rows[at - 1]
        at += 1
    distinct[0] = found
    return at


cdef int64_t set_bytes(const uint64_t * rows, Py_ssize_t at, Py_ssize_t stop) noexcept nogil:
    """The size of the stored form of ascending rows; -1 when they do not ascend."""
    cdef int64_t size = 4, distinct = 0
    cdef uint64_t high = 0
    cdef Py_ssize_t i
    for i in range(at + 1, stop):
        if rows[i] < rows[i - 1]:
            return -1
    while at < stop:
        if size == 4 or rows[at] >> 32 != high:
            size += 16
            high = rows[at] >> 32
        at = container_stop(rows, at, stop, &distinct)
        size += 8 + container_bytes(distinct)
    return size


cdef void put_container(uint8_t * out, const uint64_t * rows, Py_ssize_t at, Py_ssize_t stop, int64_t distinct) noexcept nogil:
    cdef uint32_t low
    if distinct > ARRAY_LIMIT:
        memset(out, 0, BIT_BYTES)
        while at < stop:
            low = rows[at] & 0xFFFF
            out[low >> 3] |= <uint8_t>(1 << (low & 7))
            at += 1
        return
    put_word(out, rows[at] & 0xFFFF)
    out += 2
    at += 1
    while at < stop:
        if rows[at] != rows[at - 1]:
            put_word(out, rows[at] & 0xFFFF)
            out += 2
        at += 1


cdef uint8_t * put_entry(uint8_t * out, const uint64_t * rows, Py_ssize_t at, Py_ssize_t stop) noexcept nogil:
    """Write the rows of one high half."""
    cdef Py_ssize_t i = at, count = 0, after
    cdef int64_t distinct = 0, offset
    cdef uint8_t * start = out + 8
    while i < stop:
        i = container_stop(rows, i, stop, &distinct)
        count += 1
    put_half(out, rows[at] >> 32)
    put_half(start, COOKIE)
    put_half(start + 4, count)
    offset = 8 + 8 * count
    i = 0
    while at < stop:
        after = container_stop(rows, at, stop, &distinct)
        put_word(start + 8 + 4 * i, (rows[at] >> 16) & 0xFFFF)
        put_word(start + 10 + 4 * i, distinct - 1)
        put_half(start + 8 + 4 * count + 4 * i, offset)
        put_container(start + offset, rows, at, after, distinct)
        offset += container_bytes(distinct)
        at = after
        i += 1
    put_half(out + 4, offset)
    return start + offset


def write_sets(const uint64_t[::1] rows, const int64_t[::1] ends):
    """The stored forms of the sets whose ascending rows follow one another, and where each begins and the last ends.

    A row may come several times.
    """
    cdef Py_ssize_t count = ends.shape[0]
    cdef Py_ssize_t i, at, after, entries
    cdef int64_t start = 0, size, total = 0
    cdef const uint64_t * numbers = &rows[0] if rows.shape[0] else NULL
    cdef bint good = True
    offsets = np.zeros(count + 1, np.int64)
    cdef int64_t[::1] places = offsets
    with nogil:
        for i in range(count):
            if ends[i] < start or ends[i] > rows.shape[0]:
                good = False
                break
            size = set_bytes(numbers, start, ends[i])
            if size < 0:
                good = False
                break
            total += size
            places[i + 1] = total
            start = ends[i]
    if not good:
        raise ValueError("rows that ascend within spans that follow one another are needed")
    data = np.empty(total, np.uint8)
    cdef uint8_t[::1] out = data
    cdef uint8_t * to
    with nogil:
        start = 0
        for i in range(count):
            to = &out[places[i]] + 4
            at = start
            entries = 0
            while at < ends[i]:
                after = at + 1
                while after < ends[i] and rows[after] >> 32 == rows[at] >> 32:
                    after += 1
                to = put_entry(to, numbers, at, after)
                entries += 1
                at = after
            put_half(&out[places[i]], entries)
            start = ends[i]
    return data, offsets


# Reading sets.

cdef int64_t check_runs(const uint8_t * data, int64_t runs, int64_t size) noexcept nogil:
    cdef int64_t i, first, last, before = -1, total = 0
    for i in range(runs):
        first = word_at(data + 4 * i)
        last = first + word_at(data + 4 * i + 2)
        if first <= before or last >= MAX_CONTAINERS:
            return VALUES
        total += last - first + 1
        before = last
    return total if total == size else VALUES


cdef int64_t check_array(const uint8_t * data, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(1, size):
        if word_at(data + 2 * i) <= word_at(data + 2 * i - 2):
            return VALUES
    return size


cdef int64_t check_bits(const uint8_t * data, int64_t size) noexcept nogil:
    cdef int64_t i, total = 0
    for i in range(BIT_BYTES // 8):
        total += LC_POPCOUNT(long_at(data + 8 * i))
    return total if total == size else VALUES


cdef int64_t check_roaring(const uint8_t * data, int64_t length) noexcept nogil:
    """The number of values, or what is wrong."""
    cdef Roaring bitmap
    cdef Container one
    cdef int64_t i, before = -1, total = 0
    cdef int64_t found = open_roaring(&bitmap, data, length)
    if found < 0:
        return found
    for i in range(bitmap.count):
        found = next_container(&bitmap, &one)
        if found < 0:
            return found
        if one.key <= before:
            return KEY_ORDER
        before = one.key
        if one.runs >= 0:
            found = check_runs(one.data, one.runs, one.size)
        elif one.size <= ARRAY_LIMIT:
            found = check_array(one.data, one.size)
        else:
            found = check_bits(one.data, one.size)
        if found < 0:
            return found
        total += found
    return total if bitmap.at == length else TRAILING


cdef int64_t count_entries(const uint8_t * data, int64_t at, int64_t stop) noexcept nogil:
    """How many entries a set has, whose lengths fit into it."""
    cdef int64_t entries, i
    if at + 4 > stop:
        return SHORT
    entries = half_at(data + at)
    at += 4
    for i in range(entries):
        if at + 8 > stop:
            return SHORT
        at += 8 + <int64_t>half_at(data + at + 4)
        if at > stop:
            return SHORT
    return entries if at == stop else SET_TRAILING


def scan_sets(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Check stored sets and list their entries.

    Returns
    -------
    tuple of arrays
        For each entry: its set, its high half, where its bitmap begins and ends, and how many rows it has; -1 for all
        rows of a fragment.

    Raises
    ------
    ValueError
        If a set is damaged; the text says how.
    """
    cdef Py_ssize_t count = offsets.shape[0] - 1
    cdef Py_ssize_t i, k, to = 0
    cdef int64_t total = 0, found = 0, at, length
    cdef int64_t previous
    cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
    for i in range(count):
        if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > data.shape[0]:
            raise ValueError(_REASONS[SHORT])
    with nogil:
        for i in range(count):
            found = count_entries(start, offsets[i], offsets[i + 1])
            if found < 0:
                break
            total += found
    if found < 0:
        raise ValueError(_REASONS[found])
    sets, highs = np.empty(total, np.int64), np.empty(total, np.int64)
    starts, stops, sizes = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    cdef int64_t[::1] of = sets
    cdef int64_t[::1] high = highs
    cdef int64_t[::1] begin = starts
    cdef int64_t[::1] end = stops
    cdef int64_t[::1] size = sizes
    with nogil:
        for i in range(count):
            at = offsets[i] + 4
            previous = -1
            for k in range(half_at(start + offsets[i])):
                of[to] = i
                high[to] = half_at(start + at)
                length = half_at(start + at + 4)
                begin[to] = at + 8
                end[to] = at + 8 + length
                if high[to] <= previous:
                    found = HIGH_ORDER
                    break
                previous = high[to]
                if length:
                    found = check_roaring(start + at + 8, length)
                    if found < 0:
                        break
                    size[to] = found
                else:
                    size[to] = -1
                at += 8 + length
                to += 1
            if found < 0:
                break
    if found < 0:
        raise ValueError(_REASONS[found])
    return sets, highs, starts, stops, sizes


cdef uint64_t * read_container(uint64_t * out, uint64_t base, const Container * one) noexcept nogil:
    cdef int64_t i, k, first
    cdef uint64_t word
    if one.runs >= 0:
        for i in range(one.runs):
            first = word_at(one.data + 4 * i)
            for k in range(first, first + word_at(one.data + 4 * i + 2) + 1):
                out[0] = base | <uint64_t>k
                out += 1
    elif one.size <= ARRAY_LIMIT:
        for i in range(one.size):
            out[i] = base | word_at(one.data + 2 * i)
        out += one.size
    else:
        for i in range(BIT_BYTES // 8):
            word = long_at(one.data + 8 * i)
            while word:
                out[0] = base | <uint64_t>(i * 64 + LC_LOWEST(word))
                out += 1
                word &= word - 1
    return out


cdef uint64_t * read_roaring(uint64_t * out, uint64_t high, const uint8_t * data, int64_t length) noexcept nogil:
    """Write the rows of a bitmap that was checked."""
    cdef Roaring bitmap
    cdef Container one
    cdef int64_t i
    open_roaring(&bitmap, data, length)
    for i in range(bitmap.count):
        next_container(&bitmap, &one)
        out = read_container(out, high << 32 | <uint64_t>one.key << 16, &one)
    return out


def read_entries(
    const uint8_t[::1] data, const int64_t[::1] highs, const int64_t[::1] starts, const int64_t[::1] stops,
    const int64_t[::1] sizes,
):
    """The rows of entries that :func:`scan_sets` found in the same bytes, one entry after the other."""
    cdef Py_ssize_t count = highs.shape[0]
    cdef Py_ssize_t i
    cdef int64_t total = 0
    cdef bint good = starts.shape[0] == stops.shape[0] == sizes.shape[0] == count
    if good:
        for i in range(count):
            # Checked again, since nothing else keeps the loops below within the bytes.
            if sizes[i] < 0 or starts[i] < 0 or stops[i] < starts[i] or stops[i] > data.shape[0]:
                good = False
                break
            if check_roaring(&data[0] + starts[i], stops[i] - starts[i]) != sizes[i]:
                good = False
                break
            total += sizes[i]
    if not good:
        raise ValueError("entries of these bytes are needed")
    rows = np.empty(total, np.uint64)
    cdef uint64_t[::1] numbers = rows
    cdef uint64_t * out = &numbers[0] if total else NULL
    with nogil:
        for i in range(count):
            out = read_roaring(out, <uint64_t>highs[i], &data[0] + starts[i], stops[i] - starts[i])
    return rows


cdef inline void set_bits(uint64_t * bits, int64_t first, int64_t last) noexcept nogil:
    """Set the bits from ``first`` to ``last``."""
    cdef int64_t word = first >> 6
    cdef uint64_t low = ~<uint64_t>0 << (first & 63)
    cdef uint64_t high = ~<uint64_t>0 >> (63 - (last & 63))
    if word == last >> 6:
        bits[word] |= low & high
        return
    bits[word] |= low
    for word in range(word + 1, last >> 6):
        bits[word] = ~<uint64_t>0
    bits[last >> 6] |= high


cdef void unite_roaring(
    const uint8_t * data, int64_t length, int32_t * slots, int32_t * used, uint64_t * bits
) noexcept nogil:
    """Number the containers of a bitmap that was checked; then, when there are ``bits``, put its values there."""
    cdef Roaring bitmap
    cdef Container one
    cdef int64_t i, k, first
    cdef uint64_t * to
    cdef uint32_t low
    open_roaring(&bitmap, data, length)
    for i in range(bitmap.count):
        next_container(&bitmap, &one)
        if bits == NULL:
            if slots[one.key] < 0:
                slots[one.key] = used[0]
                used[0] += 1
            continue
        to = bits + <int64_t>slots[one.key] * (BIT_BYTES // 8)
        if one.runs >= 0:
            for k in range(one.runs):
                first = word_at(one.data + 4 * k)
                set_bits(to, first, first + word_at(one.data + 4 * k + 2))
        elif one.size <= ARRAY_LIMIT:
            for k in range(one.size):
                low = word_at(one.data + 2 * k)
                to[low >> 6] |= <uint64_t>1 << (low & 63)
        else:
            for k in range(BIT_BYTES // 8):
                to[k] |= long_at(one.data + 8 * k)


cdef int64_t put_united(
    uint8_t * out, const int64_t * keys, const int64_t * slots, int64_t count, const uint64_t * bits
) noexcept nogil:
    """Write the bitmap of containers in bits, given by ascending key, or only measure it when there is no ``out``."""
    cdef int64_t i, k, size, offset = 8 + 8 * count
    cdef const uint64_t * word
    cdef uint64_t left
    cdef uint8_t * to
    if out != NULL:
        put_half(out, COOKIE)
        put_half(out + 4, count)
    for i in range(count):
        word = bits + slots[i] * (BIT_BYTES // 8)
        size = 0
        for k in range(BIT_BYTES // 8):
            size += LC_POPCOUNT(word[k])
        if out != NULL:
            put_word(out + 8 + 4 * i, keys[i] & 0xFFFF)
            put_word(out + 10 + 4 * i, size - 1)
            put_half(out + 8 + 4 * count + 4 * i, offset)
            to = out + offset
            if size > ARRAY_LIMIT:
                memcpy(to, word, BIT_BYTES)
            else:
                for k in range(BIT_BYTES // 8):
                    left = word[k]
                    while left:
                        put_word(to, k * 64 + LC_LOWEST(left))
                        to += 2
                        left &= left - 1
        offset += container_bytes(size)
    return offset


cdef bytes united_bytes(const int64_t[::1] keys, const int64_t[::1] slots, const uint64_t[::1] bits):
    """The Roaring bitmap of containers in bits."""
    cdef int64_t count = keys.shape[0]
    cdef const int64_t * key = &keys[0] if count else NULL
    cdef const int64_t * slot = &slots[0] if count else NULL
    made = np.empty(put_united(NULL, key, slot, count, &bits[0]), np.uint8)
    cdef uint8_t[::1] out = made
    with nogil:
        put_united(&out[0], key, slot, count, &bits[0])
    return made.tobytes()


def unite_entries(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] stops, int64_t limit):
    """The Roaring bitmap of all values of some, which :func:`scan_sets` found in the same bytes.

    None when their containers, spelled out as bits, would take more than ``limit`` bytes.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef Py_ssize_t i
    cdef int32_t used = 0
    cdef bint good = stops.shape[0] == count
    if good:
        for i in range(count):
            # Checked again, since nothing else keeps the loops below within the bytes.
            if starts[i] < 0 or stops[i] < starts[i] or stops[i] > data.shape[0]:
                good = False
                break
            if check_roaring(&data[0] + starts[i], stops[i] - starts[i]) < 0:
                good = False
                break
    if not good:
        raise ValueError("entries of these bytes are needed")
    numbers = np.full(MAX_CONTAINERS, -1, np.int32)
    cdef int32_t[::1] slots = numbers
    with nogil:
        for i in range(count):
            unite_roaring(&data[0] + starts[i], stops[i] - starts[i], &slots[0], &used, NULL)
    if <int64_t>used * BIT_BYTES > limit:
        return None
    space = np.zeros(max(<int64_t>used, 1) * (BIT_BYTES // 8), np.uint64)
    cdef uint64_t[::1] words = space
    with nogil:
        for i in range(count):
            unite_roaring(&data[0] + starts[i], stops[i] - starts[i], &slots[0], &used, &words[0])
    keys = np.flatnonzero(numbers >= 0)
    return united_bytes(keys, numbers[keys].astype(np.int64), space)


def gather_rows(const uint64_t[::1] rows, int64_t limit):
    """Roaring bitmaps of rows in any order, by their upper halves.

    None when their containers, spelled out as bits, would take more than ``limit`` bytes.
    """
    cdef int64_t most = max(limit // BIT_BYTES, 1)
    cdef int64_t i, slot, used = 0, size = 1
    cdef uint64_t key, at, mask
    cdef bint fits = True
    while size < 4 * most:
        size *= 2
    mask = <uint64_t>size - 1
    table, found = np.full(size, -1, np.int64), np.empty(most, np.int64)
    space = np.zeros(most * (BIT_BYTES // 8), np.uint64)
    cdef int64_t[::1] slots = table
    cdef int64_t[::1] keys = found
    cdef uint64_t[::1] words = space
    with nogil:
        for i in range(rows.shape[0]):
            key = rows[i] >> 16
            at = (key * <uint64_t>0x9E3779B97F4A7C15) >> 32 & mask
            while slots[at] >= 0 and <uint64_t>keys[slots[at]] != key:
                at = (at + 1) & mask
            slot = slots[at]
            if slot < 0:
                if used == most:
                    fits = False
                    break
                slot = used
                slots[at] = slot
                keys[slot] = <int64_t>key
                used += 1
            words[slot * (BIT_BYTES // 8) + (rows[i] >> 6 & 1023)] |= <uint64_t>1 << (rows[i] & 63)
    if not fits:
        return None
    order = np.argsort(found[:used])
    ordered = found[order]
    highs = ordered >> 16
    borders = np.flatnonzero(np.diff(highs, prepend=-1, append=-1)).tolist()
    return {
        int(highs[start]): united_bytes(ordered[start:stop], order[start:stop], space)
        for start, stop in pairwise(borders)
    }

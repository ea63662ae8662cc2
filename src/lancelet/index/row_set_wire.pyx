"""Many sets of rows at once, to and from their stored form.

The form is that of :mod:`lancelet.index.row_set`: entries of one high half each, with a Roaring bitmap of the
low halves, whose layout :mod:`lancelet.table.roaring` draws. Written are array containers up to 4096 values and
bit containers above, as pylance writes them; read is everything, and every byte is checked before it is used.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from *:
    """
    #define LC_POPCOUNT(x) __builtin_popcountll(x)
    #define LC_LOWEST(x) __builtin_ctzll(x)
    """
    int LC_POPCOUNT(uint64_t) nogil
    int LC_LOWEST(uint64_t) nogil

cdef enum:
    COOKIE = 12346
    RUN_COOKIE = 12347
    ARRAY_LIMIT = 4096
    BIT_BYTES = 8192
    OFFSETS_FROM = 4
    MAX_CONTAINERS = 65536

cdef enum:
    SHORT = -1
    NO_COOKIE = -2
    CONTAINERS = -3
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


cdef inline uint16_t word_at(const uint8_t * at) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, at, 2)
    return value


cdef inline uint32_t half_at(const uint8_t * at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline uint64_t long_at(const uint8_t * at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline void put_word(uint8_t * at, uint32_t value) noexcept nogil:
    cdef uint16_t word = <uint16_t>value
    memcpy(at, &word, 2)


cdef inline void put_half(uint8_t * at, uint64_t value) noexcept nogil:
    cdef uint32_t half = <uint32_t>value
    memcpy(at, &half, 4)


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


cdef inline int64_t container_bytes(int64_t distinct) noexcept nogil:
    return distinct * 2 if distinct <= ARRAY_LIMIT else BIT_BYTES


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
    cdef int64_t count, at, i, size, runs, found, total = 0
    cdef int32_t key, before = -1
    cdef const uint8_t * is_run = NULL
    cdef const uint8_t * header
    if length < 8:
        # The second form begins with 4 bytes, and has 5 or more behind them.
        return SHORT
    if half_at(data) == COOKIE:
        count = half_at(data + 4)
        at = 8
    elif word_at(data) == RUN_COOKIE:
        count = <int64_t>word_at(data + 2) + 1
        is_run = data + 4
        at = 4 + (count + 7) // 8
    else:
        return NO_COOKIE
    if count > MAX_CONTAINERS:
        return CONTAINERS
    header = data + at
    at += 4 * count
    if is_run == NULL or count >= OFFSETS_FROM:
        at += 4 * count
    if at > length:
        return SHORT
    for i in range(count):
        key = word_at(header + 4 * i)
        size = <int64_t>word_at(header + 4 * i + 2) + 1
        if key <= before:
            return KEY_ORDER
        before = key
        if is_run != NULL and is_run[i >> 3] >> (i & 7) & 1:
            if at + 2 > length:
                return SHORT
            runs = word_at(data + at)
            at += 2
            if at + 4 * runs > length:
                return SHORT
            found = check_runs(data + at, runs, size)
            at += 4 * runs
        elif size <= ARRAY_LIMIT:
            if at + 2 * size > length:
                return SHORT
            found = check_array(data + at, size)
            at += 2 * size
        else:
            if at + BIT_BYTES > length:
                return SHORT
            found = check_bits(data + at, size)
            at += BIT_BYTES
        if found < 0:
            return found
        total += found
    return total if at == length else TRAILING


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


cdef uint64_t * read_container(
    uint64_t * out, uint64_t base, const uint8_t * data, int64_t size, bint is_run
) noexcept nogil:
    cdef int64_t i, k, first
    cdef uint64_t word
    if is_run:
        for i in range(word_at(data)):
            first = word_at(data + 2 + 4 * i)
            for k in range(first, first + word_at(data + 4 + 4 * i) + 1):
                out[0] = base | <uint64_t>k
                out += 1
    elif size <= ARRAY_LIMIT:
        for i in range(size):
            out[i] = base | word_at(data + 2 * i)
        out += size
    else:
        for i in range(BIT_BYTES // 8):
            word = long_at(data + 8 * i)
            while word:
                out[0] = base | <uint64_t>(i * 64 + LC_LOWEST(word))
                out += 1
                word &= word - 1
    return out


cdef uint64_t * read_roaring(uint64_t * out, uint64_t high, const uint8_t * data) noexcept nogil:
    """Write the rows of a bitmap that was checked."""
    cdef int64_t count, at, i, size
    cdef const uint8_t * is_run = NULL
    cdef const uint8_t * header
    cdef bint run
    if half_at(data) == COOKIE:
        count = half_at(data + 4)
        at = 8
    else:
        count = <int64_t>word_at(data + 2) + 1
        is_run = data + 4
        at = 4 + (count + 7) // 8
    header = data + at
    at += 4 * count
    if is_run == NULL or count >= OFFSETS_FROM:
        at += 4 * count
    for i in range(count):
        size = <int64_t>word_at(header + 4 * i + 2) + 1
        run = is_run != NULL and is_run[i >> 3] >> (i & 7) & 1
        out = read_container(out, high << 32 | <uint64_t>word_at(header + 4 * i) << 16, data + at, size, run)
        if run:
            at += 2 + 4 * <int64_t>word_at(data + at)
        else:
            at += container_bytes(size)
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
            out = read_roaring(out, <uint64_t>highs[i], &data[0] + starts[i])
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


cdef void unite_roaring(const uint8_t * data, int32_t * slots, int32_t * used, uint64_t * bits) noexcept nogil:
    """Number the containers of a bitmap that was checked; then, when there are ``bits``, put its values there."""
    cdef int64_t count, at, i, k, size, first
    cdef const uint8_t * is_run = NULL
    cdef const uint8_t * header
    cdef uint64_t * to
    cdef uint32_t low
    if half_at(data) == COOKIE:
        count = half_at(data + 4)
        at = 8
    else:
        count = <int64_t>word_at(data + 2) + 1
        is_run = data + 4
        at = 4 + (count + 7) // 8
    header = data + at
    if bits == NULL:
        for i in range(count):
            if slots[word_at(header + 4 * i)] < 0:
                slots[word_at(header + 4 * i)] = used[0]
                used[0] += 1
        return
    at += 4 * count
    if is_run == NULL or count >= OFFSETS_FROM:
        at += 4 * count
    for i in range(count):
        size = <int64_t>word_at(header + 4 * i + 2) + 1
        to = bits + <int64_t>slots[word_at(header + 4 * i)] * (BIT_BYTES // 8)
        if is_run != NULL and is_run[i >> 3] >> (i & 7) & 1:
            for k in range(word_at(data + at)):
                first = word_at(data + at + 2 + 4 * k)
                set_bits(to, first, first + word_at(data + at + 4 + 4 * k))
            at += 2 + 4 * <int64_t>word_at(data + at)
        elif size <= ARRAY_LIMIT:
            for k in range(size):
                low = word_at(data + at + 2 * k)
                to[low >> 6] |= <uint64_t>1 << (low & 63)
            at += 2 * size
        else:
            for k in range(BIT_BYTES // 8):
                to[k] |= long_at(data + at + 8 * k)
            at += BIT_BYTES


cdef int64_t put_united(uint8_t * out, const int32_t * slots, int32_t used, const uint64_t * bits) noexcept nogil:
    """Write the bitmap of containers in bits, or only measure it when there is no ``out``."""
    cdef int64_t size, offset = 8 + 8 * <int64_t>used
    cdef int32_t key, i = 0, k
    cdef const uint64_t * word
    cdef uint64_t left
    cdef uint8_t * to
    if out != NULL:
        put_half(out, COOKIE)
        put_half(out + 4, used)
    for key in range(MAX_CONTAINERS):
        if slots[key] < 0:
            continue
        word = bits + <int64_t>slots[key] * (BIT_BYTES // 8)
        size = 0
        for k in range(BIT_BYTES // 8):
            size += LC_POPCOUNT(word[k])
        if out != NULL:
            put_word(out + 8 + 4 * i, key)
            put_word(out + 10 + 4 * i, size - 1)
            put_half(out + 8 + 4 * <int64_t>used + 4 * i, offset)
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
        i += 1
    return offset


def unite_entries(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] stops, int64_t limit):
    """The Roaring bitmap of all values of some, which :func:`scan_sets` found in the same bytes.

    None when their containers, spelled out as bits, would take more than ``limit`` bytes.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef Py_ssize_t i
    cdef int32_t used = 0
    cdef int64_t size = 0
    cdef uint64_t * bits = NULL
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
            unite_roaring(&data[0] + starts[i], &slots[0], &used, NULL)
    if <int64_t>used * BIT_BYTES > limit:
        return None
    space = np.zeros(max(<int64_t>used, 1) * (BIT_BYTES // 8), np.uint64)
    cdef uint64_t[::1] words = space
    bits = &words[0]
    with nogil:
        for i in range(count):
            unite_roaring(&data[0] + starts[i], &slots[0], &used, bits)
        size = put_united(NULL, &slots[0], used, bits)
    united = np.empty(size, np.uint8)
    cdef uint8_t[::1] out = united
    with nogil:
        put_united(&out[0], &slots[0], used, bits)
    return united.tobytes()

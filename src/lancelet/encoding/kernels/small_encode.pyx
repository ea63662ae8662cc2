# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A small column without lists or structs as one mini-block chunk, in one go (spec encodings.md 3.3 and 9.2).

What ``v2_1/encode`` finds out step by step, each for pages of any size, is found here for up to 1023 values whose
chunk is the only one, and ends in the same bytes. Whatever becomes another kind of page (one with a dictionary, a
wide one, several chunks) is left to those steps: the answer is None then.

A chunk: header, definition levels if there are nulls, values, each padded to 8 bytes. A page of one value, or of nulls
only, has no chunk.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from "fastlanes_pack.h" nogil:
    void lancelet_pack(int bits, const void *values, int width, void *packed)
    uint64_t lancelet_survey(int bits, const void *values, int64_t count, int64_t *changes)
    int lancelet_width(uint64_t any)

cdef enum:
    MOST = 1023
    TABLE = 4096  # slots of a hash table: always more than three of four are free
    FEW_ENTRIES = 64
    DICTIONARY = 100  # fewer values than this have no dictionary
    CHUNK_LIMIT = 8186
    WIDEST_PLAIN = 512  # the greatest power of two of 8-byte words that stay below that limit
    TEXT_CHUNK = 4096
    WIDE = 256

# How values and levels are stored.
FLAT, INLINE, RUNS, VARIABLE = 0, 1, 2, 3
ONE_VALUE, NULLS = 4, 5
NO_LEVELS = -1
LARGEST = MOST


cdef struct Nulls:
    int64_t count
    int kind
    int64_t size
    uint8_t stored[2 * MOST + 8]


cdef inline bint _is_valid(const uint8_t *bits, int64_t at) noexcept nogil:
    return bits[at >> 3] >> (at & 7) & 1


cdef void _levels(const uint8_t *bits, int64_t first, int64_t count, bint large, Nulls *out) noexcept nogil:
    """Definition levels of a bitmap: 1 for a null, as 16-bit words, a packed block or runs, whichever is smallest."""
    cdef uint16_t[1024] levels
    cdef int64_t i, changes = 0, runs, at, length, found = 0, total
    cdef uint64_t header
    cdef uint16_t two
    out.count = 0
    memset(levels, 0, sizeof(levels))
    for i in range(count):
        if not _is_valid(bits, first + i):
            levels[i] = 1
            out.count += 1
    if out.count == 0 or out.count == count:
        return
    total = 2 * count
    out.kind = 0
    if 2 + 128 < total:
        out.kind = 1
        total = 2 + 128
    if large:
        lancelet_survey(16, levels, count, &changes)
        runs = max(changes + 1, count // 255)
        if 8 + 3 * runs < total:
            at = 0
            while at < count:
                length = 1
                while length < 255 and at + length < count and levels[at + length] == levels[at]:
                    length += 1
                at += length
                found += 1
            if 8 + 3 * found < total:
                out.kind = 2
                total = 8 + 3 * found
    out.size = total
    if out.kind == 0:
        memcpy(out.stored, levels, total)
    elif out.kind == 1:
        two = 1
        memcpy(out.stored, &two, 2)
        lancelet_pack(16, levels, 1, out.stored + 2)
    else:
        header = 2 * found
        memcpy(out.stored, &header, 8)
        at = 0
        i = 0
        while at < count:
            length = 1
            while length < 255 and at + length < count and levels[at + length] == levels[at]:
                length += 1
            memcpy(out.stored + 8 + 2 * i, &levels[at], 2)
            out.stored[8 + 2 * found + i] = <uint8_t>length
            at += length
            i += 1


cdef inline int64_t _up(int64_t size) noexcept nogil:
    return (size + 7) // 8 * 8


cdef object _page(Nulls *nulls, int64_t entries, bint large, int kind, const uint8_t *one, int64_t one_size,
                  const uint8_t *other, int64_t other_size):
    """(kind of values, kind of levels, word of the chunk, chunk); ``other`` is a second buffer of values, if it has bytes."""
    cdef int levels = 0 if nulls.count == 0 else 1, values = 2 if other_size else 1, word = 4 if large else 2
    cdef int64_t head = _up(2 + 2 * levels + word * values), at = 2
    cdef int64_t total = head + (_up(nulls.size) if levels else 0) + _up(one_size) + _up(other_size)
    cdef bytes chunk = PyBytes_FromStringAndSize(NULL, total)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(chunk)
    cdef uint16_t two = <uint16_t>(entries if levels else 0)
    cdef uint32_t four
    memset(out, 0xFE, total)
    memcpy(out, &two, 2)
    if levels:
        two = <uint16_t>nulls.size
        memcpy(out + at, &two, 2)
        at += 2
    four = <uint32_t>one_size
    memcpy(out + at, &four, word)
    at += word
    if other_size:
        four = <uint32_t>other_size
        memcpy(out + at, &four, word)
    at = head
    if levels:
        memcpy(out + at, nulls.stored, nulls.size)
        at += _up(nulls.size)
    memcpy(out + at, one, one_size)
    at += _up(one_size)
    if other_size:
        memcpy(out + at, other, other_size)
    four = <uint32_t>((total // 8 - 1) << 4)
    return kind, nulls.kind if levels else NO_LEVELS, (<char *>&four)[:word], chunk


cdef int64_t _distinct_words(const uint64_t *words, int64_t count) noexcept nogil:
    cdef uint16_t[TABLE] slots
    cdef int64_t i, found = 0, slot
    memset(slots, 0, sizeof(slots))
    for i in range(count):
        slot = <int64_t>((words[i] * <uint64_t>0x9E3779B97F4A7C15) >> 52)
        while slots[slot] != 0 and words[slots[slot] - 1] != words[i]:
            slot = (slot + 1) & (TABLE - 1)
        if slots[slot] == 0:
            slots[slot] = <uint16_t>(i + 1)
            found += 1
    return found


cdef inline int64_t _with_indices(int64_t items, int64_t distinct, int64_t count, int64_t runs) noexcept nogil:
    """Bytes of a page with a dictionary: its items, and indices that are packed or in runs."""
    return items + min(count * lancelet_width(<uint64_t>max(distinct - 1, 1)) // 8, runs * 5)


cdef inline bint _dictionary_may_pay(const uint64_t *words, int64_t count, int64_t runs, int64_t rival) noexcept nogil:
    cdef int64_t seen = _distinct_words(words, count)
    if seen > 0.98 * count:
        return False
    return _with_indices(seen * 8, seen, count, runs) < 0.95 * rival


cdef class _View:
    """The bytes of an object, or of None, as long as this is there. Whatever its items are: Arrow's are signed."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, object source):
        self.held = False
        if source is not None:
            PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)
            self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef inline const uint8_t *data(self) noexcept:
        return <const uint8_t *>self.view.buf if self.held else NULL

    cdef inline int64_t size(self) noexcept:
        return self.view.len if self.held else 0


def encode_words(object source, int bits, int64_t offset, int64_t count, object validity, bint large):
    """Words of ``bits`` bits from ``offset`` on in a buffer; without a validity bitmap all count."""
    cdef _View source_view = _View(source), validity_view = _View(validity)
    cdef const uint8_t *data = source_view.data()
    cdef const uint8_t *bitmap = validity_view.data()
    cdef int64_t size = source_view.size()
    cdef uint64_t[1024] block
    cdef uint8_t[1024 * 8 + 8] stored
    cdef uint8_t[1024] lengths
    cdef uint8_t *words = <uint8_t *>block
    cdef int64_t item = bits // 8, i, changes = 0, raw, packed, run, runs, found = 0, at, length, first
    cdef uint64_t any
    cdef int width
    cdef Nulls nulls
    if bits not in (8, 16, 32, 64) or not 1 <= count <= MOST or not 0 <= offset <= size or (offset + count) * item > size:
        raise ValueError(f"{count} words of {bits} bits from {offset} on in {size} bytes")
    if bitmap != NULL and offset + count > validity_view.size() * 8:
        raise ValueError("a validity bitmap that is too short")
    nulls.count = 0
    nulls.kind = 0
    nulls.size = 0
    with nogil:
        memset(block, 0, sizeof(block))
        memcpy(words, data + offset * item, count * item)
        if bitmap != NULL:
            _levels(bitmap, offset, count, large, &nulls)
            for i in range(count if nulls.count else 0):
                if not _is_valid(bitmap, offset + i):
                    memset(words + i * item, 0, item)
        any = lancelet_survey(bits, words, count, &changes)
    runs = changes + 1
    if nulls.count == count:
        return NULLS, NO_LEVELS, b"", b""
    if large and nulls.count == 0 and runs == 1:
        return ONE_VALUE, NO_LEVELS, words[:item], b""
    if large and 0 < nulls.count and count <= FEW_ENTRIES:
        first = 0
        while not _is_valid(bitmap, offset + first):
            first += 1
        for i in range(first + 1, count):
            if _is_valid(bitmap, offset + i) and memcmp(words + i * item, words + first * item, item) != 0:
                break
        else:
            return None
    width = lancelet_width(any)
    raw, packed = count * item, item + 128 * width
    run = (runs + count // 255) * (item + 1)
    if large and bits == 64 and count >= DICTIONARY and _dictionary_may_pay(block, count, runs, min(raw, packed, run)):
        return None
    if run < min(raw, packed):
        at = 0
        while at < count:
            length = 1
            while length < 255 and at + length < count and memcmp(words + (at + length) * item, words + at * item, item) == 0:
                length += 1
            memcpy(stored + found * item, words + at * item, item)
            lengths[found] = <uint8_t>length
            at += length
            found += 1
        if found * (item + 1) > CHUNK_LIMIT - item:
            return None
        return _page(&nulls, count, large, 2, stored, found * item, lengths, found)
    if packed < raw:
        any = <uint64_t>width
        memcpy(stored, &any, item)
        lancelet_pack(bits, words, width, stored + item)
        return _page(&nulls, count, large, 1, stored, packed, NULL, 0)
    if bits == 64 and count > WIDEST_PLAIN:
        return None
    return _page(&nulls, count, large, 0, words, raw, NULL, 0)


cdef inline int64_t _offset(const uint8_t *offsets, int word, int64_t at) noexcept nogil:
    cdef int32_t narrow
    cdef int64_t wide
    if word == 4:
        memcpy(&narrow, offsets + at * 4, 4)
        return narrow
    memcpy(&wide, offsets + at * 8, 8)
    return wide


def encode_strings(object places, object text, int word, int64_t offset, int64_t count, object validity, bint large):
    """Byte strings whose offsets are words of 4 or 8 bytes, from ``offset`` on; without a validity bitmap all count."""
    cdef _View places_view = _View(places), text_view = _View(text), validity_view = _View(validity)
    cdef const uint8_t *offsets = places_view.data()
    cdef const uint8_t *data = text_view.data()
    cdef const uint8_t *bitmap = validity_view.data()
    cdef int64_t size = places_view.size(), text_size = text_view.size()
    cdef int64_t[MOST + 1] starts
    cdef uint8_t[TEXT_CHUNK + 16] stored
    cdef int64_t i, begin, end, length, longest = 0, total, head = (count + 1) * word, first = -1
    cdef bint equal = True
    cdef Nulls nulls
    if word not in (4, 8) or not 1 <= count <= MOST or not 0 <= offset <= size or (offset + count + 1) * word > size:
        raise ValueError(f"{count} strings from {offset} on with offsets in {size} bytes")
    if bitmap != NULL and offset + count > validity_view.size() * 8:
        raise ValueError("a validity bitmap that is too short")
    nulls.count = 0
    nulls.kind = 0
    nulls.size = 0
    if bitmap != NULL:
        _levels(bitmap, offset, count, large, &nulls)
        if nulls.count == count:
            return NULLS, NO_LEVELS, b"", b""
    begin = _offset(offsets, word, offset)
    if begin < 0 or _offset(offsets, word, offset + count) > text_size:
        raise ValueError("value offsets do not rise within the data")
    total = head
    # Bytes go where they are to be in the chunk; those beneath nulls are left out.
    for i in range(count):
        end = _offset(offsets, word, offset + i + 1)
        if end < begin or end > text_size:
            raise ValueError("value offsets do not rise within the data")
        length = end - begin
        starts[i] = total
        if nulls.count == 0 or _is_valid(bitmap, offset + i):
            if total + length > TEXT_CHUNK:
                return None
            if length > 0:
                memcpy(stored + total, data + begin, length)
            if first < 0:
                first = i
            elif equal:
                equal = (length == (starts[first + 1] - starts[first])
                         and memcmp(stored + total, stored + starts[first], length) == 0)
            total += length
            longest = max(longest, length)
        begin = end
        starts[i + 1] = total
    if total > TEXT_CHUNK:
        return None
    if equal and large and nulls.count == 0:
        return ONE_VALUE, NO_LEVELS, b"", _one_string(stored + head, longest, word)
    if longest >= WIDE or (equal and large and count <= FEW_ENTRIES):
        return None
    if count >= DICTIONARY and _text_dictionary_may_pay(stored, starts, count, word):
        return None
    for i in range(count + 1):
        memcpy(stored + i * word, &starts[i], word)
    while total % word:
        stored[total] = 0x48
        total += 1
    return _page(&nulls, count, large, 3, stored, total, NULL, 0)


cdef bytes _one_string(const uint8_t *value, int64_t length, int word):
    """A value in a buffer of its own (spec 5): number and sizes of its parts, which are its offsets and its bytes."""
    cdef uint32_t[3] sizes
    cdef int64_t[2] places
    cdef int32_t[2] narrow
    sizes[0], sizes[1], sizes[2] = 2, 2 * word, <uint32_t>length
    places[0], places[1] = 0, length
    narrow[0], narrow[1] = 0, <int32_t>length
    return (<char *>sizes)[:12] + ((<char *>narrow)[:8] if word == 4 else (<char *>places)[:16]) + value[:length]


cdef bint _text_dictionary_may_pay(const uint8_t *data, const int64_t *starts, int64_t count, int word) noexcept nogil:
    """Whether at most half of the strings are distinct, and those are much smaller than all."""
    cdef uint16_t[TABLE] slots
    cdef int64_t i, j, slot, length, found = 0, size = 0, raw = starts[count] - starts[0] + word * count
    cdef uint64_t mixed
    memset(slots, 0, sizeof(slots))
    for i in range(count):
        length = starts[i + 1] - starts[i]
        mixed = <uint64_t>length
        for j in range(length):
            mixed = (mixed ^ data[starts[i] + j]) * <uint64_t>0x9E3779B97F4A7C15
        slot = <int64_t>(mixed >> 52)
        while slots[slot] != 0:
            j = slots[slot] - 1
            if starts[j + 1] - starts[j] == length and memcmp(data + starts[j], data + starts[i], length) == 0:
                break
            slot = (slot + 1) & (TABLE - 1)
        if slots[slot] == 0:
            slots[slot] = <uint16_t>(i + 1)
            found += 1
            size += length
            if found > count // 2:
                return False
    size = _with_indices(size + word * found, found, count, count)
    return not size > 0.8 * raw

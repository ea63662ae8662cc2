# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Words, levels, strings and dictionaries of the chunks that :mod:`small_pages` walks over, for its own use.

Every function tells whether the bytes are what they claim to be. Nothing outside of the given pieces is read; values go into the
buffers of a ``Target``, which grow as needed.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from lancelet.encoding.kernels.lz4 cimport inflate
from lancelet.encoding.kernels.page_plans cimport (
    ABSENT,
    FLAT,
    INLINE,
    OUT_OF_LINE,
    RUNS,
    STREAMS,
    STRINGS,
    SYMBOL_TABLE_BYTES,
    Coding,
    Page,
)
from lancelet.encoding.kernels.words cimport half_at, long_at, read_word, word_at

cdef extern from "fastlanes.h" nogil:
    void lancelet_unpack(int bits, const void *packed, int width, void *out)

cdef enum:
    MOST_DICTIONARY = 1 << 16  # a larger one is worth keeping, which the general decoder does


cdef void clear_target(Target *target) noexcept nogil:
    free(target.reps)
    free(target.defs)
    free(target.levels)
    free(target.indices)
    free(target.inflated)
    free(target.item_offsets)
    free(target.validity)
    free(target.values)
    free(target.offsets)


cdef bint grow(Target *target, int64_t more) noexcept nogil:
    """Room for more bytes of values."""
    cdef int64_t room
    cdef uint8_t *grown
    if more <= target.room - target.used:
        return True
    room = max(target.used + more, 2 * target.room)
    grown = <uint8_t *>realloc(target.values, room + SPARE)
    if grown == NULL:
        return False
    target.values = grown
    target.room = room
    return True


# Words


cdef bint _unpack_inline(Piece piece, int64_t count, int bits, uint8_t *out) noexcept nogil:
    """A word with the width, then one block."""
    cdef uint64_t[1024] block
    cdef uint64_t width
    cdef int64_t item = bits // 8
    if count > 1024 or piece.size < item:
        return False
    width = read_word(piece.at, bits)
    if width > <uint64_t>bits or piece.size < item + 128 * <int64_t>width:
        return False
    if count == 1024:
        lancelet_unpack(bits, piece.at + item, <int>width, out)
    elif count > 0:
        lancelet_unpack(bits, piece.at + item, <int>width, block)
        memcpy(out, block, count * item)
    return True


cdef bint _unpack_levels(Piece piece, int64_t count, int width, uint8_t *out) noexcept nogil:
    """Whole blocks of 16-bit numbers packed to one width, then a tail, packed or raw."""
    cdef uint16_t[1024] block
    cdef int64_t left = count // 1024, tail = count % 1024, step = 128 * width
    cdef int64_t rest = piece.size - left * step
    cdef const uint8_t *at = piece.at
    if rest < 0 or (tail > 0 and rest != tail * 2 and rest < step):
        return False
    while left > 0:
        lancelet_unpack(16, at, width, out)
        at += step
        out += 2048
        left -= 1
    if tail > 0:
        if rest == tail * 2 and width > 0:
            memcpy(out, at, tail * 2)
        else:
            lancelet_unpack(16, at, width, block)
            memcpy(out, block, tail * 2)
    return True


cdef bint _expand_runs(Piece values, Piece lengths, int64_t count, int64_t item, uint8_t *out) noexcept nogil:
    """Values, and of each how often, in a byte."""
    cdef int64_t run, k, length
    if values.size < lengths.size * item:
        return False
    for run in range(lengths.size):
        length = lengths.at[run]
        if length > count:
            return False
        count -= length
        if item == 1:
            memset(out, values.at[run], length)
        elif item == 2:
            for k in range(length):
                (<uint16_t *>out)[k] = word_at(values.at + 2 * run)
        elif item == 4:
            for k in range(length):
                (<uint32_t *>out)[k] = half_at(values.at + 4 * run)
        else:
            for k in range(length):
                (<uint64_t *>out)[k] = long_at(values.at + 8 * run)
        out += length * item
    return count == 0


cdef bint _join_streams(Piece piece, int64_t count, int64_t item, uint8_t *out) noexcept nogil:
    """Values of which the first bytes lie together, then the second ones, and so on."""
    cdef int64_t j, k
    if count > piece.size // item:
        return False
    for j in range(item):
        for k in range(count):
            out[k * item + j] = piece.at[j * count + k]
    return True


cdef bint decode_words(Coding *coding, Piece *pieces, int64_t count, uint8_t *out) noexcept nogil:
    """Values of whole bytes."""
    cdef int64_t item = coding.bits // 8
    if coding.codec == FLAT:
        if count > pieces[0].size // item:
            return False
        memcpy(out, pieces[0].at, count * item)
        return True
    if coding.codec == INLINE:
        return _unpack_inline(pieces[0], count, <int>coding.bits, out)
    if coding.codec == STREAMS:
        return _join_streams(pieces[0], count, item, out)
    return coding.codec == RUNS and _expand_runs(pieces[0], pieces[1], count, item, out)


cdef bint _decode_levels(Coding *coding, Piece piece, int64_t count, uint8_t *out) noexcept nogil:
    """The 16-bit levels of a chunk."""
    cdef Piece runs
    cdef uint64_t size
    if coding.codec == FLAT:
        if count > piece.size // 2:
            return False
        memcpy(out, piece.at, 2 * count)
        return True
    if coding.codec == INLINE:
        return _unpack_inline(piece, count, 16, out)
    if coding.codec == OUT_OF_LINE:
        return _unpack_levels(piece, count, <int>coding.bits, out)
    if piece.size < 8:
        return False
    size = long_at(piece.at)
    if size > <uint64_t>(piece.size - 8):
        return False
    runs.at = piece.at + 8 + size
    runs.size = piece.size - 8 - <int64_t>size
    piece.at += 8
    piece.size = <int64_t>size
    return _expand_runs(piece, runs, count, 2, out)


cdef bint decode_validity(Coding *coding, Piece piece, int64_t count, Target *target) noexcept nogil:
    """Levels of a chunk into the scratch, then into the validity; none may be above 1."""
    cdef int64_t at = target.count, k, nulls = 0
    cdef uint16_t level, most = 0
    if count > target.level_room:
        free(target.levels)
        target.level_room = 0
        target.levels = <uint16_t *>malloc(2 * count + SPARE)
        if target.levels == NULL:
            return False
        target.level_room = count
    if not _decode_levels(coding, piece, count, <uint8_t *>target.levels):
        return False
    if target.validity == NULL:
        target.validity = <uint8_t *>malloc((target.capacity + 7) // 8 + SPARE)
        if target.validity == NULL:
            return False
        memset(target.validity, 0xFF, (target.capacity + 7) // 8 + SPARE)
    for k in range(count):
        level = target.levels[k]
        most |= level
        if level:
            target.validity[(at + k) >> 3] &= <uint8_t>~(1 << ((at + k) & 7))
            nulls += 1
    target.nulls += nulls
    return most <= 1


cdef bint read_shape(Page *page, int64_t kinds, Shape *shape) noexcept nogil:
    """How a page numbers its levels, and what the common numbers are; False where its layers are not those of the schema.

    ``kinds`` is the number of layers, and above its low byte a bit for each that is a list, innermost first."""
    cdef int k, base = 0
    cdef bint is_list
    cdef uint8_t layer
    if (kinds & 0xFF) != page.num_layers:
        return False
    shape.renumber[0] = 0
    shape.top = 0
    shape.lists = 0
    shape.max_visible = -1
    for k in range(page.num_layers):
        layer = page.layers[k]
        is_list = kinds >> (8 + k) & 1
        if is_list == (layer == 1 or layer == 3):
            return False
        if is_list:
            if shape.max_visible < 0:
                shape.max_visible = shape.top
            shape.lists += 1
        if layer == 3 or layer == 4 or layer == 6:
            shape.top += 1
            shape.renumber[shape.top] = base + 1
        if layer == 5 or layer == 6:
            shape.top += 1
            shape.renumber[shape.top] = base + 2
        base += 2 if is_list else 1
    if shape.max_visible < 0:
        shape.max_visible = shape.top
    return True


cdef bint decode_entries(Page *page, Shape *shape, Piece reps, Piece defs, int64_t entries, int64_t count, Target *target) noexcept nogil:
    """Repetition and definition levels of a chunk, behind those that are there; the visible ones are as many as its values."""
    cdef int64_t k, at = target.entries, visible = 0
    cdef uint16_t level
    cdef uint16_t *out
    if page.reps.codec == ABSENT and page.levels.codec == ABSENT:
        entries = count
    if entries > target.entry_room - at:
        target.entry_room = max(2 * target.entry_room, at + entries)
        out = <uint16_t *>realloc(target.reps, 2 * target.entry_room + SPARE)
        if out == NULL:
            return False
        target.reps = out
        out = <uint16_t *>realloc(target.defs, 2 * target.entry_room + SPARE)
        if out == NULL:
            return False
        target.defs = out
    if page.reps.codec != ABSENT:
        if not _decode_levels(&page.reps, reps, entries, <uint8_t *>(target.reps + at)):
            return False
        for k in range(at, at + entries):
            if target.reps[k] > shape.lists:
                return False
            target.row_starts += target.reps[k] == shape.lists
    if page.levels.codec != ABSENT:
        target.has_defs = True
        if not _decode_levels(&page.levels, defs, entries, <uint8_t *>(target.defs + at)):
            return False
        for k in range(at, at + entries):
            level = target.defs[k]
            if level > shape.top:
                return False
            visible += level <= shape.max_visible
            target.defs[k] = shape.renumber[level]
    else:
        memset(target.defs + at, 0, 2 * entries)
        visible = entries
    target.entries += entries
    return visible == count


# Strings


cdef bint is_utf8(const uint8_t *at, int64_t size) noexcept nogil:
    cdef const uint8_t *end = at + size
    cdef uint8_t head, low, high
    cdef int more
    while at < end:
        head = at[0]
        at += 1
        if head < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= head <= 0xDF:
            more = 1
        elif 0xE0 <= head <= 0xEF:
            more = 2
            if head == 0xE0:
                low = 0xA0
            elif head == 0xED:
                high = 0x9F
        elif 0xF0 <= head <= 0xF4:
            more = 3
            if head == 0xF0:
                low = 0x90
            elif head == 0xF4:
                high = 0x8F
        else:
            return False
        if end - at < more or at[0] < low or at[0] > high:
            return False
        at += 1
        while more > 1:
            if at[0] & 0xC0 != 0x80:
                return False
            at += 1
            more -= 1
    return True


cdef inline bint _is_ascii(const uint8_t *at, int64_t size) noexcept nogil:
    cdef int64_t k
    cdef uint8_t every = 0
    for k in range(size):
        every |= at[k]
    return every < 0x80


cdef inline int64_t _offset(const uint8_t *at, int64_t index, bint wide) noexcept nogil:
    return <int64_t>long_at(at + 8 * index) if wide else <int64_t>half_at(at + 4 * index)


cdef bint _texts(Target *target, int64_t first, int64_t count) noexcept nogil:
    """Whether values that were just put there fit their type: not too long, and strings in UTF-8."""
    cdef int64_t k, start = offset_of(target, first)
    if not target.is_wide and target.used > MOST_TEXT:
        return False
    if not target.is_string or _is_ascii(target.values + start, target.used - start):
        return True
    for k in range(first, first + count):
        start = offset_of(target, k)
        if not is_utf8(target.values + start, offset_of(target, k + 1) - start):
            return False
    return True


cdef bint decode_strings(Coding *coding, Piece piece, int64_t count, Target *target) noexcept nogil:
    """A chunk of strings: count + 1 offsets from the start of the piece, then the bytes."""
    cdef bint wide = coding.bits == 64
    cdef int64_t item = 8 if wide else 4, k, first, last, at, base = target.used, done = target.count
    cdef int32_t *narrow = <int32_t *>target.offsets
    if count == 0:
        return True
    if count >= piece.size // item:
        return False
    first = last = _offset(piece.at, 0, wide)
    if first < (count + 1) * item:
        return False
    if not wide and not target.is_wide:
        for k in range(count):
            at = half_at(piece.at + 4 * (k + 1))
            if at < last:
                return False
            last = at
            narrow[done + k + 1] = <int32_t>(base + at - first)
    else:
        for k in range(count):
            at = _offset(piece.at, k + 1, wide)
            if at < last:
                return False
            last = at
            put_offset(target, done + k + 1, base + at - first)
    if last > piece.size or not grow(target, last - first):
        return False
    memcpy(target.values + base, piece.at + first, last - first)
    target.used += last - first
    return _texts(target, done, count)


cdef bint decode_coded_strings(Coding *coding, Piece piece, int64_t count, Target *target) noexcept nogil:
    """A chunk of strings in FSST codes."""
    cdef bint wide = coding.bits == 64
    cdef int64_t item = 8 if wide else 4, k, first, last, at, stop, done = target.count, used
    cdef int symbols = coding.symbols[0], code
    cdef uint64_t[256] symbol
    cdef uint8_t[256] step
    cdef const uint8_t *codes
    cdef uint8_t *out
    if count == 0:
        return True
    if half_at(coding.symbols + 4) != SYMBOLS_MARK or 8 + 9 * symbols > SYMBOL_TABLE_BYTES:
        return False
    memset(symbol, 0, sizeof(symbol))
    memset(step, 1, sizeof(step))
    for k in range(symbols):
        symbol[k] = long_at(coding.symbols + 8 + 8 * k)
        step[k] = coding.symbols[8 + 8 * symbols + k]
        if step[k] < 1 or step[k] > 8:
            return False
    if coding.symbols[3] == 0:
        return decode_strings(coding, piece, count, target)
    if count >= piece.size // item:
        return False
    first = last = _offset(piece.at, 0, wide)
    if first < (count + 1) * item:
        return False
    for k in range(count):
        at = _offset(piece.at, k + 1, wide)
        if at < last:
            return False
        last = at
    if last > piece.size or not grow(target, 8 * (last - first)):
        return False
    codes = piece.at
    out = target.values
    used = target.used
    at = first
    for k in range(count):
        stop = _offset(piece.at, k + 1, wide)
        while at < stop:
            code = codes[at]
            at += 1
            if code != 255:
                memcpy(out + used, &symbol[code], 8)
                used += step[code]
            elif at < stop:
                out[used] = codes[at]
                at += 1
                used += 1
            else:
                return False
        if used > MOST_TEXT and not target.is_wide:
            return False
        put_offset(target, done + k + 1, used)
    target.used = used
    return _texts(target, done, count)


# Dictionaries


cdef bint open_dictionary(Page *page, Piece piece, Target *target) noexcept nogil:
    """The items of a page's dictionary: words side by side, or strings by their offsets."""
    cdef int64_t k, start, last, at, count = page.dictionary_items, item = page.dictionary.bits // 8
    cdef bint wide = page.dictionary.bits == 64
    if page.dictionary.lz4 and piece.size > 0:
        free(target.inflated)
        target.inflated = inflate(&piece.at, &piece.size, MOST_DICTIONARY)
        if target.inflated == NULL:
            return False
    if page.dictionary.codec == INLINE and count <= 1024:
        free(target.inflated)
        target.inflated = <uint8_t *>malloc(count * item + SPARE)
        if target.inflated == NULL or not _unpack_inline(piece, count, <int>page.dictionary.bits, target.inflated):
            return False
        piece.at = target.inflated
        piece.size = count * item
    elif page.dictionary.codec == INLINE:
        return False
    if piece.size > MOST_DICTIONARY or count > piece.size:
        return False
    target.num_items = count
    if page.dictionary.codec != STRINGS:
        target.items = piece.at
        return not target.is_text and not target.is_bits and item == target.item and count <= piece.size // item
    if not target.is_text or piece.size < 2 * item or piece.at[0] != page.dictionary.bits:
        return False
    if piece.at[1] or piece.at[2] or piece.at[3]:
        return False
    start = _offset(piece.at, 1, wide)
    if start > piece.size or start < (count + 3) * item:
        return False
    free(target.item_offsets)
    target.item_offsets = <int64_t *>malloc(8 * (count + 1))
    if target.item_offsets == NULL:
        return False
    last = 0
    for k in range(count + 1):
        at = _offset(piece.at, 2 + k, wide)
        if at < last or (k == 0 and at != 0):
            return False
        target.item_offsets[k] = last = at
    if last > piece.size - start:
        return False
    target.items = piece.at + start
    if target.is_string:
        for k in range(count):
            at = target.item_offsets[k]
            if not is_utf8(target.items + at, target.item_offsets[k + 1] - at):
                return False
    return True


cdef bint look_up(Page *page, Piece *pieces, int64_t count, Target *target, bint has_levels) noexcept nogil:
    """A chunk of indices into the page's dictionary. Under a null any index may stand."""
    cdef int64_t bits = page.values.bits, k, at, length, done = target.count
    cdef uint64_t index
    if count * bits // 8 > target.index_room:
        free(target.indices)
        target.index_room = 0
        target.indices = <uint8_t *>malloc(count * bits // 8 + SPARE)
        if target.indices == NULL:
            return False
        target.index_room = count * bits // 8
    if not decode_words(&page.values, pieces, count, target.indices):
        return False
    if not target.is_text and not grow(target, count * target.item):
        return False
    for k in range(count):
        index = read_word(target.indices + k * (bits // 8), <int>bits)
        if index >= <uint64_t>target.num_items:
            if not has_levels or target.levels[k] == 0 or target.num_items == 0:
                return False
            index = 0
        if not target.is_text:
            memcpy(target.values + target.used, target.items + index * target.item, target.item)
            target.used += target.item
            continue
        at = target.item_offsets[index]
        length = target.item_offsets[index + 1] - at
        if length > target.room - target.used and not grow(target, length):
            return False
        memcpy(target.values + target.used, target.items + at, length)
        target.used += length
        if target.used > MOST_TEXT and not target.is_wide:
            return False
        put_offset(target, done + k + 1, target.used)
    return True

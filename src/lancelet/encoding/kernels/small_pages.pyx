# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Neighbouring rows of many columns at once, from the pages that :mod:`page_plans` has planned to Arrow's C structs.

A small file has little in each page, so the time goes into finding out what is there. One call here walks the pages of
all columns without the GIL: chunk words, headers, levels, values, dictionaries, and leaves arrays that pyarrow takes over.

Every check of the general decoders is made here too, over the same chunks; what does not pass one is left to them, for
they know how to say what is wrong. Nothing outside of the file's bytes is read, and nothing written outside of our own.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from lancelet.encoding.kernels.arrow_c cimport ArrowArray, export_array
from lancelet.encoding.kernels.page_plans cimport ABSENT, CONSTANT, FLAT, RUNS, STRINGS, Column, Page, PagePlans
from lancelet.encoding.kernels.small_values cimport (
    MOST_TEXT,
    SPARE,
    Piece,
    Target,
    clear_target,
    decode_coded_strings,
    decode_entries,
    decode_strings,
    decode_validity,
    decode_words,
    grow,
    look_up,
    offset_of,
    open_dictionary,
    put_offset,
    read_shape,
)
from lancelet.encoding.kernels.words cimport half_at, long_at, word_at

cdef enum:
    MOST_AROUND = 1 << 17  # rows of the first and of the last chunk, beside those that are wanted
    MOST_LISTED = 1 << 20  # items of lists
    MOST_BITS = 1 << 20  # of a value, so that no product of rows and bytes is more than a number holds

cdef int64_t MOST_COUNT = 1 << 40


cdef bint _chunk(Page *page, Piece chunk, int64_t count, Target *target) noexcept nogil:
    """Header, levels and values of a chunk."""
    cdef bint has_reps = page.reps.codec != ABSENT, has_levels = page.levels.codec != ABSENT
    cdef int buffers = 2 if page.values.codec == RUNS else 1, levels = has_reps + has_levels, k
    cdef int64_t word = 4 if page.large else 2, at, size, header = 2 + 2 * levels + word * buffers
    cdef Piece[4] pieces
    cdef Piece *values
    if count > target.capacity - target.count or chunk.size < header:
        return False
    at = (header + 7) & ~7
    memset(pieces, 0, sizeof(pieces))
    for k in range(levels + buffers):
        if k >= levels and page.large:
            size = half_at(chunk.at + 2 + 2 * levels + 4 * (k - levels))
        else:
            size = word_at(chunk.at + 2 + 2 * k)
        if at > chunk.size or size > chunk.size - at:
            return False
        pieces[k].at = chunk.at + at
        pieces[k].size = size
        at = (at + size + 7) & ~7
    values = &pieces[levels]
    if target.is_nested:
        if not has_reps and has_levels and word_at(chunk.at) != count:
            return False
        if not decode_entries(page, &target.shape, pieces[0], pieces[levels - 1 if levels else 0], word_at(chunk.at), count, target):
            return False
        has_levels = False
    elif has_levels and (word_at(chunk.at) != count or not decode_validity(&page.levels, pieces[0], count, target)):
        return False
    if page.dictionary.codec != ABSENT:
        if not look_up(page, values, count, target, has_levels):
            return False
    elif page.values.codec == STRINGS:
        if not target.is_text:
            return False
        if page.values.symbols != NULL:
            if not decode_coded_strings(&page.values, values[0], count, target):
                return False
        elif not decode_strings(&page.values, values[0], count, target):
            return False
    elif target.is_text:
        return False
    elif target.is_bits:
        if page.values.codec != FLAT or page.values.bits != 1 or target.count & 7 or (count + 7) // 8 > values[0].size:
            return False
        memcpy(target.values + target.count // 8, values[0].at, (count + 7) // 8)
    else:
        if page.values.bits != 8 * target.item or not grow(target, count * target.item):
            return False
        if not decode_words(&page.values, values, count, target.values + target.used):
            return False
        target.used += count * target.item
    target.count += count
    return True


cdef inline int64_t _chunk_word(const uint8_t *words, int64_t index, bint large) noexcept nogil:
    return half_at(words + 4 * index) if large else word_at(words + 2 * index)


cdef bint _constant(Page *page, int64_t count, Target *target) noexcept nogil:
    """All null, or a value over and over."""
    cdef int64_t k, at = target.count
    if page.inline_size >= 0:
        if target.is_text or target.is_bits or page.inline_size != target.item or not grow(target, count * target.item):
            return False
        for k in range(count):
            memcpy(target.values + target.used, page.inline_value, target.item)
            target.used += target.item
        target.count += count
        return True
    if target.validity == NULL:
        target.validity = <uint8_t *>malloc((target.capacity + 7) // 8 + SPARE)
        if target.validity == NULL:
            return False
        memset(target.validity, 0xFF, (target.capacity + 7) // 8 + SPARE)
    for k in range(count):
        target.validity[(at + k) >> 3] &= <uint8_t>~(1 << ((at + k) & 7))
        if target.is_text:
            put_offset(target, at + k + 1, target.used)
    if target.is_bits:
        # What is there already beyond the last value is zero.
        if at & 7:
            return False
    elif not target.is_text:
        if not grow(target, count * target.item):
            return False
        memset(target.values + target.used, 0, count * target.item)
        target.used += count * target.item
    target.nulls += count
    target.count += count
    return True


cdef bint _is_indexed(const uint8_t *data, Page *page, int64_t chunks) noexcept nogil:
    """Whether the repetition index of a page of lists has the rows that the page has."""
    cdef int place = 2 if page.dictionary.codec == ABSENT else 3
    cdef const uint8_t *at = data + page.offsets[place]
    cdef int64_t k, step = 8 * (page.index_depth + 1), rows = 0
    cdef uint64_t ends, partial
    cdef bint continues = False
    if page.sizes[place] != chunks * step:
        return False
    for k in range(chunks):
        ends = long_at(at + k * step)
        partial = long_at(at + k * step + 8)
        if ends > <uint64_t>MOST_COUNT or partial > <uint64_t>MOST_COUNT or <int64_t>ends + (partial > 0) - continues < 0:
            return False
        continues = partial > 0
        rows += <int64_t>ends
        if rows > page.rows:
            return False
    return rows == page.rows and not continues


cdef bint _walk(
    const uint8_t *data, Page *page, int64_t first, int64_t start, int64_t stop, Target *target, int64_t *base
) noexcept nogil:
    """The chunks of a page, whose first row is ``first``, that hold some of the rows; of a page of lists all.

    ``base`` gets the first row that is in them, unless it has one."""
    cdef const uint8_t *words = data + page.offsets[0]
    cdef int64_t word = 4 if page.large else 2, chunks, k, entry, size, count, row = first, at = 0
    cdef int64_t entries = target.entries, row_starts = target.row_starts
    cdef Piece piece
    if not read_shape(page, target.kinds, &target.shape):
        return False
    if page.kind == CONSTANT:
        if base[0] < 0:
            base[0] = max(start, first)
        return _constant(page, min(stop, first + page.rows) - max(start, first), target)
    chunks = page.sizes[0] // word
    if chunks == 0 or page.sizes[0] % word:
        return False
    if page.dictionary.codec != ABSENT:
        piece.at = data + page.offsets[2]
        piece.size = page.sizes[2]
        if not open_dictionary(page, piece, target):
            return False
    for k in range(chunks):
        entry = _chunk_word(words, k, page.large)
        size = ((entry >> 4) + 1) * 8
        count = 1 << (entry & 15)
        if k == chunks - 1:
            count = first + page.items - row
            if count < 0:
                return False
        elif count == 1:
            return False
        if size > page.sizes[1] - at:
            return False
        if target.shape.lists or (row < stop and start < row + count):
            if base[0] < 0:
                base[0] = first if target.shape.lists else row
            piece.at = data + page.offsets[1] + at
            piece.size = size
            if not _chunk(page, piece, count, target):
                return False
        row += count
        at += size
    if not target.shape.lists:
        return True
    if target.entries == entries or target.reps[entries] != target.shape.lists:
        return False
    return target.row_starts - row_starts == page.rows and _is_indexed(data, page, chunks)


cdef int64_t _rows_of(const uint8_t *data, Page *page, int64_t first, int64_t start, int64_t stop) noexcept nogil:
    """How many values the chunks hold that hold some of the rows; -1 where they contradict themselves."""
    cdef const uint8_t *words = data + page.offsets[0]
    cdef int64_t word = 4 if page.large else 2, chunks, k, count, row = first, rows = 0
    if page.kind == CONSTANT:
        return min(stop, first + page.rows) - max(start, first)
    if page.reps.codec != ABSENT or (start <= first and stop >= first + page.rows):
        return page.items
    chunks = page.sizes[0] // word
    for k in range(chunks):
        count = 1 << (_chunk_word(words, k, page.large) & 15)
        if k == chunks - 1:
            count = first + page.items - row
        if count < 0 or row > first + page.rows:
            return -1
        if row < stop and start < row + count:
            rows += count
        row += count
    return rows


cdef bint _pick(Target *target, const int64_t *rows, int64_t count, int64_t base) noexcept nogil:
    """Keep single rows of what was decoded, whose first row is ``base``."""
    cdef int64_t k, at, start, length, total = 0, nulls = 0
    cdef uint8_t *validity = NULL
    cdef uint8_t *values = NULL
    cdef uint8_t *offsets = NULL
    cdef Target picked
    for k in range(count):
        if not base <= rows[k] < base + target.count:
            return False
        if target.is_text:
            at = rows[k] - base
            total += offset_of(target, at + 1) - offset_of(target, at)
    # A row that is asked for over and over can be too much for offsets of 32 bits.
    if total > MOST_TEXT and not target.is_wide:
        return False
    if target.is_bits:
        values = <uint8_t *>calloc((count + 7) // 8 + SPARE, 1)
    else:
        values = <uint8_t *>malloc((total if target.is_text else count * target.item) + SPARE)
    if target.is_text:
        offsets = <uint8_t *>malloc((count + 1) * (8 if target.is_wide else 4) + SPARE)
    if target.nulls:
        validity = <uint8_t *>calloc((count + 7) // 8 + SPARE, 1)
    if values == NULL or (target.is_text and offsets == NULL) or (target.nulls and validity == NULL):
        free(values)
        free(offsets)
        free(validity)
        return False
    picked = target[0]
    picked.offsets = offsets
    picked.used = 0
    if target.is_text:
        put_offset(&picked, 0, 0)
    for k in range(count):
        at = rows[k] - base
        if target.is_text:
            start = offset_of(target, at)
            length = offset_of(target, at + 1) - start
            memcpy(values + picked.used, target.values + start, length)
            picked.used += length
            put_offset(&picked, k + 1, picked.used)
        elif target.is_bits:
            values[k >> 3] |= ((target.values[at >> 3] >> (at & 7)) & 1) << (k & 7)
        elif target.item == 8:
            memcpy(values + 8 * k, target.values + 8 * at, 8)
        elif target.item == 4:
            memcpy(values + 4 * k, target.values + 4 * at, 4)
        else:
            memcpy(values + k * target.item, target.values + at * target.item, target.item)
        if target.nulls:
            if target.validity[at >> 3] >> (at & 7) & 1:
                validity[k >> 3] |= <uint8_t>(1 << (k & 7))
            else:
                nulls += 1
    free(target.values)
    free(target.offsets)
    free(target.validity)
    target.values = values
    target.offsets = offsets
    target.validity = validity
    target.nulls = nulls
    target.count = count
    return True


cdef bint _decode(
    const uint8_t *data, Column *column, int64_t start, int64_t stop, Target *target, int64_t *base
) noexcept nogil:
    """The values of all chunks that hold some of the rows; ``base`` gets the first row of the first of them."""
    cdef int64_t first = 0, rows, around = MOST_LISTED if target.kinds >> 8 else MOST_AROUND
    cdef Py_ssize_t k
    for k in range(column.num_pages):
        if first < stop and start < first + column.pages[k].rows:
            rows = _rows_of(data, &column.pages[k], first, start, stop)
            if rows < 0 or rows > stop - start + around - target.capacity:
                return False
            target.capacity += rows
        first += column.pages[k].rows
    if target.is_text:
        target.offsets = <uint8_t *>malloc((target.capacity + 1) * (8 if target.is_wide else 4) + SPARE)
        if target.offsets == NULL:
            return False
        put_offset(target, 0, 0)
        target.room = 8 * target.capacity
    else:
        target.room = (target.capacity + 7) // 8 if target.is_bits else target.capacity * target.item
    if target.is_bits:
        target.values = <uint8_t *>calloc(target.room + SPARE, 1)
    else:
        target.values = <uint8_t *>malloc(target.room + SPARE)
    if target.values == NULL:
        return False
    first = 0
    for k in range(column.num_pages):
        if first < stop and start < first + column.pages[k].rows:
            if not _walk(data, &column.pages[k], first, start, stop, target, base):
                return False
        first += column.pages[k].rows
    if target.kinds >> 8:
        return base[0] == start and target.row_starts == stop - start
    return base[0] >= 0 and target.count >= stop - base[0]


cdef void _column(
    const uint8_t *data, Column *column, int64_t width, int64_t kinds, int64_t start, int64_t stop,
    const int64_t *picks, int64_t num_picks, ArrowArray *arrays
) noexcept nogil:
    """Rows of a column as an Arrow array; of a nested one its visible values, and two more arrays with its levels.

    Without picks arrays begin with the first chunk that has some of the rows."""
    cdef Target target
    cdef int64_t base = -1, nulls, count
    memset(&target, 0, sizeof(Target))
    target.is_bits = width == 1
    target.is_text = width < 0
    target.is_string = width == -33 or width == -65
    target.is_wide = width <= -64
    target.item = width // 8 if width > 0 else 0
    target.kinds = kinds
    target.is_nested = kinds != 1
    if not _decode(data, column, start, stop, &target, &base):
        clear_target(&target)
        return
    if picks != NULL:
        if not _pick(&target, picks, num_picks, base):
            clear_target(&target)
            return
        start = base = 0
        stop = num_picks
    # Of lists all values, which are more or fewer than the rows.
    count = target.count if kinds >> 8 else stop - start
    nulls = -1 if target.nulls and target.count > count else target.nulls
    if export_array(
        &arrays[0], target.validity, target.offsets if target.is_text else target.values,
        target.values if target.is_text else NULL, count, start - base, nulls,
    ):
        target.validity = target.values = target.offsets = NULL
        count = target.entries if kinds >> 8 else stop - start
        if kinds >> 8 and export_array(&arrays[1], NULL, target.reps, NULL, count, 0, 0):
            target.reps = NULL
        if target.has_defs and export_array(&arrays[2], NULL, target.defs, NULL, count, start - base, 0):
            target.defs = NULL
        if (kinds >> 8 and arrays[1].release == NULL) or (target.has_defs and arrays[2].release == NULL):
            arrays[0].release(&arrays[0])
    clear_target(&target)


def read_columns(
    PagePlans plans not None, const int64_t[::1] columns not None, const int64_t[::1] widths not None,
    const int64_t[::1] kinds not None, int64_t start, int64_t stop, const int64_t[::1] picks, list dtypes not None, make,
):
    """Rows ``start`` to ``stop`` of some columns, each by its number; None in place of what the general decoder has to read.

    Of these rows only the ``picks``, unless they are None, in the order in which they come; of plain columns only. ``widths`` tell what the types
    need: the bits of a value; of strings and binary minus the bits of an offset, and one less for strings; 0 for what is
    not read here. ``kinds`` are the layers of nesting: how many, and in the second byte a bit for each that is a list, innermost
    first. ``make(address, dtype)`` takes an ArrowArray over. The last of ``dtypes`` is that of levels: a nested column
    is a tuple of its visible values, repetition levels and definition levels, None where there are none."""
    cdef Py_ssize_t i, n = columns.shape[0]
    cdef const uint8_t *data
    cdef ArrowArray *arrays
    cdef Column **chosen
    cdef const int64_t *picked = NULL
    cdef int64_t num_picks = 0
    cdef list made = [None] * n
    if picks is not None:
        num_picks = picks.shape[0]
        if num_picks == 0:
            return made
        picked = &picks[0]
    if widths.shape[0] != n or kinds.shape[0] != n or len(dtypes) != n + 1:
        raise ValueError("columns, widths and types differ in number")
    if not 0 <= start < stop <= plans.file_rows or n == 0 or plans.data.shape[0] == 0:
        return made
    data = &plans.data[0]
    arrays = <ArrowArray *>calloc(3 * n, sizeof(ArrowArray))
    chosen = <Column **>calloc(n, sizeof(Column *))
    try:
        if arrays == NULL or chosen == NULL:
            raise MemoryError
        for i in range(n):
            # Lists are read as a whole: only their repetition index could tell where some of their rows are.
            if kinds[i] >> 8 and (start != 0 or stop != plans.file_rows):
                continue
            if kinds[i] != 1 and picks is not None:
                continue
            if widths[i] != 0 and widths[i] <= MOST_BITS and kinds[i] > 0 and 0 <= columns[i] < plans.num_columns:
                chosen[i] = plans.column(columns[i])
        with nogil:
            for i in range(n):
                if chosen[i] != NULL and chosen[i].plain:
                    _column(data, chosen[i], widths[i], kinds[i], start, stop, picked, num_picks, &arrays[3 * i])
        for i in range(n):
            if arrays[3 * i].release == NULL:
                continue
            made[i] = make(<uintptr_t>&arrays[3 * i], dtypes[i])
            if kinds[i] != 1:
                made[i] = (
                    made[i],
                    make(<uintptr_t>&arrays[3 * i + 1], dtypes[n]) if arrays[3 * i + 1].release != NULL else None,
                    make(<uintptr_t>&arrays[3 * i + 2], dtypes[n]) if arrays[3 * i + 2].release != NULL else None,
                )
    finally:
        if arrays != NULL:
            for i in range(3 * n):
                if arrays[i].release != NULL:
                    arrays[i].release(&arrays[i])
        free(arrays)
        free(chosen)
    return made

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Single rows of columns of several files at once, in any order, from the pages that :mod:`page_plans` has planned.

Where a row lies is found by the tables of pages and chunks; of its chunk only what belongs to it is looked at. The unit is
the answer: one call fills the arrays of all columns, whichever files their rows come from.

What a chunk claims is checked before it is believed, as far as it matters to the row. What is wrong, or
stored in ways that are not known here, is left to the general decoders. Nothing outside of the files' bytes is read.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from lancelet.encoding.kernels.arrow_c cimport ArrowArray, export_array
from lancelet.encoding.kernels.page_plans cimport (
    ABSENT,
    CONSTANT,
    FLAT,
    INLINE,
    RUNS,
    STREAMS,
    STRINGS,
    SYMBOL_TABLE_BYTES,
    Chunk,
    Coding,
    Column,
    Page,
    PagePlans,
)
from lancelet.encoding.kernels.pick cimport level_of, packed_item
from lancelet.encoding.kernels.small_values cimport (
    MOST_TEXT,
    SPARE,
    SYMBOLS_MARK,
    Piece,
    Target,
    clear_target,
    grow,
    is_utf8,
)
from lancelet.encoding.kernels.words cimport half_at, long_at, read_word, word_at

cdef enum:
    MOST_BITS = 1 << 20  # of a value
    MOST_PICKED = 1 << 15  # rows at once: many are worth more work before the first, and memory that is given back between


cdef struct Source:
    # A column in one file.
    const uint8_t *data
    Column *column


cdef Page *_page_of(Column *column, int64_t row) noexcept nogil:
    """The page that has a row of the column, which the caller has compared with how many there are."""
    cdef Py_ssize_t low = 0, high = column.num_pages, middle
    while high - low > 1:
        middle = (low + high) // 2
        if column.pages[middle].first <= row:
            low = middle
        else:
            high = middle
    return &column.pages[low]


cdef Chunk *_chunk_of(Page *page, int64_t row) noexcept nogil:
    """The chunk that has a row of the page."""
    cdef int64_t low = 0, high = page.num_chunks, middle
    while high - low > 1:
        middle = (low + high) // 2
        if page.chunks[middle].row <= row:
            low = middle
        else:
            high = middle
    return &page.chunks[low]


cdef bint _knows(Page *page, bint is_text, bint is_bits, int64_t item) noexcept nogil:
    """Whether values of a page are stored in a way that is known here, for columns of such a type."""
    cdef Coding *values = &page.values
    if page.num_layers != 1:
        return False
    if page.kind == CONSTANT:
        return page.inline_size < 0 or (not is_text and not is_bits and page.inline_size == item)
    if page.dictionary.codec != ABSENT:
        if is_bits:
            return False
        if page.dictionary.codec == STRINGS:
            return is_text
        if page.dictionary.codec == INLINE and page.dictionary_items > 1024:
            return False
        return not is_text and page.dictionary.bits == 8 * item
    if values.codec == STRINGS:
        return is_text
    if is_text:
        return False
    return values.codec == FLAT and values.bits == 1 if is_bits else values.bits == 8 * item


cdef bint _word(Coding *coding, Piece *pieces, int64_t count, int64_t index, uint8_t *out) noexcept nogil:
    """A value of whole bytes."""
    cdef int64_t item = coding.bits // 8, k, left
    cdef uint64_t width, value
    cdef bint found = False
    if coding.codec == FLAT:
        if count > pieces[0].size // item:
            return False
        memcpy(out, pieces[0].at + index * item, item)
        return True
    if coding.codec == INLINE:
        if count > 1024 or pieces[0].size < item:
            return False
        width = read_word(pieces[0].at, <int>coding.bits)
        if width > <uint64_t>coding.bits or pieces[0].size < item + 128 * <int64_t>width:
            return False
        value = packed_item(pieces[0].at + item, <int>coding.bits, <int>width, <int>index)
        memcpy(out, &value, item)
        return True
    if coding.codec == STREAMS:
        if count > pieces[0].size // item:
            return False
        for k in range(item):
            out[k] = pieces[0].at[k * count + index]
        return True
    if coding.codec != RUNS or pieces[0].size < pieces[1].size * item:
        return False
    left = count
    for k in range(pieces[1].size):
        if not found and index < count - left + pieces[1].at[k]:
            memcpy(out, pieces[0].at + k * item, item)
            found = True
        left -= pieces[1].at[k]
    return found and left == 0


cdef bint _room(Target *answer, int64_t more) noexcept nogil:
    """Room for more bytes of text."""
    return (answer.is_wide or answer.used + more <= MOST_TEXT) and grow(answer, more)


cdef bint _text(Target *answer, const uint8_t *at, int64_t size) noexcept nogil:
    if (answer.is_string and not is_utf8(at, size)) or not _room(answer, size):
        return False
    memcpy(answer.values + answer.used, at, size)
    answer.used += size
    return True


cdef bint _coded_text(Target *answer, const uint8_t *symbols, const uint8_t *at, int64_t size) noexcept nogil:
    """A string in FSST codes."""
    cdef int count = symbols[0], k
    cdef int64_t start = answer.used, done = 0
    cdef uint8_t code
    if half_at(symbols + 4) != SYMBOLS_MARK or 8 + 9 * count > SYMBOL_TABLE_BYTES:
        return False
    for k in range(count):
        if not 1 <= symbols[8 + 8 * count + k] <= 8:
            return False
    if symbols[3] == 0:
        return _text(answer, at, size)
    if size > MOST_TEXT or not _room(answer, 8 * size):
        return False
    while done < size:
        code = at[done]
        done += 1
        if code != 255:
            # What is no symbol stands for a byte of zero.
            memset(answer.values + answer.used, 0, 8)
            if code < count:
                memcpy(answer.values + answer.used, symbols + 8 + 8 * code, 8)
                answer.used += symbols[8 + 8 * count + code]
            else:
                answer.used += 1
        elif done < size:
            answer.values[answer.used] = at[done]
            done += 1
            answer.used += 1
        else:
            return False
    return not answer.is_string or is_utf8(answer.values + start, answer.used - start)


cdef inline int64_t _offset(const uint8_t *at, int64_t index, bint wide) noexcept nogil:
    return <int64_t>long_at(at + 8 * index) if wide else <int64_t>half_at(at + 4 * index)


cdef bint _string(Coding *coding, Piece piece, int64_t count, int64_t index, Target *answer) noexcept nogil:
    """A string of a chunk: count + 1 offsets from the start of the piece, then the bytes."""
    cdef bint wide = coding.bits == 64
    cdef int64_t step = 8 if wide else 4, first, last
    if count >= piece.size // step:
        return False
    first = _offset(piece.at, index, wide)
    last = _offset(piece.at, index + 1, wide)
    if first < (count + 1) * step or last < first or last > piece.size:
        return False
    if coding.symbols != NULL:
        return _coded_text(answer, coding.symbols, piece.at + first, last - first)
    return _text(answer, piece.at + first, last - first)


cdef bint _looked_up(const uint8_t *data, Page *page, Piece *pieces, int64_t count, int64_t index, Target *answer) noexcept nogil:
    """The item of the page's dictionary that a row names."""
    cdef Piece piece
    cdef uint64_t number = 0
    cdef int64_t items = page.dictionary_items, step, start, first, last
    cdef bint wide = page.dictionary.bits == 64
    if page.dictionary.lz4:
        piece.at, piece.size = page.inflated, page.inflated_size
    else:
        piece.at, piece.size = data + page.offsets[2], page.sizes[2]
    if not _word(&page.values, pieces, count, index, <uint8_t *>&number) or number >= <uint64_t>items:
        return False
    if page.dictionary.codec != STRINGS:
        return _word(&page.dictionary, &piece, items, <int64_t>number, answer.values + answer.count * answer.item)
    step = 8 if wide else 4
    if piece.size < 2 * step or piece.at[0] != page.dictionary.bits or piece.at[1] or piece.at[2] or piece.at[3]:
        return False
    start = _offset(piece.at, 1, wide)
    if items > piece.size or start > piece.size or start < (items + 3) * step:
        return False
    first = _offset(piece.at, 2 + <int64_t>number, wide)
    last = _offset(piece.at, 3 + <int64_t>number, wide)
    if first < 0 or last < first or last > piece.size - start:
        return False
    return _text(answer, piece.at + start + first, last - first)


cdef bint _null(Target *answer, int64_t rows) noexcept nogil:
    """The next value is null; ``rows`` are wanted in all."""
    if answer.validity == NULL:
        answer.validity = <uint8_t *>malloc((rows + 7) // 8 + SPARE)
        if answer.validity == NULL:
            return False
        memset(answer.validity, 0xFF, (rows + 7) // 8)
    answer.validity[answer.count >> 3] &= <uint8_t>~(1 << (answer.count & 7))
    answer.nulls += 1
    return True


cdef bint _value(const uint8_t *data, Page *page, int64_t row, int64_t rows, Target *answer) noexcept nogil:
    """The value of a row of a page, behind those that are there."""
    cdef Chunk *chunk
    cdef Piece[2] pieces
    cdef bint has_levels = page.levels.codec != ABSENT
    cdef int buffers = 2 if page.values.codec == RUNS else 1, k
    cdef int64_t word = 4 if page.large else 2, header = 2 + 2 * has_levels + word * buffers
    cdef int64_t at = (header + 7) & ~7, size, stop, count, index
    cdef uint16_t level = 0
    cdef const uint8_t *start
    if page.kind == CONSTANT:
        if page.inline_size < 0:
            return _null(answer, rows)
        memcpy(answer.values + answer.count * answer.item, page.inline_value, answer.item)
        return True
    chunk = _chunk_of(page, row)
    start = data + page.offsets[1] + chunk.at
    stop = chunk[1].at - chunk.at
    count = chunk[1].row - chunk.row
    index = row - chunk.row
    if index < 0 or index >= count or stop < at:
        return False
    if has_levels:
        size = word_at(start + 2)
        if word_at(start) != count or size > stop - at:
            return False
        if not level_of(start + at, size, page.levels.codec, <int>page.levels.bits, count, index, &level) or level > 1:
            return False
        at = (at + size + 7) & ~7
        if level:
            return _null(answer, rows)
    for k in range(buffers):
        if page.large:
            size = half_at(start + 2 + 2 * has_levels + 4 * k)
        else:
            size = word_at(start + 2 + 2 * has_levels + 2 * k)
        if at > stop or size > stop - at:
            return False
        pieces[k].at = start + at
        pieces[k].size = size
        at = (at + size + 7) & ~7
    if page.dictionary.codec != ABSENT:
        return _looked_up(data, page, pieces, count, index, answer)
    if answer.is_text:
        return _string(&page.values, pieces[0], count, index, answer)
    if answer.is_bits:
        if (count + 7) // 8 > pieces[0].size:
            return False
        answer.values[answer.count >> 3] |= (pieces[0].at[index >> 3] >> (index & 7) & 1) << (answer.count & 7)
        return True
    return _word(&page.values, pieces, count, index, answer.values + answer.count * answer.item)


cdef void _put_offset(Target *answer) noexcept nogil:
    """Where the next text begins."""
    if answer.is_wide:
        (<int64_t *>answer.offsets)[answer.count] = answer.used
    elif answer.is_text:
        (<int32_t *>answer.offsets)[answer.count] = <int32_t>answer.used


cdef bint _fill(
    const Source *sources, const int64_t *owners, const int64_t *rows, int64_t count, Target *answer
) noexcept nogil:
    """The values of all rows."""
    cdef Page *page
    cdef const Source *source
    cdef int64_t k
    if answer.is_text:
        answer.offsets = <uint8_t *>malloc((count + 1) * (8 if answer.is_wide else 4) + SPARE)
        if answer.offsets == NULL:
            return False
        answer.room = 16 * count
    else:
        answer.room = (count + 7) // 8 if answer.is_bits else count * answer.item
    answer.values = <uint8_t *>calloc(answer.room + SPARE, 1)
    if answer.values == NULL:
        return False
    for k in range(count):
        _put_offset(answer)
        source = &sources[owners[k]]
        page = _page_of(source.column, rows[k])
        if not _value(source.data, page, rows[k] - page.first, count, answer):
            return False
        answer.count += 1
    _put_offset(answer)
    return True


cdef bint _is_width(int64_t width) noexcept nogil:
    if width < 0:
        return width == -32 or width == -33 or width == -64 or width == -65
    return width == 1 or (0 < width <= MOST_BITS and width % 8 == 0)


cdef bint _opens(list plans, const Source *sources, int64_t width, const int64_t[::1] owners, const int64_t[::1] rows) except -1:
    """Find the chunks of those pages of a column that have some of the rows; False where one is not known here."""
    cdef Py_ssize_t k
    cdef PagePlans plan
    cdef Page *page
    for k in range(owners.shape[0]):
        page = _page_of(sources[owners[k]].column, rows[k])
        if not _knows(page, width < 0, width == 1, width // 8):
            return False
        if page.kind != CONSTANT and page.chunks == NULL:
            plan = plans[owners[k]]
            if not plan.open_page(page):
                return False
    return True


def pick_columns(
    list plans not None, list columns not None, const int64_t[::1] widths not None, const int64_t[::1] owners not None,
    const int64_t[::1] rows not None, list dtypes not None, make,
):
    """Row ``rows[i]`` of the file ``owners[i]``, for all i, of some columns; None when one of them is for the general decoders.

    ``plans`` are those of the files, ``columns`` the numbers of the columns in each of them. ``widths`` tell what the types
    need, as in ``read_columns``; only columns without nesting are read. ``make(address, dtype)`` takes an ArrowArray over."""
    cdef Py_ssize_t i, k, n = widths.shape[0], files = len(plans), count = owners.shape[0]
    cdef const int64_t[::1] numbers
    cdef PagePlans plan
    cdef Column *column
    cdef Source *sources
    cdef Target answer
    cdef ArrowArray array
    cdef bint done
    cdef list made = []
    if rows.shape[0] != count or len(columns) != files or len(dtypes) < n:
        raise ValueError("owners and rows, files and columns, or widths and types differ in number")
    for k in range(count):
        if not 0 <= owners[k] < files:
            raise ValueError(f"row {k} is in file {owners[k]} of {files}")
    if count == 0 or count > MOST_PICKED:
        return None
    for i in range(n):
        if not _is_width(widths[i]):
            return None
    memset(&array, 0, sizeof(ArrowArray))
    sources = <Source *>calloc(files * max(n, 1), sizeof(Source))
    if sources == NULL:
        raise MemoryError
    try:
        for k in range(files):
            plan, numbers = plans[k], columns[k]
            if numbers.shape[0] != n:
                raise ValueError("files have different numbers of columns")
            for i in range(n):
                if not 0 <= numbers[i] < plan.num_columns or plan.data.shape[0] == 0:
                    return None
                column = plan.column(numbers[i])
                if not column.plain or column.num_pages == 0:
                    return None
                sources[i * files + k].data = &plan.data[0]
                sources[i * files + k].column = column
        for k in range(count):
            plan = plans[owners[k]]
            if not 0 <= rows[k] < plan.file_rows:
                raise ValueError(f"row {rows[k]} of a file of {plan.file_rows} rows")
        for i in range(n):
            if not _opens(plans, sources + i * files, widths[i], owners, rows):
                return None
        for i in range(n):
            memset(&answer, 0, sizeof(Target))
            answer.is_bits = widths[i] == 1
            answer.is_text = widths[i] < 0
            answer.is_string = widths[i] == -33 or widths[i] == -65
            answer.is_wide = widths[i] <= -64
            answer.item = widths[i] // 8 if widths[i] > 0 else 0
            with nogil:
                done = _fill(sources + i * files, &owners[0], &rows[0], count, &answer) and export_array(
                    &array, answer.validity, answer.offsets if answer.is_text else answer.values,
                    answer.values if answer.is_text else NULL, count, 0, answer.nulls,
                )
                if not done:
                    clear_target(&answer)
            if not done:
                return None
            made.append(make(<uintptr_t>&array, dtypes[i]))
    finally:
        # What nobody took over.
        if array.release != NULL:
            array.release(&array)
        free(sources)
    return made

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The pages of a file's columns, planned from the bytes of their metadata.

The messages are ``ColumnMetadata`` of column.proto and, inside of each page, ``PageLayout`` of encodings21.proto. What is
planned here is what nearly all small files consist of: leaves in mini-blocks, or constant,
with the codecs of ``Codec``. Whatever else stands there, an unknown field, a field that comes twice, a number that cannot
be, makes the whole column one that is not plain: the general parser reads it, and says what is wrong with it.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from lancelet.encoding.kernels.lz4 cimport inflate
from lancelet.encoding.kernels.words cimport half_at, word_at

cdef enum:
    END = 0
    NUMBER = 1
    BYTES = 2
    BAD = 3

cdef int64_t MOST_ROWS = 1 << 40
cdef int64_t MOST_INFLATED = 1 << 20
cdef const char *GRAMMAR = b"lance.encodings21.PageLayout"
cdef Py_ssize_t GRAMMAR_BYTES = 28


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end


cdef struct Tag:
    uint64_t field
    uint64_t number
    Cursor inner


cdef inline bint _varint(Cursor *cursor, uint64_t *value) noexcept nogil:
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.at < cursor.end and shift < 70:
        byte = cursor.at[0]
        cursor.at += 1
        if shift == 63 and byte > 1:
            return False
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = result
            return True
        shift += 7
    return False


cdef int _next(Cursor *cursor, Tag *tag) noexcept nogil:
    """The next field: END, or its kind; BAD for what is no field, or of a kind that none of our messages has."""
    cdef uint64_t key = 0, size = 0
    if cursor.at == cursor.end:
        return END
    if not _varint(cursor, &key):
        return BAD
    tag.field = key >> 3
    if tag.field == 0 or tag.field >= 1 << 29:
        return BAD
    if key & 7 == 0:
        return NUMBER if _varint(cursor, &tag.number) else BAD
    if key & 7 != 2 or not _varint(cursor, &size) or size > <uint64_t>(cursor.end - cursor.at):
        return BAD
    tag.inner.at = cursor.at
    cursor.at += size
    tag.inner.end = cursor.at
    return BYTES


cdef bint _only(Cursor cursor, uint64_t *field, Cursor *inner) noexcept nogil:
    """The one field of a message that holds another, or bytes, and nothing else."""
    cdef Tag tag
    if _next(&cursor, &tag) != BYTES or cursor.at != cursor.end:
        return False
    field[0] = tag.field
    inner[0] = tag.inner
    return True


cdef bint _bits(Cursor cursor, int64_t *bits) noexcept nogil:
    """A message whose field 1 is a number, and which has no other field: Flat and InlineBitpacking."""
    cdef Tag tag
    bits[0] = 0
    if cursor.at == cursor.end:
        return True
    if _next(&cursor, &tag) != NUMBER or tag.field != 1 or tag.number > 1 << 20 or cursor.at != cursor.end:
        return False
    bits[0] = <int64_t>tag.number
    return True


cdef bint _flat(Cursor cursor, int64_t *bits) noexcept nogil:
    """A CompressiveEncoding that is flat."""
    cdef uint64_t field = 0
    cdef Cursor inner
    return _only(cursor, &field, &inner) and field == 1 and _bits(inner, bits)


cdef bint _pair(Cursor cursor, uint64_t first, uint64_t second, Cursor *left, Cursor *right) noexcept nogil:
    """A message of just two fields that hold bytes, in any order."""
    cdef Tag tag
    left.at = left.end = NULL
    right.at = right.end = NULL
    while cursor.at != cursor.end:
        if _next(&cursor, &tag) != BYTES:
            return False
        if tag.field == first and left.at == NULL:
            left[0] = tag.inner
        elif tag.field == second and right.at == NULL:
            right[0] = tag.inner
        else:
            return False
    return left.at != NULL and right.at != NULL


cdef bint _runs(Cursor cursor, int64_t *bits) noexcept nogil:
    """Rle of plain values, with lengths of one byte."""
    cdef Cursor values, lengths
    cdef int64_t width = 0
    return _pair(cursor, 1, 2, &values, &lengths) and _flat(values, bits) and _flat(lengths, &width) and width == 8


cdef bint _packed(Cursor cursor, int64_t *bits) noexcept nogil:
    """OutOfLineBitpacking of 16-bit numbers."""
    cdef Tag tag
    cdef int kind
    cdef bint sized = False
    bits[0] = -1
    while True:
        kind = _next(&cursor, &tag)
        if kind == END:
            return sized and 0 <= bits[0] <= 16
        if kind == NUMBER and tag.field == 1 and tag.number == 16 and not sized:
            sized = True
        elif kind == BYTES and tag.field == 3 and bits[0] < 0:
            if not _flat(tag.inner, bits):
                return False
        else:
            return False


cdef bint _strings(Cursor cursor, int64_t *bits) noexcept nogil:
    """Variable with plain offsets."""
    cdef uint64_t field = 0
    cdef Cursor inner
    return _only(cursor, &field, &inner) and field == 1 and _flat(inner, bits) and (bits[0] == 32 or bits[0] == 64)


cdef bint _levels(Cursor cursor, Coding *coding) noexcept nogil:
    """The encoding of definition levels."""
    cdef uint64_t field = 0
    cdef Cursor inner
    if not _only(cursor, &field, &inner):
        return False
    if field == 1:
        coding.codec = FLAT
        return _bits(inner, &coding.bits) and coding.bits == 16
    if field == 5:
        coding.codec = INLINE
        return _bits(inner, &coding.bits) and coding.bits == 16
    if field == 4:
        coding.codec = OUT_OF_LINE
        return _packed(inner, &coding.bits)
    if field == 8:
        coding.codec = RUNS
        return _runs(inner, &coding.bits) and coding.bits == 16
    return False


cdef inline bint _is_word(int64_t bits) noexcept nogil:
    return bits == 8 or bits == 16 or bits == 32 or bits == 64


cdef bint _values(Cursor cursor, Coding *coding) noexcept nogil:
    """The encoding of values in chunks."""
    cdef uint64_t field = 0
    cdef Cursor inner, table, codes
    if not _only(cursor, &field, &inner):
        return False
    if field == 1:
        coding.codec = FLAT
        return _bits(inner, &coding.bits) and (coding.bits == 1 or (coding.bits > 0 and coding.bits % 8 == 0))
    if field == 2:
        coding.codec = STRINGS
        return _strings(inner, &coding.bits)
    if field == 5:
        coding.codec = INLINE
        return _bits(inner, &coding.bits) and _is_word(coding.bits)
    if field == 6:
        coding.codec = STRINGS
        if not _pair(inner, 1, 2, &table, &codes) or table.end - table.at != SYMBOL_TABLE_BYTES:
            return False
        coding.symbols = table.at
        return _only(codes, &field, &inner) and field == 2 and _strings(inner, &coding.bits)
    if field == 8:
        coding.codec = RUNS
        return _runs(inner, &coding.bits) and _is_word(coding.bits)
    if field == 9:
        coding.codec = STREAMS
        if not _only(inner, &field, &codes) or field != 1 or not _flat(codes, &coding.bits):
            return False
        return coding.bits == 32 or coding.bits == 64
    return False


cdef bint _is_lz4(Cursor cursor) noexcept nogil:
    """A BufferCompression by LZ4, of whatever level."""
    cdef Tag tag
    cdef int kind
    cdef bint found = False
    while True:
        kind = _next(&cursor, &tag)
        if kind == END:
            return found
        if kind != NUMBER or tag.field > 2 or (tag.field == 1 and (found or tag.number != 1)):
            return False
        found = found or tag.field == 1


cdef bint _items(Cursor cursor, Coding *coding) noexcept nogil:
    """The encoding of a dictionary's items."""
    cdef uint64_t field = 0
    cdef Cursor inner, how
    if not _only(cursor, &field, &inner):
        return False
    if field == 10:
        coding.lz4 = True
        if not _pair(inner, 1, 3, &how, &cursor) or not _is_lz4(how) or not _only(cursor, &field, &inner):
            return False
    if field == 1:
        coding.codec = FLAT
        return _bits(inner, &coding.bits) and coding.bits > 0 and coding.bits % 8 == 0
    if field == 5 and not coding.lz4:
        coding.codec = INLINE
        return _bits(inner, &coding.bits) and _is_word(coding.bits)
    coding.codec = STRINGS
    return field == 2 and _strings(inner, &coding.bits)


cdef bint _layers(Tag *tag, int kind, Page *page) noexcept nogil:
    """Layers of nesting, innermost first, packed or one by one."""
    cdef uint64_t layer = 0
    cdef bint single = kind == NUMBER
    while single or tag.inner.at != tag.inner.end:
        if single:
            layer = tag.number
        elif not _varint(&tag.inner, &layer):
            return False
        if layer < 1 or layer > 6 or page.num_layers == MOST_LAYERS:
            return False
        page.layers[page.num_layers] = <uint8_t>layer
        page.num_layers += 1
        if single:
            return True
    return True


cdef inline bint _is_item(uint8_t layer) noexcept nogil:
    return layer == 1 or layer == 3


cdef bint _mini_block(Cursor cursor, Page *page) noexcept nogil:
    cdef Tag tag
    cdef int kind, k, needed
    cdef uint64_t seen = 0, num_buffers = 0, items = 0, entries = 0, depth = 0
    cdef bint lists = False, told = False
    page.kind = MINI_BLOCK
    while True:
        kind = _next(&cursor, &tag)
        if kind == END:
            break
        if kind == BAD or tag.field > 10:
            return False
        if tag.field == 6:
            if not _layers(&tag, kind, page):
                return False
            continue
        if seen >> tag.field & 1 or (kind == BYTES) != (tag.field <= 4):
            return False
        seen |= 1 << tag.field
        if tag.field == 1:
            if not _levels(tag.inner, &page.reps):
                return False
        elif tag.field == 2:
            if not _levels(tag.inner, &page.levels):
                return False
        elif tag.field == 3:
            if not _values(tag.inner, &page.values):
                return False
        elif tag.field == 4:
            if not _items(tag.inner, &page.dictionary):
                return False
        elif tag.field == 5:
            entries = tag.number
        elif tag.field == 7:
            num_buffers = tag.number
        elif tag.field == 8:
            depth = tag.number
        elif tag.field == 9:
            items = tag.number
        elif tag.field == 10:
            page.large = tag.number != 0
    for k in range(page.num_layers):
        lists = lists or not _is_item(page.layers[k])
        # What may be null or empty has definition levels.
        told = told or page.layers[k] > 2
    if page.num_layers == 0 or not _is_item(page.layers[0]):
        return False
    if page.values.codec == ABSENT or num_buffers != (2 if page.values.codec == RUNS else 1):
        return False
    if (page.levels.codec != ABSENT and not told) or (page.reps.codec != ABSENT) != lists:
        return False
    if page.dictionary.codec != ABSENT and (page.values.codec == STRINGS or not _is_word(page.values.bits)):
        return False
    if items > <uint64_t>MOST_ROWS or entries > <uint64_t>MOST_ROWS or depth > 64 or (lists and depth == 0):
        return False
    if not lists and items != <uint64_t>page.rows:
        return False
    needed = 2 + (page.dictionary.codec != ABSENT) + lists
    if page.num_buffers < needed:
        return False
    page.items = <int64_t>items
    page.dictionary_items = <int64_t>entries
    page.index_depth = <int64_t>depth
    return True


cdef bint _constant(Cursor cursor, Page *page) noexcept nogil:
    """All null, or a value that stands in the message itself."""
    cdef Tag tag
    cdef int kind
    page.kind = CONSTANT
    page.inline_size = -1
    while True:
        kind = _next(&cursor, &tag)
        if kind == END:
            break
        if kind == BAD:
            return False
        if tag.field == 5:
            if not _layers(&tag, kind, page):
                return False
        elif tag.field == 6 and kind == BYTES and page.inline_size < 0:
            if tag.inner.end - tag.inner.at > MOST_INLINE:
                return False
            page.inline_size = <int>(tag.inner.end - tag.inner.at)
            memcpy(page.inline_value, tag.inner.at, page.inline_size)
        elif tag.field not in (9, 10) or kind != NUMBER:
            return False
    if page.num_layers != 1 or page.num_buffers != 0 or not _is_item(page.layers[0]):
        return False
    return page.inline_size > 0 or (page.inline_size < 0 and page.layers[0] == 3)


cdef bint _described(Cursor cursor, Page *page) noexcept nogil:
    """The page's encoding: an Any that holds a PageLayout."""
    cdef uint64_t field = 0
    cdef Cursor inner, name, layout
    cdef Py_ssize_t size, k
    if not _only(cursor, &field, &inner) or field != 2 or not _only(inner, &field, &cursor) or field != 1:
        return False
    if not _pair(cursor, 1, 2, &name, &layout):
        return False
    size = name.end - name.at
    if size < GRAMMAR_BYTES or memcmp(name.end - GRAMMAR_BYTES, GRAMMAR, GRAMMAR_BYTES) != 0:
        return False
    if size > GRAMMAR_BYTES and name.end[-GRAMMAR_BYTES - 1] != 47:
        return False
    for k in range(size):
        if name.at[k] >= 0x80:
            return False
    if not _only(layout, &field, &inner):
        return False
    if field == 1:
        return _mini_block(inner, page)
    return field == 2 and _constant(inner, page)


cdef bint _numbers(Tag *tag, int kind, int64_t *out, int *count) noexcept nogil:
    """Numbers of a repeated field, packed or one by one."""
    cdef uint64_t value = 0
    cdef bint single = kind == NUMBER
    while single or tag.inner.at != tag.inner.end:
        if single:
            value = tag.number
        elif not _varint(&tag.inner, &value):
            return False
        if count[0] == MOST_BUFFERS or value > <uint64_t>MOST_ROWS:
            return False
        out[count[0]] = <int64_t>value
        count[0] += 1
        if single:
            return True
    return True


cdef bint _page(Cursor cursor, Page *page, int64_t file_bytes) noexcept nogil:
    cdef Tag tag
    cdef int kind, k, sizes = 0
    cdef bint described = False
    cdef Cursor encoding = cursor
    while True:
        kind = _next(&cursor, &tag)
        if kind == END:
            break
        if kind == BAD:
            return False
        if tag.field == 1:
            if not _numbers(&tag, kind, page.offsets, &page.num_buffers):
                return False
        elif tag.field == 2:
            if not _numbers(&tag, kind, page.sizes, &sizes):
                return False
        elif tag.field == 3 and kind == NUMBER:
            if tag.number > <uint64_t>MOST_ROWS:
                return False
            page.rows = <int64_t>tag.number
        elif tag.field == 4 and kind == BYTES and not described:
            described = True
            encoding = tag.inner
        elif tag.field != 5 or kind != NUMBER:
            return False
    if not described or sizes != page.num_buffers:
        return False
    for k in range(sizes):
        if page.offsets[k] > file_bytes or page.sizes[k] > file_bytes - page.offsets[k]:
            return False
    return _described(encoding, page)


cdef bint _is_told(Cursor cursor) noexcept nogil:
    """The encoding of the column itself, which says nothing that matters here, but must be well formed."""
    cdef uint64_t field = 0
    cdef Cursor inner
    if cursor.at == cursor.end:
        return True
    if not _only(cursor, &field, &inner):
        return False
    if field == 2:
        return inner.at == inner.end or (_only(inner, &field, &cursor) and field == 1)
    return field == 3 and inner.at == inner.end


cdef bint _column(Cursor cursor, Column *column, int64_t file_bytes) noexcept nogil:
    cdef Tag tag
    cdef int kind, k
    cdef uint64_t value = 0
    cdef bint told = False
    cdef Page *page
    cdef Page *grown
    while True:
        kind = _next(&cursor, &tag)
        if kind == END:
            return True
        if kind == BAD:
            return False
        if tag.field == 2 and kind == BYTES:
            # Powers of two: a column of one page has room for one.
            if column.num_pages & (column.num_pages - 1) == 0:
                grown = <Page *>realloc(column.pages, max(1, 2 * column.num_pages) * sizeof(Page))
                if grown == NULL:
                    return False
                column.pages = grown
            page = &column.pages[column.num_pages]
            memset(page, 0, sizeof(Page))
            column.num_pages += 1
            page.first = column.rows
            if not _page(tag.inner, page, file_bytes) or page.rows > MOST_ROWS - column.rows:
                return False
            column.rows += page.rows
            for k in range(page.num_buffers):
                column.stored += page.sizes[k]
        elif tag.field == 1 and kind == BYTES and not told:
            told = True
            if not _is_told(tag.inner):
                return False
        elif tag.field == 3 or tag.field == 4:
            while kind == BYTES and tag.inner.at != tag.inner.end:
                if not _varint(&tag.inner, &value):
                    return False
        else:
            return False


cdef bint _chunks(Page *page, const uint8_t *words, int64_t count, Chunk *chunks) noexcept nogil:
    """Where the chunks of a page lie; False when their words contradict themselves."""
    cdef int64_t k, entry, row = 0, at = 0
    if count == 0 or page.sizes[0] % (4 if page.large else 2):
        return False
    for k in range(count):
        entry = half_at(words + 4 * k) if page.large else word_at(words + 2 * k)
        chunks[k].row = row
        chunks[k].at = at
        at += ((entry >> 4) + 1) * 8
        if k == count - 1:
            # It has the rest.
            row = page.items
        elif entry & 15 == 0:
            return False
        else:
            row += 1 << (entry & 15)
        if row > page.items or at > page.sizes[1]:
            return False
    chunks[count].row = row
    chunks[count].at = at
    return True


cdef class PagePlans:
    """``PagePlans(data, places, rows)``: of a whole file, the places of its columns' metadata, and how many rows it has.

    Columns are looked at when they are first asked for. Plans point into ``data``, which is kept."""

    def __cinit__(self, const uint8_t[::1] data not None, const int64_t[:, ::1] places not None, uint64_t rows):
        self.columns = NULL
        if places.shape[1] != 2:
            raise ValueError("places are pairs of a position and a size")
        self.data = data
        self.places = places
        # More than any page may have: then no column is plain.
        self.file_rows = <int64_t>min(rows, <uint64_t>MOST_ROWS + 1)
        self.num_columns = places.shape[0]
        self.nbytes = self.num_columns * sizeof(Column)
        self.columns = <Column *>calloc(max(1, self.num_columns), sizeof(Column))
        if self.columns == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i, k
        if self.columns != NULL:
            for i in range(self.num_columns):
                for k in range(self.columns[i].num_pages):
                    free(self.columns[i].pages[k].chunks)
                    free(self.columns[i].pages[k].inflated)
                free(self.columns[i].pages)
            free(self.columns)

    cdef Column *column(self, Py_ssize_t index) except NULL:
        """A column by its number, which the caller has compared with how many there are."""
        cdef Column *column = &self.columns[index]
        cdef Cursor cursor
        cdef int64_t at = self.places[index, 0], size = self.places[index, 1], end = self.data.shape[0]
        if column.known:
            return column
        if end > 0 and 0 <= at <= end and 0 <= size <= end - at:
            cursor.at = &self.data[0] + at
            cursor.end = cursor.at + size
            column.plain = _column(cursor, column, end) and column.rows == self.file_rows
        if not column.plain:
            free(column.pages)
            column.pages = NULL
            column.num_pages = 0
        self.nbytes += column.num_pages * <Py_ssize_t>sizeof(Page)
        column.known = True
        return column

    cdef bint open_page(self, Page *page) except -1:
        """Find the chunks of one of our pages, and inflate its dictionary, for good; False for one that is wrong, or has lists."""
        cdef Chunk *chunks
        cdef const uint8_t *items
        cdef int64_t count
        if page.chunks != NULL:
            return True
        if page.kind != MINI_BLOCK or page.reps.codec != ABSENT:
            return False
        if page.dictionary.lz4 and page.inflated == NULL:
            items = &self.data[0] + page.offsets[2]
            page.inflated_size = page.sizes[2]
            page.inflated = inflate(&items, &page.inflated_size, MOST_INFLATED)
            if page.inflated == NULL:
                return False
            self.nbytes += page.inflated_size
        count = page.sizes[0] // (4 if page.large else 2)
        chunks = <Chunk *>malloc((count + 1) * sizeof(Chunk))
        if chunks == NULL:
            raise MemoryError
        if not _chunks(page, &self.data[0] + page.offsets[0], count, chunks):
            free(chunks)
            return False
        page.num_chunks = count
        page.chunks = chunks
        self.nbytes += (count + 1) * <Py_ssize_t>sizeof(Chunk)
        return True

    def stored_bytes(self, Py_ssize_t index):
        """Bytes of a column's pages; -1 where the general parser has to look."""
        cdef Column *column
        if not 0 <= index < self.num_columns:
            return -1
        column = self.column(index)
        return column.stored if column.plain else -1

    def total_bytes(self, const int64_t[::1] indices not None):
        """Bytes of the pages of those columns that are plain."""
        cdef Py_ssize_t i
        cdef int64_t total = 0
        cdef Column *column
        for i in range(indices.shape[0]):
            if 0 <= indices[i] < self.num_columns:
                column = self.column(indices[i])
                total += column.stored if column.plain else 0
        return total

    def describe(self, Py_ssize_t index):
        """The pages of a column as plain values; None for one that is not plain."""
        cdef Column *column
        cdef Py_ssize_t i
        if not 0 <= index < self.num_columns:
            raise IndexError(f"column {index} of {self.num_columns}")
        column = self.column(index)
        return [_shown(&column.pages[i]) for i in range(column.num_pages)] if column.plain else None


cdef dict _shown(Page *page):
    cdef int k
    shown = {
        "kind": {MINI_BLOCK: "mini_block", CONSTANT: "constant"}[page.kind],
        "rows": page.rows,
        "buffers": [(page.offsets[k], page.sizes[k]) for k in range(page.num_buffers)],
        "layers": [page.layers[k] for k in range(page.num_layers)],
    }
    if page.kind == CONSTANT:
        shown["value"] = None if page.inline_size < 0 else page.inline_value[:page.inline_size]
        return shown
    shown["large"] = bool(page.large)
    shown["reps"] = _shown_coding(&page.reps)
    shown["levels"] = _shown_coding(&page.levels)
    shown["values"] = _shown_coding(&page.values)
    shown["dictionary"] = _shown_coding(&page.dictionary)
    shown["dictionary_items"] = page.dictionary_items
    return shown


cdef object _shown_coding(Coding *coding):
    names = {
        FLAT: "flat", INLINE: "inline", OUT_OF_LINE: "out_of_line", RUNS: "runs", STRINGS: "strings", STREAMS: "streams",
    }
    if coding.codec == ABSENT:
        return None
    symbols = None if coding.symbols == NULL else coding.symbols[:SYMBOL_TABLE_BYTES]
    return names[coding.codec], coding.bits, symbols, bool(coding.lz4)

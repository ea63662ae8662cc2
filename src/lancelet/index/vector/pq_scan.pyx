# distutils: extra_compile_args = -ffp-contract=off
"""Product-quantised codes: tables of distances, scans of partitions, codes of vectors. The work is in ``pq_scan.h``.

Codewords are ``words[m, width, count]``, coordinate by coordinate: ``count`` is 256 (8 bits) or 16 (4 bits, two codes
a byte). Codes are the bytes of one partition as they are stored: by columns (``transposed``) or by rows. Every size
is checked before a byte is looked at.
"""

from libc.math cimport INFINITY
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from lancelet.index.vector.blocks cimport Blocks, Entries
from lancelet.index.vector.top cimport Top


cdef extern from "pq_scan.h" nogil:
    ctypedef struct lc_bounds:
        double room

    int lc_cpu_level()
    void lc_pq_table(const float*, const float*, size_t, size_t, size_t, int, float*, int)
    void lc_pq_block(const float*, const uint8_t*, size_t, size_t, int, float*, int)
    void lc_pq_some(const float*, const uint8_t*, size_t, size_t, int, const uint8_t*, size_t, float*)
    int lc_pq_has_bounds(int, int)
    void lc_pq_survey(const float*, size_t, size_t, float*, lc_bounds*, int)
    int lc_pq_round(const float*, const float*, double, lc_bounds*, uint8_t*, int)
    int lc_pq_ceiling(const lc_bounds*, double)
    uint64_t lc_pq_within(const uint8_t*, const uint8_t*, size_t, size_t, int, int, int)
    void lc_pq_gather(const uint8_t*, size_t, size_t, size_t, size_t, uint8_t*)
    uint64_t lc_kept(const uint8_t*, size_t)
    int lc_ones(uint64_t)
    int lc_lowest(uint64_t)
    void lc_pq_nearest(const float*, const float*, size_t, size_t, size_t, size_t, size_t, uint8_t*, int)


DEF BLOCK = 64
DEF LINE = 64
# Of a block with more rows left than this all are looked at exactly: side by side they cost less than one by one.
DEF FEW = 12

cdef int _level = lc_cpu_level()


def use_level(int level):
    """Let the kernels of this module do no more than a level of ``cpu.h``; the level until now is returned."""
    global _level
    before = _level
    _level = max(0, min(level, lc_cpu_level()))
    return before


cdef int _bits_of(Py_ssize_t m, Py_ssize_t count) except -1:
    if m < 1 or count not in (16, 256):
        raise ValueError(f"{m} sub-vectors of {count} codewords: 16 or 256 are expected")
    if count == 16 and m % 2:
        raise ValueError(f"{m} sub-vectors of 4 bits: an even number is expected, two to a byte")
    return 4 if count == 16 else 8


def distance_table(const float[::1] query, const float[:, :, ::1] words, bint dot):
    """What each codeword adds to a distance: ``float32[m, count]``.

    Of a query, less the partition's centroid where codes are of residuals: squared lengths of differences, or
    1 - the product (their sum is m - 1 too large).
    """
    cdef Py_ssize_t m = words.shape[0], width = words.shape[1], count = words.shape[2]
    _bits_of(m, count)
    if query.shape[0] != m * width:
        raise ValueError(f"a query of {query.shape[0]} dimensions for codewords of {m} x {width}")
    table = np.empty((m, count), np.float32)
    cdef float[:, ::1] out = table
    if width:
        with nogil:
            lc_pq_table(&words[0, 0, 0], &query[0], m, width, count, dot, &out[0, 0], _level)
    else:
        table[:] = 1 if dot else 0
    return table


cdef Py_ssize_t _rows_of(const float[:, ::1] table, const uint8_t[::1] codes) except -1:
    """How many rows the codes of a partition are."""
    cdef Py_ssize_t width = table.shape[0] * _bits_of(table.shape[0], table.shape[1]) // 8
    if codes.shape[0] % width:
        raise ValueError(f"{codes.shape[0]} bytes of codes are no rows of {width} bytes")
    return codes.shape[0] // width


def distances(const float[:, ::1] table, const uint8_t[::1] codes, bint transposed, float offset=0.0):
    """The distance of every row of a partition: ``float32[n]``; ``offset`` is added to each sum."""
    cdef Py_ssize_t n = _rows_of(table, codes), m = table.shape[0], width = codes.shape[0] // n if n else 0
    cdef int bits = _bits_of(m, table.shape[1])
    found = np.empty(n, np.float32)
    cdef float[::1] out = found
    cdef float sums[BLOCK]
    cdef Py_ssize_t at, size, i
    cdef const uint8_t* block
    cdef size_t stride
    cdef uint8_t* spare = <uint8_t*>malloc(width * BLOCK + 1)
    if spare == NULL:
        raise MemoryError
    with nogil:
        at = 0
        while at < n:
            size = min(<Py_ssize_t>BLOCK, n - at)
            block = _block(&codes[0], n, width, transposed, at, size, spare, &stride)
            lc_pq_block(&table[0, 0], block, stride, m, bits, sums, _level)
            for i in range(size):
                out[at + i] = sums[i] + offset
            at += size
    free(spare)
    return found


cdef const uint8_t* _block(
    const uint8_t* codes, Py_ssize_t n, Py_ssize_t width, bint transposed, Py_ssize_t at, Py_ssize_t size,
    uint8_t* spare, size_t* stride,
) noexcept nogil:
    """64 rows by columns: where they lie, or a copy of them."""
    if transposed:
        if size == BLOCK:
            stride[0] = n
            return codes + at
        lc_pq_gather(codes + at, 1, n, size, width, spare)
    else:
        lc_pq_gather(codes + at * width, width, 1, size, width, spare)
    stride[0] = BLOCK
    return spare


def scan(
    const float[:, ::1] table,
    const uint8_t[::1] codes,
    bint transposed,
    Top top not None,
    const uint64_t[::1] rows=None,
    keep=None,
    uint64_t first=0,
    float offset=0.0,
):
    """The rows of a partition into the nearest few.

    Row i is known as ``rows[i]``, or ``first + i`` where no rows are given. Those that ``keep``, a bool for each, does
    not keep are not there.
    """
    cdef Py_ssize_t n = _rows_of(table, codes), m = table.shape[0], count = table.shape[1]
    cdef Py_ssize_t width = codes.shape[0] // n if n else 0
    cdef int bits = _bits_of(m, count)
    cdef const uint8_t[::1] kept = None if keep is None else np.asarray(keep, np.bool_).view(np.uint8)
    if rows is not None and rows.shape[0] != n:
        raise ValueError(f"{rows.shape[0]} row numbers for {n} rows")
    if kept is not None and kept.shape[0] != n:
        raise ValueError(f"a mask of {kept.shape[0]} rows for {n} rows")
    if n == 0:
        return
    cdef const uint64_t* numbers = NULL
    cdef const uint8_t* mask = NULL
    if rows is not None:
        numbers = &rows[0]
    if kept is not None:
        mask = &kept[0]
    cdef uint8_t* spare = <uint8_t*>malloc(_spare_bytes(m, count, width))
    if spare == NULL:
        raise MemoryError
    with nogil:
        _scan(
            &table[0, 0], &codes[0], n, m, count, width, bits, transposed, top,
            numbers, mask, first, offset, spare + (LINE - <size_t>spare % LINE),
        )
    free(spare)


cdef size_t _spare_bytes(Py_ssize_t m, Py_ssize_t count, Py_ssize_t width) noexcept nogil:
    """One piece of memory: byte tables from a cache line on, a block of codes, the least entries."""
    return LINE + m * count + width * BLOCK + m * sizeof(float)


def scan_blocks(
    const float[:, ::1] queries,
    const float[:, :, ::1] words,
    bint dot,
    bint transposed,
    Blocks blocks not None,
    Top top not None,
    float offset=0.0,
):
    """The rows of all blocks into the nearest few.

    ``queries`` has one for each block (the query less the centroid of the partition), or one for all.
    """
    cdef Py_ssize_t m = words.shape[0], length = words.shape[1], count = words.shape[2], number
    cdef int bits = _bits_of(m, count)
    cdef Py_ssize_t width = m * bits // 8
    cdef bint each = queries.shape[0] != 1
    if queries.shape[1] != m * length or length < 1:
        raise ValueError(f"queries of {queries.shape[1]} dimensions for codewords of {m} x {length}")
    if each and queries.shape[0] != blocks.count:
        raise ValueError(f"{queries.shape[0]} queries for {blocks.count} blocks")
    blocks.check(0, width)
    cdef size_t room = _spare_bytes(m, count, width)
    cdef uint8_t* spare = <uint8_t*>malloc(2 * LINE + room + m * count * sizeof(float))
    if spare == NULL:
        raise MemoryError
    cdef uint8_t* begin = spare + (LINE - <size_t>spare % LINE)
    cdef float* table = <float*>(begin + (room + LINE - 1) // LINE * LINE)
    cdef const Entries* block
    with nogil:
        for number in range(blocks.count):
            block = &blocks.entries[number]
            if each or number == 0:
                lc_pq_table(&words[0, 0, 0], &queries[number, 0], m, length, count, dot, table, _level)
            if block.count:
                _scan(
                    table, block.columns[0], block.count, m, count, width, bits, transposed, top,
                    block.rows, block.kept, 0, offset, begin,
                )
    free(spare)


cdef void _scan(
    const float* table, const uint8_t* codes, Py_ssize_t n, Py_ssize_t m, Py_ssize_t count, Py_ssize_t width, int bits,
    bint transposed, Top top, const uint64_t* rows, const uint8_t* kept, uint64_t first, float offset, uint8_t* spare,
) noexcept nogil:
    cdef uint8_t* bytes = spare
    cdef uint8_t* copied = bytes + m * count
    cdef float* least = <float*>(copied + width * BLOCK)
    cdef const uint8_t* block
    cdef lc_bounds bounds
    cdef bint bounded = lc_pq_has_bounds(bits, _level), surveyed = False
    cdef int made = 0, ceiling = -1
    cdef float limit, known = INFINITY
    cdef float sums[BLOCK]
    cdef uint8_t which[BLOCK]
    cdef uint64_t wanted
    cdef size_t stride
    cdef Py_ssize_t at = 0, size, i, few
    while at < n:
        size = min(<Py_ssize_t>BLOCK, n - at)
        wanted = ~<uint64_t>0 >> (BLOCK - size) if kept == NULL else lc_kept(kept + at, size)
        if wanted == 0:
            at += size
            continue
        block = _block(codes, n, width, transposed, at, size, copied, &stride)
        limit = min(top.limit, top.upper)
        if bounded and limit < INFINITY:
            if not surveyed:
                lc_pq_survey(table, m, count, least, &bounds, _level)
                surveyed = True
            if limit != known:
                # Steps made for rows twice as far are too coarse by now.
                if made != 1 or _room(limit, offset) - _room(known, offset) < -0.5 * bounds.room:
                    made = lc_pq_round(table, least, _room(limit, offset), &bounds, bytes, _level)
                    if made < 0:
                        return
                if made == 1:
                    ceiling = lc_pq_ceiling(&bounds, _room(limit, offset))
                known = limit
            if made == 1:
                wanted &= lc_pq_within(bytes, block, stride, m, bits, ceiling, _level)
        if wanted == 0:
            at += size
            continue
        few = lc_ones(wanted)
        if few > FEW:
            lc_pq_block(table, block, stride, m, bits, sums, _level)
            while wanted:
                i = lc_lowest(wanted)
                wanted &= wanted - 1
                if sums[i] + offset <= top.limit:
                    top.push(sums[i] + offset, rows[at + i] if rows != NULL else first + at + i)
        else:
            for i in range(few):
                which[i] = lc_lowest(wanted)
                wanted &= wanted - 1
            lc_pq_some(table, block, stride, m, bits, which, few, sums)
            for i in range(few):
                if sums[i] + offset <= top.limit:
                    top.push(sums[i] + offset, rows[at + which[i]] if rows != NULL else first + at + which[i])
        at += size


cdef double _room(float limit, float offset) noexcept nogil:
    """What sums may be at most for a distance up to a limit, with the rounding of their addition."""
    return <double>limit - offset + (abs(limit) + abs(offset)) * 4e-7


def encode(const float[:, ::1] vectors, const float[:, :, ::1] words):
    """The nearest codeword for each sub-vector of each row: ``uint8[n, m * bits / 8]``; of equally near ones the first."""
    cdef Py_ssize_t m = words.shape[0], width = words.shape[1], count = words.shape[2], n = vectors.shape[0]
    cdef int bits = _bits_of(m, count)
    if vectors.shape[1] != m * width:
        raise ValueError(f"vectors of {vectors.shape[1]} dimensions for codewords of {m} x {width}")
    codes = np.zeros((n, m * bits // 8), np.uint8)
    if n == 0 or width == 0:
        return codes
    cdef uint8_t[:, ::1] out = codes
    cdef Py_ssize_t at, size, j, r
    cdef uint8_t* block = <uint8_t*>malloc(m * BLOCK)
    if block == NULL:
        raise MemoryError
    with nogil:
        at = 0
        while at < n:
            size = min(<Py_ssize_t>BLOCK, n - at)
            lc_pq_nearest(&words[0, 0, 0], &vectors[at, 0], vectors.shape[1], size, m, width, count, block, _level)
            for r in range(size):
                if bits == 8:
                    for j in range(m):
                        out[at + r, j] = block[j * size + r]
                else:
                    for j in range(0, m, 2):
                        out[at + r, j // 2] = block[j * size + r] | block[(j + 1) * size + r] << 4
            at += size
    free(block)
    return codes

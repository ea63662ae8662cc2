# distutils: extra_compile_args = -ffp-contract=off
"""Scalar-quantised codes: scans of partitions. The work is in ``sq_scan.h``.

Codes are the bytes of one partition, ``d`` for each row, byte 0 standing for ``start`` and 255 for ``end``. A query of bytes
asks for squared differences of quantised values, one of floats for 1 - the product. Every size is checked before a
byte is looked at.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from lancelet.index.vector.blocks cimport Blocks, Entries
from lancelet.index.vector.top cimport Top


cdef extern from "sq_scan.h" nogil:
    int lc_cpu_level()
    void lc_sq_fetch(const uint8_t*, size_t)
    void lc_sq_squares(const uint8_t*, const uint8_t**, size_t, size_t, float, float*, int)
    int lc_sq_has_own(size_t, int)
    void lc_sq_own(const uint8_t*, size_t, size_t, uint32_t*)
    uint32_t lc_sq_length(const uint8_t*, size_t)
    void lc_sq_asked(const uint8_t*, uint32_t, const uint8_t*, const uint32_t*, size_t, size_t, float, float*)
    uint64_t lc_sq_within(const float*, size_t, float, int)
    int lc_sq_lowest(uint64_t)
    void lc_sq_products(const float*, const uint8_t**, size_t, size_t, float, float, float*, int)


DEF BLOCK = 64
DEF FEW = 16
# What stays in the cache of the processor until the last of several queries was there.
DEF NEAR_BYTES = 262144

cdef int _level = lc_cpu_level()


def use_level(int level):
    """Let the kernels of this module do no more than a level of ``cpu.h``; the level until now is returned."""
    global _level
    before = _level
    _level = max(0, min(level, lc_cpu_level()))
    return before


cdef struct Question:
    const uint8_t* bytes
    const float* floats
    Py_ssize_t d
    float scale, shift
    # The sum of squares of the bytes, where rows are asked for by their own sums.
    uint32_t length


cdef void _score(const Question* question, const uint8_t* codes, Py_ssize_t count, float* out) noexcept nogil:
    """Distances of at most BLOCK rows, one after the other."""
    cdef const uint8_t* rows[FEW]
    cdef Py_ssize_t i, at = 0, some, d = question.d
    while at < count:
        some = min(<Py_ssize_t>FEW, count - at)
        lc_sq_fetch(codes + at * d, some * d)
        for i in range(some):
            rows[i] = codes + (at + i) * d
        if question.bytes != NULL:
            lc_sq_squares(question.bytes, rows, d, some, question.scale * question.scale, out + at, _level)
        else:
            lc_sq_products(question.floats, rows, d, some, question.scale, question.shift, out + at, _level)
        at += some


cdef class SqQuery:
    """A query that partitions are scanned for: of bytes (``l2``) or of floats (``dot``)."""

    cdef const uint8_t[::1] _bytes
    cdef const float[::1] _floats
    cdef Question _question

    def __cinit__(self, query, float start, float end):
        if query.ndim != 1 or query.shape[0] < 1:
            raise ValueError("a query has one dimension and at least one value")
        cdef float total = 0
        cdef Py_ssize_t i
        self._question = Question(NULL, NULL, query.shape[0], (end - start) / <float>255, 0, 0)
        if query.dtype == np.uint8:
            self._bytes = np.ascontiguousarray(query)
            self._question.bytes = &self._bytes[0]
            if lc_sq_has_own(self._question.d, lc_cpu_level()):
                self._question.length = lc_sq_length(self._question.bytes, self._question.d)
        else:
            self._floats = np.ascontiguousarray(query, np.float32)
            self._question.floats = &self._floats[0]
            for i in range(self._floats.shape[0]):
                total += self._floats[i]
            self._question.shift = total * start

    cdef Py_ssize_t _rows_of(self, const uint8_t[::1] codes) except -1:
        if codes.shape[0] % self._question.d:
            raise ValueError(f"{codes.shape[0]} bytes of codes are no rows of {self._question.d} bytes")
        return codes.shape[0] // self._question.d

    def distances(self, const uint8_t[::1] codes):
        """The distance of every row of a partition: ``float32[n]``."""
        cdef Py_ssize_t n = self._rows_of(codes)
        found = np.empty(n, np.float32)
        cdef float[::1] out = found
        cdef Py_ssize_t at = 0
        with nogil:
            while at < n:
                _score(&self._question, &codes[at * self._question.d], min(<Py_ssize_t>BLOCK, n - at), &out[at])
                at += BLOCK
        return found

    def scan(
        self, const uint8_t[::1] codes, Top top not None, const uint64_t[::1] rows=None, keep=None, uint64_t first=0
    ):
        """The rows of a partition into the nearest few.

        Row i is known as ``rows[i]``, or ``first + i`` where no rows are given. Those that ``keep``, a bool for each,
        does not keep are not there.
        """
        cdef Py_ssize_t n = self._rows_of(codes)
        cdef const uint8_t[::1] kept = None if keep is None else np.asarray(keep, np.bool_).view(np.uint8)
        if rows is not None and rows.shape[0] != n:
            raise ValueError(f"{rows.shape[0]} row numbers for {n} rows")
        if kept is not None and kept.shape[0] != n:
            raise ValueError(f"a mask of {kept.shape[0]} rows for {n} rows")
        cdef const uint64_t* numbers = NULL
        cdef const uint8_t* mask = NULL
        if n == 0:
            return
        if rows is not None:
            numbers = &rows[0]
        if kept is not None:
            mask = &kept[0]
        with nogil:
            _scan(&self._question, &codes[0], NULL, n, numbers, mask, first, top)

    def scan_blocks(self, Blocks blocks not None, Top top not None):
        """The rows of all blocks into the nearest few."""
        cdef Py_ssize_t number
        cdef const Entries* block
        blocks.check(0, self._question.d)
        with nogil:
            for number in range(blocks.count):
                block = &blocks.entries[number]
                _scan(&self._question, block.columns[0], NULL, block.count, block.rows, block.kept, 0, top)


cdef class SqQueries:
    """Several queries, each for some of the blocks; the codes of a block are read once for all that ask for it."""

    cdef list _queries
    cdef Py_ssize_t _d

    def __cinit__(self, queries, float start, float end):
        if queries.ndim != 2 or queries.shape[1] < 1:
            raise ValueError("queries are the rows of a matrix")
        self._d = queries.shape[1]
        self._queries = [SqQuery(query, start, end) for query in queries]

    def scan_grouped(self, Blocks blocks not None, const int64_t[::1] ends, const int64_t[::1] which, list tops not None):
        """Offer the rows of each block to the ``Top`` of some of the queries.

        Those of block ``i`` are in ``which``, from ``ends[i]`` up to ``ends[i + 1]``.
        """
        cdef Py_ssize_t number, i, at, size, near = max(NEAR_BYTES // self._d, BLOCK)
        cdef const Entries* block
        cdef const uint8_t* codes
        cdef const uint64_t* rows
        cdef const uint8_t* kept
        cdef uint32_t* known
        cdef SqQuery query
        cdef Top top
        if len(tops) != len(self._queries):
            raise ValueError("each query has a list of its nearest rows")
        blocks.check_groups(ends, which, tops)
        blocks.check(0, self._d)
        cdef uint32_t* own = <uint32_t*>malloc(near * sizeof(uint32_t))
        if own == NULL:
            raise MemoryError
        try:
            for number in range(blocks.count):
                block = &blocks.entries[number]
                at = 0
                while at < block.count and ends[number] < ends[number + 1]:
                    size = min(near, block.count - at)
                    codes, rows = block.columns[0] + at * self._d, block.rows + at
                    kept = NULL
                    if block.kept != NULL:
                        kept = block.kept + at
                    known = NULL
                    query = self._queries[which[ends[number]]]
                    if ends[number + 1] - ends[number] > 1 and query._question.bytes != NULL and lc_sq_has_own(self._d, _level):
                        known = own
                        with nogil:
                            lc_sq_own(codes, self._d, size, own)
                    for i in range(ends[number], ends[number + 1]):
                        query = self._queries[which[i]]
                        top = tops[which[i]]
                        with nogil:
                            _scan(&query._question, codes, known, size, rows, kept, 0, top)
                    at += size
        finally:
            free(own)


cdef void _scan(
    const Question* question, const uint8_t* codes, const uint32_t* own, Py_ssize_t n, const uint64_t* rows,
    const uint8_t* kept, uint64_t first, Top top,
) noexcept nogil:
    """Offer rows, whose own sums may be known."""
    cdef float marks[BLOCK]
    cdef Py_ssize_t at = 0, size, i, wanted
    cdef uint64_t near
    while at < n:
        size = min(<Py_ssize_t>BLOCK, n - at)
        wanted = size
        if kept != NULL:
            wanted = 0
            for i in range(size):
                wanted += kept[at + i]
        if wanted:
            if own != NULL:
                lc_sq_asked(
                    question.bytes, question.length, codes + at * question.d, own + at, question.d, size,
                    question.scale * question.scale, marks,
                )
            else:
                _score(question, codes + at * question.d, size, marks)
            near = lc_sq_within(marks, size, min(top.limit, top.upper), _level)
            while near:
                i = lc_sq_lowest(near)
                near &= near - 1
                if marks[i] <= top.limit and (kept == NULL or kept[at + i]):
                    top.push(marks[i], rows[at + i] if rows != NULL else first + at + i)
        at += size

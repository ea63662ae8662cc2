"""Queries against rows of vectors, as the buffers of a column hold them.

Vectors come as a matrix of bytes, one row for each, which need not be aligned; nothing of them is copied. Several queries go over
the same few rows while these are in the cache of the processor.
"""

from libc.math cimport INFINITY, NAN
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from lancelet.index.vector.blocks cimport Blocks, Entries
from lancelet.index.vector.top cimport Top

cdef extern from "distances.h" nogil:
    enum: LC_BLOCK, LC_BLOCK_BYTES, LC_MOST_ROWS
    enum: LC_F16, LC_BF16, LC_F32, LC_F64, LC_U8
    enum: LC_L2, LC_COSINE, LC_DOT, LC_HAMMING
    ctypedef struct lc_queries:
        int element
        int metric
        size_t d
        size_t count
        const unsigned char* values
    size_t lc_element_size(int element)
    void lc_block(const lc_queries* queries, const unsigned char** rows, size_t count, float* out, size_t stride)
    size_t lc_first_part(const lc_queries* queries)
    size_t lc_within(const lc_queries* queries, const unsigned char** rows, size_t count, size_t part, float limit, unsigned char* near)

ELEMENTS = {"float16": LC_F16, "bfloat16": LC_BF16, "float32": LC_F32, "float64": LC_F64, "uint8": LC_U8}
METRICS = {"l2": LC_L2, "cosine": LC_COSINE, "dot": LC_DOT, "hamming": LC_HAMMING}
cdef Py_ssize_t MARKS_AT_ONCE = 1 << 18
# Groups of vectors that are looked at whole once the first numbers were of no use, before these are tried again.
DEF RETRIED = 15
DEF NEAR_BYTES = 131072
# From so many on, queries are compared side by side, up to four at a time; fewer one after the other.
DEF MANY_QUERIES = 2
DEF BESIDE = 4


cdef class Queries:
    """Query vectors, ready to be compared with vectors of one type of elements by one metric."""

    cdef lc_queries held
    cdef object values
    cdef Py_ssize_t rows_at_once
    cdef readonly Py_ssize_t width

    def __cinit__(self, values, element, metric):
        self.held.element = ELEMENTS[element]
        self.held.metric = METRICS[metric]
        if (self.held.element == LC_U8) != (self.held.metric == LC_HAMMING):
            raise ValueError(f"vectors of {element} are not compared by {metric}")
        if values.ndim != 2 or values.shape[1] < 1:
            raise ValueError("queries are the rows of a matrix")
        wanted = np.float64 if self.held.element == LC_F64 else np.uint8 if self.held.element == LC_U8 else np.float32
        if self.held.metric == LC_COSINE:
            exact = values.astype(np.float64)
            with np.errstate(all="ignore"):
                exact /= np.abs(exact).max(axis=1, keepdims=True)
                exact /= np.sqrt(np.einsum("ij,ij->i", exact, exact))[:, None]
            values = exact
        values = np.ascontiguousarray(values, wanted)
        cdef const unsigned char[::1] raw = values.view(np.uint8).reshape(-1)
        self.values = values
        self.held.d = values.shape[1]
        self.held.count = values.shape[0]
        self.held.values = &raw[0] if raw.shape[0] else NULL
        self.width = self.held.d * lc_element_size(self.held.element)
        self.rows_at_once = max(LC_MOST_ROWS, min(LC_BLOCK, LC_BLOCK_BYTES // self.width // 4 * 4))

    def __len__(self):
        return self.held.count

    def scan(self, const unsigned char[:, ::1] vectors, list tops, first=0, rows=None, keep=None):
        """Offer each vector to the ``Top`` of each query. Rows have the numbers from ``first`` on, or those in ``rows``.

        Tells how many vectors were compared; those for which ``keep`` is false are not.
        """
        cdef Py_ssize_t n = vectors.shape[0]
        cdef const uint64_t[::1] numbers = rows
        cdef const unsigned char[::1] kept = None if keep is None else keep.view(np.uint8)
        self._check(vectors, n, rows, keep)
        if len(tops) != <Py_ssize_t>self.held.count:
            raise ValueError("each query has a list of its nearest rows")
        if n == 0 or not tops:
            return 0
        cdef uint64_t begin = first
        cdef bint has_rows = rows is not None, has_keep = keep is not None
        cdef Entries all_of_them
        if len(tops) == 1:
            all_of_them.count = n
            all_of_them.columns[0] = &vectors[0, 0]
            all_of_them.rows = &numbers[0] if has_rows else NULL
            all_of_them.kept = &kept[0] if has_keep else NULL
            return self._scan_alone(&all_of_them, begin, tops[0])
        cdef Py_ssize_t step = max(self.rows_at_once, MARKS_AT_ONCE // len(tops) // self.rows_at_once * self.rows_at_once)
        step = min(step, n)
        cdef float* marks = <float*>malloc(step * self.held.count * sizeof(float))
        cdef Py_ssize_t* places = <Py_ssize_t*>malloc(step * sizeof(Py_ssize_t))
        cdef Py_ssize_t at = 0, i, found, total = 0
        cdef uint64_t number
        cdef float mark
        cdef Top top
        cdef size_t which
        if marks == NULL or places == NULL:
            free(marks)
            free(places)
            raise MemoryError
        try:
            while at < n:
                with nogil:
                    found = 0
                    while at < n and found < step:
                        if not has_keep or kept[at]:
                            places[found] = at
                            found += 1
                        at += 1
                    self._compare(vectors, places, found, marks, step)
                total += found
                for which in range(self.held.count):
                    top = tops[which]
                    with nogil:
                        for i in range(found):
                            mark = marks[which * step + i]
                            if mark <= top.limit:
                                number = numbers[places[i]] if has_rows else begin + places[i]
                                top.push(mark, number)
        finally:
            free(marks)
            free(places)
        return total

    cdef Py_ssize_t _scan_alone(self, const Entries* block, uint64_t first, Top top):
        cdef Py_ssize_t looked_at = 0
        with nogil:
            return self._scan(&self.held, block, 0, block.count, top, first, &looked_at)

    def scan_at(self, const unsigned char[::1] data, const int64_t[::1] starts, Top top not None, const uint64_t[::1] rows):
        """Offer vectors that lie anywhere in some bytes to the ``Top`` of the only query; each has its number in ``rows``."""
        cdef Py_ssize_t n = starts.shape[0], at = 0, here, i
        cdef const unsigned char* places[LC_BLOCK + LC_MOST_ROWS]
        cdef float marks[LC_BLOCK]
        if self.held.count != 1:
            raise ValueError(f"there are {self.held.count} queries for one list of nearest rows")
        if rows.shape[0] != n:
            raise ValueError("there is a number for each row")
        for i in range(n):
            if starts[i] < 0 or starts[i] > data.shape[0] - self.width:
                raise ValueError(f"a vector of {self.width} bytes at {starts[i]} of {data.shape[0]} bytes")
        with nogil:
            while at < n:
                here = min(self.rows_at_once, n - at)
                for i in range(here):
                    places[i] = &data[0] + starts[at + i]
                lc_block(&self.held, places, here, marks, LC_BLOCK)
                for i in range(here):
                    if marks[i] <= top.limit:
                        top.push(marks[i], rows[at + i])
                at += here

    def scan_groups(
        self, const unsigned char[:, ::1] vectors, const int64_t[::1] ends, Top top not None, first=0, rows=None, keep=None, valid=None
    ):
        """Offer groups of vectors: row ``i`` has those from ``ends[i]`` up to ``ends[i + 1]``.

        The distance of a group is the sum over all queries of that to the nearest vector of the group. ``keep`` tells of
        groups, ``valid`` of vectors, which group counts. Tells how many vectors were compared.
        """
        cdef Py_ssize_t groups = ends.shape[0] - 1, group, i, before = 0, count = self.held.count
        cdef const uint64_t[::1] numbers = rows
        cdef const unsigned char[::1] kept = None if keep is None else keep.view(np.uint8)
        cdef const unsigned char[::1] counted = None if valid is None else valid.view(np.uint8)
        self._check(vectors, max(groups, 0), rows, keep)
        if groups < 0 or (valid is not None and counted.shape[0] != vectors.shape[0]):
            raise ValueError("groups need ends, and a mark for each vector")
        for i in range(groups + 1):
            if ends[i] < before or ends[i] > vectors.shape[0]:
                raise ValueError("groups go over each other, or beyond the vectors")
            before = ends[i]
        cdef uint64_t begin = first
        cdef bint has_rows = rows is not None, has_keep = keep is not None, has_valid = valid is not None
        cdef Py_ssize_t step = self.rows_at_once, at, found, total = 0
        cdef size_t which
        cdef float* marks = <float*>malloc(step * max(count, 1) * sizeof(float))
        cdef float* least = <float*>malloc(max(count, 1) * sizeof(float))
        cdef Py_ssize_t* places = <Py_ssize_t*>malloc(step * sizeof(Py_ssize_t))
        cdef double mark
        if marks == NULL or places == NULL or least == NULL:
            free(marks)
            free(least)
            free(places)
            raise MemoryError
        with nogil:
            for group in range(groups):
                if has_keep and not kept[group]:
                    continue
                for i in range(count):
                    least[i] = NAN
                at = ends[group]
                while at < ends[group + 1]:
                    found = 0
                    while at < ends[group + 1] and found < step:
                        if not has_valid or counted[at]:
                            places[found] = at
                            found += 1
                        at += 1
                    self._compare(vectors, places, found, marks, step)
                    total += found
                    for which in range(self.held.count):
                        for i in range(found):
                            # No number is not less; and what is no number yet is not kept.
                            if marks[which * step + i] < least[which] or not (least[which] == least[which]):
                                least[which] = marks[which * step + i]
                mark = 0
                for i in range(count):
                    mark += least[i]
                if <float>mark <= top.limit:
                    top.push(<float>mark, numbers[group] if has_rows else begin + group)
        free(marks)
        free(least)
        free(places)
        return total

    def scan_blocks(self, Blocks blocks not None, Top top not None):
        """Offer the vectors of all blocks to the ``Top`` of the only query."""
        cdef Py_ssize_t number, looked_at = 0
        if self.held.count != 1:
            raise ValueError(f"there are {self.held.count} queries for one list of nearest rows")
        blocks.check(0, self.width)
        with nogil:
            for number in range(blocks.count):
                self._scan(&self.held, &blocks.entries[number], 0, blocks.entries[number].count, top, 0, &looked_at)

    cdef Py_ssize_t _scan(
        self, const lc_queries* query, const Entries* block, Py_ssize_t at, Py_ssize_t end, Top top, uint64_t first,
        Py_ssize_t* looked_at,
    ) noexcept nogil:
        """Vectors of a block for one query; those whose first numbers are too far away already are not looked at whole.

        Rows of blocks without numbers have those from ``first`` on. Tells how many vectors count; ``looked_at`` grows by those
        that were looked at whole.
        """
        cdef const unsigned char* rows[LC_BLOCK + LC_MOST_ROWS]
        cdef Py_ssize_t places[LC_BLOCK]
        cdef float marks[LC_BLOCK]
        cdef unsigned char near[LC_BLOCK]
        cdef Py_ssize_t found, left, i, total = 0
        cdef size_t part = lc_first_part(query)
        cdef int whole = 0
        cdef float limit
        while at < end:
            found = 0
            while at < end and found < self.rows_at_once:
                if block.kept == NULL or block.kept[at]:
                    places[found] = at
                    rows[found] = block.columns[0] + at * self.width
                    found += 1
                at += 1
            total += found
            limit = min(top.limit, top.upper)
            if part and limit < INFINITY:
                if whole == 0:
                    left = lc_within(query, rows, found, part, limit, near)
                    if left == 0:
                        continue
                    if left > found // 2:
                        # Most are near by their first numbers: so they will be for a while.
                        whole = RETRIED
                    if left < found:
                        left = 0
                        for i in range(found):
                            places[left] = places[i]
                            rows[left] = rows[i]
                            left += near[i]
                        found = left
                else:
                    whole -= 1
            looked_at[0] += found
            lc_block(query, rows, found, marks, LC_BLOCK)
            for i in range(found):
                if marks[i] <= top.limit:
                    top.push(marks[i], block.rows[places[i]] if block.rows != NULL else first + <uint64_t>places[i])
        return total

    def scan_grouped(self, Blocks blocks not None, const int64_t[::1] ends, const int64_t[::1] which, list tops not None):
        """Offer the vectors of each block to the ``Top`` of some of the queries.

        Those of block ``i`` are in ``which``, from ``ends[i]`` up to ``ends[i + 1]``. One after the other, queries pass over what
        is far away by its first numbers; where most is near by these, several are compared side by side for a while.
        """
        cdef Py_ssize_t number, total, most = 0, step, looked_at, count = self.held.count
        cdef bint passes_over = lc_first_part(&self.held) != 0
        cdef int crowded = 0
        cdef const Entries* block
        cdef const int64_t[::1] asking
        cdef float* marks = NULL
        cdef Py_ssize_t* places = NULL
        cdef unsigned char* values = NULL
        if len(tops) != count:
            raise ValueError("each query has a list of its nearest rows")
        blocks.check_groups(ends, which, tops)
        for number in range(blocks.count):
            most = max(most, ends[number + 1] - ends[number])
        blocks.check(0, self.width)
        if most == 0:
            return
        most += BESIDE
        step = max(self.rows_at_once, MARKS_AT_ONCE // most // self.rows_at_once * self.rows_at_once)
        try:
            marks = <float*>malloc(step * most * sizeof(float))
            places = <Py_ssize_t*>malloc(step * sizeof(Py_ssize_t))
            values = <unsigned char*>malloc(most * self._query_bytes())
            if marks == NULL or places == NULL or values == NULL:
                raise MemoryError
            for number in range(blocks.count):
                block = &blocks.entries[number]
                total = ends[number + 1] - ends[number]
                if total == 0:
                    continue
                asking = which[ends[number] : ends[number + 1]]
                if total >= MANY_QUERIES and (crowded or not passes_over):
                    crowded = max(crowded - 1, 0)
                    self._scan_beside(block, asking, tops, values, places, marks, step)
                    continue
                looked_at = self._scan_in_turn(block, asking, tops)
                if 2 * looked_at > total * block.count:
                    crowded = RETRIED
        finally:
            free(marks)
            free(places)
            free(values)

    cdef Py_ssize_t _query_bytes(self):
        return self.held.d * (8 if self.held.element == LC_F64 else 1 if self.held.element == LC_U8 else 4)

    cdef Py_ssize_t _scan_in_turn(self, const Entries* block, const int64_t[::1] which, list tops) except -1:
        """A block for some queries, one after the other; tells how many vectors were looked at whole, for all of them."""
        # So many vectors stay in the cache of the processor until the last query was there.
        cdef Py_ssize_t near = max(NEAR_BYTES // self.width, 1), at, i, looked_at = 0
        cdef lc_queries some = self.held
        cdef Top top
        some.count = 1
        for at in range(0, block.count, near):
            for i in range(which.shape[0]):
                some.values = self.held.values + which[i] * self._query_bytes()
                top = tops[which[i]]
                with nogil:
                    self._scan(&some, block, at, min(at + near, block.count), top, 0, &looked_at)
        return looked_at

    cdef int _scan_beside(
        self, const Entries* block, const int64_t[::1] which, list tops, unsigned char* values, Py_ssize_t* places, float* marks,
        Py_ssize_t step,
    ) except -1:
        """A block for some queries, side by side; the last ones may be there twice, which is quicker than one by one."""
        cdef Py_ssize_t total = which.shape[0], length = self._query_bytes(), at = 0, found, i
        cdef lc_queries some = self.held
        cdef Top top
        some.count, some.values = total, values
        if total % BESIDE > 1:
            some.count = (total + BESIDE - 1) // BESIDE * BESIDE
        for i in range(<Py_ssize_t>some.count):
            memcpy(values + i * length, self.held.values + which[min(i, total - 1)] * length, length)
        while at < block.count:
            with nogil:
                found = 0
                while at < block.count and found < step:
                    if block.kept == NULL or block.kept[at]:
                        places[found] = at
                        found += 1
                    at += 1
                self._compare_some(&some, block.columns[0], places, found, marks, step)
            for i in range(total):
                top = tops[which[i]]
                with nogil:
                    _offer(top, block.rows, places, found, marks + i * step)
        return 0

    def distances(self, const unsigned char[:, ::1] vectors):
        """All distances, a row for each query."""
        cdef Py_ssize_t n = vectors.shape[0], i
        self._check(vectors, n, None, None)
        found = np.empty((self.held.count, n), np.float32)
        if found.size == 0:
            return found
        cdef float[:, ::1] out = found
        cdef Py_ssize_t* places = <Py_ssize_t*>malloc(n * sizeof(Py_ssize_t))
        if places == NULL:
            raise MemoryError
        with nogil:
            for i in range(n):
                places[i] = i
            self._compare(vectors, places, n, &out[0, 0], n)
        free(places)
        return found

    def _check(self, const unsigned char[:, ::1] vectors, Py_ssize_t n, rows, keep):
        if vectors.shape[1] != self.width:
            raise ValueError(f"vectors have {vectors.shape[1]} bytes, and queries {self.width}")
        for array in (rows, keep):
            if array is not None and len(array) != n:
                raise ValueError("there is a number, or a mark, for each row")

    cdef void _compare(
        self, const unsigned char[:, ::1] vectors, const Py_ssize_t* places, Py_ssize_t count, float* marks, Py_ssize_t stride
    ) noexcept nogil:
        """Distances of some of the vectors; those to query ``q`` begin at ``marks[q * stride]``."""
        if count:
            self._compare_some(&self.held, &vectors[0, 0], places, count, marks, stride)

    cdef void _compare_some(
        self, const lc_queries* queries, const unsigned char* data, const Py_ssize_t* places, Py_ssize_t count, float* marks,
        Py_ssize_t stride,
    ) noexcept nogil:
        cdef const unsigned char* rows[LC_BLOCK + LC_MOST_ROWS]
        cdef Py_ssize_t at = 0, here, i
        while at < count:
            here = min(self.rows_at_once, count - at)
            for i in range(here):
                rows[i] = data + places[at + i] * self.width
            lc_block(queries, rows, here, marks + at, stride)
            at += here


cdef class Ranker:
    """Vectors of which it is asked again and again which are the nearest to another one."""

    cdef lc_queries asked
    cdef const unsigned char* data
    cdef Py_ssize_t count, width
    cdef object vectors, wanted

    def __cinit__(self, vectors, element, metric):
        self.asked.element = ELEMENTS[element]
        self.asked.metric = METRICS[metric]
        if (self.asked.element == LC_U8) != (self.asked.metric == LC_HAMMING) or self.asked.metric == LC_COSINE:
            raise ValueError(f"vectors of {element} are not ranked by {metric}")
        if vectors.ndim != 2 or vectors.shape[1] < 1:
            raise ValueError("vectors are the rows of a matrix")
        self.wanted = np.dtype(
            np.float64 if self.asked.element == LC_F64 else np.uint8 if self.asked.element == LC_U8 else np.float32
        )
        self.vectors = np.ascontiguousarray(vectors)
        self.asked.d, self.asked.count = vectors.shape[1], 1
        self.count, self.width = vectors.shape[0], self.asked.d * lc_element_size(self.asked.element)
        cdef const unsigned char[::1] raw = self.vectors.reshape(-1).view(np.uint8)
        if raw.shape[0] != self.count * self.width:
            raise ValueError(f"vectors of {vectors.dtype} are not of {element}")
        self.data = &raw[0] if self.count else NULL

    def rank(self, query):
        """Numbers of the vectors, the nearest to a query first, and their distances; equal ones by their numbers."""
        values = np.ascontiguousarray(query, self.wanted)
        cdef const unsigned char[::1] raw = values.view(np.uint8)
        if values.shape[0] != <Py_ssize_t>self.asked.d:
            raise ValueError(f"the query has {values.shape[0]} numbers, and vectors have {self.asked.d}")
        numbers, keys = np.empty(self.count, np.int64), np.empty(self.count, np.uint64)
        marks = np.empty(self.count, np.float32)
        cdef int64_t[::1] order = numbers
        cdef uint64_t[::1] key = keys
        cdef float[::1] out = marks
        cdef const unsigned char* rows[LC_BLOCK + LC_MOST_ROWS]
        cdef lc_queries asked = self.asked
        cdef Py_ssize_t at = 0, here, i, step = max(LC_MOST_ROWS, min(LC_BLOCK, LC_BLOCK_BYTES // self.width // 4 * 4))
        cdef uint32_t bits
        asked.values = &raw[0]
        with nogil:
            while at < self.count:
                here = min(step, self.count - at)
                for i in range(here):
                    rows[i] = self.data + (at + i) * self.width
                lc_block(&asked, rows, here, &out[at], LC_BLOCK)
                at += here
            for i in range(self.count):
                key[i] = <uint64_t>_rising(out[i]) << 32 | i
        keys.sort()
        with nogil:
            for i in range(self.count):
                order[i] = key[i] & <uint32_t>0xffffffff
                out[i] = _falling(key[i] >> 32)
        return numbers, marks


cdef inline uint32_t _rising(float mark) noexcept nogil:
    """Numbers that order as distances do; no number comes last."""
    cdef uint32_t bits
    # Of -0 this makes 0.
    mark += 0
    if mark != mark:
        return <uint32_t>0xffffffff
    memcpy(&bits, &mark, sizeof(float))
    return ~bits if bits >> 31 else bits | <uint32_t>0x80000000


cdef inline float _falling(uint32_t key) noexcept nogil:
    """The distance that such a number was made of."""
    cdef uint32_t bits = key & <uint32_t>0x7fffffff if key >> 31 else ~key
    cdef float mark
    memcpy(&mark, &bits, sizeof(float))
    return mark


cdef void _offer(Top top, const uint64_t* rows, const Py_ssize_t* places, Py_ssize_t count, const float* marks) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if marks[i] <= top.limit:
            top.push(marks[i], rows[places[i]])

"""Queries against rows of vectors, as the buffers of a column hold them.

Vectors come as a matrix of bytes, one row for each, which need not be aligned; nothing of them is copied. Several queries go over
the same few rows while these are in the cache of the processor.
"""

from libc.math cimport NAN
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

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

ELEMENTS = {"float16": LC_F16, "bfloat16": LC_BF16, "float32": LC_F32, "float64": LC_F64, "uint8": LC_U8}
METRICS = {"l2": LC_L2, "cosine": LC_COSINE, "dot": LC_DOT, "hamming": LC_HAMMING}
cdef Py_ssize_t MARKS_AT_ONCE = 1 << 18


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
        cdef const unsigned char* rows[LC_BLOCK + LC_MOST_ROWS]
        cdef const unsigned char* data
        cdef Py_ssize_t at = 0, here, i
        if count == 0:
            return
        data = &vectors[0, 0]
        while at < count:
            here = min(self.rows_at_once, count - at)
            for i in range(here):
                rows[i] = data + places[at + i] * self.width
            lc_block(&self.held, rows, here, marks + at, stride)
            at += here

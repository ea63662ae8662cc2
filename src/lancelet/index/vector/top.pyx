"""The nearest few rows of many, whatever the order in which they come.

A heap with the worst row on top. Of rows at the same distance the one with the lowest number is nearer, so that the
result does not depend on the order, on pieces or on threads. A distance that is no number is not near anything.
"""

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, qsort

import numpy as np


cdef struct Found:
    float mark
    uint64_t row


cdef int _in_order(const void* left, const void* right) noexcept nogil:
    cdef const Found* one = <const Found*>left
    cdef const Found* other = <const Found*>right
    if one.mark != other.mark:
        return -1 if one.mark < other.mark else 1
    return (one.row > other.row) - (one.row < other.row)


cdef inline bint _worse(float mark, uint64_t row, float other, uint64_t other_row) noexcept nogil:
    return mark > other or (mark == other and row > other_row)


cdef class Top:
    """At most ``count`` rows with distances in ``[lower, upper)``; a bound that is None is none."""

    def __cinit__(self, Py_ssize_t count, lower=None, upper=None):
        if count < 1:
            raise ValueError("at least one row is looked for")
        self.capacity = count
        self.size = 0
        self.lower = -INFINITY if lower is None else lower
        self.upper = INFINITY if upper is None else upper
        self.limit = INFINITY
        self.marks = <float*>malloc(count * sizeof(float))
        self.rows = <uint64_t*>malloc(count * sizeof(uint64_t))
        if self.marks == NULL or self.rows == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.marks)
        free(self.rows)

    def __len__(self):
        return self.size

    cdef void push(self, float mark, uint64_t row) noexcept nogil:
        """Take a row in if it is near enough. The caller may compare with ``limit`` first: farther ones never get in."""
        cdef Py_ssize_t at, child, last
        if not mark >= self.lower or mark > self.upper or (mark == self.upper and self.upper != INFINITY):
            return
        if self.size < self.capacity:
            at = self.size
            self.size += 1
            while at > 0 and _worse(mark, row, self.marks[(at - 1) // 2], self.rows[(at - 1) // 2]):
                self.marks[at] = self.marks[(at - 1) // 2]
                self.rows[at] = self.rows[(at - 1) // 2]
                at = (at - 1) // 2
            self.marks[at] = mark
            self.rows[at] = row
        elif _worse(self.marks[0], self.rows[0], mark, row):
            at = 0
            last = self.size
            while True:
                child = 2 * at + 1
                if child >= last:
                    break
                if child + 1 < last and _worse(
                    self.marks[child + 1], self.rows[child + 1], self.marks[child], self.rows[child]
                ):
                    child += 1
                if not _worse(self.marks[child], self.rows[child], mark, row):
                    break
                self.marks[at] = self.marks[child]
                self.rows[at] = self.rows[child]
                at = child
            self.marks[at] = mark
            self.rows[at] = row
        else:
            return
        if self.size == self.capacity:
            self.limit = self.marks[0]

    def add(self, const float[::1] marks, const uint64_t[::1] rows):
        """Rows with their distances."""
        if marks.shape[0] != rows.shape[0]:
            raise ValueError("a distance for each row is needed")
        cdef Py_ssize_t i
        with nogil:
            for i in range(marks.shape[0]):
                if marks[i] <= self.limit:
                    self.push(marks[i], rows[i])

    def join(self, Top other not None):
        """The rows of another list."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(other.size):
                if other.marks[i] <= self.limit:
                    self.push(other.marks[i], other.rows[i])

    def sorted(self):
        """Distances and rows, the nearest first."""
        marks, rows = np.empty(self.size, np.float32), np.empty(self.size, np.uint64)
        cdef float[::1] out = marks
        cdef uint64_t[::1] numbers = rows
        cdef Py_ssize_t i
        cdef Found* found = <Found*>malloc(max(self.size, 1) * sizeof(Found))
        if found == NULL:
            raise MemoryError
        with nogil:
            for i in range(self.size):
                found[i].mark, found[i].row = self.marks[i], self.rows[i]
            qsort(found, self.size, sizeof(Found), _in_order)
            for i in range(self.size):
                out[i], numbers[i] = found[i].mark, found[i].row
        free(found)
        return marks, rows

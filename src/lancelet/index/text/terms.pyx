"""Terms: byte strings with numbers, each once.

Numbers count from 0 in the order in which terms came. ``terms.h`` draws the table; kernels that intern many at a time
work on it directly.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import os

import numpy as np

cdef extern from "term_order.h" nogil:
    bint terms_order(const TermTable * table, uint32_t * out)


cdef class Terms:
    """Terms and their numbers.

    Examples
    --------
    >>> terms = Terms()
    >>> terms.intern(b"reef"), terms.intern(b"kelp"), terms.intern(b"reef")
    (0, 1, 0)
    >>> terms.text(1), terms.find(b"tide"), len(terms)
    (b'kelp', None, 2)
    >>> terms.sorted().tolist()
    [1, 0]
    """

    def __cinit__(self):
        if not terms_open(&self.table, int.from_bytes(os.urandom(8), "little")):
            raise MemoryError

    def __dealloc__(self):
        terms_close(&self.table)

    def __len__(self):
        return self.table.count

    def __contains__(self, const uint8_t[::1] term not None):
        return self.find(term) is not None

    @property
    def nbytes(self):
        """Memory that is held."""
        return self.table.room + self.table.spaces * 8 + (self.table.mask + 1) * sizeof(TermSlot)

    @property
    def text_bytes(self):
        """How long all terms are together."""
        return self.table.starts[self.table.count]

    def intern(self, const uint8_t[::1] term not None):
        """The number of a term, which is taken in if it is new."""
        cdef uint32_t number = terms_intern(&self.table, &term[0] if term.shape[0] else NULL, term.shape[0])
        if number == TERMS_FULL:
            raise MemoryError
        return number

    def intern_all(self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
        """The numbers of many terms, those of another set for instance."""
        cdef Py_ssize_t count = offsets.shape[0] - 1, i
        cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
        cdef bint good = count >= 0
        for i in range(count):
            good = good and 0 <= offsets[i] <= offsets[i + 1]
        if not good or (count and offsets[count] > data.shape[0]):
            raise ValueError("offsets that ascend within the bytes are needed")
        numbers_array = np.empty(count, np.uint32)
        cdef uint32_t[::1] numbers = numbers_array
        for i in range(count):
            numbers[i] = terms_intern(&self.table, start + offsets[i], offsets[i + 1] - offsets[i])
            if numbers[i] == TERMS_FULL:
                raise MemoryError
        return numbers_array

    def find(self, const uint8_t[::1] term not None):
        """The number of a term, or None."""
        cdef const uint8_t * start = &term[0] if term.shape[0] else NULL
        cdef uint32_t number = terms_find(&self.table, start, term.shape[0])
        return None if number == TERMS_FULL else number

    def text(self, Py_ssize_t number):
        """The term of a number."""
        if not 0 <= number < self.table.count:
            raise IndexError(f"there are {self.table.count} terms, and none has the number {number}")
        cdef uint64_t start = self.table.starts[number]
        return (<const char *>self.table.bytes + start)[:self.table.starts[number + 1] - start]

    def arrays(self):
        """All terms in the order of their numbers: their bytes, and where each begins (one more than there are terms)."""
        cdef uint64_t size = self.table.starts[self.table.count]
        data_array = np.empty(size, np.uint8)
        offsets_array = np.empty(<uint64_t>self.table.count + 1, np.int64)
        cdef uint8_t[::1] data = data_array
        cdef int64_t[::1] offsets = offsets_array
        if size:
            memcpy(&data[0], self.table.bytes, size)
        memcpy(&offsets[0], self.table.starts, offsets.shape[0] * sizeof(int64_t))
        return data_array, offsets_array

    def sorted(self):
        """The numbers in the order of the terms' bytes."""
        cdef bint done
        numbers_array = np.empty(self.table.count, np.uint32)
        cdef uint32_t[::1] numbers = numbers_array
        with nogil:
            done = terms_order(&self.table, &numbers[0]) if numbers.shape[0] else True
        if not done:
            raise MemoryError
        return numbers_array

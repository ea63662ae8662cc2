"""The entries of partitions as kernels read them: where rows and codes lie, looked up once for each partition.

A search goes through some partitions in one call, without a Python object for each::

    Block     rows, columns of codes       one partition, as long as it is open
    Blocks    a block, a mask              all that one search looks at
              a block, a mask
              ...
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np


cdef class Block:
    """The rows and the columns of codes of one partition; each column has an entry, or a row, for each of the rows."""

    def __cinit__(self, rows, stored):
        cdef const uint64_t[::1] numbers = rows
        cdef const unsigned char[::1] raw
        if len(stored) > MOST_COLUMNS:
            raise ValueError(f"there are {len(stored)} columns of codes; up to {MOST_COLUMNS} are expected")
        self.entries.count = len(rows)
        self.entries.rows = &numbers[0]
        self.columns = len(stored)
        held = [rows]
        for at, column in enumerate(stored):
            if len(column) != self.entries.count:
                raise ValueError(f"a column has {len(column)} entries for {self.entries.count} rows")
            flat = np.ascontiguousarray(column).reshape(-1).view(np.uint8)
            raw = flat
            self.entries.columns[at] = &raw[0]
            self.entries.sizes[at] = raw.shape[0]
            held.append(flat)
        self.arrays = tuple(held)

    def __len__(self):
        return self.entries.count


cdef class Blocks:
    """Some blocks, in the order in which they are looked at; of each all entries count, or those that a mask has."""

    def __cinit__(self, list blocks not None, list masks=None):
        cdef const unsigned char[::1] kept
        cdef Block block
        cdef Py_ssize_t at
        if masks is not None and len(masks) != len(blocks):
            raise ValueError(f"there are {len(masks)} masks for {len(blocks)} blocks")
        self.entries = <Entries*>calloc(max(len(blocks), 1), sizeof(Entries))
        if self.entries == NULL:
            raise MemoryError
        self.count = len(blocks)
        self.held = [blocks, masks]
        for at in range(self.count):
            block = blocks[at]
            self.entries[at] = block.entries
            self.total += block.entries.count
            if masks is None or masks[at] is None:
                continue
            marks = np.ascontiguousarray(masks[at], np.bool_).view(np.uint8)
            kept = marks
            if kept.shape[0] != block.entries.count:
                raise ValueError(f"a mask of {kept.shape[0]} rows for {block.entries.count} rows")
            self.entries[at].kept = &kept[0]
            self.held.append(marks)

    def __dealloc__(self):
        free(self.entries)

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t at):
        """One of them alone."""
        if not 0 <= at < self.count:
            raise IndexError(f"there is no block {at}")
        return Blocks([self.held[0][at]], None if self.held[1] is None else [self.held[1][at]])

    cdef int check(self, int column, Py_ssize_t width) except -1:
        """Raise where a column has not so many bytes for each entry."""
        cdef Py_ssize_t at
        cdef Entries* entries
        for at in range(self.count):
            entries = &self.entries[at]
            if (<Block>self.held[0][at]).columns <= column or entries.sizes[column] != entries.count * width:
                raise ValueError(
                    f"column {column} has {entries.sizes[column]} bytes for {entries.count} entries of {width} bytes"
                )
        return 0

    cdef int check_groups(self, const int64_t[::1] ends, const int64_t[::1] which, list tops) except -1:
        """Raise unless the queries of block ``i`` are in ``which``, from ``ends[i]`` up to ``ends[i + 1]``, each with a list."""
        cdef Py_ssize_t i
        if ends.shape[0] != self.count + 1 or ends[0] != 0 or ends[self.count] != which.shape[0]:
            raise ValueError("each block has its queries")
        for i in range(self.count):
            if ends[i] > ends[i + 1]:
                raise ValueError("each block has its queries")
        for i in range(which.shape[0]):
            if not 0 <= which[i] < len(tops):
                raise ValueError(f"there is no query {which[i]}")
        return 0

# distutils: extra_compile_args = -ffp-contract=off
"""RaBitQ: rotations, extra bits of codes, and scans of partitions. The work is in ``rabit.h``; ``rq.py`` draws the layout.

Every size is checked before a byte is looked at.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

import numpy as np

from lancelet.index.vector.blocks cimport Blocks, Entries
from lancelet.index.vector.top cimport Top


cdef extern from "rabit.h" nogil:
    ctypedef struct lc_rabit:
        size_t width, blocks
        int x

    ctypedef struct lc_rabit_batch:
        const uint8_t* packed
        const float* add
        const float* scale
        const uint8_t* extra
        const float* sign_add
        const float* sign_scale
        const float* error

    int lc_cpu_level()
    void lc_rotate(float*, size_t, size_t, const float*, float*, int)
    void lc_extra(const float*, size_t, size_t, int, float*, uint8_t*, int)
    void lc_some(const lc_rabit*, const lc_rabit_batch*, uint32_t, float, float, float*, int)
    uint32_t lc_near(const lc_rabit*, const lc_rabit_batch*, uint32_t, size_t, float, float, float, float, int)
    void lc_rabit_prepare(const float*, size_t, int, float*, uint8_t*, int8_t*, lc_rabit*)
    void lc_pack_rest(const uint8_t*, size_t, size_t, uint8_t*)
    int lc_lowest(uint32_t)


DEF BATCH = 32
DEF LINE = 64
# Sums of bytes have to fit 16 bits.
DEF MOST = 65535

cdef int _level = lc_cpu_level()


def use_level(int level):
    """Let the kernels of this module do no more than a level of ``cpu.h``; the level until now is returned."""
    global _level
    before = _level
    _level = max(0, min(level, lc_cpu_level()))
    return before


def rotate(float[:, ::1] rows, const float[:, ::1] flips):
    """Turn rows where they lie, by the fast rotation: four rounds of signs, 1 or -1 for each number."""
    cdef Py_ssize_t n = rows.shape[0], d = rows.shape[1]
    if flips.shape[0] != 4 or flips.shape[1] != d:
        raise ValueError(f"four rounds of {d} signs are needed, not {flips.shape[0]} of {flips.shape[1]}")
    if n == 0 or d == 0:
        return
    cdef float* spare = <float*>malloc(16 * d * sizeof(float))
    if spare == NULL:
        raise MemoryError
    with nogil:
        lc_rotate(&rows[0, 0], n, d, &flips[0, 0], spare, _level)
    free(spare)


def extra_codes(const float[:, ::1] rows, int bits):
    """Numbers below ``2 ** bits`` for each number of rotated residuals, those of negative ones complemented: ``uint8``.

    They are ``floor(t * |r|)``, with the ``t`` of each row for which they are most alike.
    """
    cdef Py_ssize_t n = rows.shape[0], d = rows.shape[1]
    if not 1 <= bits <= 8:
        raise ValueError(f"there are 1 to 8 extra bits, not {bits}")
    codes = np.zeros((n, d), np.uint8)
    if n == 0 or d == 0:
        return codes
    cdef uint8_t[:, ::1] out = codes
    cdef float* spare = <float*>malloc((d + 16) * sizeof(float))
    if spare == NULL:
        raise MemoryError
    with nogil:
        lc_extra(&rows[0, 0], n, d, bits, spare, &out[0, 0], _level)
    free(spare)
    return codes


cdef struct Codes:
    # Of one partition; extra codes and factors for signs alone may be missing.
    Py_ssize_t count
    const uint8_t* signs
    const float* add
    const float* scale
    const uint8_t* extra
    const float* sign_add
    const float* sign_scale
    const float* error


cdef class RabitQuery:
    """A rotated query that partitions are scanned for, with some extra bits, or by signs alone (0)."""

    cdef lc_rabit _query
    cdef void* _memory

    def __cinit__(self, const float[::1] query, int bits):
        cdef Py_ssize_t d = query.shape[0], width = (d + 7) // 8, blocks = (d + 63) // 64, i
        if not 1 <= d <= MOST * 4 or not 0 <= bits <= 8:
            raise ValueError(f"a query of {d} numbers for {bits} extra bits: up to {MOST * 4}, and 0 to 8 are expected")
        # One piece of memory, from a cache line on: the query, its tables of floats, then those of bytes.
        self._memory = calloc(LINE + (64 * blocks + 32 * width) * (sizeof(float) + 1), 1)
        if self._memory == NULL:
            raise MemoryError
        cdef float* numbers = <float*>(<uint8_t*>self._memory + (LINE - <size_t>self._memory % LINE))
        cdef float* sums = numbers + 64 * blocks
        cdef uint8_t* bytes = <uint8_t*>(sums + 32 * width)
        for i in range(d):
            numbers[i] = query[i]
        lc_rabit_prepare(numbers, d, bits, sums, bytes, <int8_t*>(bytes + 32 * width), &self._query)

    def __dealloc__(self):
        free(self._memory)

    cdef Py_ssize_t _rows_of(
        self, const uint8_t[::1] signs, const float[::1] add, const float[::1] scale, const uint8_t[::1] extra
    ) except -1:
        cdef Py_ssize_t width = self._query.width, n = signs.shape[0] // width
        cdef Py_ssize_t size = 8 * self._query.x * self._query.blocks
        if signs.shape[0] % width:
            raise ValueError(f"{signs.shape[0]} bytes of signs are no rows of {width} bytes")
        if add.shape[0] != n or scale.shape[0] != n:
            raise ValueError(f"{add.shape[0]} and {scale.shape[0]} factors for {n} rows")
        if size and (extra is None or extra.shape[0] != n * size):
            raise ValueError(f"{0 if extra is None else extra.shape[0]} bytes of extra codes for {n} rows of {size} bytes")
        return n

    def distances(
        self,
        const uint8_t[::1] signs,
        const float[::1] add,
        const float[::1] scale,
        const uint8_t[::1] extra,
        float a,
        float b,
    ):
        """``a * add + scale * product + b`` of every row of a partition: ``float32[n]``."""
        cdef Py_ssize_t n = self._rows_of(signs, add, scale, extra)
        found = np.empty(n, np.float32)
        cdef float[::1] out = found
        cdef Codes codes = Codes(n, &signs[0], &add[0], &scale[0], NULL, NULL, NULL, NULL)
        cdef lc_rabit_batch batch
        cdef Py_ssize_t at = 0, size, i
        cdef float marks[BATCH]
        if extra is not None:
            codes.extra = &extra[0]
        cdef uint8_t* spare = <uint8_t*>malloc(self._query.width * BATCH)
        if spare == NULL:
            raise MemoryError
        with nogil:
            while at < n:
                size = min(<Py_ssize_t>BATCH, n - at)
                self._aim(&batch, &codes, at, size, spare)
                lc_some(&self._query, &batch, <uint32_t>0xffffffff >> (BATCH - size), a, b, marks, _level)
                for i in range(size):
                    out[at + i] = marks[i]
                at += size
        free(spare)
        return found

    cdef void _aim(
        self, lc_rabit_batch* batch, const Codes* codes, Py_ssize_t at, Py_ssize_t size, uint8_t* spare
    ) noexcept nogil:
        """The rows from ``at`` on as a batch."""
        batch.packed = codes.signs + at * self._query.width
        if size < BATCH:
            lc_pack_rest(batch.packed, size, self._query.width, spare)
            batch.packed = spare
        batch.add = codes.add + at
        batch.scale = codes.scale + at
        if self._query.x:
            batch.extra = codes.extra + at * 8 * self._query.x * self._query.blocks
        batch.error = NULL

    def scan(
        self,
        const uint8_t[::1] signs,
        const float[::1] add,
        const float[::1] scale,
        const uint8_t[::1] extra,
        float a,
        float b,
        Top top not None,
        const uint64_t[::1] rows=None,
        keep=None,
        uint64_t first=0,
        const float[::1] sign_add=None,
        const float[::1] sign_scale=None,
        const float[::1] error=None,
        float reach=0,
    ):
        """The rows of a partition into the nearest few, with the distances that :meth:`distances` tells.

        Row i is known as ``rows[i]``, or ``first + i`` where no rows are given. Those that ``keep``, a bool for each,
        does not keep are not there. Where factors for signs alone are given, rows that are too far by these, less
        ``error * reach``, are not looked at any further.
        """
        cdef Py_ssize_t n = self._rows_of(signs, add, scale, extra)
        cdef const uint8_t[::1] kept = None if keep is None else np.asarray(keep, np.bool_).view(np.uint8)
        if rows is not None and rows.shape[0] != n:
            raise ValueError(f"{rows.shape[0]} row numbers for {n} rows")
        if kept is not None and kept.shape[0] != n:
            raise ValueError(f"a mask of {kept.shape[0]} rows for {n} rows")
        if error is not None and (
            sign_add is None or sign_scale is None or error.shape[0] != n or sign_add.shape[0] != n
            or sign_scale.shape[0] != n
        ):
            raise ValueError(f"factors for signs alone are not those of {n} rows")
        if n == 0:
            return
        cdef Codes codes = Codes(n, &signs[0], &add[0], &scale[0], NULL, NULL, NULL, NULL)
        cdef const uint64_t* numbers = NULL
        cdef const uint8_t* mask = NULL
        if extra is not None:
            codes.extra = &extra[0]
        if error is not None:
            codes.sign_add, codes.sign_scale, codes.error = &sign_add[0], &sign_scale[0], &error[0]
        if rows is not None:
            numbers = &rows[0]
        if kept is not None:
            mask = &kept[0]
        cdef uint8_t* spare = <uint8_t*>malloc(self._query.width * BATCH)
        if spare == NULL:
            raise MemoryError
        with nogil:
            self._scan(&codes, numbers, mask, first, a, b, reach, top, spare)
        free(spare)

    def scan_blocks(self, Blocks blocks not None, const float[:, ::1] lines, bint coarse, Top top not None):
        """The rows of all blocks into the nearest few; ``lines`` has ``a``, ``b`` and ``reach`` for each.

        Columns are those of the file: packed signs, their three factors, and with extra bits these and their two factors.
        Where ``coarse``, rows are left out by their signs.
        """
        cdef Py_ssize_t number, size = 8 * self._query.x * self._query.blocks, column
        cdef const Entries* block
        cdef Codes codes
        if lines.shape[0] != blocks.count or lines.shape[1] != 3:
            raise ValueError(f"{lines.shape[0]} x {lines.shape[1]} numbers for {blocks.count} blocks")
        blocks.check(0, self._query.width)
        for column in range(1, 4):
            blocks.check(column, sizeof(float))
        if size:
            blocks.check(4, size)
            blocks.check(5, sizeof(float))
            blocks.check(6, sizeof(float))
        cdef uint8_t* spare = <uint8_t*>malloc(self._query.width * BATCH)
        if spare == NULL:
            raise MemoryError
        with nogil:
            for number in range(blocks.count):
                block = &blocks.entries[number]
                codes.count = block.count
                codes.signs = block.columns[0]
                codes.sign_add = <const float*>block.columns[1]
                codes.sign_scale = <const float*>block.columns[2]
                codes.error = <const float*>block.columns[3] if coarse else NULL
                codes.extra = block.columns[4] if size else NULL
                codes.add = <const float*>block.columns[5] if size else codes.sign_add
                codes.scale = <const float*>block.columns[6] if size else codes.sign_scale
                self._scan(
                    &codes, block.rows, block.kept, 0, lines[number, 0], lines[number, 1], lines[number, 2], top, spare
                )
        free(spare)

    cdef void _scan(
        self, const Codes* codes, const uint64_t* rows, const uint8_t* kept, uint64_t first, float a, float b,
        float reach, Top top, uint8_t* spare,
    ) noexcept nogil:
        cdef lc_rabit_batch batch
        cdef Py_ssize_t at = 0, size, i, n = codes.count
        cdef uint32_t wanted, left
        cdef float limit
        cdef float marks[BATCH]
        while at < n:
            size = min(<Py_ssize_t>BATCH, n - at)
            wanted = <uint32_t>0xffffffff >> (BATCH - size)
            if kept != NULL:
                for i in range(size):
                    if not kept[at + i]:
                        wanted &= ~(<uint32_t>1 << i)
            if wanted:
                self._aim(&batch, codes, at, size, spare)
                limit = min(top.limit, top.upper)
                if limit < INFINITY:
                    if codes.error != NULL:
                        batch.sign_add = codes.sign_add + at
                        batch.sign_scale = codes.sign_scale + at
                        batch.error = codes.error + at
                    wanted = lc_near(&self._query, &batch, wanted, size, a, b, reach, limit, _level)
                lc_some(&self._query, &batch, wanted, a, b, marks, _level)
                left = wanted
                while left:
                    i = lc_lowest(left)
                    left &= left - 1
                    if marks[i] <= top.limit:
                        top.push(marks[i], rows[at + i] if rows != NULL else first + at + i)
            at += size

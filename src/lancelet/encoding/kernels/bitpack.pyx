# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Bit unpacking of whole pages: one call walks all chunks without the GIL.

Functions return -1 when all went well, else the index of the chunk whose bytes
lie; nothing outside ``data`` is read and nothing outside ``out`` written.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from lancelet.encoding.kernels.words cimport read_word

cdef extern from "fastlanes.h" nogil:
    void lancelet_unpack(int bits, const void *packed, int width, void *out)


cdef int64_t _header(const uint8_t *at, int bits) noexcept nogil:
    cdef uint64_t width = read_word(at, bits)
    return <int64_t>width if width <= 64 else 65


def unpack_inline(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes,
    const int64_t[::1] counts, int bits, uint8_t[::1] out,
):
    """InlineBitpacking chunks: a word with the width, then one block (spec 6.5)."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t width, done = 0, step, item = bits // 8, limit = out.shape[0], end = data.shape[0]
    cdef uint64_t[1024] block
    cdef const uint8_t *at
    if bits not in (8, 16, 32, 64) or sizes.shape[0] != n or counts.shape[0] != n:
        return 0
    with nogil:
        for i in range(n):
            if counts[i] < 0 or counts[i] > 1024 or positions[i] < 0 or sizes[i] < item:
                with gil:
                    return i
            step = counts[i] * item
            if done + step > limit or sizes[i] > end or positions[i] > end - sizes[i]:
                with gil:
                    return i
            at = &data[0] + positions[i]
            width = _header(at, bits)
            if width < 0 or width > bits or sizes[i] < item + 128 * width:
                with gil:
                    return i
            if counts[i] == 1024:
                lancelet_unpack(bits, at + item, <int>width, &out[0] + done)
            elif counts[i] > 0:
                lancelet_unpack(bits, at + item, <int>width, block)
                memcpy(&out[0] + done, block, step)
            done += step
    return -1


def unpack_blocks(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes,
    const int64_t[::1] counts, int bits, int width, uint8_t[::1] out,
):
    """OutOfLineBitpacking buffers: whole blocks of one width, then a tail, packed or raw (spec 6.6)."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t done = 0, left, tail, rest, item = bits // 8, limit = out.shape[0], end = data.shape[0], block_bytes = 128 * width
    cdef uint64_t[1024] block
    cdef const uint8_t *at
    if bits not in (8, 16, 32, 64) or width < 0 or width > bits or sizes.shape[0] != n or counts.shape[0] != n:
        return 0
    with nogil:
        for i in range(n):
            if counts[i] < 0 or counts[i] > limit or sizes[i] < 0 or sizes[i] > end or positions[i] < 0:
                with gil:
                    return i
            if positions[i] > end - sizes[i]:
                with gil:
                    return i
            if done + counts[i] * item > limit:
                with gil:
                    return i
            if counts[i] == 0:
                continue
            left = counts[i] // 1024
            tail = counts[i] % 1024
            rest = sizes[i] - left * block_bytes
            if rest < 0 or (tail > 0 and rest != tail * item and rest < block_bytes):
                with gil:
                    return i
            # An empty buffer (width 0) may lie at the very end of the data.
            at = &data[0] + positions[i] if sizes[i] > 0 else NULL
            while left > 0:
                lancelet_unpack(bits, at, width, &out[0] + done)
                at = at + block_bytes if block_bytes > 0 else at
                done += 1024 * item
                left -= 1
            if tail > 0:
                if rest == tail * item and width > 0:
                    memcpy(&out[0] + done, at, tail * item)
                else:
                    lancelet_unpack(bits, at, width, block)
                    memcpy(&out[0] + done, block, tail * item)
                done += tail * item
    return -1

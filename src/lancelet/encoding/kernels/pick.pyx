# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Single items out of mini-block chunks, without decoding the rest of the chunk.

Only pages without lists: item number and row number are the same there. A chunk
holds a header, its definition levels and its values (spec encodings.md 3.3);
bit-packed items are found by the inverse of the FastLanes order (6.4)::

    item i:  row % 8 = i / 128,  m = i % 128,  lane = m % L,  ORDER[row / 8] = m / L * L / 16

Functions return -1 when all went well, else the index of the row whose chunk
lies; nothing outside ``data`` is read.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy

from lancelet.encoding.kernels cimport page_plans as codecs
from lancelet.encoding.kernels.words cimport read_word

cdef enum:
    _NONE = codecs.ABSENT
    _FLAT = codecs.FLAT
    _INLINE = codecs.INLINE
    _OUT_OF_LINE = codecs.OUT_OF_LINE
    _RUNS = codecs.RUNS
    _STRINGS = codecs.STRINGS
    _BITS = codecs.STREAMS + 1

# Codecs of values and of levels.
NONE = _NONE
FLAT = _FLAT
INLINE = _INLINE
OUT_OF_LINE = _OUT_OF_LINE
RUNS = _RUNS
STRINGS = _STRINGS
BITS = _BITS

cdef int[8] _BLOCK
# Inverse of the order 0 4 2 6 1 5 3 7.
_BLOCK[0] = 0
_BLOCK[1] = 4
_BLOCK[2] = 2
_BLOCK[3] = 6
_BLOCK[4] = 1
_BLOCK[5] = 5
_BLOCK[6] = 3
_BLOCK[7] = 7


cdef uint64_t packed_item(const uint8_t *block, int bits, int width, int item) noexcept nogil:
    """Item of one block of 1024 values; the block's 128 * width bytes are there."""
    cdef int lanes = 1024 // bits, m = item % 128
    cdef int lane = m % lanes, row = _BLOCK[(m // lanes) * lanes // 16] * 8 + item // 128
    cdef int start = row * width, size = bits // 8
    cdef int word = start // bits, shift = start % bits
    cdef uint64_t value
    if width == 0:
        return 0
    value = read_word(block + (word * lanes + lane) * size, bits) >> shift
    if shift + width > bits:
        value |= read_word(block + ((word + 1) * lanes + lane) * size, bits) << (bits - shift)
    if width < 64:
        value &= ((<uint64_t>1) << width) - 1
    return value


cdef bint level_of(
    const uint8_t *at, int64_t size, int codec, int width, int64_t count, int64_t item, uint16_t *out
) noexcept nogil:
    """Definition level of one item; False when the buffer cannot hold it."""
    cdef int64_t blocks, tail, block, rest, values, run, left
    cdef uint64_t head
    if codec == _FLAT:
        if count > size // 2:
            return False
        memcpy(out, at + 2 * item, 2)
        return True
    if codec == _INLINE:
        if size < 2 or count > 1024:
            return False
        head = read_word(at, 16)
        if head > 16 or size < 2 + 128 * <int64_t>head:
            return False
        out[0] = <uint16_t>packed_item(at + 2, 16, <int>head, <int>item)
        return True
    if codec == _OUT_OF_LINE:
        blocks = count // 1024
        tail = count % 1024
        block = item // 1024
        rest = size - blocks * 128 * width
        if rest < 0:
            return False
        if block == blocks and rest == tail * 2 and width > 0:
            memcpy(out, at + blocks * 128 * width + (item % 1024) * 2, 2)
            return True
        if block == blocks and rest < 128 * width:
            return False
        out[0] = <uint16_t>packed_item(at + block * 128 * width, 16, width, <int>(item % 1024))
        return True
    if codec == _RUNS:
        if size < 8:
            return False
        head = read_word(at, 64)
        if head > <uint64_t>(size - 8):
            return False
        values = <int64_t>head
        left = item
        for run in range(size - 8 - values):
            if left < at[8 + values + run]:
                if 2 * run + 2 > values:
                    return False
                memcpy(out, at + 8 + 2 * run, 2)
                return True
            left -= at[8 + values + run]
        return False
    return False


def pick_items(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes, const int64_t[::1] counts,
    const int64_t[::1] inside, int def_codec, int def_width, bint large, int codec, int bits,
    uint16_t[::1] levels, uint8_t[::1] out, int64_t[::1] starts, int64_t[::1] lengths,
):
    """Item ``inside[i]`` of the chunk at ``positions[i]``, for all i.

    Fixed values (FLAT, INLINE) are copied to ``out``, single BITS become bytes; STRINGS only get their start and
    length. ``bits`` is the size of a value in ``out``, or of a string's offsets."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t end = data.shape[0], header, at, def_size, size, item, first, last, step = bits // 8
    cdef bint with_def = def_codec != _NONE
    cdef uint64_t head, value
    cdef const uint8_t *chunk
    cdef const uint8_t *values
    if sizes.shape[0] != n or counts.shape[0] != n or inside.shape[0] != n or (with_def and levels.shape[0] != n):
        return 0
    if codec == _STRINGS:
        if starts.shape[0] != n or lengths.shape[0] != n or bits not in (32, 64):
            return 0
    elif out.shape[0] != n * step or bits < 8 or bits % 8 or (codec == _BITS and bits != 8):
        return 0
    elif codec == _INLINE and bits not in (8, 16, 32, 64):
        return 0
    if def_width < 0 or def_width > 16 or codec not in (_FLAT, _INLINE, _STRINGS, _BITS):
        return 0
    header = 2 + (2 if with_def else 0) + (4 if large else 2)
    with nogil:
        for i in range(n):
            item = inside[i]
            if positions[i] < 0 or sizes[i] < header or sizes[i] > end or positions[i] > end - sizes[i]:
                with gil:
                    return i
            if item < 0 or item >= counts[i]:
                with gil:
                    return i
            chunk = &data[0] + positions[i]
            at = (header + 7) & ~7
            if with_def:
                if <int64_t>read_word(chunk, 16) != counts[i]:
                    with gil:
                        return i
                def_size = <int64_t>read_word(chunk + 2, 16)
                if at + def_size > sizes[i]:
                    with gil:
                        return i
                if not level_of(chunk + at, def_size, def_codec, def_width, counts[i], item, &levels[i]):
                    with gil:
                        return i
                at = (at + def_size + 7) & ~7
            size = <int64_t>read_word(chunk + (4 if with_def else 2), 32 if large else 16)
            if at + size > sizes[i]:
                with gil:
                    return i
            values = chunk + at
            if codec == _FLAT:
                if counts[i] > size // step:
                    with gil:
                        return i
                memcpy(&out[0] + i * step, values + item * step, step)
            elif codec == _BITS:
                if counts[i] > size * 8:
                    with gil:
                        return i
                out[i] = values[item >> 3] >> (item & 7) & 1
            elif codec == _INLINE:
                head = read_word(values, bits) if size >= step else 65
                if head > <uint64_t>bits or size < step + 128 * <int64_t>head or counts[i] > 1024:
                    with gil:
                        return i
                value = packed_item(values + step, bits, <int>head, <int>item)
                memcpy(&out[0] + i * step, &value, step)
            else:
                if counts[i] >= size // step:
                    with gil:
                        return i
                first = <int64_t>read_word(values + item * step, bits)
                last = <int64_t>read_word(values + (item + 1) * step, bits)
                if first < (counts[i] + 1) * step or last < first or last > size:
                    with gil:
                        return i
                starts[i] = positions[i] + at + first
                lengths[i] = last - first
    return -1

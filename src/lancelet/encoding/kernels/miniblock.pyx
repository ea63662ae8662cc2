# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Walking the chunks of mini-block pages (spec encodings.md 3 and 6).

Functions return -1 when all went well, else the index of the chunk whose bytes
lie; nothing outside ``data`` is read and nothing outside ``out`` written.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset


cdef inline bint _outside(int64_t position, int64_t size, int64_t end) noexcept nogil:
    return position < 0 or size < 0 or size > end or position > end - size


def parse_chunks(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes,
    bint has_rep, bint has_def, int num_buffers, bint large, int64_t[:, ::1] out,
):
    """Read chunk headers into ``out``, one row of it each for: number of levels, then
    position and size of the rep, def and value buffers that the page has."""
    cdef Py_ssize_t i, n = positions.shape[0], row
    cdef int levels = has_rep + has_def, k
    cdef int64_t end = data.shape[0], header, at, size
    cdef uint16_t two
    cdef uint32_t four
    cdef const uint8_t *chunk
    if out.shape[0] != 1 + 2 * (levels + num_buffers) or out.shape[1] != n or sizes.shape[0] != n or num_buffers < 0:
        return 0
    header = 2 + 2 * levels + (4 if large else 2) * num_buffers
    with nogil:
        for i in range(n):
            if _outside(positions[i], sizes[i], end) or sizes[i] < header:
                with gil:
                    return i
            chunk = &data[0] + positions[i]
            memcpy(&two, chunk, 2)
            out[0, i] = two
            at = (header + 7) & ~7
            for k in range(levels + num_buffers):
                if k < levels or not large:
                    memcpy(&two, chunk + 2 + 2 * k, 2)
                    size = two
                else:
                    memcpy(&four, chunk + 2 + 2 * levels + 4 * (k - levels), 4)
                    size = four
                if at + size > sizes[i]:
                    with gil:
                        return i
                out[1 + 2 * k, i] = positions[i] + at
                out[2 + 2 * k, i] = size
                at = (at + size + 7) & ~7
    return -1


def copy_flat(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes,
    const int64_t[::1] counts, int64_t item, uint8_t[::1] out,
):
    """Flat chunks of whole bytes: ``counts[i]`` values of ``item`` bytes each."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t done = 0, step, limit = out.shape[0], end = data.shape[0]
    if sizes.shape[0] != n or counts.shape[0] != n or item < 0:
        return 0
    with nogil:
        for i in range(n):
            if counts[i] < 0 or (item > 0 and counts[i] > limit // item):
                with gil:
                    return i
            step = counts[i] * item
            if _outside(positions[i], sizes[i], end) or step > sizes[i] or step > limit - done:
                with gil:
                    return i
            if step > 0:
                memcpy(&out[0] + done, &data[0] + positions[i], step)
            done += step
    return -1


def copy_bits(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes,
    const int64_t[::1] counts, uint8_t[::1] out,
):
    """Chunks of single bits, each from a byte boundary, joined into one bitmap; ``out`` starts zeroed."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t done = 0, k, whole, limit = out.shape[0] * 8, end = data.shape[0]
    cdef int shift, tail
    cdef const uint8_t *source
    cdef uint8_t byte
    cdef uint8_t *target
    if sizes.shape[0] != n or counts.shape[0] != n:
        return 0
    with nogil:
        for i in range(n):
            if counts[i] < 0 or counts[i] > limit - done or _outside(positions[i], sizes[i], end):
                with gil:
                    return i
            if (counts[i] + 7) // 8 > sizes[i]:
                with gil:
                    return i
            if counts[i] == 0:
                continue
            source = &data[0] + positions[i]
            target = &out[0] + done // 8
            shift = done % 8
            whole = counts[i] // 8
            tail = counts[i] % 8
            if shift == 0:
                memcpy(target, source, whole)
                if tail:
                    target[whole] = source[whole] & ((1 << tail) - 1)
            else:
                for k in range(whole + (1 if tail else 0)):
                    byte = source[k]
                    if k == whole:
                        byte = byte & ((1 << tail) - 1)
                    target[k] |= <uint8_t>(byte << shift)
                    # The high part is empty when the last bits fit; then there may be no next byte.
                    if (byte >> (8 - shift)) != 0:
                        target[k + 1] |= byte >> (8 - shift)
            done += counts[i]
    return -1


def expand_runs(
    const uint8_t[::1] data, const int64_t[::1] value_positions, const int64_t[::1] value_sizes,
    const int64_t[::1] length_positions, const int64_t[::1] length_sizes,
    const int64_t[::1] counts, int item, uint8_t[::1] out,
):
    """RLE chunks: run values of ``item`` bytes, run lengths of one byte (spec 6.8)."""
    cdef Py_ssize_t i, n = value_positions.shape[0]
    cdef int64_t done = 0, run, runs, left, limit = out.shape[0], end = data.shape[0], k, length
    cdef const uint8_t *values
    cdef const uint8_t *lengths
    cdef uint8_t *target
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight
    if item not in (1, 2, 4, 8) or value_sizes.shape[0] != n or length_positions.shape[0] != n:
        return 0
    if length_sizes.shape[0] != n or counts.shape[0] != n:
        return 0
    with nogil:
        for i in range(n):
            runs = length_sizes[i]
            left = counts[i]
            if _outside(value_positions[i], value_sizes[i], end) or _outside(length_positions[i], runs, end):
                with gil:
                    return i
            if left < 0 or left > limit // item or done + left * item > limit or value_sizes[i] < runs * item:
                with gil:
                    return i
            if runs == 0:
                if left > 0:
                    with gil:
                        return i
                continue
            values = &data[0] + value_positions[i]
            lengths = &data[0] + length_positions[i]
            for run in range(runs):
                length = lengths[run]
                if length > left:
                    with gil:
                        return i
                left -= length
                target = &out[0] + done
                if item == 1:
                    memset(target, values[run], length)
                elif item == 2:
                    memcpy(&two, values + run * 2, 2)
                    for k in range(length):
                        (<uint16_t *>target)[k] = two
                elif item == 4:
                    memcpy(&four, values + run * 4, 4)
                    for k in range(length):
                        (<uint32_t *>target)[k] = four
                else:
                    memcpy(&eight, values + run * 8, 8)
                    for k in range(length):
                        (<uint64_t *>target)[k] = eight
                done += length * item
            if left != 0:
                with gil:
                    return i
    return -1


def join_streams(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes,
    const int64_t[::1] counts, int item, uint8_t[::1] out,
):
    """ByteStreamSplit chunks: byte j of all values lies together (spec 6.10)."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t done = 0, k, count, limit = out.shape[0], end = data.shape[0]
    cdef int j
    cdef const uint8_t *source
    cdef uint8_t *target
    if item not in (4, 8) or sizes.shape[0] != n or counts.shape[0] != n:
        return 0
    with nogil:
        for i in range(n):
            count = counts[i]
            if count < 0 or count > limit // item or done + count * item > limit:
                with gil:
                    return i
            if _outside(positions[i], sizes[i], end) or count * item > sizes[i]:
                with gil:
                    return i
            if count == 0:
                continue
            source = &data[0] + positions[i]
            target = &out[0] + done
            for j in range(item):
                for k in range(count):
                    target[k * item + j] = source[j * count + k]
            done += count * item
    return -1


cdef inline int64_t _offset(const uint8_t *at, int64_t index, int wide) noexcept nogil:
    cdef uint32_t four
    cdef int64_t eight
    if wide:
        memcpy(&eight, at + index * 8, 8)
        return eight
    memcpy(&four, at + index * 4, 4)
    return four


def variable_offsets(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] sizes,
    const int64_t[::1] counts, bint wide, int64_t[::1] out,
):
    """Offsets of the values of all chunks in one joined run of bytes; checks that they rise and stay inside.

    Chunk buffer: count + 1 offsets from the buffer's start, then the bytes (spec 6.2)."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t done = 0, base = 0, k, count, end = data.shape[0], item = 8 if wide else 4, first, last, at
    cdef const uint8_t *source
    if sizes.shape[0] != n or counts.shape[0] != n or out.shape[0] == 0:
        return 0
    with nogil:
        out[0] = 0
        for i in range(n):
            count = counts[i]
            if count < 0 or count >= out.shape[0] - done or _outside(positions[i], sizes[i], end):
                with gil:
                    return i
            if count == 0:
                continue
            if (count + 1) * item > sizes[i]:
                with gil:
                    return i
            source = &data[0] + positions[i]
            first = _offset(source, 0, wide)
            last = first
            if first < (count + 1) * item:
                with gil:
                    return i
            for k in range(count):
                at = _offset(source, k + 1, wide)
                if at < last:
                    with gil:
                        return i
                last = at
                out[done + k + 1] = base + at - first
            if last > sizes[i]:
                with gil:
                    return i
            base += last - first
            done += count
    return -1


def variable_bytes(
    const uint8_t[::1] data, const int64_t[::1] positions, const int64_t[::1] counts, bint wide,
    const int64_t[::1] offsets, uint8_t[::1] out,
):
    """Join the bytes of chunks whose offsets :func:`variable_offsets` has found."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t done = 0, size, first, end = data.shape[0], limit = out.shape[0], item = 8 if wide else 4
    cdef const uint8_t *source
    if counts.shape[0] != n:
        return 0
    with nogil:
        for i in range(n):
            if counts[i] < 0 or counts[i] >= offsets.shape[0] - done:
                with gil:
                    return i
            size = offsets[done + counts[i]] - offsets[done]
            if size > 0:
                if _outside(offsets[done], size, limit) or _outside(positions[i], item, end):
                    with gil:
                        return i
                source = &data[0] + positions[i]
                first = _offset(source, 0, wide)
                if _outside(first, size, end - positions[i]):
                    with gil:
                        return i
                memcpy(&out[0] + offsets[done], source + first, size)
            done += counts[i]
    return -1


def narrow(const int64_t[::1] offsets, int32_t[::1] out):
    """Copy offsets that are known to fit into 32 bits."""
    cdef Py_ssize_t i, n = offsets.shape[0]
    if out.shape[0] != n:
        raise ValueError("outputs are too small")
    with nogil:
        for i in range(n):
            out[i] = <int32_t>offsets[i]

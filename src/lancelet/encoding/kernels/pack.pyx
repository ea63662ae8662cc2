# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Words into chunks: bit packing, runs, byte streams (spec encodings.md 6.4 to 6.10).

``data`` holds plain little-endian words of ``bits`` bits; ``bounds`` are the first words of the chunks and
the end of the last. Functions that fill ``out`` return how much of it they used.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef extern from "fastlanes_pack.h" nogil:
    void lancelet_pack(int bits, const void *values, int width, void *packed)
    uint64_t lancelet_survey(int bits, const void *values, int64_t count, int64_t *changes)
    int lancelet_width(uint64_t any)

BLOCK = 1024

cdef enum:
    MOST_PARTS = 16


cdef int _check(const uint8_t[::1] data, int bits, int64_t count) except -1:
    if bits not in (8, 16, 32, 64) or count < 0 or data.shape[0] < count * (bits // 8):
        raise ValueError(f"{count} words of {bits} bits in {data.shape[0]} bytes")
    return 0


cdef int _check_bounds(const int64_t[::1] bounds, int64_t count) except -1:
    cdef Py_ssize_t i
    cdef int64_t last = 0
    if bounds.shape[0] < 1 or bounds[0] < 0:
        raise ValueError("no bounds")
    for i in range(bounds.shape[0]):
        if bounds[i] < last:
            raise ValueError("bounds that do not rise")
        last = bounds[i]
    if last > count:
        raise ValueError(f"bounds up to {last} of {count}")
    return 0


def survey(const uint8_t[::1] data, int bits, int64_t count, uint8_t[::1] widths):
    """The width of each block of 1024 words; returns the number of runs of equal words."""
    cdef int64_t i, step, changes = 0, item = bits // 8, blocks = (count + 1023) // 1024
    _check(data, bits, count)
    if widths.shape[0] < blocks:
        raise ValueError("output is too small")
    if count == 0:
        return 0
    with nogil:
        for i in range(blocks):
            step = min(count - i * 1024, 1024)
            widths[i] = <uint8_t>lancelet_width(lancelet_survey(bits, &data[i * 1024 * item], step, &changes))
            if i > 0:
                changes += _differ(&data[i * 1024 * item], &data[i * 1024 * item] - item, item)
    return changes + 1


cdef inline int64_t _differ(const uint8_t *a, const uint8_t *b, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(size):
        if a[i] != b[i]:
            return 1
    return 0


def pack_inline(const uint8_t[::1] data, int bits, const int64_t[::1] bounds, const uint8_t[::1] widths, uint8_t[::1] out,
                int64_t[::1] sizes):
    """InlineBitpacking: a word with the width, then one block, for each chunk of at most 1024 words."""
    cdef Py_ssize_t i, n = bounds.shape[0] - 1
    cdef int64_t item = bits // 8, at = 0, size, count
    cdef uint64_t header
    cdef uint64_t[1024] block
    _check(data, bits, bounds[n])
    _check_bounds(bounds, bounds[n])
    if widths.shape[0] < n or sizes.shape[0] < n:
        raise ValueError("outputs are too small")
    for i in range(n):
        at += item + 128 * widths[i]
        if bounds[i + 1] - bounds[i] > 1024 or widths[i] > bits:
            raise ValueError("a chunk of more than one block")
    if out.shape[0] < at:
        raise ValueError("output is too small")
    at = 0
    with nogil:
        for i in range(n):
            count = bounds[i + 1] - bounds[i]
            size = item + 128 * widths[i]
            header = widths[i]
            memcpy(&out[at], &header, item)
            if count == 1024:
                lancelet_pack(bits, &data[bounds[i] * item], widths[i], &out[0] + at + item)
            elif count > 0:
                memset(block, 0, sizeof(block))
                memcpy(block, &data[bounds[i] * item], count * item)
                lancelet_pack(bits, block, widths[i], &out[0] + at + item)
            sizes[i] = size
            at += size
    return at


cdef inline int64_t _tail_bytes(int64_t tail, int bits, int width) noexcept nogil:
    """Bytes of the words after the last whole block: packed when that is smaller (spec 6.6)."""
    if tail == 0:
        return 0
    if width * (1024 - tail) < (bits - width) * tail:
        return 128 * width
    return tail * (bits // 8)


def blocks_sizes(int bits, int width, const int64_t[::1] bounds, int64_t[::1] sizes):
    """Sizes of the chunks that :func:`pack_blocks` makes; returns their sum."""
    cdef Py_ssize_t i, n = bounds.shape[0] - 1
    cdef int64_t count, total = 0
    if sizes.shape[0] < n:
        raise ValueError("output is too small")
    with nogil:
        for i in range(n):
            count = bounds[i + 1] - bounds[i]
            sizes[i] = 0 if width == 0 else count // 1024 * 128 * width + _tail_bytes(count % 1024, bits, width)
            total += sizes[i]
    return total


def pack_blocks(const uint8_t[::1] data, int bits, const int64_t[::1] bounds, int width, uint8_t[::1] out):
    """OutOfLineBitpacking: whole blocks of one width, then a tail, packed or raw."""
    cdef Py_ssize_t i, n = bounds.shape[0] - 1
    cdef int64_t item = bits // 8, at = 0, count, start, total = 0, tail
    cdef uint64_t[1024] block
    _check(data, bits, bounds[n])
    _check_bounds(bounds, bounds[n])
    if width < 0 or width >= bits:
        raise ValueError(f"{bits}-bit words packed to {width} bits")
    for i in range(n):
        count = bounds[i + 1] - bounds[i]
        total += count // 1024 * 128 * width + _tail_bytes(count % 1024, bits, width)
    if width == 0:
        return 0
    if out.shape[0] < total:
        raise ValueError("output is too small")
    with nogil:
        for i in range(n):
            start = bounds[i]
            count = bounds[i + 1] - start
            while count >= 1024:
                lancelet_pack(bits, &data[start * item], width, &out[at])
                at += 128 * width
                start += 1024
                count -= 1024
            if count == 0:
                continue
            tail = _tail_bytes(count, bits, width)
            if tail == count * item and not width * (1024 - count) < (bits - width) * count:
                memcpy(&out[at], &data[start * item], tail)
            else:
                memset(block, 0, sizeof(block))
                memcpy(block, &data[start * item], count * item)
                lancelet_pack(bits, block, width, &out[at])
            at += tail
    return at


ctypedef fused word_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


def count_runs(const word_t[::1] words, const int64_t[::1] bounds, int64_t[::1] runs):
    """Runs of at most 255 equal words in each chunk; returns their sum."""
    cdef Py_ssize_t i, n = bounds.shape[0] - 1
    cdef int64_t at, end, total = 0, found, length
    cdef word_t last
    _check_bounds(bounds, words.shape[0])
    if runs.shape[0] < n:
        raise ValueError("output is too small")
    with nogil:
        for i in range(n):
            at = bounds[i]
            end = bounds[i + 1]
            found = 0
            while at < end:
                last = words[at]
                length = 1
                while length < 255 and at + length < end and words[at + length] == last:
                    length += 1
                at += length
                found += 1
            runs[i] = found
            total += found
    return total


def run_blocks(const uint16_t[::1] words, const int64_t[::1] bounds, const int64_t[::1] runs, uint8_t[::1] out):
    """Rle as a block, for each chunk: u64 size of the values, values, lengths of one byte."""
    cdef Py_ssize_t i, n = bounds.shape[0] - 1
    cdef int64_t at, end, length, to = 0, k
    cdef uint64_t header
    cdef uint16_t last
    _check_bounds(bounds, words.shape[0])
    for i in range(n):
        to += 8 + 3 * runs[i]
    if out.shape[0] < to or runs.shape[0] < n:
        raise ValueError("output is too small")
    to = 0
    with nogil:
        for i in range(n):
            header = 2 * runs[i]
            memcpy(&out[to], &header, 8)
            at = bounds[i]
            end = bounds[i + 1]
            k = 0
            while at < end and k < runs[i]:
                last = words[at]
                length = 1
                while length < 255 and at + length < end and words[at + length] == last:
                    length += 1
                memcpy(&out[to + 8 + 2 * k], &last, 2)
                out[to + 8 + 2 * runs[i] + k] = <uint8_t>length
                at += length
                k += 1
            to += 8 + 3 * runs[i]
    return to


def encode_runs(const word_t[::1] words, int64_t largest, int64_t limit, word_t[::1] values, uint8_t[::1] lengths,
                int64_t[::1] counts, int64_t[::1] runs):
    """Cut words into chunks whose runs take at most ``limit`` bytes: words and runs of each chunk.

    A chunk has ``largest`` words, or a smaller power of two; the last one has what is left. Returns the number of chunks."""
    cdef int64_t n = words.shape[0], start = 0, at, end, length, total = 0, found, chunk = 0, item = sizeof(word_t), fits
    cdef int64_t most = limit // (item + 1)
    cdef word_t last
    if values.shape[0] < n or lengths.shape[0] < n or most < 2:
        raise ValueError("outputs are too small")
    with nogil:
        while start < n:
            if chunk >= counts.shape[0] or chunk >= runs.shape[0]:
                with gil:
                    raise ValueError("outputs are too small")
            end = min(start + largest, n)
            found = _some_runs(words, start, &end, most, values, lengths, total)
            if end < n:
                # What did not fit, or a rest that is no power of two: back to the greatest that is.
                fits = 2
                while fits * 2 <= end - start:
                    fits *= 2
                if fits != end - start:
                    end = start + fits
                    found = _some_runs(words, start, &end, most, values, lengths, total)
            counts[chunk] = end - start
            runs[chunk] = found
            total += found
            chunk += 1
            start = end
    return chunk


cdef int64_t _some_runs(const word_t[::1] words, int64_t at, int64_t *end, int64_t most, word_t[::1] values,
                        uint8_t[::1] lengths, int64_t total) noexcept nogil:
    cdef int64_t found = 0, length
    cdef word_t last
    while at < end[0] and found < most:
        last = words[at]
        length = 1
        while length < 255 and at + length < end[0] and words[at + length] == last:
            length += 1
        values[total + found] = last
        lengths[total + found] = <uint8_t>length
        at += length
        found += 1
    end[0] = at
    return found


def split_streams(const uint8_t[::1] data, int64_t item, const int64_t[::1] bounds, uint8_t[::1] out):
    """ByteStreamSplit: byte j of all words of a chunk together, for each j."""
    cdef Py_ssize_t i, n = bounds.shape[0] - 1
    cdef int64_t j, k, count, start
    _check_bounds(bounds, data.shape[0] // item)
    if out.shape[0] < bounds[n] * item:
        raise ValueError("output is too small")
    with nogil:
        for i in range(n):
            start = bounds[i] * item
            count = bounds[i + 1] - bounds[i]
            for j in range(item):
                for k in range(count):
                    out[start + j * count + k] = data[start + k * item + j]


def slice_bits(const uint8_t[::1] bits, int64_t first, const int64_t[::1] counts, uint8_t[::1] out):
    """Cut a bitmap at any bits: each piece starts at a byte of ``out``. Returns the bytes used."""
    cdef Py_ssize_t i, n = counts.shape[0]
    cdef int64_t at = first, to = 0, left, shift, byte, size, last = bits.shape[0], need = first
    cdef int value
    for i in range(n):
        need += counts[i]
        to += (counts[i] + 7) // 8
        if counts[i] < 0:
            raise ValueError("a negative count")
    if first < 0 or need > last * 8 or out.shape[0] < to:
        raise ValueError("bits or output are too small")
    to = 0
    with nogil:
        for i in range(n):
            size = (counts[i] + 7) // 8
            if size == 0:
                continue
            shift = at % 8
            byte = at // 8
            if shift == 0:
                memcpy(&out[to], &bits[byte], size)
            else:
                for left in range(size):
                    value = bits[byte + left] >> shift
                    if byte + left + 1 < last:
                        value |= bits[byte + left + 1] << (8 - shift)
                    out[to + left] = <uint8_t>value
            if counts[i] % 8:
                out[to + size - 1] &= <uint8_t>((1 << (counts[i] % 8)) - 1)
            to += size
            at += counts[i]
    return to


def blank_nulls(const uint16_t[::1] defs, uint16_t max_visible, int64_t item, uint8_t[::1] values):
    """Zeros into the slots of null values, in place; ``values`` has one slot for each entry up to ``max_visible``."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef int64_t slot = 0, limit = values.shape[0] // item
    with nogil:
        for i in range(n):
            if defs[i] > max_visible:
                continue
            if slot >= limit:
                with gil:
                    raise ValueError("more slots than values")
            if defs[i] != 0:
                memset(&values[slot * item], 0, item)
            slot += 1
    return slot


cdef int _gather_sizes(list sizes, Py_ssize_t chunks, const int64_t **found) except -1:
    """Where the sizes of each part are; all are checked."""
    cdef const int64_t[::1] view
    cdef Py_ssize_t p, c
    if len(sizes) > MOST_PARTS:
        raise ValueError(f"{len(sizes)} parts")
    for p in range(len(sizes)):
        view = sizes[p]
        if view.shape[0] != chunks or chunks == 0:
            raise ValueError("parts differ in their number of chunks")
        for c in range(chunks):
            if view[c] < 0:
                raise ValueError("a negative size")
        found[p] = &view[0]
    return 0


cdef inline int64_t _header(int level_parts, int value_parts, bint large) noexcept nogil:
    return (2 + 2 * level_parts + (4 if large else 2) * value_parts + 7) // 8 * 8


def chunk_bytes(list sizes, Py_ssize_t chunks, int level_parts, bint large, int64_t limit):
    """Bytes of the chunks that :func:`assemble` makes; -1 when one has more than ``limit``, or a part too large to say."""
    cdef const int64_t* size_of[MOST_PARTS]
    cdef int p, count = len(sizes)
    cdef Py_ssize_t c
    cdef int64_t total = 0, bytes
    _gather_sizes(sizes, chunks, size_of)
    for c in range(chunks):
        bytes = _header(level_parts, count - level_parts, large)
        for p in range(count):
            bytes += (size_of[p][c] + 7) // 8 * 8
            if size_of[p][c] > 65535 and (p < level_parts or not large):
                return -1
        if bytes > limit:
            return -1
        total += bytes
    return total


def assemble(list parts, list sizes, const int64_t[::1] counts, const int64_t[::1] bounds, int level_parts, bint large,
             uint8_t[::1] words, uint8_t[::1] out):
    """Chunks of a mini-block page (spec 3.3): header, then each part, all padded to 8 bytes; and a word for each chunk.

    The pieces of part p lie back to back in parts[p], sizes[p][c] bytes for chunk c; the first ``level_parts`` parts
    are levels, from bounds[c] up to bounds[c + 1]; without them there are no bounds."""
    cdef int p, count = len(parts), word = 4 if large else 2, log
    cdef Py_ssize_t c, n = counts.shape[0]
    cdef int64_t at = 0, start, size, need = 0, own
    cdef uint16_t two
    cdef uint32_t four
    cdef const uint8_t[::1] view
    cdef const uint8_t* source[MOST_PARTS]
    cdef const int64_t* size_of[MOST_PARTS]
    if len(sizes) != count or level_parts > count or words.shape[0] != n * word:
        raise ValueError("parts, sizes and chunks differ in number")
    if level_parts > 0 and bounds.shape[0] != n + 1:
        raise ValueError("parts, sizes and chunks differ in number")
    _gather_sizes(sizes, n, size_of)
    for p in range(count):
        view = parts[p]
        source[p] = &view[0] if view.shape[0] else NULL
        own = 0
        for c in range(n):
            own += size_of[p][c]
            need += (size_of[p][c] + 7) // 8 * 8
            if size_of[p][c] > 65535 and (p < level_parts or not large):
                raise ValueError("a part of more than 64 KiB")
        if own > view.shape[0]:
            raise ValueError("a part outside of its buffer")
    need += n * _header(level_parts, count - level_parts, large)
    if out.shape[0] != need:
        raise ValueError(f"{need} bytes of chunks into {out.shape[0]}")
    with nogil:
        for c in range(n):
            start = at
            two = <uint16_t>(bounds[c + 1] - bounds[c] if level_parts > 0 else 0)
            memcpy(&out[at], &two, 2)
            at += 2
            for p in range(count):
                if p < level_parts or not large:
                    two = <uint16_t>size_of[p][c]
                    memcpy(&out[at], &two, 2)
                    at += 2
                else:
                    four = <uint32_t>size_of[p][c]
                    memcpy(&out[at], &four, 4)
                    at += 4
            at = _pad(&out[0], start, at)
            for p in range(count):
                size = size_of[p][c]
                if size > 0:
                    memcpy(&out[at], source[p], size)
                    source[p] += size
                at = _pad(&out[0], start, at + size)
            # The last chunk has what is left, which its word does not say.
            log = 0 if c == n - 1 or counts[c] < 1 else lancelet_width(<uint64_t>counts[c]) - 1
            four = <uint32_t>((((at - start) // 8 - 1) << 4) | log)
            memcpy(&words[c * word], &four, word)


cdef inline int64_t _pad(uint8_t *out, int64_t start, int64_t at) noexcept nogil:
    while (at - start) % 8:
        out[at] = 0xFE
        at += 1
    return at

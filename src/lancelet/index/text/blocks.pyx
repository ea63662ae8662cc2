"""Postings of a term: decoded from blocks, and positions from either of their two forms. ``blocks.h`` draws the bytes."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

import numpy as np

cdef extern from "blocks.h" nogil:
    enum: LC_TAIL_FIXED32, LC_TAIL_VARINT, LC_MOST_BLOCK
    int64_t lc_block_docs(const uint8_t * data, int64_t size, int block, int count, int tail, uint32_t * docs)
    int lc_block_freqs(
        const uint8_t * data, int64_t size, int64_t at, int block, int count, int tail, uint32_t * freqs
    )
    int lc_block_positions(
        const uint8_t * data, int64_t size, const uint32_t * freqs, int count, uint32_t * out, int64_t total
    )
    int64_t lc_read_impact(const uint8_t * data, int64_t size, uint32_t * last, uint32_t * pairs)
    int64_t lc_next_pair(const uint8_t * data, int64_t size, int64_t at, uint32_t * freq, uint32_t * norm)
    void lc_unpack4(const uint8_t * data, int width, uint32_t * out)
    uint32_t lc_read_u32(const uint8_t * data)
    int64_t lc_write_steps(uint8_t * out, int64_t at, const uint32_t * steps, int64_t count)

FIXED32 = LC_TAIL_FIXED32
VARINT = LC_TAIL_VARINT


def decode_postings(
    const uint8_t[::1] data, const int64_t[::1] offsets, int64_t length, int block, int tail, int64_t documents
):
    """Documents, ascending, and how often the term is in each; all of them below ``documents``."""
    check_blocks(data, offsets, length, block)
    docs = np.empty(length + LC_MOST_BLOCK, np.uint32)
    freqs = np.empty(length + LC_MOST_BLOCK, np.uint32)
    cdef uint32_t[::1] all_docs = docs
    cdef uint32_t[::1] all_freqs = freqs
    cdef int64_t number, at, start, size, done = 0
    cdef int64_t bad = -1
    cdef int count
    with nogil:
        for number in range(offsets.shape[0] - 1):
            count = <int>(block if length - done > block else length - done)
            start, size = offsets[number], offsets[number + 1] - offsets[number]
            at = lc_block_docs(&data[0] + start, size, block, count, tail, &all_docs[done])
            if at < 0 or (done and all_docs[done] <= all_docs[done - 1]) or all_docs[done + count - 1] >= documents:
                bad = number
                break
            if lc_block_freqs(&data[0] + start, size, at, block, count, tail, &all_freqs[done]) < 0:
                bad = number
                break
            done += count
    if bad >= 0:
        raise ValueError(f"block {bad} of a posting list is damaged")
    return docs[:length], freqs[:length]


def decode_positions(const uint8_t[::1] data, const int64_t[::1] offsets, const uint32_t[::1] freqs, int block):
    """Positions in all documents of a term, those of a document ascending; from the stream of formats 2 and 3."""
    cdef int64_t length = freqs.shape[0]
    check_blocks(data, offsets, length, block)
    cdef int64_t total = 0, i, number, start, size, here, done = 0, place = 0
    cdef int64_t bad = -1
    cdef int count
    for i in range(length):
        total += freqs[i]
    # A packed group of equal steps has no bytes but one, so that bytes alone do not bound the positions.
    if total > (<int64_t>data.shape[0] + 1) * 128:
        raise ValueError("the positions of a term are damaged")
    found = np.empty(total + 1, np.uint32)
    cdef uint32_t[::1] out = found
    with nogil:
        for number in range(offsets.shape[0] - 1):
            count = <int>(block if length - done > block else length - done)
            start, size = offsets[number], offsets[number + 1] - offsets[number]
            here = 0
            for i in range(count):
                here += freqs[done + i]
            if lc_block_positions(&data[0] + start, size, &freqs[done], count, &out[place], here) < 0:
                bad = number
                break
            done += count
            place += here
    if bad >= 0:
        raise ValueError(f"positions of block {bad} of a posting list are damaged")
    return found[:total]


def decode_many(
    const uint8_t[::1] data,
    const int64_t[::1] offsets,
    const int64_t[::1] lists,
    const uint32_t[::1] lengths,
    int block,
    int tail,
    int64_t documents,
):
    """Documents and frequencies of many terms, one behind the other, and where each term begins among them.

    Blob i of the terms is at ``offsets[i]``, and term t has the blobs from ``lists[t]`` on.
    """
    cdef int64_t terms = lengths.shape[0], t, number, at, start, size, done = 0, left, first
    cdef int count
    cdef int64_t bad = -1
    if lists.shape[0] != terms + 1 or (block != 128 and block != 256):
        raise ValueError("there are not as many lists as terms")
    starts = np.zeros(terms + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    cdef int64_t[::1] ends = starts
    # A document takes a bit at least, or a byte where blocks are not full.
    if ends[terms] > 8 * <int64_t>data.shape[0] * 32 + 1:
        raise ValueError("has more documents than its blocks can hold")
    docs = np.empty(ends[terms] + LC_MOST_BLOCK, np.uint32)
    freqs = np.empty(ends[terms] + LC_MOST_BLOCK, np.uint32)
    cdef uint32_t[::1] all_docs = docs
    cdef uint32_t[::1] all_freqs = freqs
    with nogil:
        for t in range(terms):
            first, left = ends[t], lengths[t]
            if lists[t] < 0 or lists[t + 1] - lists[t] != (left + block - 1) // block or lists[t + 1] >= offsets.shape[0]:
                bad = t
                break
            done = first
            for number in range(lists[t], lists[t + 1]):
                count = <int>(block if left > block else left)
                start, size = offsets[number], offsets[number + 1] - offsets[number]
                if start < 0 or size < 0 or start + size > data.shape[0]:
                    bad = t
                    break
                at = lc_block_docs(&data[0] + start, size, block, count, tail, &all_docs[done])
                if (
                    at < 0 or (done > first and all_docs[done] <= all_docs[done - 1])
                    or all_docs[done + count - 1] >= documents
                    or lc_block_freqs(&data[0] + start, size, at, block, count, tail, &all_freqs[done]) < 0
                ):
                    bad = t
                    break
                done += count
                left -= count
            if bad >= 0:
                break
    if bad >= 0:
        raise ValueError(f"the postings of term {bad} are damaged")
    return starts, docs[: ends[terms]], freqs[: ends[terms]]


def decode_many_positions(
    const uint8_t[::1] data,
    const int64_t[::1] streams,
    const uint32_t[::1] places,
    const int64_t[::1] lists,
    const int64_t[::1] starts,
    const uint32_t[::1] freqs,
    int block,
):
    """Positions of many terms, one behind the other.

    The stream of term t is at ``streams[t]``; where its blocks begin in it is told from ``lists[t]`` on in ``places``.
    """
    cdef int64_t terms = streams.shape[0] - 1, t, b, i, total = 0, done, left, here, start, stop, place = 0
    cdef int count
    cdef int64_t bad = -1
    if lists.shape[0] != terms + 1 or starts.shape[0] != terms + 1 or starts[terms] != freqs.shape[0]:
        raise ValueError("there are not as many streams as terms")
    for i in range(freqs.shape[0]):
        total += freqs[i]
    if total > (<int64_t>data.shape[0] + 1) * 128:
        raise ValueError("has more positions than its streams can hold")
    found = np.empty(total + 1, np.uint32)
    cdef uint32_t[::1] out = found
    with nogil:
        for t in range(terms):
            left, done = starts[t + 1] - starts[t], starts[t]
            if (
                lists[t] < 0 or lists[t + 1] - lists[t] != (left + block - 1) // block or lists[t + 1] > places.shape[0]
                or streams[t] < 0 or streams[t + 1] > data.shape[0]
            ):
                bad = t
                break
            for b in range(lists[t], lists[t + 1]):
                count = <int>(block if left > block else left)
                start = streams[t] + places[b]
                stop = streams[t] + places[b + 1] if b + 1 < lists[t + 1] else streams[t + 1]
                if start > stop or stop > streams[t + 1]:
                    bad = t
                    break
                here = 0
                for i in range(count):
                    here += freqs[done + i]
                if lc_block_positions(&data[0] + start, stop - start, &freqs[done], count, &out[place], here) < 0:
                    bad = t
                    break
                place += here
                done += count
                left -= count
            if bad >= 0:
                break
    if bad >= 0:
        raise ValueError(f"the positions of term {bad} are damaged")
    return found[:total]


cdef int check_blocks(const uint8_t[::1] data, const int64_t[::1] offsets, int64_t length, int block) except -1:
    cdef int64_t i
    if block != 128 and block != 256:
        raise ValueError(f"there are no blocks of {block} documents")
    if length < 0 or offsets.shape[0] != (length + block - 1) // block + 1:
        raise ValueError(f"has {offsets.shape[0] - 1} blocks of {block} for {length} documents")
    if length == 0:
        return 0
    if offsets[0] < 0 or offsets[offsets.shape[0] - 1] > data.shape[0] or data.shape[0] == 0:
        raise ValueError("has blocks beyond its end")
    for i in range(offsets.shape[0] - 1):
        if offsets[i] > offsets[i + 1]:
            raise ValueError("has blocks that end before they begin")
    return 0


def decode_impact(const uint8_t[::1] data):
    """The last document of a block, and its pairs of frequencies and quantized lengths."""
    cdef uint32_t last = 0, pairs = 0, freq = 0, norm = 0
    cdef int64_t at
    cdef uint32_t i
    if data.shape[0] == 0:
        raise ValueError("an impact is damaged")
    at = lc_read_impact(&data[0], data.shape[0], &last, &pairs)
    found = []
    if at >= 0:
        for i in range(pairs):
            at = lc_next_pair(&data[0], data.shape[0], at, &freq, &norm)
            if at < 0:
                break
            found.append((freq, norm))
    if at != data.shape[0]:
        raise ValueError("an impact is damaged")
    return last, found


def stream_positions(
    const uint8_t[::1] data,
    const int64_t[::1] chunks,
    const int64_t[::1] documents,
    const uint32_t[::1] freqs,
    int block,
):
    """Positions of format 1, a list of chunks for each document, as the stream of later formats and its offsets.

    The first chunk of a document is the number of its positions; then come packed ones of 128 and the rest as u32.
    """
    cdef int64_t length = freqs.shape[0]
    cdef int64_t total = 0, i, chunk, at, left, done, place = 0
    cdef uint32_t buffer[128]
    cdef uint32_t previous
    cdef int j, width
    cdef bint good = True
    if documents.shape[0] != length + 1:
        raise ValueError(f"has positions of {documents.shape[0] - 1} documents, not of {length}")
    for i in range(length):
        total += freqs[i]
        if documents[i] > documents[i + 1] or documents[i] < 0 or documents[i + 1] >= chunks.shape[0]:
            raise ValueError("the positions of a term are damaged")
    for i in range(chunks.shape[0] - 1):
        if chunks[i] > chunks[i + 1] or chunks[i] < 0 or chunks[i + 1] > data.shape[0]:
            raise ValueError("the positions of a term are damaged")
    if total > <int64_t>data.shape[0] * 32:
        raise ValueError("the positions of a term are damaged")
    steps = np.empty(total + 128, np.uint32)
    cdef uint32_t[::1] out = steps
    with nogil:
        for i in range(length):
            chunk = documents[i]
            if chunk >= documents[i + 1] or chunks[chunk + 1] - chunks[chunk] != 4:
                good = False
                break
            if lc_read_u32(&data[chunks[chunk]]) != freqs[i]:
                good = False
                break
            left = freqs[i]
            previous = 0
            while good and left > 0:
                chunk += 1
                if chunk >= documents[i + 1]:
                    good = False
                    break
                at = chunks[chunk]
                if left >= 128:
                    width = data[at + 4] if chunks[chunk + 1] - at >= 5 else 33
                    if width > 32 or chunks[chunk + 1] - at < 5 + 16 * width:
                        good = False
                        break
                    lc_unpack4(&data[at] + 5, width, buffer)
                    buffer[0] = lc_read_u32(&data[at]) - previous
                    for j in range(128):
                        out[place + j] = buffer[j]
                        previous += buffer[j]
                    done = 128
                else:
                    if chunks[chunk + 1] - at != left * 4:
                        good = False
                        break
                    for j in range(<int>left):
                        out[place + j] = lc_read_u32(&data[at] + 4 * j) - previous
                        previous += out[place + j]
                    done = left
                left -= done
                place += done
            if not good:
                break
    if not good:
        raise ValueError("the positions of a term are damaged")
    return pack_steps(out, total, freqs, block)


cdef object pack_steps(uint32_t[::1] steps, int64_t total, const uint32_t[::1] freqs, int block):
    """Steps of positions as a stream, and where each block of documents begins in it."""
    cdef int64_t blocks = (freqs.shape[0] + block - 1) // block
    offsets = np.zeros(blocks + 1, np.int64)
    data = np.empty(total * 5 + total // 128 + 1, np.uint8)
    cdef int64_t[::1] starts = offsets
    cdef uint8_t[::1] out = data
    cdef int64_t number, i, here, at = 0, place = 0, first, last
    for number in range(blocks):
        first, last = number * block, min((number + 1) * block, freqs.shape[0])
        here = 0
        for i in range(first, last):
            here += freqs[i]
        at = lc_write_steps(&out[0], at, &steps[place], here)
        place += here
        starts[number + 1] = at
    return data[:at].copy(), offsets

# distutils: extra_compile_args = -ffp-contract=off
"""The best documents of a partition for some terms. The work is in ``kernel.h``; sizes are checked here.

A :class:`TermList` is a term of one partition: blocks as a file keeps them, or plain arrays for texts that no index knows.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free

import numpy as np


cdef extern from "kernel.h" nogil:
    int LC_BAD
    int LC_NO_MEMORY
    int LC_PLAIN_BLOCK
    int LC_MOST_BLOCK

    ctypedef struct lc_term:
        const uint8_t* blocks
        const int64_t* offsets
        const uint32_t* firsts
        const float* bounds
        const uint32_t* plain_docs
        const uint32_t* plain_freqs
        const uint8_t* positions
        const int64_t* position_offsets
        const uint32_t* plain_positions
        const int64_t* plain_starts
        int64_t block_count
        int64_t length
        int block
        int tail

    ctypedef struct lc_cursor:
        const lc_term* term
        float weight
        float most
        int group
        int64_t open
        int64_t window
        int64_t spread_of

    ctypedef struct lc_phrase:
        const int32_t* cursors
        const int64_t* offsets
        int32_t count
        int64_t slop

    ctypedef struct lc_search:
        lc_cursor* cursors
        int count
        int groups
        const lc_phrase* phrases
        int phrase_count
        const float* norm
        const uint8_t* keep
        uint32_t documents
        int64_t limit
        int64_t size
        int64_t room
        float* scores
        uint32_t* found
        uint32_t* reach
        uint32_t* reached
        int error

    void lc_run(lc_search*)
    void lc_put_in_order(lc_search*)
    void lc_free_cursor(lc_cursor*)
    int lc_impact_bounds(const uint8_t*, const int64_t*, int64_t, float, float, float*)
    int64_t lc_block_first(const uint8_t*, int64_t, int, int, int)
    int64_t lc_block_docs(const uint8_t*, int64_t, int, int, int, uint32_t*)
    int lc_block_freqs(const uint8_t*, int64_t, int64_t, int, int, int, uint32_t*)
    int lc_is_near(const uint32_t*, int64_t, const uint8_t*, int64_t, int64_t, int64_t*)
    uint8_t lc_quantize(uint32_t)
    uint32_t lc_dequantize(uint8_t)


OPTIONAL = -1
EXCLUDED = -2
"""Groups of terms that need not be in a document, and of those that must not; others are numbered from 0 on."""


class BadPostings(ValueError):
    """Bytes that are no postings."""


cdef class TermList:
    """The documents of a term in a partition. Where ``docs`` are given, they are plain; else ``blocks``."""

    cdef lc_term term
    cdef object held
    cdef readonly Py_ssize_t length
    cdef readonly bint has_positions
    cdef readonly Py_ssize_t nbytes

    @staticmethod
    def of_blocks(
        const uint8_t[::1] blocks,
        const int64_t[::1] offsets,
        int64_t length,
        int block,
        int tail,
        positions=None,
        position_offsets=None,
    ):
        """Of blocks as they are stored: where each begins, and the end of the last."""
        cdef TermList made = TermList.__new__(TermList)
        cdef int64_t count = offsets.shape[0] - 1, i, left, first, before = -1
        if block != 128 and block != 256:
            raise BadPostings(f"blocks of {block} documents are not known")
        if length < 1 or count != (length + block - 1) // block:
            raise BadPostings(f"{count} blocks of {block} do not hold {length} documents")
        _check_offsets(offsets, blocks.shape[0])
        firsts = np.empty(count, np.uint32)
        cdef uint32_t[::1] out = firsts
        for i in range(count):
            left = min(length - i * block, <int64_t>block)
            first = -1
            if offsets[i + 1] > offsets[i]:
                first = lc_block_first(&blocks[offsets[i]], offsets[i + 1] - offsets[i], block, <int>left, tail)
            if first <= before:
                raise BadPostings(f"block {i} does not begin behind the one before it")
            out[i] = <uint32_t>first
            before = first
        made.term.blocks = &blocks[0]
        made.term.offsets = &offsets[0]
        made.term.firsts = &out[0]
        made.term.block_count = count
        made.term.length = length
        made.term.block = block
        made.term.tail = tail
        cdef const uint8_t[::1] places
        cdef const int64_t[::1] begins
        if positions is not None:
            places, begins = positions, position_offsets
            if begins.shape[0] != count + 1:
                raise BadPostings(f"there are {begins.shape[0] - 1} blocks of positions for {count} of documents")
            _check_offsets(begins, places.shape[0])
            made.term.positions = &places[0] if places.shape[0] else made.term.blocks
            made.term.position_offsets = &begins[0]
        made.held = (blocks, offsets, firsts, positions, position_offsets)
        made.length = length
        made.has_positions = positions is not None
        made.nbytes = blocks.shape[0] + 8 * offsets.shape[0] + 4 * count
        if positions is not None:
            made.nbytes += places.shape[0] + 8 * begins.shape[0]
        return made

    @staticmethod
    def of_arrays(const uint32_t[::1] docs, const uint32_t[::1] freqs, positions=None, starts=None):
        """Of ascending documents and how often the term is in each; positions of all, and where those of each begin."""
        cdef TermList made = TermList.__new__(TermList)
        cdef int64_t length = docs.shape[0], i
        cdef const uint32_t[::1] places
        cdef const int64_t[::1] begins
        if length < 1 or freqs.shape[0] != length:
            raise ValueError("a frequency for each document is needed")
        for i in range(1, length):
            if docs[i] <= docs[i - 1]:
                raise ValueError("documents are not ascending")
        firsts = np.ascontiguousarray(np.asarray(docs)[::LC_PLAIN_BLOCK])
        cdef uint32_t[::1] out = firsts
        made.term.plain_docs = &docs[0]
        made.term.plain_freqs = &freqs[0]
        made.term.firsts = &out[0]
        made.term.block_count = out.shape[0]
        made.term.length = length
        made.term.block = LC_PLAIN_BLOCK
        if positions is not None:
            places, begins = positions, starts
            if begins.shape[0] != length + 1:
                raise ValueError("positions are those of other documents")
            _check_offsets(begins, places.shape[0])
            if places.shape[0] == 0:
                raise ValueError("a term is somewhere")
            made.term.plain_positions = &places[0]
            made.term.plain_starts = &begins[0]
        made.held = (docs, freqs, firsts, positions, starts)
        made.length = length
        made.has_positions = positions is not None
        made.nbytes = 8 * length
        return made

    def decode(self):
        """All documents, and how often the term is in each."""
        cdef const lc_term* t = &self.term
        docs, freqs = np.empty(t.length + LC_MOST_BLOCK, np.uint32), np.empty(t.length + LC_MOST_BLOCK, np.uint32)
        cdef uint32_t[::1] d = docs
        cdef uint32_t[::1] f = freqs
        cdef int64_t b, at, begin, size
        cdef int count, bad = 0
        with nogil:
            for b in range(t.block_count):
                begin = b * t.block
                count = <int>min(t.length - begin, <int64_t>t.block)
                if t.plain_docs != NULL:
                    for at in range(count):
                        d[begin + at] = t.plain_docs[begin + at]
                        f[begin + at] = t.plain_freqs[begin + at]
                    continue
                size = t.offsets[b + 1] - t.offsets[b]
                at = lc_block_docs(t.blocks + t.offsets[b], size, t.block, count, t.tail, &d[begin])
                if at < 0 or lc_block_freqs(t.blocks + t.offsets[b], size, at, t.block, count, t.tail, &f[begin]) < 0:
                    bad = 1
                    break
        if bad:
            raise BadPostings("a block cannot be read")
        return docs[: t.length], freqs[: t.length]

    def impact_bounds(self, const uint8_t[::1] impacts, const int64_t[::1] offsets, float mean):
        """The best of each block by its impacts, for documents of a mean length."""
        if offsets.shape[0] < self.term.block_count + 1:
            raise BadPostings("there are fewer impacts than blocks")
        _check_offsets(offsets, impacts.shape[0])
        bounds = np.empty(self.term.block_count, np.float32)
        cdef float[::1] out = bounds
        cdef const uint8_t* data = &impacts[0] if impacts.shape[0] else NULL
        cdef int code
        if data == NULL:
            raise BadPostings("impacts are empty")
        with nogil:
            code = lc_impact_bounds(
                data, &offsets[0], self.term.block_count, <float>0.3, <float>0.9 / mean, &out[0]
            )
        if code < 0:
            raise BadPostings("an impact cannot be read")
        return bounds

    def exact_bounds(self, const float[::1] norm):
        """The best of each block, by looking at all documents."""
        docs, freqs = self.decode()
        if len(docs) and int(docs[len(docs) - 1]) >= norm.shape[0]:
            raise BadPostings("a document is beyond the last one")
        f = freqs.astype(np.float32)
        values = np.float32(2.2) * f / (f + np.asarray(norm)[docs])
        return np.maximum.reduceat(values, np.arange(0, len(docs), self.term.block))


def norms(const uint32_t[::1] lengths, float mean, bint quantized):
    """``1.2 (0.25 + 0.75 length / mean)`` for each document; lengths to one byte where an index has them so."""
    made = np.empty(lengths.shape[0], np.float32)
    cdef float[::1] out = made
    cdef Py_ssize_t i
    cdef float base = <float>0.25, slope = <float>0.75
    cdef uint32_t length
    with nogil:
        for i in range(lengths.shape[0]):
            length = lc_dequantize(lc_quantize(lengths[i])) if quantized else lengths[i]
            out[i] = <float>1.2 * (base + slope * <float>length / mean)
    return made


def near_terms(const uint8_t[::1] data, const int64_t[::1] offsets, str text, int64_t edits, int64_t prefix):
    """Numbers of terms within so many edits of a text, which share its first characters; ``data`` holds all terms."""
    _check_offsets(offsets, data.shape[0])
    cdef bytes begin = text[:prefix].encode()
    cdef const uint8_t* head = begin
    cdef int64_t shared = len(begin), i, size, k
    cdef Py_ssize_t count = offsets.shape[0] - 1
    rest = np.frombuffer(text[prefix:].encode("utf-32-le"), np.uint32)
    cdef const uint32_t[::1] characters = rest
    cdef int64_t length = characters.shape[0]
    room = np.empty(length + 1, np.int64)
    cdef int64_t[::1] row = room
    cdef uint32_t none = 0
    cdef const uint32_t* letters = &characters[0] if length else &none
    marks = np.zeros(count, np.uint8)
    cdef uint8_t[::1] out = marks
    if data.shape[0] == 0:
        return np.empty(0, np.int64)
    with nogil:
        for i in range(count):
            size = offsets[i + 1] - offsets[i]
            if size < shared:
                continue
            k = 0
            while k < shared and data[offsets[i] + k] == head[k]:
                k += 1
            if k == shared:
                out[i] = lc_is_near(letters, length, &data[0] + offsets[i] + shared, size - shared, edits, &row[0])
    return np.flatnonzero(marks)


def search(terms, int groups, phrases, const float[::1] norm, keep, int64_t limit):
    """Documents and scores, the best first; of equal ones the first.

    Parameters
    ----------
    terms
        Tuples of a :class:`TermList`, the bounds of its blocks or None, a weight and a group.
    groups
        How many groups there are: a document has a term of each.
    phrases
        Tuples of numbers of terms, their offsets in the phrase, and the slop.
    norm
        What :func:`norms` gives for each document.
    keep
        Bytes that are not 0 for documents that count; None: all do.
    limit
        How many documents; -1: all.
    """
    cdef lc_search s
    cdef Py_ssize_t i, k, count = len(terms), phrase_count = len(phrases)
    cdef float most
    cdef TermList one
    cdef lc_term* copies = NULL
    cdef lc_phrase* sought = NULL
    cdef const float[::1] bounds
    cdef const uint8_t[::1] kept
    cdef const int32_t[::1] numbers
    cdef const int64_t[::1] offsets
    if count == 0 or norm.shape[0] == 0 or limit == 0:
        return np.empty(0, np.uint32), np.empty(0, np.float32)
    if norm.shape[0] >= 0xFFFFFFFF:
        raise ValueError("a partition has fewer documents")
    _clear(&s)
    holding = []
    try:
        s.cursors = <lc_cursor*>calloc(count, sizeof(lc_cursor))
        copies = <lc_term*>calloc(count, sizeof(lc_term))
        sought = <lc_phrase*>calloc(phrase_count + 1, sizeof(lc_phrase))
        if s.cursors == NULL or copies == NULL or sought == NULL:
            raise MemoryError
        for i in range(count):
            one, given, weight, group = terms[i]
            copies[i] = one.term
            most = 2.2
            if given is not None:
                bounds = given
                if bounds.shape[0] != one.term.block_count:
                    raise ValueError("bounds are those of another term")
                copies[i].bounds = &bounds[0]
                most = bounds[0]
                for k in range(1, bounds.shape[0]):
                    most = max(most, bounds[k])
                holding.append(given)
            s.cursors[i].term = &copies[i]
            s.cursors[i].weight = weight
            s.cursors[i].most = <float>(weight * most)
            s.cursors[i].group = group
            s.cursors[i].open = -1
            s.cursors[i].spread_of = -1
        for i in range(phrase_count):
            order, places, slop = phrases[i]
            order = np.ascontiguousarray(order, np.int32)
            places = np.ascontiguousarray(places, np.int64)
            numbers, offsets = order, places
            if not 0 < numbers.shape[0] == offsets.shape[0]:
                raise ValueError("a phrase has terms, and an offset of each")
            for number in order:
                if not 0 <= number < count or terms[number][3] < 0 or not terms[number][0].has_positions:
                    raise ValueError("a phrase is of terms that have to be there, and have positions")
            sought[i].cursors = &numbers[0]
            sought[i].offsets = &offsets[0]
            sought[i].count = <int32_t>len(order)
            sought[i].slop = slop
            holding.append((order, places))
        s.count = <int>count
        s.groups = groups
        s.phrases = sought
        s.phrase_count = <int>phrase_count
        s.norm = &norm[0]
        s.keep = NULL
        if keep is not None:
            kept = keep
            if kept.shape[0] != norm.shape[0]:
                raise ValueError("a mark for each document is needed")
            s.keep = &kept[0]
        s.documents = <uint32_t>norm.shape[0]
        s.limit = limit
        with nogil:
            lc_run(&s)
            lc_put_in_order(&s)
        if s.error == LC_NO_MEMORY:
            raise MemoryError
        if s.error:
            raise BadPostings("a block cannot be read, or names documents that are not there")
        docs, scores = np.empty(s.size, np.uint32), np.empty(s.size, np.float32)
        _copy(docs, scores, &s)
    finally:
        if s.cursors != NULL:
            for i in range(count):
                lc_free_cursor(&s.cursors[i])
        free(s.cursors)
        free(copies)
        free(sought)
        free(s.scores)
        free(s.found)
        free(s.reach)
        free(s.reached)
    if limit >= 0:
        return docs, scores
    order = np.lexsort((docs, -scores))
    return docs[order], scores[order]


cdef void _clear(lc_search* s) noexcept:
    cdef char* bytes = <char*>s
    cdef size_t i
    for i in range(sizeof(lc_search)):
        bytes[i] = 0


cdef _copy(uint32_t[::1] docs, float[::1] scores, const lc_search* s):
    cdef int64_t i
    for i in range(s.size):
        docs[i] = s.found[i]
        scores[i] = s.scores[i]


cdef _check_offsets(const int64_t[::1] offsets, int64_t size):
    """Raise unless they go up, and stay within the bytes."""
    cdef int64_t i
    if offsets.shape[0] < 1 or offsets[0] < 0 or offsets[offsets.shape[0] - 1] > size:
        raise BadPostings("blocks lie outside of their bytes")
    for i in range(1, offsets.shape[0]):
        if offsets[i] < offsets[i - 1]:
            raise BadPostings("blocks lie outside of their bytes")

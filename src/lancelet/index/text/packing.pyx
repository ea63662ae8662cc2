# distutils: extra_compile_args = -ffp-contract=off
"""Postings put together: tokens of a batch into a run, runs into rows of a file.

A run holds postings by ascending number of their term, those of a term by ascending document::

    varint step << 1 | once      from the document before, or from the beginning of the run
    varint frequency             unless the term is once in the document
    varint step, ...             positions, where they are kept: the first, then steps

Documents are counted from the first one of the run, so that batches can be counted apart. What is made of runs is
drawn in ``blocks.h``.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from "blocks.h" nogil:
    enum: LC_TAIL_FIXED32, LC_TAIL_VARINT, LC_MOST_BLOCK, LC_MOST_BYTES, LC_MOST_IMPACT
    ctypedef struct lc_frontier:
        uint32_t best[256]
        int low
        int high
    int64_t lc_write_block(
        uint8_t * out, const uint32_t * docs, const uint32_t * freqs, int count, int block, int tail, float score
    )
    int64_t lc_write_impact(uint8_t * out, uint32_t last, const lc_frontier * all)
    int64_t lc_write_steps(uint8_t * out, int64_t at, const uint32_t * steps, int64_t count)
    int64_t lc_write_varint(uint8_t * out, int64_t at, uint32_t value)
    int64_t lc_read_varint(const uint8_t * data, int64_t size, int64_t at, uint32_t * value)
    void lc_clear_frontier(lc_frontier * all)
    void lc_note(lc_frontier * all, int norm, uint32_t freq)
    uint8_t lc_quantize(uint32_t length)
    float lc_idf(uint64_t documents, uint64_t length)
    float lc_norm(uint32_t length, float average)
    float lc_best_share(const uint32_t * docs, const uint32_t * freqs, int count, const float * norms)
    int lc_width(uint32_t bits)
    void lc_pack4(const uint32_t * values, int width, uint8_t * out)

cdef enum:
    GROUP = 32
    SPARE = 64
    MOST_TERMS = 1 << 14
    # Of so many documents a block may be wide, of fewer it never is; those of a single one are often the same.
    LEAST_COMMON = 40
    LAST_TURN = 2

cdef uint32_t GONE = 0xFFFFFFFF


cdef struct Buffer:
    uint8_t * data
    int64_t used
    int64_t space


cdef inline bint reserve(Buffer * buffer, int64_t more) noexcept nogil:
    cdef int64_t space
    cdef uint8_t * larger
    if buffer.used + more <= buffer.space:
        return True
    space = buffer.space + (buffer.space >> 1) + more + SPARE
    larger = <uint8_t *>realloc(buffer.data, space)
    if larger == NULL:
        return False
    buffer.data = larger
    buffer.space = space
    return True


cdef inline bint put64(Buffer * buffer, int64_t value) noexcept nogil:
    if not reserve(buffer, 8):
        return False
    memcpy(buffer.data + buffer.used, &value, 8)
    buffer.used += 8
    return True


cdef inline bint put32(Buffer * buffer, uint32_t value) noexcept nogil:
    if not reserve(buffer, 4):
        return False
    memcpy(buffer.data + buffer.used, &value, 4)
    buffer.used += 4
    return True


cdef inline int64_t write_long(uint8_t * out, int64_t at, uint64_t value) noexcept nogil:
    while value >= 128:
        out[at] = <uint8_t>(value | 128)
        value >>= 7
        at += 1
    out[at] = <uint8_t>value
    return at + 1


cdef object taken(Buffer * buffer, object dtype):
    """What is in a buffer as an array; the buffer is empty then."""
    cdef int64_t size = buffer.used
    found = np.empty(size, np.uint8)
    cdef uint8_t[::1] view = found
    if size:
        memcpy(&view[0], buffer.data, size)
    buffer.used = 0
    return found.view(dtype)


cdef struct Place:
    uint32_t document, position


cdef inline int64_t write_small(uint8_t * out, int64_t at, uint32_t value) noexcept nogil:
    if value < 128:
        out[at] = <uint8_t>value
        return at + 1
    return lc_write_varint(out, at, value)


cdef class RunMaker:
    """Makes runs of tokens, one batch after the other, in memory that it keeps. For one thread."""

    cdef uint32_t * starts
    cdef int64_t starts_space
    cdef Place * places
    cdef int64_t places_space
    cdef Buffer data

    def __dealloc__(self):
        free(self.starts)
        free(self.places)
        free(self.data.data)

    cdef int prepare(self, int64_t count, int64_t num_terms) except -1:
        if num_terms < 0:
            raise ValueError(f"{num_terms} terms")
        # What an earlier batch left when it was refused.
        self.data.used = 0
        if num_terms + 2 > self.starts_space:
            free(self.starts)
            self.starts_space = 0
            self.starts = <uint32_t *>malloc((num_terms + (num_terms >> 1) + 2) * sizeof(uint32_t))
            if self.starts == NULL:
                raise MemoryError
            self.starts_space = num_terms + (num_terms >> 1) + 2
        if count + 1 > self.places_space:
            free(self.places)
            self.places_space = 0
            self.places = <Place *>malloc((count + (count >> 2) + 1) * sizeof(Place))
            if self.places == NULL:
                raise MemoryError
            self.places_space = count + (count >> 2) + 1
        memset(self.starts, 0, (num_terms + 2) * sizeof(uint32_t))
        return 0

    def make(
        self, const uint32_t[:, ::1] notes not None, const uint32_t[::1] numbers, bint with_positions, int64_t num_terms,
        int64_t num_documents=-1,
    ):
        """Tokens as a run: its terms, how many documents each has, its last one, offsets, bytes.

        Documents without tokens are not counted, unless their number is given. Also told are the documents that are, as
        the notes have them, and how many tokens each has.

        Parameters
        ----------
        notes
            A document, a raw token and a position for each token; documents ascend.
        numbers
            The term of each raw token, all bits set where it has none; None where raw tokens are terms.
        """
        cdef int64_t count = notes.shape[0], i, kept_tokens = 0, all_documents = 0, distinct = 0
        cdef bint is_told = numbers is not None
        cdef int64_t most = numbers.shape[0] if is_told else num_terms
        cdef int64_t last = -1
        cdef uint32_t term
        cdef int problem = 0
        if notes.shape[1] != 3 or count > <int64_t>0xFFFFFFFF:
            raise ValueError("a document, a token and a position are needed for each token")
        self.prepare(count, num_terms)
        with nogil:
            for i in range(count):
                term = notes[i, 1]
                if term >= most or notes[i, 0] < last:
                    problem = 1
                    break
                if is_told:
                    term = numbers[term]
                    if term == GONE:
                        continue
                    if term >= num_terms:
                        problem = 1
                        break
                self.starts[term + 1] += 1
                kept_tokens += 1
                all_documents += notes[i, 0] != last
                last = notes[i, 0]
            # Where each term ends becomes where it begins, and is its end again when all its places are filled.
            for i in range(1, num_terms + 1):
                distinct += self.starts[i] != 0
                self.starts[i] += self.starts[i - 1]
        if problem or (num_documents >= 0 and last >= num_documents):
            raise ValueError("documents do not ascend, or terms are not known")
        kept = np.arange(num_documents, dtype=np.uint32) if num_documents >= 0 else np.empty(all_documents, np.uint32)
        sizes = np.zeros(len(kept), np.uint32)
        if kept_tokens:
            self.place(notes, numbers, is_told, kept, sizes, num_documents >= 0)
        terms, counts = np.empty(distinct, np.uint32), np.empty(distinct, np.uint32)
        lasts, offsets = np.empty(distinct, np.uint32), np.zeros(distinct + 1, np.int64)
        problem = self.write(terms, counts, lasts, offsets, with_positions, num_terms)
        if problem == 1:
            raise ValueError("positions do not ascend")
        if problem:
            raise MemoryError
        return terms, counts, lasts, offsets, taken(&self.data, np.uint8), kept, sizes

    cdef void place(
        self, const uint32_t[:, ::1] notes, const uint32_t[::1] numbers, bint is_told, uint32_t[::1] kept,
        uint32_t[::1] sizes, bint are_all_kept,
    ) noexcept:
        """Tokens term by term."""
        cdef int64_t i, document = -1, last = -1
        cdef uint32_t term
        cdef Place * one
        with nogil:
            for i in range(notes.shape[0]):
                term = notes[i, 1]
                if is_told:
                    term = numbers[term]
                    if term == GONE:
                        continue
                if are_all_kept:
                    document = notes[i, 0]
                elif notes[i, 0] != last:
                    document += 1
                    last = notes[i, 0]
                    kept[document] = notes[i, 0]
                sizes[document] += 1
                one = &self.places[self.starts[term]]
                self.starts[term] += 1
                one.document = <uint32_t>document
                one.position = notes[i, 2]

    cdef int write(
        self, uint32_t[::1] terms, uint32_t[::1] counts, uint32_t[::1] lasts, int64_t[::1] offsets, bint with_positions,
        int64_t num_terms,
    ) noexcept:
        """What was placed as bytes: 1 when positions do not ascend, 2 when memory is out."""
        cdef int64_t term, i, first, start = 0, stop, at, number = 0
        cdef uint32_t previous, position, documents
        cdef const Place * places = self.places
        cdef uint8_t * out
        cdef int problem = 0
        with nogil:
            for term in range(num_terms):
                stop = self.starts[term]
                if start == stop:
                    continue
                # At most a step, a frequency and a position for each token.
                if not reserve(&self.data, 20 * (stop - start)):
                    problem = 2
                    break
                out, at = self.data.data, self.data.used
                previous = documents = 0
                i = start
                while i < stop:
                    first = i
                    i += 1
                    while i < stop and places[i].document == places[first].document:
                        i += 1
                    at = write_long(
                        out, at, <uint64_t>(places[first].document - previous) << 1 | (i - first == 1)
                    )
                    if i - first > 1:
                        at = write_small(out, at, <uint32_t>(i - first))
                    previous = places[first].document
                    documents += 1
                    if with_positions:
                        position = 0
                        for first in range(first, i):
                            if places[first].position < position:
                                problem = 1
                            at = write_small(out, at, places[first].position - position)
                            position = places[first].position
                self.data.used = at
                terms[number] = <uint32_t>term
                counts[number] = documents
                lasts[number] = previous
                number += 1
                offsets[number] = at
                start = stop
        return problem


def make_run_of_postings(
    const uint32_t[::1] terms,
    const int64_t[::1] starts,
    const uint32_t[::1] docs,
    const uint32_t[::1] freqs,
    positions,
):
    """Postings of terms, which ascend, as a run. Those of term i are from ``starts[i]`` on, by ascending document."""
    cdef int64_t count = terms.shape[0], i, j, k, at, place = 0
    cdef bint with_positions = positions is not None
    cdef const uint32_t[::1] places = positions if with_positions else docs
    cdef Buffer data
    cdef uint32_t previous, position
    cdef int problem = 0
    data.data, data.used, data.space = NULL, 0, 0
    if starts.shape[0] != count + 1 or freqs.shape[0] != docs.shape[0] or starts[count] > docs.shape[0]:
        raise ValueError("postings, documents and frequencies are not of one number")
    if with_positions and len(positions) != int(np.asarray(freqs).sum(dtype=np.int64)):
        raise ValueError("there are more or fewer positions than the frequencies say")
    offsets = np.zeros(count + 1, np.int64)
    cdef int64_t[::1] ends = offsets
    with nogil:
        for i in range(count):
            previous = 0
            if starts[i] < 0 or starts[i] > starts[i + 1] or starts[i + 1] > docs.shape[0]:
                problem = 1
                break
            for j in range(starts[i], starts[i + 1]):
                if not reserve(&data, 20 + (5 * <int64_t>freqs[j] if with_positions else 0)):
                    problem = 2
                    break
                if docs[j] < previous:
                    problem = 1
                    break
                at = write_long(data.data, data.used, <uint64_t>(docs[j] - previous) << 1 | (freqs[j] == 1))
                if freqs[j] != 1:
                    at = lc_write_varint(data.data, at, freqs[j])
                previous = docs[j]
                if with_positions:
                    position = 0
                    for k in range(freqs[j]):
                        at = lc_write_varint(data.data, at, places[place] - position)
                        position = places[place]
                        place += 1
                data.used = at
            if problem:
                break
            ends[i + 1] = data.used
    try:
        if problem == 1:
            raise ValueError("documents do not ascend")
        if problem:
            raise MemoryError
        ends_ = np.asarray(starts)
        counts = np.diff(ends_).astype(np.uint32)
        lasts = np.asarray(docs)[ends_[1:] - 1] if len(docs) else np.empty(0, np.uint32)
        return np.array(terms), counts, np.ascontiguousarray(lasts, np.uint32), offsets, taken(&data, np.uint8)
    finally:
        free(data.data)


cdef struct Cursor:
    const uint32_t * terms
    const uint32_t * counts
    const uint32_t * lasts
    const int64_t * offsets
    const uint8_t * data
    int64_t size
    int64_t count
    int64_t at
    uint32_t base
    # The next one of the runs that go on with the same term, counted from 1.
    int64_t next


cdef class Merger:
    """Runs as one, term by term: as blocks for a file, or as one larger run.

    Parameters
    ----------
    runs
        Terms, counts of documents, last documents, offsets, bytes, and the number of the first document of each; in the
        order of their documents.
    lengths
        How many tokens each document has.
    """

    cdef list _kept
    cdef Cursor * cursors
    cdef int64_t num_runs
    # Of each term the first one of the runs that go on with it, counted from 1, or 0; and of the term at hand all of them.
    cdef int64_t * heads
    cdef int64_t num_terms
    cdef int64_t term
    cdef int64_t * met
    cdef int64_t num_met
    cdef uint8_t[::1] norms
    cdef float[::1] scales
    """What the length of each document makes of a score; ``norms`` are the lengths in a byte."""
    cdef int block
    cdef int tail
    cdef bint with_positions
    cdef bint chunked
    cdef uint64_t documents
    # Output.
    cdef Buffer posting
    cdef Buffer block_ends
    cdef Buffer list_ends
    cdef Buffer impact
    cdef Buffer impact_ends
    cdef Buffer impact_lists
    cdef Buffer scores
    cdef Buffer counts
    cdef Buffer terms
    cdef Buffer stream
    cdef Buffer stream_ends
    cdef Buffer stream_starts
    cdef Buffer stream_lists
    cdef Buffer steps
    cdef Buffer entries
    cdef lc_frontier here
    cdef lc_frontier group
    cdef readonly int turn
    cdef int problem

    def __cinit__(
        self, runs, const uint32_t[::1] lengths, int block, int tail, bint with_positions, bint chunked=False,
        documents=None, average=None,
    ):
        cdef int64_t i
        cdef const uint32_t[::1] terms
        cdef const uint32_t[::1] counts
        cdef const uint32_t[::1] lasts
        cdef const int64_t[::1] offsets
        cdef const uint8_t[::1] data
        if block != 128 and block != 256:
            raise ValueError(f"there are no blocks of {block} documents")
        self.here.low = self.group.low = 256
        self.here.high = self.group.high = -1
        self.num_runs = len(runs)
        self.cursors = <Cursor *>calloc(self.num_runs + 1, sizeof(Cursor))
        self.met = <int64_t *>malloc((self.num_runs + 1) * sizeof(int64_t))
        if self.cursors == NULL or self.met == NULL:
            raise MemoryError
        self._kept = list(runs)
        for i in range(self.num_runs):
            terms, counts, lasts, offsets, data, base = runs[i]
            if counts.shape[0] != terms.shape[0] or lasts.shape[0] != terms.shape[0] or offsets.shape[0] != terms.shape[0] + 1:
                raise ValueError("a run is damaged")
            self.cursors[i].count = terms.shape[0]
            self.cursors[i].size = data.shape[0]
            self.cursors[i].base = base
            if terms.shape[0]:
                self.cursors[i].terms = &terms[0]
                self.cursors[i].counts = &counts[0]
                self.cursors[i].lasts = &lasts[0]
                self.cursors[i].offsets = &offsets[0]
                self.cursors[i].data = &data[0] if data.shape[0] else NULL
                self.num_terms = max(self.num_terms, <int64_t>terms[terms.shape[0] - 1] + 1)
        self.heads = <int64_t *>malloc((self.num_terms + 1) * sizeof(int64_t))
        if self.heads == NULL:
            raise MemoryError
        self.problem = 0
        self.rewind()
        if self.problem:
            raise ValueError("a run is damaged")
        self.block, self.tail = block, tail
        self.with_positions, self.chunked = with_positions, chunked
        norms = np.empty(len(lengths), np.uint8)
        self.norms = norms
        cdef int64_t total = 0
        for i in range(lengths.shape[0]):
            self.norms[i] = lc_quantize(lengths[i])
            total += lengths[i]
        self.documents = len(lengths) if documents is None else documents
        cdef float mean = (<float>total / <float>self.documents if self.documents else 1) if average is None else average
        scales = np.empty(len(lengths), np.float32)
        self.scales = scales
        for i in range(lengths.shape[0]):
            self.scales[i] = lc_norm(lengths[i], mean)

    def __dealloc__(self):
        free(self.cursors)
        free(self.heads)
        free(self.met)
        free(self.posting.data)
        free(self.block_ends.data)
        free(self.list_ends.data)
        free(self.impact.data)
        free(self.impact_ends.data)
        free(self.impact_lists.data)
        free(self.scores.data)
        free(self.counts.data)
        free(self.terms.data)
        free(self.stream.data)
        free(self.stream_ends.data)
        free(self.stream_starts.data)
        free(self.stream_lists.data)
        free(self.steps.data)
        free(self.entries.data)

    cdef void rewind(self) noexcept nogil:
        cdef int64_t i
        memset(self.heads, 0, self.num_terms * sizeof(int64_t))
        self.term = -1
        for i in range(self.num_runs - 1, -1, -1):
            self.cursors[i].at = 0
            self.go_on(i)
        self.term = 0

    cdef inline void go_on(self, int64_t i) noexcept nogil:
        """Put a run where its next term is."""
        cdef Cursor * one = &self.cursors[i]
        if one.at == one.count:
            return
        if one.terms[one.at] <= self.term or one.terms[one.at] >= self.num_terms:
            self.problem = 1
            return
        one.next = self.heads[one.terms[one.at]]
        self.heads[one.terms[one.at]] = i + 1

    cdef int64_t next_term(self) noexcept nogil:
        """The least term that has not been passed, of which all runs are ``met``, in their order; -1 at the end."""
        cdef int64_t i, place
        while self.term < self.num_terms and self.heads[self.term] == 0:
            self.term += 1
        if self.term == self.num_terms:
            return -1
        i = self.heads[self.term]
        self.num_met = 0
        while i:
            place = self.num_met
            while place and self.met[place - 1] > i - 1:
                self.met[place] = self.met[place - 1]
                place -= 1
            self.met[place] = i - 1
            self.num_met += 1
            i = self.cursors[i - 1].next
        return self.term

    cdef void pass_term(self) noexcept nogil:
        """All runs that were met go on."""
        cdef int64_t i
        for i in range(self.num_met - 1, -1, -1):
            self.cursors[self.met[i]].at += 1
            self.go_on(self.met[i])
        self.term += 1

    cdef int64_t num_documents(self) noexcept nogil:
        """How many documents have the term."""
        cdef int64_t i, total = 0
        for i in range(self.num_met):
            total += self.cursors[self.met[i]].counts[self.cursors[self.met[i]].at]
        return total

    cdef void write_terms(self, int64_t limit) noexcept nogil:
        cdef int64_t term, total
        while (
            self.problem == 0 and self.posting.used + self.impact.used + self.stream.used < limit
            and self.terms.used < 4 * MOST_TERMS
        ):
            term = self.next_term()
            if term < 0:
                break
            total = self.num_documents()
            if self.turn == (0 if total >= LEAST_COMMON else 1 if total > 1 else LAST_TURN):
                self.write_term(<uint32_t>term, total)
            self.pass_term()

    def rows(self, int64_t limit):
        """Rows of the next terms, about so many bytes; None when there are no more.

        Terms of many documents come first, then those of few, then those of one, and not together: ``turn`` is another one then.
        They come as the terms, in how many documents each is, best scores, then ends of lists, ends of blobs and bytes of
        blocks and of impacts, and, with positions, ends of streams, bytes, ends of lists and the starts of blocks in them.
        """
        self.problem = 0
        put64(&self.block_ends, 0)
        put32(&self.list_ends, 0)
        put64(&self.impact_ends, 0)
        put32(&self.impact_lists, 0)
        put64(&self.stream_ends, 0)
        put32(&self.stream_lists, 0)
        if self.chunked:
            put32(&self.stream_starts, 0)
        with nogil:
            self.write_terms(limit)
            while self.terms.used == 0 and self.turn < LAST_TURN and self.problem == 0:
                self.turn += 1
                self.rewind()
                self.write_terms(limit)
        if self.problem == 1:
            raise ValueError("a run of postings is damaged")
        if self.problem:
            raise MemoryError
        found = taken(&self.terms, np.uint32)
        columns = (
            found,
            taken(&self.counts, np.uint32), taken(&self.scores, np.float32),
            taken(&self.list_ends, np.int32), taken(&self.block_ends, np.int64), taken(&self.posting, np.uint8),
            taken(&self.impact_lists, np.int32), taken(&self.impact_ends, np.int64), taken(&self.impact, np.uint8),
            taken(&self.stream_ends, np.int64), taken(&self.stream, np.uint8),
            taken(&self.stream_lists, np.int32), taken(&self.stream_starts, np.uint32),
        )
        return columns if len(found) else None

    cdef void write_term(self, uint32_t term, int64_t total) noexcept nogil:
        cdef int64_t i, j, k, at, in_block = 0, blocks = 0, first_stream = self.stream.used
        cdef uint64_t value
        cdef int64_t doc
        cdef uint32_t docs[LC_MOST_BLOCK]
        cdef uint32_t freqs[LC_MOST_BLOCK]
        cdef uint32_t freq
        cdef uint32_t * steps
        cdef Cursor * one
        cdef float idf, score, best = 0
        cdef int shift
        cdef int64_t stop
        idf = lc_idf(self.documents, total) * <float>2.2
        self.steps.used = 0
        self.entries.used = 0
        for i in range(self.num_met):
            one = &self.cursors[self.met[i]]
            at, stop = one.offsets[one.at], one.offsets[one.at + 1]
            if at < 0 or stop > one.size or at > stop:
                self.problem = 1
                return
            doc = one.base
            for j in range(one.counts[one.at]):
                value = 0
                shift = 0
                while True:
                    if at >= stop or shift > 35:
                        self.problem = 1
                        return
                    value |= <uint64_t>(one.data[at] & 127) << shift
                    shift += 7
                    at += 1
                    if not one.data[at - 1] & 128:
                        break
                doc += value >> 1
                freq = 1
                if not value & 1:
                    at = lc_read_varint(one.data, stop, at, &freq)
                    if at < 0:
                        self.problem = 1
                        return
                if doc >= self.scales.shape[0] or (in_block and doc <= docs[in_block - 1]):
                    self.problem = 1
                    return
                if self.with_positions:
                    if not reserve(&self.steps, 4 * <int64_t>freq):
                        self.problem = 2
                        return
                    steps = <uint32_t *>(self.steps.data + self.steps.used)
                    for k in range(freq):
                        if at < stop and one.data[at] < 128:
                            steps[k] = one.data[at]
                            at += 1
                            continue
                        at = lc_read_varint(one.data, stop, at, steps + k)
                        if at < 0:
                            self.problem = 1
                            return
                    self.steps.used += 4 * <int64_t>freq
                docs[in_block] = <uint32_t>doc
                freqs[in_block] = freq
                lc_note(&self.here, self.norms[doc], freq)
                in_block += 1
                if in_block == self.block:
                    score = lc_best_share(docs, freqs, <int>in_block, &self.scales[0])
                    self.write_block(docs, freqs, <int>in_block, idf * score, &blocks, first_stream)
                    if self.problem:
                        return
                    best = max(best, score)
                    in_block = 0
        if in_block:
            score = lc_best_share(docs, freqs, <int>in_block, &self.scales[0])
            self.write_block(docs, freqs, <int>in_block, idf * score, &blocks, first_stream)
            best = max(best, score)
        if blocks % GROUP:
            self.write_group(docs[self.block - 1 if in_block == 0 else in_block - 1])
        if self.problem:
            return
        # Impacts of groups come behind those of all blocks.
        if not reserve(&self.impact, self.entries.used):
            self.problem = 2
            return
        k = 0
        while k < self.entries.used:
            memcpy(&freq, self.entries.data + k, 4)
            memcpy(self.impact.data + self.impact.used, self.entries.data + k + 4, freq)
            self.impact.used += freq
            k += 4 + freq
            put64(&self.impact_ends, self.impact.used)
        best = idf * best
        put32(&self.terms, term)
        put32(&self.counts, <uint32_t>total)
        if not reserve(&self.scores, 4):
            self.problem = 2
            return
        memcpy(self.scores.data + self.scores.used, &best, 4)
        self.scores.used += 4
        put32(&self.list_ends, <uint32_t>(self.block_ends.used // 8 - 1))
        put32(&self.impact_lists, <uint32_t>(self.impact_ends.used // 8 - 1))
        if self.chunked:
            put32(&self.stream_lists, <uint32_t>(self.stream_starts.used // 4 - 1))
        else:
            put64(&self.stream_ends, self.stream.used)
            put32(&self.stream_lists, <uint32_t>(self.stream_starts.used // 4))

    cdef void write_block(
        self, const uint32_t * docs, const uint32_t * freqs, int count, float score, int64_t * blocks,
        int64_t first_stream,
    ) noexcept nogil:
        cdef int64_t steps = self.steps.used // 4
        cdef int n
        if not reserve(&self.posting, LC_MOST_BYTES) or not reserve(&self.impact, LC_MOST_IMPACT):
            self.problem = 2
            return
        self.posting.used += lc_write_block(
            self.posting.data + self.posting.used, docs, freqs, count, self.block, self.tail, score
        )
        put64(&self.block_ends, self.posting.used)
        self.impact.used += lc_write_impact(self.impact.data + self.impact.used, docs[count - 1], &self.here)
        put64(&self.impact_ends, self.impact.used)
        for n in range(self.here.low, self.here.high + 1):
            if self.here.best[n]:
                lc_note(&self.group, n, self.here.best[n])
        lc_clear_frontier(&self.here)
        blocks[0] += 1
        if blocks[0] % GROUP == 0:
            self.write_group(docs[count - 1])
        if self.with_positions:
            if self.chunked:
                self.write_chunks(freqs, count)
            else:
                if self.stream.used - first_stream > <int64_t>0xFFFFFFFF:
                    self.problem = 2
                    return
                put32(&self.stream_starts, <uint32_t>(self.stream.used - first_stream))
                if not reserve(&self.stream, steps * 5 + steps // 128 + 1):
                    self.problem = 2
                    return
                self.stream.used = lc_write_steps(
                    self.stream.data, self.stream.used, <const uint32_t *>self.steps.data, steps
                )
            self.steps.used = 0

    cdef void write_group(self, uint32_t last) noexcept nogil:
        cdef uint32_t size
        if not reserve(&self.entries, LC_MOST_IMPACT + 4):
            self.problem = 2
            return
        size = <uint32_t>lc_write_impact(self.entries.data + self.entries.used + 4, last, &self.group)
        memcpy(self.entries.data + self.entries.used, &size, 4)
        self.entries.used += 4 + size
        lc_clear_frontier(&self.group)

    cdef void write_chunks(self, const uint32_t * freqs, int count) noexcept nogil:
        """Positions of format 1: for each document the number, packed ones of 128, the rest."""
        cdef const uint32_t * steps = <const uint32_t *>self.steps.data
        cdef uint32_t buffer[128]
        cdef uint32_t position, bits
        cdef int d, i, width
        cdef int64_t left
        for d in range(count):
            if not reserve(&self.stream, 16 + 6 * <int64_t>freqs[d] + freqs[d] // 8):
                self.problem = 2
                return
            memcpy(self.stream.data + self.stream.used, &freqs[d], 4)
            self.stream.used += 4
            put64(&self.stream_ends, self.stream.used)
            position = 0
            left = freqs[d]
            while left >= 128:
                bits = 0
                position += steps[0]
                memcpy(self.stream.data + self.stream.used, &position, 4)
                buffer[0] = 0
                for i in range(1, 128):
                    buffer[i] = steps[i]
                    bits |= steps[i]
                    position += steps[i]
                width = lc_width(bits)
                self.stream.data[self.stream.used + 4] = width
                lc_pack4(buffer, width, self.stream.data + self.stream.used + 5)
                self.stream.used += 5 + 16 * width
                put64(&self.stream_ends, self.stream.used)
                steps += 128
                left -= 128
            if left:
                for i in range(<int>left):
                    position += steps[i]
                    memcpy(self.stream.data + self.stream.used, &position, 4)
                    self.stream.used += 4
                put64(&self.stream_ends, self.stream.used)
                steps += left
            put32(&self.stream_starts, <uint32_t>(self.stream_ends.used // 8 - 1))

    def joined(self, int64_t limit):
        """The next terms, about so many bytes, of all runs as one run that counts documents from 0; None at the end."""
        cdef int64_t term, i, at, stop, count, last, start
        cdef Cursor * one
        cdef uint64_t value
        cdef int shift
        self.problem = 0
        put64(&self.block_ends, 0)
        with nogil:
            while self.problem == 0 and self.posting.used < limit:
                term = self.next_term()
                if term < 0:
                    break
                count = last = 0
                for i in range(self.num_met):
                    one = &self.cursors[self.met[i]]
                    at, stop = one.offsets[one.at], one.offsets[one.at + 1]
                    if at < 0 or stop > one.size or at >= stop or not reserve(&self.posting, stop - at + 16):
                        self.problem = 2
                        break
                    # Only the first step is another one; the rest are bytes.
                    value = 0
                    shift = 0
                    while at < stop and shift <= 35:
                        value |= <uint64_t>(one.data[at] & 127) << shift
                        shift += 7
                        at += 1
                        if not one.data[at - 1] & 128:
                            break
                    start = <int64_t>(value >> 1) + one.base
                    value = <uint64_t>(start - last) << 1 | (value & 1)
                    self.posting.used = write_long(self.posting.data, self.posting.used, value)
                    memcpy(self.posting.data + self.posting.used, one.data + at, stop - at)
                    self.posting.used += stop - at
                    last = <int64_t>one.lasts[one.at] + one.base
                    count += one.counts[one.at]
                self.pass_term()
                put32(&self.terms, <uint32_t>term)
                put32(&self.counts, <uint32_t>count)
                put32(&self.list_ends, <uint32_t>last)
                put64(&self.block_ends, self.posting.used)
        if self.problem:
            raise MemoryError
        found = taken(&self.terms, np.uint32)
        counts, lasts = taken(&self.counts, np.uint32), taken(&self.list_ends, np.uint32)
        columns = found, counts, lasts, taken(&self.block_ends, np.int64), taken(&self.posting, np.uint8)
        return columns if len(found) else None


def pack_postings(
    const uint32_t[::1] docs,
    const uint32_t[::1] freqs,
    positions,
    const uint32_t[::1] lengths,
    int block,
    int tail,
):
    """The postings of one term: blocks and their offsets, impacts and theirs, positions and theirs, if there are some."""
    cdef bint with_positions = positions is not None
    if docs.shape[0] == 0:
        empty = np.empty(0, np.uint8), np.zeros(1, np.int64)
        return (*empty, *empty, *(empty if with_positions else (None, None)))
    starts = np.array([0, docs.shape[0]], np.int64)
    run = make_run_of_postings(np.zeros(1, np.uint32), starts, docs, freqs, positions)
    found = Merger([(*run, 0)], lengths, block, tail, with_positions).rows(1 << 62)
    if not with_positions:
        return found[5], found[4], found[8], found[7], None, None
    offsets = np.append(found[12].astype(np.int64), len(found[10]))
    return found[5], found[4], found[8], found[7], found[10], offsets


def hash_texts(const uint8_t[::1] data, const int64_t[::1] offsets):
    """A number for each text of a buffer, never 0."""
    cdef int64_t count = offsets.shape[0] - 1, i, j
    cdef uint64_t state
    found = np.empty(max(count, 0), np.uint64)
    cdef uint64_t[::1] out = found
    for i in range(count):
        if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > data.shape[0]:
            raise ValueError("texts lie outside of their buffer")
    with nogil:
        for i in range(count):
            state = <uint64_t>(offsets[i + 1] - offsets[i]) + <uint64_t>0x9E3779B97F4A7C15
            for j in range(offsets[i], offsets[i + 1]):
                state = (state ^ data[j]) * <uint64_t>0xFF51AFD7ED558CCD
                state ^= state >> 32
            out[i] = state | 1
    return found

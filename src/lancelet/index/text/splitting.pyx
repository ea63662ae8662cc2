"""Texts cut into tokens, as bytes of UTF-8, and the distinct tokens numbered.

A :class:`Splitter` goes over texts and notes (document, raw token, position) for each token, without the GIL. What filters
make of a raw token is found out once for each distinct one, outside; then :meth:`Splitter.resolve` puts it in its place.
Tokens that consist of ASCII alone are in lower case already if that is wanted. Those that are too long take up a
position and are not noted.
"""

from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

import os

import numpy as np

from lancelet.index.text.terms cimport TERMS_FULL, Terms, TermSlot, TermTable, terms_close, terms_intern, terms_open

cdef extern from "tokens.h" nogil:
    enum: LC_AT_ONCE
    ctypedef struct Note:
        uint32_t document, raw, position
    ctypedef struct Waiting:
        pass
    ctypedef struct WordBits:
        uint64_t words, capitals, others
    void lc_wait(
        const TermTable * table, Waiting * one, const uint8_t * data, uint64_t length, const uint8_t * end,
        uint32_t document, uint32_t position
    )
    bint lc_take_in(TermTable * table, const Waiting * some, int count, Note * notes)
    void lc_word_bits(const uint8_t * data, bint only_spaces, WordBits * found)
    int lc_first_bit(uint64_t bits)

cdef extern from "complex_scripts.h" nogil:
    ctypedef struct SegWords:
        const TermTable * beginnings[6]
        const uint8_t * flags[6]
        const uint8_t * marks
    int64_t seg_end(const uint8_t * kinds, const uint8_t * data, int64_t at, int64_t stop, int * is_complex)
    int64_t seg_cut_run(
        const SegWords * words, const uint8_t * data, int64_t start, int64_t stop, int64_t * ends, int * lacking
    )
    enum: BEGINNING_WORD, BEGINNING_GOES_ON, LANGUAGES

SIMPLE, WHITESPACE, RAW, NGRAM, CODE, ICU, ICU_SPLIT = range(7)
DROPPED = 0xFFFFFFFF
"""In place of the number of a term: the filters removed it."""

cdef enum:
    _SIMPLE = 0
    _WHITESPACE = 1
    _RAW = 2
    _NGRAM = 3
    _CODE = 4
    _ICU = 5
    _ICU_SPLIT = 6
    # What a byte of ASCII is.
    BREAK = 0
    WORD = 1
    CAPITAL = 2
    LONG = 3
    LIMIT = 0x110000
    # What is known of a character, as in characters.py; the last two of ASCII alone.
    IS_WORD = 1
    IS_CAPITAL = 2
    IS_SMALL = 4
    IS_DIGIT = 8
    IS_DELIMITER = 16
    LONGEST_OPERATOR = 4

_OPERATORS = """
! % & * + - / : < = > ? ^ | ~ != %= && &= ** *= ++ += -- -= -> // /= :: := <- << <= == => >= >> ?? ^= |= |> || ~=
!== &&= **= //= <<= <=> === >>= >>> ??= ||= >>>=
"""

cdef uint32_t GONE = 0xFFFFFFFF

cdef inline int length_of(const uint8_t * data, int64_t at, int64_t stop) noexcept nogil:
    """How many bytes the character here has; one byte, where bytes are no UTF-8."""
    cdef uint8_t first = data[at]
    cdef int more, i
    if first < 0xC2 or first >= 0xF5:
        return 1
    more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    if at + more >= stop:
        return 1
    for i in range(1, more + 1):
        if data[at + i] & 0xC0 != 0x80:
            return 1
    # Beyond the last character there is.
    if first == 0xF4 and data[at + 1] >= 0x90:
        return 1
    return more + 1


cdef inline uint32_t code_of(const uint8_t * data, int64_t at, int length) noexcept nogil:
    """The character whose length is known; one that does not exist, where bytes are no UTF-8."""
    if length == 1:
        return <uint32_t>data[at] if data[at] < 0x80 else <uint32_t>LIMIT
    if length == 2:
        return (data[at] & 31) << 6 | (data[at + 1] & 63)
    if length == 3:
        return (data[at] & 15) << 12 | (data[at + 1] & 63) << 6 | (data[at + 2] & 63)
    return (data[at] & 7) << 18 | (data[at + 1] & 63) << 12 | (data[at + 2] & 63) << 6 | (data[at + 3] & 63)


class LackingWords(LookupError):
    """A text is in a language whose words are not there; its number."""


cdef class Beginnings:
    """Words of a dictionary, by all that they begin with. They do not change, so threads may share them."""

    cdef Terms terms
    cdef bytearray flags

    def __cinit__(self, words):
        cdef bytes text
        cdef Py_ssize_t at, length
        cdef uint32_t number
        self.terms = Terms()
        self.flags = bytearray(1)
        for word in words:
            text = word.encode()
            length = len(text)
            for at in range(1, length + 1):
                if at < length and text[at] & 0xC0 == 0x80:
                    continue
                number = terms_intern(&self.terms.table, text, at)
                if number == TERMS_FULL:
                    raise MemoryError
                if number >= <uint32_t>len(self.flags):
                    self.flags.extend(bytes(len(self.flags)))
                self.flags[number] |= BEGINNING_WORD if at == length else BEGINNING_GOES_ON


cdef class Splitter:
    """Cuts texts in one of the ways that need no dictionary. Not for several threads at a time.

    Parameters
    ----------
    kind
        SIMPLE, WHITESPACE, RAW, NGRAM, CODE, ICU or ICU_SPLIT.
    words
        What is known of each character: whether it belongs to a word, and its case.
    limit
        Tokens of so many bytes or more are left out.
    lower
        Whether capitals of tokens of ASCII become small letters.
    shortest, longest, prefix
        For NGRAM: of how many characters, and whether only those at the beginning of a text.
    parts, numbers, whole, operators
        For CODE: whether identifiers are also cut into their parts, between letters and digits too, and are then tokens
        themselves; and whether operators are tokens.
    segments
        For ICU and ICU_SPLIT: what each character is to word boundaries.
    marks
        For the same, in scripts without spaces: what each character is to graphemes.
    """

    cdef TermTable raw
    cdef int kind
    cdef int64_t limit
    cdef bint lower, prefix
    cdef int64_t shortest, longest
    cdef const uint8_t[::1] words
    cdef uint8_t ascii[256]
    cdef Note * notes_
    cdef int64_t count, room
    cdef Waiting waiting[LC_AT_ONCE]
    cdef int waiting_count
    cdef const uint8_t * end
    """Of the texts that are split."""
    cdef uint8_t * small
    cdef int64_t small_room, small_used
    cdef int64_t * places
    cdef int64_t places_room
    cdef bint parts, numbers, whole, operators
    cdef const uint8_t[::1] segments
    cdef const uint8_t[::1] marks
    cdef list learned
    cdef SegWords known_words
    cdef int lacking
    cdef uint32_t operator_words[64]
    cdef int operator_count

    def __cinit__(
        self, int kind, const uint8_t[::1] words not None, *, limit=None, bint lower=False, int64_t shortest=1,
        int64_t longest=1, bint prefix=False, bint parts=False, bint numbers=False, bint whole=False,
        bint operators=False, const uint8_t[::1] segments=None, const uint8_t[::1] marks=None,
    ):
        if kind in (ICU, ICU_SPLIT) and (
            segments is None or segments.shape[0] != LIMIT or marks is None or marks.shape[0] != LIMIT
        ):
            raise ValueError("what each character is to word boundaries and to graphemes is needed")
        self.segments, self.marks, self.learned = segments, marks, []
        if marks is not None:
            self.known_words.marks = &self.marks[0]
        if kind not in range(7) or words.shape[0] != LIMIT or not 0 < shortest <= longest:
            raise ValueError("a kind of splitting, what is known of each character and lengths are needed")
        self.kind = kind
        self.words = words
        self.limit = (1 << 62) if limit is None else limit
        self.lower = lower
        self.shortest = shortest
        self.longest = longest
        self.prefix = prefix
        if not terms_open(&self.raw, int.from_bytes(os.urandom(8), "little")):
            raise MemoryError
        for byte in range(256):
            if kind in (SIMPLE, CODE, ICU, ICU_SPLIT):
                self.ascii[byte] = LONG if byte >= 0x80 else WORD if words[byte] else BREAK
                if kind == CODE and byte == 0x5F:
                    self.ascii[byte] = WORD
            else:
                self.ascii[byte] = BREAK if byte in b" \t\n\f\r" else WORD
            if 0x41 <= byte <= 0x5A:
                self.ascii[byte] = CAPITAL
        self.parts, self.numbers, self.whole, self.operators = parts, numbers, whole, operators
        self.operator_count = 0
        for operator in _OPERATORS.split():
            self.operator_words[self.operator_count] = int.from_bytes(operator.encode(), "little")
            self.operator_count += 1

    def __dealloc__(self):
        terms_close(&self.raw)
        free(self.notes_)
        free(self.small)
        free(self.places)

    def __len__(self):
        """How many distinct raw tokens there are."""
        return self.raw.count

    @property
    def nbytes(self):
        """Memory that is held."""
        return (
            self.raw.room + self.raw.spaces * 8 + (self.raw.mask + 1) * sizeof(TermSlot) + self.room * sizeof(Note)
            + self.small_room + self.places_room * sizeof(int64_t)
        )

    def texts(self, uint32_t first, bint all_of_them):
        """Raw tokens from a number on; without those of ASCII alone, unless all are wanted."""
        cdef uint32_t number
        cdef const uint8_t * start
        cdef int64_t length
        found = []
        for number in range(first, self.raw.count):
            start = self.raw.bytes + self.raw.starts[number]
            length = self.raw.starts[number + 1] - self.raw.starts[number]
            if all_of_them or not is_plain(start, length):
                found.append(PyUnicode_DecodeUTF8(<const char *>start, length, NULL))
        return found

    def intern(
        self, uint32_t first, list finished not None, bint all_of_them, Terms terms not None,
        uint32_t[::1] numbers not None,
    ):
        """Put the numbers of terms where those of raw tokens from a number on are told.

        ``finished`` is what filters made of what :meth:`texts` gave; None where they removed it.
        """
        cdef Waiting waiting[LC_AT_ONCE]
        cdef Note known[LC_AT_ONCE]
        cdef uint32_t number
        cdef int count = 0
        cdef Py_ssize_t next_finished = 0, size = 0
        cdef const uint8_t * start
        cdef int64_t length
        if numbers.shape[0] < self.raw.count:
            raise ValueError("a place for each raw token is needed")
        for number in range(first, self.raw.count):
            start = self.raw.bytes + self.raw.starts[number]
            length = self.raw.starts[number + 1] - self.raw.starts[number]
            if all_of_them or not is_plain(start, length):
                if next_finished == len(finished):
                    raise ValueError("what became of each raw token is needed")
                term = finished[next_finished]
                next_finished += 1
                if term is None:
                    numbers[number] = GONE
                    continue
                start = <const uint8_t *>PyUnicode_AsUTF8AndSize(term, &size)
                length = size
            lc_wait(&terms.table, &waiting[count], start, length, start + length, number, 0)
            count += 1
            if count == LC_AT_ONCE:
                self.tell(waiting, count, known, terms, numbers)
                count = 0
        self.tell(waiting, count, known, terms, numbers)

    cdef int tell(
        self, const Waiting * waiting, int count, Note * known, Terms terms, uint32_t[::1] numbers
    ) except -1:
        cdef int i
        if not lc_take_in(&terms.table, waiting, count, known):
            raise MemoryError
        for i in range(count):
            numbers[known[i].document] = known[i].raw
        return 0

    def notes(self):
        """Document, raw token and position of each token: a view, until texts are split again."""
        if self.count == 0:
            return np.empty((0, 3), np.uint32)
        return np.asarray(<uint32_t[:self.count, :3]><uint32_t *>self.notes_)

    def learn(self, int language, Beginnings words not None):
        """The words of a language, numbered as in complex_scripts.h."""
        cdef const uint8_t[::1] flags = words.flags
        if not 0 < language < LANGUAGES:
            raise ValueError(f"there is no language {language}")
        self.learned.append(words)
        self.known_words.flags[language] = &flags[0]
        self.known_words.beginnings[language] = &words.terms.table

    cdef inline bint note(
        self, const uint8_t * data, int64_t length, const uint8_t * end, uint32_t document, uint32_t position
    ) noexcept nogil:
        """Note a token whose bytes, and those up to ``end``, stay until it is taken in."""
        if length >= self.limit:
            return True
        if self.waiting_count == LC_AT_ONCE and not self.take_in():
            return False
        lc_wait(&self.raw, &self.waiting[self.waiting_count], data, length, end, document, position)
        self.waiting_count += 1
        return True

    cdef bint take_in(self) noexcept nogil:
        """Take in the tokens that wait."""
        cdef Note * larger
        cdef int64_t room
        if self.room - self.count < LC_AT_ONCE:
            room = self.room * 2 + 1024
            larger = <Note *>realloc(self.notes_, room * sizeof(Note))
            if larger == NULL:
                return False
            self.notes_ = larger
            self.room = room
        if not lc_take_in(&self.raw, self.waiting, self.waiting_count, self.notes_ + self.count):
            return False
        self.count += self.waiting_count
        self.waiting_count = 0
        self.small_used = 0
        return True

    cdef inline bint note_small(
        self, const uint8_t * data, int64_t length, bint capitals, bint plain, uint32_t document, uint32_t position
    ) noexcept nogil:
        """Note a token of the texts, in small letters if it has capitals and ASCII alone."""
        cdef const uint8_t * end = self.end
        if self.lower and capitals and plain and 0 < length < self.limit:
            data = self.in_small_letters(data, length)
            if data == NULL:
                return False
            end = self.small + self.small_room
        return self.note(data, length, end, document, position)

    cdef const uint8_t * in_small_letters(self, const uint8_t * data, int64_t length) noexcept nogil:
        """A token in small letters, which stay until tokens are taken in; NULL when memory is out."""
        cdef int64_t i
        cdef uint8_t * out
        if length > self.small_room - self.small_used or self.waiting_count == LC_AT_ONCE:
            if not self.take_in():
                return NULL
            if length > self.small_room:
                free(self.small)
                self.small_room = length + LC_AT_ONCE * 64
                self.small = <uint8_t *>malloc(self.small_room)
                if self.small == NULL:
                    self.small_room = 0
                    return NULL
        out = self.small + self.small_used
        for i in range(length):
            out[i] = data[i] | (0x20 if 0x41 <= data[i] <= 0x5A else 0)
        self.small_used += length
        return out

    cdef bint read_plain_words(
        self, const uint8_t * data, int64_t at, int64_t stop, uint32_t document, uint32_t * position
    ) noexcept nogil:
        """As :meth:`read_words`, which reads what is not of ASCII alone, for words that are neither cut nor operators."""
        cdef uint8_t end[64]
        cdef WordBits here
        cdef uint64_t edges, inside, before = 0
        cdef bint capitals = False, others = False
        cdef int64_t start = at, edge
        cdef int first = 0, last
        while at < stop:
            if stop - at >= 64:
                lc_word_bits(data + at, self.kind == _WHITESPACE, &here)
            else:
                memset(end, 0x20, 64)
                memcpy(end, data + at, stop - at)
                lc_word_bits(end, self.kind == _WHITESPACE, &here)
            # Where a word begins or ends; ``before`` tells whether one goes on.
            edges = here.words ^ (here.words << 1 | before)
            first = 0
            while edges:
                last = lc_first_bit(edges)
                edges &= edges - 1
                edge = at + last
                if before:
                    inside = (<uint64_t>1 << last) - (<uint64_t>1 << first)
                    capitals = capitals or here.capitals & inside
                    others = others or here.others & inside
                    if not self.note_run(data, start, edge, capitals, others, document, position):
                        return False
                    capitals = others = False
                before ^= 1
                start, first = edge, last
            if before:
                inside = ~((<uint64_t>1 << first) - 1)
                capitals = capitals or here.capitals & inside
                others = others or here.others & inside
            at += 64
        if before:
            return self.note_run(data, start, stop, capitals, others, document, position)
        return True

    cdef inline bint note_run(
        self, const uint8_t * data, int64_t start, int64_t stop, bint capitals, bint others, uint32_t document,
        uint32_t * position,
    ) noexcept nogil:
        if others:
            return self.read_words(data, start, stop, document, position)
        position[0] += 1
        return self.note_small(data + start, stop - start, capitals, True, document, position[0] - 1)

    cdef bint read_words(
        self, const uint8_t * data, int64_t at, int64_t stop, uint32_t document, uint32_t * position
    ) noexcept nogil:
        cdef int64_t start
        cdef uint8_t kind
        cdef int length
        cdef bint capitals, plain
        while at < stop:
            start = at
            capitals, plain = False, True
            while at < stop:
                kind = self.ascii[data[at]]
                if kind == WORD:
                    at += 1
                elif kind == CAPITAL:
                    capitals = True
                    at += 1
                elif kind == BREAK:
                    break
                else:
                    length = length_of(data, at, stop)
                    if length == 1 or not self.words[code_of(data, at, length)]:
                        break
                    plain = False
                    at += length
            if at > start:
                if self.kind == _WHITESPACE and self.lower and capitals:
                    plain = is_plain(data + start, at - start)
                if self.parts:
                    if not self.note_parts(data, start, at, capitals, plain, document, position):
                        return False
                else:
                    if not self.note_small(data + start, at - start, capitals, plain, document, position[0]):
                        return False
                    position[0] += 1
            if at < stop:
                length = self.operator_length(data, at, stop) if self.operators else 0
                if length:
                    if not self.note(data + at, length, self.end, document, position[0]):
                        return False
                    position[0] += 1
                at += length if length else length_of(data, at, stop)
        return True

    cdef int operator_length(self, const uint8_t * data, int64_t at, int64_t stop) noexcept nogil:
        """Of the longest operator here; 0 where none is."""
        cdef int64_t length = min(<int64_t>LONGEST_OPERATOR, stop - at)
        cdef int i
        cdef uint32_t word = 0
        for i in range(length):
            # No operator has a zero, which would look like the end of a shorter one.
            if data[at + i] == 0:
                length = i
                break
            word |= <uint32_t>data[at + i] << (8 * i)
        while length:
            for i in range(self.operator_count):
                if self.operator_words[i] == word:
                    return length
            length -= 1
            word &= (<uint32_t>1 << (8 * length)) - 1
        return 0

    cdef inline int kind_at(self, const uint8_t * data, int64_t at, int length) noexcept nogil:
        if length == 1:
            if data[at] == 0x5F:
                return IS_DELIMITER
            if 0x30 <= data[at] <= 0x39:
                return IS_DIGIT
        return self.words[code_of(data, at, length)] & (IS_CAPITAL | IS_SMALL)

    cdef bint note_parts(
        self, const uint8_t * data, int64_t start, int64_t stop, bint capitals, bint plain, uint32_t document,
        uint32_t * position,
    ) noexcept nogil:
        """Note an identifier and its parts; the first stands where the whole stands. One with a single part is whole."""
        cdef int64_t at = start, begin = start, after
        cdef int length, kind, next_kind, before = IS_DELIMITER
        cdef uint32_t first = position[0]
        cdef int turn, parts = 0
        cdef bint cut
        for turn in range(2):
            if turn == 1:
                if parts < 2:
                    position[0] += 1
                    return self.note_small(data + start, stop - start, capitals, plain, document, first)
                if self.whole and not self.note_small(data + start, stop - start, capitals, plain, document, first):
                    return False
            at = start
            before = IS_DELIMITER
            while at < stop:
                length = length_of(data, at, stop)
                kind = self.kind_at(data, at, length)
                if kind == IS_DELIMITER:
                    cut = before != IS_DELIMITER
                elif before == IS_DELIMITER:
                    begin = at
                    cut = False
                else:
                    cut = before == IS_SMALL and kind == IS_CAPITAL
                    if self.numbers and (before == IS_DIGIT) != (kind == IS_DIGIT):
                        cut = True
                    if not cut and before == IS_CAPITAL and kind == IS_CAPITAL:
                        after = at + length
                        if after < stop:
                            next_kind = self.kind_at(data, after, length_of(data, after, stop))
                            cut = next_kind == IS_SMALL
                if cut:
                    if turn == 0:
                        parts += 1
                    else:
                        if not self.note_small(
                            data + begin, at - begin, True, plain or is_plain(data + begin, at - begin), document, position[0]
                        ):
                            return False
                        position[0] += 1
                    begin = at
                before = kind
                at += length
            if before != IS_DELIMITER:
                if turn == 0:
                    parts += 1
                else:
                    if not self.note_small(
                        data + begin, stop - begin, True, plain or is_plain(data + begin, stop - begin), document, position[0]
                    ):
                        return False
                    position[0] += 1
        return True

    cdef bint read_segments(
        self, const uint8_t * data, int64_t at, int64_t stop, uint32_t document, uint32_t * position
    ) noexcept nogil:
        """Note the segments that have a character of a word; or, to be split, the words in them."""
        cdef int64_t end, count, i
        cdef int is_complex
        while at < stop:
            end = seg_end(&self.segments[0], data, at, stop, &is_complex)
            if is_complex:
                if not self.has_places(end - at):
                    return False
                count = seg_cut_run(&self.known_words, data, at, end, self.places, &self.lacking)
                if count < 0:
                    return False
                for i in range(count):
                    if not self.note_segment(data, at, self.places[i], document, position):
                        return False
                    at = self.places[i]
            elif not self.note_segment(data, at, end, document, position):
                return False
            at = end
        return True

    cdef bint note_segment(
        self, const uint8_t * data, int64_t at, int64_t stop, uint32_t document, uint32_t * position
    ) noexcept nogil:
        cdef int64_t start = at
        cdef int length
        if self.kind == _ICU_SPLIT:
            return self.read_words(data, at, stop, document, position)
        while at < stop:
            length = length_of(data, at, stop)
            if self.words[code_of(data, at, length)] if length > 1 or data[at] < 0x80 else 0:
                position[0] += 1
                return self.note_small(
                    data + start, stop - start, True, is_plain(data + start, stop - start), document, position[0] - 1
                )
            at += length
        return True

    cdef bint has_places(self, int64_t count) noexcept nogil:
        """Make room for so many places in a text, and the one after them."""
        if count + 1 > self.places_room:
            free(self.places)
            self.places = <int64_t *>malloc((count + 1) * sizeof(int64_t))
            self.places_room = count + 1 if self.places != NULL else 0
        return self.places != NULL

    cdef bint read_grams(
        self, const uint8_t * data, int64_t at, int64_t stop, uint32_t document, uint32_t position
    ) noexcept nogil:
        cdef int64_t count = 0, i, length, last, longest
        if not self.has_places(stop - at):
            return False
        while at < stop:
            self.places[count] = at
            count += 1
            at += length_of(data, at, stop)
        self.places[count] = stop
        last = min(<int64_t>1, count) if self.prefix else count
        for i in range(last):
            longest = min(self.longest, count - i)
            for length in range(self.shortest, longest + 1):
                at = self.places[i]
                if not self.note_small(
                    data + at, self.places[i + length] - at, True, is_plain(data + at, self.places[i + length] - at),
                    document, position,
                ):
                    return False
        return True

    def split(
        self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None, const uint8_t[::1] valid not None,
        const int64_t[::1] lists not None,
    ):
        """Note the tokens of texts.

        Texts whose ``valid`` is 0 have none; it may be empty, for all. ``lists``, unless it is empty, tells where each
        document begins among the texts (one more than there are documents); positions go on from text to text.
        """
        cdef Py_ssize_t texts = offsets.shape[0] - 1
        cdef Py_ssize_t documents = lists.shape[0] - 1 if lists.shape[0] else texts
        cdef Py_ssize_t i, document
        cdef uint32_t position
        cdef const uint8_t * start = &data[0] if data.shape[0] else NULL
        cdef bint some = valid.shape[0] > 0
        cdef bint good = texts >= 0 and documents < 0xFFFFFFFF and (not some or valid.shape[0] == texts)
        self.count = self.small_used = 0
        self.waiting_count = 0
        self.lacking = 0
        self.end = start + data.shape[0] if data.shape[0] else NULL
        if good:
            for i in range(texts):
                if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > data.shape[0]:
                    good = False
                    break
        if good and lists.shape[0]:
            for i in range(documents):
                if lists[i] < 0 or lists[i + 1] < lists[i] or lists[i + 1] > texts:
                    good = False
                    break
        if not good:
            raise ValueError("offsets that ascend within the bytes are needed")
        with nogil:
            for document in range(documents):
                position = 0
                i = lists[document] if lists.shape[0] else document
                while good and i < (lists[document + 1] if lists.shape[0] else document + 1):
                    if not some or valid[i]:
                        good = self.read(start, offsets[i], offsets[i + 1], document, &position)
                    i += 1
                if not good:
                    break
            good = good and self.take_in()
        if self.lacking:
            raise LackingWords(self.lacking)
        if not good:
            raise MemoryError

    cdef bint read(
        self, const uint8_t * data, int64_t at, int64_t stop, uint32_t document, uint32_t * position
    ) noexcept nogil:
        if self.kind == _RAW:
            position[0] += 1
            return self.note_small(data + at, stop - at, True, is_plain(data + at, stop - at), document, position[0] - 1)
        if self.kind == _NGRAM:
            return self.read_grams(data, at, stop, document, position[0])
        if self.kind == _ICU or self.kind == _ICU_SPLIT:
            return self.read_segments(data, at, stop, document, position)
        if self.kind == _CODE:
            return self.read_words(data, at, stop, document, position)
        return self.read_plain_words(data, at, stop, document, position)

    def resolve(self, const uint32_t[::1] terms not None):
        """The noted tokens, with the number of a term for each raw token, without those that became ``DROPPED``.

        Returns
        -------
        tuple of arrays
            Documents, terms and positions.
        """
        cdef int64_t i, kept = 0
        cdef uint32_t term
        if terms.shape[0] < self.raw.count:
            raise ValueError("a term for each raw token is needed")
        with nogil:
            for i in range(self.count):
                kept += terms[self.notes_[i].raw] != GONE
        documents_array, terms_array = np.empty(kept, np.uint32), np.empty(kept, np.uint32)
        positions_array = np.empty(kept, np.uint32)
        cdef uint32_t[::1] documents = documents_array
        cdef uint32_t[::1] numbers = terms_array
        cdef uint32_t[::1] positions = positions_array
        with nogil:
            kept = 0
            for i in range(self.count):
                term = terms[self.notes_[i].raw]
                if term != GONE:
                    documents[kept] = self.notes_[i].document
                    numbers[kept] = term
                    positions[kept] = self.notes_[i].position
                    kept += 1
        return documents_array, terms_array, positions_array


cdef inline bint is_plain(const uint8_t * data, int64_t length) noexcept nogil:
    cdef int64_t i
    for i in range(length):
        if data[i] >= 0x80:
            return False
    return True

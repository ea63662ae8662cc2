"""Token sets as finite state transducers (spec indices.md 10.3), read where they lie.

::

    u64 version 3 | u64 type 0 | nodes | u64 number of tokens | u64 address of the root | u32 masked CRC-32C of all before

A node is read downwards from its address, which is that of its last byte; what it leads to lies below it. Its first
byte tells its form::

    11cccccc  one step to the node right below                     [input]
    10cccccc  one step                                             [input] sizes, delta, output
    0fnnnnnn  n steps, final if f                                  [n] sizes, [256 places], inputs, deltas, outputs, [final output]

``c`` is the place of a common input in a list, or 0: then the input is a byte. Bytes may be anything: nodes are
checked whenever they are read, and every step leads to a lower address, so that no walk goes on for ever.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

import numpy as np

from lancelet.index.text.fst_nodes cimport (
    FOOT, HEAD, VERSION, Node, find_step, input_of, number, output_of, read_node, target_of
)

cdef uint32_t CRC[8][256]

cdef void prepare() noexcept:
    cdef int i, j
    cdef uint32_t value
    for i in range(256):
        value = i
        for j in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        CRC[0][i] = value
    for i in range(256):
        value = CRC[0][i]
        for j in range(1, 8):
            value = (value >> 8) ^ CRC[0][value & 255]
            CRC[j][i] = value

prepare()


cdef uint32_t checksum(const uint8_t * data, int64_t size) noexcept nogil:
    cdef uint32_t crc = <uint32_t>0xFFFFFFFF
    cdef uint64_t word
    cdef int64_t i = 0
    while i + 8 <= size:
        memcpy(&word, data + i, 8)
        word ^= crc
        crc = (
            CRC[7][word & 255] ^ CRC[6][(word >> 8) & 255] ^ CRC[5][(word >> 16) & 255] ^ CRC[4][(word >> 24) & 255]
            ^ CRC[3][(word >> 32) & 255] ^ CRC[2][(word >> 40) & 255] ^ CRC[1][(word >> 48) & 255] ^ CRC[0][word >> 56]
        )
        i += 8
    while i < size:
        crc = (crc >> 8) ^ CRC[0][(crc ^ data[i]) & 255]
        i += 1
    crc = ~crc
    return ((crc >> 15) | (crc << 17)) + <uint32_t>0xA282EAD8


cdef struct Frame:
    Node node
    int step
    uint64_t output
    # How many characters are complete, where distances are counted.
    int32_t row


cdef class Walk:
    """Tokens in order, from those below a prefix; maybe only those near to a text."""

    cdef object owner
    cdef const uint8_t * data
    cdef int64_t size
    cdef Frame * frames
    cdef int64_t depth
    cdef int64_t space
    cdef uint8_t * key
    cdef int64_t idle
    # Distances: row r holds those between the first r characters of the key and each beginning of the text.
    cdef uint32_t * wanted
    cdef int32_t length
    cdef int32_t edits
    cdef int32_t * rows
    cdef int64_t left
    cdef int64_t prefix

    def __dealloc__(self):
        free(self.frames)
        free(self.key)
        free(self.wanted)
        free(self.rows)

    def __iter__(self):
        return self

    def __next__(self):
        cdef int found
        cdef Frame * top
        if self.left == 0:
            raise StopIteration
        with nogil:
            found = self.advance()
        if found < 0:
            raise ValueError("is no valid FST" if found == -1 else "has more tokens than it says, or does not end")
        if found == 0:
            raise StopIteration
        self.left -= 1
        top = &self.frames[self.depth]
        return PyBytes_FromStringAndSize(<char *>self.key, self.prefix + self.depth), top.output + top.node.final_output

    cdef bint start(self, int64_t root, uint64_t output) noexcept nogil:
        self.space = 64
        self.frames = <Frame *>malloc(self.space * sizeof(Frame))
        if self.frames == NULL:
            return False
        self.depth = 0
        self.frames[0].step = -1
        self.frames[0].output = output
        self.frames[0].row = 0
        return read_node(self.data, self.size, root, &self.frames[0].node)

    cdef int advance(self) noexcept nogil:
        """1 at the next token, 0 at the end, -1 for bytes that are no FST, -2 where there is no end in sight."""
        cdef Frame * top
        cdef int64_t target
        cdef int step
        cdef uint8_t byte
        cdef void * larger
        self.idle = 0
        while True:
            top = &self.frames[self.depth]
            if top.step < 0:
                top.step = 0
                if top.node.final and self.accepts(top):
                    return 1
            step = top.step
            if step >= top.node.count:
                if self.depth == 0:
                    return 0
                self.depth -= 1
                continue
            top.step += 1
            self.idle += 1
            if self.idle > 4 * self.size + 1024:
                return -2
            byte = input_of(self.data, &top.node, step)
            target = target_of(self.data, &top.node, step)
            if target < 0:
                return -1
            if self.depth + 2 > self.space:
                larger = realloc(self.frames, self.space * 2 * sizeof(Frame))
                if larger == NULL:
                    return -1
                self.frames = <Frame *>larger
                larger = realloc(self.key, self.prefix + self.space * 2)
                if larger == NULL:
                    return -1
                self.key = <uint8_t *>larger
                self.space *= 2
                top = &self.frames[self.depth]
            self.key[self.prefix + self.depth] = byte
            self.frames[self.depth + 1].row = top.row
            if self.rows != NULL and not self.compare(top, &self.frames[self.depth + 1]):
                continue
            self.frames[self.depth + 1].output = top.output + output_of(self.data, &top.node, step)
            self.frames[self.depth + 1].step = -1
            if not read_node(self.data, self.size, target, &self.frames[self.depth + 1].node):
                return -1
            if target != 0 and self.frames[self.depth + 1].node.low >= top.node.low:
                return -1
            self.depth += 1

    cdef inline bint accepts(self, Frame * top) noexcept nogil:
        if self.rows == NULL:
            return True
        return self.characters(self.prefix + self.depth) and self.rows[
            <int64_t>top.row * (self.length + 1) + self.length
        ] <= self.edits

    cdef inline bint characters(self, int64_t stop) noexcept nogil:
        """Whether the key ends with a whole character."""
        cdef int64_t at = stop - 1
        cdef int more = 0
        if stop == 0 or self.key[at] < 0x80:
            return True
        while at > 0 and more < 3 and self.key[at] & 0xC0 == 0x80:
            at -= 1
            more += 1
        return more == (3 if self.key[at] >= 0xF0 else 2 if self.key[at] >= 0xE0 else 1)

    cdef bint compare(self, Frame * top, Frame * next) noexcept nogil:
        """Distances after one more byte; False when no token that goes on so can be near."""
        cdef int64_t stop = self.prefix + self.depth + 1
        cdef int64_t at = stop - 1
        cdef uint32_t character
        cdef int32_t * above
        cdef int32_t * row
        cdef int32_t best, i, value
        if not self.characters(stop):
            return stop - self.prefix < 8 * <int64_t>(self.length + self.edits + 2)
        while at > 0 and self.key[at] & 0xC0 == 0x80:
            at -= 1
        character = self.key[at]
        if character >= 0x80:
            character &= 7 if character >= 0xF0 else 15 if character >= 0xE0 else 31
            at += 1
            while at < stop:
                character = character << 6 | (self.key[at] & 0x3F)
                at += 1
        if top.row >= self.length + self.edits:
            return False
        above = self.rows + <int64_t>top.row * (self.length + 1)
        row = above + self.length + 1
        row[0] = best = above[0] + 1
        for i in range(1, self.length + 1):
            value = above[i - 1] + (self.wanted[i - 1] != character)
            if above[i] + 1 < value:
                value = above[i] + 1
            if row[i - 1] + 1 < value:
                value = row[i - 1] + 1
            row[i] = value
            if value < best:
                best = value
        next.row = top.row + 1
        return best <= self.edits


cdef class Fst:
    """Tokens and their numbers, in the bytes of a file."""

    cdef readonly bytes data
    cdef const uint8_t * bytes
    cdef int64_t size
    cdef int64_t root
    cdef int64_t keys

    def __init__(self, bytes data):
        cdef uint64_t keys, root
        cdef Node node
        self.data = data
        self.bytes = <const uint8_t *>PyBytes_AsString(data)
        self.size = len(data) - FOOT
        if self.size < HEAD:
            raise ValueError(f"has {len(data)} bytes, too few for an FST")
        if number(self.bytes, 0, 8) != VERSION:
            raise ValueError(f"is of FST version {number(self.bytes, 0, 8)}, not {VERSION}")
        keys, root = number(self.bytes, self.size, 8), number(self.bytes, self.size + 8, 8)
        # Tokens share nodes, but each has at least one way of its own, of which there are at most 256 to a node.
        if keys > 1 << 32 or root >= <uint64_t>self.size or not read_node(self.bytes, self.size, root, &node):
            raise ValueError("has no root where its end says")
        self.keys, self.root = keys, root

    def __len__(self):
        return self.keys

    @property
    def is_intact(self):
        """Whether the bytes are those that were written."""
        return checksum(self.bytes, self.size + FOOT - 4) == number(self.bytes, self.size + 16, 4)

    def find(self, bytes token):
        """The number of a token, or None."""
        cdef const uint8_t * key = <const uint8_t *>PyBytes_AsString(token)
        cdef int64_t length = len(token)
        cdef int64_t at
        cdef uint64_t output = 0
        cdef Node node
        at = self.descend(key, length, &output, &node)
        if at == -1:
            raise ValueError("is no valid FST")
        if at < 0 or not node.final:
            return None
        return output + node.final_output

    cdef int64_t descend(self, const uint8_t * key, int64_t length, uint64_t * output, Node * node) noexcept nogil:
        """The node that a prefix leads to; -2 where there is none, -1 for bytes that are no FST."""
        cdef int64_t at = self.root
        cdef int64_t i, low
        cdef int step
        if not read_node(self.bytes, self.size, at, node):
            return -1
        for i in range(length):
            step = find_step(self.bytes, node, key[i])
            if step < 0:
                return -2
            output[0] += output_of(self.bytes, node, step)
            low = node.low
            at = target_of(self.bytes, node, step)
            if at < 0 or not read_node(self.bytes, self.size, at, node) or (at != 0 and node.low >= low):
                return -1
        return at

    def walk(self, bytes prefix=b""):
        """Tokens that begin with some bytes, and their numbers, in order."""
        return self.walk_from(prefix, None, 0, self.keys + 1)

    def near(self, str text, int edits, int prefix, int64_t limit):
        """Tokens within so many edits of a text, which share its first characters, in order; at most ``limit``."""
        if edits < 0 or edits > 100 or limit < 0:
            raise ValueError(f"cannot be asked for {limit} tokens within {edits} edits")
        return list(self.walk_from(text[:max(prefix, 0)].encode(), text, edits, limit))

    def arrays(self):
        """All tokens in order: their bytes, where each begins, and their numbers."""
        cdef Walk walk = self.walk_from(b"", None, 0, self.keys + 1)
        cdef int64_t space = 1 << 16, used = 0, count = 0
        cdef uint8_t * data = <uint8_t *>malloc(space)
        cdef uint8_t * larger
        cdef int found = 1
        offsets = np.zeros(self.keys + 1, np.int64)
        numbers = np.zeros(self.keys, np.uint64)
        cdef int64_t[::1] ends = offsets
        cdef uint64_t[::1] values = numbers
        try:
            with nogil:
                while data != NULL:
                    found = walk.advance()
                    if found != 1 or count == self.keys:
                        break
                    if used + walk.depth > space:
                        space = 2 * space + walk.depth
                        larger = <uint8_t *>realloc(data, space)
                        if larger == NULL:
                            found = -3
                            break
                        data = larger
                    memcpy(data + used, walk.key, walk.depth)
                    used += walk.depth
                    values[count] = walk.frames[walk.depth].output + walk.frames[walk.depth].node.final_output
                    count += 1
                    ends[count] = used
            if data == NULL or found == -3:
                raise MemoryError
            if found != 0 or count != self.keys:
                raise ValueError("is no valid FST, or has more or fewer tokens than it says")
            text = np.empty(used, np.uint8)
            copy_to(text, data, used)
        finally:
            free(data)
        return text, offsets, numbers

    cdef Walk walk_from(self, bytes prefix, str text, int edits, int64_t limit):
        cdef Walk walk = Walk.__new__(Walk)
        cdef uint64_t output = 0
        cdef Node node
        cdef int64_t at
        cdef int32_t i, row, length
        walk.owner = self
        walk.data, walk.size = self.bytes, self.size
        walk.prefix = len(prefix)
        walk.left = limit
        walk.key = <uint8_t *>malloc(walk.prefix + 64)
        if walk.key == NULL:
            raise MemoryError
        memcpy(walk.key, PyBytes_AsString(prefix), walk.prefix)
        at = self.descend(<const uint8_t *>PyBytes_AsString(prefix), walk.prefix, &output, &node)
        if at == -1:
            raise ValueError("is no valid FST")
        if at == -2:
            walk.left = 0
            return walk
        if not walk.start(at, output):
            raise ValueError("is no valid FST")
        if text is None:
            return walk
        length = len(text)
        walk.length, walk.edits = length, edits
        walk.wanted = <uint32_t *>malloc((length + 1) * sizeof(uint32_t))
        walk.rows = <int32_t *>malloc(<size_t>(length + edits + 2) * (length + 1) * sizeof(int32_t))
        if walk.wanted == NULL or walk.rows == NULL:
            raise MemoryError
        for i in range(length):
            walk.wanted[i] = ord(text[i])
        for i in range(length + 1):
            walk.rows[i] = i
        # The characters of the prefix are equal, so the distances after them are known.
        row = len(prefix.decode())
        if row:
            for i in range(length + 1):
                walk.rows[<int64_t>row * (length + 1) + i] = i - row if i >= row else row - i
        walk.frames[0].row = row
        return walk


cdef int copy_to(uint8_t[::1] out, const uint8_t * data, int64_t size) except -1:
    if size:
        memcpy(&out[0], data, size)
    return 0

"""Token sets as finite state transducers (spec indices.md 10.3): read where they lie, and written from sorted tokens.

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
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import numpy as np

cdef enum:
    HEAD = 16
    FOOT = 20
    VERSION = 3
    INDEXED = 32
    LEAST_KEY = 1

cdef const char * COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
cdef uint8_t PLACES[256]
cdef uint32_t CRC[8][256]

cdef void prepare() noexcept:
    cdef int i, j
    cdef uint32_t value
    memset(PLACES, 0, 256)
    for i in range(63):
        PLACES[<uint8_t>COMMON[i]] = i + 1
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


cdef struct Node:
    bint final
    int count
    int delta_size
    int output_size
    # The lowest byte of the node.
    int64_t low
    # Where the input of the first step is; -1: ``single`` is the only one.
    int64_t inputs
    int64_t deltas
    int64_t outputs
    # Where the table of places begins; -1: there is none.
    int64_t places
    uint8_t single
    bint below
    uint64_t final_output


cdef inline uint64_t number(const uint8_t * data, int64_t at, int size) noexcept nogil:
    cdef uint64_t value = 0
    memcpy(&value, data + at, size)
    return value


cdef bint read_node(const uint8_t * data, int64_t size, int64_t at, Node * node) noexcept nogil:
    """The node at an address; False for one that is none. ``size`` is where nodes end."""
    cdef uint8_t state
    cdef int64_t p
    cdef int count
    node.inputs = node.places = -1
    node.below = False
    node.final_output = 0
    node.delta_size = node.output_size = 0
    if at == 0:
        node.final = True
        node.count = 0
        node.low = 0
        return True
    if at < HEAD or at >= size:
        return False
    state = data[at]
    p = at - 1
    if state & 0x80:
        node.final = False
        node.count = 1
        if state & 63:
            node.single = <uint8_t>COMMON[(state & 63) - 1]
        else:
            if p < HEAD:
                return False
            node.single = data[p]
            p -= 1
        if state & 0x40:
            node.below = True
            node.low = p + 1
            return node.low - 1 >= HEAD
        if p < HEAD:
            return False
        node.delta_size, node.output_size = data[p] >> 4, data[p] & 15
        node.deltas = p - 1
        node.outputs = node.deltas - node.delta_size
        node.low = node.outputs - node.output_size + 1
        return node.low >= HEAD and node.delta_size <= 8 and node.output_size <= 8
    node.final = (state & 0x40) != 0
    count = state & 63
    if count == 0:
        if p < HEAD:
            return False
        count = 256 if data[p] == 1 else data[p]
        p -= 1
    if p < HEAD:
        return False
    node.count = count
    node.delta_size, node.output_size = data[p] >> 4, data[p] & 15
    if node.delta_size > 8 or node.output_size > 8:
        return False
    p -= 1
    if count > INDEXED:
        p -= 256
        node.places = p + 1
    node.inputs = p
    node.deltas = p - count
    node.outputs = node.deltas - <int64_t>count * node.delta_size
    node.low = node.outputs - <int64_t>count * node.output_size + 1
    if node.final and node.output_size:
        node.low -= node.output_size
    if node.low < HEAD:
        return False
    if node.final and node.output_size:
        node.final_output = number(data, node.low, node.output_size)
    return True


cdef inline uint8_t input_of(const uint8_t * data, Node * node, int step) noexcept nogil:
    return node.single if node.inputs < 0 else data[node.inputs - step]


cdef inline uint64_t output_of(const uint8_t * data, Node * node, int step) noexcept nogil:
    if node.output_size == 0:
        return 0
    return number(data, node.outputs - <int64_t>(step + 1) * node.output_size + 1, node.output_size)


cdef inline int64_t target_of(const uint8_t * data, Node * node, int step) noexcept nogil:
    """Where a step leads; -1 for nowhere."""
    cdef uint64_t delta
    if node.below:
        return node.low - 1
    if node.delta_size == 0:
        return -1
    delta = number(data, node.deltas - <int64_t>(step + 1) * node.delta_size + 1, node.delta_size)
    if delta == 0:
        return 0
    if delta >= <uint64_t>node.low or node.low - <int64_t>delta < HEAD:
        return -1
    return node.low - <int64_t>delta


cdef inline int find_step(const uint8_t * data, Node * node, uint8_t byte) noexcept nogil:
    """The step with an input; -1 when there is none."""
    cdef int low, high, middle
    cdef uint8_t found
    if node.places >= 0:
        low = data[node.places + byte]
        return low if low < node.count and input_of(data, node, low) == byte else -1
    low, high = 0, node.count
    while low < high:
        middle = (low + high) >> 1
        found = input_of(data, node, middle)
        if found < byte:
            low = middle + 1
        else:
            high = middle
    return low if low < node.count and input_of(data, node, low) == byte else -1


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


cdef struct Step:
    uint8_t byte
    uint64_t output
    uint64_t target


cdef struct Open:
    bint final
    uint64_t final_output
    int count
    int space
    Step * steps


cdef inline int size_of(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value > 255:
        value >>= 8
        size += 1
    return size


cdef class FstWriter:
    """Makes the smallest FST of tokens that come in order: nodes from which the same goes on are written once.

    Examples
    --------
    >>> writer = FstWriter()
    >>> writer.add(b"bar", 1)
    >>> writer.add(b"foo", 0)
    >>> Fst(writer.finish()).find(b"foo")
    0
    """

    cdef uint8_t * out
    cdef int64_t used
    cdef int64_t out_space
    cdef Open * path
    cdef int64_t path_space
    cdef uint8_t * last
    cdef int64_t last_size
    cdef bint has_last
    cdef int64_t keys
    cdef int64_t previous
    # Addresses of nodes that were written, by a hash of what they are; 0 where there is none.
    cdef uint64_t * known
    cdef int64_t known_mask
    cdef int64_t known_count

    def __cinit__(self):
        self.out_space = 1 << 12
        self.out = <uint8_t *>malloc(self.out_space)
        self.path_space = 32
        self.path = <Open *>calloc(self.path_space, sizeof(Open))
        self.last = <uint8_t *>malloc(self.path_space)
        self.known_mask = (1 << 10) - 1
        self.known = <uint64_t *>calloc(self.known_mask + 1, sizeof(uint64_t))
        if self.out == NULL or self.path == NULL or self.last == NULL or self.known == NULL:
            raise MemoryError
        memset(self.out, 0, HEAD)
        self.out[0] = VERSION
        self.used = HEAD
        self.previous = -1

    def __dealloc__(self):
        cdef int64_t i
        if self.path != NULL:
            for i in range(self.path_space):
                free(self.path[i].steps)
        free(self.path)
        free(self.out)
        free(self.last)
        free(self.known)

    def add(self, bytes token, uint64_t value):
        """The next token, which must be greater than the one before."""
        cdef int done
        cdef const uint8_t * key = <const uint8_t *>PyBytes_AsString(token)
        cdef int64_t size = len(token)
        with nogil:
            done = self.insert(key, size, value)
        self.check(done)

    def add_all(
        self, const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] order, const uint32_t[::1] values
    ):
        """Tokens of a buffer in an order, in which they ascend; the value of token i is ``values[i]``."""
        cdef int64_t i, number, start, stop
        cdef int done = 1
        cdef const uint8_t * empty = self.last
        if values.shape[0] != offsets.shape[0] - 1:
            raise ValueError(f"{values.shape[0]} numbers for {offsets.shape[0] - 1} tokens")
        with nogil:
            for i in range(order.shape[0]):
                number = order[i]
                if number < 0 or number >= values.shape[0]:
                    done = 0
                    break
                start, stop = offsets[number], offsets[number + 1]
                if start < 0 or stop < start or stop > data.shape[0]:
                    done = 0
                    break
                done = self.insert(&data[start] if stop > start else empty, stop - start, values[number])
                if done != 1:
                    break
        self.check(done)

    cdef int check(self, int done) except -1:
        if done == 0:
            raise ValueError("tokens do not ascend")
        if done < 0:
            raise MemoryError
        return 0

    cdef int insert(self, const uint8_t * key, int64_t size, uint64_t value) noexcept nogil:
        """1 when it was added, 0 when tokens do not ascend, -1 when memory is out."""
        cdef int64_t common = 0, i
        cdef uint64_t shared, rest
        cdef Step * step
        cdef Open * node
        cdef int j
        while common < size and common < self.last_size and key[common] == self.last[common]:
            common += 1
        if self.has_last and (common == size or (common < self.last_size and key[common] < self.last[common])):
            return 0
        if not self.reserve_path(size + 2) or not self.close_from(common):
            return -1
        # What the common beginning gives out stays at most as large as the new value; the rest moves on.
        for i in range(common):
            node = &self.path[i]
            step = &node.steps[node.count - 1]
            shared = step.output if step.output < value else value
            rest = step.output - shared
            step.output = shared
            value -= shared
            if rest:
                node = &self.path[i + 1]
                if node.final:
                    node.final_output += rest
                for j in range(node.count):
                    node.steps[j].output += rest
        for i in range(common, size):
            if not self.push(&self.path[i], key[i], value, 0):
                return -1
            value = 0
            self.path[i + 1].count = 0
            self.path[i + 1].final = False
            self.path[i + 1].final_output = 0
        self.path[size].final = True
        self.path[size].final_output += value
        memcpy(self.last + common, key + common, size - common)
        self.last_size = size
        self.has_last = True
        self.keys += 1
        return 1

    cdef bint push(self, Open * node, uint8_t byte, uint64_t output, uint64_t target) noexcept nogil:
        cdef Step * larger
        if node.count == node.space:
            larger = <Step *>realloc(node.steps, (node.space * 2 + 2) * sizeof(Step))
            if larger == NULL:
                return False
            node.steps = larger
            node.space = node.space * 2 + 2
        node.steps[node.count].byte = byte
        node.steps[node.count].output = output
        node.steps[node.count].target = target
        node.count += 1
        return True

    cdef bint reserve_path(self, int64_t wanted) noexcept nogil:
        cdef int64_t space = self.path_space
        cdef void * larger
        if wanted <= space:
            return True
        while space < wanted:
            space *= 2
        larger = realloc(self.path, space * sizeof(Open))
        if larger == NULL:
            return False
        self.path = <Open *>larger
        memset(self.path + self.path_space, 0, (space - self.path_space) * sizeof(Open))
        larger = realloc(self.last, space)
        if larger == NULL:
            return False
        self.last = <uint8_t *>larger
        self.path_space = space
        return True

    cdef bint close_from(self, int64_t depth) noexcept nogil:
        """Write the nodes of the last token below a depth, the lowest first."""
        cdef int64_t i = self.last_size, at
        cdef Open * parent
        while i > depth:
            at = self.write_node(&self.path[i])
            if at < 0:
                return False
            parent = &self.path[i - 1]
            parent.steps[parent.count - 1].target = at
            i -= 1
        return True

    cdef int64_t write_node(self, Open * node) noexcept nogil:
        """The address of a node, which may have been written before; -1 when memory is out."""
        cdef uint64_t hashed
        cdef int64_t slot, at
        if node.final and node.count == 0 and node.final_output == 0:
            return 0
        if 2 * (self.known_count + 1) > self.known_mask and not self.grow():
            return -1
        hashed = hash_open(node)
        slot = hashed & self.known_mask
        while self.known[slot]:
            if self.same(self.known[slot], node):
                return self.known[slot]
            slot = (slot + 1) & self.known_mask
        at = self.append(node)
        if at > 0:
            self.known[slot] = at
            self.known_count += 1
        return at

    cdef bint same(self, int64_t at, Open * node) noexcept nogil:
        cdef Node other
        cdef int i
        if not read_node(self.out, self.used, at, &other):
            return False
        if other.final != node.final or other.count != node.count or other.final_output != node.final_output:
            return False
        for i in range(node.count):
            if (
                input_of(self.out, &other, i) != node.steps[i].byte
                or output_of(self.out, &other, i) != node.steps[i].output
                or target_of(self.out, &other, i) != <int64_t>node.steps[i].target
            ):
                return False
        return True

    cdef bint grow(self) noexcept nogil:
        cdef int64_t mask = self.known_mask * 2 + 1
        cdef uint64_t * larger = <uint64_t *>calloc(mask + 1, sizeof(uint64_t))
        cdef int64_t i, slot
        cdef Node node
        if larger == NULL:
            return False
        for i in range(self.known_mask + 1):
            if self.known[i]:
                read_node(self.out, self.used, self.known[i], &node)
                slot = hash_written(self.out, &node) & mask
                while larger[slot]:
                    slot = (slot + 1) & mask
                larger[slot] = self.known[i]
        free(self.known)
        self.known = larger
        self.known_mask = mask
        return True

    cdef int64_t append(self, Open * node) noexcept nogil:
        cdef int64_t need = 16 + 256 + <int64_t>node.count * 17 + 8
        cdef int64_t space = self.out_space, low = self.used, at = self.used
        cdef uint64_t delta
        cdef int i, delta_size = 1, output_size = 0
        cdef bint outputs = node.final_output != 0
        cdef void * larger
        cdef uint8_t * out
        if at + need > space:
            while at + need > space:
                space *= 2
            larger = realloc(self.out, space)
            if larger == NULL:
                return -1
            self.out = <uint8_t *>larger
            self.out_space = space
        out = self.out
        if node.count == 1 and not node.final:
            return self.append_single(node, low)
        for i in range(node.count):
            delta = low - node.steps[i].target if node.steps[i].target else 0
            delta_size = max(delta_size, size_of(delta))
            outputs = outputs or node.steps[i].output != 0
        if outputs:
            output_size = size_of(node.final_output)
            for i in range(node.count):
                output_size = max(output_size, size_of(node.steps[i].output))
            if node.final:
                memcpy(out + at, &node.final_output, output_size)
                at += output_size
            for i in range(node.count - 1, -1, -1):
                memcpy(out + at, &node.steps[i].output, output_size)
                at += output_size
        for i in range(node.count - 1, -1, -1):
            delta = low - node.steps[i].target if node.steps[i].target else 0
            memcpy(out + at, &delta, delta_size)
            at += delta_size
        for i in range(node.count - 1, -1, -1):
            out[at] = node.steps[i].byte
            at += 1
        if node.count > INDEXED:
            memset(out + at, 255, 256)
            for i in range(node.count):
                out[at + node.steps[i].byte] = i
            at += 256
        out[at] = delta_size << 4 | output_size
        at += 1
        if node.count == 0 or node.count > 63:
            out[at] = 1 if node.count == 256 else node.count
            at += 1
        out[at] = (0x40 if node.final else 0) | (node.count if node.count <= 63 else 0)
        self.used = at + 1
        self.previous = at
        return at

    cdef int64_t append_single(self, Open * node, int64_t low) noexcept nogil:
        cdef Step * step = &node.steps[0]
        cdef uint8_t place = PLACES[step.byte]
        cdef uint8_t * out = self.out
        cdef int64_t at = low
        cdef uint64_t delta
        cdef int delta_size, output_size
        cdef bint below = <int64_t>step.target == self.previous and step.output == 0
        if not below:
            delta = low - step.target if step.target else 0
            delta_size = size_of(delta)
            output_size = size_of(step.output) if step.output else 0
            memcpy(out + at, &step.output, output_size)
            at += output_size
            memcpy(out + at, &delta, delta_size)
            at += delta_size
            out[at] = delta_size << 4 | output_size
            at += 1
        if not place:
            out[at] = step.byte
            at += 1
        out[at] = (0xC0 if below else 0x80) | place
        self.used = at + 1
        self.previous = at
        return at

    def finish(self):
        """All bytes. Nothing can be added after."""
        cdef int64_t root, size
        cdef uint64_t value
        cdef uint32_t crc
        cdef bint good
        with nogil:
            good = self.close_from(0)
            root = self.write_node(&self.path[0]) if good else -1
        if root < 0:
            raise MemoryError
        size = self.used
        found = PyBytes_FromStringAndSize(NULL, size + FOOT)
        cdef uint8_t * out = <uint8_t *>PyBytes_AsString(found)
        memcpy(out, self.out, size)
        value = self.keys
        memcpy(out + size, &value, 8)
        value = root
        memcpy(out + size + 8, &value, 8)
        crc = checksum(out, size + 16)
        memcpy(out + size + 16, &crc, 4)
        return found


cdef inline uint64_t mix(uint64_t state, uint64_t value) noexcept nogil:
    state = (state ^ value) * <uint64_t>0x9E3779B97F4A7C15
    return state ^ (state >> 29)


cdef uint64_t hash_open(Open * node) noexcept nogil:
    cdef uint64_t state = mix(node.final, node.final_output)
    cdef int i
    for i in range(node.count):
        state = mix(mix(state, node.steps[i].byte << 1 | 1), node.steps[i].output)
        state = mix(state, node.steps[i].target)
    return state


cdef uint64_t hash_written(const uint8_t * data, Node * node) noexcept nogil:
    cdef uint64_t state = mix(node.final, node.final_output)
    cdef int i
    for i in range(node.count):
        state = mix(mix(state, <uint64_t>(input_of(data, node, i)) << 1 | 1), output_of(data, node, i))
        state = mix(state, target_of(data, node, i))
    return state

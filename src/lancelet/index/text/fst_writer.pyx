"""Token sets as finite state transducers, written from sorted tokens; ``fst.pyx`` draws their layout.

Of the token that came last, the nodes on its path are open: those below what it shares with the next one get no more
steps, and are written, the lowest first. A node from which the same goes on as from one that was written is that one, if
it is still known: of nodes whose hashes begin alike the two that were met last are.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from lancelet.index.text.fst cimport checksum
from lancelet.index.text.fst_nodes cimport (
    COMMON, FOOT, HEAD, INDEXED, VERSION, Node, input_of, output_of, read_node, target_of
)

cdef extern from *:
    void prefetch "__builtin_prefetch" (const void *) nogil

cdef uint8_t PLACES[256]

cdef void prepare() noexcept:
    cdef int i
    memset(PLACES, 0, 256)
    for i in range(63):
        PLACES[<uint8_t>COMMON[i]] = i + 1

prepare()


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


cdef struct Known:
    # The address of a node that was written, or 0, and a hash of what it is.
    uint64_t at
    uint64_t hashed


cdef enum:
    # What is known fits into the memory near the processor; how nodes of suffixes come, more would hardly save bytes.
    KNOWN_PLACES = 1 << 15
    KNOWN_HERE = 2
    # For so many tokens the memory that they will need is asked for before.
    AHEAD = 8


cdef inline int size_of(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value > 255:
        value >>= 8
        size += 1
    return size


cdef class FstWriter:
    """Makes an FST of tokens that come in order: nodes from which the same goes on are written once, as far as they are known.

    Examples
    --------
    >>> from lancelet.index.text.fst import Fst
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
    cdef Known * known

    def __cinit__(self):
        self.out_space = 1 << 12
        self.out = <uint8_t *>malloc(self.out_space)
        self.path_space = 32
        self.path = <Open *>calloc(self.path_space, sizeof(Open))
        self.last = <uint8_t *>malloc(self.path_space)
        self.known = <Known *>calloc(KNOWN_PLACES * KNOWN_HERE, sizeof(Known))
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
        cdef const uint8_t * start_of = &data[0] if data.shape[0] else NULL
        if values.shape[0] != offsets.shape[0] - 1:
            raise ValueError(f"{values.shape[0]} numbers for {offsets.shape[0] - 1} tokens")
        with nogil:
            for i in range(order.shape[0]):
                if i + 2 * AHEAD < order.shape[0] and 0 <= order[i + 2 * AHEAD] < values.shape[0]:
                    prefetch(&offsets[order[i + 2 * AHEAD]])
                if i + AHEAD < order.shape[0] and 0 <= order[i + AHEAD] < values.shape[0]:
                    prefetch(&values[order[i + AHEAD]])
                    prefetch(start_of + offsets[order[i + AHEAD]])
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
        cdef Known last
        cdef Known * here
        cdef uint64_t hashed
        cdef int64_t at
        cdef int i
        if node.final and node.count == 0 and node.final_output == 0:
            return 0
        hashed = hash_open(node)
        here = self.known + (hashed & (KNOWN_PLACES - 1)) * KNOWN_HERE
        for i in range(KNOWN_HERE):
            if here[i].at and here[i].hashed == hashed and self.same(here[i].at, node):
                last = here[i]
                here[i] = here[0]
                here[0] = last
                return last.at
        at = self.append(node)
        if at > 0:
            for i in range(KNOWN_HERE - 1, 0, -1):
                here[i] = here[i - 1]
            here[0].at = at
            here[0].hashed = hashed
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

# A node of a finite state transducer; ``fst.pyx`` draws its layout.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    HEAD = 16
    FOOT = 20
    VERSION = 3
    INDEXED = 32

cdef extern from *:
    """
    /* Inputs that nodes of one step name by their place, which counts from 1. */
    static const char COMMON[] = "te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";
    """
    const char COMMON[63]


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


cdef inline bint read_node(const uint8_t * data, int64_t size, int64_t at, Node * node) noexcept nogil:
    """The node at an address; False for one that is none. ``size`` is where nodes end."""
    cdef uint8_t state
    cdef int64_t p
    cdef int count
    node.inputs = node.places = -1
    node.below = False
    node.final_output = 0
    node.delta_size = node.output_size = 0
    node.deltas = node.outputs = 0
    node.single = 0
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

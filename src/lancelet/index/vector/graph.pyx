# distutils: extra_compile_args = -ffp-contract=off
"""Walks through graphs of near neighbours, and how such graphs grow. The work is done in ``graph.h`` and ``points.h``.

Nothing here trusts its arrays: sizes and numbers are checked when an object is made, once, and walks rely on that.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np

cdef extern from "graph.h" nogil:
    ctypedef uint64_t lc_mark
    cdef enum lc_form:
        LC_FLAT, LC_SCALAR, LC_SCALAR_DOT, LC_PRODUCT
    enum: LC_F16, LC_F32, LC_F64, LC_U8
    enum: LC_L2, LC_COSINE, LC_DOT, LC_HAMMING
    ctypedef void (*lc_compare)(const lc_points*, const void*, const uint32_t*, size_t, float*) noexcept
    ctypedef struct lc_points:
        const uint8_t* rows
        size_t count, stride, dim
        lc_form form
        int metric, element
        float scale, start
        const float* codebook
        size_t subs, words, sub_dim
        lc_compare queries, peers
    ctypedef struct lc_lists:
        const int32_t* offsets
        uint32_t* values
        uint16_t* sizes
        size_t width
    ctypedef struct lc_graph:
        size_t count
        lc_lists base, above
        const uint32_t* upper
        uint32_t entry
        int top
    ctypedef struct lc_walk:
        lc_mark* pool
        size_t size, compared
    ctypedef struct lc_growth:
        lc_graph graph
        lc_points points
        const uint8_t* heights
        const uint32_t* order
        size_t limits[2]
        size_t ef
    ctypedef struct lc_hand:
        lc_walk walk
        float* room
    void lc_choose(lc_points*)
    const void* lc_peer(const lc_points*, uint32_t, float*)
    uint32_t lc_node(lc_mark)
    float lc_distance(lc_mark)
    bint lc_walk_begin(lc_walk*, size_t)
    void lc_walk_end(lc_walk*)
    bint lc_search(const lc_graph*, const lc_points*, lc_compare, const void*, lc_walk*, size_t, const uint8_t*, float, size_t)
    bint lc_hand_begin(lc_hand*, const lc_growth*, size_t)
    void lc_hand_end(lc_hand*)
    void lc_choose_neighbours(const lc_growth*, lc_hand*, size_t, size_t, uint32_t*)
    void lc_link(lc_growth*, lc_hand*, int, uint32_t, uint32_t)
    void lc_trim(lc_growth*, lc_hand*, uint32_t, uint32_t)
    bint lc_connect(lc_growth*, lc_hand*, uint32_t*, uint32_t*)

_METRICS = {"l2": LC_L2, "cosine": LC_COSINE, "dot": LC_DOT, "hamming": LC_HAMMING}
_ELEMENTS = {"float16": LC_F16, "float32": LC_F32, "float64": LC_F64, "uint8": LC_U8}


cdef class Points:
    """Vectors or codes of one partition, compared with a query or with each other by their numbers."""

    cdef lc_points raw
    cdef object rows, book
    cdef readonly object dtype
    cdef readonly Py_ssize_t width

    def __init__(self):
        raise TypeError("made by flat, scalar or product")

    @staticmethod
    cdef Points _of(rows, lc_form form, int metric, size_t dim, dtype, Py_ssize_t width):
        cdef Points self = Points.__new__(Points)
        if rows.ndim != 2 or not rows.flags.c_contiguous or rows.shape[0] >= 1 << 31 or rows.shape[1] < 1:
            raise ValueError("one row a vector is needed, one after the other")
        self.rows = rows
        self.raw.rows = <const uint8_t*><size_t>rows.ctypes.data
        self.raw.count = rows.shape[0]
        self.raw.stride = rows.shape[1] * rows.itemsize
        self.raw.dim = dim
        self.raw.form = form
        self.raw.metric = metric
        self.dtype = np.dtype(dtype)
        self.width = width
        return self

    @staticmethod
    def flat(vectors, str metric):
        """Vectors of float16, float32 or float64; of bytes with ``hamming``. With ``cosine`` they have length 1."""
        element = _ELEMENTS[vectors.dtype.name]
        cdef bint of_bytes = element == LC_U8, counts_bits = metric == "hamming"
        if of_bytes != counts_bits:
            raise ValueError(f"vectors of {vectors.dtype} are not compared by {metric}")
        dtype = np.float32 if element == LC_F16 else vectors.dtype
        cdef Points self = Points._of(vectors, LC_FLAT, _METRICS[metric], vectors.shape[1], dtype, vectors.shape[1])
        self.raw.element = element
        lc_choose(&self.raw)
        return self

    @staticmethod
    def scalar(codes, float start, float end, str metric):
        """Bytes, of which 0 stands for ``start`` and 255 for ``end``."""
        if codes.dtype != np.uint8 or codes.ndim != 2 or metric not in ("l2", "cosine", "dot"):
            raise ValueError(f"codes of {codes.dtype} are not compared by {metric}")
        cdef Points self
        dim = codes.shape[1]
        if metric == "dot":
            self = Points._of(codes, LC_SCALAR_DOT, LC_DOT, dim, np.float32, dim + 1)
        else:
            self = Points._of(codes, LC_SCALAR, LC_L2, dim, np.uint8, dim)
        self.raw.scale, self.raw.start = (end - start) / <float>255, start
        lc_choose(&self.raw)
        return self

    @staticmethod
    def product(codes, book, str metric, float offset=0.0):
        """Codes of a byte for each sub-vector, of words ``book[sub-vector, code]``; ``offset`` is added to sums of a table."""
        if codes.dtype != np.uint8 or codes.ndim != 2 or metric not in ("l2", "cosine", "dot"):
            raise ValueError(f"codes of {codes.dtype} are not compared by {metric}")
        if book.dtype != np.float32 or book.ndim != 3 or not book.flags.c_contiguous:
            raise ValueError("a book of words for each sub-vector is needed")
        subs, words, wide = book.shape
        if codes.shape[1] != subs or wide < 1 or words not in (16, 256) or (words == 16 and subs % 2):
            raise ValueError("a code for each sub-vector is needed")
        if words == 16 and codes.size and codes.max() >= words:
            raise ValueError("a code that is the number of a word is needed")
        cdef Points self = Points._of(
            codes, LC_PRODUCT, LC_DOT if metric == "dot" else LC_L2, subs * wide, np.float32, subs * words
        )
        self.book = book
        self.raw.codebook = <const float*><size_t>book.ctypes.data
        self.raw.subs, self.raw.words, self.raw.sub_dim = subs, words, wide
        self.raw.start = offset
        lc_choose(&self.raw)
        return self

    def query(self, numbers):
        """A query in the form that is compared: floats with what ``start`` adds to products, anything else as it is."""
        cdef float total = 0
        cdef float[::1] floats
        cdef Py_ssize_t i
        if self.raw.form != LC_SCALAR_DOT:
            return np.ascontiguousarray(numbers, self.dtype).reshape(-1)
        found = np.empty(len(numbers) + 1, np.float32)
        found[: len(numbers)] = numbers
        floats = found
        for i in range(len(numbers)):
            total += floats[i]
        floats[len(numbers)] = total * self.raw.start
        return found

    def __len__(self):
        return self.raw.count

    @property
    def nbytes(self):
        return self.rows.nbytes

    cdef const void* _query(self, query) except NULL:
        if query.dtype != self.dtype or query.shape != (self.width,) or not query.flags.c_contiguous:
            raise ValueError(f"a query of {self.width} numbers of {self.dtype} is needed")
        return <const void*><size_t>query.ctypes.data

    def distances(self, query, const uint32_t[::1] ids):
        """From what :meth:`query` gave to some vectors."""
        cdef const void* at = self._query(query)
        self._check(ids)
        found = np.empty(len(ids), np.float32)
        cdef float[::1] out = found
        if len(ids):
            with nogil:
                self.raw.queries(&self.raw, at, &ids[0], ids.shape[0], &out[0])
        return found

    def between(self, uint32_t node, const uint32_t[::1] ids):
        """From one vector to others."""
        self._check(np.array([node], np.uint32))
        self._check(ids)
        cdef float[::1] room = np.empty(self.raw.dim + 1, np.float32)
        found = np.empty(len(ids), np.float32)
        cdef float[::1] out = found
        if len(ids):
            with nogil:
                self.raw.peers(&self.raw, lc_peer(&self.raw, node, &room[0]), &ids[0], ids.shape[0], &out[0])
        return found

    cdef _check(self, const uint32_t[::1] ids):
        cdef Py_ssize_t i
        for i in range(ids.shape[0]):
            if ids[i] >= self.raw.count:
                raise IndexError(f"there is no vector {ids[i]}")


cdef class _Walk:
    cdef lc_walk raw

    def __cinit__(self, size_t count):
        if not lc_walk_begin(&self.raw, count):
            raise MemoryError

    def __dealloc__(self):
        lc_walk_end(&self.raw)


cdef class Lists:
    """The neighbours of all nodes, in the order of their levels; drawn at the head of ``graph.h``.

    ``upper[node] + level - 1`` is the row of a node in the lists above level 0, for each level up to its height.
    """

    cdef lc_graph raw
    cdef size_t widest
    cdef object arrays
    cdef list idle

    def __init__(self, offsets, values, heights, upper, above_offsets, above_values, uint32_t entry):
        cdef Py_ssize_t count = len(heights)
        if count < 1 or count >= 1 << 31 or entry >= count:
            raise ValueError("a graph has an entry")
        rows = int(heights.astype(np.int64).sum())
        if len(upper) != count or not (np.cumsum(heights, dtype=np.int64) - heights == upper).all():
            raise ValueError("rows of the upper levels are not in order")
        self.widest = max(_widest(offsets, values, count), _widest(above_offsets, above_values, rows))
        if len(values) and values.max() >= count:
            raise ValueError("a neighbour is no node")
        if len(above_values):
            if above_values.max() >= count:
                raise ValueError("a neighbour is no node")
            levels = np.arange(rows) - np.repeat(upper, heights) + 1
            if (heights[above_values] < np.repeat(levels, np.diff(above_offsets))).any():
                raise ValueError("a neighbour is not on the level")
        self.arrays = (offsets, values, heights, upper, above_offsets, above_values)
        self.raw.count = count
        _set(&self.raw.base, offsets, values)
        _set(&self.raw.above, above_offsets, above_values)
        self.raw.upper = <const uint32_t*><size_t>upper.ctypes.data
        self.raw.entry = entry
        self.raw.top = heights[entry]
        self.idle = []

    def __len__(self):
        return self.raw.count

    @property
    def nbytes(self):
        return sum(array.nbytes for array in self.arrays)

    def search(self, Points points, query, size_t ef, keep=None, lower=None):
        """The ``ef`` nearest nodes that are kept and not nearer than ``lower``: distances, nodes, and how many were compared."""
        cdef const uint8_t[::1] kept
        cdef const uint8_t* marked = NULL
        cdef const void* asked = points._query(query)
        cdef float least = -INFINITY if lower is None else lower
        cdef bint enough
        cdef Py_ssize_t i
        if points.raw.count != self.raw.count:
            raise ValueError("a vector for each node is needed")
        if keep is not None:
            kept = np.ascontiguousarray(keep).view(np.uint8)
            if kept.shape[0] != <Py_ssize_t>self.raw.count:
                raise ValueError("a mark for each node is needed")
            marked = &kept[0]
        cdef _Walk walk = self.idle.pop() if self.idle else _Walk(self.raw.count)
        walk.raw.compared = 0
        with nogil:
            enough = lc_search(
                &self.raw, &points.raw, points.raw.queries, asked, &walk.raw, min(ef, self.raw.count), marked, least, self.widest
            )
        if not enough:
            raise MemoryError
        marks, nodes = np.empty(walk.raw.size, np.float32), np.empty(walk.raw.size, np.uint32)
        cdef float[::1] out = marks
        cdef uint32_t[::1] numbers = nodes
        for i in range(<Py_ssize_t>walk.raw.size):
            out[i] = lc_distance(walk.raw.pool[i])
            numbers[i] = lc_node(walk.raw.pool[i])
        compared = walk.raw.compared
        self.idle.append(walk)
        return marks, nodes, compared


cdef size_t _widest(offsets, values, Py_ssize_t rows) except? 0:
    if len(offsets) != rows + 1 or offsets[0] < 0 or offsets[rows] > len(values):
        raise ValueError("lists are not where they should be")
    sizes = np.diff(offsets)
    if rows and sizes.min() < 0:
        raise ValueError("lists overlap")
    return sizes.max() if rows else 0


cdef void _set(lc_lists* lists, offsets, values) except *:
    cdef const int32_t[::1] ends = offsets
    cdef const uint32_t[::1] numbers = values
    lists.offsets = &ends[0]
    lists.values = <uint32_t*>&numbers[0] if numbers.shape[0] else NULL


cdef class Hand:
    """What one thread needs to work on a :class:`Growth`."""

    cdef lc_hand raw
    cdef Growth growth

    def __cinit__(self, Growth growth, size_t batch):
        self.growth = growth
        if not lc_hand_begin(&self.raw, &growth.raw, batch):
            raise MemoryError

    def __dealloc__(self):
        lc_hand_end(&self.raw)


cdef class Growth:
    """A graph that is being built: nodes are added in an order of which the first is the entry, and none is higher.

    Nodes are added in batches: first each chooses its neighbours among those that are there (and those before it in the
    batch), then the ways back are made. Both can be done by several threads, and give the same whatever their number.
    """

    cdef lc_growth raw
    cdef object arrays
    cdef Points points
    cdef uint32_t[:, ::1] base, above
    cdef uint16_t[::1] base_sizes, above_sizes
    cdef const uint8_t[::1] heights
    cdef const uint32_t[::1] order, upper

    def __init__(self, Points points, heights, order, upper, size_t m, size_t ef, size_t spare):
        cdef Py_ssize_t count = <Py_ssize_t>points.raw.count
        cdef size_t others = points.raw.count - 1 if points.raw.count > 1 else 1
        if count < 1 or len(heights) != count or len(order) != count or len(upper) != count or m < 1 or m > 10000 or ef < 1:
            raise ValueError("sizes that do not fit")
        if not (np.bincount(order, minlength=count) == 1).all() or heights[order[0]] != heights.max():
            raise ValueError("each node is added once, and a highest one first")
        if not (np.cumsum(heights, dtype=np.int64) - heights == upper).all():
            raise ValueError("rows of the upper levels are not in order")
        self.points = points
        self.heights, self.order, self.upper = heights, order, upper
        rows = int(heights.astype(np.int64).sum())
        self.raw.limits[0], self.raw.limits[1] = min(2 * m, others), min(m, others)
        self.raw.graph.base.width, self.raw.graph.above.width = self.raw.limits[0] + spare, self.raw.limits[1] + spare
        self.base = np.empty((count, self.raw.graph.base.width), np.uint32)
        self.above = np.empty((rows, self.raw.graph.above.width), np.uint32)
        self.base_sizes, self.above_sizes = np.zeros(count, np.uint16), np.zeros(rows, np.uint16)
        self.raw.points = points.raw
        self.raw.heights, self.raw.order = &self.heights[0], &self.order[0]
        self.raw.ef = ef
        self.raw.graph.count = count
        self.raw.graph.upper = &self.upper[0]
        self.raw.graph.entry = self.order[0]
        self.raw.graph.top = self.heights[self.order[0]]
        self.raw.graph.base.values, self.raw.graph.base.sizes = &self.base[0, 0], &self.base_sizes[0]
        if rows:
            self.raw.graph.above.values, self.raw.graph.above.sizes = &self.above[0, 0], &self.above_sizes[0]

    @property
    def room(self):
        """Numbers that a list of choices takes."""
        return self.raw.limits[0] + 1

    def choose(self, Hand hand, uint32_t[::1] chosen, const uint64_t[::1] starts, size_t first, size_t begin, size_t end):
        """Neighbours for the places from ``begin`` to ``end`` of the order, in a batch that starts at ``first``."""
        cdef size_t place
        if hand.growth is not self or not first <= begin <= end <= self.raw.graph.count or first < 1:
            raise ValueError("no such places")
        if <size_t>starts.shape[0] < end - first + 1 or starts[end - first] * (self.raw.limits[0] + 1) > <size_t>chosen.shape[0]:
            raise ValueError("no room for the choices")
        with nogil:
            for place in range(begin, end):
                lc_choose_neighbours(&self.raw, &hand.raw, place, first, &chosen[starts[place - first] * (self.raw.limits[0] + 1)])

    def link(
        self, Hand hand, const uint32_t[::1] chosen, const uint64_t[::1] starts, size_t first, size_t end, size_t part, size_t parts
    ):
        """Put the choices of a batch into the graph, with the ways back: those of nodes whose number modulo ``parts`` is ``part``."""
        cdef size_t place, i, row
        cdef uint32_t node, other
        cdef int level
        cdef const uint32_t* choice
        cdef lc_lists* lists
        if hand.growth is not self or not 1 <= first <= end <= self.raw.graph.count or parts < 1:
            raise ValueError("no such places")
        if <size_t>starts.shape[0] < end - first + 1 or starts[end - first] * (self.raw.limits[0] + 1) > <size_t>chosen.shape[0]:
            raise ValueError("no such choices")
        with nogil:
            for place in range(first, end):
                node = self.order[place]
                if node % parts != part:
                    continue
                for level in range(self.heights[node] + 1):
                    choice = &chosen[(starts[place - first] + level) * (self.raw.limits[0] + 1)]
                    lists = &self.raw.graph.above if level else &self.raw.graph.base
                    row = <size_t>self.upper[node] + level - 1 if level else node
                    lists.sizes[row] = choice[0]
                    memcpy(lists.values + row * lists.width, choice + 1, choice[0] * sizeof(uint32_t))
            for place in range(first, end):
                node = self.order[place]
                for level in range(self.heights[node] + 1):
                    choice = &chosen[(starts[place - first] + level) * (self.raw.limits[0] + 1)]
                    for i in range(choice[0]):
                        other = choice[1 + i]
                        if other % parts == part:
                            lc_link(&self.raw, &hand.raw, level, other, node)

    def trim(self, Hand hand, uint32_t begin, uint32_t end):
        """Cut the lists of some nodes to the lengths that they may have in the end."""
        if hand.growth is not self or not begin <= end <= self.raw.graph.count:
            raise ValueError("no such nodes")
        with nogil:
            lc_trim(&self.raw, &hand.raw, begin, end)

    def connect(self, Hand hand):
        """Make ways so that all nodes can be reached from the entry."""
        cdef uint32_t[::1] parents = np.empty(self.raw.graph.count, np.uint32)
        cdef uint32_t[::1] queue = np.empty(self.raw.graph.count, np.uint32)
        cdef bint enough
        if hand.growth is not self:
            raise ValueError("of another graph")
        with nogil:
            enough = lc_connect(&self.raw, &hand.raw, &parents[0], &queue[0])
        if not enough:
            raise MemoryError

    def lists(self):
        """Offsets, neighbours and distances of level 0, and those of the upper levels by node and level."""
        return *self.lowest(0, len(self.base_sizes)), *self.others()

    def lowest(self, Py_ssize_t begin, Py_ssize_t end):
        """Those of level 0, of the nodes from one to before another."""
        if not 0 <= begin <= end <= self.base_sizes.shape[0]:
            raise ValueError(f"nodes from {begin} to {end}, of {self.base_sizes.shape[0]}")
        return self._ragged(self.raw.graph.base, self.base_sizes, begin, end, None)

    def others(self):
        """Those of the upper levels."""
        owners = np.repeat(np.arange(len(self.heights), dtype=np.uint32), self.heights)
        return self._ragged(self.raw.graph.above, self.above_sizes, 0, len(self.above_sizes), owners)

    cdef _ragged(self, lc_lists lists, uint16_t[::1] sizes, Py_ssize_t begin, Py_ssize_t end, owners):
        offsets = np.zeros(end - begin + 1, np.int64)
        np.cumsum(sizes[begin:end], out=offsets[1:])
        total = int(offsets[end - begin])
        if total >= 1 << 31:
            raise OverflowError("more than 2^31 neighbours")
        starts = offsets.astype(np.int32)
        neighbours, distances = np.empty(total, np.uint32), np.empty(total, np.float32)
        if not total:
            return starts, neighbours, distances
        cdef int32_t[::1] at = starts
        cdef uint32_t[::1] ids = neighbours, owner
        cdef float[::1] out = distances, room = np.empty(self.raw.points.dim + 1, np.float32)
        cdef bint owned = owners is not None
        cdef Py_ssize_t row
        if owned:
            owner = owners
        with nogil:
            for row in range(begin, end):
                if sizes[row]:
                    memcpy(&ids[at[row - begin]], lists.values + row * lists.width, sizes[row] * sizeof(uint32_t))
                    self.raw.points.peers(
                        &self.raw.points, lc_peer(&self.raw.points, owner[row] if owned else row, &room[0]),
                        &ids[at[row - begin]], sizes[row], &out[at[row - begin]],
                    )
        return starts, neighbours, distances

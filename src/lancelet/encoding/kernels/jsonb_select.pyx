# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Values inside of JSONB, by path (the layout is in jsonb.pyx, the paths are in jsonb_paths.py).

A path is a program: words of 64 bits, and the bytes of the names and constants in it::

    END
    FIELD first size            the member of that name
    KEY first size number       the same, or element ``number`` of an array, if it is not negative
    MEMBERS                     .*   all values of an object
    ELEMENTS                    [*]  all elements of an array; any other value is its own only element
    ALL low high                .**  the value and all below it, on these levels
    ELEMENT n, then n times     [0, last - 1, 2 to last]
        low from_end high from_end
    FILTER expression next      ?()  the values for which the expression, at that word, is true

    expression  AND left right | OR left right | EXISTS is_current path | COMPARE operator left right
    operand     PATH is_current path | CONSTANT kind first size

What is found is an item: its kind (that of a JSONB entry, 255 for nothing), and where its bytes are.
"""

from libc.math cimport INFINITY, NAN
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

NOTHING = 255

cdef enum:
    _DEPTH = 1024

    END = 0
    FIELD = 1
    KEY = 2
    MEMBERS = 3
    ELEMENTS = 4
    ALL = 5
    ELEMENT = 6
    FILTER = 7
    AND = 8
    OR = 9
    EXISTS = 10
    COMPARE = 11
    PATH = 12
    CONSTANT = 13

    IS_FALSE = 0
    IS_TRUE = 1
    IS_UNKNOWN = 2

cdef struct Program:
    const int64_t *code
    const uint8_t *names
    Item root

cdef uint32_t word(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef int push(Items *items, Item item) noexcept nogil:
    cdef Item *grown
    if items.count == items.room:
        grown = <Item *>realloc(items.data, (2 * items.room + 8) * sizeof(Item))
        if grown == NULL:
            return _NO_MEMORY
        items.data = grown
        items.room = 2 * items.room + 8
    items.data[items.count] = item
    items.count += 1
    return _GOOD


cdef int open_root(const uint8_t *at, int64_t size, Item *root) noexcept nogil:
    """The value that a column holds in a row."""
    cdef uint32_t entry
    if size < 4:
        return _TOO_SHORT
    if at[0] >> 5 != 1:
        root.at, root.size, root.kind = at, size, CONTAINER
        return _GOOD
    if size < 8:
        return _TOO_SHORT
    entry = word(at + 4)
    if entry >> 28 >= CONTAINER:
        return _BAD_KIND
    if (entry & 0x0FFFFFFF) > size - 8:
        return _TOO_SHORT
    root.at, root.size, root.kind = at + 8, entry & 0x0FFFFFFF, entry >> 28
    return _GOOD


cdef int shape_of(const Item *item, bint *is_array, int64_t *count) noexcept nogil:
    """Whether a container is an array, and how many values it has; their entries fit into it."""
    cdef uint32_t header
    if item.size < 4:
        return _TOO_SHORT
    header = word(item.at)
    count[0] = header & 0x1FFFFFFF
    is_array[0] = header >> 29 == 4
    if not is_array[0] and header >> 29 != 2:
        return _BAD_KIND
    if 4 + 4 * count[0] * (1 if is_array[0] else 2) > item.size:
        return _TOO_SHORT
    return _GOOD


cdef inline int entry_at(const Item *parent, int64_t entry, int64_t at, Item *child) noexcept nogil:
    """The value of the entry at a place of a container, whose bytes begin at another."""
    cdef uint32_t found = word(parent.at + entry)
    child.kind = found >> 28
    child.size = found & 0x0FFFFFFF
    child.at = parent.at + at
    if child.size > parent.size - at:
        return _TOO_SHORT
    return _BAD_KIND if child.kind > CONTAINER else _GOOD


cdef int member(const Item *parent, int64_t count, const uint8_t *name, int64_t size, Item *child) noexcept nogil:
    """The value of a name in an object, or nothing."""
    cdef int64_t i, length, key = 4 + 8 * count, value, found = -1
    for i in range(count):
        length = word(parent.at + 4 + 4 * i) & 0x0FFFFFFF
        if length > parent.size - key:
            return _TOO_SHORT
        if length == size and found < 0 and memcmp(parent.at + key, name, size) == 0:
            found = i
        key += length
    child.kind = _NOTHING
    if found < 0:
        return _GOOD
    value = key
    for i in range(found):
        value += word(parent.at + 4 + 4 * (count + i)) & 0x0FFFFFFF
    if value > parent.size:
        return _TOO_SHORT
    return entry_at(parent, 4 + 4 * (count + found), value, child)


cdef int element(const Item *parent, int64_t count, int64_t number, Item *child) noexcept nogil:
    """An element of an array, or nothing."""
    cdef int64_t i, at = 4 + 4 * count
    child.kind = _NOTHING
    if number < 0 or number >= count:
        return _GOOD
    for i in range(number):
        at += word(parent.at + 4 + 4 * i) & 0x0FFFFFFF
    if at > parent.size:
        return _TOO_SHORT
    return entry_at(parent, 4 + 4 * number, at, child)


cdef int children(const Item *parent, int64_t low, int64_t high, Items *out) noexcept nogil:
    """The values of a container from one number to another, both included."""
    cdef int64_t count = 0, i, first, at
    cdef bint is_array = False
    cdef Item child
    cdef int status = shape_of(parent, &is_array, &count)
    if status:
        return status
    first = 4 if is_array else 4 + 4 * count
    at = first + 4 * count
    if not is_array:
        for i in range(count):
            at += word(parent.at + 4 + 4 * i) & 0x0FFFFFFF
    for i in range(min(high + 1, count)):
        if at > parent.size:
            return _TOO_SHORT
        status = entry_at(parent, first + 4 * i, at, &child)
        if status:
            return status
        at += child.size
        if i >= low and push(out, child):
            return _NO_MEMORY
    return _GOOD


cdef int descend(Item item, int64_t level, int64_t low, int64_t high, Items *out) noexcept nogil:
    cdef Items below
    cdef int64_t i
    cdef int status
    if level > _DEPTH:
        return _TOO_DEEP
    if level >= low and push(out, item):
        return _NO_MEMORY
    if item.kind != CONTAINER or level >= high:
        return _GOOD
    below.data, below.count, below.room = NULL, 0, 0
    status = children(&item, 0, 0x1FFFFFFF, &below)
    for i in range(below.count if status == _GOOD else 0):
        status = descend(below.data[i], level + 1, low, high, out)
        if status:
            break
    free(below.data)
    return status


cdef int elements_at(const Item *item, const int64_t *code, Items *out) noexcept nogil:
    """ELEMENT: numbers and ranges, each of them for itself."""
    cdef bint is_array = False
    cdef int64_t count = 0, i, low, high
    cdef Item child
    cdef int status = shape_of(item, &is_array, &count)
    if status or not is_array:
        return status
    for i in range(code[1]):
        low = code[2 + 4 * i] + (count - 1 if code[3 + 4 * i] else 0)
        high = code[4 + 4 * i] + (count - 1 if code[5 + 4 * i] else 0)
        if low > high or low >= count or high < 0:
            continue
        status = children(item, max(low, 0), high, out)
        if status:
            return status
    return _GOOD


cdef int step(Program *program, const int64_t *code, const Item *item, Items *out) noexcept nogil:
    """What one step makes of an item."""
    cdef int64_t count = 0
    cdef bint is_array = False
    cdef Item child
    cdef int status, truth = IS_FALSE
    if code[0] == FILTER:
        status = holds(program, code[1], item, &truth)
        return status if status or truth != IS_TRUE else push(out, item[0])
    if code[0] == ALL:
        return descend(item[0], 0, code[1], code[2], out)
    if item.kind != CONTAINER:
        return push(out, item[0]) if code[0] == ELEMENTS else _GOOD
    if code[0] == ELEMENT:
        return elements_at(item, code, out)
    status = shape_of(item, &is_array, &count)
    if status:
        return status
    if code[0] == MEMBERS:
        return _GOOD if is_array else children(item, 0, 0x1FFFFFFF, out)
    if code[0] == ELEMENTS:
        return children(item, 0, 0x1FFFFFFF, out) if is_array else push(out, item[0])
    if is_array:
        child.kind = _NOTHING
        if code[0] == KEY:
            status = element(item, count, code[3], &child)
    else:
        status = member(item, count, program.names + code[1], code[2], &child)
    return status if status or child.kind == _NOTHING else push(out, child)


cdef inline int64_t width(const int64_t *code) noexcept nogil:
    if code[0] == ELEMENT:
        return 2 + 4 * code[1]
    if code[0] == KEY:
        return 4
    return 1 if code[0] == MEMBERS or code[0] == ELEMENTS else 3 if code[0] != FILTER else 2


cdef int walk(Program *program, int64_t pc, Item start, Items *found, Items *spare) noexcept nogil:
    """All that a path leads to from an item."""
    cdef Items swapped
    cdef int64_t i
    cdef int status
    found.count = 0
    if push(found, start):
        return _NO_MEMORY
    while program.code[pc] != END and found.count:
        spare.count = 0
        for i in range(found.count):
            status = step(program, program.code + pc, &found.data[i], spare)
            if status:
                return status
        swapped = found[0]
        found[0] = spare[0]
        spare[0] = swapped
        pc += width(program.code + pc)
    return _GOOD


cdef int walk_from(Program *program, int64_t is_current, int64_t pc, const Item *current, Items *found) noexcept nogil:
    """The same from inside of a filter."""
    cdef Items spare
    cdef int status
    spare.data, spare.count, spare.room = NULL, 0, 0
    status = walk(program, pc, current[0] if is_current else program.root, found, &spare)
    free(spare.data)
    return status


cdef int read_number(const uint8_t *at, int64_t size, Number *out) noexcept nogil:
    cdef uint64_t bits = 0
    cdef int64_t i
    cdef uint8_t tag
    out.is_double, out.negative, out.magnitude, out.value = False, False, 0, 0
    if size < 1:
        return _BAD_NUMBER
    tag = at[0]
    size -= 1
    if size == 0:
        if tag == 0:
            return _GOOD
        out.is_double = True
        if tag == 0x10:
            out.value = NAN
        elif tag == 0x20:
            out.value = INFINITY
        elif tag == 0x30:
            out.value = -INFINITY
        else:
            return _BAD_NUMBER
        return _GOOD
    if size != 1 and size != 2 and size != 4 and size != 8:
        return _BAD_NUMBER
    for i in range(1, size + 1):
        bits = (bits << 8) | at[i]
    if tag == 0x60 and size == 8:
        out.is_double = True
        memcpy(&out.value, &bits, 8)
        return _GOOD
    if tag != 0x40 and tag != 0x50:
        return _BAD_NUMBER
    if tag == 0x40 and at[1] & 0x80:
        if size < 8:
            bits |= (<uint64_t>0xFFFFFFFFFFFFFFFF) << (8 * size)
        bits = ~bits + 1
        out.negative = True
    out.magnitude = bits
    out.value = -<double>bits if out.negative else <double>bits
    return _GOOD


cdef int order_numbers(const Number *left, const Number *right) noexcept nogil:
    """-1, 0, 1: a NaN is above all, and equal to itself."""
    cdef int order
    if left.is_double or right.is_double:
        if left.value < right.value:
            return -1
        if left.value > right.value:
            return 1
        if left.value == right.value:
            return 0
        return (left.value != left.value) - (right.value != right.value)
    if left.negative != right.negative:
        return -1 if left.negative else 1
    order = (left.magnitude > right.magnitude) - (left.magnitude < right.magnitude)
    return -order if left.negative else order


cdef int order_bytes(const Item *left, const Item *right) noexcept nogil:
    cdef int order = memcmp(left.at, right.at, min(left.size, right.size))
    if order == 0:
        return (left.size > right.size) - (left.size < right.size)
    return 1 if order > 0 else -1


cdef int compare(int64_t operator, const Item *left, const Item *right, int *truth) noexcept nogil:
    """== 0, != 1, < 2, <= 3, > 4, >= 5, starts with 6."""
    cdef Number first, second
    cdef int order = 0, status
    cdef uint8_t one = TRUE_KIND if left.kind == FALSE_KIND else left.kind
    cdef uint8_t other = TRUE_KIND if right.kind == FALSE_KIND else right.kind
    truth[0] = IS_UNKNOWN
    if one == CONTAINER or other == CONTAINER:
        return _GOOD
    if operator == 6:
        if one == STRING and other == STRING:
            truth[0] = left.size >= right.size and memcmp(left.at, right.at, right.size) == 0
        return _GOOD
    if one != other:
        if operator == 1:
            truth[0] = IS_TRUE
        return _GOOD
    if one == NUMBER:
        status = read_number(left.at, left.size, &first) or read_number(right.at, right.size, &second)
        if status:
            return status
        order = order_numbers(&first, &second)
    elif one == STRING:
        order = order_bytes(left, right)
    elif one == TRUE_KIND:
        order = <int>left.kind - <int>right.kind
    if operator == 0:
        truth[0] = order == 0
    elif operator == 1:
        truth[0] = order != 0
    elif operator == 2:
        truth[0] = order < 0
    elif operator == 3:
        truth[0] = order <= 0
    elif operator == 4:
        truth[0] = order > 0
    else:
        truth[0] = order >= 0
    return _GOOD


cdef int operand(Program *program, int64_t pc, const Item *current, Items *values) noexcept nogil:
    """The values that a side of a comparison stands for; an array stands for its elements."""
    cdef const int64_t *code = program.code + pc
    cdef Items found
    cdef Item item
    cdef int64_t i, count = 0
    cdef bint is_array = False
    cdef int status
    if code[0] == CONSTANT:
        item.kind, item.at, item.size = code[1], program.names + code[2], code[3]
        return push(values, item)
    found.data, found.count, found.room = NULL, 0, 0
    status = walk_from(program, code[1], code[2], current, &found)
    for i in range(found.count if status == _GOOD else 0):
        is_array = False
        if found.data[i].kind == CONTAINER:
            status = shape_of(&found.data[i], &is_array, &count)
            if status:
                break
        status = children(&found.data[i], 0, 0x1FFFFFFF, values) if is_array else push(values, found.data[i])
        if status:
            break
    free(found.data)
    return status


cdef int compare_all(Program *program, const int64_t *code, const Item *current, int *truth) noexcept nogil:
    cdef Items left, right
    cdef int64_t i, k
    cdef int status, one = IS_FALSE
    left.data, left.count, left.room = NULL, 0, 0
    right.data, right.count, right.room = NULL, 0, 0
    truth[0] = IS_FALSE
    status = operand(program, code[2], current, &left) or operand(program, code[3], current, &right)
    i = 0
    while status == _GOOD and truth[0] == IS_FALSE and i < left.count:
        k = 0
        while status == _GOOD and truth[0] == IS_FALSE and k < right.count:
            status = compare(code[1], &left.data[i], &right.data[k], &one)
            truth[0] = one
            k += 1
        i += 1
    free(left.data)
    free(right.data)
    return status


cdef int holds(Program *program, int64_t pc, const Item *current, int *truth) noexcept nogil:
    """Whether an expression is true of an item."""
    cdef const int64_t *code = program.code + pc
    cdef Items found
    cdef int status, left = IS_FALSE, right = IS_FALSE
    if code[0] == COMPARE:
        return compare_all(program, code, current, truth)
    if code[0] == EXISTS:
        found.data, found.count, found.room = NULL, 0, 0
        status = walk_from(program, code[1], code[2], current, &found)
        truth[0] = found.count > 0
        free(found.data)
        return status
    status = holds(program, code[1], current, &left) or holds(program, code[2], current, &right)
    if left == IS_UNKNOWN or right == IS_UNKNOWN:
        truth[0] = IS_UNKNOWN
    else:
        truth[0] = (left and right) if code[0] == AND else (left or right)
    return status


def locate(
    const uint8_t[::1] data, const int64_t[::1] offsets, const uint8_t[::1] valid, const int64_t[::1] code,
    const uint8_t[::1] names, uint8_t[::1] kinds, int64_t[::1] starts, int64_t[::1] sizes,
):
    """The item of each row, where a path leads to one at most: FIELD, KEY and one ELEMENT by its number.

    ``valid`` may be empty. Returns (-1, 0), or the row that lies, and why.
    """
    cdef Py_ssize_t i = 0, n = offsets.shape[0] - 1
    cdef int64_t size = data.shape[0], pc, count = 0
    cdef int status = _GOOD
    cdef bint is_array = False, nullable = valid.shape[0] > 0
    cdef Item item, child
    cdef const uint8_t *base = &data[0] if size > 0 else NULL
    cdef const uint8_t *texts = &names[0] if names.shape[0] > 0 else NULL
    if (nullable and valid.shape[0] != n) or kinds.shape[0] != n or starts.shape[0] != n or sizes.shape[0] != n:
        return 0, _TOO_SHORT
    with nogil:
        for i in range(n):
            kinds[i] = _NOTHING
            starts[i] = sizes[i] = 0
            if nullable and not valid[i]:
                continue
            if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                status = _TOO_SHORT
                break
            status = open_root(base + offsets[i], offsets[i + 1] - offsets[i], &item)
            pc = 0
            while status == _GOOD and code[pc] != END and item.kind != _NOTHING:
                child.kind = _NOTHING
                if item.kind == CONTAINER:
                    status = shape_of(&item, &is_array, &count)
                    if status:
                        break
                    if is_array:
                        if code[pc] == KEY:
                            status = element(&item, count, code[pc + 3], &child)
                        elif code[pc] == ELEMENT:
                            status = element(&item, count, code[pc + 2] + (count - 1 if code[pc + 3] else 0), &child)
                    elif code[pc] != ELEMENT:
                        status = member(&item, count, texts + code[pc + 1], code[pc + 2], &child)
                item = child
                pc += width(&code[pc])
            if status:
                break
            if item.kind != _NOTHING:
                kinds[i] = item.kind
                starts[i] = item.at - base
                sizes[i] = item.size
    if status:
        return i, status
    return -1, 0


def collect(
    const uint8_t[::1] data, const int64_t[::1] offsets, const uint8_t[::1] valid, const int64_t[::1] code,
    const uint8_t[::1] names, bint is_test, int64_t[::1] ends,
):
    """All items that a path leads to, those of row i from ``ends[i]`` to ``ends[i + 1]``.

    ``is_test``: the program is an expression, and its truth the only item. Returns bytes of kinds, starts and sizes,
    the row that lies (-1: none), and why.
    """
    cdef Py_ssize_t i = 0, k, n = offsets.shape[0] - 1
    cdef int64_t size = data.shape[0]
    cdef int status = _GOOD, truth = IS_FALSE
    cdef bint nullable = valid.shape[0] > 0
    cdef Items found, spare, all_items
    cdef Item item
    cdef Program program
    cdef const uint8_t *base = &data[0] if size > 0 else NULL
    program.code = &code[0]
    program.names = &names[0] if names.shape[0] > 0 else NULL
    if (nullable and valid.shape[0] != n) or ends.shape[0] != n + 1:
        return b"", b"", b"", 0, _TOO_SHORT
    found.data, found.count, found.room = NULL, 0, 0
    spare.data, spare.count, spare.room = NULL, 0, 0
    all_items.data, all_items.count, all_items.room = NULL, 0, 0
    with nogil:
        ends[0] = 0
        for i in range(n):
            if not nullable or valid[i]:
                if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                    status = _TOO_SHORT
                    break
                status = open_root(base + offsets[i], offsets[i + 1] - offsets[i], &program.root)
                if status:
                    break
                if is_test:
                    status = holds(&program, 0, &program.root, &truth)
                    item.kind = NULL_KIND if truth == IS_UNKNOWN else TRUE_KIND if truth else FALSE_KIND
                    item.at, item.size = base, 0
                    status = status or push(&all_items, item)
                else:
                    status = walk(&program, 0, program.root, &found, &spare)
                    for k in range(found.count if status == _GOOD else 0):
                        status = push(&all_items, found.data[k])
                        if status:
                            break
                if status:
                    break
            ends[i + 1] = all_items.count
    try:
        if status:
            return b"", b"", b"", i, status
        kinds, starts, sizes = bytearray(all_items.count), bytearray(8 * all_items.count), bytearray(8 * all_items.count)
        fill(&all_items, base, kinds, starts, sizes)
        return kinds, starts, sizes, -1, 0
    finally:
        free(found.data)
        free(spare.data)
        free(all_items.data)


cdef fill(Items *items, const uint8_t *base, uint8_t[::1] kinds, uint8_t[::1] starts, uint8_t[::1] sizes):
    cdef int64_t i, start
    for i in range(items.count):
        kinds[i] = items.data[i].kind
        start = items.data[i].at - base
        memcpy(&starts[8 * i], &start, 8)
        memcpy(&sizes[8 * i], &items.data[i].size, 8)

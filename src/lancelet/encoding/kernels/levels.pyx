# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From repetition and definition levels to Arrow's offsets and validity (spec encodings.md 2.3)."""

from libc.stdint cimport int64_t, uint8_t, uint16_t

cdef enum:
    BLOCK = 32768


cdef int64_t up_to(const uint16_t * levels, int64_t count, uint16_t limit) noexcept nogil:
    """How many levels are at most ``limit``; counted in as few bits as the levels have, so that several go at once."""
    cdef int64_t at = 0, total = 0, stop, i
    cdef uint16_t some
    while at < count:
        stop = min(count, at + BLOCK)
        some = 0
        for i in range(at, stop):
            some += levels[i] <= limit
        total += some
        at = stop
    return total


def find_starts(const uint16_t[::1] reps, uint16_t level, int64_t first, int64_t second):
    """How many levels are ``level``, and where those of two numbers are among them, or else the end: (count, place, place)."""
    cdef int64_t at = 0, total = 0, before, stop, i, n = reps.shape[0], place = n, other = n
    cdef uint16_t some
    with nogil:
        while at < n:
            stop = min(n, at + BLOCK)
            some = 0
            for i in range(at, stop):
                some += reps[i] == level
            before = total
            total += some
            if before <= first < total or before <= second < total:
                for i in range(at, stop):
                    if reps[i] == level:
                        if before == first:
                            place = i
                        if before == second:
                            other = i
                        before += 1
            at = stop
    return total, place, other


def count_slots(const uint16_t[::1] defs, uint16_t valid_up_to, uint16_t slot_up_to):
    """How many entries have def <= slot_up_to, and how many of those are above valid_up_to: (slots, nulls)."""
    cdef Py_ssize_t n = defs.shape[0]
    cdef int64_t slots = 0, valid = 0
    if n:
        with nogil:
            slots = up_to(&defs[0], n, slot_up_to)
            valid = slots if valid_up_to == slot_up_to else up_to(&defs[0], n, valid_up_to)
    return slots, slots - valid


def validity(const uint16_t[::1] defs, uint16_t valid_up_to, uint16_t slot_up_to, uint8_t[::1] out):
    """One byte for each entry with def <= slot_up_to, 1 when def <= valid_up_to; ``out`` has room for one an entry."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef int64_t slot = 0
    if out.shape[0] < n:
        raise ValueError("output is too small")
    with nogil:
        for i in range(n):
            out[slot] = defs[i] <= valid_up_to
            slot += defs[i] <= slot_up_to


def renumber(uint16_t[::1] defs, const uint16_t[::1] table):
    """Replace every level by its entry in ``table``, in place; False when a level has none."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef uint16_t top = 0
    cdef bint same = True
    if table.shape[0] == 0 or table.shape[0] > 65536:
        raise ValueError("no table")
    for i in range(table.shape[0]):
        same = same and table[i] == i
    with nogil:
        for i in range(n):
            top = top if top > defs[i] else defs[i]
        if top < table.shape[0] and not same:
            for i in range(n):
                defs[i] = table[defs[i]]
    return top < table.shape[0]


def list_layer(
    uint16_t[::1] reps, uint16_t[::1] defs, uint16_t child_up_to, uint16_t null_level, uint16_t list_up_to,
    uint16_t slot_up_to, int64_t[::1] offsets, uint8_t[::1] valid,
):
    """Fold the innermost list layer: writes offsets and validity bytes, and compacts the levels in place.

    A start entry (rep > 0) with def <= slot_up_to opens one list; it is null when def is null_level or
    above list_up_to (a null struct around the list). An entry that does not start a list, or has
    def <= child_up_to, is one child. Outputs have room for one more than there are start entries.
    Returns (lists, children, entries left). The loop has no branches, since
    levels follow no pattern that a processor could guess."""
    cdef Py_ssize_t i, n = reps.shape[0]
    cdef int64_t lists = 0, children = 0, left = 0
    cdef uint16_t level, rep
    cdef int start
    cdef int64_t starts = n - up_to(&reps[0], n, 0) if n else 0
    if defs.shape[0] != n or offsets.shape[0] < starts + 1 or valid.shape[0] < starts + 1:
        raise ValueError("outputs are too small")
    with nogil:
        for i in range(n):
            level = defs[i]
            rep = reps[i]
            start = rep != 0
            offsets[lists] = children
            valid[lists] = (level != null_level) & (level <= list_up_to)
            lists += start & (level <= slot_up_to)
            reps[left] = <uint16_t>(rep - start)
            defs[left] = level
            left += start
            children += (start ^ 1) | (level <= child_up_to)
        offsets[lists] = children
    return lists, children, left


def count_visible(const uint16_t[::1] defs, uint16_t max_visible):
    """How many entries own a value slot."""
    cdef Py_ssize_t n = defs.shape[0]
    cdef int64_t visible = 0
    if n:
        with nogil:
            visible = up_to(&defs[0], n, max_visible)
    return visible


def visible_before(const uint16_t[::1] defs, uint16_t max_visible, const int64_t[::1] at, int64_t[::1] out):
    """For sorted entry positions ``at``: how many visible entries come before each."""
    cdef Py_ssize_t k, n = at.shape[0]
    cdef int64_t visible = 0, entries = defs.shape[0], done = 0, stop
    if out.shape[0] != n:
        raise ValueError("outputs are too small")
    with nogil:
        for k in range(n):
            stop = min(at[k], entries)
            if stop > done:
                visible += up_to(&defs[0] + done, stop - done, max_visible)
                done = stop
            out[k] = visible

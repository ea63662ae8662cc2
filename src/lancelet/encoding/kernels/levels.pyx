# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From repetition and definition levels to Arrow's offsets and validity (spec encodings.md 2.3)."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t


def validity(const uint16_t[::1] defs, uint16_t valid_up_to, uint16_t slot_up_to, uint8_t[::1] bitmap):
    """One bit for each entry with def <= slot_up_to, set when def <= valid_up_to; returns (slots, nulls).

    ``bitmap`` starts zeroed and has room for one bit an entry."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef int64_t slot = 0, valid = 0
    if bitmap.shape[0] * 8 < n:
        raise ValueError("bitmap is too small")
    with nogil:
        for i in range(n):
            if defs[i] <= slot_up_to:
                if defs[i] <= valid_up_to:
                    bitmap[slot >> 3] |= <uint8_t>(1 << (slot & 7))
                    valid += 1
                slot += 1
    return slot, slot - valid


def list_layer(
    uint16_t[::1] reps, uint16_t[::1] defs, uint16_t child_up_to, uint16_t null_level, uint16_t list_up_to,
    uint16_t slot_up_to, int64_t[::1] offsets, uint8_t[::1] bitmap,
):
    """Fold the innermost list layer: writes offsets and validity, and compacts the levels in place.

    A start entry (rep > 0) with def <= slot_up_to opens one list; it is null when def is null_level or
    above list_up_to (a null struct around the list). An entry that does not start a list, or has
    def <= child_up_to, is one child. Returns (lists, children, nulls, entries left)."""
    cdef Py_ssize_t i, n = reps.shape[0]
    cdef int64_t lists = 0, children = 0, valid = 0, left = 0
    cdef uint16_t level
    if defs.shape[0] != n or offsets.shape[0] < n + 1 or bitmap.shape[0] * 8 < n:
        raise ValueError("outputs are too small")
    with nogil:
        for i in range(n):
            level = defs[i]
            if reps[i] != 0:
                if level <= slot_up_to:
                    offsets[lists] = children
                    if level != null_level and level <= list_up_to:
                        bitmap[lists >> 3] |= <uint8_t>(1 << (lists & 7))
                        valid += 1
                    lists += 1
                reps[left] = reps[i] - 1
                defs[left] = level
                left += 1
                if level <= child_up_to:
                    children += 1
            else:
                children += 1
        offsets[lists] = children
    return lists, children, lists - valid, left


def count_visible(const uint16_t[::1] defs, uint16_t max_visible):
    """How many entries own a value slot."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef int64_t visible = 0
    with nogil:
        for i in range(n):
            visible += defs[i] <= max_visible
    return visible


def visible_before(const uint16_t[::1] defs, uint16_t max_visible, const int64_t[::1] at, int64_t[::1] out):
    """For sorted entry positions ``at``: how many visible entries come before each."""
    cdef Py_ssize_t i = 0, k, n = at.shape[0]
    cdef int64_t visible = 0, entries = defs.shape[0]
    if out.shape[0] != n:
        raise ValueError("outputs are too small")
    with nogil:
        for k in range(n):
            while i < at[k] and i < entries:
                visible += defs[i] <= max_visible
                i += 1
            out[k] = visible

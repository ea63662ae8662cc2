# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Full-zip pages: levels and value of each entry side by side (spec encodings.md 4).

The control word is ``rep << bits_def | def`` in ``word`` bytes. ``index``, unless empty, receives the
position of each row's first entry and the end.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

ctypedef fused offset_t:
    int32_t
    int64_t


def zip_fixed(
    const uint16_t[::1] reps, const uint16_t[::1] defs, int64_t entries, int word, int bits_def, uint16_t row,
    uint16_t max_visible, const uint8_t[::1] data, int64_t size, uint8_t[::1] out, int64_t[::1] index,
):
    """Records of ``size`` bytes, null ones included. Returns the bytes used."""
    cdef int64_t i, at = 0, slot = 0, rows = 0, slots = data.shape[0] // size, limit = out.shape[0]
    cdef bint with_rep = reps.shape[0] > 0, with_def = defs.shape[0] > 0, indexed = index.shape[0] > 0
    cdef uint32_t control
    _check(reps, defs, entries, word)
    with nogil:
        for i in range(entries):
            control = (<uint32_t>reps[i] << bits_def) if with_rep else 0
            if with_def:
                control |= defs[i]
            if indexed and (not with_rep or reps[i] == row):
                if rows >= index.shape[0]:
                    break
                index[rows] = at
                rows += 1
            if at + word > limit:
                break
            memcpy(&out[at], &control, word)
            at += word
            if with_def and defs[i] > max_visible:
                continue
            if slot >= slots or at + size > limit:
                break
            memcpy(&out[at], &data[slot * size], size)
            at += size
            slot += 1
        else:
            i = entries
    if i != entries:
        raise ValueError("outputs are too small")
    if indexed:
        index[rows] = at
    return at


def zipped_strings_size(const uint16_t[::1] defs, int64_t entries, int word, int prefix, uint16_t max_visible,
                        const offset_t[::1] offsets):
    """Bytes that :func:`zip_strings` makes."""
    cdef int64_t i, slot = 0, total = entries * word, slots = offsets.shape[0] - 1
    if defs.shape[0] == 0:
        return total + slots * prefix + (<int64_t>offsets[slots] - offsets[0])
    if defs.shape[0] != entries:
        raise ValueError("levels differ in length")
    with nogil:
        for i in range(entries):
            if defs[i] > max_visible:
                continue
            if slot >= slots:
                break
            if defs[i] == 0:
                total += prefix + <int64_t>offsets[slot + 1] - offsets[slot]
            slot += 1
    return total


def zip_strings(
    const uint16_t[::1] reps, const uint16_t[::1] defs, int64_t entries, int word, int bits_def, uint16_t row,
    uint16_t max_visible, const offset_t[::1] offsets, const uint8_t[::1] data, int prefix, uint8_t[::1] out,
    int64_t[::1] index,
):
    """Length and bytes of each valid value; null ones have nothing but their levels. Returns the bytes used."""
    cdef int64_t i, at = 0, slot = 0, rows = 0, slots = offsets.shape[0] - 1, limit = out.shape[0], length
    cdef uint64_t head
    cdef bint with_rep = reps.shape[0] > 0, with_def = defs.shape[0] > 0
    cdef uint32_t control
    _check(reps, defs, entries, word)
    if prefix not in (4, 8) or index.shape[0] < 1 or offsets[0] < 0 or offsets[slots] > data.shape[0]:
        raise ValueError("values outside of their buffer")
    with nogil:
        for i in range(entries):
            control = (<uint32_t>reps[i] << bits_def) if with_rep else 0
            if with_def:
                control |= defs[i]
            if not with_rep or reps[i] == row:
                if rows >= index.shape[0]:
                    break
                index[rows] = at
                rows += 1
            if at + word > limit:
                break
            memcpy(&out[at], &control, word)
            at += word
            if with_def and defs[i] > max_visible:
                continue
            if slot >= slots:
                break
            if not with_def or defs[i] == 0:
                length = <int64_t>offsets[slot + 1] - offsets[slot]
                if length < 0 or at + prefix + length > limit:
                    break
                head = <uint64_t>length
                memcpy(&out[at], &head, prefix)
                if length > 0:
                    memcpy(&out[at + prefix], &data[offsets[slot]], length)
                at += prefix + length
            slot += 1
        else:
            i = entries
    if i != entries or rows >= index.shape[0]:
        raise ValueError("outputs are too small")
    index[rows] = at
    return at


cdef int _check(const uint16_t[::1] reps, const uint16_t[::1] defs, int64_t entries, int word) except -1:
    if word not in (0, 1, 2, 4):
        raise ValueError(f"control words of {word} bytes")
    if (reps.shape[0] and reps.shape[0] != entries) or (defs.shape[0] and defs.shape[0] != entries):
        raise ValueError("levels differ in length")
    return 0


def append_fixed(const uint8_t[::1] data, int64_t size, int64_t[::1] cursors, uint8_t[::1] out):
    """Add a fixed-width field to each record under construction; ``cursors`` move on."""
    cdef Py_ssize_t i, n = cursors.shape[0]
    if data.shape[0] < n * size:
        raise ValueError("too few values")
    with nogil:
        for i in range(n):
            if cursors[i] < 0 or cursors[i] + size > out.shape[0]:
                with gil:
                    raise ValueError("output is too small")
            memcpy(&out[cursors[i]], &data[i * size], size)
            cursors[i] += size


def append_strings(const offset_t[::1] offsets, const uint8_t[::1] data, int prefix, int64_t[::1] cursors, uint8_t[::1] out):
    """Add a field of a length and bytes to each record under construction; ``cursors`` move on."""
    cdef Py_ssize_t i, n = cursors.shape[0]
    cdef int64_t length
    cdef uint64_t head
    if offsets.shape[0] < n + 1 or prefix not in (4, 8) or offsets[0] < 0 or offsets[n] > data.shape[0]:
        raise ValueError("too few values")
    with nogil:
        for i in range(n):
            length = <int64_t>offsets[i + 1] - offsets[i]
            if length < 0 or cursors[i] < 0 or cursors[i] + prefix + length > out.shape[0]:
                with gil:
                    raise ValueError("output is too small")
            head = <uint64_t>length
            memcpy(&out[cursors[i]], &head, prefix)
            if length > 0:
                memcpy(&out[cursors[i] + prefix], &data[offsets[i]], length)
            cursors[i] += prefix + length

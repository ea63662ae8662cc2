# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Taking full-zip pages apart (spec encodings.md 4).

An entry is ``[control word][value]``: the control word holds ``rep << bits_def | def``
in 0, 1, 2 or 4 bytes; a fixed value is there for every visible entry, a
variable one (length, bytes) only where def is 0.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset


def gather_records(const uint8_t[::1] data, const int64_t[::1] positions, int64_t item, uint8_t[::1] out):
    """Copy a record of ``item`` bytes from each position; returns -1 or the index of one that lies outside."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int64_t end = data.shape[0]
    if item < 0 or (item > end and n > 0) or (item > 0 and out.shape[0] // item < n):
        return 0
    with nogil:
        for i in range(n):
            if positions[i] < 0 or positions[i] > end - item:
                with gil:
                    return i
            memcpy(&out[0] + i * item, &data[0] + positions[i], item)
    return -1


cdef inline uint32_t _control(const uint8_t *at, int word) noexcept nogil:
    cdef uint16_t two
    cdef uint32_t four
    if word == 0:
        return 0
    if word == 1:
        return at[0]
    if word == 2:
        memcpy(&two, at, 2)
        return two
    memcpy(&four, at, 4)
    return four


cdef inline int64_t _length(const uint8_t *at, int prefix) noexcept nogil:
    cdef uint32_t four
    cdef int64_t eight
    if prefix == 4:
        memcpy(&four, at, 4)
        return four
    memcpy(&eight, at, 8)
    return eight


cdef inline bint _unknown_shape(int word, int bits_def, int64_t max_visible, int64_t fixed, int prefix) noexcept nogil:
    """Whether entries of this make could stand still, or be wider than the words that hold them."""
    if word not in (0, 1, 2, 4) or bits_def < 0 or bits_def > 16 or bits_def > 8 * word or max_visible < 0:
        return True
    return word + fixed <= 0 if fixed >= 0 else prefix not in (4, 8)


def count_entries(
    const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] stops,
    int word, int bits_def, int64_t max_visible, int64_t fixed, int prefix, int64_t[::1] totals,
):
    """Walk the byte ranges once: totals = entries, visible entries, value bytes.

    ``fixed`` is the record size, or -1 for variable values with ``prefix`` bytes of length.
    Returns -1, or the index of the range whose entries do not end where it does."""
    cdef Py_ssize_t i, n = starts.shape[0]
    cdef int64_t at, end, size = data.shape[0], entries = 0, visible = 0, total = 0, length
    cdef uint32_t control, level, mask
    cdef const uint8_t *base = &data[0] if size > 0 else NULL
    if _unknown_shape(word, bits_def, max_visible, fixed, prefix) or stops.shape[0] != n or totals.shape[0] < 3:
        return 0
    mask = ((<uint32_t>1) << bits_def) - 1
    with nogil:
        for i in range(n):
            at = starts[i]
            end = stops[i]
            if at < 0 or end < at or end > size:
                with gil:
                    return i
            while at < end:
                if word > end - at:
                    with gil:
                        return i
                control = _control(base + at, word)
                at += word
                level = control & mask
                entries += 1
                if level > max_visible:
                    continue
                visible += 1
                if fixed >= 0:
                    length = fixed
                elif level == 0:
                    if prefix > end - at:
                        with gil:
                            return i
                    length = _length(base + at, prefix)
                    at += prefix
                else:
                    length = 0
                if length < 0 or length > end - at:
                    with gil:
                        return i
                at += length
                total += length
    totals[0] = entries
    totals[1] = visible
    totals[2] = total
    return -1


def unzip(
    const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] stops,
    int word, int bits_def, int64_t max_visible, int64_t fixed, int prefix,
    uint16_t[::1] reps, uint16_t[::1] defs, int64_t[::1] offsets, uint8_t[::1] out,
):
    """Split ranges that :func:`count_entries` has measured into levels, offsets and bytes.

    ``reps`` and ``defs`` may be empty when the page has none; ``offsets`` is empty for fixed values.
    Returns -1, or the index of a range that does not fit the outputs."""
    cdef Py_ssize_t i, n = starts.shape[0]
    cdef int64_t at, end, size = data.shape[0], entry = 0, visible = 0, done = 0, length, limit = out.shape[0]
    cdef int64_t entries = max(reps.shape[0], defs.shape[0]), slots = offsets.shape[0] - 1
    cdef bint with_rep = reps.shape[0] > 0, with_def = defs.shape[0] > 0
    cdef uint32_t control, level, mask
    cdef const uint8_t *base = &data[0] if size > 0 else NULL
    if _unknown_shape(word, bits_def, max_visible, fixed, prefix) or stops.shape[0] != n:
        return 0
    if (with_rep and reps.shape[0] != entries) or (with_def and defs.shape[0] != entries) or (fixed < 0 and slots < 0):
        return 0
    mask = ((<uint32_t>1) << bits_def) - 1
    with nogil:
        if fixed < 0:
            offsets[0] = 0
        for i in range(n):
            at = starts[i]
            end = stops[i]
            if at < 0 or end < at or end > size:
                with gil:
                    return i
            while at < end:
                if word > end - at or ((with_rep or with_def) and entry >= entries):
                    with gil:
                        return i
                control = _control(base + at, word)
                at += word
                level = control & mask
                if with_rep:
                    reps[entry] = <uint16_t>(control >> bits_def)
                if with_def:
                    defs[entry] = <uint16_t>level
                entry += 1
                if level > max_visible:
                    continue
                if fixed >= 0:
                    length = fixed
                elif level == 0:
                    if prefix > end - at:
                        with gil:
                            return i
                    length = _length(base + at, prefix)
                    at += prefix
                else:
                    length = 0
                if length < 0 or length > end - at or length > limit - done or (fixed < 0 and visible >= slots):
                    with gil:
                        return i
                if length > 0:
                    memcpy(&out[0] + done, base + at, length)
                at += length
                done += length
                visible += 1
                if fixed < 0:
                    offsets[visible] = done
    return -1


def split_record_fields(
    const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] widths, const int64_t[::1] prefixes,
    int64_t[:, ::1] starts, int64_t[:, ::1] sizes,
):
    """Find the fields of variable packed structs (spec 7.4): width >= 0 is fixed, else a length prefix comes first.

    A record of no bytes is a null row and has empty fields. Returns -1 or the index of the record that lies."""
    cdef Py_ssize_t i, k, n = offsets.shape[0] - 1, fields = widths.shape[0]
    cdef int64_t at, end, length, size = data.shape[0]
    cdef const uint8_t *base = &data[0] if size > 0 else NULL
    if n < 0 or starts.shape[0] != fields or starts.shape[1] != n or sizes.shape[0] != fields or sizes.shape[1] != n:
        return 0
    if prefixes.shape[0] != fields:
        return 0
    for k in range(fields):
        if widths[k] < 0 and prefixes[k] not in (4, 8):
            return 0
    with nogil:
        for i in range(n):
            at = offsets[i]
            end = offsets[i + 1]
            if at < 0 or end < at or end > size:
                with gil:
                    return i
            for k in range(fields):
                if offsets[i] == end:
                    starts[k, i] = at
                    sizes[k, i] = 0
                    continue
                if widths[k] >= 0:
                    length = widths[k]
                else:
                    if prefixes[k] > end - at:
                        with gil:
                            return i
                    length = _length(base + at, <int>prefixes[k])
                    at += prefixes[k]
                if length < 0 or length > end - at:
                    with gil:
                        return i
                starts[k, i] = at
                sizes[k, i] = length
                at += length
            if at != end:
                with gil:
                    return i
    return -1


def gather_slices(
    const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] sizes, int64_t pad, uint8_t[::1] out,
):
    """Join slices; one shorter than ``pad`` bytes is followed by zeros. Returns -1 or the index of one that lies."""
    cdef Py_ssize_t i, n = starts.shape[0]
    cdef int64_t done = 0, size, end = data.shape[0], limit = out.shape[0]
    if sizes.shape[0] != n or pad < 0:
        return 0
    with nogil:
        for i in range(n):
            size = sizes[i]
            if size < 0 or size > end or starts[i] < 0 or starts[i] > end - size or max(size, pad) > limit - done:
                with gil:
                    return i
            if size > 0:
                memcpy(&out[0] + done, &data[0] + starts[i], size)
            if size < pad:
                memset(&out[0] + done + size, 0, pad - size)
            done += max(size, pad)
    return -1

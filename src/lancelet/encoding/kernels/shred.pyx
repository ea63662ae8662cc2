# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From Arrow's validity and offsets to repetition and definition levels (spec encodings.md 2.4).

Layers are visited from the outside in. A level entry is *closed* when a list around it is null or empty (or a
struct around that list is null): its definition level is above ``open_up_to`` and it owns no slot further in.
The open entries are one to one with the slots of the layer at hand.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

ctypedef fused offset_t:
    int32_t
    int64_t


cdef inline bint _bit(const uint8_t *bits, int64_t at) noexcept nogil:
    return (bits[at >> 3] >> (at & 7)) & 1


def item_layer(uint16_t[::1] defs, uint16_t open_up_to, uint16_t level, const uint8_t[::1] bits, int64_t first):
    """Give ``level`` to open entries whose slot is null; slot k is valid when bit first + k is set. Returns the slots."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef int64_t slot = first, limit = bits.shape[0] * 8
    cdef uint16_t null
    if first < 0:
        raise ValueError("a negative bit")
    with nogil:
        if open_up_to == 65535 and limit - first >= n:
            for i in range(n):
                null = <uint16_t>(level if not _bit(&bits[0], first + i) else 0)
                defs[i] = defs[i] if defs[i] else null
            slot = first + n
        else:
            for i in range(n):
                if defs[i] > open_up_to:
                    continue
                if slot >= limit:
                    with gil:
                        raise ValueError("more slots than validity bits")
                if defs[i] == 0 and not _bit(&bits[0], slot):
                    defs[i] = level
                slot += 1
    return slot - first


def list_totals(const uint16_t[::1] defs, uint16_t open_up_to, const uint8_t[::1] bits, int64_t first,
                const offset_t[::1] offsets, int64_t[::1] lengths):
    """What a list layer makes: (entries, items kept).

    Slot k is the list offsets[k]:offsets[k + 1]; ``bits`` may be empty when all are valid. ``lengths``,
    unless empty, receives the items of each list, none for a list that is null or under a null struct."""
    cdef Py_ssize_t i, n = defs.shape[0], slots = offsets.shape[0] - 1
    cdef int64_t slot = 0, entries = 0, items = 0, length
    cdef bint nulls = bits.shape[0] > 0, ranges = lengths.shape[0] > 0
    if ranges and lengths.shape[0] < slots:
        raise ValueError("outputs are too small")
    if first < 0 or (nulls and bits.shape[0] * 8 < first + slots):
        raise ValueError("validity is too short")
    with nogil:
        for i in range(n):
            if defs[i] > open_up_to:
                entries += 1
                continue
            if slot >= slots:
                with gil:
                    raise ValueError("more entries than lists")
            length = <int64_t>offsets[slot + 1] - offsets[slot]
            if length < 0:
                with gil:
                    raise ValueError("list offsets that fall")
            if defs[i] != 0 or (nulls and not _bit(&bits[0], first + slot)):
                length = 0
            if ranges:
                lengths[slot] = length
            items += length
            entries += length if length > 0 else 1
            slot += 1
    if slot != slots:
        raise ValueError("more lists than entries")
    return entries, items


def list_layer(const uint16_t[::1] reps, const uint16_t[::1] defs, uint16_t open_up_to, uint16_t rep, uint16_t level,
               const uint8_t[::1] bits, int64_t first, const offset_t[::1] offsets,
               uint16_t[::1] out_reps, uint16_t[::1] out_defs):
    """Levels one list layer further in: a null list gets ``level``, an empty one level + 1.

    ``out_reps`` and ``out_defs`` come filled with zeros, as many as :func:`list_totals` counted; ``reps`` is empty
    for the outermost list."""
    cdef Py_ssize_t i, n = defs.shape[0], total = out_reps.shape[0], slots = offsets.shape[0] - 1
    cdef int64_t slot = 0, at = 0, length
    cdef uint16_t own
    cdef bint nulls = bits.shape[0] > 0, nested = reps.shape[0] > 0
    if out_defs.shape[0] != total or (nested and reps.shape[0] != n):
        raise ValueError("levels differ in length")
    if first < 0 or (nulls and bits.shape[0] * 8 < first + slots):
        raise ValueError("validity is too short")
    with nogil:
        for i in range(n):
            own = reps[i] if nested and reps[i] else rep
            length = 1
            if at >= total:
                break
            if defs[i] > open_up_to:
                out_defs[at] = defs[i]
            else:
                if slot >= slots:
                    break
                if defs[i] != 0:
                    out_defs[at] = defs[i]
                elif nulls and not _bit(&bits[0], first + slot):
                    out_defs[at] = level
                else:
                    length = <int64_t>offsets[slot + 1] - offsets[slot]
                    if length == 0:
                        out_defs[at] = level + 1
                        length = 1
                slot += 1
            out_reps[at] = own
            at += length
    if at != total:
        raise ValueError(f"{at} entries where {total} were counted")


def end_offsets(const offset_t[::1] offsets, const uint8_t[::1] bits, uint64_t above, uint64_t[::1] ends):
    """Where values end, counted from the start of the first; ``above`` more where a value is null.

    Bit k of ``bits`` is set where value k counts; no bits when all do."""
    cdef Py_ssize_t i, n = ends.shape[0]
    cdef bint nulls = bits.shape[0] > 0, falls = False
    cdef int64_t start
    if offsets.shape[0] != n + 1 or (nulls and bits.shape[0] * 8 < n):
        raise ValueError("offsets, validity and output differ in length")
    start = offsets[0]
    with nogil:
        for i in range(n):
            falls |= offsets[i + 1] < offsets[i]
            ends[i] = <uint64_t>(<int64_t>offsets[i + 1] - start)
        if nulls:
            for i in range(n):
                ends[i] += 0 if _bit(&bits[0], i) else above
    if falls:
        raise ValueError("offsets that fall")


def mark_levels(const uint16_t[::1] defs, uint8_t[::1] present):
    """Set a mark for each level that occurs."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef int64_t limit = present.shape[0]
    cdef uint64_t seen = 0
    cdef uint16_t top = 0
    with nogil:
        for i in range(n):
            top = top if top > defs[i] else defs[i]
        if top >= limit:
            with gil:
                raise ValueError("a level above the greatest")
        if top < 64:
            for i in range(n):
                seen |= <uint64_t>1 << defs[i]
            for i in range(top + 1):
                present[i] = (seen >> i) & 1
        else:
            for i in range(n):
                present[defs[i]] = 1


def entry_bounds(const uint16_t[::1] defs, uint16_t max_visible, const int64_t[::1] counts, int64_t[::1] bounds):
    """Where chunks of ``counts`` visible items begin and end among the entries; the last takes all that is left."""
    cdef Py_ssize_t i, n = defs.shape[0], chunk = 0, chunks = counts.shape[0]
    cdef int64_t left
    if bounds.shape[0] < chunks + 1 or chunks == 0:
        raise ValueError("output is too small")
    bounds[0] = 0
    left = counts[0]
    with nogil:
        for i in range(n):
            if defs[i] > max_visible:
                continue
            left -= 1
            if left == 0 and chunk < chunks - 1:
                chunk += 1
                bounds[chunk] = i + 1
                left = counts[chunk]
    if chunk != chunks - 1 or left != 0:
        raise ValueError("chunks do not hold all items")
    bounds[chunks] = n


def widest_chunk(const uint16_t[::1] defs, uint16_t max_visible, int64_t quota, int64_t[::1] ring):
    """The most entries that a chunk of up to ``quota`` visible items can come to hold; ``ring`` has ``quota`` words."""
    cdef Py_ssize_t i, n = defs.shape[0]
    cdef int64_t seen = 0, widest = 0, start
    if ring.shape[0] < quota or quota < 1:
        raise ValueError("ring is too small")
    with nogil:
        for i in range(n):
            if defs[i] > max_visible:
                continue
            # Starts after the visible item ``quota`` before this one, ends here.
            start = 0 if seen < quota else ring[seen % quota]
            widest = max(widest, i + 1 - start)
            ring[seen % quota] = i + 1
            seen += 1
        start = 0 if seen < quota else ring[seen % quota]
        widest = max(widest, n - start)
    return widest


def repetition_index(const uint16_t[::1] reps, uint16_t row, const int64_t[::1] bounds, int64_t[:, ::1] index):
    """Rows that end in each chunk, and entries after the last of those ends (spec 3.4)."""
    cdef Py_ssize_t c, n = bounds.shape[0] - 1
    cdef int64_t i, ends, start, total = reps.shape[0]
    if index.shape[0] < n or index.shape[1] != 2 or bounds[n] != total:
        raise ValueError("output is too small")
    with nogil:
        for c in range(n):
            ends = 0
            start = bounds[c]
            for i in range(bounds[c] + 1, bounds[c + 1]):
                if reps[i] == row:
                    ends += 1
                    start = i
            # The chunk's first entry ends nothing here: the row before it ended in the chunk before.
            if bounds[c + 1] == total or reps[bounds[c + 1]] == row:
                ends += 1
                start = bounds[c + 1]
            index[c, 0] = ends
            index[c, 1] = bounds[c + 1] - start


def row_cuts(const uint16_t[::1] reps, const uint16_t[::1] defs, uint16_t row, uint16_t max_visible, int64_t budget,
             int64_t[:, ::1] cuts):
    """Cut entries at row starts into parts of at most ``budget`` entries: (entry, row, visible item) where each begins.

    A row that is larger is a part by itself. Returns the number of parts; the entry after them is the end."""
    cdef Py_ssize_t i, n = reps.shape[0], parts = 0
    cdef int64_t begin = 0, last = 0, rows = 0, visible = 0, last_row = 0, last_visible = 0
    with nogil:
        for i in range(n + 1):
            if i == n or reps[i] == row:
                if i - begin > budget and last > begin:
                    parts = _cut(cuts, parts, last, last_row, last_visible)
                    begin = last
                if i - begin > budget and i < n:
                    parts = _cut(cuts, parts, i, rows, visible)
                    begin = i
                last = i
                last_row = rows
                last_visible = visible
                rows += 1
            if i < n:
                visible += defs[i] <= max_visible
            if parts < 0:
                break
    if parts < 0:
        raise ValueError("output is too small")
    return parts + 1


cdef inline Py_ssize_t _cut(int64_t[:, ::1] cuts, Py_ssize_t parts, int64_t entry, int64_t row, int64_t visible) noexcept nogil:
    if parts < 0 or parts + 1 >= cuts.shape[0]:
        return -1
    cuts[parts + 1, 0] = entry
    cuts[parts + 1, 1] = row
    cuts[parts + 1, 2] = visible
    return parts + 1

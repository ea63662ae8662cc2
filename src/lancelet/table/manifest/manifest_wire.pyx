"""Take the bytes of a Manifest message apart: its fragments, each still as bytes, and the rest.

Versions of a table share most of their fragments, byte for byte. Whoever reads
hundreds of versions compares these bytes and parses only what is new.
"""

from cpython.bytearray cimport PyByteArray_Resize
from libc.stdint cimport int64_t, uint8_t, uint64_t

from lancelet.table.rows.varint cimport read_varint

cdef enum:
    FRAGMENT = 0x12  # field 2, behind a length


cdef bint _read_head(const uint8_t* raw, Py_ssize_t* at, Py_ssize_t stop, uint64_t* tag, uint64_t* length) noexcept nogil:
    """Read what stands before the content of a field, and how long that is, all of which is there; numbers are all head."""
    if not read_varint(raw, at, stop, tag):
        return False
    if tag[0] & 7 == 0:
        if not read_varint(raw, at, stop, length):
            return False
        length[0] = 0
    elif tag[0] & 7 == 1:
        length[0] = 8
    elif tag[0] & 7 == 5:
        length[0] = 4
    elif tag[0] & 7 != 2 or not read_varint(raw, at, stop, length):
        return False
    return length[0] <= <uint64_t>(stop - at[0])


def split_manifest(bytes data not None):
    """``(rest, fragments)``; None when the bytes are not plainly fields one after another."""
    cdef const uint8_t* raw = data
    cdef Py_ssize_t stop = len(data)
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t kept = 0  # where the run of other fields begins that ends at `begin`
    cdef uint64_t tag = 0
    cdef uint64_t length = 0
    cdef list fragments = []
    cdef list rest = []
    while at < stop:
        begin = at
        if not _read_head(raw, &at, stop, &tag, &length):
            return None
        if tag == FRAGMENT:
            fragments.append(raw[at:at + <Py_ssize_t>length])
            if kept < begin:
                rest.append(raw[kept:begin])
            kept = at + <Py_ssize_t>length
        at += <Py_ssize_t>length
    if kept < stop:
        rest.append(raw[kept:stop])
    return b"".join(rest), fragments


cdef enum:
    # What a fragment has, as bits.
    DELETIONS = 1
    SPILLED = 2
    ROW_IDS = 4
    MOST_ID = 0xFFFFFFFF

cdef uint64_t MOST_ROWS = 0x100000000

HAS_DELETIONS, HAS_SPILLED, HAS_ROW_IDS = DELETIONS, SPILLED, ROW_IDS


def survey_fragments(bytes data not None):
    """``(rest, fragments, ids, marks, ends, any, all, greatest, rise, physical, live)``: the fragments as one piece of bytes; id
    and marks of each and where each ends, as bytes of 8, 1 and 8; marks that any and that all of them have; the greatest id,
    or -1; whether ids rise; of each the rows and the rows that are not deleted, as bytes of 8, -1 where it does not say, and no
    bytes at all where one of them cannot have so many.

    None when there is anything but what every reader knows, in which case the message has to be parsed: fields without
    a name, overlays, ids of more than 32 bits, files of row ids, or bytes that are not plainly fields one after another.
    """
    cdef const uint8_t* raw = data
    cdef Py_ssize_t stop = len(data), at = 0, begin = 0, kept = 0, taken = 0, count = 0
    cdef uint64_t tag = 0, length = 0
    cdef list rest = [], pieces = []
    cdef Fragment found
    cdef bytearray grown, ids = bytearray(), marks = bytearray(), ends = bytearray(), physical = bytearray(), live = bytearray()
    cdef bint counted = True
    cdef uint64_t end = 0, last = 0, greatest = 0
    cdef uint8_t any_marks = 0, all_marks = 0xFF
    cdef Py_ssize_t room = 0
    cdef bint rise = True
    while at < stop:
        begin = at
        if not _read_head(raw, &at, stop, &tag, &length):
            return None
        if tag == FRAGMENT:
            if not _survey(raw, at, at + <Py_ssize_t>length, &found):
                return None
            if count == room:
                room += room + 16
                PyByteArray_Resize(marks, room)
                for grown in (ids, ends, physical, live):
                    PyByteArray_Resize(grown, 8 * room)
            (<uint64_t*><char*>ids)[count] = found.id
            (<uint8_t*><char*>marks)[count] = found.marks
            counted &= found.rows <= MOST_ROWS and found.deleted <= found.rows
            (<int64_t*><char*>physical)[count] = <int64_t>found.rows if found.rows else -1
            (<int64_t*><char*>live)[count] = _live(&found)
            any_marks |= found.marks
            all_marks &= found.marks
            rise &= found.id >= last
            last = found.id
            greatest = max(greatest, last)
            end += at + length - begin
            (<uint64_t*><char*>ends)[count] = end
            count += 1
            if kept < begin:
                rest.append(raw[kept:begin])
                if taken < kept:
                    pieces.append(raw[taken:kept])
                taken = begin
            kept = at + <Py_ssize_t>length
        at += <Py_ssize_t>length
    if taken < kept:
        pieces.append(raw[taken:kept])
    if kept < stop:
        rest.append(raw[kept:stop])
    return b"".join(rest), b"".join(pieces), bytes(ids[:8 * count]), bytes(marks[:count]), bytes(ends[:8 * count]), \
        any_marks, all_marks, <int64_t>greatest if count else -1, bool(rise), \
        bytes(physical[:8 * count]) if counted else b"", bytes(live[:8 * count]) if counted else b""


cdef struct Fragment:
    uint64_t id
    uint8_t marks
    uint64_t rows
    uint64_t deleted


cdef inline int64_t _live(const Fragment* found) noexcept nogil:
    """Rows that are not deleted; -1 where only the files know. None are said to be deleted by who did not count them."""
    if found.rows == 0 or (found.marks & DELETIONS and found.deleted == 0):
        return -1
    return <int64_t>(found.rows - found.deleted)


cdef bint _survey(const uint8_t* raw, Py_ssize_t at, Py_ssize_t stop, Fragment* found) noexcept nogil:
    """Read one DataFragment; False when it has to be parsed."""
    cdef uint64_t tag = 0, value = 0
    cdef int number, pair, pairs = 0
    found.id = found.rows = found.deleted = 0
    found.marks = 0
    while at < stop:
        if not read_varint(raw, &at, stop, &tag) or not read_varint(raw, &at, stop, &value):
            return False
        number = <int>(tag >> 3) if tag < 1000 else 0
        if tag & 7 == 0:
            if number == 1:
                found.id = value
            elif number == 4:
                found.rows = value
            else:
                return False
            continue
        if tag & 7 != 2 or value > <uint64_t>(stop - at):
            return False
        if number == 2:
            if not _is_plain(raw, at, at + <Py_ssize_t>value, FILE_NUMBERS, FILE_BYTES, NULL):
                return False
        elif number == 3:
            found.marks |= DELETIONS
            if not _is_plain(raw, at, at + <Py_ssize_t>value, DELETION_NUMBERS, 0, &found.deleted):
                return False
        elif number == 5 or number == 7 or number == 9 or (12 <= number <= 14 and value == 0):
            # Of each pair a fragment has one.
            pair = 1 << (number - 12 if number >= 12 else (number - 5) // 2)
            if pairs & pair:
                return False
            pairs |= pair
            found.marks |= (SPILLED if number >= 12 else 0) | (ROW_IDS if pair == 1 else 0)
        elif number == 16:
            if not _is_plain(raw, at, at + <Py_ssize_t>value, 0, ENTRY_BYTES, NULL):
                return False
        else:
            return False
        at += <Py_ssize_t>value
    return found.id <= MOST_ID


cdef enum:
    # Bit n stands for field n, by how it is stored.
    FILE_NUMBERS = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7
    FILE_BYTES = 1 << 1 | 1 << 2 | 1 << 3
    DELETION_NUMBERS = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7
    ENTRY_BYTES = 1 << 1 | 1 << 2


cdef bint _is_plain(
    const uint8_t* raw, Py_ssize_t at, Py_ssize_t stop, int numbers, int strings, uint64_t* fourth
) noexcept nogil:
    """Whether a message has none but these fields: numbers, and what stands behind a length. ``fourth`` gets the number of field 4."""
    cdef uint64_t tag = 0, value = 0
    while at < stop:
        if not read_varint(raw, &at, stop, &tag) or not read_varint(raw, &at, stop, &value) or tag >= 64 + 8:
            return False
        if tag & 7 == 0:
            if not numbers >> (tag >> 3) & 1:
                return False
            if fourth != NULL and tag >> 3 == 4:
                fourth[0] = value
        elif tag & 7 == 2:
            if not strings >> (tag >> 3) & 1 or value > <uint64_t>(stop - at):
                return False
            at += <Py_ssize_t>value
        else:
            return False
    return True

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""JSONB, the binary form of JSON columns, to text and back (spec file-format.md 2.5).

All words are big-endian u32::

    container   header | entries | data           header: 0x80 array, 0x40 object, 0x20 one scalar; count below
    entry       kind in the top nibble, length of its data in the other 28 bits
                0 null, 1 string, 2 number, 3 false, 4 true, 5 container
    object      entries of all keys, entries of all values, then keys and values; keys sorted bytewise
    number      a tag, then big-endian bytes:
                0x00 zero, 0x10 NaN, 0x20 inf, 0x30 -inf, 0x40 signed (1, 2, 4, 8 bytes), 0x50 unsigned, 0x60 double
"""

from cpython.mem cimport PyMem_Free
from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char format_code, int precision, int flags, int *ptype)

MAX_DEPTH = 1024
GOOD = 0
TOO_SHORT = 1
BAD_KIND = 2
BAD_NUMBER = 3
TOO_DEEP = 4
NO_MEMORY = 5

cdef enum:
    _GOOD = 0
    _TOO_SHORT = 1
    _BAD_KIND = 2
    _BAD_NUMBER = 3
    _TOO_DEEP = 4
    _NO_MEMORY = 5
    _DEPTH = 1024

cdef const char *HEX = b"0123456789abcdef"


cdef int reserve(Text *out, int64_t more) noexcept nogil:
    cdef int64_t room
    cdef uint8_t *grown
    if out.size + more <= out.room:
        return _GOOD
    room = (out.size + more) * 2 + 256
    grown = <uint8_t *>realloc(out.data, room)
    if grown == NULL:
        return _NO_MEMORY
    out.data = grown
    out.room = room
    return _GOOD


cdef int put(Text *out, const char *text, int64_t size) noexcept nogil:
    if reserve(out, size):
        return _NO_MEMORY
    memcpy(out.data + out.size, text, size)
    out.size += size
    return _GOOD


cdef bytes taken(Text *out):
    """The bytes of a text, which is gone then."""
    try:
        return (<char *>out.data)[:out.size] if out.size else b""
    finally:
        free(out.data)


cdef inline uint32_t word(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef int put_string(Text *out, const uint8_t *at, int64_t size) noexcept nogil:
    cdef int64_t i
    cdef uint8_t c, short
    cdef uint8_t *to
    if reserve(out, 6 * size + 2):
        return _NO_MEMORY
    to = out.data + out.size
    to[0] = 34
    to += 1
    for i in range(size):
        c = at[i]
        if c >= 32 and c != 34 and c != 92:
            to[0] = c
            to += 1
            continue
        short = 0
        if c == 34 or c == 92:
            short = c
        elif c == 8:
            short = 98
        elif c == 9:
            short = 116
        elif c == 10:
            short = 110
        elif c == 12:
            short = 102
        elif c == 13:
            short = 114
        to[0] = 92
        if short:
            to[1] = short
            to += 2
        else:
            memcpy(to + 1, b"u00", 3)
            to[4] = HEX[c >> 4]
            to[5] = HEX[c & 15]
            to += 6
    to[0] = 34
    out.size = to + 1 - out.data
    return _GOOD


cdef int put_unsigned(Text *out, uint64_t value, bint negative) noexcept nogil:
    cdef char[24] digits
    cdef int at = 24
    while True:
        at -= 1
        digits[at] = 48 + value % 10
        value //= 10
        if value == 0:
            break
    if negative:
        at -= 1
        digits[at] = 45
    return put(out, &digits[at], 24 - at)


cdef int put_double(Text *out, double value) noexcept nogil:
    """The shortest digits that read back the same; an exponent below 1e-5 and from 1e16 on."""
    cdef char *text
    cdef char[32] digits
    cdef char[48] result
    cdef int i = 0, count = 0, leading = 0, point = -1, exponent = 0, sign = 1, at = 0, k
    if not isfinite(value):
        return put(out, b"null", 4)
    with gil:
        text = PyOS_double_to_string(value, b"r", 0, 0, NULL)
    if text == NULL:
        return _NO_MEMORY
    if text[0] == 45:
        result[0] = 45
        at = 1
        i = 1
    while text[i] != 0 and text[i] != 101:
        if text[i] == 46:
            point = count + leading
        elif count == 0 and text[i] == 48:
            leading += 1
        else:
            digits[count] = text[i]
            count += 1
        i += 1
    if point < 0:
        point = count + leading
    if text[i] == 101:
        i += 1
        if text[i] == 45:
            sign = -1
        if text[i] == 45 or text[i] == 43:
            i += 1
        while text[i] != 0:
            exponent = exponent * 10 + text[i] - 48
            i += 1
    with gil:
        PyMem_Free(text)
    exponent = sign * exponent + point - leading - 1
    while count > 1 and digits[count - 1] == 48:
        count -= 1
    if count == 0:
        memcpy(result + at, b"0.0", 3)
        return put(out, result, at + 3)
    if -5 <= exponent < 0:
        memcpy(result + at, b"0.0000", 6)
        at += 1 - exponent
        memcpy(result + at, digits, count)
        return put(out, result, at + count)
    if 0 <= exponent < 16:
        for k in range(exponent + 1):
            result[at] = digits[k] if k < count else 48
            at += 1
        result[at] = 46
        at += 1
        if count <= exponent + 1:
            result[at] = 48
            return put(out, result, at + 1)
        memcpy(result + at, digits + exponent + 1, count - exponent - 1)
        return put(out, result, at + count - exponent - 1)
    result[at] = digits[0]
    at += 1
    if count > 1:
        result[at] = 46
        memcpy(result + at + 1, digits + 1, count - 1)
        at += count
    result[at] = 101
    result[at + 1] = 45 if exponent < 0 else 43
    if put(out, result, at + 2):
        return _NO_MEMORY
    return put_unsigned(out, <uint64_t>(-exponent if exponent < 0 else exponent), False)


cdef int put_number(Text *out, const uint8_t *at, int64_t size) noexcept nogil:
    cdef uint64_t bits = 0
    cdef int64_t i
    cdef double value
    cdef uint8_t tag
    if size < 1:
        return _BAD_NUMBER
    tag = at[0]
    size -= 1
    if tag <= 0x30 and tag & 15 == 0:
        if size != 0:
            return _BAD_NUMBER
        return put(out, b"0", 1) if tag == 0 else put(out, b"null", 4)
    if size != 1 and size != 2 and size != 4 and size != 8:
        return _BAD_NUMBER
    for i in range(1, size + 1):
        bits = (bits << 8) | at[i]
    if tag == 0x50:
        return put_unsigned(out, bits, False)
    if tag == 0x40:
        if at[1] & 0x80:
            # Sign-extended, then negated: the magnitude, also of the smallest number.
            if size < 8:
                bits |= (<uint64_t>0xFFFFFFFFFFFFFFFF) << (8 * size)
            return put_unsigned(out, ~bits + 1, True)
        return put_unsigned(out, bits, False)
    if tag == 0x60 and size == 8:
        memcpy(&value, &bits, 8)
        return put_double(out, value)
    return _BAD_NUMBER


cdef int put_value(Text *out, uint32_t entry, const uint8_t *at, int depth) noexcept nogil:
    cdef uint32_t kind = entry >> 28
    cdef int64_t size = entry & 0x0FFFFFFF
    if kind == 1:
        return put_string(out, at, size)
    if kind == 2:
        return put_number(out, at, size)
    if kind == 5:
        return put_container(out, at, size, depth + 1)
    if size != 0:
        return _BAD_KIND
    if kind == 0:
        return put(out, b"null", 4)
    if kind == 3:
        return put(out, b"false", 5)
    if kind == 4:
        return put(out, b"true", 4)
    return _BAD_KIND


cdef int put_container(Text *out, const uint8_t *at, int64_t size, int depth) noexcept nogil:
    cdef uint32_t header, kind
    cdef int64_t count, i, key_at, value_at, length
    cdef int status
    if depth > _DEPTH:
        return _TOO_DEEP
    if size < 4:
        return _TOO_SHORT
    header = word(at)
    kind = header >> 29
    count = header & 0x1FFFFFFF
    if kind == 1:
        # A lone scalar: only at the top, one entry, no count.
        if size < 8:
            return _TOO_SHORT
        header = word(at + 4)
        if depth > 1 or count != 0 or header >> 28 == 5:
            return _BAD_KIND
        if (header & 0x0FFFFFFF) != size - 8:
            return _TOO_SHORT
        return put_value(out, header, at + 8, depth)
    if kind == 4:
        value_at = 4 + 4 * count
        if value_at > size:
            return _TOO_SHORT
        if put(out, b"[", 1):
            return _NO_MEMORY
        for i in range(count):
            header = word(at + 4 + 4 * i)
            length = header & 0x0FFFFFFF
            if length > size - value_at:
                return _TOO_SHORT
            if i > 0 and put(out, b",", 1):
                return _NO_MEMORY
            status = put_value(out, header, at + value_at, depth)
            if status:
                return status
            value_at += length
        return put(out, b"]", 1)
    if kind != 2:
        return _BAD_KIND
    key_at = 4 + 8 * count
    if key_at > size:
        return _TOO_SHORT
    value_at = key_at
    for i in range(count):
        header = word(at + 4 + 4 * i)
        if header >> 28 != 1:
            return _BAD_KIND
        value_at += header & 0x0FFFFFFF
        if value_at > size:
            return _TOO_SHORT
    if put(out, b"{", 1):
        return _NO_MEMORY
    for i in range(count):
        if i > 0 and put(out, b",", 1):
            return _NO_MEMORY
        length = word(at + 4 + 4 * i) & 0x0FFFFFFF
        if put_string(out, at + key_at, length) or put(out, b":", 1):
            return _NO_MEMORY
        key_at += length
        header = word(at + 4 + 4 * (count + i))
        length = header & 0x0FFFFFFF
        if length > size - value_at:
            return _TOO_SHORT
        status = put_value(out, header, at + value_at, depth)
        if status:
            return status
        value_at += length
    return put(out, b"}", 1)


def to_text(const uint8_t[::1] data, const int64_t[::1] offsets, const uint8_t[::1] valid, int64_t[::1] out_offsets):
    """Text of value i = data[offsets[i]:offsets[i + 1]], nothing for those not valid.

    Fills ``out_offsets`` and returns (text, -1, 0), or (b"", index of the first value that lies, why).
    """
    cdef Py_ssize_t i = 0, n = offsets.shape[0] - 1
    cdef int64_t size = data.shape[0]
    cdef int status = _GOOD
    cdef Text out
    cdef const uint8_t *at = &data[0] if size > 0 else NULL
    out.data = NULL
    out.size = out.room = 0
    if valid.shape[0] != n or out_offsets.shape[0] != n + 1:
        return b"", 0, _TOO_SHORT
    with nogil:
        out_offsets[0] = 0
        for i in range(n):
            if valid[i]:
                if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                    status = _TOO_SHORT
                else:
                    status = put_container(&out, at + offsets[i], offsets[i + 1] - offsets[i], 1)
                if status:
                    break
            out_offsets[i + 1] = out.size
    found = taken(&out)
    if status:
        return b"", i, status
    return found, -1, 0


class JsonError(ValueError):
    """Text that is not JSON; ``args`` are the reason and the byte offset."""


cdef class Parser:
    """One JSON text to JSONB. A value is an entry and its data; Python bytes hold the pieces."""

    cdef const uint8_t *text
    cdef Py_ssize_t at, end

    cdef int peek(self) except -2:
        """The next byte that is not white space, -1 at the end."""
        cdef uint8_t c
        while self.at < self.end:
            c = self.text[self.at]
            if c != 32 and (c < 9 or c > 13 or c == 11):
                return c
            self.at += 1
        return -1

    cdef fail(self, str reason):
        raise JsonError(reason, self.at)

    cdef bytes parse(self):
        cdef uint32_t entry = 0
        cdef bytes data = self.value(&entry, 0)
        if self.peek() != -1:
            self.fail("more text after the value")
        if entry >> 28 == 5:
            return data
        return b"\x20\x00\x00\x00" + packed(entry) + data

    cdef bytes value(self, uint32_t *entry, int depth):
        cdef int c = self.peek()
        cdef bytes data
        if c == 123 or c == 91:
            if depth >= _DEPTH:
                self.fail(f"nested deeper than {_DEPTH} levels")
            data = self.members(depth) if c == 123 else self.elements(depth)
            entry[0] = self.sized(5, data)
            return data
        if c == 34:
            data = self.string()
            entry[0] = self.sized(1, data)
            return data
        if c == 45 or 48 <= c <= 57:
            data = self.number()
            entry[0] = self.sized(2, data)
            return data
        if c == 110 and self.literal(b"null"):
            entry[0] = 0
        elif c == 116 and self.literal(b"true"):
            entry[0] = 4 << 28
        elif c == 102 and self.literal(b"false"):
            entry[0] = 3 << 28
        else:
            self.fail("a value is expected")
        return b""

    cdef uint32_t sized(self, uint32_t kind, bytes data) except? 0:
        if len(data) > 0x0FFFFFFF:
            self.fail("a value is larger than 256 MiB")
        return kind << 28 | <uint32_t>len(data)

    cdef bint literal(self, bytes name) except -1:
        cdef Py_ssize_t size = len(name)
        if self.end - self.at < size or (<const char *>self.text)[self.at:self.at + size] != name:
            return False
        self.at += size
        return True

    cdef bytes elements(self, int depth):
        cdef list entries = [], values = []
        cdef uint32_t entry = 0
        cdef int c
        self.at += 1
        if self.peek() == 93:
            self.at += 1
            return b"\x80\x00\x00\x00"
        while True:
            values.append(self.value(&entry, depth + 1))
            entries.append(packed(entry))
            c = self.peek()
            self.at += 1
            if c == 93:
                return packed(0x80000000 | <uint32_t>len(entries)) + b"".join(entries) + b"".join(values)
            if c != 44:
                self.at -= 1
                self.fail("',' or ']' is expected")

    cdef bytes members(self, int depth):
        cdef dict found = {}
        cdef uint32_t entry = 0
        cdef int c
        cdef bytes key
        self.at += 1
        if self.peek() == 125:
            self.at += 1
            return b"\x40\x00\x00\x00"
        while True:
            if self.peek() != 34:
                self.fail("a name in quotes is expected")
            key = self.string()
            if key in found:
                self.fail("the name occurs twice in one object: " + key.decode(errors="replace"))
            if self.peek() != 58:
                self.fail("':' is expected")
            self.at += 1
            value = self.value(&entry, depth + 1)
            found[key] = (packed(entry), value)
            c = self.peek()
            self.at += 1
            if c == 125:
                break
            if c != 44:
                self.at -= 1
                self.fail("',' or '}' is expected")
        keys = sorted(found)
        return b"".join([
            packed(0x40000000 | <uint32_t>len(keys)),
            *[packed(self.sized(1, key)) for key in keys],
            *[found[key][0] for key in keys],
            *keys,
            *[found[key][1] for key in keys],
        ])

    cdef bytes string(self):
        cdef Py_ssize_t start
        cdef uint8_t c
        cdef list pieces = []
        self.at += 1
        start = self.at
        while self.at < self.end:
            c = self.text[self.at]
            if c == 34:
                pieces.append((<const char *>self.text)[start:self.at])
                self.at += 1
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if c == 92:
                pieces.append((<const char *>self.text)[start:self.at])
                pieces.append(self.escape())
                start = self.at
            else:
                self.at += 1
        self.fail("the text ends inside a string")

    cdef bytes escape(self):
        cdef Py_ssize_t start = self.at
        cdef int c = self.text[self.at + 1] if self.at + 1 < self.end else -1
        cdef int unit, low
        self.at += 2
        if c == 117:
            unit = self.hexadecimal()
            if 0xD800 <= unit < 0xDC00 and self.end - self.at >= 6 and self.text[self.at] == 92 and self.text[self.at + 1] == 117:
                self.at += 2
                low = self.hexadecimal()
                if 0xDC00 <= low < 0xE000:
                    return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)).encode()
            if 0xD800 <= unit < 0xE000:
                # Half a pair is no character; like the reference, keep the escapes themselves as text.
                return (<const char *>self.text)[start:self.at]
            return chr(unit).encode()
        if c == 34 or c == 92 or c == 47:
            return bytes((c,))
        if c == 98:
            return b"\b"
        if c == 102:
            return b"\f"
        if c == 110:
            return b"\n"
        if c == 114:
            return b"\r"
        if c == 116:
            return b"\t"
        self.at = start
        self.fail("an unknown escape")

    cdef int hexadecimal(self) except -1:
        cdef int value = 0, i
        cdef uint8_t c
        if self.end - self.at < 4:
            self.fail("an escape is cut short")
        for i in range(4):
            c = self.text[self.at]
            if 48 <= c <= 57:
                value = value * 16 + c - 48
            elif 65 <= c <= 70:
                value = value * 16 + c - 55
            elif 97 <= c <= 102:
                value = value * 16 + c - 87
            else:
                self.fail("not a hexadecimal digit")
            self.at += 1
        return value

    cdef Py_ssize_t digits(self) except -1:
        cdef Py_ssize_t start = self.at
        while self.at < self.end and 48 <= self.text[self.at] <= 57:
            self.at += 1
        if self.at == start:
            self.fail("a digit is expected")
        return self.at - start

    cdef bytes number(self):
        cdef Py_ssize_t start = self.at
        cdef bint negative = self.text[self.at] == 45, whole = True
        cdef double value
        cdef uint64_t bits
        if negative:
            self.at += 1
        if self.at < self.end and self.text[self.at] == 48:
            self.at += 1
        else:
            self.digits()
        if self.at < self.end and self.text[self.at] == 46:
            whole = False
            self.at += 1
            self.digits()
        if self.at < self.end and self.text[self.at] | 32 == 101:
            whole = False
            self.at += 1
            if self.at < self.end and (self.text[self.at] == 43 or self.text[self.at] == 45):
                self.at += 1
            self.digits()
        text = (<const char *>self.text)[start:self.at]
        if whole and len(text) <= 20:
            number = int(text)
            if number == 0:
                return b"\x00"
            if -(2**63) <= number < 0:
                return b"\x40" + number.to_bytes(1 if number >= -128 else 2 if number >= -(2**15) else
                                                 4 if number >= -(2**31) else 8, "big", signed=True)
            if 0 < number < 2**64:
                return b"\x50" + number.to_bytes(1 if number < 2**8 else 2 if number < 2**16 else
                                                 4 if number < 2**32 else 8, "big")
        value = float(text)
        if not isfinite(value):
            return b"\x30" if negative else b"\x20"
        memcpy(&bits, &value, 8)
        return b"\x60" + int(bits).to_bytes(8, "big")


cdef bytes packed(uint32_t value):
    cdef uint8_t[4] out
    out[0] = value >> 24
    out[1] = (value >> 16) & 255
    out[2] = (value >> 8) & 255
    out[3] = value & 255
    return (<char *>out)[:4]


def from_text(const uint8_t[::1] data, int64_t start, int64_t stop):
    """JSONB of the JSON text data[start:stop]; raises JsonError."""
    cdef Parser parser = Parser()
    if start < 0 or stop < start or stop > data.shape[0] or start == stop:
        raise JsonError("there is no text", 0)
    parser.text = &data[0] + start
    parser.at = 0
    parser.end = stop - start
    return parser.parse()

"""XXH64 (seed 0) of bytes that come piece by piece."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef uint64_t P1 = 0x9E3779B185EBCA87
cdef uint64_t P2 = 0xC2B2AE3D27D4EB4F
cdef uint64_t P3 = 0x165667B19E3779F9
cdef uint64_t P4 = 0x85EBCA77C2B2AE63
cdef uint64_t P5 = 0x27D4EB2F165667C5

cdef enum:
    STRIPE = 32


cdef inline uint64_t word(const uint8_t * at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint64_t rotated(uint64_t x, int bits) noexcept nogil:
    return x << bits | x >> (64 - bits)


cdef inline uint64_t stirred(uint64_t sum, uint64_t value) noexcept nogil:
    return rotated(sum + value * P2, 31) * P1


cdef class Checksum:
    """A hash under construction."""

    cdef uint64_t a, b, c, d, length
    cdef uint8_t[32] rest

    def __cinit__(self):
        self.a = P1 + P2
        self.b = P2
        self.c = 0
        self.d = 0 - P1
        self.length = 0

    def update(self, const uint8_t[::1] data):
        """Add bytes."""
        cdef int64_t count = data.shape[0]
        cdef int64_t held = self.length % STRIPE
        cdef int64_t more
        cdef const uint8_t * at
        if count == 0:
            return
        at = &data[0]
        self.length += count
        with nogil:
            if held:
                more = min(count, STRIPE - held)
                memcpy(&self.rest[held], at, more)
                at += more
                count -= more
                if held + more == STRIPE:
                    self.stir(&self.rest[0], 1)
            if count >= STRIPE:
                more = count // STRIPE
                self.stir(at, more)
                at += more * STRIPE
                count -= more * STRIPE
            if count:
                memcpy(&self.rest[0], at, count)

    cdef void stir(self, const uint8_t * at, int64_t stripes) noexcept nogil:
        cdef uint64_t a = self.a, b = self.b, c = self.c, d = self.d
        cdef int64_t i
        for i in range(stripes):
            a = stirred(a, word(at))
            b = stirred(b, word(at + 8))
            c = stirred(c, word(at + 16))
            d = stirred(d, word(at + 24))
            at += STRIPE
        self.a, self.b, self.c, self.d = a, b, c, d

    def digest(self):
        """The hash of all bytes so far; more may be added afterwards."""
        cdef uint64_t h
        cdef int64_t at = 0, held = self.length % STRIPE
        cdef uint32_t half
        if self.length >= STRIPE:
            h = rotated(self.a, 1) + rotated(self.b, 7) + rotated(self.c, 12) + rotated(self.d, 18)
            h = (h ^ stirred(0, self.a)) * P1 + P4
            h = (h ^ stirred(0, self.b)) * P1 + P4
            h = (h ^ stirred(0, self.c)) * P1 + P4
            h = (h ^ stirred(0, self.d)) * P1 + P4
        else:
            h = P5
        h += self.length
        while at + 8 <= held:
            h = rotated(h ^ stirred(0, word(&self.rest[at])), 27) * P1 + P4
            at += 8
        if at + 4 <= held:
            memcpy(&half, &self.rest[at], 4)
            h = rotated(h ^ <uint64_t>half * P1, 23) * P2 + P3
            at += 4
        while at < held:
            h = rotated(h ^ self.rest[at] * P5, 11) * P1
            at += 1
        h = (h ^ h >> 33) * P2
        h = (h ^ h >> 29) * P3
        return h ^ h >> 32

# The containers of a Roaring bitmap, one after the other; lancelet.table.rows.roaring draws its layout.

from libc.stdint cimport int64_t, uint8_t

from lancelet.encoding.kernels.words cimport half_at, word_at

cdef enum:
    COOKIE = 12346
    RUN_COOKIE = 12347
    ARRAY_LIMIT = 4096
    BIT_BYTES = 8192
    OFFSETS_FROM = 4
    MAX_CONTAINERS = 65536

# What is wrong with a bitmap.
cdef enum:
    SHORT = -1
    NO_COOKIE = -2
    CONTAINERS = -3


cdef struct Roaring:
    const uint8_t *data
    int64_t length
    int64_t count
    const uint8_t *is_run  # NULL: no container is made of runs
    const uint8_t *header
    int64_t entered  # so many containers
    int64_t at  # where the next one begins


cdef struct Container:
    int64_t key
    int64_t size
    int64_t runs  # -1: it is not made of runs
    const uint8_t *data  # its runs, values or bits


cdef inline int64_t container_bytes(int64_t size) noexcept nogil:
    """Of a container that is not made of runs."""
    return size * 2 if size <= ARRAY_LIMIT else BIT_BYTES


cdef inline int64_t open_roaring(Roaring *bitmap, const uint8_t *data, int64_t length) noexcept nogil:
    """Find the containers of the bitmap that begins here, of at most ``length`` bytes; or tell what is wrong."""
    bitmap.data = data
    bitmap.length = length
    bitmap.is_run = NULL
    bitmap.header = data
    bitmap.count = bitmap.entered = bitmap.at = 0
    if length < 8:
        # The second form begins with 4 bytes, and has 5 or more behind them.
        return SHORT
    if half_at(data) == COOKIE:
        bitmap.count = half_at(data + 4)
        bitmap.at = 8
    elif word_at(data) == RUN_COOKIE:
        bitmap.count = <int64_t>word_at(data + 2) + 1
        bitmap.is_run = data + 4
        bitmap.at = 4 + (bitmap.count + 7) // 8
    else:
        return NO_COOKIE
    if bitmap.count > MAX_CONTAINERS:
        return CONTAINERS
    bitmap.header = data + bitmap.at
    bitmap.at += 4 * bitmap.count
    if bitmap.is_run == NULL or bitmap.count >= OFFSETS_FROM:
        bitmap.at += 4 * bitmap.count
    return SHORT if bitmap.at > length else 0


cdef inline int64_t next_container(Roaring *bitmap, Container *one) noexcept nogil:
    """Enter the next of the ``count`` containers; or tell that its bytes are not all there."""
    cdef int64_t i = bitmap.entered
    one.key = word_at(bitmap.header + 4 * i)
    one.size = <int64_t>word_at(bitmap.header + 4 * i + 2) + 1
    one.runs = -1
    one.data = bitmap.data + bitmap.at
    if bitmap.is_run != NULL and bitmap.is_run[i >> 3] >> (i & 7) & 1:
        if bitmap.at + 2 > bitmap.length:
            return SHORT
        one.runs = word_at(one.data)
        one.data += 2
        bitmap.at += 2
    bitmap.at += container_bytes(one.size) if one.runs < 0 else 4 * one.runs
    bitmap.entered += 1
    return SHORT if bitmap.at > bitmap.length else 0

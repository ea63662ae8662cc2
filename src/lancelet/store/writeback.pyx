# cython: language_level=3
"""Telling the disk to begin, long before a sync waits for it."""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #ifdef __linux__
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    static void lancelet_start_writing(int file, int64_t start, int64_t size) {
        (void)sync_file_range(file, start, size, SYNC_FILE_RANGE_WRITE);
    }
    #else
    static void lancelet_start_writing(int file, int64_t start, int64_t size) {
        (void)file; (void)start; (void)size;
    }
    #endif
    """
    void lancelet_start_writing(int file, int64_t start, int64_t size) nogil


def start_writing(int file, int64_t start, int64_t size):
    """Have some bytes of an open file written out in the background.

    It makes nothing lasting, and failures are left to the sync that has to follow."""
    with nogil:
        lancelet_start_writing(file, start, size)

# cython: language_level=3, boundscheck=False, wraparound=False
"""A whole local file as read-only memory.

The descriptor is closed as soon as the mapping exists, so an open file costs
address space and nothing else. Views made through the buffer protocol keep the
object, and so the mapping, alive. The mapping is shared and read-only: a forked
child sees the same pages, and dropping pages never loses data.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from cpython.exc cimport PyErr_SetFromErrnoWithFilenameObject
from libc.errno cimport EINTR, EISDIR, errno
from libc.stdint cimport int64_t, uint8_t
from posix.mman cimport (
    MADV_DONTNEED,
    MADV_WILLNEED,
    MAP_FAILED,
    MAP_SHARED,
    PROT_READ,
    madvise,
    mmap,
    munmap,
)
from posix.fcntl cimport O_RDONLY, open as c_open
from posix.stat cimport S_ISDIR, fstat, struct_stat
from posix.unistd cimport _SC_PAGESIZE, close, pread, sysconf

import os

cdef extern from "fcntl.h":
    int O_CLOEXEC

cdef Py_ssize_t PAGE = sysconf(_SC_PAGESIZE)


cdef class MappedFile:
    """``MappedFile(path)`` maps the file; ``memoryview`` and ``np.frombuffer`` see its bytes."""

    cdef char* data
    cdef bytes name
    cdef readonly Py_ssize_t size
    cdef object __weakref__

    def __cinit__(self, path):
        cdef bytes name = os.fsencode(path)
        cdef const char* c_name = name
        cdef struct_stat status
        cdef int handle
        cdef int failed = 0
        cdef void* place = NULL
        self.data = NULL
        self.size = 0
        if 0 in name:
            raise ValueError("the path has a null character")
        with nogil:
            handle = c_open(c_name, O_RDONLY | O_CLOEXEC)
            while handle < 0 and errno == EINTR:
                handle = c_open(c_name, O_RDONLY | O_CLOEXEC)
        if handle < 0:
            PyErr_SetFromErrnoWithFilenameObject(OSError, path)
        with nogil:
            if fstat(handle, &status) != 0:
                failed = errno
            elif S_ISDIR(status.st_mode):
                failed = EISDIR
            elif status.st_size > 0:
                place = mmap(NULL, <size_t>status.st_size, PROT_READ, MAP_SHARED, handle, 0)
                if place == MAP_FAILED:
                    failed = errno
            close(handle)
        if failed:
            raise OSError(failed, os.strerror(failed), path)
        self.data = <char*>place
        self.size = status.st_size
        self.name = name

    def __dealloc__(self):
        if self.data != NULL:
            munmap(self.data, <size_t>self.size)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("a mapped file is read-only")
        # A mapping of nothing has no address, but buffers must not be null.
        cdef char* place = self.data if self.data != NULL else <char*>&PAGE
        PyBuffer_FillInfo(buffer, self, place, self.size, 1, flags)

    def release(self, Py_ssize_t start, Py_ssize_t stop):
        """Let the kernel drop the whole pages inside ``[start, stop)``; a later read maps them again."""
        start = max(start, 0)
        start = (start + PAGE - 1) // PAGE * PAGE
        if stop >= self.size:
            stop = (self.size + PAGE - 1) // PAGE * PAGE
        else:
            stop = max(stop, 0) // PAGE * PAGE
        if self.data == NULL or stop <= start:
            return
        with nogil:
            madvise(self.data + start, <size_t>(stop - start), MADV_DONTNEED)

    def read_pieces(self, const int64_t[::1] starts, const int64_t[::1] sizes, uint8_t[::1] out):
        """Read scattered pieces end to end into ``out`` with system calls, so that nothing becomes resident.

        Returns -1, or the index of the piece that could not be read whole."""
        cdef const char* c_name = self.name
        cdef Py_ssize_t i, n = starts.shape[0], bad = -1
        cdef int64_t done = 0, left
        cdef ssize_t got
        cdef int handle
        if sizes.shape[0] != n:
            return 0
        with nogil:
            handle = c_open(c_name, O_RDONLY | O_CLOEXEC)
            while handle < 0 and errno == EINTR:
                handle = c_open(c_name, O_RDONLY | O_CLOEXEC)
        if handle < 0:
            PyErr_SetFromErrnoWithFilenameObject(OSError, os.fsdecode(self.name))
        with nogil:
            for i in range(n):
                if starts[i] < 0 or sizes[i] < 0 or sizes[i] > out.shape[0] - done:
                    bad = i
                    break
                left = sizes[i]
                while left > 0:
                    got = pread(handle, &out[0] + done, <size_t>left, starts[i] + sizes[i] - left)
                    if got < 0 and errno == EINTR:
                        continue
                    if got <= 0:
                        bad = i
                        break
                    done += got
                    left -= got
                if bad >= 0:
                    break
            close(handle)
        return bad

    def prefetch(self, Py_ssize_t start, Py_ssize_t stop):
        """Ask the kernel to read the pages around ``[start, stop)`` ahead."""
        start = max(start, 0) // PAGE * PAGE
        stop = min(stop, self.size)
        if self.data == NULL or stop <= start:
            return
        with nogil:
            madvise(self.data + start, <size_t>(stop - start), MADV_WILLNEED)

"""The nearest centroids of vectors. The work is in ``nearest.h``."""

from libc.stdint cimport uint32_t

import numpy as np


cdef extern from "nearest.h" nogil:
    int LC_BLOCK
    int lc_cpu_level()
    void lc_nearest(const float*, Py_ssize_t, Py_ssize_t, const float*, const float*, Py_ssize_t, uint32_t*, float*)


def cpu_level():
    """Which level of ``cpu.h`` the kernels use here."""
    return lc_cpu_level()


class Centroids:
    """Centroids as the kernel wants them; ``added`` is what the product with a vector is taken from, for each."""

    __slots__ = ("added", "blocks")

    def __init__(self, centroids, added):
        count, width = centroids.shape
        total = -(-max(count, 1) // LC_BLOCK) * LC_BLOCK
        self.added = np.full(total, np.inf, np.float32)
        self.added[:count] = added
        padded = np.zeros((total, width), np.float32)
        padded[:count] = centroids
        self.blocks = np.ascontiguousarray(padded.reshape(-1, LC_BLOCK, width).transpose(0, 2, 1))


def nearest(const float[:, ::1] vectors, centroids):
    """The number of the nearest centroid of each vector, and how near it is: ``added`` less the product of both."""
    cdef const float[:, :, ::1] blocks = centroids.blocks
    cdef const float[::1] added = centroids.added
    cdef Py_ssize_t rows = vectors.shape[0], width = vectors.shape[1]
    if blocks.shape[1] != width or blocks.shape[2] != LC_BLOCK or added.shape[0] != blocks.shape[0] * LC_BLOCK:
        raise ValueError(f"vectors of {width} numbers for centroids of {blocks.shape[1]}")
    found, marks = np.zeros(rows, np.uint32), np.zeros(rows, np.float32)
    cdef uint32_t[::1] out = found
    cdef float[::1] least = marks
    if rows and width:
        with nogil:
            lc_nearest(&vectors[0, 0], rows, width, &blocks[0, 0, 0], &added[0], blocks.shape[0], &out[0], &least[0])
    return found, marks

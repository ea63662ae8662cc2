"""Pairs of vectors that are near to each other, out of all pairs.

Products of matrices tell which pairs may be near, a piece of all pairs at a time; only these are looked at exactly, since
differences of nearly equal vectors are lost in the rounding of products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lancelet.index.vector.centroids import bit_counts
from lancelet.index.vector.metric import Metric
from lancelet.runtime.threads import checkpoint

if TYPE_CHECKING:
    from lancelet.index.vector.query import Vectors

    Places = npt.NDArray[np.int64]

_ANCHORS: Final = 256
"""Rows that are compared at once, with :data:`_OTHERS`."""
_OTHERS: Final = 8192
_SLACK: Final = np.float32(1e-5)
"""Of the lengths of vectors: more than rounding takes."""


def near_pairs(
    vectors: Vectors, metric: Metric, threshold: float
) -> Iterator[tuple[Places, Places, npt.NDArray[np.float32]]]:
    """Places of pairs, the first before the second, whose distance is at most ``threshold``; each pair once.

    Ordered by blocks of 8192 vectors, and in these by the first and then the second place.
    """
    values = _prepared(vectors, metric)
    lengths = np.einsum("ij,ij->i", values, values)
    for first in range(0, len(values), _OTHERS):
        for second in range(first, len(values), _OTHERS):
            stop = min(first + _OTHERS, len(values))
            for start in range(first, stop, _ANCHORS):
                checkpoint()
                anchors = slice(start, min(start + _ANCHORS, stop))
                others = slice(second, min(second + _OTHERS, len(values)))
                marks = _marks(values, lengths, anchors, others, metric)
                slack = _SLACK * (lengths[anchors, None] + lengths[None, others])
                ones, twos = np.nonzero(marks <= np.float32(threshold) + slack)
                ones, twos = ones + start, twos + second
                later = twos > ones
                ones, twos = ones[later], twos[later]
                exact = _exact(vectors, values, ones, twos, metric)
                near = exact <= threshold
                if near.any():
                    yield ones[near], twos[near], exact[near]


def _prepared(vectors: Vectors, metric: Metric) -> npt.NDArray[np.float32]:
    """Vectors as products compare them: bits as 1 and -1."""
    if metric is Metric.HAMMING:
        signs: npt.NDArray[np.float32] = np.where(np.unpackbits(vectors, axis=1), np.float32(1), np.float32(-1))
        return signs
    values = vectors.astype(np.float32, copy=False)
    if metric is Metric.COSINE:
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values / lengths[:, None]
    return values


def _marks(
    values: npt.NDArray[np.float32], lengths: npt.NDArray[np.float32], one: slice, other: slice, metric: Metric
) -> npt.NDArray[np.float32]:
    products: npt.NDArray[np.float32] = values[one] @ values[other].T
    match metric:
        case Metric.DOT | Metric.COSINE:
            np.subtract(np.float32(1), products, out=products)
            return products
        case Metric.HAMMING:
            found: npt.NDArray[np.float32] = (np.float32(values.shape[1]) - products) / np.float32(2)
            return found
        case _:
            products *= np.float32(-2)
            products += lengths[one, None]
            products += lengths[None, other]
            return products


def _exact(
    vectors: Vectors, values: npt.NDArray[np.float32], ones: Places, twos: Places, metric: Metric
) -> npt.NDArray[np.float32]:
    if metric is Metric.HAMMING:
        return bit_counts(vectors[ones] ^ vectors[twos])
    if metric is Metric.DOT:
        found: npt.NDArray[np.float32] = np.float32(1) - np.einsum("ij,ij->i", values[ones], values[twos])
        return found
    left = values[ones] - values[twos]
    squares: npt.NDArray[np.float32] = np.einsum("ij,ij->i", left, left)
    # Of vectors of length 1 half of it is 1 - cos, and nothing for equal ones.
    return squares / np.float32(2) if metric is Metric.COSINE else squares


def clusters(count: int, pairs: Iterator[tuple[Places, Places, Any]]) -> Places:
    """For each of so many things the first one that it hangs together with by pairs."""
    heads = np.arange(count)
    for ones, twos, _ in pairs:
        while True:
            lower = np.minimum(heads[ones], heads[twos])
            before = heads.copy()
            np.minimum.at(heads, heads[ones], lower)
            np.minimum.at(heads, heads[twos], lower)
            heads = heads[heads]
            if np.array_equal(before, heads):
                break
    while not np.array_equal(heads, heads[heads]):
        heads = heads[heads]
    return heads

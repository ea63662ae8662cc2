"""Pairs of vectors that are near to each other, out of all pairs.

Products of matrices tell which pairs may be near, for two blocks of vectors at a time; only these are looked at exactly, since
differences of nearly equal vectors are lost in the rounding of products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    for first in range(0, len(vectors), _OTHERS):
        left = _Block.of(vectors, first, metric)
        for second in range(first, len(vectors), _OTHERS):
            right = left if second == first else _Block.of(vectors, second, metric)
            for start in range(0, len(left.values), _ANCHORS):
                checkpoint()
                anchors = slice(start, start + _ANCHORS)
                marks = _marks(left, right, anchors, metric)
                slack = _SLACK * (left.lengths[anchors, None] + right.lengths[None])
                ones, twos = np.nonzero(marks <= np.float32(threshold) + slack)
                ones += start
                if right is left:
                    later = twos > ones
                    ones, twos = ones[later], twos[later]
                exact = _exact(left, right, ones, twos, metric)
                near = exact <= threshold
                if near.any():
                    yield ones[near] + first, twos[near] + second, exact[near]


@dataclass(frozen=True, slots=True)
class _Block:
    """Some vectors: as they are, as products compare them, and the squares of their lengths."""

    vectors: Vectors
    values: npt.NDArray[np.float32]
    lengths: npt.NDArray[np.float32]

    @classmethod
    def of(cls, vectors: Vectors, first: int, metric: Metric) -> _Block:
        # Vectors may lie in a file.
        some = np.array(vectors[first : first + _OTHERS])
        values = _prepared(some, metric)
        return cls(some, values, np.einsum("ij,ij->i", values, values))


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


def _marks(left: _Block, right: _Block, anchors: slice, metric: Metric) -> npt.NDArray[np.float32]:
    products: npt.NDArray[np.float32] = left.values[anchors] @ right.values.T
    match metric:
        case Metric.DOT | Metric.COSINE:
            np.subtract(np.float32(1), products, out=products)
            return products
        case Metric.HAMMING:
            found: npt.NDArray[np.float32] = (np.float32(left.values.shape[1]) - products) / np.float32(2)
            return found
        case _:
            products *= np.float32(-2)
            products += left.lengths[anchors, None]
            products += right.lengths[None]
            return products


def _exact(left: _Block, right: _Block, ones: Places, twos: Places, metric: Metric) -> npt.NDArray[np.float32]:
    if metric is Metric.HAMMING:
        return bit_counts(left.vectors[ones] ^ right.vectors[twos])
    if metric is Metric.DOT:
        found: npt.NDArray[np.float32] = np.float32(1) - np.einsum("ij,ij->i", left.values[ones], right.values[twos])
        return found
    apart = left.values[ones] - right.values[twos]
    squares: npt.NDArray[np.float32] = np.einsum("ij,ij->i", apart, apart)
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

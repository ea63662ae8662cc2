"""Partitions that have become too large or too small (spec indices.md 16.1, corrected).

With a target of T rows for each: those with more than 4 T are cut into about size / T; where there are none, all that have less than
T / 4 give their rows to the others. The rows of all segments count, deleted ones too, and new ones where their vectors belong. What
quantizers have learned stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lancelet.index.vector.centroids import assign, ranking_metric
from lancelet.index.vector.files import element_of
from lancelet.index.vector.kmeans import train_centroids
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.rows import indexable

if TYPE_CHECKING:
    from lancelet.index.kind import NewRows
    from lancelet.index.vector.files import VectorModel
    from lancelet.index.vector.options import VectorOptions
    from lancelet.index.vector.query import Vectors
    from lancelet.index.vector.segment import VectorSegment

_MOST: Final = 4
"""Times the target."""
_LEAST: Final = 0.25
_NEW_BYTES: Final = 64 << 20
"""Of more new vectors, some are counted for all."""


def rebalanced_model(segments: Sequence[VectorSegment], options: VectorOptions, new: NewRows) -> VectorModel | None:
    """A model with other centroids; None where the partitions are as they should be."""
    largest = max(segments, key=lambda segment: segment.num_rows)
    model, sizes = largest.model, largest.sizes.astype(np.float64)
    for segment in segments:
        if segment is not largest and segment.model.same_as(model):
            sizes += segment.sizes
    target = options.target
    added = new.count or 0
    _, _, several = element_of(new.dtype)
    grown = sizes.max() + (math.inf if several and added else added)
    if grown <= _MOST * target and (len(sizes) == 1 or sizes.min() >= _LEAST * target):
        return None
    most = max(1, _NEW_BYTES // (options.dimension * options.dtype.itemsize))
    vectors = _new_vectors(new, most, options)
    homes, _ = assign(vectors, model.centroids, ranking_metric(options.metric))
    sizes += max(1.0, added / most) * np.bincount(homes, minlength=len(sizes))
    crowded = np.flatnonzero(sizes > _MOST * target)
    if len(crowded):
        kept = np.delete(model.centroids, crowded, axis=0)
        cut = [
            _cut(largest, int(number), vectors[homes == number], math.ceil(sizes[number] / target), options)
            for number in crowded
        ]
        return replace(model, centroids=np.concatenate([kept, *cut]).astype(model.centroids.dtype), loss=None)
    small = np.flatnonzero(sizes < _LEAST * target)
    if len(small) == len(sizes):
        small = np.delete(small, int(sizes.argmax()))
    return replace(model, centroids=np.delete(model.centroids, small, axis=0), loss=None) if len(small) else None


def _new_vectors(new: NewRows, most: int, options: VectorOptions) -> Vectors:
    """Vectors of the new rows, or of some of them where they are many."""
    parts = [np.empty((0, options.dimension), options.dtype)]
    for values in new.sample(most, options.seed) if new.sample is not None else ():
        vectors, _ = indexable(values, options.metric)
        parts.append(np.array(vectors))
    found: Vectors = np.concatenate(parts)
    return found


def _cut(segment: VectorSegment, number: int, new: Vectors, count: int, options: VectorOptions) -> Vectors:
    """Centroids for the vectors of one partition, as far as their codes tell of them."""
    (partition,) = segment.files.read([number], graphs=False)
    model = segment.model
    codes = model.quantizer.pick_up(partition.stored)
    most = options.sample_rate * count
    drawn = np.random.default_rng(options.seed).permutation(len(partition.rows) + len(new))[:most]
    drawn.sort()
    codes = [column[drawn[drawn < len(partition.rows)]] for column in codes]
    metric = ranking_metric(options.metric)
    old = codes[0] if metric is Metric.HAMMING else model.quantizer.decode(codes, model.centroids[number])
    new = new[drawn[drawn >= len(partition.rows)] - len(partition.rows)]
    found, _ = train_centroids(
        np.concatenate([old, new.astype(old.dtype)]), count, metric, options.max_iters, options.seed
    )
    return found

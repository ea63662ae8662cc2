"""Partitions that have become too large or too small (spec indices.md 16.1, corrected).

With a target of T rows for each: one with more than 4 T is cut into about size / T; otherwise the smallest, if it has less than
T / 4, gives its rows to the others. What quantizers have learned stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lancelet.index.vector.centroids import ranking_metric
from lancelet.index.vector.kmeans import train_centroids
from lancelet.index.vector.metric import Metric

if TYPE_CHECKING:
    from lancelet.index.vector.files import VectorModel
    from lancelet.index.vector.options import VectorOptions
    from lancelet.index.vector.query import Vectors
    from lancelet.index.vector.segment import VectorSegment

_MOST: Final = 4
"""Times the target."""
_LEAST: Final = 0.25


def rebalanced_model(segments: Sequence[VectorSegment], options: VectorOptions, new_rows: int) -> VectorModel | None:
    """A model with other centroids; None where the partitions are as they should be. New rows go where others are."""
    largest = max(segments, key=lambda segment: segment.num_rows)
    model, sizes = largest.model, largest.sizes.copy()
    for segment in segments:
        if segment is not largest and segment.model.same_as(model):
            sizes += segment.sizes
    sizes = sizes * (1 + new_rows / max(1, int(sizes.sum())))
    target = options.target
    crowded = np.flatnonzero(sizes > _MOST * target)
    if len(crowded):
        kept = np.delete(model.centroids, crowded, axis=0)
        cut = [_cut(largest, int(number), math.ceil(sizes[number] / target), options) for number in crowded]
        return replace(model, centroids=np.concatenate([kept, *cut]).astype(model.centroids.dtype), loss=None)
    if len(sizes) > 1 and sizes.min() < _LEAST * target:
        return replace(model, centroids=np.delete(model.centroids, int(sizes.argmin()), axis=0), loss=None)
    return None


def _cut(segment: VectorSegment, number: int, count: int, options: VectorOptions) -> Vectors:
    """Centroids for the vectors of one partition, as far as their codes tell of them."""
    (partition,) = segment.files.read([number], graphs=False)
    model = segment.model
    codes = model.quantizer.pick_up(partition.stored)
    most = options.sample_rate * count
    if len(partition.rows) > most:
        drawn = np.sort(np.random.default_rng(options.seed).choice(len(partition.rows), most, replace=False))
        codes = [column[drawn] for column in codes]
    metric = ranking_metric(options.metric)
    vectors = codes[0] if metric is Metric.HAMMING else model.quantizer.decode(codes, model.centroids[number])
    found, _ = train_centroids(vectors, count, metric, options.max_iters, options.seed)
    return found

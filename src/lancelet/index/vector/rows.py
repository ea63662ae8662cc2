"""Vectors of a column as arrays: those that an index can have (spec indices.md 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancelet.index.vector.metric import Metric, normalized

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.index.vector.query import Vectors


def indexable(values: pa.Array, metric: Metric) -> tuple[Vectors, npt.NDArray[np.int64]]:
    """Vectors of a column, normalised where the metric says so, and the place of each among the values.

    Nulls, vectors with numbers that are not finite or missing, and such as cannot be normalised are left out. A value that is
    a list of vectors has several.
    """
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        places = np.asarray(pa.compute.list_parent_indices(values), np.int64)
        values = values.flatten()
    else:
        places = np.arange(len(values))
    good = np.ones(len(values), np.bool_)
    if values.null_count:
        good &= np.asarray(values.is_valid())
    length = values.type.list_size
    # What lies under nulls is of no meaning, but has its place.
    inner = values.values.slice(values.offset * length, len(values) * length)
    if inner.null_count:
        valid = np.asarray(inner.is_valid()).reshape(len(values), length)
        good &= valid.all(axis=1)
        inner = inner.fill_null(0)
    vectors: npt.NDArray[Any] = np.asarray(inner.to_numpy(zero_copy_only=False)).reshape(len(values), length)
    if vectors.dtype.kind == "f":
        # A sum is finite only if all its numbers are, but may overflow: then one looks again.
        with np.errstate(over="ignore", invalid="ignore"):
            sums = vectors.sum(axis=1)
        doubtful = np.flatnonzero(~np.isfinite(sums))
        if len(doubtful):
            good[doubtful] &= np.isfinite(vectors[doubtful]).all(axis=1)
    if not good.all():
        vectors, places = vectors[good], places[good]
    if metric.normalizes:
        vectors = normalized(vectors)
        finite = np.isfinite(vectors[:, 0]) if length else np.ones(len(vectors), np.bool_)
        if not finite.all():
            vectors, places = vectors[finite], places[finite]
    return vectors, places

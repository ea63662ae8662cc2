"""k-means for users, on the processor; :mod:`lancelet.torch.kmeans` is the one for other devices."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lancelet._api.model_files import fixed_lists
from lancelet.errors import InvalidInput, InvalidType
from lancelet.index.vector.centroids import assign, ranking_metric
from lancelet.index.vector.kmeans import train_centroids
from lancelet.index.vector.metric import Metric, metric_named, normalized

MetricType = Literal["l2", "euclidean", "dot", "cosine"]


class KMeans:
    """Clusters of vectors of 32-bit numbers.

    Parameters
    ----------
    k
        How many.
    metric_type
        ``"l2"``, ``"cosine"`` or ``"dot"``.
    max_iters
        Steps at most.
    centroids
        To :meth:`predict` with at once.
    seed
        The same clusters for the same seed.

    Examples
    --------
    >>> model = KMeans(2)
    >>> model.fit(np.array([[0, 0], [0, 1], [9, 9], [9, 8]], np.float32))
    >>> first, second = model.predict(np.array([[1, 1], [8, 8]], np.float32)).to_pylist()
    >>> first == second
    False
    """

    def __init__(
        self,
        k: int,
        metric_type: MetricType = "l2",
        max_iters: int = 50,
        centroids: pa.FixedSizeListArray | None = None,
        *,
        seed: int = 0,
    ) -> None:
        if k < 1:
            raise InvalidInput(f"k is 1 or more, not {k}")
        self.k = k
        self.max_iters = max_iters
        self._metric = metric_named(metric_type)
        if self._metric is Metric.HAMMING:
            raise InvalidInput("k-means of numbers knows l2, cosine and dot, not hamming")
        self._seed = seed
        self._centroids = None if centroids is None else _rows(centroids)

    def __repr__(self) -> str:
        return f"KMeans(k={self.k}, metric_type={self._metric.value!r}, max_iters={self.max_iters})"

    @property
    def centroids(self) -> pa.FixedSizeListArray | None:
        """The middle of each cluster; None before :meth:`fit`."""
        return None if self._centroids is None else fixed_lists(self._centroids, "centroids")

    def fit(self, data: object) -> None:
        """Find clusters of vectors: rows of an array, lists of a fixed size, or tensors of one dimension."""
        rows = self._normal(_rows(data))
        if len(rows) < self.k:
            raise InvalidInput(f"{len(rows)} vectors are too few for {self.k} clusters")
        found, _ = train_centroids(rows, self.k, ranking_metric(self._metric), self.max_iters, self._seed)
        self._centroids = found

    def predict(self, data: object) -> pa.UInt32Array:
        """The number of the cluster of each vector."""
        if self._centroids is None:
            raise InvalidInput("there are no clusters yet: call fit first, or give centroids")
        rows = self._normal(_rows(data))
        if rows.shape[1] != self._centroids.shape[1]:
            raise InvalidInput(f"vectors have {rows.shape[1]} numbers, but centroids {self._centroids.shape[1]}")
        return pa.array(assign(rows, self._centroids, ranking_metric(self._metric))[0], pa.uint32())

    def _normal(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return normalized(rows) if self._metric.normalizes else rows


def _rows(data: object) -> np.ndarray[Any, Any]:
    if isinstance(data, np.ndarray) and data.ndim != 2:
        raise InvalidInput(f"vectors are the rows of two dimensions, not of {data.shape}")
    lists = fixed_lists(data, "vectors")
    if lists.type.value_type != pa.float32() or lists.null_count:
        raise InvalidType(f"vectors are of 32-bit numbers and not null, not {lists.type} with {lists.null_count} nulls")
    values: np.ndarray[Any, Any] = lists.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(lists), -1)

"""k-means on a device of PyTorch, over arrays or over data sets that do not fit into its memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch

from lancelet.errors import InvalidInput, InvalidType
from lancelet.format.extensions import storage_of
from lancelet.runtime.threads import checkpoint
from lancelet.torch import preferred_device
from lancelet.torch.data import TensorDataset
from lancelet.torch.distance import dot_distance, l2_distance

__all__ = ["KMeans"]

_METRICS = ("l2", "euclidean", "cosine", "dot")
_BATCH = 40960


class KMeans:
    """Clusters of vectors.

    Parameters
    ----------
    k
        How many.
    metric
        ``"l2"``, ``"cosine"`` (vectors are brought to length 1) or ``"dot"``.
    init
        ``"random"``: vectors of the data by chance.
    max_iters
        Steps at most.
    tolerance
        A step in which the total distance changes by a smaller share is the last.
    centroids
        To begin with, or to :meth:`transform` at once.
    seed
        The same result every time.
    device
        The fastest one by default, see :func:`lancelet.torch.preferred_device`.

    Examples
    --------
    >>> clusters = KMeans(2, seed=1, device="cpu")
    >>> clusters.fit(np.array([[0.0, 0.1], [0.1, 0.0], [9.0, 9.1], [9.1, 9.0]], np.float32))
    >>> first, second, third, fourth = clusters.transform(np.array([[0, 0], [1, 1], [8, 8], [9, 9]], np.float32)).tolist()
    >>> first == second, second == third, third == fourth
    (True, False, True)
    """

    def __init__(
        self,
        k: int,
        *,
        metric: Literal["l2", "euclidean", "dot", "cosine"] = "l2",
        init: Literal["random"] = "random",
        max_iters: int = 50,
        tolerance: float = 1e-4,
        centroids: Any = None,
        seed: int | None = None,
        device: Any = None,
    ) -> None:
        if k < 1:
            raise InvalidInput(f"k is 1 or more, not {k}")
        if metric not in _METRICS:
            raise InvalidInput(f"k-means knows the metrics {', '.join(_METRICS)}, not {metric!r}")
        if init != "random":
            raise InvalidInput(f"centroids begin by chance: init is 'random', not {init!r}")
        self.k = k
        self.metric = "l2" if metric == "euclidean" else metric
        self.init = init
        self.max_iters = max_iters
        self.tolerance = tolerance
        self.seed = seed
        self.device = preferred_device(device)
        self.total_distance = 0.0
        self.centroids = None if centroids is None else self._rows(centroids)

    def __repr__(self) -> str:
        return f"KMeans(k={self.k}, metric={self.metric}, device={self.device})"

    def fit(self, data: Any, column: str | None = None) -> None:
        """Find the centroids of vectors: an array, a tensor, lists of a fixed size, or a data set of batches.

        A data set is read once for each step; ``column`` is the one with the vectors where batches have several. Vectors
        with what is not a number count for nothing.
        """
        if isinstance(data, (np.ndarray, torch.Tensor, pa.Array, pa.ChunkedArray)):
            batches: Iterable[Any] = TensorDataset(self._rows(data), _BATCH)
        else:
            batches = data
        if self.centroids is None:
            self.centroids = self._begin(batches, column)
        before = 0.0
        chance = torch.Generator().manual_seed(0 if self.seed is None else self.seed)
        for _ in range(self.max_iters):
            checkpoint()
            self.total_distance = self._step(batches, column, chance)
            if abs(before - self.total_distance) <= self.tolerance * abs(before):
                break
            before = self.total_distance

    def transform(self, data: Any) -> Any:
        """For each vector the number of its cluster; -1 for those with what is not a number."""
        return self._nearest(self._normal(self._rows(data)))[0]

    def _nearest(self, vectors: Any) -> tuple[Any, Any]:
        if self.centroids is None:
            raise InvalidInput("there are no centroids yet: call fit first, or give them")
        measure = dot_distance if self.metric == "dot" else l2_distance
        return measure(vectors, self.centroids)

    def _begin(self, batches: Iterable[Any], column: str | None) -> Any:
        """Vectors by chance, each at most once."""
        chance = torch.Generator()
        if self.seed is None:
            chance.seed()
        else:
            chance.manual_seed(self.seed)
        kept = marks = None
        for batch in batches:
            rows = self._batch(batch, column)
            if not len(rows):
                continue
            # The vectors with the smallest of random numbers are those that a draw would give.
            drawn = torch.rand(len(rows), generator=chance, dtype=torch.float64).to(rows.device, torch.float32)
            kept = rows if kept is None else torch.cat([kept, rows])
            marks = drawn if marks is None else torch.cat([marks, drawn])
            if len(kept) > self.k:
                best = marks.topk(self.k, largest=False).indices
                kept, marks = kept[best], marks[best]
        if kept is None or len(kept) < self.k:
            raise InvalidInput(f"{0 if kept is None else len(kept)} vectors are too few for {self.k} clusters")
        return kept.clone()

    def _step(self, batches: Iterable[Any], column: str | None, chance: Any) -> float:
        """Move every centroid into the middle of its vectors; tells the total distance before."""
        assert self.centroids is not None
        sums = torch.zeros_like(self.centroids)
        sizes = torch.zeros(self.k, dtype=sums.dtype, device=self.device)
        total = torch.zeros((), dtype=torch.float32, device=self.device)
        for batch in batches:
            rows = self._batch(batch, column)
            places, distances = self._nearest(rows)
            sums.index_add_(0, places, rows)
            sizes += torch.bincount(places, minlength=self.k).to(sizes.dtype)
            total += distances.sum()
        filled = sizes > 0
        self.centroids = torch.where(filled[:, None], sums / sizes.clamp(min=1)[:, None], self.centroids)
        self._split(sizes, chance)
        if self.metric == "cosine":
            self.centroids = torch.nn.functional.normalize(self.centroids)
        return float(total)

    def _split(self, sizes: Any, chance: Any) -> None:
        """A centroid without vectors takes half of the largest cluster."""
        assert self.centroids is not None
        counts = sizes.tolist()
        for empty in [number for number, size in enumerate(counts) if not size]:
            largest = max(range(self.k), key=counts.__getitem__)
            if counts[largest] < 2:
                return
            away = torch.randn(self.centroids.shape[1], generator=chance).to(self.centroids) * 1e-3
            middle = self.centroids[largest].clone()
            self.centroids[empty] = middle * (1 + away)
            self.centroids[largest] = middle * (1 - away)
            counts[empty] = counts[largest] = counts[largest] / 2

    def _batch(self, batch: Any, column: str | None) -> Any:
        """The vectors of a batch that count, normalised where the metric says so."""
        if isinstance(batch, dict):
            if column is None:
                raise InvalidInput(f"batches have the columns {', '.join(batch)}: say which by column=...")
            batch = batch[column]
        rows = self._normal(self._rows(batch))
        return rows[rows.isfinite().all(dim=1)]

    def _normal(self, rows: Any) -> Any:
        return rows / rows.norm(dim=1, keepdim=True) if self.metric == "cosine" else rows

    def _rows(self, data: Any) -> Any:
        """Vectors as 32-bit numbers on the device."""
        if isinstance(data, pa.ChunkedArray):
            data = data.combine_chunks()
        if isinstance(data, pa.Array):
            data = storage_of(data)
            if not pa.types.is_fixed_size_list(data.type):
                raise InvalidType(f"vectors are lists of a fixed size, not {data.type}")
            data = np.stack(data.to_numpy(zero_copy_only=False)) if data.null_count else _flat(data)
        if isinstance(data, np.ndarray):
            data = torch.from_numpy(np.array(data, np.float32))
        if not isinstance(data, torch.Tensor):
            raise InvalidType(f"vectors are an array, a tensor or lists of a fixed size, not {type(data).__name__}")
        if data.dim() != 2:
            raise InvalidInput(f"vectors are the rows of two dimensions, not of {tuple(data.shape)}")
        return data.to(self.device, torch.float32)


def _flat(lists: pa.FixedSizeListArray) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = lists.flatten().to_numpy(zero_copy_only=False)
    return found.reshape(len(lists), -1)

"""The first half of the model of a vector index: where its partitions are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet._api.model_files import fixed_lists, read_model, write_model

_COLUMN = "centroids"
_METRIC = "distance_type"


class IvfModel:
    """The centroids of the partitions.

    Parameters
    ----------
    centroids
        One for each partition: lists of a fixed size, or a numpy array of two dimensions.
    distance_type
        The metric that they were trained for.

    Examples
    --------
    >>> model = IvfModel(np.zeros((4, 16), np.float32), "l2")
    >>> model.save("memory://docs/ivf_model.lance")
    >>> IvfModel.load("memory://docs/ivf_model.lance").num_partitions
    4
    """

    def __init__(self, centroids: pa.Array | np.ndarray[Any, Any], distance_type: str) -> None:
        self.centroids: pa.FixedSizeListArray = fixed_lists(centroids, _COLUMN)
        self.distance_type = distance_type

    def __repr__(self) -> str:
        return f"IvfModel({self.num_partitions} partitions, {self.centroids.type}, {self.distance_type!r})"

    @property
    def num_partitions(self) -> int:
        """How many partitions there are."""
        return len(self.centroids)

    def save(self, uri: str, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Write a file that :meth:`load` reads, and pylance too."""
        write_model(uri, _COLUMN, self.centroids, {_METRIC: self.distance_type}, storage_options)

    @classmethod
    def load(cls, uri: str, *, storage_options: Mapping[str, str] | None = None) -> IvfModel:
        """Read a file that :meth:`save` wrote, or pylance's ``IvfModel``."""
        centroids, told = read_model(uri, _COLUMN, (_METRIC,), storage_options)
        return cls(centroids, told[_METRIC])

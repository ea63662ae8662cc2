"""What an index should have found, and how much of it it did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput
from lancelet.format.system_columns import ROW_ID
from lancelet.torch import preferred_device
from lancelet.torch.data import LanceDataset as TorchDataset
from lancelet.torch.distance import pairwise_cosine, pairwise_l2

__all__ = ["ground_truth", "infer_vector_column", "recall", "sort_tensors"]

_MEASURES: dict[str, Any] = {
    "l2": pairwise_l2,
    "euclidean": pairwise_l2,
    "cosine": pairwise_cosine,
    "dot": lambda x, y: 1 - x @ y.T,
}


def ground_truth(
    ds: LanceDataset,
    column: str,
    query: Any,
    metric_type: str = "L2",
    k: int = 100,
    batch_size: int = 10240,
    device: Any = None,
) -> Any:
    """Row ids of the nearest vectors of each query, by looking at all of them.

    Parameters
    ----------
    ds
        A table.
    column
        Its vectors.
    query
        Queries, one in each row.
    metric_type
        ``"l2"``, ``"cosine"`` or ``"dot"``.
    k
        How many rows for each query.
    batch_size
        Vectors that are compared at once.
    device
        See :func:`lancelet.torch.preferred_device`.

    Examples
    --------
    >>> import lancelet
    >>> vectors = pa.array([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]], pa.list_(pa.float32(), 2))
    >>> table = lancelet.write_dataset({"vector": vectors}, "memory://docs/ground_truth")
    >>> ground_truth(table, "vector", np.array([[4.0, 4.0]], np.float32), k=2, device="cpu")
    tensor([[2, 1]])
    """
    measure = _MEASURES.get(metric_type.lower())
    if measure is None:
        raise InvalidInput(f"there is no metric {metric_type!r} here; known are {', '.join(_MEASURES)}")
    place = preferred_device(device)
    queries = torch.as_tensor(query).to(place, torch.float32)
    ids = torch.empty((len(queries), 0), dtype=torch.int64, device=place)
    distances = torch.empty((len(queries), 0), dtype=torch.float32, device=place)
    whole = TorchDataset(ds, batch_size, columns=[column], with_row_id=True, auto_detect_rank=False)
    for batch in whole:
        found = measure(queries, batch[column].to(place, torch.float32)).nan_to_num(nan=float("inf"))
        rows = batch[ROW_ID].to(place).expand(len(queries), -1)
        distances, ids = sort_tensors(torch.cat([distances, found], dim=1), torch.cat([ids, rows], dim=1), k)
    return ids


def infer_vector_column(ds: LanceDataset) -> str | None:
    """The first column of vectors; None when there is none.

    Examples
    --------
    >>> import lancelet
    >>> vectors = pa.array([[0.0, 0.0]], pa.list_(pa.float32(), 2))
    >>> infer_vector_column(lancelet.write_dataset({"id": [1], "v": vectors}, "memory://docs/infer_vector_column"))
    'v'
    """
    for field in ds.schema:
        if pa.types.is_fixed_size_list(field.type) and pa.types.is_floating(field.type.value_type):
            return str(field.name)
    return None


def recall(expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """For each query the share of the expected rows that were found.

    Examples
    --------
    >>> recall(np.array([[1, 2], [3, 4]]), np.array([[2, 1], [3, 9]])).tolist()
    [1.0, 0.5]
    """
    if len(expected) != len(actual):
        raise InvalidInput(f"there are {len(expected)} expected answers and {len(actual)} that were found")
    shares = [np.isin(wanted, found).mean() for wanted, found in zip(expected, actual, strict=True)]
    return np.array(shares)


def sort_tensors(source: Any, other: Any, k: int) -> tuple[Any, Any]:
    """The ``k`` smallest numbers of each row, ascending, and what stands in their places in another tensor.

    Examples
    --------
    >>> sort_tensors(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[30, 10, 20]]), 2)
    (tensor([[1., 2.]]), tensor([[10, 20]]))
    """
    ordered = source.sort(dim=1, stable=True)
    places = ordered.indices[:, :k]
    return ordered.values[:, :k], other.gather(1, places)

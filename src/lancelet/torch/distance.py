"""Distances between rows of tensors, on whatever device they are.

Functions that look for the nearest row work on pieces, so that a matrix of all distances is never there. What is not a
number is near to nothing: its place is -1 and its distance NaN.
"""

from __future__ import annotations

from typing import Any

import torch

from lancelet.errors import InvalidInput

__all__ = ["argmin_l2", "cosine_distance", "dot_distance", "l2_distance", "pairwise_cosine", "pairwise_l2"]

_PIECE_BYTES = 64 << 20
"""Of distances that are in memory at once."""


def pairwise_cosine(x: Any, y: Any, *, y2: Any = None) -> Any:
    """``1 - cos`` of all rows of ``x`` with all rows of ``y``; ``y2`` are the lengths of the latter, if known.

    Examples
    --------
    >>> pairwise_cosine(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[0., 1.]])
    """
    _check(x, y)
    lengths = y.norm(dim=1) if y2 is None else y2.reshape(-1)
    return 1 - (x @ y.T) / (x.norm(dim=1)[:, None] * lengths[None])


def pairwise_l2(x: Any, y: Any, y2: Any = None) -> Any:
    """Squared distances of all rows of ``x`` from all rows of ``y``; ``y2`` are the squares of the latter, if known.

    Examples
    --------
    >>> pairwise_l2(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 0.0], [1.0, 1.0]]))
    tensor([[4., 1.]])
    """
    _check(x, y)
    squares = (y * y).sum(dim=1) if y2 is None else y2.reshape(-1)
    # Rounding may leave something below zero.
    return ((x * x).sum(dim=1)[:, None] - 2 * (x @ y.T) + squares[None]).clamp_(min=0)


def l2_distance(vectors: Any, centroids: Any, y2: Any = None) -> tuple[Any, Any]:
    """For each vector the nearest centroid, and its squared distance.

    Examples
    --------
    >>> l2_distance(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 0.0], [1.0, 1.0]]))
    (tensor([1]), tensor([1.]))
    """
    _check(vectors, centroids)
    squares = (centroids * centroids).sum(dim=1) if y2 is None else y2
    return _nearest(vectors, centroids, lambda part: pairwise_l2(part, centroids, squares))


def cosine_distance(vectors: Any, centroids: Any) -> tuple[Any, Any]:
    """For each vector the nearest centroid, and ``1 - cos``."""
    _check(vectors, centroids)
    lengths = centroids.norm(dim=1)
    return _nearest(vectors, centroids, lambda part: pairwise_cosine(part, centroids, y2=lengths))


def dot_distance(x: Any, y: Any) -> tuple[Any, Any]:
    """For each row of ``x`` the row of ``y`` with the greatest product, and 1 less that product."""
    _check(x, y)
    return _nearest(x, y, lambda part: 1 - part @ y.T)


def argmin_l2(x: Any, y: Any) -> tuple[Any, Any]:
    """Squared distance and place of the nearest row of ``y``, as columns."""
    places, distances = l2_distance(x, y)
    return distances[:, None], places[:, None]


def _nearest(x: Any, y: Any, measure: Any) -> tuple[Any, Any]:
    rows = max(1, _PIECE_BYTES // (max(1, len(y)) * x.element_size()))
    places, distances = [], []
    for part in x.split(rows):
        found = measure(part).min(dim=1)
        places.append(torch.where(found.values.isnan(), -1, found.indices))
        distances.append(found.values)
    if not places:
        return torch.empty(0, dtype=torch.int64, device=x.device), torch.empty(0, dtype=x.dtype, device=x.device)
    return torch.cat(places), torch.cat(distances)


def _check(x: Any, y: Any) -> None:
    if x.dim() != 2 or y.dim() != 2 or x.shape[1] != y.shape[1]:
        raise InvalidInput(
            f"rows are compared with rows of the same length, not {tuple(x.shape)} with {tuple(y.shape)}: "
            f"both are tensors of two dimensions"
        )

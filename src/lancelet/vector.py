"""Vectors: tables of them, rows that are like each other, and the steps of an index on a device of PyTorch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancelet._api.clustering import MetricType
from lancelet._api.duplicates import (
    find_duplicate_pairs,
    find_duplicate_pairs_in_partition,
    get_ivf_partition_info,
    hamming_clustering_for_ivf_partition,
    hamming_clustering_for_range,
    hamming_clustering_for_sample,
)
from lancelet.errors import InvalidInput, NotSupported

if TYPE_CHECKING:
    from lancelet.dataset import LanceDataset

__all__ = [
    "MetricType",
    "compute_partitions",
    "compute_pq_codes",
    "find_duplicate_pairs",
    "find_duplicate_pairs_in_partition",
    "get_ivf_partition_info",
    "hamming_clustering_for_ivf_partition",
    "hamming_clustering_for_range",
    "hamming_clustering_for_sample",
    "one_pass_assign_ivf_pq_on_accelerator",
    "one_pass_train_ivf_pq_on_accelerator",
    "train_ivf_centroids_on_accelerator",
    "train_pq_codebook_on_accelerator",
    "vec_to_table",
]

_BATCH = 1024 * 10 * 4
_SAMPLED = 256 * 256
"""Vectors that a codebook is trained from."""


def vec_to_table(
    data: Mapping[Any, Any] | Sequence[Any] | np.ndarray[Any, Any],
    names: str | Sequence[str] | None = None,
    ndim: int | None = None,
    check_ndim: bool = True,
) -> pa.Table:
    """A table of vectors of 32-bit numbers.

    Parameters
    ----------
    data
        Vectors: a list of them, the rows of an array, or a dict, whose keys become a column too.
    names
        The name of the column, ``"vector"`` by default; for a dict two names, ``["id", "vector"]`` by default.
    ndim
        Numbers in a vector; by default as many as the first one has.
    check_ndim
        Whether a vector of another length is an error.

    Examples
    --------
    >>> vec_to_table({"a": [1, 2], "b": [3, 4]}).to_pylist()
    [{'id': 'a', 'vector': [1.0, 2.0]}, {'id': 'b', 'vector': [3.0, 4.0]}]
    """
    if isinstance(data, Mapping):
        columns = [names] if isinstance(names, str) else list(names or ("id", "vector"))
        if len(columns) != 2:
            raise InvalidInput(f"Length of names ({len(columns)}) does not match length of arrays (2)")
        keys = pa.array(list(data))
        return pa.Table.from_arrays([keys, _vectors(list(data.values()), ndim, check_ndim)], columns)
    if not isinstance(data, (list, tuple, np.ndarray)):
        raise NotSupported(f"data must be dict, list, or ndarray, got {type(data)} instead")
    columns = [names] if isinstance(names, str) else list(names or ("vector",))
    if len(columns) != 1:
        raise InvalidInput(f"Length of names ({len(columns)}) does not match length of arrays (1)")
    return pa.Table.from_arrays([_vectors(data, ndim, check_ndim)], columns)


def _vectors(rows: Sequence[Any] | np.ndarray[Any, Any], ndim: int | None, check: bool) -> pa.FixedSizeListArray:
    if not len(rows):
        raise InvalidInput("there are no vectors, and so no column of them")
    try:
        width = len(rows[0]) if ndim is None else ndim
        if check:
            for row in rows:
                if len(row) != width:
                    raise InvalidInput(f"Expected {width} dimensions but got {len(row)} for {row}")
        flat = np.asarray(rows, np.float32).reshape(-1)
    except TypeError:
        raise InvalidInput("vectors are lists of numbers, or the rows of an array with two dimensions") from None
    except ValueError as error:
        raise InvalidInput(f"vectors are lists of numbers of the same length: {error}") from None
    if width < 1 or len(flat) % width:
        raise InvalidInput(f"{len(flat)} numbers do not make vectors of {width}")
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), width)


def train_ivf_centroids_on_accelerator(
    dataset: LanceDataset,
    column: str,
    k: int,
    metric_type: MetricType,
    accelerator: Any,
    batch_size: int = _BATCH,
    *,
    sample_rate: int = 256,
    max_iters: int = 50,
    filter_nan: bool = True,
) -> tuple[np.ndarray[Any, Any], Any]:
    """Train the centroids of partitions; they, and a :class:`lancelet.torch.kmeans.KMeans` that has them.

    Parameters
    ----------
    dataset, column
        A table and its vectors.
    k
        How many partitions.
    metric_type
        ``"l2"``, ``"cosine"`` or ``"dot"``.
    accelerator
        A device of PyTorch, ``"cuda"`` or ``"mps"``.
    sample_rate, max_iters
        Vectors for each partition in the sample, and steps of k-means at most.
    batch_size, filter_nan
        Accepted for pylance's sake: vectors that are null or not finite are always left out.
    """
    from lancelet.torch.index_steps import train_centroids

    return train_centroids(dataset, column, k, metric_type, accelerator, sample_rate, max_iters)


def train_pq_codebook_on_accelerator(
    dataset: LanceDataset | str | os.PathLike[str],
    metric_type: MetricType,
    accelerator: Any,
    num_sub_vectors: int,
    batch_size: int = _BATCH,
    dtype: Any = np.float32,
) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Train a codebook from residuals that :func:`compute_partitions` wrote; it, and a k-means model for each part."""
    from lancelet.torch.index_steps import train_codebook

    return train_codebook(dataset, accelerator, num_sub_vectors, dtype)


def compute_partitions(
    dataset: LanceDataset,
    column: str,
    kmeans: Any,
    batch_size: int = _BATCH,
    dst_dataset_uri: str | os.PathLike[str] | None = None,
    allow_cuda_tf32: bool = True,
    num_sub_vectors: int | None = None,
    filter_nan: bool = True,
    sample_size: int | None = None,
) -> str:
    """Write a table with the partition of each vector; tells its place.

    Parameters
    ----------
    dataset, column
        A table and its vectors.
    kmeans
        A :class:`lancelet.torch.kmeans.KMeans`.
    batch_size
        Vectors at once.
    dst_dataset_uri
        Where the table goes; to a temporary folder by default.
    num_sub_vectors
        Also write what is left of vectors when their centroids are taken away, cut into so many parts.
    sample_size
        Only so many vectors, by chance.
    allow_cuda_tf32, filter_nan
        Accepted for pylance's sake: numbers keep their 32 bits, and what is not finite is left out.
    """
    from lancelet.torch import index_steps

    return index_steps.compute_partitions(
        dataset, column, kmeans, batch_size, dst_dataset_uri, num_sub_vectors, sample_size
    )


def compute_pq_codes(
    dataset: LanceDataset,
    kmeans_list: list[Any],
    batch_size: int = _BATCH,
    dst_dataset_uri: str | os.PathLike[str] | None = None,
    allow_cuda_tf32: bool = True,
) -> tuple[str, list[str]]:
    """Write a table with the codes of residuals that :func:`compute_partitions` wrote; tells its place and its files."""
    from lancelet.torch.index_steps import compute_codes

    return compute_codes(dataset, kmeans_list, batch_size, dst_dataset_uri)


def one_pass_train_ivf_pq_on_accelerator(
    dataset: LanceDataset,
    column: str,
    k: int,
    metric_type: MetricType,
    accelerator: Any,
    num_sub_vectors: int,
    batch_size: int = _BATCH,
    *,
    sample_rate: int = 256,
    max_iters: int = 50,
    filter_nan: bool = True,
) -> tuple[np.ndarray[Any, Any], Any, np.ndarray[Any, Any], list[Any]]:
    """Train centroids and codebook: both arrays, each with its models.

    The parameters are those of :func:`train_ivf_centroids_on_accelerator` and :func:`train_pq_codebook_on_accelerator`.
    """
    centroids, kmeans = train_ivf_centroids_on_accelerator(
        dataset, column, k, metric_type, accelerator, batch_size, sample_rate=sample_rate, max_iters=max_iters
    )
    with tempfile.TemporaryDirectory(prefix="lancelet-") as folder:
        place = compute_partitions(
            dataset, column, kmeans, batch_size, folder, num_sub_vectors=num_sub_vectors, sample_size=_SAMPLED
        )
        codebook, models = train_pq_codebook_on_accelerator(
            place, metric_type, accelerator, num_sub_vectors, batch_size, centroids.dtype
        )
    return centroids, kmeans, codebook, models


def one_pass_assign_ivf_pq_on_accelerator(
    dataset: LanceDataset,
    column: str,
    metric_type: MetricType,
    accelerator: Any,
    ivf_kmeans: Any,
    pq_kmeans_list: list[Any],
    dst_dataset_uri: str | os.PathLike[str] | None = None,
    batch_size: int = _BATCH,
    *,
    filter_nan: bool = True,
    allow_cuda_tf32: bool = True,
) -> tuple[str, list[str]]:
    """Write a table with partition and code of each vector; tells its place and its files."""
    from lancelet.torch.index_steps import assign_and_encode

    return assign_and_encode(dataset, column, ivf_kmeans, pq_kmeans_list, batch_size, dst_dataset_uri)

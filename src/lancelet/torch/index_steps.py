"""The steps of an ``IVF_PQ`` index on a device, with tables between them; :mod:`lancelet.vector` has them for users.

::

    train_ivf ─ k-means ─ compute_partitions   row_id, partition, __residual_subvec_1, __residual_subvec_2, ...
                          ├─ train_pq ─ k-means for each part
                          └─ compute_pq_codes  row_id, __ivf_part_id, __pq_code
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lancelet._api.entry import dataset as open_dataset
from lancelet._api.sampling import maybe_sample
from lancelet._api.write import write_dataset
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput
from lancelet.format.system_columns import ROW_ID
from lancelet.index.vector.accelerator import Accelerator
from lancelet.index.vector.metric import Metric, metric_named
from lancelet.indexing.vector_steps import PARTITION_COLUMN, PQ_COLUMN, VectorColumn, train_ivf
from lancelet.torch.kmeans import KMeans
from lancelet.torch.tensors import to_tensor

ROW = "row_id"
PARTITION = "partition"
_WORDS = 256


def train_centroids(
    dataset: LanceDataset,
    column: str,
    k: int,
    metric_type: str,
    accelerator: Any,
    sample_rate: int,
    max_iters: int,
) -> tuple[np.ndarray[Any, Any], KMeans]:
    """Centroids of a column, and the model that assigns vectors to them."""
    metric = metric_named(metric_type)
    device = Accelerator(accelerator)
    rows = VectorColumn(dataset.table, column)
    found = train_ivf(rows, k, metric, sample_rate, max_iters, accelerator=device)
    return found, _model(found, metric, device.device)


def _model(centroids: np.ndarray[Any, Any], metric: Metric, device: Any) -> KMeans:
    name: Any = metric.value
    return KMeans(len(centroids), metric=name, centroids=torch.from_numpy(centroids.astype(np.float32)), device=device)


def residual_name(part: int) -> str:
    """The column of a part of what is left of vectors; parts count from 1."""
    return f"__residual_subvec_{part}"


def compute_partitions(
    dataset: LanceDataset,
    column: str,
    kmeans: KMeans,
    batch_size: int,
    target: str | os.PathLike[str] | None,
    parts: int | None,
    sample_size: int | None,
) -> str:
    """Write the partitions of all vectors, or of some, and what is left of them when their centroids are taken away."""
    fields = [pa.field(ROW, pa.uint64()), pa.field(PARTITION, pa.uint32())]
    assert kmeans.centroids is not None
    width = int(kmeans.centroids.shape[1])
    if parts is not None:
        _check_parts(width, parts)
        fields += [pa.field(residual_name(part + 1), pa.list_(pa.float32(), width // parts)) for part in range(parts)]
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for rows, nearest, left in _assigned(dataset, column, kmeans, batch_size, sample_size):
            arrays = [pa.array(rows, pa.uint64()), pa.array(nearest, pa.uint32())]
            if parts is not None:
                for field, part in zip(fields[2:], np.split(left, parts, axis=1), strict=True):
                    flat = pa.array(np.ascontiguousarray(part).reshape(-1))
                    arrays.append(pa.FixedSizeListArray.from_arrays(flat, type=field.type))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return _written(batches(), schema, target).uri


def _assigned(
    dataset: LanceDataset, column: str, kmeans: KMeans, batch_size: int, sample_size: int | None
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Row ids, partitions and residuals of vectors; those that are null or not finite are left out."""
    assert kmeans.centroids is not None
    if sample_size is None:
        source = dataset.to_batches([column], batch_size=batch_size, with_row_id=True)
    else:
        source = maybe_sample(dataset, sample_size, [column, ROW_ID], batch_size, seed=0)
    for batch in source:
        tensors = to_tensor(batch)
        vectors = tensors[column].to(kmeans.device, torch.float32)
        if kmeans.metric == "cosine":
            vectors = vectors / vectors.norm(dim=1, keepdim=True)
        good = vectors.isfinite().all(dim=1)
        vectors, rows = vectors[good], tensors[ROW_ID].numpy()[good.cpu().numpy()]
        nearest = kmeans.transform(vectors)
        # The dot product tells residuals nothing: codes are of the vectors themselves.
        left = vectors if kmeans.metric == "dot" else vectors - kmeans.centroids[nearest]
        yield rows.view(np.uint64), nearest.cpu().numpy().astype(np.uint32), left.cpu().numpy()


def _check_parts(width: int, parts: int) -> None:
    if parts < 1 or width % parts:
        raise InvalidInput(f"dimension ({width}) must be divisible by num_sub_vectors ({parts}) without remainder")


def _written(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, target: str | os.PathLike[str] | None
) -> LanceDataset:
    place = tempfile.mkdtemp(prefix="lancelet-") if target is None else os.fspath(target)
    return write_dataset(pa.RecordBatchReader.from_batches(schema, batches), place, mode="overwrite")


def train_codebook(
    dataset: LanceDataset | str | os.PathLike[str],
    accelerator: Any,
    parts: int,
    dtype: Any,
    seed: int = 0,
) -> tuple[np.ndarray[Any, Any], list[KMeans]]:
    """A codebook ``[parts, 256, length]`` of residuals that :func:`compute_partitions` wrote, and a model for each part."""
    source = dataset if isinstance(dataset, LanceDataset) else open_dataset(dataset)
    device = Accelerator(accelerator)
    words, models = [], []
    for part in range(parts):
        name = residual_name(part + 1)
        if name not in source.schema.names:
            raise InvalidInput(
                f"{source.uri} has no column {name}: give what compute_partitions wrote for {parts} parts"
            )
        values = to_tensor(next(iter(source.to_table(columns=[name]).combine_chunks().to_batches())))
        if len(values) < _WORDS:
            raise InvalidInput(f"a codebook is trained from at least {_WORDS} vectors, and there are {len(values)}")
        model = KMeans(_WORDS, seed=seed + part, device=device.device)
        model.fit(values)
        assert model.centroids is not None
        words.append(model.centroids.cpu().numpy())
        models.append(model)
    return np.stack(words).astype(dtype), models


def compute_codes(
    dataset: LanceDataset,
    models: Sequence[KMeans],
    batch_size: int,
    target: str | os.PathLike[str] | None,
) -> tuple[str, list[str]]:
    """Write the codes of residuals; tells the place of the table and its files."""
    names = [residual_name(part + 1) for part in range(len(models))]

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in dataset.to_batches([ROW, PARTITION, *names], batch_size=batch_size):
            tensors = to_tensor(batch)
            codes = [model.transform(tensors[name]) for name, model in zip(names, models, strict=True)]
            yield _coded(batch[ROW], batch[PARTITION], codes)

    return _with_files(_written(batches(), _code_schema(len(models)), target))


def assign_and_encode(
    dataset: LanceDataset,
    column: str,
    kmeans: KMeans,
    models: Sequence[KMeans],
    batch_size: int,
    target: str | os.PathLike[str] | None,
) -> tuple[str, list[str]]:
    """Write partitions and codes of vectors in one go."""
    assert kmeans.centroids is not None
    _check_parts(int(kmeans.centroids.shape[1]), len(models))

    def batches() -> Iterator[pa.RecordBatch]:
        for rows, nearest, left in _assigned(dataset, column, kmeans, batch_size, None):
            pieces = np.split(left, len(models), axis=1)
            codes = [model.transform(piece) for model, piece in zip(models, pieces, strict=True)]
            yield _coded(pa.array(rows), pa.array(nearest), codes)

    return _with_files(_written(batches(), _code_schema(len(models)), target))


def _code_schema(parts: int) -> pa.Schema:
    return pa.schema(
        [
            pa.field(ROW, pa.uint64()),
            pa.field(PARTITION_COLUMN, pa.uint32()),
            pa.field(PQ_COLUMN, pa.list_(pa.uint8(), parts)),
        ]
    )


def _coded(rows: pa.Array, nearest: pa.Array, codes: Sequence[Any]) -> pa.RecordBatch:
    schema = _code_schema(len(codes))
    numbers = torch.stack(list(codes), dim=1).to(torch.uint8).cpu().numpy()
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(numbers).reshape(-1)), type=schema[2].type)
    return pa.RecordBatch.from_arrays([rows, nearest, lists], schema=schema)


def _with_files(written: LanceDataset) -> tuple[str, list[str]]:
    files = [file.path for fragment in written.get_fragments() for file in fragment.data_files()]
    return written.uri, files

"""Lance tables as data sets of PyTorch.

====================  ==================================================================================
LanceDataset          streams batches of tensors; processes and workers share the table between them
SafeLanceDataset      rows by number, opened anew in every worker; for a ``DataLoader`` that shuffles
TensorDataset         an array in batches, for code that works with either
====================  ==================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import torch
import torch.utils.data

from lancelet._api.entry import dataset as open_dataset
from lancelet._api.samplers import FullScanSampler, Sampler, ShardedBatchSampler, ShardedFragmentSampler, add_row_id
from lancelet._api.sampling import maybe_sample
from lancelet.dataset import LanceDataset as Table
from lancelet.errors import InvalidInput
from lancelet.execution.rebatch import by_rows
from lancelet.format.system_columns import ROW_ID
from lancelet.hf import HuggingFaceConverter
from lancelet.torch.cache import CachedBatches
from lancelet.torch.dist import get_global_rank, get_global_world_size
from lancelet.torch.tensors import to_tensor

__all__ = ["LanceDataset", "SafeLanceDataset", "TensorDataset", "ToTensorFn", "concat_batches", "get_safe_loader"]

_GRANULARITIES = ("fragment", "batch")


class ToTensorFn(Protocol):
    """How a batch becomes tensors; it has the table's own columns, and blobs as lists of files."""

    def __call__(
        self,
        batch: pa.RecordBatch | dict[str, Any],
        *,
        hf_converter: dict[str, Any] | None = None,
        use_blob_api: bool = False,
        **kwargs: Any,
    ) -> Any: ...


class LanceDataset(torch.utils.data.IterableDataset[Any]):
    """The batches of a table as tensors.

    In a ``DataLoader`` (with ``batch_size=None``: batches are made here) every worker reads its own part of the table, and
    so does every process of ``torch.distributed``.

    Parameters
    ----------
    dataset
        A dataset or the place of one.
    batch_size
        The greatest number of rows in a batch.
    dataset_options
        Options of :func:`lancelet.dataset`, for a place.
    columns
        Names, or a dict of names and SQL expressions; all columns by default.
    filter
        Only rows for which this is true.
    samples
        So many rows by chance instead of all.
    cache
        Keep the rows in a temporary file from the first time on; a text is the folder for it.
    with_row_id
        Add the column ``_rowid``.
    rank, world_size
        Which part of the table this process reads; found out by default.
    shard_granularity
        Parts are whole fragments (``"fragment"``, the default), or every n-th batch (``"batch"``).
    batch_readahead
        Batches that are read at once where single rows are read.
    to_tensor_fn
        Makes tensors of a batch; see :mod:`lancelet.torch.tensors` for what the default does. None: batches as they are.
    sampler
        Reads the table in an order of its own; see :mod:`lancelet.sampler`.
    auto_detect_rank
        Whether rank and world size are found out where they are not given.

    Examples
    --------
    >>> import lancelet
    >>> table = lancelet.write_dataset({"x": [1, 2, 3], "y": [0.5, 1.5, 2.5]}, "memory://docs/torch_data")
    >>> [batch["x"] for batch in LanceDataset(table, batch_size=2)]
    [tensor([1, 2]), tensor([3])]
    """

    def __init__(
        self,
        dataset: Table | str | os.PathLike[str],
        batch_size: int,
        *args: Any,
        dataset_options: Mapping[str, Any] | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        filter: str | None = None,  # noqa: A002
        samples: int | None = 0,
        cache: str | bool | None = None,
        with_row_id: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        shard_granularity: Literal["fragment", "batch"] | None = None,
        batch_readahead: int = 16,
        to_tensor_fn: Callable[..., Any] | None = to_tensor,
        sampler: Sampler | None = None,
        auto_detect_rank: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if batch_size < 1:
            raise InvalidInput(f"batch_size is 1 or more, not {batch_size}")
        if shard_granularity is not None and shard_granularity not in _GRANULARITIES:
            raise InvalidInput(f"shard_granularity is one of {', '.join(_GRANULARITIES)}, not {shard_granularity!r}")
        if (rank is None) != (world_size is None):
            raise InvalidInput("rank and world_size go together: give both or none")
        if samples and sampler is not None:
            raise InvalidInput("samples are rows by chance, and a sampler has an order of its own: give one of them")
        self.dataset = dataset if isinstance(dataset, Table) else open_dataset(dataset, **(dataset_options or {}))
        self.columns = columns
        self.batch_size = batch_size
        self.samples = samples
        self.filter = filter
        self.with_row_id = with_row_id
        self.batch_readahead = batch_readahead
        self.shard_granularity = shard_granularity
        self.rank = rank
        self.world_size = world_size
        self.sampler = sampler
        self.cache = cache
        self._to_tensor = to_tensor_fn
        self._auto_detect_rank = auto_detect_rank
        self._cached: CachedBatches | None = None
        self._blobs = _blob_columns(self.dataset, columns)
        self._features = HuggingFaceConverter.of_schema(self.dataset.schema)

    def __repr__(self) -> str:
        return f"lancelet.torch.data.LanceDataset({self.dataset.uri!r}, batch_size={self.batch_size})"

    def __getstate__(self) -> dict[str, Any]:
        """Another process keeps a cache of its own."""
        return {**self.__dict__, "_cached": None}

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        return self.dataset.scanner(self.columns).projected_schema

    def __iter__(self) -> Iterator[Any]:
        batches: Iterable[pa.RecordBatch]
        if self.cache:
            if self._cached is None:
                self._cached = CachedBatches(self.cache if isinstance(self.cache, str) else None)
            batches = self._cached.batches(self._read)
        else:
            batches = self._read()
        for batch in batches:
            shown: Any = self._with_blobs(batch) if self._blobs else batch
            if self._to_tensor is None:
                yield shown
            else:
                yield self._to_tensor(shown, hf_converter=self._features, use_blob_api=bool(self._blobs))

    def _read(self) -> Iterator[pa.RecordBatch]:
        """The rows of this process. Where there are blobs, their row ids stand for them."""
        columns: Any = self.columns
        if self._blobs:
            names = self.dataset.schema.names if columns is None else columns
            columns = [name for name in names if name not in self._blobs]
        if self.samples:
            if self.with_row_id or self._blobs:
                columns = add_row_id(self.dataset, columns)
            wanted: Any = self.dataset.schema.names if columns is None else columns
            return maybe_sample(self.dataset, self.samples, wanted, self.batch_size, filt=self.filter)
        found = self._sampler()(
            self.dataset,
            batch_size=self.batch_size,
            columns=columns,
            filter=self.filter,
            batch_readahead=self.batch_readahead,
            with_row_id=self.with_row_id or bool(self._blobs),
        )
        if self.filter is None or self.sampler is not None:
            return iter(found)
        # A fragment of which few rows pass the filter gives small batches, which nobody asked for.
        return by_rows(found, self.batch_size)

    def _sampler(self) -> Sampler:
        if self.sampler is not None:
            return self.sampler
        rank, world_size = self.rank, self.world_size
        if rank is None or world_size is None:
            rank, world_size = (get_global_rank(), get_global_world_size()) if self._auto_detect_rank else (0, 1)
        if self.shard_granularity == "batch":
            return ShardedBatchSampler(rank, world_size)
        return FullScanSampler() if world_size == 1 else ShardedFragmentSampler(rank, world_size)

    def _with_blobs(self, batch: pa.RecordBatch) -> dict[str, Any]:
        ids = batch[ROW_ID].to_pylist()
        found = {name: batch[name] for name in batch.schema.names if self.with_row_id or name != ROW_ID}
        blobs = {name: self.dataset.take_blobs(name, ids=ids) for name in self._blobs}
        names = self.dataset.schema.names if self.columns is None else list(self.columns)
        return {name: blobs.get(name, found.get(name)) for name in [*names, *([ROW_ID] if self.with_row_id else [])]}


def _blob_columns(dataset: Table, columns: Any) -> list[str]:
    """Columns that are read as files."""
    if isinstance(columns, Mapping):
        return []
    blobs = {field.name for field in dataset.table.snapshot.manifest.schema.fields if field.is_blob or field.is_blob_v2}
    return [name for name in (dataset.schema.names if columns is None else columns) if name in blobs]


class SafeLanceDataset(torch.utils.data.Dataset[Any]):
    """Rows of a table by number, each a dict; every process opens the table for itself.

    Parameters
    ----------
    uri
        The place of a table.
    dataset_options
        Options of :func:`lancelet.dataset`.

    Examples
    --------
    >>> import lancelet
    >>> _ = lancelet.write_dataset({"x": [1, 2, 3]}, "memory://docs/torch_rows")
    >>> rows = SafeLanceDataset("memory://docs/torch_rows")
    >>> len(rows), rows[2]
    (3, {'x': 3})
    """

    def __init__(self, uri: Any, *, dataset_options: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.uri = uri
        self.dataset_options = dict(dataset_options or {})
        self._opened: tuple[int, Table] | None = None
        table = self._table()
        # What others append meanwhile is not counted: all processes see the same version.
        self.dataset_options.setdefault("version", table.version)
        self._len = table.count_rows()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def _table(self) -> Table:
        """The table, opened by this very process."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), open_dataset(self.uri, **self.dataset_options)
        return self._opened[1]

    def __len__(self) -> int:
        """How many rows there are."""
        return self._len

    def __getitem__(self, idx: int) -> dict[str, Any]:
        """One row."""
        return self.__getitems__([idx])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Several rows at once, which a ``DataLoader`` asks for."""
        rows: list[dict[str, Any]] = self._table().take(indices).to_pylist()
        return rows


def get_safe_loader(dataset: Any, batch_size: int = 32, num_workers: int = 4, **kwargs: Any) -> Any:
    """A ``DataLoader`` whose workers are processes of their own from the start, and stay for all epochs.

    Parameters
    ----------
    dataset
        What to load, for example a :class:`SafeLanceDataset`.
    batch_size, num_workers
        As for ``DataLoader``, whose other options win over what is chosen here.
    """
    options: dict[str, Any] = {"batch_size": batch_size, "num_workers": num_workers}
    if num_workers:
        options |= {"persistent_workers": True, "multiprocessing_context": "spawn"}
    return torch.utils.data.DataLoader(dataset, **{**options, **kwargs})


class TensorDataset(torch.utils.data.Dataset[Any]):
    """An array in batches, as a :class:`LanceDataset` gives them.

    Examples
    --------
    >>> list(TensorDataset(np.arange(3), 2))
    [tensor([0, 1]), tensor([2])]
    """

    def __init__(self, data: Any, batch_size: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if batch_size < 1:
            raise InvalidInput(f"batch_size is 1 or more, not {batch_size}")
        self._data = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return f"lancelet.torch.data.TensorDataset({tuple(self._data.shape)}, batch_size={self._batch_size})"

    def __len__(self) -> int:
        """How many batches."""
        return -(-len(self._data) // self._batch_size)

    def __getitem__(self, idx: int) -> Any:
        """A batch by number."""
        if not 0 <= idx < len(self):
            # The protocol of sequences: it ends a loop over them.
            raise IndexError(f"there is no batch {idx} of {len(self)}")
        return self._data[idx * self._batch_size : (idx + 1) * self._batch_size]


def concat_batches(bs: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Several batches as one.

    Examples
    --------
    >>> concat_batches([pa.record_batch({"x": [1]}), pa.record_batch({"x": [2]})]).num_rows
    2
    """
    return pa.concat_batches(list(bs))

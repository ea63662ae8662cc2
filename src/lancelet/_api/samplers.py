"""The rows of a table cut into parts, one for each process that trains on them.

==========================  =======================================================================
sampler                     what a process of rank r among n gets
==========================  =======================================================================
FullScanSampler             everything
ShardedFragmentSampler      fragments r, r + n, r + 2n, ...: the cheapest to read
ShardedBatchSampler         batches r, r + n, ...; with a filter, the rows r, r + n, ... that pass it
ShardedFixedBatchSampler    one stretch of row numbers, in batches; for data sets that are asked by number
==========================  =======================================================================

An order by chance depends on ``seed + epoch`` alone, so every process knows what the others read, and a run can be repeated.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lancelet._api.sampling import filtered_row_ids
from lancelet._naming.extras import import_extra
from lancelet.encoding.picking import pick_rows
from lancelet.errors import InvalidInput
from lancelet.execution.rebatch import by_rows
from lancelet.format.system_columns import ROW_ID

if TYPE_CHECKING:
    from lancelet._api.scanner import Columns
    from lancelet.dataset import LanceDataset
    from lancelet.fragment import LanceFragment


class Sampler(ABC):
    """Batches of a dataset, in an order of its own: subclasses say in which."""

    @abstractmethod
    def __call__(
        self,
        ds: LanceDataset,
        *args: object,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,  # noqa: A002
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: object,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the dataset."""


class FragmentSampler(Sampler):
    """Batches of whole fragments, in the order of :meth:`iter_fragments`."""

    def __call__(  # type: ignore[override]
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,  # noqa: A002
        batch_readahead: int = 16,
        with_row_id: bool = False,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the fragments."""
        _check_batches(batch_size)
        options = {"batch_readahead": batch_readahead, "with_row_id": with_row_id, **kwargs}
        for fragment in self.iter_fragments(dataset, *args, **kwargs):
            yield from fragment.to_batches(columns=columns, filter=filter, batch_size=batch_size, **options)

    @abstractmethod
    def iter_fragments(self, ds: LanceDataset, *args: Any, **kwargs: Any) -> Iterator[LanceFragment]:
        """Fragments, in the order in which they are to be read."""


class FullScanSampler(FragmentSampler):
    """All fragments, in their order.

    Examples
    --------
    >>> import lancelet
    >>> numbers = lancelet.write_dataset({"x": range(5)}, "memory://docs/full_scan_sampler")
    >>> [batch["x"].to_pylist() for batch in FullScanSampler()(numbers, batch_size=3)]
    [[0, 1, 2], [3, 4]]
    """

    def iter_fragments(  # type: ignore[override]
        self, dataset: LanceDataset, **kwargs: object
    ) -> Iterator[LanceFragment]:
        """All fragments."""
        return iter(dataset.get_fragments())


class _Shard:
    """One part of several, and how its order comes about."""

    def __init__(self, rank: int, world_size: int, randomize: bool, seed: int) -> None:
        if world_size < 1 or not 0 <= rank < world_size:
            raise InvalidInput(f"there is no rank {rank} among {world_size}; ranks go from 0 to world_size - 1")
        self._rank = rank
        self._world_size = world_size
        self._randomize = randomize
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Another order by chance for every epoch; all processes say the same one."""
        self._epoch = epoch

    def _shuffle(self, things: list[Any]) -> None:
        if self._randomize:
            random.Random(self._seed + self._epoch).shuffle(things)


class ShardedFragmentSampler(_Shard, FragmentSampler):
    """Every n-th fragment.

    Parameters
    ----------
    rank, world_size
        Which process this is, and of how many.
    randomize, seed
        Fragments in an order by chance, the same for the same seed and epoch.

    Examples
    --------
    >>> import lancelet
    >>> numbers = lancelet.write_dataset({"x": range(6)}, "memory://docs/fragment_sampler", max_rows_per_file=2)
    >>> [batch["x"].to_pylist() for batch in ShardedFragmentSampler(1, 2)(numbers)]
    [[2, 3]]
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        super().__init__(rank, world_size, randomize, seed)

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedFragmentSampler:
        """With rank and number of processes as ``torch.distributed`` tells them."""
        return ShardedFragmentSampler(*_torch_place(), randomize=randomize, seed=seed)

    def iter_fragments(  # type: ignore[override]
        self, dataset: LanceDataset, **kwargs: object
    ) -> Iterator[LanceFragment]:
        """The fragments of this process."""
        fragments = dataset.get_fragments()
        self._shuffle(fragments)
        return iter(fragments[self._rank :: self._world_size])


class ShardedBatchSampler(_Shard, Sampler):
    """Every n-th batch; with a filter, batches of every n-th row that passes it.

    Without a filter a process reads its own rows only. With one, each process tests all rows; in an order by
    chance, it then reads the other columns of its own rows only.

    Parameters
    ----------
    rank, world_size
        Which process this is, and of how many.
    randomize, seed
        Batches in an order by chance, the same for the same seed and epoch.

    Examples
    --------
    >>> import lancelet
    >>> numbers = lancelet.write_dataset({"x": range(10)}, "memory://docs/batch_sampler")
    >>> [batch["x"].to_pylist() for batch in ShardedBatchSampler(1, 2)(numbers, batch_size=3)]
    [[3, 4, 5], [9]]
    """

    def __init__(self, rank: int, world_size: int, randomize: bool = False, seed: int = 0) -> None:
        super().__init__(rank, world_size, randomize, seed)

    @staticmethod
    def from_torch(randomize: bool = False, seed: int = 0) -> ShardedBatchSampler:
        """With rank and number of processes as ``torch.distributed`` tells them."""
        return ShardedBatchSampler(*_torch_place(), randomize=randomize, seed=seed)

    def __call__(  # type: ignore[override]
        self,
        dataset: LanceDataset,
        *args: Any,
        batch_size: int = 128,
        columns: Columns = None,
        filter: str | None = None,  # noqa: A002
        batch_readahead: int = 16,
        with_row_id: bool | None = None,
        **kwargs: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of this process; ``batch_readahead`` of them are read at once."""
        _check_batches(batch_size)
        if filter is None:
            total = dataset.count_rows()
            starts = list(range(self._rank * batch_size, total, self._world_size * batch_size))
            self._shuffle(starts)
            parts: Sequence[Any] = [range(start, min(start + batch_size, total)) for start in starts]
            yield from _read_parts(dataset, parts, columns, batch_readahead, bool(with_row_id), by_id=False)
        elif self._randomize:
            own = filtered_row_ids(dataset, filter)[self._rank :: self._world_size]
            parts = [own[start : start + batch_size] for start in range(0, len(own), batch_size)]
            self._shuffle(parts)
            yield from _read_parts(dataset, parts, columns, batch_readahead, bool(with_row_id), by_id=True)
        else:
            found = dataset.to_batches(columns, filter, with_row_id=bool(with_row_id), **kwargs)
            yield from by_rows(_every_nth_row(found, self._rank, self._world_size), batch_size)


class ShardedFixedBatchSampler(ShardedBatchSampler):
    """Row numbers in batches, from one stretch for each process; for data sets that are asked by number.

    Every process has the same number of batches, whose last ones may be short.

    Parameters
    ----------
    rank, world_size
        Which process this is, and of how many.
    randomize, seed
        Batches in an order by chance, the same for the same seed and epoch.
    batch_size
        Rows in a batch.
    total_num_rows
        Rows of the data set.

    Examples
    --------
    >>> list(ShardedFixedBatchSampler(1, 2, batch_size=2, total_num_rows=6))
    [[3, 4], [5]]
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        randomize: bool = False,
        seed: int = 0,
        batch_size: int = 0,
        total_num_rows: int = 0,
    ) -> None:
        super().__init__(rank, world_size, randomize, seed)
        if batch_size < 1 or total_num_rows < 0:
            raise InvalidInput(
                f"batch_size is 1 or more and total_num_rows 0 or more, not {batch_size} and {total_num_rows}"
            )
        share = -(-total_num_rows // world_size)
        start = min(rank * share, total_num_rows)
        self._rows = range(start, min(start + share, total_num_rows))
        self._batch_size = batch_size

    @staticmethod
    def from_torch(  # type: ignore[override]
        batch_size: int, total_num_rows: int, randomize: bool = False, seed: int = 0
    ) -> ShardedFixedBatchSampler:
        """With rank and number of processes as ``torch.distributed`` tells them."""
        return ShardedFixedBatchSampler(
            *_torch_place(), randomize=randomize, seed=seed, batch_size=batch_size, total_num_rows=total_num_rows
        )

    def __len__(self) -> int:
        """How many batches."""
        return -(-len(self._rows) // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        """The row numbers of each batch."""
        batches = [
            self._rows[start : start + self._batch_size] for start in range(0, len(self._rows), self._batch_size)
        ]
        self._shuffle(batches)
        return map(list, batches)


def _check_batches(batch_size: int) -> None:
    if batch_size < 1:
        raise InvalidInput(f"batch_size is 1 or more, not {batch_size}")


def _torch_place() -> tuple[int, int]:
    """Rank and number of processes."""
    distributed = import_extra("torch.distributed", "torch", "a sampler for torch.distributed")
    return distributed.get_rank(), distributed.get_world_size()


def _read_parts(
    dataset: LanceDataset, parts: Sequence[Any], columns: Columns, ahead: int, with_row_id: bool, *, by_id: bool
) -> Iterator[pa.RecordBatch]:
    """Batches of given rows; several of them are one take, which costs little more than one of them."""
    if with_row_id:
        columns = add_row_id(dataset, columns)
    take = dataset._take_rows if by_id else dataset.take
    group = max(1, ahead)
    for first in range(0, len(parts), group):
        together = parts[first : first + group]
        table = take(np.concatenate([np.asarray(part) for part in together]), columns).combine_chunks()
        start = 0
        for part in together:
            yield from table.slice(start, len(part)).to_batches()
            start += len(part)


def add_row_id(dataset: LanceDataset, columns: Columns) -> Columns:
    """Columns of a take, and the row id."""
    if columns is None:
        return [*dataset.schema.names, ROW_ID]
    return {**columns, ROW_ID: ROW_ID} if isinstance(columns, Mapping) else [*columns, ROW_ID]


def _every_nth_row(batches: Iterator[pa.RecordBatch], rank: int, world_size: int) -> Iterator[pa.RecordBatch]:
    seen = 0
    for batch in batches:
        own = np.arange((rank - seen) % world_size, batch.num_rows, world_size)
        seen += batch.num_rows
        if len(own):
            yield pick_rows(batch, pa.array(own))

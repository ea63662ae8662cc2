"""Rows of a table by chance, read in pieces that the store likes.

A small sample is a take of single rows. A large one is drawn as runs of neighbouring rows, so that it costs no more than a
given number of reads::

    n <= max_takes      rows    . .   .     ..    .   .        n reads
    n >  max_takes      runs    ....     ....   ....    ....   at most max_takes reads of ceil(n / max_takes) rows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lancelet._api.entry import dataset as open_dataset
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput
from lancelet.format.system_columns import ROW_ID

if TYPE_CHECKING:
    import os

    import numpy.typing as npt
    import pyarrow as pa

    from lancelet.execution.takes import TakenColumns

T = TypeVar("T")


def maybe_sample(
    dataset: str | os.PathLike[str] | LanceDataset,
    n: int,
    columns: Sequence[str] | dict[str, str] | str,
    batch_size: int = 10240,
    max_takes: int = 2048,
    filt: str | None = None,
    *,
    seed: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Some rows of a table by chance; all rows, in their order, when it has no more.

    Parameters
    ----------
    dataset
        A dataset or the place of one.
    n
        How many rows; each comes at most once.
    columns
        A name, names, or a dict of names and SQL expressions.
    batch_size
        The greatest number of rows in a batch.
    max_takes
        How many places of the table are read at most. A larger sample consists of runs of neighbouring rows.
    filt
        Only rows for which this is true. Their row ids are held in memory.
    seed
        The same rows every time; others at each call by default.

    Examples
    --------
    >>> import lancelet
    >>> numbers = lancelet.write_dataset({"x": range(100)}, "memory://docs/maybe_sample")
    >>> [batch.num_rows for batch in maybe_sample(numbers, 10, "x", batch_size=4, seed=1)]
    [4, 4, 2]
    """
    if n < 0:
        raise InvalidInput(f"cannot sample {n} rows; n is 0 or more")
    if batch_size < 1 or max_takes < 1:
        raise InvalidInput(f"batch_size and max_takes are 1 or more, not {batch_size} and {max_takes}")
    opened = dataset if isinstance(dataset, LanceDataset) else open_dataset(dataset)
    names = [columns] if isinstance(columns, str) else columns
    return _sample(opened, n, names, batch_size, max_takes, filt, np.random.default_rng(seed))


def _sample(
    dataset: LanceDataset,
    n: int,
    columns: Any,
    batch_size: int,
    max_takes: int,
    filt: str | None,
    chance: np.random.Generator,
) -> Iterator[pa.RecordBatch]:
    if filt is not None:
        ids = filtered_row_ids(dataset, filt)
        chosen = ids[draw(len(ids), min(n, len(ids)), max_takes, chance)]
        yield from taken(dataset, chosen, columns, batch_size, by_id=True)
        return
    total = dataset.count_rows()
    if n >= total:
        yield from dataset.to_batches(columns, batch_size=batch_size)
        return
    yield from taken(dataset, draw(total, n, max_takes, chance), columns, batch_size)


def draw(total: int, n: int, max_takes: int, chance: np.random.Generator) -> npt.NDArray[np.int64]:
    """``n`` of so many row numbers, each at most once, in at most ``max_takes`` runs.

    Examples
    --------
    >>> len(set(draw(1000, 100, 10, np.random.default_rng(1)).tolist()))
    100
    """
    if n >= total:
        return np.arange(total)
    if n <= max_takes:
        return chance.choice(total, n, replace=False)
    length = -(-n // max_takes)
    runs = -(-total // length)
    # The last run of the table may be short: one more makes up for it.
    starts = length * chance.choice(runs, min(-(-n // length) + 1, runs), replace=False)
    rows = (starts[:, None] + np.arange(length)).reshape(-1)
    return rows[rows < total][:n]


def taken(
    dataset: LanceDataset,
    rows: npt.NDArray[Any],
    columns: TakenColumns,
    batch_size: int,
    *,
    by_id: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Rows by number or by id, in batches of one chunk each."""
    for start in range(0, len(rows), batch_size):
        part = rows[start : start + batch_size]
        table = dataset._take_rows(part, columns) if by_id else dataset.take(part, columns)
        yield from table.combine_chunks().to_batches()


def filtered_row_ids(dataset: LanceDataset, filt: object) -> npt.NDArray[np.uint64]:
    """Row ids of the rows for which a filter is true, in the table's order."""
    found = dataset.to_table(columns=[], filter=filt, with_row_id=True)
    ids: npt.NDArray[np.uint64] = found[ROW_ID].to_numpy()
    return ids


def reservoir_sampling(stream: Iterable[T], k: int, *, seed: int | None = None) -> list[T]:
    """``k`` of the things that come, each with the same chance; all when there are no more.

    Examples
    --------
    >>> reservoir_sampling("abc", 5)
    ['a', 'b', 'c']
    """
    if k < 1:
        raise InvalidInput(f"k is 1 or more, not {k}")
    chance = np.random.default_rng(seed)
    kept: list[T] = []
    for number, one in enumerate(stream):
        if number < k:
            kept.append(one)
        elif (place := int(chance.integers(0, number + 1))) < k:
            kept[place] = one
    return kept

"""Which rows a task gives, where Spark wants fewer than there are: the first ones in an order, or some by chance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.picking import keep_rows
from lancelet.execution.costs import DEFAULT_BATCH_SIZE
from lancelet.execution.plan import column_of
from lancelet.execution.scan import Scan
from lancelet.expressions.sort import SortKey, sort_table
from lancelet.format.schema import join_path
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.table_reader import TableReader

_KEPT = 1 << 16
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Order:
    """What Spark sorts by."""

    keys: tuple[tuple[tuple[str, ...], bool, bool], ...]
    """The path of a column, whether it ascends, and whether nulls come first."""

    @classmethod
    def read(cls, text: str) -> Order:
        """As the bridge writes it."""
        return cls(tuple((tuple(path), bool(up), bool(nulls)) for path, up, nulls in json.loads(text)))


def first_rows(table: TableReader, plan: ScanPlan, order: Order, count: int) -> Iterator[pa.RecordBatch]:
    """The first rows of a scan in an order; what is not sorted by is read for these alone."""
    names = [f"k{number}" for number in range(len(order.keys))]
    outputs = [
        (name, column_of(plan.schema, join_path(path))) for name, (path, _, _) in zip(names, order.keys, strict=True)
    ]
    sought = replace(
        plan,
        outputs=(*outputs, (ROW_ADDRESS, column_of(plan.schema, ROW_ADDRESS))),
        blobs_as_binary=frozenset(),
        batch_size=DEFAULT_BATCH_SIZE,
    )
    keys = [SortKey(name, up, nulls) for name, (_, up, nulls) in zip(names, order.keys, strict=True)]
    best: list[pa.RecordBatch] = []
    held = 0
    for batch in Scan(table, sought).batches():
        best.append(_as_spark_sorts(batch))
        held += batch.num_rows
        if held > count + _KEPT:
            best = sort_table(pa.Table.from_batches(best), keys).slice(0, count).to_batches()
            held = min(held, count)
    if best:
        first = sort_table(pa.Table.from_batches(best), keys).slice(0, count)
        yield from taken_rows(table, plan, first.column(ROW_ADDRESS).to_numpy())


def taken_rows(table: TableReader, plan: ScanPlan, addresses: npt.NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
    """What a plan gives of rows at some addresses, in batches of at most its size."""
    if not len(addresses):
        return
    if not plan.outputs:
        yield pa.record_batch({"": pa.nulls(len(addresses))}).select([])
        return
    whole = replace(plan, filter=None, fragment_ids=None, row_ranges=None, limit=None, offset=0)
    owners, offsets = table.locate_addresses(addresses.astype(np.uint64))
    for start in range(0, len(owners), plan.batch_size):
        part = slice(start, start + plan.batch_size)
        yield from Scan(table, whole).take(owners[part], offsets[part]).combine_chunks().to_batches()


def _as_spark_sorts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keys of which those are the same that are the same to Spark: zeros of both signs, and all that is no number."""
    columns = [_one_zero(column) if pa.types.is_floating(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _one_zero(column: pa.Array) -> pa.Array:
    column = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
    zero, odd = (pa.scalar(value, column.type) for value in (0.0, float("nan")))
    return pc.if_else(pc.is_nan(column), odd, pc.if_else(pc.equal(column, zero), zero, column))


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows by chance: those whose number, which follows from address and seed, is in a range of those from 0 to 1."""

    lower: float
    upper: float
    seed: int

    @classmethod
    def read(cls, text: str) -> Sample:
        """As the bridge writes it."""
        lower, upper, seed = text.split(",")
        return cls(float(lower), float(upper), int(seed))

    def has(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which rows are in it."""
        mixed = addresses.astype(np.uint64) + np.uint64((self.seed * _STEP) & _WORD)
        for shift, factor in zip((30, 27), _MIX, strict=True):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
        mixed ^= mixed >> np.uint64(31)
        chance = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
        found: npt.NDArray[np.bool_] = (chance >= self.lower) & (chance < self.upper)
        return found


def sampled(table: TableReader, plan: ScanPlan, sample: Sample, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The rows of a scan that are in a sample."""
    names: Sequence[Any] = [name for name, _ in plan.outputs]
    address = column_of(plan.schema, ROW_ADDRESS)
    outputs = plan.outputs if ROW_ADDRESS in names else (*plan.outputs, (ROW_ADDRESS, address))
    left = limit
    for batch in Scan(table, replace(plan, outputs=outputs)).batches():
        some = keep_rows(batch, pa.array(sample.has(batch.column(ROW_ADDRESS).to_numpy()))).slice(0, left)
        left = None if left is None else left - some.num_rows
        if some.num_rows:
            yield some.select(names) if names else some
        if left == 0:
            return

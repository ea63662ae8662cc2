"""Rows through a log in front of a table: writers, and readers of the table with what is not in it yet.

Under pylance's names, and :class:`TableWriter`, which :meth:`lancelet.LanceDataset.writer` gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancelet._api.lsm_scanner import HasTable, LsmScanner, ShardSnapshot
from lancelet._api.table_writer import AsyncTableWriter, TableWriter
from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.execution.plan import table_schema
from lancelet.execution.table_reader import TableReader
from lancelet.memwal.details import require_details
from lancelet.memwal.names import shard_of
from lancelet.memwal.scan import LevelScan, lookup
from lancelet.memwal.sharding import ShardingField, ShardingSpec, evaluate, spec_of
from lancelet.memwal.view import View, given_view, shard_view
from lancelet.memwal.writer import Acknowledgement
from lancelet.memwal.writer import ShardWriter as CoreWriter

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from lancelet.schema import LanceSchema

__all__ = [
    "Acknowledgement",
    "AsyncTableWriter",
    "CompactedSsTable",
    "ExecutionPlan",
    "LsmPointLookupPlanner",
    "LsmScanner",
    "LsmVectorSearchPlanner",
    "ShardSnapshot",
    "ShardWriter",
    "ShardingField",
    "ShardingSpec",
    "TableWriter",
    "evaluate_sharding_spec",
]


def evaluate_sharding_spec(
    batch: pa.RecordBatch, spec: ShardingSpec | Mapping[str, Any], schema: LanceSchema
) -> pa.RecordBatch:
    """The values by which rows are told apart, a column for each field of a spec.

    Parameters
    ----------
    batch
        Rows.
    spec
        A spec, or a dict with the same names.
    schema
        That of the table, ``dataset.lance_schema``.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": [1, 2, 3]}, "memory://docs/evaluate_sharding_spec")
    >>> dataset.initialize_mem_wal(bucket_column="id", num_buckets=8)
    >>> (spec,) = dataset.mem_wal_index_details()["sharding_specs"]
    >>> (batch,) = dataset.to_batches()
    >>> evaluate_sharding_spec(batch, spec, dataset.lance_schema).to_pydict()
    {'bucket': [4, 4, 3]}
    """
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidType(f"Expected pyarrow.RecordBatch, got {type(batch)!r}")
    return evaluate(batch, spec_of(spec), schema._schema)


@dataclass
class CompactedSsTable:
    """A run that is in the table, for :meth:`lancelet.dataset.MergeInsertBuilder.mark_sstables_as_compacted`.

    Examples
    --------
    >>> CompactedSsTable("5eed0000-0000-4000-8000-000000000001", 3).generation
    3
    """

    shard_id: str
    generation: int


class ExecutionPlan:
    """A lookup or a search that is ready to run.

    Examples
    --------
    >>> import lancelet, pyarrow as pa
    >>> key = {"lance-schema:unenforced-primary-key": "true"}
    >>> schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key)])
    >>> dataset = lancelet.write_dataset(pa.table({"id": [1, 2]}, schema), "memory://docs/execution_plan")
    >>> plan = LsmPointLookupPlanner(dataset, []).plan_lookup(pa.array([2]))
    >>> plan.to_table().to_pydict()
    {'id': [2]}
    """

    def __init__(
        self, view: View, schema: pa.Schema, title: str, execute: Callable[[], Iterator[pa.RecordBatch]]
    ) -> None:
        self._view = view
        self._schema = schema
        self._title = title
        self._execute = execute

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the base table."""
        return table_schema(self._view.base.snapshot.manifest.schema)

    def explain(self) -> str:
        """What is done, level by level."""
        lines = [self._title]
        for level in self._view.levels:
            where = "base" if not level.generation else f"shard={level.shard}, generation={level.generation}"
            lines.append(f"  LanceRead: uri={level.table.snapshot.uri}, {where}")
        return "\n".join(lines) + "\n"

    def to_reader(self) -> pa.RecordBatchReader:
        """The result as a stream."""
        return pa.RecordBatchReader.from_batches(self._schema, self._execute())

    def to_batches(self) -> list[pa.RecordBatch]:
        """All batches."""
        return list(self._execute())

    def to_table(self) -> pa.Table:
        """The whole result."""
        return self.to_reader().read_all()


class LsmPointLookupPlanner:
    """Finds rows by their primary key in a version of a table and in runs that are named.

    Examples
    --------
    See :class:`ExecutionPlan`.
    """

    def __init__(
        self, dataset: HasTable, shard_snapshots: Sequence[ShardSnapshot], pk_columns: Sequence[str] | None = None
    ) -> None:
        self._view = given_view(dataset.table, [snapshot._view() for snapshot in shard_snapshots])
        _check_key(self._view, pk_columns, "a point lookup")

    def plan_lookup(self, pk_value: pa.Array, columns: Sequence[str] | None = None) -> ExecutionPlan:
        """A lookup of one key.

        Parameters
        ----------
        pk_value
            An array of one value; for a key of several columns a struct of them.
        columns
            The columns of the result, all by default.
        """
        if not isinstance(pk_value, (pa.Array, pa.ChunkedArray)) or len(pk_value) != 1:
            raise InvalidInput("pk_value is a pyarrow array with exactly one element")
        view = self._view
        schema = LevelScan(None if columns is None else tuple(columns)).schema(view)
        return ExecutionPlan(
            view, schema, "LsmPointLookup", lambda: iter(_as(lookup(view, pk_value, columns), schema).to_batches())
        )


class LsmVectorSearchPlanner:
    """Finds the nearest vectors in a version of a table and in runs that are named.

    Examples
    --------
    >>> import lancelet, pyarrow as pa
    >>> key = {"lance-schema:unenforced-primary-key": "true"}
    >>> vector = pa.list_(pa.float32(), 2)
    >>> schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key), pa.field("v", vector)])
    >>> table = pa.table({"id": [1, 2], "v": [[0, 0], [3, 4]]}, schema)
    >>> dataset = lancelet.write_dataset(table, "memory://docs/lsm_vectors")
    >>> plan = LsmVectorSearchPlanner(dataset, [], "v").plan_search(pa.array([3, 3], pa.float32()), k=1)
    >>> plan.to_table().to_pydict()
    {'id': [2], 'v': [[3.0, 4.0]], '_distance': [1.0]}
    """

    def __init__(
        self,
        dataset: HasTable,
        shard_snapshots: Sequence[ShardSnapshot],
        vector_column: str,
        pk_columns: Sequence[str] | None = None,
        distance_type: str | None = None,
        filter: str | None = None,  # noqa: A002 - pylance's name
    ) -> None:
        self._view = given_view(dataset.table, [snapshot._view() for snapshot in shard_snapshots])
        _check_key(self._view, pk_columns, "a search over runs")
        self._column = vector_column
        self._metric = distance_type
        self._filter = filter

    def plan_search(
        self,
        query: pa.Array,
        k: int = 10,
        nprobes: int = 20,
        columns: Sequence[str] | None = None,
        refine_base_table: bool = False,
        overfetch_factor: float = 1.0,
    ) -> ExecutionPlan:
        """A search for the ``k`` nearest rows.

        Parameters
        ----------
        query
            As many numbers as the vectors have.
        k
            How many rows, at most.
        nprobes
            How many partitions of an index are looked at.
        columns
            The columns of the result besides ``_distance``, all by default.
        refine_base_table
            Compare the vectors that an index finds.
        overfetch_factor
            At least 1; rows that newer ones replace never take the place of others here, so that it changes nothing.
        """
        if k <= 0:
            raise InvalidInput(f"k must be positive, got {k}")
        if nprobes <= 0:
            raise InvalidInput(f"nprobes must be positive, got {nprobes}")
        if not math.isfinite(overfetch_factor) or overfetch_factor < 1.0:
            raise InvalidInput(f"overfetch_factor must be finite and >= 1.0, got {overfetch_factor}")
        nearest = {"column": self._column, "q": query, "k": k, "nprobes": nprobes, "metric": self._metric}
        if refine_base_table:
            nearest["refine_factor"] = 1
        names = None if columns is None else tuple(name for name in columns if name != "_distance")
        scan = LevelScan(None if names is None else (*names, "_distance"), self._filter, nearest=nearest)
        view = self._view
        return ExecutionPlan(view, scan.schema(view), "LsmVectorSearch", lambda: scan.batches(view))


class ShardWriter:
    """The writer of one shard, which no other writer has meanwhile. Used as a context it is closed at the end.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": [1]}, "memory://docs/shard_writer")
    >>> dataset.initialize_mem_wal()
    >>> with dataset.mem_wal_writer("5eed0000-0000-4000-8000-000000000001") as writer:
    ...     writer.put({"id": [2, 3]})
    >>> dataset.lsm_scanner().count_rows()
    3
    """

    def __init__(self, writer: CoreWriter, table: TableReader) -> None:
        self._writer = writer
        self._table = table

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shard_id!r}, epoch={self._writer.shard.epoch})"

    @property
    def shard_id(self) -> str:
        """The shard, as the text of a UUID."""
        return self._writer.shard_id

    def put(self, data: Any, *, schema: pa.Schema | None = None) -> None:
        """Write rows: whatever :func:`lancelet.write_dataset` takes. They are in the log afterwards, by default.

        Raises
        ------
        WriterFenced
            Another writer has claimed the shard. What was acknowledged before is safe with it.
        """
        self._writer.put(data, schema=schema)

    def delete(self, keys: Any, *, schema: pa.Schema | None = None) -> None:
        """Delete rows by their primary keys, whether they are there or not."""
        self._writer.delete(keys, schema=schema)

    def flush(self) -> None:
        """Have all rows in a run: others see them then without reading the log."""
        self._writer.flush()

    def close(self) -> None:
        """Have all rows in a run, and take no more."""
        self._writer.close()

    def stats(self) -> dict[str, int]:
        """What was written so far: numbers of puts, entries, runs and rows, and milliseconds."""
        return self._writer.stats()

    def memtable_stats(self) -> dict[str, int]:
        """What is in memory."""
        return self._writer.memtable_stats()

    def lsm_scanner(self, shard_snapshots: Sequence[ShardSnapshot] | None = None) -> LsmScanner:
        """A scanner of the newest version with all that this writer has written, and runs of other shards that are named."""
        own = shard_view(*self._writer.shard.memtables())
        others = [snapshot._view() for snapshot in shard_snapshots or () if snapshot.shard_id != self.shard_id]
        table = self._table

        def take() -> View:
            return given_view(TableReader(table.snapshot.latest(), table.cache), [own, *others])

        return LsmScanner(take)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_shard(table: TableReader, shard_id: str, options: Mapping[str, Any]) -> CoreWriter:
    """Claim a shard of a table."""
    snapshot = table.snapshot.latest()
    return CoreWriter.open(snapshot, shard_of(shard_id), require_details(snapshot).config.with_options(options))


def _check_key(view: View, columns: Sequence[str] | None, what: str) -> None:
    view.key.require(what)
    if columns is not None and list(columns) != list(view.key.names):
        raise NotSupported(
            f"pk_columns are those of the table's primary key, {list(view.key.names)}, not {list(columns)}: runs are sorted and "
            "hidden by these"
        )


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the columns of a plan; levels may differ in metadata."""
    return pa.Table.from_arrays([table.column(name) for name in schema.names], schema=schema)

"""Rows through a log in front of a table: writers, and readers of the table with what is not in it yet.

Under pylance's names, and :class:`TableWriter`, which :meth:`lancelet.LanceDataset.writer` gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from lancelet._api.table_writer import AsyncTableWriter, TableWriter
from lancelet.errors import InvalidInput, InvalidType, MissingFile, NotSupported
from lancelet.execution.plan import table_schema
from lancelet.execution.table_reader import TableReader
from lancelet.memwal.details import require_details
from lancelet.memwal.names import shard_of
from lancelet.memwal.scan import LevelScan, lookup
from lancelet.memwal.shard_manifest import SsTable
from lancelet.memwal.sharding import ShardingField, ShardingSpec, evaluate, spec_of
from lancelet.memwal.view import ShardView, View, given_view, shard_view, take_view
from lancelet.memwal.writer import Acknowledgement
from lancelet.memwal.writer import ShardWriter as CoreWriter

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from lancelet.schema import LanceSchema
    from lancelet.table.manifest.snapshot import Snapshot

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

T = TypeVar("T")
_ATTEMPTS = 4


class _Table(Protocol):
    """What is needed of a dataset."""

    @property
    def table(self) -> TableReader: ...


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


class ShardSnapshot:
    """What a reader is to look at of a shard: runs by their generations and the names of their folders.

    Examples
    --------
    >>> ShardSnapshot("5eed0000-0000-4000-8000-000000000001").with_sstable(1, "372b93c9_gen_1")
    ShardSnapshot(shard_id='5eed0000-0000-4000-8000-000000000001', current_gen=1, sstables=1)
    """

    def __init__(self, shard_id: str) -> None:
        self._shard = shard_of(shard_id)
        self._spec_id = 0
        self._generation = 1
        self._runs: dict[int, SsTable] = {}

    @property
    def shard_id(self) -> str:
        """The shard, as the text of a UUID."""
        return str(self._shard)

    def with_spec_id(self, spec_id: int) -> ShardSnapshot:
        """The spec that the shard was made under."""
        self._spec_id = int(spec_id)
        return self

    def with_current_generation(self, generation: int) -> ShardSnapshot:
        """The generation of the next run."""
        self._generation = int(generation)
        return self

    def with_sstable(self, generation: int, path: str) -> ShardSnapshot:
        """A run, and the name of its folder in that of the shard."""
        if not path or "/" in path or path in (".", ".."):
            raise InvalidInput(f"a run is named by its folder in that of the shard, not {path!r}")
        self._runs[int(generation)] = SsTable(int(generation), path)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shard_id={self.shard_id!r}, current_gen={self._generation}, sstables={len(self._runs)})"

    def _view(self) -> ShardView:
        return ShardView(self._shard, tuple(self._runs[number] for number in sorted(self._runs)))


class LsmScanner:
    """A scan over a table and what its MemWAL has: of each key the newest row.

    Methods that say what is wanted return the scanner itself. All results of one scanner are of the same view, in which each
    shard is looked at in one moment.

    Examples
    --------
    >>> import lancelet, pyarrow as pa
    >>> key = {"lance-schema:unenforced-primary-key": "true"}
    >>> schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=key), pa.field("n", pa.int64())])
    >>> dataset = lancelet.write_dataset(pa.table({"id": [1, 2], "n": [1, 1]}, schema), "memory://docs/lsm_scanner")
    >>> dataset.initialize_mem_wal(unsharded=True)
    >>> with dataset.writer() as writer:
    ...     _ = writer.put({"id": [2, 3], "n": [2, 2]})
    >>> sorted(dataset.lsm_scanner().filter("n > 1").to_table()["id"].to_pylist())
    [2, 3]
    """

    def __init__(self, take: Callable[[], View], *, again: bool = False) -> None:
        self._take = take
        self._again = again
        self._taken: View | None = None
        self._scan = LevelScan()

    @staticmethod
    def from_snapshots(dataset: _Table, shard_snapshots: Sequence[ShardSnapshot]) -> LsmScanner:
        """A scanner of a version with runs that are named; rows in memory are not among them."""
        view = given_view(dataset.table, [snapshot._view() for snapshot in shard_snapshots])
        return LsmScanner(lambda: view)

    def project(self, columns: Sequence[str]) -> LsmScanner:
        """Only some columns."""
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise InvalidType(f"columns is a list of names, not {columns!r}")
        return self._with(columns=tuple(columns))

    def filter(self, expr: str) -> LsmScanner:
        """Only rows for which an SQL text is true."""
        return self._with(filter=expr)

    def limit(self, n: int | None = None, offset: int | None = None) -> LsmScanner:
        """At most so many rows, after some others."""
        for name, number in (("limit", n), ("offset", offset)):
            if number is not None and number < 0:
                raise InvalidInput(f"{name} must be non-negative, got {number}")
        return self._with(limit=n, offset=offset or 0)

    def with_row_address(self) -> LsmScanner:
        """Add the column ``_rowaddr``, which only rows of the base table have."""
        return self._with(row_address=True)

    def with_memtable_gen(self) -> LsmScanner:
        """Add the column ``_memtable_gen``: the generation that a row is from, 0 for the base table."""
        return self._with(generation=True)

    def nearest(self, column: str, q: Any, k: int = 10, **options: Any) -> LsmScanner:
        """The rows whose vectors are nearest to ``q``, with their ``_distance``; options as in a scan of a dataset."""
        return self._with(nearest={"column": column, "q": q, "k": k, **options})

    def full_text_search(self, query: Any, columns: Sequence[str] | None = None) -> LsmScanner:
        """The rows whose texts match a query, with their ``_score``. Each level scores by its own texts."""
        return self._with(text=(query, columns))

    def _with(self, **asked: Any) -> LsmScanner:
        self._scan = replace(self._scan, **asked)
        return self

    def _run(self, act: Callable[[View], T]) -> T:
        """Do something with the view; where its runs were removed meanwhile, with a newer one."""
        for left in reversed(range(_ATTEMPTS)):
            if self._taken is None:
                self._taken = self._take()
            try:
                return act(self._taken)
            except MissingFile:
                if not self._again or not left:
                    raise
                self._taken = None
        raise AssertionError("the last attempt raises")

    def to_batches(self) -> list[pa.RecordBatch]:
        """All batches."""
        return self._run(lambda view: list(self._scan.batches(view)))

    def to_batch(self) -> pa.RecordBatch:
        """All rows as one batch."""
        table = self.to_table().combine_chunks()
        batches = table.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)

    def to_table(self) -> pa.Table:
        """All rows."""
        return self._run(lambda view: pa.Table.from_batches(self._scan.batches(view), self._scan.schema(view)))

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""

        def read(view: View) -> pa.RecordBatchReader:
            return pa.RecordBatchReader.from_batches(self._scan.schema(view), self._scan.batches(view))

        return self._run(read)

    def count_rows(self) -> int:
        """How many rows pass the filter."""
        return self._run(self._scan.count)

    def take_keys(self, keys: pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with some primary keys; several columns of a key are given as structs."""
        return self._run(lambda view: lookup(view, keys, columns))


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
        self, dataset: _Table, shard_snapshots: Sequence[ShardSnapshot], pk_columns: Sequence[str] | None = None
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
        dataset: _Table,
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


def current_scanner(table: TableReader, *, strong: bool = False) -> LsmScanner:
    """A scanner of the newest version with the runs of all shards; ``strong`` reads their logs too."""
    snapshot: Snapshot = table.snapshot
    return LsmScanner(lambda: take_view(snapshot, table.cache, strong=strong), again=True)


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

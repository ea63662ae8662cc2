"""Scans over a table and what its MemWAL has, under pylance's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidType, MissingFile
from lancelet.memwal.names import shard_of
from lancelet.memwal.scan import LevelScan, lookup
from lancelet.memwal.shard_manifest import SsTable
from lancelet.memwal.view import ShardView, View, given_view, take_view

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.table.manifest.snapshot import Snapshot

T = TypeVar("T")
_ATTEMPTS = 4


class HasTable(Protocol):
    """What is needed of a dataset."""

    @property
    def table(self) -> TableReader: ...


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
    def from_snapshots(dataset: HasTable, shard_snapshots: Sequence[ShardSnapshot]) -> LsmScanner:
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
        """The rows whose texts match a query, with their ``_score``: that of one table with the rows that count."""
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


def current_scanner(table: TableReader, own: Sequence[ShardView] = (), *, strong: bool = False) -> LsmScanner:
    """A scanner of the newest version with the runs of all shards; ``strong`` reads their logs too.

    Of shards in ``own`` the caller has what is in memory.
    """
    snapshot: Snapshot = table.snapshot
    return LsmScanner(lambda: take_view(snapshot, table.cache, strong=strong, own=own), again=True)

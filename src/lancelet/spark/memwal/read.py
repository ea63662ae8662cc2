"""Reading a table together with its MemWAL: base table and runs are cut into tasks that need nothing of each other.

::

    base table    splits, as without a MemWAL; a task leaves out the rows of which runs have the key
    a shard       its runs, and what its log has; a task gives the newest row of each key, and none for a deletion.
                  More than a task should have is cut by runs

What is read is settled when the read is planned: a version, the runs that are not in it, and the last entries of logs. A base task
reads the keys of all runs, a task of a shard those of the shard; columns are read for the rows that count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from lancelet.errors import InvalidInput, MissingFile
from lancelet.execution.row_mask import RowMask
from lancelet.format.system_columns import SYSTEM_FIELDS
from lancelet.memwal.details import check_progress, require_details
from lancelet.memwal.log import read_entry
from lancelet.memwal.names import entry_path
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, list_shards
from lancelet.memwal.view import ShardView, View, check_apart, shard_view
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.options import LOG, ReadOptions
from lancelet.spark.plan import SPLIT_BYTES, ReadJob, Split, plan_splits, run_plan
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lancelet.execution.table_reader import TableReader
    from lancelet.index.row_set import RowSet
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

_TAKES = 16
"""How often a log is looked at again whose rows became a run meanwhile."""
_UNKNOWN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PinnedShard:
    """What is read of a shard."""

    view: ShardView
    """Its runs that are not in the table."""
    generation: int
    """Of the rows that are in the log only."""
    log: tuple[int, int] = (0, 0)
    """Entries of the log: those after the first of these positions, up to the second."""

    def opened(self, store: Store) -> ShardView:
        """The shard with the rows of its log."""
        after, tail = self.log
        if tail == after:
            return self.view
        shard = ShardStates.of(store, self.view.shard).store
        try:
            entries = [read_entry(shard, position) for position in range(after + 1, tail + 1)]
        except MissingFile as error:
            raise MissingFile(
                error.path, "this entry of the log was made a run and removed while the table was read; read it again"
            ) from None
        batches = tuple(batch for entry in entries for batch in entry.batches)
        return replace(self.view, memtables=((self.generation, batches),)) if batches else self.view


@dataclass(frozen=True, slots=True)
class LevelsJob:
    """What all tasks of a read share."""

    job: ReadJob
    shards: tuple[PinnedShard, ...]

    def view(self, numbers: Sequence[int] | None = None) -> View:
        """Some shards above the base table; all of them without numbers."""
        base = self.job.open()
        shards = self.shards if numbers is None else [self.shards[number] for number in numbers]
        return View(base, [shard.opened(base.snapshot.store) for shard in shards])


@dataclass(frozen=True, slots=True)
class LevelSplit:
    """The rows of one task."""

    base: Split | None = None
    levels: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Shards, by their numbers in the job, and generations of each."""
    limit: int | None = None


def pin_shards(snapshot: Snapshot, *, with_logs: bool) -> tuple[PinnedShard, ...]:
    """What the shards of a table have above a version."""
    compacted = require_details(snapshot).compacted
    pinned = []
    for shard in list_shards(snapshot.store):
        states = ShardStates.of(snapshot.store, shard)
        found = _pinned(states, compacted.get(shard, 0), with_logs=with_logs)
        if found is not None and found.generation <= compacted.get(shard, 0):
            check_progress(snapshot, states.latest() or ShardManifest(shard))
        if found is not None:
            pinned.append(found)
    _check_whole(snapshot, pinned)
    above = tuple(shard for shard in pinned if shard.view.runs or shard.log[1] > shard.log[0])
    # Rows of logs count as well, which nobody has read yet.
    check_apart(snapshot, [replace(shard.view, memtables=((shard.generation, ()),)) for shard in above])
    return above


def _pinned(states: ShardStates, done: int, *, with_logs: bool) -> PinnedShard | None:
    for _ in range(_TAKES):
        manifest = states.latest()
        if manifest is None:
            return None
        runs = tuple(run for run in manifest.sstables if run.generation > done)
        seen = replace(shard_view(manifest), runs=runs)
        # Only logs of the first model have an entry 0.
        from_zero = with_logs and not manifest.has_flushed and states.store.exists(entry_path(0))
        tail = manifest.replay_after
        while with_logs and states.store.exists(entry_path(tail + 1)):
            tail += 1
        if not with_logs or _is_still(states, manifest):
            return PinnedShard(seen, manifest.generation, (-1 if from_zero else manifest.replay_after, tail))
    raise MissingFile(states.store.uri, "its runs are written faster than its log can be read; read it again")


def _check_whole(snapshot: Snapshot, pinned: Sequence[PinnedShard]) -> None:
    """Raise when runs that the version has not are gone: a cleanup removed them after newer versions had them."""
    before, now = require_details(snapshot).compacted, require_details(snapshot.latest()).compacted
    for one in pinned:
        shard = one.view.shard
        known = {run.generation for run in one.view.runs}
        needed = range(before.get(shard, 0) + 1, max(now.get(shard, 0), *known, 0) + 1)
        if not known.issuperset(needed):
            raise MissingFile(
                ShardStates.of(snapshot.store, shard).store.uri,
                f"runs were compacted and removed since version {snapshot.version}, which is read; load the table anew",
            )


def _is_still(states: ShardStates, manifest: ShardManifest) -> bool:
    newest = states.latest()
    return newest is not None and newest.flushed == manifest.flushed


def plan_levels(snapshot: Snapshot, levels: LevelsJob, options: ReadOptions, parallelism: int) -> list[LevelSplit]:
    """Cut a read into tasks; with a limit of the user's, one task reads until there are enough rows."""
    shards = [(number, _generations(shard)) for number, shard in enumerate(levels.shards)]
    if options.limit is not None:
        rows = [(reader.fragment.id, 0, reader.physical_rows) for reader in levels.job.open().readers()]
        own = tuple((number, tuple(generation for generation, _ in own)) for number, own in shards)
        return [LevelSplit(Split(tuple(rows)), own, options.limit)]
    splits = plan_splits(snapshot, levels.job, split_bytes=options.split_bytes, parallelism=parallelism)
    return [
        *(LevelSplit(split) for split in splits),
        *(LevelSplit(None, own) for own in _packed(shards, options.split_bytes or SPLIT_BYTES)),
    ]


def _generations(shard: PinnedShard) -> list[tuple[int, int]]:
    """The generations of a shard, with their sizes."""
    found = [(run.generation, run.in_memory_bytes or _UNKNOWN_BYTES) for run in shard.view.runs]
    return [*found, (shard.generation, _UNKNOWN_BYTES)] if shard.log[1] > shard.log[0] else found


def _packed(
    shards: Sequence[tuple[int, list[tuple[int, int]]]], split_bytes: int
) -> Iterator[tuple[tuple[int, tuple[int, ...]], ...]]:
    """Small shards together; of a large one some generations at a time."""
    held: list[tuple[int, tuple[int, ...]]] = []
    size = 0
    for number, generations in shards:
        own: list[int] = []
        for generation, more in generations:
            if size and size + more > split_bytes:
                yield (*held, (number, tuple(own))) if own else tuple(held)
                held, own, size = [], [], 0
            own.append(generation)
            size += more
        if own:
            held.append((number, tuple(own)))
    if held:
        yield tuple(held)


def read_levels(levels: LevelsJob, split: LevelSplit) -> Iterator[pa.RecordBatch]:
    """Run one task."""
    left = split.limit
    for batch in _batches(levels, split):
        rows = batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= rows.num_rows
        if rows.num_rows:
            yield rows
        if left == 0:
            return


def _batches(levels: LevelsJob, split: LevelSplit) -> Iterator[pa.RecordBatch]:
    job, limit = levels.job, split.limit
    if split.levels:
        view = levels.view([number for number, _ in split.levels])
        wanted = {levels.shards[number].view.shard: generations for number, generations in split.levels}
        for place, level in enumerate(view.levels[:-1]):
            assert level.shard is not None
            if level.generation in wanted[level.shard]:
                allowed = view.allowed(place)
                mask = None if allowed is None else RowMask(allowed.serialize(), None)
                yield from _scan(job, level.table, None, limit, mask)
    if split.base is not None:
        view = levels.view()
        hidden = _hidden(view, split.base)
        mask = None if hidden is None else RowMask(None, hidden.serialize())
        yield from _scan(job, view.base, split.base, limit, mask)


def _hidden(view: View, split: Split) -> RowSet | None:
    return view.hidden_within(split.pieces) if view.shards else None


def _scan(
    job: ReadJob, table: TableReader, split: Split | None, limit: int | None, mask: RowMask | None
) -> Iterator[pa.RecordBatch]:
    plan = replace(job.scan_plan(table.snapshot), mask=mask, limit=limit)
    if split is not None:
        plan = replace(
            plan,
            fragment_ids=tuple(number for number, _, _ in split.pieces),
            row_ranges=tuple((first, last) for _, first, last in split.pieces),
        )
    return run_plan(job, table, plan)


class LevelsReader(DataSourceReader):
    """One read of a table and its MemWAL. It is sent to the tasks, so it holds a job and no table."""

    def __init__(
        self,
        snapshot: Snapshot,
        options: ReadOptions,
        schema: StructType,
        job: ReadJob,
        most: int | None,
        parallelism: int,
    ) -> None:
        for name in job.columns:
            if name in SYSTEM_FIELDS and name not in snapshot.manifest.schema.names:
                raise InvalidInput(
                    f"rows of a MemWAL have no {name}; read the table without memWal, or leave the column out"
                )
        self._spark = schema
        self._options = options
        self._most = most
        self._parallelism = parallelism
        self._levels = LevelsJob(job, pin_shards(snapshot, with_logs=options.mem_wal == LOG))

    @in_a_sentence
    def partitions(self) -> Sequence[InputPartition]:
        snapshot = self._levels.job.open().snapshot
        splits = plan_levels(snapshot, self._levels, self._options, self._parallelism)
        if self._most is not None:
            # Spark takes the first rows of all tasks together; no task needs to give more than all of them.
            most = self._most
            splits = [replace(split, limit=most if split.limit is None else min(most, split.limit)) for split in splits]
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return
        with a_task():
            yield from conformed_batches(read_levels(self._levels, partition.value), arrow_schema(self._spark))

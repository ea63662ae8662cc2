"""Runs into the base table, in the order of their generations (spec memwal.md 8.1).

A commit takes runs that follow each other, of any shards, and says in the same version how far each shard has come. Of each key
the newest row of these runs goes in: it replaces the row of the table, or is new, or, as a deletion, takes the row away.
Another compactor that was faster makes this one go on with what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.merge import key_filter
from lancelet.editing.merge.clauses import Clauses, Matched, plan_merge
from lancelet.editing.merge.join import Actions, Matches, match_keys
from lancelet.editing.merge.keys import KeyIndex, plain
from lancelet.editing.merge.source import MergeSource
from lancelet.editing.merge.write import Decided, rewrite_rows
from lancelet.editing.moved import RowWriter
from lancelet.editing.retry import retried
from lancelet.encoding.picking import keep_rows, pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import CommitConflict, MissingFile
from lancelet.execution.plan import ScanPlan
from lancelet.execution.scan import Scan
from lancelet.execution.shown import scan_field
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column
from lancelet.memwal.details import require_details
from lancelet.memwal.names import TOMBSTONE
from lancelet.memwal.primary_key import PrimaryKey, key_values, last_of_each
from lancelet.memwal.run_files import Run
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, SsTable
from lancelet.memwal.view import check_apart, iterate_shards, keys_of, shard_view
from lancelet.table.commit import operations as ops
from lancelet.table.commit.patience import CHANGE_SECONDS, Pace
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.table.rows.addresses import OFFSET_MASK

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

BATCH_BYTES = 256 << 20
"""About how many bytes of runs go into one commit; a single run may be larger."""
_SCAN_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    snapshot: Snapshot
    num_runs: int = 0
    num_inserted_rows: int = 0
    num_updated_rows: int = 0
    num_deleted_rows: int = 0


def compact_runs(
    table: TableReader,
    shards: Collection[UUID] | None = None,
    *,
    batch_bytes: int = BATCH_BYTES,
    pace: Pace | None = None,
) -> Compacted:
    """Take the runs of all shards, or of some, into the base table; what is there when it begins.

    ``pace`` is clock and chance for waiting between attempts of a commit.
    """
    require_details(table.snapshot)
    chosen = _chosen(table.snapshot, shards)
    pending = {one.shard: one.sstables for one in chosen}
    done = Compacted(table.snapshot.latest())
    check_apart(done.snapshot, [shard_view(one) for one in chosen])
    while True:
        table = TableReader(done.snapshot, table.cache)
        group = _next_group(table, pending, batch_bytes)
        if not group:
            return done
        try:
            step = retried(table, partial(_merge, group, pace), None, CHANGE_SECONDS)
        except (CommitConflict, MissingFile):
            # Another compactor was faster, and its runs may be gone already.
            newest = done.snapshot.latest()
            if not is_behind(newest, group):
                raise
            done = replace(done, snapshot=newest)
            continue
        done = Compacted(
            step.snapshot,
            done.num_runs + step.num_runs,
            done.num_inserted_rows + step.num_inserted_rows,
            done.num_updated_rows + step.num_updated_rows,
            done.num_deleted_rows + step.num_deleted_rows,
        )


def mark_compacted(snapshot: Snapshot, shard: UUID, generation: int) -> Snapshot:
    """Say that the runs of a shard up to a generation are in the table, without a change of its rows."""
    return commit(snapshot, ops.UpdateMemWalState((ops.CompactedSsTable(shard, generation),)))


Group = Sequence[tuple[UUID, SsTable]]
"""Runs, of each shard the older ones first."""


def _next_group(table: TableReader, pending: dict[UUID, tuple[SsTable, ...]], limit: int) -> Group:
    """Runs that are not in the table yet, as many as may go together; of each shard the oldest."""
    compacted = require_details(table.snapshot).compacted
    group: list[tuple[UUID, SsTable]] = []
    size = 0
    for shard, runs in pending.items():
        for run in runs:
            if run.generation <= compacted.get(shard, 0):
                continue
            more = run.in_memory_bytes or 0
            if group and size + more > limit:
                return group
            group.append((shard, run))
            size += more
    return group


def is_behind(newest: Snapshot, group: Group) -> bool:
    """Whether any of some runs is in the table by now."""
    compacted = require_details(newest).compacted
    return any(run.generation <= compacted.get(shard, 0) for shard, run in group)


def _merge(group: Group, pace: Pace | None, table: TableReader) -> Compacted:
    """Commit runs to a version of the table."""
    snapshot = table.snapshot
    check_writable(snapshot.manifest.path, snapshot.manifest.head.writer_feature_flags)
    if is_behind(snapshot, group):
        raise CommitConflict(
            snapshot.uri, snapshot.version, "runs of the MemWAL that were to be compacted are in the table"
        )
    progress = progress_of(group)
    key = PrimaryKey.of(snapshot.manifest.schema)
    rows = _read_rows(snapshot, group, table)
    with WrittenFiles(snapshot.store) as files:
        if key:
            return replace(_merge_rows(table, key, rows, progress, files, pace), num_runs=len(group))
        fragments = RowWriter.of(snapshot, files).write(rows.drop_columns([TOMBSTONE]).to_batches())
        operation = ops.Update(new_fragments=fragments, compacted_sstables=progress)
        done = commit(snapshot, operation, files=files, pace=pace)
        return Compacted(done, len(group), num_inserted_rows=rows.num_rows)


def _read_rows(snapshot: Snapshot, group: Group, table: TableReader) -> pa.Table:
    """The rows of runs that are not hidden in them, the older ones first; columns that the table has and a run has not are null."""
    fields = snapshot.manifest.schema.fields
    schema = pa.schema([*(scan_field(field) for field in fields), pa.field(TOMBSTONE, pa.bool_())])
    outputs = tuple((field.name, Column((field.name,), field.type)) for field in schema)
    parts = []
    for run in open_runs(table, group):
        plan = ScanPlan(run.snapshot.manifest.schema, outputs, batch_size=_SCAN_ROWS)
        for batch in Scan(run.table, plan).batches():
            parts.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))  # noqa: PERF401
    return pa.Table.from_batches(parts, schema)


def _merge_rows(
    table: TableReader,
    key: PrimaryKey,
    rows: pa.Table,
    progress: tuple[ops.CompactedSsTable, ...],
    files: WrittenFiles,
    pace: Pace | None,
) -> Compacted:
    snapshot = table.snapshot
    columns = [plain(rows.column(name)) for name in key.names]
    index = KeyIndex(columns)
    last = index.last_of_each()
    if last is not None:
        rows = pick_rows(rows, arrow_array(last))
        columns = [pick_rows(column, arrow_array(last)) for column in columns]
        index = KeyIndex(columns)
    gone = numpy_array(plain(rows.column(TOMBSTONE)).fill_null(False))
    upserts = rows.drop_columns([TOMBSTONE])
    matches = match_keys(table, key.fields, index)
    replaces = _first_of_each(matches)
    if gone.any():
        kept = arrow_array(~gone)
        upserts, columns = keep_rows(upserts, kept), [keep_rows(column, kept) for column in columns]
        replaces &= ~gone[matches.sources]
        # From here on rows are numbered without the deletions.
        matches = Matches(matches.addresses, (np.cumsum(~gone) - 1)[matches.sources])
    updated = _by_address(matches.where(replaces))
    inserted = np.ones(upserts.num_rows, np.bool_)
    inserted[updated.sources] = False
    actions = Actions(updated, matches.addresses[~replaces], inserted)
    if not upserts.num_rows and not len(actions.deleted):
        return Compacted(commit(snapshot, ops.UpdateMemWalState(progress), pace=pace))
    clauses = Clauses(key.names, matched=Matched.UPDATE, insert=True)
    with MergeSource(upserts) as source:
        plan = plan_merge(snapshot, clauses, source.schema)
        ids = tuple(field.id for field in key.fields)
        new = arrow_array(inserted)
        keys = key_filter(ids, [keep_rows(column, new) for column in columns])
        change = rewrite_rows(Decided(table, plan, source, actions, keys), RowWriter.of(snapshot, files))
    operation = replace(change.operation, compacted_sstables=progress)
    done = commit(snapshot, operation, affected_rows=change.affected_rows, files=files, pace=pace)
    return Compacted(done, 0, actions.num_inserted, len(updated), len(actions.deleted))


def _first_of_each(matches: Matches) -> npt.NDArray[np.bool_]:
    """Which pairs are the first of their row: of several rows with one key, which the table does not forbid, one is left."""
    first = np.ones(len(matches), np.bool_)
    if len(matches) and np.bincount(matches.sources).max() > 1:
        order = np.lexsort((matches.addresses, matches.sources))
        first[order[1:]] = matches.sources[order[1:]] != matches.sources[order[:-1]]
    return first


def _by_address(matches: Matches) -> Matches:
    if np.all(matches.addresses[1:] > matches.addresses[:-1]):
        return matches
    order = np.argsort(matches.addresses, kind="stable")
    return Matches(matches.addresses[order], matches.sources[order])


@dataclass(frozen=True, slots=True, eq=False)
class NewestRows:
    """Of each key in some runs of a shard the row that counts."""

    keys: list[pa.Array]
    runs: npt.NDArray[np.int32]
    """The number of the run that each is in."""
    offsets: npt.NDArray[np.int64]
    tombstones: npt.NDArray[np.bool_]


def newest_rows(table: TableReader, group: Group) -> NewestRows:
    """The rows of runs of one shard, the older ones first, that go into the table; without a key all of them."""
    key = PrimaryKey.of(table.snapshot.manifest.schema)
    parts = [keys_of(run.table, key) for run in open_runs(table, group)]
    runs = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part.addresses) for part in parts])
    offsets = np.concatenate([part.addresses for part in parts]).astype(np.int64) & OFFSET_MASK
    tombstones = np.concatenate([part.tombstones for part in parts])
    if not key:
        return NewestRows([], runs, offsets, tombstones)
    columns = [pa.concat_arrays(arrays) for arrays in zip(*(part.columns for part in parts), strict=True)]
    last = last_of_each(key_values(columns))
    return NewestRows(
        [pick_rows(column, arrow_array(last)) for column in columns], runs[last], offsets[last], tombstones[last]
    )


def open_runs(table: TableReader, group: Group) -> list[Run]:
    """Runs as tables with the columns that their table has now."""
    schema, store = table.snapshot.manifest.schema, table.snapshot.store
    return [Run.open(ShardStates.of(store, shard).store, sstable, schema, table.cache) for shard, sstable in group]


def progress_of(group: Group) -> tuple[ops.CompactedSsTable, ...]:
    """How far shards have come when some runs are in the table."""
    reached: dict[UUID, int] = {}
    for shard, run in group:
        reached[shard] = max(reached.get(shard, 0), run.generation)
    return tuple(ops.CompactedSsTable(shard, generation) for shard, generation in reached.items())


def pending_runs(snapshot: Snapshot, shards: Collection[UUID] | None = None) -> Sequence[tuple[UUID, SsTable]]:
    """The runs of all shards, or of some, that are not in a version yet, by shard and generation."""
    compacted = require_details(snapshot).compacted
    chosen = _chosen(snapshot, shards)
    check_apart(snapshot, [shard_view(one) for one in chosen])
    return [(one.shard, run) for one in chosen for run in one.sstables if run.generation > compacted.get(one.shard, 0)]


def _chosen(snapshot: Snapshot, shards: Collection[UUID] | None) -> list[ShardManifest]:
    """The newest states of all shards, or of some."""
    return [one for one in iterate_shards(snapshot.store) if shards is None or one.shard in shards]

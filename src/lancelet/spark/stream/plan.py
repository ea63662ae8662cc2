"""What happened to the rows of a table, version by version, as tasks.

A stream of appended rows reads, for each version, the fragments that an append
added, as that version had them. A stream of changes also asks the lineage of rows
(tables with stable row ids have it): rows created by a version, rows that it
updated, and rows that the version before had and it has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import RowIndices
from lancelet.errors import InvalidInput, NotSupported, VersionNotFound
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.expressions import build
from lancelet.expressions.expr import Column, Expr, Literal
from lancelet.format.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lancelet.spark.plan import ReadJob, Split, read_split, split_fragments, wanted_ids
from lancelet.table.commit import operations as ops
from lancelet.table.commit.transactions import transaction_from_proto

if TYPE_CHECKING:
    from lancelet.encoding.rows import Indices
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

INSERT, UPDATE, DELETE = "insert", "update", "delete"


@dataclass(frozen=True, slots=True)
class StreamSplit:
    """The rows of one task of a stream."""

    version: int
    split: Split
    change: str = INSERT
    compares: bool = False
    """Whether the rows have to be told from others in the same fragments by their lineage."""


@dataclass(frozen=True, slots=True)
class VersionStep:
    """One version, and the one before it."""

    before: Snapshot | None
    after: Snapshot

    @property
    def operation(self) -> ops.Operation | None:
        """How the version came about; None when that is not known."""
        message = self.after.manifest.transaction
        if message is None:
            return None
        found = transaction_from_proto(message, self.after.manifest.path)
        return None if found is None else found.operation

    def new_fragments(self) -> list[Fragment]:
        """Fragments that the version before has not."""
        known = set() if self.before is None else set(self.before.manifest.fragments.ids.tolist())
        return [fragment for fragment in self.after.manifest.fragments if fragment.id not in known]

    def touched_fragments(self) -> list[Fragment]:
        """Fragments of this version that are new, or not as they were."""
        if self.before is None:
            return list(self.after.manifest.fragments)
        earlier = self.before.manifest.fragments
        return [fragment for fragment in self.after.manifest.fragments if earlier.by_id(fragment.id) != fragment]

    def thinned_fragments(self) -> list[Fragment]:
        """Fragments of the version before that are gone or have lost rows."""
        if self.before is None:
            return []
        later = self.after.manifest.fragments
        found = []
        for fragment in self.before.manifest.fragments:
            now = later.by_id(fragment.id)
            if now is None or now.deletion_file != fragment.deletion_file:
                found.append(fragment)
        return found


def step_to(newest: Snapshot, version: int) -> VersionStep:
    """A version with its predecessor."""
    try:
        after = newest if newest.version == version else newest.at(version)
        before = None if version == 1 else newest.at(version - 1)
    except VersionNotFound as error:
        raise VersionNotFound(
            newest.uri,
            error.version,
            f"{error.reason}; the stream has not read it yet. Start a new query with another checkpoint, or keep versions "
            "longer before they are cleaned up",
        ) from None
    return VersionStep(before, after)


def appended(job: ReadJob, step: VersionStep, split_bytes: int, *, skips: bool) -> Iterator[StreamSplit]:
    """The tasks that read what a version appended."""
    operation = step.operation
    if isinstance(operation, ops.Append) or step.before is None:
        yield from _splits(job, step.after, step.new_fragments(), split_bytes)
    elif not isinstance(operation, ops.LEAVING_ROWS) and not skips:
        raise InvalidInput(
            f"version {step.after.version} of {step.after.uri} changed rows ({_name(operation)}), which a stream of "
            "appended rows cannot show; pass over such versions with skipChanges=true, or read them with "
            "readChanges=true from a table with stable row ids"
        )


def changed(job: ReadJob, step: VersionStep, split_bytes: int) -> Iterator[StreamSplit]:
    """The tasks that read what a version inserted, updated and deleted."""
    operation = step.operation
    if isinstance(operation, ops.LEAVING_ROWS):
        return
    if not isinstance(operation, ops.TRACED_BY_LINEAGE) and step.before is not None:
        raise NotSupported(
            f"version {step.after.version} of {step.after.uri} came about by {_name(operation)}, after which the lineage "
            "of rows does not tell what changed; start a new query at a later version"
        )
    if isinstance(operation, ops.Append) or step.before is None:
        yield from _splits(job, step.after, step.new_fragments(), split_bytes)
        return
    gone = step.thinned_fragments()
    for split in _splits(job, step.before, gone, split_bytes):
        yield replace(split, version=step.after.version, change=DELETE, compares=True)
    for split in _splits(job, step.after, step.touched_fragments(), split_bytes):
        yield replace(split, change=INSERT, compares=True)
        yield replace(split, change=UPDATE, compares=True)


def snapshot_splits(job: ReadJob, snapshot: Snapshot, split_bytes: int) -> Iterator[StreamSplit]:
    """The tasks that read a whole version."""
    return _splits(job, snapshot, list(snapshot.manifest.fragments), split_bytes)


def _name(operation: ops.Operation | None) -> str:
    return "an unknown operation" if operation is None else type(operation).__name__


def _splits(job: ReadJob, snapshot: Snapshot, fragments: list[Fragment], split_bytes: int) -> Iterator[StreamSplit]:
    at = replace(job, version=snapshot.version)
    table = TableReader(snapshot)
    for split in split_fragments(table, fragments, wanted_ids(snapshot, at), split_bytes):
        yield StreamSplit(snapshot.version, split)


def rows_added(step: VersionStep) -> int:
    """About how many rows a version brings to the stream."""
    fragments = step.new_fragments()
    return sum(fragment.physical_rows or 0 for fragment in fragments)


def read_stream_split(job: ReadJob, task: StreamSplit) -> Iterator[pa.RecordBatch]:
    """Run one task."""
    at = replace(job, version=task.version)
    if not task.compares:
        return read_split(at, task.split)
    if task.change == DELETE:
        return _deleted_rows(job, task)
    created = _versions(CREATED_AT, "=" if task.change == INSERT else "<", task.version)
    updated = [] if task.change == INSERT else [_versions(LAST_UPDATED_AT, "=", task.version)]
    return read_split(replace(at, conditions=(*job.conditions, created, *updated)), task.split)


def _versions(column: str, operator: str, version: int) -> Expr:
    return build.compare(operator, Column((column,), pa.uint64()), Literal(version, pa.uint64()))


def _deleted_rows(job: ReadJob, task: StreamSplit) -> Iterator[pa.RecordBatch]:
    """Rows of the version before that are nowhere in this one, with the values that they had."""
    earlier = replace(job, version=task.version - 1).open()
    later = replace(job, version=task.version).open()
    step = VersionStep(earlier.snapshot, later.snapshot)
    moved = _row_ids(later, step.new_fragments())
    plan = replace(job, version=task.version - 1).scan_plan(earlier.snapshot)
    for number, first, last in task.split.pieces:
        rows = _lost(earlier, later, number, first, last)
        position = earlier.snapshot.manifest.fragments.position(number)
        assert position is not None
        for start in range(0, len(rows), plan.batch_size):
            offsets = rows[start : start + plan.batch_size]
            ids = _ids_at(earlier, position, offsets)
            kept = offsets[~np.isin(ids, moved)]
            if len(kept):
                taken = Scan(earlier, plan).take(np.full(len(kept), position, np.int64), kept)
                yield from taken.combine_chunks().to_batches()


def _lost(earlier: TableReader, later: TableReader, number: int, first: int, last: int) -> Indices:
    """Rows of a fragment that were there before and are not there now."""
    position = earlier.snapshot.manifest.fragments.position(number)
    assert position is not None
    before = earlier.reader(position)
    last = min(last, before.physical_rows)
    alive = np.ones(last - first, np.bool_)
    was = before.deletions.offsets
    alive[was[(was >= first) & (was < last)] - first] = False
    now = later.snapshot.manifest.fragments.position(number)
    if now is not None:
        gone = later.reader(now).deletions.offsets
        lost = np.zeros(last - first, np.bool_)
        lost[gone[(gone >= first) & (gone < last)] - first] = True
        alive &= lost
    return np.flatnonzero(alive).astype(np.int64) + first


def _ids_at(table: TableReader, position: int, offsets: Indices) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    found: np.ndarray[tuple[int], np.dtype[np.uint64]] = (
        table.reader(position).system_column(ROW_ID, RowIndices(offsets)).to_numpy()
    )
    return found


def _row_ids(table: TableReader, fragments: list[Fragment]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Ids of all rows of some fragments."""
    parts = []
    for fragment in fragments:
        position = table.snapshot.manifest.fragments.position(fragment.id)
        assert position is not None
        rows = np.arange(table.reader(position).physical_rows, dtype=np.int64)
        parts.append(_ids_at(table, position, rows))
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)

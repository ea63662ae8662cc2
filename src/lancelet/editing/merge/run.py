"""Merging rows into a table: match them by key, then update, insert and delete in one commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from lancelet.editing.merge.clauses import Clauses, Matched, MergePlan, plan_merge, primary_key_ids
from lancelet.editing.merge.filter import key_filter
from lancelet.editing.merge.join import Actions, decide
from lancelet.editing.merge.keys import KeyIndex
from lancelet.editing.merge.source import MergeSource
from lancelet.editing.merge.write import Decided, rewrite_columns, rewrite_rows
from lancelet.editing.moved import Change, RowWriter
from lancelet.editing.retry import retried
from lancelet.encoding.picking import keep_rows
from lancelet.encoding.plain import arrow_array
from lancelet.execution.table_reader import TableReader
from lancelet.runtime.threads import outside
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.writing.bases import DataFolder, plain_path, target_folders

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


class MergeResult(TypedDict):
    """What a merge did."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """A merge whose files are written."""

    plan: MergePlan
    change: Change
    result: MergeResult


def merge_rows(
    table: TableReader, clauses: Clauses, source: MergeSource, *, retries: int, timeout: float
) -> tuple[Snapshot, MergeResult]:
    """Merge a source into a table; returns the new version and what was done.

    When another commit touched the same rows or inserted the same keys, rows are matched again on the newest
    version, at most ``retries`` times and for about ``timeout`` seconds.
    """

    def attempt(table: TableReader) -> tuple[Snapshot, MergeResult]:
        with WrittenFiles(table.snapshot.store) as files:
            merged = write_merge(table, clauses, source, files)
            change = merged.change
            done = commit(table.snapshot, change.operation, affected_rows=change.affected_rows, files=files)
        return done, merged.result

    return retried(table, attempt, retries, timeout)


def write_merge(table: TableReader, clauses: Clauses, source: MergeSource, files: WrittenFiles) -> Merged:
    """Match the rows and write what changes; what is left is to commit the operation."""
    snapshot = table.snapshot
    check_writable(snapshot.manifest.path, snapshot.manifest.head.writer_feature_flags)
    plan = plan_merge(snapshot, clauses, source.schema)
    writer = RowWriter.of(snapshot, files, clauses.version, _folders(snapshot, clauses))
    index = outside(KeyIndex, [source.column(key.name) for key in plan.keys])
    actions = decide(table, plan, source, index)
    decided = Decided(table, plan, source, actions, _inserted_keys(snapshot, plan, index, actions))
    change = (rewrite_columns if plan.rewrites_columns else rewrite_rows)(decided, writer)
    if clauses.sstables:
        operation = replace(change.operation, compacted_sstables=clauses.sstables)
        change = replace(change, operation=operation)
    result: MergeResult = {
        "num_inserted_rows": actions.num_inserted,
        "num_updated_rows": len(actions.updated),
        "num_deleted_rows": len(actions.deleted),
    }
    return Merged(plan, change, result)


def _inserted_keys(snapshot: Snapshot, plan: MergePlan, index: KeyIndex, actions: Actions) -> ops.KeyFilter | None:
    """The keys of new rows, where the table says that they are unique.

    A merge that only updates has a filter without keys, so that others need not fear that it inserted theirs.
    """
    clauses = plan.clauses
    ids = tuple(key.id for key in plan.keys)
    if ids != primary_key_ids(snapshot.manifest.schema):
        return None
    if not clauses.insert and (
        plan.rewrites_columns or (clauses.matched is Matched.DELETE and not clauses.delete_others)
    ):
        return None
    new = arrow_array(actions.inserted)
    return key_filter(ids, [keep_rows(column, new) for column in index.columns])


def _folders(snapshot: Snapshot, clauses: Clauses) -> tuple[DataFolder, ...]:
    """Where new fragments go."""
    if clauses.all_bases is not None or not clauses.bases:
        return target_folders(snapshot.places, clauses.bases, clauses.all_bases)
    own = plain_path(snapshot.uri)
    return tuple(
        folder
        for base in clauses.bases
        for folder in target_folders(snapshot.places, () if plain_path(base) == own else (base,), None)
    )

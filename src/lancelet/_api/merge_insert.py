"""The builder that ``LanceDataset.merge_insert`` returns, under pylance's names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from lancelet._api.conversion import shown_transaction
from lancelet._api.transaction import Transaction
from lancelet._naming.html import LaidOut
from lancelet.editing.merge.clauses import Clauses, Matched, WriteMode, key_fields, plan_merge, plan_others
from lancelet.editing.merge.run import Merged, MergeResult, merge_rows, write_merge
from lancelet.editing.merge.source import MergeSource
from lancelet.editing.moved import write_version
from lancelet.errors import InvalidInput, InvalidType
from lancelet.execution.plan import table_schema
from lancelet.format.file_versions import writable_version
from lancelet.progress import ShownProgress, shown
from lancelet.table.commit.operations import CompactedSsTable
from lancelet.table.commit.operations import Transaction as StoredTransaction
from lancelet.table.commit.patience import CHANGE_RETRIES, CHANGE_SECONDS
from lancelet.table.commit.written import WrittenFiles

if TYPE_CHECKING:
    from typing_extensions import Self

    from lancelet._api.protocols import Movable
    from lancelet.editing.merge.clauses import MergePlan
    from lancelet.table.manifest.snapshot import Snapshot

__all__ = ["ExecuteResult", "MergeInsertBuilder", "MergeResult"]

ExecuteResult = MergeResult


class MergeInsertBuilder:
    """Says what to do with rows that the source and the table have in common, and with those that only one has.

    Rows without a clause stay as they are; a later clause for the same rows replaces an earlier one.

    Examples
    --------
    >>> import lancelet
    >>> dataset = lancelet.write_dataset({"id": [1, 2], "n": [10, 20]}, "memory://docs/merge_builder")
    >>> merge = dataset.merge_insert("id").when_matched_update_all("source.n > target.n").when_not_matched_insert_all()
    >>> merge.execute({"id": [1, 2, 3], "n": [5, 25, 30]})["num_updated_rows"]
    1
    >>> sorted(dataset.to_table()["n"].to_pylist())
    [10, 25, 30]
    """

    def __init__(self, dataset: Movable, on: str | Iterable[str] | None = None) -> None:
        if on is not None and not isinstance(on, (str, Iterable)):
            raise InvalidType("The `on` argument to merge_insert must be a str or iterable of str")
        names = None if on is None else [on] if isinstance(on, str) else list(on)
        if names is not None and not all(isinstance(name, str) for name in names):
            raise InvalidType("The `on` argument to merge_insert must be a str or iterable of str")
        self._dataset = dataset
        keys = key_fields(dataset.table.snapshot.manifest.schema, names)
        self._clauses = Clauses(tuple(key.name for key in keys))
        self._retries = CHANGE_RETRIES
        self._timeout = timedelta(seconds=CHANGE_SECONDS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._clauses})"

    def _with(self, **clauses: Any) -> Self:
        self._clauses = replace(self._clauses, **clauses)
        return self

    # Clauses

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Update matched rows, or those of them that meet a condition.

        Columns that the source does not have keep their values.

        Parameters
        ----------
        condition
            SQL over columns that are named ``source.x`` and ``target.x``.
        """
        return self._with(matched=Matched.UPDATE, condition=_text(condition, "condition"))

    def when_matched_delete(self) -> Self:
        """Delete matched rows from the table; the source needs no columns but the keys."""
        return self._with(matched=Matched.DELETE, condition=None)

    def when_matched_fail(self) -> Self:
        """Refuse the whole merge when any row matches."""
        return self._with(matched=Matched.FAIL, condition=None)

    def when_not_matched_insert_all(self) -> Self:
        """Insert the rows that only the source has. Columns that it lacks are null."""
        return self._with(insert=True)

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> Self:
        """Delete the rows that only the table has, or those of them that meet a condition.

        Parameters
        ----------
        expr
            SQL over the columns of the table.
        """
        plan_others(self._dataset.table.snapshot.manifest.schema, _text(expr, "expr"))
        return self._with(delete_others=True, others=expr)

    # Options

    def conflict_retries(self, max_retries: int) -> Self:
        """How often to match the rows again when others changed them in between; by default as often as time allows."""
        if isinstance(max_retries, bool) or not isinstance(max_retries, int):
            raise InvalidType(f"max_retries is a number, not {type(max_retries)}")
        if max_retries < 0:
            raise InvalidInput(f"max_retries is a number of attempts, not {max_retries}")
        self._retries = max_retries
        return self

    def retry_timeout(self, timeout: timedelta) -> Self:
        """How long to go on with that; 30 seconds by default. The first attempt is made in any case."""
        if not isinstance(timeout, timedelta):
            raise InvalidType(f"timeout is a timedelta, not {type(timeout)}")
        self._timeout = timeout
        return self

    def data_storage_version(self, version: str) -> Self:
        """File version of what is written; that of the table by default."""
        writable_version(version)
        return self._with(version=version)

    def use_index(self, use_index: bool) -> Self:
        """Whether an index on the key may decide how to write; keys are looked up without it."""
        return self._with(use_index=bool(use_index))

    def write_mode(self, mode: str) -> Self:
        """How changed rows are written.

        Parameters
        ----------
        mode
            ``rewrite_rows`` writes changed rows anew. ``rewrite_columns`` gives the fragments with changed rows new
            files for the source's columns: for updates with a source that lacks wide columns, which are not touched
            then. ``auto`` rewrites rows, but columns when the source lacks some and an index has the key.
        """
        modes = {known.value: known for known in WriteMode}
        if mode not in modes:
            raise InvalidInput(f"Invalid write_mode: {mode}. Expected one of {', '.join(map(repr, modes))}")
        return self._with(write_mode=modes[mode])

    def target_bases(self, bases: Sequence[str]) -> Self:
        """Write new fragments into base paths of the table in turn; what changes old ones stays in its own folder.

        Parameters
        ----------
        bases
            Names or paths of base paths; the uri of the table stands for its own folder.
        """
        if isinstance(bases, str) or not all(isinstance(base, str) for base in bases):
            raise InvalidType(f"bases is a list of names and paths, not {bases!r}")
        return self._with(bases=tuple(bases))

    def target_all_bases(self, include_primary: bool = True) -> Self:
        """Write new fragments into all base paths in turn, and into the table's own folder unless that is left out."""
        return self._with(all_bases=bool(include_primary))

    def mark_sstables_as_compacted(self, sstables: Iterable[Any]) -> Self:
        """Record in the same commit that runs of a MemWAL are in the table now.

        Parameters
        ----------
        sstables
            Values with a ``shard_id``, the text of a UUID, and a ``generation``.
        """
        try:
            tables = tuple(CompactedSsTable(UUID(str(run.shard_id)), int(run.generation)) for run in sstables)
        except (AttributeError, ValueError) as error:
            raise InvalidInput(f"a compacted SSTable has a shard_id (a UUID) and a generation: {error}") from None
        return self._with(sstables=tables)

    # Execution

    def execute(
        self, data_obj: object, *, schema: pa.Schema | None = None, progress: ShownProgress = None
    ) -> MergeResult:
        """Merge rows into the table, and move the dataset to the new version.

        Parameters
        ----------
        data_obj
            The rows: whatever :func:`lancelet.write_dataset` takes. A long stream is kept in a temporary file.
        schema
            The columns of an iterable of batches.
        progress
            True shows bars; a function is called with each :class:`lancelet.progress.WorkProgress`.

        Returns
        -------
        The numbers of rows that were inserted, updated and deleted.
        """
        self._clauses.check()
        with shown(progress), MergeSource(data_obj, schema) as source:
            snapshot, result = merge_rows(
                self._dataset.table,
                self._clauses,
                source,
                retries=self._retries,
                timeout=self._timeout.total_seconds(),
            )
        self._dataset._move(snapshot)
        return result

    def execute_uncommitted(
        self, data_obj: object, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, MergeResult]:
        """Write what a merge needs, and return what is left to commit, for :meth:`lancelet.LanceDataset.commit`."""
        self._clauses.check()
        snapshot = self._dataset.table.snapshot
        with MergeSource(data_obj, schema) as source, WrittenFiles(snapshot.store) as files:
            merged = write_merge(self._dataset.table, self._clauses, source, files)
            transaction = StoredTransaction(snapshot.version, merged.change.operation)
            return shown_transaction(transaction), merged.result

    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """How a merge of rows with this schema would be done; the table's own schema by default."""
        snapshot = self._dataset.table.snapshot
        plan = plan_merge(snapshot, self._clauses, schema or table_schema(snapshot.manifest.schema))
        return LaidOut("\n".join(_lines(plan, snapshot, verbose=verbose)) + "\n")

    def analyze_plan(self, data_obj: object, *, schema: pa.Schema | None = None) -> str:
        """Do everything but commit, and tell what it took. The files that were written are removed again."""
        self._clauses.check()
        table = self._dataset.table
        before = table.snapshot.store.counters.bytes
        began = time.perf_counter()
        with MergeSource(data_obj, schema) as source:
            files = WrittenFiles(table.snapshot.store)
            try:
                merged = write_merge(table, self._clauses, source, files)
            finally:
                files.remove()
            seconds = time.perf_counter() - began
            metrics = _metrics(merged, seconds, table.snapshot.store.counters.bytes - before)
            head, *rest = _lines(merged.plan, table.snapshot, verbose=True)
            rest.append(f"    Source: rows={source.num_rows}, spilled={'yes' if source.is_spilled else 'no'}")
        return "\n".join([f"{head}, metrics=[{metrics}]", *rest]) + "\n"


def _lines(plan: MergePlan, snapshot: Snapshot, *, verbose: bool) -> list[str]:
    mode = "rewrite_columns" if plan.rewrites_columns else "rewrite_rows"
    lines = [f"MergeInsert: {plan.clauses}"]
    lines.append(f"  Write: mode={mode}, version={write_version(snapshot.manifest, plan.clauses.version)}")
    kept = [field.name for field in plan.missing]
    if kept and not plan.rewrites_columns:
        lines.append(f"    Take: columns=[{', '.join(kept)}] of matched rows")
    if plan.condition is not None:
        lines.append(f"    Filter: {plan.condition}")
    lines.append("    HashJoin: build=source keys, probe=table keys")
    fragments = len(snapshot.manifest.fragments)
    keys = ", ".join(key.name for key in plan.keys)
    lines.append(f"      LanceRead: uri={snapshot.uri}, projection=[{keys}], num_fragments={fragments}, row_addr=true")
    if verbose:
        lines.append(f"      Source: columns=[{', '.join(field.name for field in plan.given)}]")
    return lines


def _metrics(merged: Merged, seconds: float, read: int) -> str:
    operation = merged.change.operation
    fragments = (*operation.new_fragments, *operation.updated_fragments)
    known = {file.path: file.size or 0 for fragment in operation.new_fragments for file in fragment.files}
    numbers = {"elapsed": f"{seconds * 1000:.3f}ms", "bytes_read": read, "bytes_written": sum(known.values())}
    numbers["num_files_written"] = len(known) + (len(fragments) - len(operation.new_fragments))
    return ", ".join(f"{name}={value}" for name, value in {**numbers, **merged.result}.items())


def _text(value: object, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidType(f"{name} is SQL text, not {type(value)}")
    return value

"""DELETE, UPDATE and MERGE: what Spark's plan found is written by tasks, and committed once.

The bridge hands each task rows of a step, an address and the values that a clause assigns (see
:mod:`lancelet.spark.table.rows`), and tells what the steps are::

    {"steps": [["update", ["a", "b"]], ["delete", []]], "columns": ["a", "b"], "kept": [["b", "x"]], "predicate": "(id > 3)"}

Columns that no clause assigns are read from the table where new rows are written, so that they stay as they are stored.
Of a struct of which one field is assigned, the others go through Spark (``kept``): where Spark would change their
values, the statement is refused.

A DELETE whose condition means the same here as in Spark comes as a question, without a job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lancelet.editing.delete import matching_rows
from lancelet.editing.retry import retried
from lancelet.errors import InvalidInput, NotSupported
from lancelet.execution.table_reader import TableReader
from lancelet.spark import bridge
from lancelet.spark.attempts import sweep, sweep_failed
from lancelet.spark.options import TableRef, count, storage_options
from lancelet.spark.predicates import from_json
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.sql.tables import place_of
from lancelet.spark.table.edit import commit_deleted
from lancelet.spark.table.merge import primary_key
from lancelet.spark.table.rows import Changed, RowAction, RowJob, RowStep, change_rows, commit_done
from lancelet.spark.types import stored_columns
from lancelet.spark.workers import a_task
from lancelet.table.commit.deletion_write import delete_rows as mark_deleted
from lancelet.table.commit.patience import CHANGE_SECONDS
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable

if TYPE_CHECKING:
    from lancelet.format.schema import Schema
    from lancelet.table.manifest.snapshot import Snapshot

_CHANGED_BY_SPARK = re.compile(r":ns\b|^json$|^date64|^decimal:256|blob")
"""Lance types whose values are others when Spark has held them."""


def delete_rows(details: Mapping[str, Any]) -> int:
    """Delete the rows for which conditions are true, on the newest version; returns their number."""
    place = place_of(details)

    def attempt(table: TableReader) -> int:
        snapshot = table.snapshot
        _check_writable(snapshot)
        rows = matching_rows(table, from_json(details["conditions"], snapshot.manifest.schema))
        with WrittenFiles(snapshot.store) as files:
            deletion = mark_deleted(snapshot, rows, predicate=details["predicate"], files=files)
            commit(snapshot, deletion.operation, affected_rows=deletion.affected_rows, files=files)
        return deletion.num_rows

    return retried(TableReader(place.open()), attempt, None, CHANGE_SECONDS)


def make_rows_writer(options: Mapping[str, str]) -> RowsWriter:
    """What writes the changes that a statement makes."""
    version = count(options, bridge.VERSION)
    place = TableRef(options[bridge.URI], storage_options(options), version)
    given = json.loads(options[bridge.ROWS])
    snapshot = place.open()
    _check_writable(snapshot)
    schema = snapshot.manifest.schema
    stored = stored_columns(schema)
    steps = tuple(RowStep(RowAction[kind.upper()], tuple(columns)) for kind, columns in given["steps"])
    inserts = any(step.kind is RowAction.INSERT for step in steps)
    for path in given["kept"]:
        _check_kept(schema, tuple(path))
    values = pa.schema([stored.field(name) for name in given["columns"]])
    job = RowJob(place, steps, values, primary_key(schema) if inserts else ())
    return RowsWriter(job, given["predicate"])


def _check_writable(snapshot: Snapshot) -> None:
    manifest = snapshot.manifest
    check_writable(manifest.path, manifest.head.writer_feature_flags)


def _check_kept(schema: Schema, path: tuple[str, ...]) -> None:
    """Refuse to send values through Spark that it would change."""
    for field in schema.field_by_path(path).walk():
        if field.is_blob or field.is_blob_v2 or _CHANGED_BY_SPARK.search(field.logical_type):
            raise NotSupported(
                f"only a part of '{path[0]}' is assigned, and '{'.'.join(path)}' ({field.logical_type}) would go through "
                "Spark, which does not keep such values as they are; assign the whole column, or use LanceTable"
            )


class ChangedRows(WriterCommitMessage):
    """What a task has done."""

    def __init__(self, changed: Changed | None = None, refusal: InvalidInput | None = None) -> None:
        self.changed = changed
        self.refusal = refusal
        """Why the rows cannot be changed, however often it is tried; the driver says it."""


class RowsWriter(DataSourceArrowWriter):
    """The changes of one statement; sent to the tasks."""

    def __init__(self, job: RowJob, predicate: str) -> None:
        self._job = job
        self._predicate = predicate

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ChangedRows:
        try:
            with a_task():
                return ChangedRows(change_rows(self._job, iterator))
        except InvalidInput as error:
            return ChangedRows(refusal=error.with_traceback(None))

    @in_a_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        job = self._job
        snapshot = job.place.open()
        done = Changed()
        for message in messages:
            if not isinstance(message, ChangedRows):
                continue
            if message.refusal is not None:
                sweep(snapshot.store, job.stem)
                raise message.refusal
            if message.changed is not None:
                done.add(message.changed)
        if all(step.kind is RowAction.DELETE for step in job.steps):
            commit_deleted(snapshot, done, self._predicate)
            return
        changed = {name for step in job.steps for name in step.columns}
        fields = [field for field in snapshot.manifest.schema.fields if field.name in changed]
        # Spark has seen to it that no row is updated twice; deleted it may be.
        commit_done(snapshot, job, done, fields, may_repeat=_may_repeat(job))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # When all tasks succeeded, it was the commit that failed; it knows which files may stay.
        if any(message is None for message in messages):
            sweep_failed(self._job.place.open().store, self._job.stem)


def _may_repeat(job: RowJob) -> bool:
    return any(step.kind is RowAction.DELETE for step in job.steps)

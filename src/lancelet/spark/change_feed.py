"""What happened to the rows of a table between two versions, as tasks of a read.

Two versions are compared by what their rows are called: in tables with stable row ids by the ids, with the version that
changed a row last; in others by the addresses. Only fragments that are not the same in both are looked at::

    in the older one only   delete
    in the newer one only   insert
    in both, changed        update_preimage (as it was), update_postimage (as it is); with stable row ids

Without stable row ids an updated row is one that goes and another one that comes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from lancelet.encoding.rows import RowIndices
from lancelet.errors import NotSupported
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.plan import ReadJob, Split, read_split, split_fragments, wanted_ids
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.source import read_job
from lancelet.spark.stream.plan import VersionStep, step_to
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task
from lancelet.table.commit import operations as ops

if TYPE_CHECKING:
    from lancelet.format.schema import Field, Schema
    from lancelet.spark.options import ReadOptions
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = ADDED = ("_change_type", "_commit_version", "_commit_timestamp")
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
_COMPARED = (*ops.TRACED_BY_LINEAGE, ops.Restore)

Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Changes:
    """Which changes are wanted: those that some versions made, one by one, or what is left of them."""

    first: int
    last: int
    net: bool

    def written(self) -> str:
        """As an option of a read."""
        return json.dumps([self.first, self.last, self.net])

    @classmethod
    def read(cls, text: str) -> Changes:
        """What :meth:`written` wrote."""
        return cls(*json.loads(text))


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Rows of one version that a task reads, and what is said of them."""

    version: int
    moment: datetime
    job: ReadJob
    """The version whose rows are read."""
    names: tuple[tuple[str, str | None], ...]
    """Columns, each with the name that it has there; None: it was not there."""
    split: Split
    change: str
    other: int | None = None
    """The version that the rows are compared with; None: all of them are meant."""


class ChangesReader(DataSourceReader):
    """One read of changes; sent to the tasks."""

    def __init__(self, newest: Snapshot, options: ReadOptions, schema: StructType, changes: Changes) -> None:
        self._options = options
        self._spark = schema
        self._tasks = list(_tasks(newest, options, schema, changes))

    @in_a_sentence
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        task: ChangeTask | None = partition.value
        if task is None:
            return
        with a_task():
            yield from conformed_batches(_rows(task), arrow_schema(self._spark))


def _tasks(newest: Snapshot, options: ReadOptions, schema: StructType, changes: Changes) -> Iterator[ChangeTask]:
    if changes.first > changes.last:
        return
    last = newest if newest.version == changes.last else newest.at(changes.last)
    cut = _Cut(last.manifest.schema, options, schema)
    steps = [step_to(newest, version) for version in range(changes.first, changes.last + 1)]
    if changes.net:
        yield from cut.net(steps)
    else:
        for step in steps:
            yield from cut.step(step, step.operation)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Cuts what changed into tasks; ``now`` are the columns of the last version, ``spark`` those that are wanted."""

    now: Schema
    options: ReadOptions
    spark: StructType

    def net(self, steps: Sequence[VersionStep]) -> Iterator[ChangeTask]:
        """What is left of all steps together, in a table with stable row ids."""
        first, last = steps[0].before, steps[-1].after
        for step in steps:
            self._check(step, step.operation)
        whole = next((s.operation for s in steps if isinstance(s.operation, ops.Overwrite)), None)
        yield from self.step(VersionStep(first, last), whole or ops.Restore(last.version))

    def step(self, step: VersionStep, operation: ops.Operation | None) -> Iterator[ChangeTask]:
        """The tasks for what one operation did."""
        before, after = step.before, step.after
        if before is None or isinstance(operation, ops.Append):
            yield from self._side(step, after, step.new_fragments(), INSERT)
        elif isinstance(operation, ops.Overwrite):
            yield from self._side(step, before, before.manifest.fragments, DELETE)
            yield from self._side(step, after, after.manifest.fragments, INSERT)
        elif not isinstance(operation, ops.LEAVING_ROWS):
            self._check(step, operation)
            yield from self._side(step, before, _differing(before, after), DELETE, after.version)
            yield from self._side(step, after, _differing(after, before), INSERT, before.version)

    def _check(self, step: VersionStep, operation: ops.Operation | None) -> None:
        """Refuse a version after which nobody can tell which rows changed."""
        if isinstance(operation, ops.LEAVING_ROWS) or step.before is None:
            return
        name = "an unknown operation" if operation is None else type(operation).__name__
        flaw = None if isinstance(operation, _COMPARED) else f"came about by {name}"
        if flaw is None and not step.after.manifest.has_stable_row_ids and _rewritten(step.before, step.after):
            flaw = "gave rows other values where they are, and the table has no stable row ids"
        if flaw is not None:
            raise NotSupported(
                f"version {step.after.version} of {step.after.uri} {flaw}: nobody can tell which rows changed; read the "
                f"changes after it, from version {step.after.version + 1}"
            )

    def _side(
        self,
        step: VersionStep,
        snapshot: Snapshot,
        fragments: Iterable[Fragment],
        change: str,
        other: int | None = None,
    ) -> Iterator[ChangeTask]:
        names = self._names(snapshot)
        known = {name: there for name, there in names if there is not None}
        asked = StructType([_renamed(field, known[field.name]) for field in self.spark if field.name in known])
        job = read_job(snapshot, self.options, asked)
        if not known:
            job = replace(job, columns=(ROW_ADDRESS,))
        manifest = step.after.manifest
        for split in split_fragments(TableReader(snapshot), fragments, wanted_ids(snapshot, job)):
            yield ChangeTask(manifest.version, manifest.timestamp, job, names, split, change, other)

    def _names(self, snapshot: Snapshot) -> tuple[tuple[str, str | None], ...]:
        """What the wanted columns are called in another version; those that it has not had yet are null there."""
        there = {field.id: field for field in snapshot.manifest.schema.fields}
        names: list[tuple[str, str | None]] = []
        for column in self.spark:
            if column.name in ADDED:
                continue
            own = self.now.field_by_path((column.name,))
            found = there.get(own.id)
            same_name = any(field.name == own.name for field in there.values())
            if (found is None and same_name) or (found is not None and not _alike(own, found)):
                raise NotSupported(
                    f"column '{own.name}' has another type since a version after {snapshot.version} of {snapshot.uri}; leave it "
                    "out, or read the changes from a later version on"
                )
            names.append((column.name, None if found is None else found.name))
        return tuple(names)


def _renamed(field: StructField, name: str) -> StructField:
    return StructField(name, field.dataType, field.nullable, field.metadata)


def _alike(one: Field, other: Field) -> bool:
    """Whether two fields have values of the same type, fields of structs included."""
    return [(f.id, f.logical_type) for f in one.walk()] == [(f.id, f.logical_type) for f in other.walk()]


def _differing(one: Snapshot, other: Snapshot) -> list[Fragment]:
    """Fragments that the other version has not, or has otherwise."""
    fragments = other.manifest.fragments
    return [fragment for fragment in one.manifest.fragments if fragments.by_id(fragment.id) != fragment]


def _rewritten(before: Snapshot, after: Snapshot) -> bool:
    """Whether a fragment has other files than before."""
    fragments = before.manifest.fragments
    pairs = ((fragments.by_id(fragment.id), fragment) for fragment in after.manifest.fragments)
    return any(old is not None and old.files != new.files for old, new in pairs)


def _rows(task: ChangeTask) -> Iterator[pa.RecordBatch]:
    """Run one task."""
    if task.other is None:
        for batch in read_split(task.job, task.split):
            yield _told(batch, task, task.change)
        return
    own, other = task.job.open(), replace(task.job, version=task.other).open()
    there, changed_there = _identities(other, _differing(other.snapshot, own.snapshot))
    plan = task.job.scan_plan(own.snapshot)
    both = BEFORE if task.change == DELETE else AFTER
    for number, first, last in task.split.pieces:
        position = own.snapshot.manifest.fragments.position(number)
        assert position is not None
        reader = own.reader(position)
        rows = np.arange(first, min(last, reader.physical_rows), dtype=np.int64)
        live = reader.live(RowIndices(rows))
        rows = rows if live is None else rows[live]
        names, changed = _named(own, position, rows)
        places = np.minimum(np.searchsorted(there, names), max(0, len(there) - 1))
        known = there[places] == names if len(there) else np.zeros(len(names), np.bool_)
        updated = np.zeros(len(names), np.bool_)
        updated[known] = changed_there[places[known]] != changed[known]
        for change, wanted in ((task.change, ~known), (both, updated)):
            for start in range(0, int(wanted.sum()), plan.batch_size):
                offsets = rows[wanted][start : start + plan.batch_size]
                taken = Scan(own, plan).take(np.full(len(offsets), position, np.int64), offsets)
                for batch in taken.combine_chunks().to_batches():
                    yield _told(batch, task, change)


def _identities(table: TableReader, fragments: Iterable[Fragment]) -> tuple[Numbers, Numbers]:
    """What live rows are called, in order, and which version changed each last."""
    names, changed = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for fragment in fragments:
        position = table.snapshot.manifest.fragments.position(fragment.id)
        assert position is not None
        reader = table.reader(position)
        rows = np.arange(reader.physical_rows, dtype=np.int64)
        live = reader.live(RowIndices(rows))
        found = _named(table, position, rows if live is None else rows[live])
        names.append(found[0])
        changed.append(found[1])
    all_names = np.concatenate(names)
    order = np.argsort(all_names)
    return all_names[order], np.concatenate(changed)[order]


def _named(table: TableReader, position: int, rows: npt.NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    reader, offsets = table.reader(position), RowIndices(rows)
    if not table.snapshot.manifest.has_stable_row_ids:
        return reader.system_column(ROW_ADDRESS, offsets).to_numpy(), np.zeros(len(rows), np.uint64)
    names = reader.system_column(ROW_ID, offsets).to_numpy()
    return names, reader.system_column(LAST_UPDATED_AT, offsets).to_numpy()


def _told(batch: pa.RecordBatch, task: ChangeTask, change: str) -> pa.RecordBatch:
    """A batch under the names of the last version, with what happened to its rows."""
    count = batch.num_rows
    columns = {
        name: pa.nulls(count) if there is None else batch.column(batch.schema.get_field_index(there))
        for name, there in task.names
    }
    columns[CHANGE_TYPE] = pa.repeat(pa.scalar(change), count)
    columns[COMMIT_VERSION] = pa.repeat(pa.scalar(task.version, pa.int64()), count)
    columns[COMMIT_TIMESTAMP] = pa.repeat(pa.scalar(task.moment, pa.timestamp("us", "UTC")), count)
    return pa.RecordBatch.from_pydict(columns)

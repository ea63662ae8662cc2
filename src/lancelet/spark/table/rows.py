"""Rows that a Spark job changes: tasks write what is new and name what is gone, the driver commits once.

A task gets rows of a step, an address and new values::

    step      address      values
    UPDATE    of the row   of the columns that change; the others are read from the table, as they are stored
    DELETE    of the row   none
    INSERT    null         of a new row; columns without one are null

Rows to insert come last, so that in a table with stable row ids the moved rows,
which keep their ids, are the first of the new fragments. What goes back to the
driver is a bitmap of rows for each fragment, and the metadata of new fragments.
The names of all files of one job begin alike, so that those of tasks that failed
or ran twice are found and removed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancelet.editing.merge import kept_columns, key_filter, plain
from lancelet.editing.moved import Addresses, RowWriter, lineage_of, rows_moved
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import MergeRefused
from lancelet.execution.shown import BlobForm, scan_field
from lancelet.execution.table_reader import TableReader
from lancelet.format.extensions import storage_of
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.attempts import new_stem, sweep, sweep_failed, written_paths
from lancelet.spark.table.jobs import run_over
from lancelet.table.commit.operations import CompactedSsTable, KeyFilter
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.table.rows.addresses import by_fragment, row_address, row_addresses
from lancelet.table.rows.lineage import inline_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lancelet.format.schema import Field
    from lancelet.spark.options import TableRef
    from lancelet.store import Store
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

_SHOWN_COLUMNS = 4


class RowAction(enum.Enum):
    """What becomes of a row."""

    UPDATE = enum.auto()
    DELETE = enum.auto()
    INSERT = enum.auto()


@dataclass(frozen=True, slots=True)
class RowStep:
    """What becomes of some rows."""

    kind: RowAction
    columns: tuple[str, ...] = ()
    """Those that get new values."""


class RowSource(Protocol):
    """New values that do not go through Spark: tasks get what names them in place of the values."""

    def open(self, table: TableReader) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """What gives the values, as they are stored, of rows that tasks get."""
        ...


@dataclass(frozen=True, slots=True)
class RowJob:
    """What all tasks of a change share."""

    place: TableRef
    """The version that the rows were found in."""
    steps: tuple[RowStep, ...]
    values: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns with new values, as they are written; they come after step and address, in this order."""
    key: tuple[str, ...] = ()
    """The table's primary key, when keys of new rows are to be told to other writers."""
    stem: bytes = field(default_factory=new_stem)
    """Begins the names of all files."""
    source: RowSource | None = None
    """Where new values are, if not in the rows that tasks get."""


@dataclass(slots=True, eq=False)
class Changed:
    """What a task did, or all of them."""

    gone: dict[int, BitMap] = field(default_factory=dict)
    """Offsets of rows that moved or are deleted, by fragment."""
    fragments: tuple[Fragment, ...] = ()
    updated: int = 0
    inserted: int = 0
    twice: int | None = None
    """Address of a row that was to change twice."""
    keys: KeyFilter | None = None

    @property
    def deleted(self) -> int:
        return sum(map(len, self.gone.values())) - self.updated

    def mark(self, number: int, offsets: BitMap) -> None:
        """Note rows of a fragment that are gone."""
        known = self.gone.get(number, BitMap())
        both = known & offsets
        if both and self.twice is None:
            self.twice = row_address(number, both[0])
        self.gone[number] = known | offsets

    def add(self, other: Changed) -> None:
        """Note what another task did."""
        for number, offsets in other.gone.items():
            self.mark(number, offsets)
        self.fragments += other.fragments
        self.updated += other.updated
        self.inserted += other.inserted
        self.twice = other.twice if self.twice is None else self.twice
        self.keys = _either(self.keys, other.keys)

    def addresses(self) -> Addresses:
        """Of all rows that are gone, in the order of fragment ids."""
        parts = [row_addresses(number, np.asarray(self.gone[number].to_array())) for number in sorted(self.gone)]
        return np.concatenate([np.empty(0, np.uint64), *parts])


def change_rows(job: RowJob, batches: Iterable[pa.RecordBatch]) -> Changed | None:
    """Run one task; an error leaves no files."""
    full = (batch for batch in batches if batch.num_rows)
    first = next(full, None)
    return None if first is None else _Rows(job, chain([first], full)).written()


class _Rows:
    """The rows of one task on their way into new files."""

    def __init__(self, job: RowJob, batches: Iterator[pa.RecordBatch]) -> None:
        self._job = job
        self._batches = batches
        self._table = TableReader(job.place.open())
        self._schema = self._table.snapshot.manifest.schema
        self._source = None if job.source is None else job.source.open(self._table)
        self._moved: list[Addresses] = []
        self._done = Changed()

    def written(self) -> Changed | None:
        """Write all rows."""
        snapshot, done = self._table.snapshot, self._done
        with WrittenFiles(snapshot.store) as files:
            writer = replace(RowWriter.of(snapshot, files), stem=self._job.stem)
            stream = (part for batch in self._batches for part in self._parts(batch))
            if inline_bytes(snapshot.manifest) == float("inf"):
                fragments = self._traced(writer, writer.write(rows for _, rows in stream))
            else:
                # Ids may become a column of the file, which all of its rows must have then.
                fragments = ()
                for is_new, group in groupby(stream, lambda part: part[0]):
                    made = writer.write(rows for _, rows in group)
                    fragments += made if is_new else self._traced(writer, made)
            done.fragments = fragments
        return done if done.gone or done.fragments else None

    def _traced(self, writer: RowWriter, fragments: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
        moved = np.concatenate([np.empty(0, np.uint64), *self._moved])
        self._done.updated = len(moved)
        return writer.trace(fragments, lineage_of(self._table, moved) if len(moved) else None)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[bool, pa.RecordBatch]]:
        """The new rows of a batch, those that moved first; whether they are new to the table comes with them."""
        numbers = numpy_array(batch.column(0))
        here = {number: np.flatnonzero(numbers == number) for number in np.unique(numbers).tolist()}
        for number in sorted(here, key=lambda number: (self._job.steps[number].kind is RowAction.INSERT, number)):
            step = self._job.steps[number]
            rows = here[number]
            if step.kind is RowAction.INSERT:
                yield True, self._inserted(step, self._values(step, batch, rows))
                continue
            addresses = numpy_array(batch.column(1).take(arrow_array(rows))).astype(np.uint64)
            order = np.argsort(addresses, kind="stable")
            self._mark(addresses[order])
            if step.kind is RowAction.UPDATE:
                for made in self._updated(step, self._values(step, batch, rows[order]), addresses[order]):
                    yield False, made

    def _mark(self, addresses: Addresses) -> None:
        """Rows that are gone, in ascending order."""
        twice = np.flatnonzero(addresses[1:] == addresses[:-1])
        if len(twice) and self._done.twice is None:
            self._done.twice = int(addresses[twice[0]])
        for number, _, offsets in by_fragment(addresses):
            self._done.mark(number, BitMap(offsets.astype(np.uint32)))

    def _values(self, step: RowStep, batch: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The new values of some rows, as they are stored."""
        if self._source is not None:
            return self._source(pick_rows(batch, arrow_array(rows)))
        values = self._job.values
        places = [values.get_field_index(name) for name in step.columns]
        chosen = pa.RecordBatch.from_arrays([batch.column(2 + at) for at in places], names=list(step.columns))
        taken = pick_rows(chosen, arrow_array(rows)) if step.columns else chosen
        (made,) = conformed_batches([taken], pa.schema([values.field(at) for at in places]))
        return made

    def _updated(self, step: RowStep, values: pa.RecordBatch, addresses: Addresses) -> Iterator[pa.RecordBatch]:
        """Rows with their new values, and their old ones where there are no new ones."""
        self._moved.append(addresses)
        fields = [field for field in self._schema.fields if field.name not in step.columns]
        if not fields:
            yield values
            return
        at = 0
        for kept in kept_columns(self._table, fields, addresses):
            given = values.slice(at, kept.num_rows)
            at += kept.num_rows
            yield _beside(given, [storage_of(column) for column in kept.columns], kept.schema.names)

    def _inserted(self, step: RowStep, values: pa.RecordBatch) -> pa.RecordBatch:
        self._done.inserted += values.num_rows
        if self._job.key:
            self._note_keys(values)
        fields = [field for field in self._schema.fields if field.name not in step.columns]
        nulls = [pa.nulls(values.num_rows, scan_field(field, BlobForm.BINARY).type) for field in fields]
        return _beside(values, nulls, [field.name for field in fields])

    def _note_keys(self, values: pa.RecordBatch) -> None:
        ids = [self._schema.field_by_path((name,)).id for name in self._job.key]
        # A key that is not given is null, and nulls are no keys.
        given = all(name in values.schema.names for name in self._job.key)
        columns = [plain(values.column(name)) for name in self._job.key] if given else [pa.nulls(0)] * len(ids)
        self._done.keys = _either(self._done.keys, key_filter(ids, columns))


def _beside(values: pa.RecordBatch, columns: Sequence[pa.Array], names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*values.columns, *columns], names=[*values.schema.names, *names])


def _either(left: KeyFilter | None, right: KeyFilter | None) -> KeyFilter | None:
    """The keys of both."""
    if left is None or right is None:
        return right if left is None else left
    bits = [np.frombuffer(keys.bitmap or b"", np.uint8) for keys in (left, right)]
    return replace(left, bitmap=(bits[0] | bits[1]).tobytes())


# On the driver


def run_rows(frame: DataFrame, job: RowJob, store: Store) -> Changed:
    """Run a job; an error leaves no files."""
    try:
        results = run_over(frame, partial(change_rows, job))
    except BaseException:
        sweep_failed(store, job.stem)
        raise
    done = Changed()
    for result in results:
        done.add(result)
    return done


def commit_moved(
    snapshot: Snapshot, frame: DataFrame, job: RowJob, fields: Sequence[Field], *, may_repeat: bool = False
) -> Changed:
    """Run a job and commit what it changed.

    Parameters
    ----------
    snapshot
        The version in which the rows were found.
    frame
        Step, address and values.
    fields
        Those whose values may have changed.
    may_repeat
        Whether a row may be named more than once.
    """
    manifest = snapshot.manifest
    check_writable(manifest.path, manifest.head.writer_feature_flags)
    done = run_rows(frame, job, snapshot.store)
    commit_done(snapshot, job, done, fields, may_repeat=may_repeat)
    return done


def commit_done(
    snapshot: Snapshot,
    job: RowJob,
    done: Changed,
    fields: Sequence[Field],
    *,
    may_repeat: bool = False,
    compacted: tuple[CompactedSsTable, ...] = (),
) -> Snapshot:
    """Commit what the tasks of a job changed; for the parameters see :func:`commit_moved`. An error leaves no files.

    ``compacted`` are the runs of a MemWAL that the changes were.
    """
    kept = written_paths(snapshot.store, job.stem, done.fragments, snapshot.manifest.schema)
    try:
        with WrittenFiles(snapshot.store) as files:
            for path in kept:
                files.add(path)
            if done.twice is not None and not may_repeat:
                raise _ambiguous(snapshot, done.twice)
            return commit_changed(snapshot, done, fields, files, compacted)
    finally:
        sweep(snapshot.store, job.stem, kept)


def commit_changed(
    snapshot: Snapshot,
    done: Changed,
    fields: Sequence[Field],
    files: WrittenFiles,
    compacted: tuple[CompactedSsTable, ...] = (),
) -> Snapshot:
    """Mark the rows that are gone, and make the new ones visible."""
    ids = [node.id for field in fields for node in field.walk()]
    change = rows_moved(snapshot, done.addresses(), done.fragments, files, fields=ids, inserted_keys=done.keys)
    operation = replace(change.operation, compacted_sstables=compacted)
    return commit(snapshot, operation, affected_rows=change.affected_rows, files=files)


def _ambiguous(snapshot: Snapshot, address: int) -> MergeRefused:
    fields = [field for field in snapshot.manifest.schema.fields if not field.children][:_SHOWN_COLUMNS]
    table = TableReader(snapshot)
    (row,) = (batch.to_pylist() for batch in kept_columns(table, fields, np.array([address], np.uint64)))
    shown = ", ".join(f"{name} = {value!r}" for name, value in row[0].items())
    return MergeRefused(
        f"several rows of the source match one row of the table ({shown}), so that its new values are not certain; "
        "make sure that each row is matched by one at most, for example with dropDuplicates on the source. Nothing was "
        "changed"
    )

"""Rows on their way into the shards of a MemWAL: tasks write runs, the driver adds them to the shards.

::

    task      rows ──> by the shard that the table's spec tells ──> runs that nothing names yet
                                                                    few rows: the rows themselves
    driver    of each shard, in the order of the tasks: rows that were handed over become one run; the shard's next state
              names all of its runs, with the mark of query and batch

No version of the table is made. How a shard takes runs, and why a batch is there once however often it is repeated, is told in
:mod:`lancelet.memwal.staging`. A batch is in a shard as a whole or not at all; shards do not wait for each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BooleanType, StructType

from lancelet.encoding.plain import numpy_array
from lancelet.errors import InvalidInput, RetryableCommitConflict, ShardSealed, UnfitData, UnknownColumn, WriterFenced
from lancelet.memwal.details import require_details
from lancelet.memwal.incoming import changes, check_columns
from lancelet.memwal.names import TOMBSTONE
from lancelet.memwal.placing import Place, ShardMap
from lancelet.memwal.primary_key import PrimaryKey
from lancelet.memwal.shard_manifest import SsTable
from lancelet.memwal.staging import StreamBatch, add_runs, drop_runs, drop_staged, has_batch, new_stem, stage_run
from lancelet.memwal.wal_entry import entry_schema
from lancelet.runtime.threads import Pool
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.names import distinguishes_case
from lancelet.spark.options import TableRef, check_known, parse_table_ref
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.stream.identity import task_attempt, task_batch, task_query
from lancelet.spark.types import stored_columns, written_schema
from lancelet.spark.workers import a_task
from lancelet.writing.fit import fitted_schema

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

_HANDED_OVER = 256 << 10
"""Bytes of rows that a task sends to the driver; with more, it writes runs."""
_SHARDS_AT_ONCE = Pool("lancelet-memwal-add", 8)
_UNFIT = (
    "maxrowsperfile",
    "maxbytesperfile",
    "mergeschema",
    "datastorageversion",
    "enablestablerowids",
    "checksums",
    "commitmessage",
    "version",
    "tag",
    "branch",
    "asof",
)
"""Options of writes that make versions, which this one does not."""


@dataclass(frozen=True, slots=True)
class UpsertJob:
    """What all tasks of a write share."""

    place: TableRef
    """The version whose columns the rows have."""
    arrow: pa.Schema
    """The columns of the data frame, as they are written."""
    shards: ShardMap
    deletes: bool
    """Whether a column tells which rows are deletions."""
    stem: bytes = field(default_factory=new_stem)
    """Begins the names of all folders."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one task for one shard."""

    place: Place
    run: SsTable | None
    rows: bytes = b""
    """An Arrow stream of them, where there is no run."""


class Upserted(WriterCommitMessage):
    """What a task has written."""

    def __init__(
        self,
        job: UpsertJob,
        parts: tuple[Part, ...] = (),
        query: str | None = None,
        attempt: int = 0,
        refusal: InvalidInput | None = None,
    ) -> None:
        self.job = job
        self.parts = parts
        self.query = query
        self.attempt = attempt
        self.refusal = refusal
        """Why the rows cannot be written, however often it is tried; the driver says it."""


def plan_upsert(spark: StructType, options: Mapping[str, str], *, overwrite: bool) -> UpsertJob:
    """Check a write against its table. Nothing has been written when it is refused."""
    check_known(options, writes=True)
    path = options["writepath"].lower()
    if path != "memwal":
        raise InvalidInput(f"writePath is memwal, for rows that go through the table's MemWAL, not {path!r}")
    mode = options.get("savemode", "overwrite" if overwrite else "append").lower()
    if mode != "append":
        raise InvalidInput(
            f"rows are put beside those that are there with writePath=memwal: the mode is append, not {mode}"
        )
    for name in options:
        if name in _UNFIT or name.startswith(("vector.", "type.")):
            raise InvalidInput(
                f"the option {name} does not go with writePath=memwal, which changes no columns and no versions"
            )
    place = parse_table_ref(options)
    snapshot = place.open()
    schema = snapshot.manifest.schema
    require_details(snapshot)
    check_columns(snapshot)
    key = PrimaryKey.of(schema)
    columns, deletes = _without_marks(spark, key)
    arrow = written_schema(columns, {}, stored_columns(schema), case_sensitive=distinguishes_case(options))
    version = snapshot.manifest.data_storage_version
    fitted_schema(schema, arrow, version, version, snapshot.uri, "rename or cast the columns")
    for name in key.names:
        if name not in arrow.names:
            raise UnknownColumn(name, arrow.names, "the data frame, and it is part of the table's primary key")
    return UpsertJob(
        TableRef(snapshot.uri, place.storage_options, snapshot.version), arrow, ShardMap.of(snapshot), deletes
    )


def _without_marks(spark: StructType, key: PrimaryKey) -> tuple[StructType, bool]:
    """The columns of a data frame but for that of deletions, and whether it has one."""
    if TOMBSTONE not in spark.names:
        return spark, False
    if not isinstance(spark[TOMBSTONE].dataType, BooleanType):
        raise UnfitData(
            f"the column {TOMBSTONE} says which rows are deletions and is boolean, not {spark[TOMBSTONE].dataType.simpleString()}"
        )
    key.require("a data frame with deletions")
    return StructType([column for column in spark if column.name != TOMBSTONE]), True


# On executors


def write_parts(job: UpsertJob, batches: Iterable[pa.RecordBatch], number: int = 0) -> tuple[Part, ...]:
    """Write the rows of one task."""
    with a_task():
        return _Parts(job, number).of(batches)


class _Parts:
    """The rows of a task by their shards: in memory until there are too many of them."""

    def __init__(self, job: UpsertJob, number: int) -> None:
        self._job = job
        self._number = number
        self._base = job.place.open()
        schema = self._base.manifest.schema
        self._key = PrimaryKey.of(schema)
        self._target = entry_schema(schema)
        self._config = require_details(self._base).config
        self._held: dict[Place, list[pa.RecordBatch]] = {}
        self._sizes: dict[Place, int] = {}
        self._rows: dict[Place, int] = {}
        self._written: list[Part] = []

    def of(self, batches: Iterable[pa.RecordBatch]) -> tuple[Part, ...]:
        schema = self._base.manifest.schema
        try:
            for batch in batches:
                for change in self._changes(batch):
                    for place, rows in self._job.shards.split(change, schema):
                        self._hold(place, rows)
                    while sum(self._sizes.values()) > self._config.max_memtable_size:
                        self._write(max(self._sizes, key=lambda place: self._sizes[place]))
            if not self._written and sum(self._sizes.values()) <= _HANDED_OVER:
                return tuple(Part(place, None, _stream(rows, self._target)) for place, rows in self._held.items())
            for place in list(self._held):
                self._write(place)
        except BaseException:
            for part in self._written:
                assert part.run is not None
                drop_runs(self._base, part.place[0], [part.run])
            raise
        return tuple(self._written)

    def _changes(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        if not batch.num_rows:
            return []
        gone = np.zeros(batch.num_rows, np.bool_)
        if self._job.deletes:
            gone = numpy_array(batch.column(TOMBSTONE).fill_null(False))
        (rows,) = conformed_batches([batch], self._job.arrow)
        return changes(self._base, self._key, self._target, rows, gone)

    def _hold(self, place: Place, rows: pa.RecordBatch) -> None:
        self._held.setdefault(place, []).append(rows)
        self._sizes[place] = self._sizes.get(place, 0) + rows.nbytes
        self._rows[place] = self._rows.get(place, 0) + rows.num_rows
        if self._rows[place] >= self._config.max_memtable_rows:
            self._write(place)

    def _write(self, place: Place) -> None:
        rows = self._held.pop(place)
        del self._sizes[place], self._rows[place]
        run = stage_run(self._base, place[0], rows, self._job.stem, self._number)
        self._written.append(Part(place, run))


def _stream(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


# On the driver


def add_parts(job: UpsertJob, parts: Iterable[Part], batch: StreamBatch | None = None) -> None:
    """Add what tasks have written to the shards; ``parts`` come in the order of the tasks."""
    newest = replace(job.place, version=None).open()
    planned = job.place.open()
    if newest.manifest.schema != planned.manifest.schema:
        raise RetryableCommitConflict(
            newest.uri,
            newest.version,
            "the columns of the table changed since the write was planned; start it again, a stream with the same checkpoint",
        )
    require_details(newest)
    by_shard: dict[Place, list[Part]] = {}
    for part in parts:
        by_shard.setdefault(part.place, []).append(part)
    adding = [_SHARDS_AT_ONCE.submit(_add, newest, job, place, own, batch) for place, own in by_shard.items()]
    errors = []
    for task in adding:
        try:
            task.result()
        except Exception as error:  # noqa: BLE001 - raised below, when the other shards are done
            errors.append(error)
    if errors:
        raise errors[0]


def _add(base: Snapshot, job: UpsertJob, place: Place, parts: Sequence[Part], batch: StreamBatch | None) -> None:
    shard, before = place[0], job.shards.before(place)
    if batch is not None and has_batch(base, shard, batch, before):
        drop_runs(base, shard, [part.run for part in parts if part.run is not None])
        return
    runs = list(_runs(base, job.stem, parts, 0 if batch is None else batch.number))
    try:
        added = add_runs(base, place, runs, batch, before)
    except (WriterFenced, ShardSealed):
        # After other errors a state that names them may still be on its way.
        drop_runs(base, shard, runs)
        raise
    if not added:
        drop_runs(base, shard, runs)


def _runs(base: Snapshot, stem: bytes, parts: Sequence[Part], number: int) -> Iterator[SsTable]:
    """The runs of a shard, in the order of the tasks; rows that were handed over become runs here."""
    held: list[pa.RecordBatch] = []
    for part in parts:
        if part.run is None:
            with pa.ipc.open_stream(part.rows) as reader:
                held.extend(reader)
            continue
        if held:
            yield stage_run(base, part.place[0], held, stem, number)
            held = []
        yield part.run
    if held:
        yield stage_run(base, parts[0].place[0], held, stem, number)


class LanceUpsertWriter(DataSourceArrowWriter):
    """A write that ends."""

    def __init__(self, job: UpsertJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Upserted:
        return _run_task(self._job, iterator)

    @in_a_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(messages, self._job)


class LanceUpsertStreamWriter(DataSourceStreamArrowWriter):
    """A sink for one query."""

    def __init__(self, job: UpsertJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Upserted:
        batch = int(task_batch() or 0)
        return _run_task(_of_batch(self._job, batch), iterator, batch)

    @in_a_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        _commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        _abort(messages, _of_batch(self._job, batchId))


def _of_batch(job: UpsertJob, batch: int) -> UpsertJob:
    """One writer serves many batches, each of which is to find its own folders."""
    return replace(job, stem=hashlib.sha256(job.stem + str(batch).encode()).digest()[: len(job.stem)])


def _run_task(job: UpsertJob, batches: Iterator[pa.RecordBatch], number: int = 0) -> Upserted:
    query, attempt = task_query(), task_attempt()
    try:
        return Upserted(job, write_parts(job, batches, number), query, attempt)
    except InvalidInput as error:
        return Upserted(job, (), query, attempt, error.with_traceback(None))


def _commit(messages: Iterable[WriterCommitMessage | None], number: int | None = None) -> None:
    """Add what the tasks have written, or raise what made one give up; ``number`` is that of a stream's batch."""
    written = [message for message in messages if isinstance(message, Upserted)]
    if not written:
        return
    job, query = written[0].job, written[0].query
    for message in written:
        if message.refusal is not None:
            _drop_all(job)
            raise message.refusal
    batch = None
    if number is not None:
        if query is None:
            raise InvalidInput(
                "the tasks of this stream do not know its query; write with writeStream, or a batch at a time"
            )
        batch = StreamBatch(query, number)
    add_parts(job, (part for message in written for part in message.parts), batch)
    if any(message.attempt for message in written):
        # Repeated tasks are few: only then it is worth to look for what they left.
        _drop_all(job)


def _abort(messages: Sequence[WriterCommitMessage | None], job: UpsertJob) -> None:
    # When all tasks succeeded, it was the commit that failed; it knows which runs may stay.
    if any(message is None for message in messages):
        _drop_all(job)


def _drop_all(job: UpsertJob) -> None:
    drop_staged(job.place.open().store, job.stem)

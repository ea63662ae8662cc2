"""Writing a data frame: tasks write fragments, the driver commits them once.

What a write needs is decided before any task runs: the target's version, the
schema, the field ids. Tasks get these as one value and send the metadata of
their fragments back. Spark may run a task twice (a lost worker, speculation);
only the fragments of the attempts that it chose reach the commit. The names of
all files of one write begin alike, so that the files of the other attempts are
found and removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lancelet.editing.delete import matching_rows
from lancelet.editing.retry import retried
from lancelet.errors import CommitConflict, InvalidInput, RetryableCommitConflict, TableExists
from lancelet.execution.table_reader import TableReader
from lancelet.file.checksums import are_wanted
from lancelet.spark import bridge
from lancelet.spark.added_columns import add_missing, holds, missing_columns, widened
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.attempts import new_stem, sweep, sweep_failed, written_paths
from lancelet.spark.named_tables import NamedTable
from lancelet.spark.names import distinguishes_case
from lancelet.spark.options import check_known, chosen_types, count, flag, size, storage_options, table_uri
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.sql.definition import Definition, has_wide_offsets
from lancelet.spark.types import stored_columns, with_wide_offsets, written_schema
from lancelet.spark.workers import a_task
from lancelet.store import open_store
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.operations import Append, Update
from lancelet.table.commit.patience import CHANGE_SECONDS
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.writing.defaults import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE
from lancelet.writing.fit import fitted_schema
from lancelet.writing.fragments import write_fragment_files
from lancelet.writing.options import WriteOptions, write_options
from lancelet.writing.table import Target, WritePlan, commit_rows, prepare

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lancelet.store import Store
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

_WIDE_OFFSETS = "useLargeVarTypes"
_SAVE_MODES = ("append", "overwrite", "errorifexists", "error", "ignore")


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What all tasks of a write share."""

    uri: str
    storage_options: Mapping[str, str]
    read_version: int | None
    """The version that is written to; None for a table that is not there yet."""
    arrow: pa.Schema
    """The columns as they are written."""
    plan: WritePlan
    options: WriteOptions
    stem: bytes
    """Begins the names of all files."""
    new_columns: pa.Schema | None = None
    """What the table is to get first."""
    named: NamedTable | None = None
    """Its name in a namespace, which the write may have declared."""
    replaced: str | None = None
    """Conditions on rows that go when the new ones come."""

    def store(self) -> Store:
        return open_store(self.uri, self.storage_options or None)

    def target(self) -> Target:
        """The table at the version that the write was planned for."""
        store = self.store()
        return Target(store, None if self.read_version is None else open_snapshot(store, self.read_version))


class Written(WriterCommitMessage):
    """The fragments that a task has written."""

    def __init__(self, fragments: tuple[Fragment, ...] = (), refusal: InvalidInput | None = None) -> None:
        self.fragments = fragments
        self.refusal = refusal
        """Why the rows cannot be written, however often it is tried; the driver says it."""


def make_writer(schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> LanceWriter | NoWriter:
    """Check a write against its target. Nothing has been written when it is refused."""
    check_known(options, writes=True)
    mode = options.get("savemode", "overwrite" if overwrite else "append").lower()
    if mode not in _SAVE_MODES:
        raise InvalidInput(f"saveMode is one of {', '.join(_SAVE_MODES)}, not {mode!r}")
    job = plan_write(schema, options, "overwrite" if mode == "overwrite" else "append")
    if mode in ("errorifexists", "error", "ignore") and job.read_version is not None:
        if mode == "ignore":
            return NoWriter()
        raise TableExists(job.uri)
    return LanceWriter(job)


def plan_write(spark: StructType, options: Mapping[str, str], mode: str) -> WriteJob:
    """Decide everything that tasks need."""
    uri, storage = table_uri(options), storage_options(options)
    named = NamedTable.of(options, uri, storage)
    if named is None:
        return _plan_write(spark, options, mode, uri, storage)
    with named.writing() as found:
        return replace(_plan_write(spark, options, mode, found, storage), named=named)


def _plan_write(
    spark: StructType, options: Mapping[str, str], mode: str, uri: str, storage: Mapping[str, str]
) -> WriteJob:
    target = Target.at(open_store(uri, storage or None))
    text = options.get(bridge.DEFINITION)
    if text is not None:
        return _plan_definition(Definition.parse(text), options, uri, storage, target)
    chosen = write_options(
        mode,
        max_rows_per_file=count(options, "maxRowsPerFile", least=1) or MAX_ROWS_PER_FILE,
        max_bytes_per_file=size(options, "maxBytesPerFile") or MAX_BYTES_PER_FILE,
        data_storage_version=options.get("datastorageversion"),
        enable_stable_row_ids=flag(options, "enableStableRowIds"),
        checksums=flag(options, "checksums") if "checksums" in options else None,
        commit_message=options.get("commitmessage"),
    )
    snapshot = target.snapshot
    appends = snapshot is not None and mode == "append"
    keeps = appends or flag(options, bridge.KEEPS_COLUMNS)
    stored = stored_columns(snapshot.manifest.schema) if keeps and snapshot is not None else None
    arrow = written_schema(spark, chosen_types(options), stored, case_sensitive=distinguishes_case(options))
    if _has_wide_offsets(options, {} if snapshot is None else snapshot.manifest.config):
        arrow = with_wide_offsets(arrow, () if stored is None else stored.names)
    version = None if snapshot is None else snapshot.version
    if snapshot is not None and chosen.checksums is None:
        chosen = replace(chosen, checksums=are_wanted(snapshot.manifest.config))
    stem = new_stem()
    new = None
    if appends and snapshot is not None and flag(options, "mergeSchema"):
        new = missing_columns(snapshot.manifest.schema, arrow)
    if keeps and not appends and snapshot is not None:
        plan = prepare(arrow, target, replace(chosen, mode="append"))
        return WriteJob(uri, storage, version, arrow, replace(plan, appends=False), chosen, stem)
    if not new or snapshot is None:
        plan, replaced = prepare(arrow, target, chosen), options.get(bridge.REPLACED)
        return WriteJob(uri, storage, version, arrow, plan, chosen, stem, replaced=replaced)
    plan = prepare(_without(arrow, new), target, chosen)
    stored_version = snapshot.manifest.data_storage_version
    schema = fitted_schema(widened(snapshot, new), arrow, plan.version, stored_version, snapshot.uri)
    return WriteJob(uri, storage, version, arrow, replace(plan, schema=schema), chosen, stem, new)


def _has_wide_offsets(options: Mapping[str, str], config: Mapping[str, str]) -> bool:
    """Whether new texts and bytes have 64-bit offsets: as the write says, or else the table."""
    return flag(options, _WIDE_OFFSETS) if _WIDE_OFFSETS.lower() in options else has_wide_offsets(config)


def _plan_definition(
    definition: Definition, options: Mapping[str, str], uri: str, storage: Mapping[str, str], target: Target
) -> WriteJob:
    """A write that makes or replaces a table."""
    chosen = definition_options(definition, options[bridge.DEFINITION_MODE])
    chosen = replace(
        chosen,
        max_rows_per_file=count(options, "maxRowsPerFile", least=1) or chosen.max_rows_per_file,
        max_bytes_per_file=size(options, "maxBytesPerFile") or chosen.max_bytes_per_file,
    )
    version = None if target.snapshot is None else target.snapshot.version
    arrow = with_wide_offsets(definition.arrow) if flag(options, _WIDE_OFFSETS) else definition.arrow
    return WriteJob(uri, storage, version, arrow, prepare(arrow, target, chosen), chosen, new_stem())


def definition_options(definition: Definition, mode: str) -> WriteOptions:
    """How a table is written that is made, or that replaces another one."""
    chosen = write_options(
        mode, data_storage_version=definition.file_version, enable_stable_row_ids=definition.stable_row_ids
    )
    return replace(chosen, config={**chosen.config, **definition.config})


def _without(arrow: pa.Schema, new: pa.Schema) -> pa.Schema:
    """The columns of which nothing is new."""
    return pa.schema([field for field in arrow if field.name not in new.names])


def write_rows(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> tuple[Fragment, ...]:
    """Write the rows of one task; an error leaves no files."""
    store = job.store()
    with a_task(), WrittenFiles(store) as files:
        return write_fragment_files(
            store,
            job.plan.schema,
            conformed_batches(batches, job.arrow),
            version=job.plan.version,
            limits=job.options.limits(len(job.plan.schema.fields)),
            files=files,
            stem=job.stem,
        )


def commit_write(job: WriteJob, fragments: tuple[Fragment, ...]) -> Snapshot:
    """Make what the tasks have written visible, and remove what others of their attempts wrote."""
    target = job.target()
    kept = written_paths(target.store, job.stem, fragments, job.plan.schema)
    with WrittenFiles(target.store) as files:
        for path in kept:
            files.add(path)
        if job.new_columns is not None:
            assert target.snapshot is not None
            target = Target(target.store, add_missing(target.snapshot, job.new_columns, job.plan.schema))
        if job.replaced is not None:
            snapshot = _commit_replacing(job, job.replaced, fragments, target, files)
        else:
            snapshot = commit_rows(job.arrow, job.plan, fragments, target, job.options, files)
    sweep(target.store, job.stem, kept)
    return snapshot


def _commit_replacing(
    job: WriteJob, replaced: str, fragments: tuple[Fragment, ...], target: Target, files: WrittenFiles
) -> Snapshot:
    """Let new rows take the place of those for which conditions are true, in one version."""
    from lancelet.spark.predicates import from_json

    assert target.snapshot is not None

    def attempt(table: TableReader) -> Snapshot:
        snapshot = table.snapshot
        if not holds(snapshot.manifest.schema, job.plan.schema):
            raise CommitConflict(
                snapshot.uri, snapshot.version, "its columns changed while rows were written; write them again"
            )
        written = frozenset(files.paths)
        rows = matching_rows(table, from_json(replaced, snapshot.manifest.schema))
        deletion = delete_rows(snapshot, rows, files=files)
        gone = deletion.operation
        try:
            return commit(
                snapshot,
                Update(gone.deleted_fragment_ids, gone.updated_fragments, fragments)
                if deletion.num_rows
                else Append(fragments),
                properties=job.options.properties,
                affected_rows=deletion.affected_rows if deletion.num_rows else None,
                files=files,
            )
        except RetryableCommitConflict:
            for path in set(files.paths) - written:
                files.discard(path)
            raise

    return retried(TableReader(target.snapshot), attempt, None, CHANGE_SECONDS)


class LanceWriter(DataSourceArrowWriter):
    """One write; sent to the tasks."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        try:
            return Written(write_rows(self._job, iterator))
        except InvalidInput as error:
            return Written(refusal=error.with_traceback(None))

    @in_a_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        check_written(messages, self._job)
        commit_write(self._job, fragments_of(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        # When all tasks succeeded, it was the commit that failed; it knows which files may stay.
        if any(message is None for message in messages):
            sweep_failed(self._job.store(), self._job.stem)
        if self._job.named is not None:
            self._job.named.withdraw()


class NoWriter(DataSourceArrowWriter):
    """The table is there, and shall stay as it is."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return Written(())


def check_written(messages: Iterable[WriterCommitMessage | None], job: WriteJob) -> None:
    """Raise what made a task give up; what the others have written goes."""
    for message in messages:
        if isinstance(message, Written) and message.refusal is not None:
            sweep(job.store(), job.stem)
            raise message.refusal


def fragments_of(messages: Iterable[WriterCommitMessage | None]) -> tuple[Fragment, ...]:
    """The fragments of all tasks, in the order of the tasks."""
    return tuple(fragment for message in messages if isinstance(message, Written) for fragment in message.fragments)

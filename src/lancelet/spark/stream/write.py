"""The streaming sink: every batch of a query is in the table exactly once.

The commit of a batch says in its transaction's properties which query and which
batch it is. In the same version, the table's config gets a mark with the query's
last batch; it stays when old versions are cleaned up. Before a batch is committed
the mark is looked at, and where there is none, the whole history of the table. The
transaction's id is made of query and batch, so that of two drivers that commit the
same batch at the same time only one succeeds.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lancelet.errors import InvalidInput, RetryableCommitConflict, StorageError, TableExists, TableNotFound
from lancelet.execution.threads import ordered_map
from lancelet.spark.added_columns import holds
from lancelet.spark.attempts import data_paths, sweep, written_paths
from lancelet.spark.options import check_known
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.stream.identity import task_attempt, task_batch, task_query
from lancelet.spark.writer import WriteJob, Written, check_written, plan_write, write_rows
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit, create
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.table.manifest.versions import list_versions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lancelet.store import Store
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.names import ManifestName
    from lancelet.table.manifest.snapshot import Snapshot

QUERY = "lancelet.stream.query"
BATCH = "lancelet.stream.batch"
_MARK = "lancelet.stream."
_NAMESPACE = uuid.UUID("6f0c1f7e-3b1c-4a53-9e0e-7c5b1f0a9d21")
_MANIFESTS_AT_ONCE = 16


class WrittenInStream(Written):
    """The fragments of a task, and what its writer had in mind: the commit runs in another process."""

    def __init__(
        self,
        fragments: tuple[Fragment, ...],
        query: str | None,
        job: WriteJob,
        attempt: int = 0,
        refusal: InvalidInput | None = None,
    ) -> None:
        super().__init__(fragments, refusal)
        self.query = query
        self.job = job
        self.attempt = attempt


def make_stream_writer(schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> LanceStreamWriter:
    """Check a stream against its target."""
    check_known(options, writes=True)
    if "savemode" in options:
        raise InvalidInput("saveMode is for writes that end; a stream's outputMode says what becomes of earlier rows")
    if options.get("mergeschema", "false").lower() == "true":
        raise InvalidInput("mergeSchema is for writes that end; add the columns to the table before the stream starts")
    return LanceStreamWriter(plan_write(schema, options, "overwrite" if overwrite else "append"))


class LanceStreamWriter(DataSourceStreamArrowWriter):
    """A sink for one query."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenInStream:
        query, batch, attempt = task_query(), task_batch(), task_attempt()
        # One writer serves many batches, each of which is to find its own files.
        stem = hashlib.sha256(self._job.stem + str(batch).encode()).digest()[: len(self._job.stem)]
        job = replace(self._job, stem=stem)
        try:
            return WrittenInStream(write_rows(job, iterator), query, job, attempt)
        except InvalidInput as error:
            return WrittenInStream((), query, job, attempt, error.with_traceback(None))

    @in_a_sentence
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        written = [message for message in messages if isinstance(message, WrittenInStream)]
        if not written:
            return
        check_written(written, written[0].job)
        if written[0].query is None:
            raise InvalidInput(
                "the tasks of this stream do not know its query; write with writeStream, or a batch at a time"
            )
        fragments = tuple(fragment for message in written for fragment in message.fragments)
        snapshot = commit_batch(written[0].job, written[0].query, batchId, fragments)
        if snapshot is not None and any(message.attempt for message in written):
            # Batches are many and repeated tasks few: only then it is worth listing the table's files.
            sweep(snapshot.store, written[0].job.stem, data_paths(snapshot.manifest.fragments))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        written = [message for message in messages if isinstance(message, WrittenInStream)]
        # When all tasks succeeded, it was the commit that failed; it knows which files may stay.
        if written and len(written) < len(messages):
            sweep(written[0].job.store(), written[0].job.stem)


def commit_batch(job: WriteJob, query: str, batch: int, fragments: tuple[Fragment, ...]) -> Snapshot | None:
    """Commit a batch, unless the table has it; returns the new version if there is one."""
    store = job.store()
    try:
        newest: Snapshot | None = open_snapshot(store)
    except TableNotFound:
        newest = None
    if newest is not None and is_committed(newest, query, batch):
        _remove(store, job, fragments)
        return None
    if not fragments and (newest is None or job.options.mode == "append"):
        return None
    snapshot = _commit(job, store, newest, query, batch, fragments)
    if snapshot is None:
        # Somebody else made the table meanwhile.
        return commit_batch(job, query, batch, fragments)
    return snapshot


def _commit(
    job: WriteJob, store: Store, newest: Snapshot | None, query: str, batch: int, fragments: tuple[Fragment, ...]
) -> Snapshot | None:
    properties = {**job.options.properties, QUERY: query, BATCH: str(batch)}
    mark = {f"{_MARK}{query}": str(batch)}
    identity = str(uuid.uuid5(_NAMESPACE, f"{query}:{batch}"))
    with WrittenFiles(store) as files:
        for path in written_paths(store, job.stem, fragments, job.plan.schema):
            files.add(path)
        if newest is None:
            with suppress(TableExists):
                return create(
                    store,
                    ops.Overwrite(job.plan.schema, fragments, {**job.options.config, **mark}),
                    properties=properties,
                    stable_row_ids=job.options.enable_stable_row_ids,
                    naming=job.options.naming,
                    storage_version=job.plan.version,
                    files=files,
                    uuid=identity,
                )
            return None
        operation: ops.Operation
        if job.options.mode == "overwrite":
            operation = ops.Overwrite(job.plan.schema, fragments)
        else:
            _check_columns(job, newest)
            operation = ops.Append(fragments)
        return commit(newest, operation, properties=properties, files=files, uuid=identity, config=mark)


def _check_columns(job: WriteJob, newest: Snapshot) -> None:
    if not holds(newest.manifest.schema, job.plan.schema):
        raise RetryableCommitConflict(
            newest.uri,
            newest.version,
            "the columns of the table changed since the stream started; start the query again with the same checkpoint",
        )


def is_committed(newest: Snapshot, query: str, batch: int) -> bool:
    """Whether the table has a batch of a query: its mark says so, or else any version that is left."""
    mark = newest.manifest.config.get(f"{_MARK}{query}")
    if mark is not None and mark.isdecimal():
        return int(mark) >= batch
    return any(found >= batch for found in _batches_in_history(newest, query))


def _batches_in_history(newest: Snapshot, query: str) -> Iterator[int]:
    """Numbers of a query's batches in all versions, the newest first."""
    store = newest.store

    def batch_of(name: ManifestName) -> int | None:
        transaction = read_manifest(store, name.path).transaction
        texts = {} if transaction is None else transaction.transaction_properties
        return int(texts[BATCH]) if texts.get(QUERY) == query and texts.get(BATCH, "").isdecimal() else None

    names = [name for name in list_versions(store) if name.version <= newest.version]
    ahead = 1 if store.is_local else _MANIFESTS_AT_ONCE
    return (found for found in ordered_map(batch_of, names[::-1], ahead) if found is not None)


def _remove(store: Store, job: WriteJob, fragments: tuple[Fragment, ...]) -> None:
    """Files of a batch that the table had already; no version refers to them."""
    for path in written_paths(store, job.stem, fragments, job.plan.schema):
        with suppress(StorageError):
            store.delete(path)

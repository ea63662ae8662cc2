"""The streaming source: offsets are versions of the table.

A new query first gets the table as it is, then what later versions add. With
``startingVersion`` it gets what that version and later ones add; ``latest`` stands
for the next version to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StringType, StructType

from lancelet.errors import InvalidInput
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.options import count, flag, read_options
from lancelet.spark.plan import SPLIT_BYTES
from lancelet.spark.requested import check_requested
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.source import read_job, table_columns
from lancelet.spark.stream.plan import (
    StreamSplit,
    appended,
    changed,
    read_stream_split,
    rows_added,
    snapshot_splits,
    step_to,
)
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from lancelet.spark.options import TableRef
    from lancelet.spark.plan import ReadJob
    from lancelet.table.manifest.snapshot import Snapshot

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
_BEGINNING = 0
_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the options of a streaming read mean, besides those of any read."""

    starting_version: int | None = None
    """None: the table as it is, then what comes."""
    from_now: bool = False
    max_versions: int | None = None
    max_rows: int | None = None
    skip_changes: bool = False
    read_changes: bool = False


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Check the options of a streaming read."""
    for name in ("version", "tag", "asOf", "limit", "memWal"):
        if name.lower() in options:
            raise InvalidInput(f"option {name} makes no sense for a stream; startingVersion says where it begins")
    start = options.get("startingversion")
    from_now = start is not None and start.lower() == _LATEST
    found = StreamOptions(
        None if from_now else count(options, "startingVersion", least=1),
        from_now,
        count(options, "maxVersionsPerTrigger", least=1),
        count(options, "maxRowsPerTrigger", least=1),
        flag(options, "skipChanges"),
        flag(options, "readChanges"),
    )
    if found.skip_changes and found.read_changes:
        raise InvalidInput("skipChanges and readChanges exclude each other; give one of them")
    if found.read_changes and "filter" in options:
        raise InvalidInput(
            "a stream of changes takes no filter, since a row may pass it before or after; filter the stream"
        )
    return found


def with_changes(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The columns of a stream: what happened to a row, and in which version, if that is asked for."""
    if not flag(options, "readChanges"):
        return schema
    return schema.add(CHANGE_TYPE, StringType(), False).add(COMMIT_VERSION, LongType(), False)


def make_stream_reader(schema: StructType, options: Mapping[str, str]) -> LanceStreamReader:
    """Check a stream against its table."""
    chosen = read_options(options)
    stream = stream_options(options)
    snapshot = chosen.place.open()
    if stream.read_changes and not snapshot.manifest.has_stable_row_ids:
        raise InvalidInput(
            f"{snapshot.uri} has no stable row ids, so that nobody knows which rows changed; write it anew with "
            "enableStableRowIds=true, or read appended rows only"
        )
    stored = StructType([field for field in schema if field.name not in (CHANGE_TYPE, COMMIT_VERSION)])
    own = table_columns(snapshot, chosen)
    check_requested(stored, own)
    job = read_job(snapshot, chosen, stored)
    return LanceStreamReader(
        job, stream, schema, chosen.split_bytes or SPLIT_BYTES, replace(chosen.place, uri=snapshot.uri, version=None)
    )


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of a table's rows."""

    def __init__(
        self, job: ReadJob, options: StreamOptions, schema: StructType, split_bytes: int, place: TableRef
    ) -> None:
        self._job = job
        self._options = options
        self._schema = schema
        self._split_bytes = split_bytes
        self._place = place
        self._until: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        options = self._options
        if options.from_now:
            return _offset(self._place.open().version)
        return _offset(_BEGINNING if options.starting_version is None else options.starting_version - 1)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_versions is not None:
            return ReadMaxFiles(self._options.max_versions)
        return ReadAllAvailable()

    @in_a_sentence
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        newest = self._place.open()
        last = newest.version if self._until is None else min(self._until, newest.version)
        first = int(start["version"])
        if last <= first:
            return start
        if isinstance(limit, ReadAllAvailable) or self._is_whole(first):
            return _offset(last)
        return _offset(self._admitted(newest, first, last, limit))

    def _admitted(self, newest: Snapshot, first: int, last: int, limit: ReadLimit) -> int:
        """The last version of the next batch, which has at least one."""
        if self._options.max_versions is not None:
            last = min(last, first + self._options.max_versions)
        if not isinstance(limit, ReadMaxRows):
            return last
        rows = 0
        for version in range(first + 1, last + 1):
            rows += rows_added(step_to(newest, version))
            if rows > limit.max_rows:
                return max(version - 1, first + 1)
        return last

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._until = self._place.open().version

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return _offset(self._place.open().version)

    def _is_whole(self, first: int) -> bool:
        """Whether a batch begins with the whole table."""
        return first == _BEGINNING and self._options.starting_version is None

    @in_a_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = int(start["version"]), int(end["version"])
        if last <= first:
            return []
        newest = replace(self._place, version=last).open()
        if self._is_whole(first):
            return [InputPartition(task) for task in snapshot_splits(self._job, newest, self._split_bytes)]
        tasks: list[StreamSplit] = []
        for version in range(first + 1, last + 1):
            step = step_to(newest, version)
            if self._options.read_changes:
                tasks.extend(changed(self._job, step, self._split_bytes))
            else:
                tasks.extend(appended(self._job, step, self._split_bytes, skips=self._options.skip_changes))
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        task: StreamSplit = partition.value
        batches = read_stream_split(self._job, task)
        if self._options.read_changes:
            batches = (_marked(batch, task) for batch in batches)
        with a_task():
            yield from conformed_batches(batches, arrow_schema(self._schema))


def _offset(version: int) -> dict[str, Any]:
    return {"version": version}


def _marked(batch: pa.RecordBatch, task: StreamSplit) -> pa.RecordBatch:
    """A batch with what happened to its rows."""
    change = pa.repeat(pa.scalar(task.change), batch.num_rows)
    version = pa.repeat(pa.scalar(task.version, pa.int64()), batch.num_rows)
    return batch.append_column(CHANGE_TYPE, change).append_column(COMMIT_VERSION, version)

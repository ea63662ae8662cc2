"""The data source ``lance`` of Spark: what Spark asks for, handed on to plans and writers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from lancelet.errors import InvalidInput, NotSupported, TableNotFound
from lancelet.execution.plan import plan_outputs
from lancelet.execution.table_reader import TableReader
from lancelet.format.system_columns import SCORE, SYSTEM_FIELDS
from lancelet.spark import bridge
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.blob_columns import wanted_columns, with_parts
from lancelet.spark.fragment_ids import is_wanted, scanned_columns, with_fragment_ids
from lancelet.spark.names import distinguishes_case, find_name
from lancelet.spark.option_names import in_our_words
from lancelet.spark.options import WHOLE_FRAGMENTS, ReadOptions, TableRef, check_new, count, flag, read_options
from lancelet.spark.requested import check_requested, own_names
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.types import arrow_schema, spark_schema
from lancelet.spark.versions import check_spark
from lancelet.spark.wishes import Wishes
from lancelet.spark.workers import a_task, settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import DataType

    from lancelet.expressions.expr import Expr
    from lancelet.format.schema import Field, Schema
    from lancelet.spark.plan import ReadJob
    from lancelet.table.manifest.snapshot import Snapshot

BRIDGE_FIELD = "lance.snapshot"


class LanceDataSource(DataSource):
    """Tables in the Lance format.

    Read with ``spark.read.format("lance").load(path)``, write with ``df.write.format("lance").mode("append").save(path)``.
    The options are described in ``docs/spark.md``.
    """

    @classmethod
    def name(cls) -> str:
        return "lance"

    def _given(self, *, writes: bool = False) -> dict[str, str]:
        check_spark()
        return in_our_words(self.options, writes=writes)

    @in_a_sentence
    def schema(self) -> StructType:
        """The columns of the table; from here on the read stays with this version."""
        settle()
        given = self._given()
        asked = given.get(bridge.ASKED)
        text = given.get(bridge.REQUESTED)
        requested = None if text is None else StructType.fromJson(json.loads(text))
        if asked == bridge.CREATE and requested is not None:
            check_new(given)
            return requested.add(_bridge_field({}))
        chosen = read_options(given)
        if asked == bridge.ESTIMATE:
            return StructType([_bridge_field(_estimated(given, chosen))])
        try:
            snapshot = chosen.place.open()
        except TableNotFound:
            if asked == bridge.NAMED_SCHEMA and requested is not None:
                # Spark's catalog has the name, and nobody has written yet.
                return requested.add(_bridge_field({}))
            raise
        self._pinned = TableRef(snapshot.uri, chosen.place.storage_options, snapshot.version)
        found = table_columns(snapshot, chosen)
        if "readchanges" in given:
            from lancelet.spark.stream.read import with_changes

            found = with_changes(found, given)
        if requested is not None:
            try:
                check_requested(requested, found, case_sensitive=distinguishes_case(given))
            except InvalidInput:
                if asked == bridge.NAMED_SCHEMA:
                    # The name can still be altered or dropped; who reads gets the error.
                    return requested.add(_bridge_field({}))
                raise
        return found if asked is None else found.add(_bridge_field(_facts(snapshot, chosen)))

    @in_a_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        settle()
        given = self._given()
        chosen = read_options(given)
        pinned = getattr(self, "_pinned", None)
        place = _told_place(given, chosen) or pinned or chosen.place
        snapshot = place.open()
        changes = given.get(bridge.CHANGES)
        if changes is not None:
            from lancelet.spark.change_feed import Changes, ChangesReader

            return ChangesReader(snapshot, chosen, schema, Changes.read(changes))
        if pinned is None and bridge.VERSION not in given:
            check_requested(schema, table_columns(snapshot, chosen))
        wishes = Wishes.of(given)
        if chosen.mem_wal is not None:
            from lancelet.spark.memwal.read import LevelsReader

            job = wishes.added(snapshot, read_job(snapshot, chosen, schema))
            return LevelsReader(snapshot, chosen, schema, job, wishes.limit, wishes.parallelism)
        return LanceReader(snapshot, chosen, schema, wishes, whole_fragments=flag(given, WHOLE_FRAGMENTS))

    @in_a_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        given = self._given(writes=True)
        if bridge.ROWS in given:
            from lancelet.spark.sql.row_changes import make_rows_writer

            return make_rows_writer(given)
        if "writepath" in given:
            from lancelet.spark.memwal.upsert import LanceUpsertWriter, plan_upsert

            return LanceUpsertWriter(plan_upsert(schema, given, overwrite=overwrite))
        from lancelet.spark.writer import make_writer

        return make_writer(schema, given, overwrite=overwrite)

    @in_a_sentence
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from lancelet.spark.stream.read import make_stream_reader

        if bridge.CHANGES in self._given():
            raise NotSupported(
                "changes are streamed by spark.readStream.option('readChanges', True).table(name), not by STREAM ... CHANGES"
            )
        return make_stream_reader(schema, self._given())

    @in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        given = self._given(writes=True)
        if "writepath" in given:
            from lancelet.spark.memwal.upsert import LanceUpsertStreamWriter, plan_upsert

            return LanceUpsertStreamWriter(plan_upsert(schema, given, overwrite=overwrite))
        from lancelet.spark.stream.write import make_stream_writer

        return make_stream_writer(schema, given, overwrite=overwrite)


class LanceReader(DataSourceReader):
    """One read of one version. It is sent to the tasks, so it holds a job and no table.

    It takes no filters by itself: Spark (4.3) keeps the plan of a Python source for as long as the data frame lives, so
    that after ``df.filter(...).count()`` the answer to ``df.count()`` would be that of the filter. The bridge makes a
    new plan for every scan.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: ReadOptions,
        schema: StructType,
        wishes: Wishes | None = None,
        *,
        whole_fragments: bool = False,
    ) -> None:
        self._wishes = wishes or Wishes()
        self._spark = schema
        self._options = options
        self._whole_fragments = whole_fragments
        self._with_fragments = is_wanted(schema, snapshot.manifest.schema.names)
        scanned = scanned_columns(schema) if self._with_fragments else schema
        blobs = wanted_columns(schema, snapshot.manifest.schema)
        if blobs:
            made = {blob.name for blob in blobs}
            scanned = StructType([field for field in scanned if field.name not in made])
        self._job = replace(self._wishes.added(snapshot, read_job(snapshot, options, scanned)), blobs=blobs)

    @property
    def job(self) -> ReadJob:
        """What the tasks have in common."""
        return self._job

    @in_a_sentence
    def partitions(self) -> Sequence[InputPartition]:
        from lancelet.spark.plan import plan_splits

        snapshot, wishes = self._job.open().snapshot, self._wishes
        known = wishes.known(snapshot)
        splits = plan_splits(
            snapshot,
            replace(self._job, conditions=(*self._job.conditions, *known)),
            split_bytes=self._options.split_bytes,
            limit=wishes.limit if wishes.is_exact else self._options.limit,
            offset=wishes.offset or 0,
            parallelism=wishes.parallelism,
            whole_fragments=self._whole_fragments,
        )
        if wishes.limit is not None and not wishes.is_exact:
            # Spark takes the first rows of all tasks together; no task needs to give more than all of them.
            most = wishes.limit
            splits = [replace(s, limit=most if s.limit is None else min(most, s.limit)) for s in splits]
        return [InputPartition(replace(split, conditions=known)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lancelet.spark.plan import read_split

        if partition.value is None:
            return
        with a_task():
            batches = read_split(self._job, partition.value)
            if self._job.blobs:
                batches = with_parts(batches, self._job.blobs)
            if self._with_fragments:
                batches = with_fragment_ids(batches, self._spark)
            yield from conformed_batches(batches, arrow_schema(self._spark))


def table_columns(snapshot: Snapshot, options: ReadOptions) -> StructType:
    """The Spark schema of what a read gives."""
    from lancelet.spark.plan import ReadJob

    schema = snapshot.manifest.schema
    outputs = plan_outputs(
        schema,
        None if options.columns is None else list(options.columns),
        with_row_id=options.row_id,
        with_row_address=options.row_address,
    )
    names = tuple(name for name, _ in outputs)
    job = ReadJob(snapshot.uri, snapshot.version, columns=names, blobs_as_binary=options.blobs_as_binary)
    system = {name: None for name in SYSTEM_FIELDS if name not in schema.names}
    return spark_schema(job.scan_plan(snapshot).storage_schema, system)


def read_job(
    snapshot: Snapshot, options: ReadOptions, requested: StructType, conditions: tuple[Expr, ...] = ()
) -> ReadJob:
    """What the options of a read, in one go or as a stream, mean to all of its tasks."""
    from lancelet.spark.plan import ReadJob

    schema = snapshot.manifest.schema
    return ReadJob(
        snapshot.uri,
        snapshot.version,
        options.place.storage_options,
        columns=own_names(requested, (*schema.names, *SYSTEM_FIELDS, SCORE)),
        leaves=_struct_leaves(requested, schema),
        filter=options.filter,
        conditions=conditions,
        batch_size=options.batch_size,
        blobs_as_binary=options.blobs_as_binary,
    )


def _struct_leaves(spark: StructType, schema: Schema) -> tuple[tuple[str, ...], ...]:
    """The fields inside of struct columns that are asked for, as far as fewer are than there are."""
    leaves: list[tuple[str, ...]] = []
    for column in spark:
        name = find_name(column.name, schema.names)
        if name is not None:
            stored = schema.field_by_path((name,))
            inner = list(_leaves(column.dataType, stored, (name,)))
            if len(inner) < sum(1 for _ in _leaves(None, stored, ())):
                leaves.extend(inner)
    return tuple(leaves)


def _leaves(spark: DataType | None, stored: Field, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Paths to what is not a struct; ``spark`` says which of them, None means all."""
    if stored.logical_type != "struct" or stored.is_blob or stored.is_blob_v2 or not stored.children:
        yield path
        return
    wanted = {field.name: field.dataType for field in spark} if isinstance(spark, StructType) else None
    for child in stored.children:
        if wanted is None:
            yield from _leaves(None, child, (*path, child.name))
        elif child.name in wanted:
            yield from _leaves(wanted[child.name], child, (*path, child.name))


def _bridge_field(facts: dict[str, Any]) -> StructField:
    """What the bridge wants to know, as a field that it takes off again."""
    return StructField(BRIDGE_FIELD, LongType(), True, facts)


def _told_place(given: Mapping[str, str], chosen: ReadOptions) -> TableRef | None:
    """The version that was planned with, where the bridge tells it."""
    version = count(given, bridge.VERSION)
    return None if version is None else TableRef(given[bridge.URI], chosen.place.storage_options, version)


def _estimated(given: Mapping[str, str], chosen: ReadOptions) -> dict[str, Any]:
    from lancelet.spark.estimates import estimate

    snapshot = (_told_place(given, chosen) or chosen.place).open()
    job = Wishes.of(given).added(snapshot, read_job(snapshot, chosen, StructType([])))
    return estimate(snapshot, job, given.get(bridge.AGGREGATES))


def _facts(snapshot: Snapshot, options: ReadOptions) -> dict[str, Any]:
    fragments = snapshot.manifest.fragments
    counts = fragments.row_counts
    known = bool((counts >= 0).all()) and options.gives_all_rows
    rows = int(counts.sum()) if known else -1
    indexed = json.dumps(TableReader(snapshot).indices.columns())
    values = (snapshot.uri, snapshot.version, rows, fragments.file_bytes, indexed, options.takes_conditions)
    return dict(zip(bridge.FACTS, values, strict=True))

"""The data source ``lance`` of Spark: what Spark asks for, handed on to plans and writers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from lancelet.errors import InvalidInput, NotSupported, TableNotFound
from lancelet.execution.plan import plan_outputs
from lancelet.format.system_columns import SYSTEM_FIELDS
from lancelet.spark import bridge
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.fragment_ids import is_wanted, scanned_columns, with_fragment_ids
from lancelet.spark.names import distinguishes_case, find_name
from lancelet.spark.option_names import in_our_words
from lancelet.spark.options import WHOLE_FRAGMENTS, ReadOptions, TableRef, check_new, count, flag, read_options
from lancelet.spark.requested import check_requested, own_names
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.types import arrow_schema, spark_schema
from lancelet.spark.versions import check_spark
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
        version = count(given, bridge.VERSION)
        pinned = getattr(self, "_pinned", None)
        if version is not None:
            place = TableRef(given[bridge.URI], chosen.place.storage_options, version)
        else:
            place = pinned or chosen.place
        snapshot = place.open()
        changes = given.get(bridge.CHANGES)
        if changes is not None:
            from lancelet.spark.change_feed import Changes, ChangesReader

            return ChangesReader(snapshot, chosen, schema, Changes.read(changes))
        if pinned is None and version is None:
            check_requested(schema, table_columns(snapshot, chosen))
        if chosen.mem_wal is not None:
            from lancelet.spark.memwal.read import LevelsReader

            conditions = pushed_conditions(given.get(bridge.PREDICATES), snapshot)
            job = read_job(snapshot, chosen, schema, conditions)
            parallelism = count(given, bridge.PARALLELISM) or 1
            return LevelsReader(snapshot, chosen, schema, job, count(given, bridge.LIMIT), parallelism)
        return LanceReader(
            snapshot,
            chosen,
            schema,
            given.get(bridge.PREDICATES),
            count(given, bridge.LIMIT),
            count(given, bridge.PARALLELISM) or 1,
            whole_fragments=flag(given, WHOLE_FRAGMENTS),
        )

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
        predicates: str | None = None,
        most: int | None = None,
        parallelism: int = 1,
        *,
        whole_fragments: bool = False,
    ) -> None:
        conditions = pushed_conditions(predicates, snapshot)
        self._spark = schema
        self._options = options
        self._most = most
        self._parallelism = parallelism
        self._whole_fragments = whole_fragments
        self._with_fragments = is_wanted(schema, snapshot.manifest.schema.names)
        scanned = scanned_columns(schema) if self._with_fragments else schema
        self._job = read_job(snapshot, options, scanned, conditions)

    @property
    def job(self) -> ReadJob:
        """What the tasks have in common."""
        return self._job

    @in_a_sentence
    def partitions(self) -> Sequence[InputPartition]:
        from lancelet.spark.plan import plan_splits

        snapshot = self._job.open().snapshot
        splits = plan_splits(
            snapshot,
            self._job,
            split_bytes=self._options.split_bytes,
            limit=self._options.limit,
            parallelism=self._parallelism,
            whole_fragments=self._whole_fragments,
        )
        if self._most is not None:
            # Spark takes the first rows of all tasks together; no task needs to give more than all of them.
            most = self._most
            splits = [replace(s, limit=most if s.limit is None else min(most, s.limit)) for s in splits]
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from lancelet.spark.plan import read_split

        if partition.value is None:
            return
        with a_task():
            batches = read_split(self._job, partition.value)
            if self._with_fragments:
                batches = with_fragment_ids(batches, self._spark)
            yield from conformed_batches(batches, arrow_schema(self._spark))


def pushed_conditions(predicates: str | None, snapshot: Snapshot) -> tuple[Expr, ...]:
    """What Spark asks for besides the options."""
    if predicates is None:
        return ()
    from lancelet.spark.predicates import from_json

    return (from_json(predicates, snapshot.manifest.schema),)


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
        columns=own_names(requested, (*schema.names, *SYSTEM_FIELDS)),
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


def _facts(snapshot: Snapshot, options: ReadOptions) -> dict[str, Any]:
    fragments = snapshot.manifest.fragments
    counts = fragments.row_counts
    known = bool((counts >= 0).all()) and options.gives_all_rows
    total = sum(file.size or 0 for fragment in fragments for file in fragment.files)
    rows = int(counts.sum()) if known else -1
    values = (snapshot.uri, snapshot.version, rows, total, options.takes_conditions)
    return dict(zip(bridge.FACTS, values, strict=True))

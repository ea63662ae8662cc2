"""The data source ``lance`` of Spark: what Spark asks for, handed on to plans and writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from lancelet.errors import LanceletError
from lancelet.query.plan import SYSTEM_FIELDS
from lancelet.spark.options import WHOLE_FRAGMENTS, Place, ReadOptions, count, flag, read_options
from lancelet.spark.workers import a_task, settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import DataType

    from lancelet.format.schema import Field, Schema
    from lancelet.query.expr import Expr
    from lancelet.spark.plan import ReadJob
    from lancelet.table.snapshot import Snapshot

T = TypeVar("T")
P = ParamSpec("P")
BRIDGE_FIELD = "lance.snapshot"


def _in_a_sentence(method: Callable[P, T]) -> Callable[P, T]:
    """Users see what was wrong, not the way by which we found out."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except LanceletError as error:
            raise error.with_traceback(None) from None

    return called


class LanceDataSource(DataSource):
    """Tables in the Lance format.

    Read with ``spark.read.format("lance").load(path)``, write with ``df.write.format("lance").mode("append").save(path)``.
    The options are described in ``docs/spark.md``.
    """

    @classmethod
    def name(cls) -> str:
        return "lance"

    def _given(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.options.items()}

    @_in_a_sentence
    def schema(self) -> StructType:
        """The columns of the table; from here on the read stays with this version."""
        settle()
        given = self._given()
        chosen = read_options(given)
        snapshot = chosen.place.open()
        self._pinned = Place(snapshot.uri, chosen.place.storage_options, snapshot.version)
        found = table_columns(snapshot, chosen)
        if "readchanges" in given:
            from lancelet.spark.stream.read import with_changes

            found = with_changes(found, given)
        return found.add(_bridge_field(snapshot, chosen)) if given.get("lance.bridge") == "schema" else found

    @_in_a_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        settle()
        given = self._given()
        chosen = read_options(given)
        version = count(given, "lance.version")
        pinned = getattr(self, "_pinned", None)
        if version is not None:
            place = Place(given["lance.uri"], chosen.place.storage_options, version)
        else:
            place = pinned or chosen.place
        snapshot = place.open()
        return LanceReader(
            snapshot,
            chosen,
            schema,
            given.get("lance.predicates"),
            count(given, "lance.limit"),
            count(given, "lance.parallelism") or 1,
            whole_fragments=flag(given, WHOLE_FRAGMENTS),
        )

    @_in_a_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lancelet.spark.writer import make_writer

        return make_writer(schema, self._given(), overwrite=overwrite)

    @_in_a_sentence
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from lancelet.spark.stream.read import make_stream_reader

        return make_stream_reader(schema, self._given())

    @_in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from lancelet.spark.stream.write import make_stream_writer

        return make_stream_writer(schema, self._given(), overwrite=overwrite)


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
        from lancelet.spark.plan import ReadJob

        conditions: tuple[Expr, ...] = ()
        if predicates is not None:
            from lancelet.spark.predicates import from_json

            conditions = (from_json(predicates, snapshot.manifest.schema),)
        self._spark = schema
        self._options = options
        self._most = most
        self._parallelism = parallelism
        self._whole_fragments = whole_fragments
        self._job = ReadJob(
            snapshot.uri,
            snapshot.version,
            options.place.storage_options,
            tuple(schema.names),
            struct_leaves(schema, snapshot.manifest.schema),
            options.filter,
            conditions,
            options.batch_size,
            options.blobs_as_binary,
        )

    @property
    def job(self) -> ReadJob:
        """What the tasks have in common."""
        return self._job

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
        from lancelet.spark.arrays import conformed_batches
        from lancelet.spark.plan import read_split
        from lancelet.spark.types import arrow_schema

        if partition.value is None:
            return
        with a_task():
            yield from conformed_batches(read_split(self._job, partition.value), arrow_schema(self._spark))


def table_columns(snapshot: Snapshot, options: ReadOptions) -> StructType:
    """The Spark schema of what a read gives."""
    from lancelet.query.plan import plan_outputs
    from lancelet.spark.plan import ReadJob
    from lancelet.spark.types import spark_schema

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


def struct_leaves(spark: StructType, schema: Schema) -> tuple[tuple[str, ...], ...]:
    """The fields inside of struct columns that are asked for, as far as fewer are than there are."""
    leaves: list[tuple[str, ...]] = []
    for column in spark:
        if column.name in schema.names:
            stored = schema.field_by_path((column.name,))
            inner = list(_leaves(column.dataType, stored, (column.name,)))
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


def _bridge_field(snapshot: Snapshot, options: ReadOptions) -> StructField:
    """What the bridge wants to know, as a field that it takes off again."""
    fragments = snapshot.manifest.fragments
    counts = fragments.row_counts
    known = bool((counts >= 0).all()) and options.filter is None and options.limit is None
    total = sum(file.size or 0 for fragment in fragments for file in fragment.files)
    facts = {
        "uri": snapshot.uri,
        "version": snapshot.version,
        "rows": int(counts.sum()) if known else -1,
        "bytes": total,
        "pushes": options.limit is None,
    }
    return StructField(BRIDGE_FIELD, LongType(), True, facts)

"""Indices built by a Spark job, and committed once.

Kinds that are built by ranges (BTREE) are sorted by Spark: each task gets a range of the values and writes its pages,
the driver writes the lookup. Columns whose order Spark does not share, and the other kinds, are built in
parts over some fragments each, which the driver puts together. For kinds that learn (vectors), the driver draws a sample and learns
from it first, so that all parts are of one model; parts that are not worth merging (graphs, very many codes) become
segments of the index as they are. Extending a graph by new rows is one task.
"""

from __future__ import annotations

import math
import uuid as uuids
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from lancelet._api.vector_indexing import vector_options
from lancelet.editing.retry import retried
from lancelet.errors import StorageError
from lancelet.execution.table_reader import TableReader
from lancelet.format.proto import table_pb2
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.index.folder import SegmentWriter
from lancelet.index.kind import ROW, VALUE, BuiltByRange, Kind, NewRows, Source
from lancelet.index.metadata import index_from_proto, read_indices
from lancelet.index.registry import kind_named
from lancelet.index.segments import (
    NewSegment,
    Whereabouts,
    entry_of,
    index_file_version,
    open_segment,
    write_segment,
)
from lancelet.indexing.create import build_segment, name_index
from lancelet.indexing.optimize import optimize_indices
from lancelet.indexing.rows import columns_of_fields, find_columns, read_rows
from lancelet.runtime.threads import core_count
from lancelet.spark.plan import split_fragments
from lancelet.spark.table.edit import pin_version
from lancelet.spark.table.jobs import run_over, run_tasks
from lancelet.spark.table.values import table_frame
from lancelet.table.commit import operations as ops
from lancelet.table.commit.patience import SPARK_SECONDS
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.names import INDICES_DIR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancelet.expressions.expr import Column
    from lancelet.index.metadata import IndexMetadata
    from lancelet.spark.options import TableRef
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

_PART_ROWS = 2_000_000
_PART_BYTES = 256 << 20
_HEAVY_BYTES = 64 << 20
"""In files, of a part of a kind whose builds are heavy."""
_MOST_PARTS = 32
_ATTEMPTS = 1 << 32
_STEM_BYTES = 8
_SORTED_ALIKE = (
    pa.types.is_signed_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_date32,
)


def create_index(
    spark: SparkSession,
    place: TableRef,
    column: str,
    kind_name: str,
    name: str | None,
    replaces: bool,
    options: Mapping[str, Any],
    *,
    can_sort: bool = True,
) -> None:
    """Build an index over all rows; again on the newest version when fragments were rewritten meanwhile.

    Without ``can_sort``, the session only runs tasks.
    """
    kind = kind_named(kind_name)
    told = kind.options_of(kind_name, vector_options(kind_name, options) if kind.has_metric else options)

    def attempt(table: TableReader) -> Snapshot:
        indexed = find_columns(table, column, in_lists=kind.takes_items)
        (found,), (field,), over = indexed.columns, indexed.fields, indexed.arrow_field
        kind.check(over, told)
        chosen, replaced = name_index(table, column, kind, name, replaces, told)
        everywhere = frozenset(table.snapshot.manifest.fragments.ids.tolist())
        new = NewSegment(chosen, (field.id,), kind, everywhere, kind.options_on(over, told))
        with WrittenFiles(table.snapshot.store) as files:
            if can_sort and isinstance(kind, BuiltByRange) and _sorts_alike(found.type):
                entries = [_sorted(spark, table, place, found, new, kind, files)]
            else:
                entries = _joined(spark, table, place, column, found, new, files)
            segments = tuple(ops.IndexSegment.of(entry) for entry in entries)
            return commit(table.snapshot, ops.CreateIndex(segments, replaced), files=files)

    retried(TableReader(place.open()), attempt, None, SPARK_SECONDS)


def extend_indices(
    spark: SparkSession, place: TableRef, merged: int | None, names: Sequence[str] | None, retrain: bool
) -> None:
    """Extend indices by the rows that they do not cover; executors read and sort them."""
    optimize_indices(
        TableReader(place.open()), merged=merged, names=names, retrain=retrain, workers=_Executors(spark, place)
    )


@dataclass(frozen=True, slots=True)
class _Executors:
    """Write segments as tasks."""

    spark: SparkSession
    place: TableRef

    def parts(
        self, table: TableReader, columns: Sequence[str], new: NewSegment, files: WrittenFiles
    ) -> list[table_pb2.IndexMetadata]:
        options = _learned(table, columns, new)
        if options is None:
            return []
        return _parts(self.spark, table, self.place, columns, replace(new, options=options), files)

    def merge(
        self,
        table: TableReader,
        new: NewSegment,
        old: Sequence[IndexMetadata],
        fragments: frozenset[int],
        files: WrittenFiles,
    ) -> table_pb2.IndexMetadata:
        stem = uuids.uuid4().bytes[:_STEM_BYTES]
        here = pin_version(table.snapshot, self.place)
        task = _Merge(here, new, tuple(entry.uuid for entry in old), fragments, stem)
        (made,) = _written(self.spark, table.snapshot, [task], stem, files)
        return made


def _sorts_alike(dtype: pa.DataType) -> bool:
    """Whether Spark holds values of a type as they are, and in the order of an index; it has but one NaN."""
    return any(holds(dtype) for holds in _SORTED_ALIKE)


def _sorted(
    spark: SparkSession,
    table: TableReader,
    place: TableRef,
    column: Column,
    new: NewSegment,
    kind: BuiltByRange[Any],
    files: WrittenFiles,
) -> table_pb2.IndexMetadata:
    snapshot = table.snapshot
    here = pin_version(snapshot, place)
    stable = snapshot.manifest.has_stable_row_ids
    part = _RangePart(kind, here, uuids.uuid4(), index_file_version(snapshot), stable, column.type)
    top = column.path[0]
    value = F.col("`" + "`.`".join(name.replace("`", "``") for name in column.path) + "`")
    count = max(math.ceil(table.num_rows / _PART_ROWS), 1)
    rows = table_frame(spark, here, snapshot.manifest.schema, columns=top).select(
        value.alias(VALUE), F.col(ROW_ADDRESS).alias(ROW)
    )
    ranges = rows.repartitionByRange(count, VALUE)

    folder = f"{INDICES_DIR}/{part.uuid}"

    def note(made: Any) -> None:
        for name in kind.files_of_range(made):
            files.add(f"{folder}/{name}")

    ready: list[Any] = []
    try:
        ready = run_over(ranges, part.write, note)
    finally:
        # Attempts whose results Spark did not take left files too.
        _sweep(snapshot.store, folder, {f"{folder}/{name}" for made in ready for name in kind.files_of_range(made)})
    out = part.writer(snapshot.store, files)
    built = kind.finish_ranges(ready, column.type, out)
    return entry_of(snapshot, new, part.uuid, built, out.written)


@dataclass(frozen=True, slots=True)
class _RangePart:
    """Writes one range of an index's values, on an executor."""

    kind: BuiltByRange[Any]
    place: TableRef
    uuid: UUID
    file_version: str
    stable_row_ids: bool
    dtype: pa.DataType

    def writer(self, store: Store, files: WrittenFiles) -> SegmentWriter:
        return SegmentWriter(store, self.uuid, self.file_version, files, self.stable_row_ids)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """The rows of a partition; an attempt has a file of its own, so that a twin does not write into it."""
        context = TaskContext.get()
        assert context is not None
        store = self.place.open().store
        with WrittenFiles(store) as files:
            out = self.writer(store, files)
            number, attempt = context.partitionId(), context.taskAttemptId() % _ATTEMPTS
            return self.kind.write_range(self._typed(batches), self.dtype, out, number, attempt)

    def _typed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [batch.column(0).cast(self.dtype), batch.column(1).cast(pa.uint64())]
            yield pa.RecordBatch.from_arrays(arrays, names=[VALUE, ROW])


def _joined(
    spark: SparkSession,
    table: TableReader,
    place: TableRef,
    column: str,
    found: Column,
    new: NewSegment,
    files: WrittenFiles,
) -> list[table_pb2.IndexMetadata]:
    """One segment out of parts over some fragments each, or where merging them does not pay, the parts."""
    options = _learned(table, column, new)
    if options is None:
        return [write_segment(table.snapshot, new, (), NewRows(found.type), files)]
    new = replace(new, options=options)
    if table.num_rows and not new.kind.is_worth_merging(table.num_rows, options):
        return _parts(spark, table, place, column, new, files)
    with WrittenFiles(table.snapshot.store) as passing:
        parts = _parts(spark, table, place, column, new, passing)
        entries = [index_from_proto(part, table.snapshot.manifest.path) for part in parts]
        sources = [Source(open_segment(table.snapshot, entry, found.type)) for entry in entries]
        entry = write_segment(table.snapshot, new, sources, NewRows(found.type), files)
        passing.remove()
        return [entry]


def _learned(table: TableReader, column: str | Sequence[str], new: NewSegment) -> Mapping[str, Any] | None:
    """Options of a new segment with what its rows teach; None: they are too few."""
    if not new.kind.learns:
        return new.options
    rows = read_rows(table, find_columns(table, column), new.kind, new.coverage)
    return new.kind.learned(rows, new.options)


@dataclass(frozen=True, slots=True)
class _Merge:
    """Writes a segment out of older ones and the rows of some fragments, on an executor: a graph of all is work enough for one."""

    place: TableRef
    new: NewSegment
    old: tuple[UUID, ...]
    fragments: frozenset[int]
    stem: bytes

    def build(self) -> bytes:
        table = TableReader(self.place.open())
        where = Whereabouts(table.snapshot, lambda: table.row_id_index, table.physical_rows)
        indexed = columns_of_fields(table, self.new.fields)
        known = {entry.uuid: entry for entry in read_indices(table.snapshot.manifest)}
        sources = [where.source(known[uuid], indexed.type) for uuid in self.old]
        rows = read_rows(table, indexed, self.new.kind, self.fragments)
        new = replace(self.new, uuid=_drawn(self.stem))
        with WrittenFiles(table.snapshot.store) as files:
            return write_segment(table.snapshot, new, sources, rows, files).SerializeToString()


@dataclass(frozen=True, slots=True)
class _FragmentPart:
    """Builds a segment over some fragments, on an executor."""

    place: TableRef
    column: str | Sequence[str]
    kind: Kind
    """The object itself: workers need not have the module that registered it, only the class."""
    name: str
    options: Mapping[str, Any]
    stem: bytes
    fragments: tuple[int, ...]
    tasks: int
    """How many of them there are: neighbours share the cores of a machine."""

    def build(self) -> bytes:
        table = TableReader(self.place.open())
        told = {"num_workers": max(1, core_count() // self.tasks)} if self.kind.is_heavy else {}
        with WrittenFiles(table.snapshot.store) as files:
            entry = build_segment(
                table,
                self.column,
                self.kind,
                self.name,
                self.fragments,
                files,
                options={**told, **self.options},
                uuid=str(_drawn(self.stem)),
            )
        return entry.SerializeToString()


def _drawn(stem: bytes) -> UUID:
    """Of an attempt, which begins as all those of a job do."""
    return UUID(bytes=(stem + uuids.uuid4().bytes)[:16])


def _build(task: _FragmentPart | _Merge) -> bytes:
    return task.build()


def _parts(
    spark: SparkSession,
    table: TableReader,
    place: TableRef,
    column: str | Sequence[str],
    new: NewSegment,
    files: WrittenFiles,
) -> list[table_pb2.IndexMetadata]:
    """Segments over the fragments of a new one, written by tasks; nothing refers to them."""
    snapshot = table.snapshot
    here = pin_version(snapshot, place)
    stem = uuids.uuid4().bytes[:_STEM_BYTES]
    groups = _divided(table, column, new)
    tasks = [
        _FragmentPart(here, column, new.kind, new.name, dict(new.options), stem, group, len(groups)) for group in groups
    ]
    return _written(spark, snapshot, tasks, stem, files)


def _written(
    spark: SparkSession,
    snapshot: Snapshot,
    tasks: Sequence[_FragmentPart | _Merge],
    stem: bytes,
    files: WrittenFiles,
) -> list[table_pb2.IndexMetadata]:
    """What tasks write; nothing is left of attempts whose results Spark did not take."""
    made: list[table_pb2.IndexMetadata] = []

    def note(data: bytes) -> None:
        made.append(table_pb2.IndexMetadata.FromString(data))
        for path in _paths(made[-1]):
            files.add(path)

    try:
        run_tasks(spark, _build, tasks, note)
    finally:
        kept = {path for entry in made for path in _paths(entry)}
        begin = str(UUID(bytes=stem + bytes(16 - _STEM_BYTES)))[: 2 * _STEM_BYTES + 1]
        _sweep(snapshot.store, f"{INDICES_DIR}/{begin}", kept)
    return made


def _paths(entry: table_pb2.IndexMetadata) -> list[str]:
    """The files of a segment."""
    return [f"{INDICES_DIR}/{UUID(bytes=entry.uuid.uuid)}/{file.path}" for file in entry.files]


def _part_rows(table: TableReader, column: str | Sequence[str], kind: Kind) -> int:
    """How many rows a part has; rows to learn from are wide, and take long."""
    if not kind.learns:
        return _PART_ROWS
    return max(1, min(_PART_ROWS, _PART_BYTES // find_columns(table, column).width))


def _divided(table: TableReader, column: str | Sequence[str], new: NewSegment) -> list[tuple[int, ...]]:
    """Fragments of a new segment, as tasks get them."""
    if not new.kind.is_heavy:
        return _groups(table, new.coverage, _part_rows(table, column, new.kind))
    manifest = table.snapshot.manifest
    nodes = [node for top in manifest.schema.fields for node in top.walk() if node.id in new.fields]
    wanted = frozenset(part.id for node in nodes for part in node.walk())
    fragments = [fragment for fragment in manifest.fragments if fragment.id in new.coverage]
    splits = split_fragments(table, fragments, wanted, _HEAVY_BYTES, whole_fragments=True)
    step = max(1, -(-len(splits) // _MOST_PARTS))
    return [
        tuple(number for split in splits[start : start + step] for number, _, _ in split.pieces)
        for start in range(0, len(splits), step)
    ]


def _groups(table: TableReader, wanted: frozenset[int], most: int) -> list[tuple[int, ...]]:
    """Neighbouring fragments with about as many rows as a part has."""
    groups: list[list[int]] = []
    rows = most
    for number, count in zip(table.snapshot.manifest.fragments.ids.tolist(), table.row_counts.tolist(), strict=True):
        if number not in wanted:
            continue
        if rows + count > most:
            groups.append([])
            rows = 0
        groups[-1].append(number)
        rows += count
    return [tuple(group) for group in groups]


def _sweep(store: Store, begin: str, kept: set[str]) -> None:
    """Remove what attempts left behind that nobody uses, as far as the store lets us."""
    with suppress(StorageError):
        for entry in list(store.list_objects(INDICES_DIR)):
            if entry.path.startswith(begin) and entry.path not in kept:
                store.delete(entry.path)

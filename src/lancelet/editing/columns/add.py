"""Adding columns: one new file for each fragment, the old files as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.editing.columns.beside_mem_wal import refuse_computed
from lancelet.editing.columns.commit import commit_columns, fill_fragment
from lancelet.editing.columns.fill import with_file
from lancelet.editing.columns.new_fields import Growth, grown, with_null_columns
from lancelet.editing.columns.sources import ColumnSource, Computed, Expressions, Streamed, column_source
from lancelet.errors import RetryableCommitConflict
from lancelet.execution.table_reader import TableReader
from lancelet.format.schema import Schema
from lancelet.table.commit.operations import Merge
from lancelet.table.commit.patience import BUILD_SECONDS, Patience
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Addition:
    """New columns from a source."""

    source: ColumnSource

    @property
    def repeatable(self) -> bool:
        return self.source.repeatable

    def growth(self, table: TableReader) -> Growth:
        return grown(table.snapshot.manifest, self.source.schema(table))

    def covers_deleted(self, table: TableReader) -> bool:
        return self.source.covers_deleted(table)

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        return self.source.batches(table, reader)

    def check_end(self) -> None:
        if isinstance(self.source, Streamed):
            self.source.check_end()


def add_columns(
    table: TableReader,
    transforms: object,
    read_columns: Sequence[str] | None = None,
    reader_schema: pa.Schema | None = None,
    batch_size: int | None = None,
) -> Snapshot:
    """Commit new columns; see :meth:`lancelet.LanceDataset.add_columns` for the arguments."""
    fields = _fields(transforms)
    if fields is not None:
        return _add_null_columns(table.snapshot, lambda _: fields)
    source = column_source(transforms, read_columns, reader_schema, batch_size)
    if isinstance(source, Expressions) and source.all_null(table):
        return _add_null_columns(table.snapshot, lambda snapshot: source.schema(TableReader(snapshot, table.cache)))
    refuse_computed(table.snapshot)
    checkpoint = source.checkpoint if isinstance(source, Computed) else None
    done = commit_columns(table, Addition(source), checkpoint)
    if checkpoint is not None:
        checkpoint.cleanup()
    return done


def new_names(transforms: object) -> tuple[str, ...]:
    """The names of columns that are to be added, where what is given tells them without reading."""
    fields = _fields(transforms)
    if fields is not None:
        return tuple(fields.names)
    return tuple(map(str, transforms)) if isinstance(transforms, Mapping) else ()


def add_to_fragment(table: TableReader, position: int, source: ColumnSource) -> tuple[Fragment, Schema]:
    """A fragment with new columns, and the schema for a Merge of all fragments. Nothing is committed."""
    work, reader = Addition(source), table.reader(position)
    growth = work.growth(table)
    with WrittenFiles(table.snapshot.store) as files:
        filled = fill_fragment(table, reader, work, growth, files)
        work.check_end()
    return with_file(reader.fragment, reader.physical_rows, filled.file, growth.schema), growth.schema


def _fields(transforms: object) -> pa.Schema | None:
    """Columns without values, when that is what was given."""
    if isinstance(transforms, pa.Schema):
        return transforms
    fields = [transforms] if isinstance(transforms, pa.Field) else transforms
    if isinstance(fields, list) and fields and isinstance(fields[0], pa.Field):
        return pa.schema(fields)
    return None


def _add_null_columns(snapshot: Snapshot, columns: Callable[[Snapshot], pa.Schema]) -> Snapshot:
    """Commit columns that no file has, so that they read as null."""
    patience = Patience(BUILD_SECONDS)
    while True:
        manifest = snapshot.manifest
        schema = with_null_columns(manifest, columns(snapshot))
        operation = Merge(tuple(manifest.fragments), schema, preserves_nullability=True)
        try:
            return commit(snapshot, operation)
        except RetryableCommitConflict:
            if patience.is_over:
                raise
            snapshot = snapshot.latest()

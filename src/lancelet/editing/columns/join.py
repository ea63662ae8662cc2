"""Columns from other rows, found by a key: new ones for a table, new values for those of a fragment.

The other rows are held (in a temporary file when they are many), their keys are
in an index, and the table's key is looked up batch by batch. Of rows with the same
key the last counts. Unlike in a merge of rows, a null key finds a null key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.columns.add import Addition, add_to_fragment
from lancelet.editing.columns.beside_mem_wal import refuse_computed
from lancelet.editing.columns.commit import commit_columns
from lancelet.editing.columns.fill import spread_over_deleted, with_file, write_columns
from lancelet.editing.merge.keys import KeyIndex, plain
from lancelet.editing.merge.source import MergeSource, joined_batches
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.errors import InvalidChange, InvalidType, NotSupported, UnfitData, UnknownColumn
from lancelet.execution.plan import ScanPlan, column_of
from lancelet.execution.scan import Scan
from lancelet.execution.shown import BlobForm, scan_field
from lancelet.format.extensions import storage_of, storage_type
from lancelet.format.file_versions import writable_version
from lancelet.format.schema import Field, Schema
from lancelet.format.system_columns import SYSTEM_FIELDS
from lancelet.runtime.threads import outside
from lancelet.table.commit.deletion_write import bitmap_bytes
from lancelet.table.commit.written import WrittenFiles

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.execution.table_reader import TableReader
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

_SCAN_ROWS = 1 << 15
_NOT_FOUND = -1


def merge_columns(
    table: TableReader, data: object, left_on: str, right_on: str | None, schema: pa.Schema | None
) -> Snapshot:
    """Commit the columns of other rows; see :meth:`lancelet.LanceDataset.merge`."""
    refuse_computed(table.snapshot)
    with MergeSource(data, schema) as held:
        return commit_columns(table, Addition(_joined(table, held, left_on, right_on)))


def merge_into_fragment(
    table: TableReader, position: int, data: object, left_on: str, right_on: str | None, schema: pa.Schema | None
) -> tuple[Fragment, Schema]:
    """A fragment with the columns of other rows, and the new schema. Nothing is committed."""
    with MergeSource(data, schema) as held:
        return add_to_fragment(table, position, _joined(table, held, left_on, right_on))


def update_fragment_columns(
    table: TableReader, position: int, data: object, left_on: str, right_on: str | None, schema: pa.Schema | None
) -> tuple[Fragment, tuple[int, ...], bytes]:
    """A fragment with new values in some columns, their field ids, and a bitmap of the rows that have them."""
    with MergeSource(data, schema) as held:
        keys = _keys(table, held, left_on, right_on)
        names = [name for name in held.schema.names if name != keys.right]
        fields = [_updated_field(table.snapshot.manifest.schema, held.schema.field(name)) for name in names]
        if not fields:
            raise UnfitData("the other rows have no column but the key; there is nothing to update")
        reader = table.reader(position)
        _check_overlays(reader.fragment, fields)
        matched: list[npt.NDArray[np.uint32]] = []
        snapshot = table.snapshot
        with WrittenFiles(snapshot.store) as files:
            version = writable_version(snapshot.manifest.data_storage_version)
            columns = Schema(tuple(fields))
            batches = _replaced_batches(table, reader, fields, held, keys, matched)
            file = write_columns(reader, columns, version, spread_over_deleted(reader, columns, batches), files)
        assert file is not None, "there are columns"
        updated = with_file(reader.fragment, reader.physical_rows, file, snapshot.manifest.schema)
        rows = np.concatenate([np.empty(0, np.uint32), *matched])
        return updated, file.fields, bitmap_bytes(rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """The keys of the other rows."""

    left: str
    right: str
    index: KeyIndex
    null: int
    """The last row whose key is null."""

    def find(self, column: pa.Array) -> npt.NDArray[np.int64]:
        """For each row the other row with its key, or -1."""
        keys = plain(column)
        found = np.full(len(keys), _NOT_FOUND, np.int64)
        here, there = self.index.match([keys])
        np.maximum.at(found, here, there)
        if self.null != _NOT_FOUND and keys.null_count:
            found[numpy_array(keys.is_null())] = self.null
        return found


def _keys(table: TableReader, held: MergeSource, left_on: object, right_on: object) -> _Keys:
    right = left_on if right_on is None else right_on
    if not isinstance(left_on, str) or not isinstance(right, str):
        raise InvalidType(f"a key is named by a text, not by {left_on!r} and {right!r}")
    schema = table.snapshot.manifest.schema
    try:
        kind = column_of(schema, left_on).type
    except UnknownColumn as error:
        raise InvalidChange(f"Column {left_on} does not exist in the left side dataset: {error}") from None
    if right not in held.schema.names:
        raise InvalidChange(
            f"Column {right} does not exist in the right side dataset, which has {', '.join(held.schema.names)}"
        )
    if held.num_rows == 0:
        raise InvalidChange("the other rows are none; there is nothing to join")
    keys = held.column(right)
    wanted = plain(pa.array([], kind)).type
    if keys.type != wanted:
        raise InvalidChange(
            f"the key '{left_on}' is {wanted} in the table, but '{right}' is {keys.type}; cast one of them"
        )
    null = int(np.flatnonzero(numpy_array(keys.is_null()))[-1]) if keys.null_count else _NOT_FOUND
    return _Keys(left_on, right, outside(KeyIndex, [keys]), null)


@dataclass(frozen=True, slots=True, eq=False)
class _Joined:
    """Columns of other rows, in the order of the table's."""

    held: MergeSource
    keys: _Keys
    repeatable: bool = True

    def schema(self, table: TableReader) -> pa.Schema:
        given = self.held.schema
        return pa.schema([field for field in given if field.name != self.keys.right], metadata=given.metadata)

    def covers_deleted(self, table: TableReader) -> bool:
        return False

    def batches(self, table: TableReader, reader: FragmentReader) -> Iterator[pa.RecordBatch]:
        names = self.schema(table).names
        schema = table.snapshot.manifest.schema
        plan = ScanPlan(
            schema,
            ((self.keys.left, column_of(schema, self.keys.left)),),
            fragment_ids=(reader.fragment.id,),
            batch_size=_SCAN_ROWS,
        )
        for batch in Scan(table, plan).batches():
            found = self.keys.find(batch.column(0))
            missing = found == _NOT_FOUND
            matched = self.held.take(found[~missing], names)
            places = np.cumsum(~missing) - 1
            yield pick_rows(matched, pa.array(places, mask=missing))


def _joined(table: TableReader, held: MergeSource, left_on: str, right_on: str | None) -> _Joined:
    keys = _keys(table, held, left_on, right_on)
    known = table.snapshot.manifest.schema.names
    both = [name for name in held.schema.names if name != keys.right and name in known]
    if both:
        raise InvalidChange(f"Column {both[0]} exists in both sides of the dataset; rename it, or leave it out")
    if len(held.schema.names) == 1:
        raise InvalidChange("the other rows have no column but the key; there is nothing to add")
    return _Joined(held, keys)


def _updated_field(schema: Schema, given: pa.Field) -> Field:
    """The field of the table that a column of the other rows is for."""
    if given.name in SYSTEM_FIELDS or given.name not in schema.names:
        raise InvalidChange(f"Column {given.name} in right side fragment does not exist in left side fragment")
    field = schema.field_by_path((given.name,))
    if field.is_blob or field.is_blob_v2:
        raise InvalidChange(f"column {given.name} holds blobs, which cannot be replaced in place; update the rows")
    dtype = storage_type(given.type)
    if dtype != scan_field(field, BlobForm.LOGICAL).type:
        raise UnfitData(
            f"column {given.name} is {field.arrow_type} in the table, {given.type} in the data; cast it first"
        )
    return field


def _check_overlays(fragment: Fragment, fields: list[Field]) -> None:
    """Overlays would lie over the new values."""
    changed = {node.id for field in fields for node in field.walk()}
    if any(changed.intersection(overlay.file.fields) for overlay in fragment.overlays):
        raise NotSupported(f"fragment {fragment.id} has overlays of these columns; compact the table first")


def _replaced_batches(
    table: TableReader,
    reader: FragmentReader,
    fields: list[Field],
    held: MergeSource,
    keys: _Keys,
    matched: list[npt.NDArray[np.uint32]],
) -> Iterator[pa.RecordBatch]:
    """Live rows of a fragment with the other rows' values where their keys match; notes which rows those are."""
    schema = table.snapshot.manifest.schema
    names = [field.name for field in fields]
    key = f"key of {' '.join(names)}"
    outputs = ((key, column_of(schema, keys.left)), *((name, column_of(schema, name)) for name in names))
    done = 0
    for batch in Scan(table, ScanPlan(schema, outputs, fragment_ids=(reader.fragment.id,))).batches():
        found = keys.find(batch.column(0))
        rows = np.flatnonzero(found != _NOT_FOUND)
        matched.append(reader.physical(rows + done).astype(np.uint32))
        done += batch.num_rows
        given = held.take(found[rows], names)
        arrays = [_replaced(batch.column(name), rows, given.column(name)) for name in names]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _replaced(old: pa.Array, rows: npt.NDArray[np.int64], new: pa.Array) -> pa.Array:
    """A column with new values in some rows."""
    old = storage_of(old)
    if not len(rows):
        return old
    parts = [pa.RecordBatch.from_arrays([array], names=["x"]) for array in (old, new.cast(old.type))]
    order = np.arange(len(old))
    order[rows] = len(old) + np.arange(len(new))
    return pick_rows(joined_batches(parts).column(0), arrow_array(order))

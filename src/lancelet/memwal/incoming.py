"""Rows as callers give them, in the columns of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.jsonb import decode_jsonb, encode_jsonb
from lancelet.encoding.picking import drop_nulls, keep_rows, pick_rows
from lancelet.encoding.plain import arrow_array
from lancelet.errors import CorruptFile, NotSupported, UnfitData, UnknownColumn
from lancelet.execution.blobs import has_blobs
from lancelet.format.extensions import storage_of
from lancelet.format.file_versions import LEGACY, V2_0
from lancelet.format.json_fields import STORED_JSON
from lancelet.format.logical_types import EXTENSION_NAME
from lancelet.memwal.primary_key import PrimaryKey, refuse_mark
from lancelet.memwal.run_files import write_run
from lancelet.memwal.sharding import TRANSFORMS, scalar_bytes, shard_values
from lancelet.store.memory import MemoryStore
from lancelet.writing.fit import fitted_schema
from lancelet.writing.source import open_source

if TYPE_CHECKING:
    from lancelet.format.schema import Field, Schema
    from lancelet.memwal.details import MemWalDetails
    from lancelet.table.manifest.snapshot import Snapshot

JSONB: Final = pa.large_binary()
"""The type of JSON as it is stored."""


def check_columns(base: Snapshot) -> None:
    """Refuse tables whose rows cannot go through a log."""
    refuse_mark(base.manifest.schema, base.uri)
    for field in base.manifest.schema.fields:
        if any(has_blobs(node) for node in field.walk()) or _has_hidden_json(field):
            raise NotSupported(
                f"column '{field.name}' of {base.uri} holds blobs, or JSON in lists or maps, which a MemWAL does not take yet; write "
                "such rows with write_dataset or merge_insert"
            )


def _has_hidden_json(field: Field) -> bool:
    """Whether JSON is in it other than as a field of structs."""
    if field.logical_type == "struct":
        return any(_has_hidden_json(child) for child in field.children)
    return any(node.is_json for child in field.children for node in child.walk())


def rows_to_put(base: Snapshot, target: pa.Schema, data: Any, schema: pa.Schema | None) -> list[pa.RecordBatch]:
    """Rows to be written. Columns are found by name; those that can be null may be missing."""
    source = open_source(data, schema)
    manifest = base.manifest
    version = manifest.data_storage_version
    fitted_schema(manifest.schema, source.schema, version, version, base.uri, "rename or cast the columns")
    key = PrimaryKey.of(manifest.schema)
    batches = [_fit(batch, key, target, tombstone=False) for batch in source.batches if batch.num_rows]
    _try_run(base, batches)
    return batches


def rows_to_delete(
    base: Snapshot, key: PrimaryKey, target: pa.Schema, data: Any, schema: pa.Schema | None
) -> list[pa.RecordBatch]:
    """Deletions: keys, with nulls in the other columns. Other columns of what is given do not matter."""
    key.require("delete")
    for field in base.manifest.schema.fields:
        if not field.nullable and field.name not in key.names:
            raise UnfitData(
                f"rows of {base.uri} cannot be deleted through its MemWAL, which writes null into the columns of a deletion, "
                f"and column '{field.name}' cannot be null; use delete() of the dataset"
            )
    source = open_source(data, schema)
    for name in key.names:
        if name not in source.schema.names:
            raise UnknownColumn(name, source.schema.names, "the keys of rows to delete")
    names = list(key.names)
    batches = [_fit(batch.select(names), key, target, tombstone=True) for batch in source.batches if batch.num_rows]
    try:
        _try_run(base, batches)
    except UnfitData as error:
        raise UnfitData(
            f"rows of {base.uri} cannot be deleted through its MemWAL, which writes null into the columns of a deletion: {error}; use "
            "delete() of the dataset"
        ) from error
    return batches


def changes(
    base: Snapshot, key: PrimaryKey, target: pa.Schema, batch: pa.RecordBatch, gone: npt.NDArray[np.bool_]
) -> list[pa.RecordBatch]:
    """Rows to be written and deletions as they come together, in their order; ``gone`` says which are deletions."""
    if not gone.any():
        return rows_to_put(base, target, batch, None)
    puts = rows_to_put(base, target, keep_rows(batch, arrow_array(~gone)), None)
    deletions = rows_to_delete(base, key, target, keep_rows(batch, arrow_array(gone)), None)
    order = np.argsort(np.concatenate([np.flatnonzero(~gone), np.flatnonzero(gone)]), kind="stable")
    whole = pick_rows(pa.Table.from_batches([*puts, *deletions], target), arrow_array(order)).combine_chunks()
    batches: list[pa.RecordBatch] = whole.to_batches()
    return batches


def _try_run(base: Snapshot, batches: Sequence[pa.RecordBatch]) -> None:
    """Refuse nulls that files of the table's version have no place for: the rows would be in the log, and no run could be written."""
    manifest = base.manifest
    may_refuse = manifest.data_storage_version in (LEGACY, V2_0) or any(
        node.is_packed for node in manifest.schema.walk()
    )
    if batches and may_refuse:
        write_run(MemoryStore(f"memory://memwal-{uuid4().hex}").private(), base, batches, 1, ())


def check_place(
    details: MemWalDetails, schema: Schema, field_values: Sequence[tuple[str, bytes]], batches: Iterable[pa.RecordBatch]
) -> None:
    """Refuse rows that do not belong to a shard, where it says which ones do."""
    spec = details.specs[-1] if details.specs else None
    if spec is None or len(spec.fields) != 1:
        return
    (one,) = spec.fields
    known = dict(field_values).get(one.field_id)
    if known is None or one.transform not in TRANSFORMS:
        # Of what nobody can compute, whoever names a shard knows it.
        return
    for batch in batches:
        for value in shard_values(batch, details.specs, schema).unique():
            if scalar_bytes(value) != known:
                raise UnfitData(
                    f"rows of which {one.field_id} is {value} do not belong to this shard, whose rows all have another: let the "
                    "table tell the shards of rows (writer() without shard_id)"
                )


def _fit(batch: pa.RecordBatch, key: PrimaryKey, target: pa.Schema, *, tombstone: bool) -> pa.RecordBatch:
    columns = []
    for field in list(target)[:-1]:
        is_key = field.name in key.names
        if is_key and (field.name not in batch.schema.names or batch.column(field.name).null_count):
            raise UnfitData(
                f"column '{field.name}' is part of the primary key, by which rows of a MemWAL are told apart, and is null in some "
                "rows: give them keys"
            )
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = _with_stored_json(storage_of(batch.column(field.name)), field)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                raise UnfitData(f"column '{field.name}' is {column.type}, not {field.type}: {error}") from error
        try:
            column.validate(full=True)
        except pa.ArrowException as error:
            raise UnfitData(f"column '{field.name}' is damaged: {error}") from error
        _check_nulls(column, field, field.name)
        columns.append(column)
    columns.append(arrow_array(np.full(batch.num_rows, tombstone)))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _with_stored_json(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column whose JSON is as files and logs have it; given as texts, or as that already."""
    column = storage_of(column)
    if (field.metadata or {}).get(EXTENSION_NAME.encode()) == STORED_JSON.encode():
        if column.type != JSONB:
            return encode_jsonb(column.cast(pa.large_string()))
        try:
            decode_jsonb(column, field.name)
        except CorruptFile as error:
            raise UnfitData(f"column '{field.name}' is not JSON as it is stored: {error}") from error
        return column
    if not pa.types.is_struct(column.type) or not pa.types.is_struct(field.type):
        return column
    children, fields = [], []
    for place, given in enumerate(column.type):
        at = field.type.get_field_index(given.name)
        child = column.field(place)
        children.append(child if at < 0 else _with_stored_json(child, field.type.field(at)))
        fields.append(pa.field(given.name, children[-1].type, given.nullable))
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())


def _check_nulls(column: pa.Array, field: pa.Field, path: str) -> None:
    """Raise where something is null that cannot be; what is below a null does not count."""
    if column.null_count and not field.nullable:
        raise UnfitData(f"column '{path}' has nulls, and cannot be null")
    dtype = column.type
    if pa.types.is_struct(dtype):
        present = drop_nulls(column)
        children = [(dtype.field(at), present.field(at)) for at in range(dtype.num_fields)]
    elif pa.types.is_map(dtype):
        children = [(dtype.item_field, drop_nulls(column).items)]
    elif pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype):
        children = [(dtype.value_field, column.flatten())]
    else:
        return
    for child, values in children:
        _check_nulls(values, child, f"{path}.{child.name}")


def total_bytes(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)

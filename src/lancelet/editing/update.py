"""Updating rows: read those that match with their new values, write them anew, mark the old ones as deleted.

All expressions see the row as it was: ``{"a": "b", "b": "a"}`` swaps two columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pyarrow as pa

from lancelet.editing.moved import (
    Addresses,
    Change,
    RowWriter,
    lineage_of,
    reader_of,
    rows_moved,
    write_version,
)
from lancelet.editing.retry import retried
from lancelet.encoding.plain import numpy_array
from lancelet.errors import FilterSyntaxError, InvalidInput, InvalidType, NotSupported, UnknownColumn
from lancelet.execution.blobs import has_blobs
from lancelet.execution.carried_blobs import blob_pieces
from lancelet.execution.plan import ScanPlan, plan_filter
from lancelet.execution.scan import Scan
from lancelet.execution.shown import scan_field
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column, Expr, Literal, columns_of, type_of
from lancelet.format.schema import Field, Schema, split_path
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.runtime import compute as pc
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.flags import check_writable
from lancelet.table.rows.addresses import fragment_of

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


class UpdateResult(TypedDict):
    """What an update did."""

    num_rows_updated: int


def update_rows(
    table: TableReader,
    updates: Mapping[str, str],
    where: object = None,
    *,
    retries: int,
    timeout: float,
    version: str | None = None,
) -> tuple[Snapshot, int]:
    """Commit new values for the rows that match; returns the new version and their number.

    Parameters
    ----------
    updates
        SQL expressions by column.
    where
        SQL text or a pyarrow expression; all rows by default.
    retries, timeout
        How often and how long to find the rows again when others changed them in between.
    version
        File version of the new rows; that of the table by default.
    """

    def attempt(table: TableReader) -> tuple[Snapshot, int]:
        snapshot = table.snapshot
        check_writable(snapshot.manifest.path, snapshot.manifest.head.writer_feature_flags)
        plan = plan_update(snapshot.manifest.schema, updates, where)
        with WrittenFiles(snapshot.store) as files:
            change, count = _rewritten(table, plan, RowWriter.of(snapshot, files, version), updates)
            return commit(snapshot, change.operation, affected_rows=change.affected_rows, files=files), count

    write_version(table.snapshot.manifest, version)
    return retried(table, attempt, retries, timeout)


def plan_update(schema: Schema, updates: Mapping[str, str], where: object) -> ScanPlan:
    """A scan of the new rows: every column, or the expression that replaces it, then the address."""
    condition = plan_filter(schema, where)
    if condition is None and where is not None:
        raise FilterSyntaxError(str(where), None, "the condition is empty; leave it out to update all rows")
    values = _values(schema, updates)
    outputs = [
        (field.name, values[field.name] if field.name in values else Column((field.name,), scan_field(field).type))
        for field in schema.fields
    ]
    outputs.append((ROW_ADDRESS, Column((ROW_ADDRESS,), pa.uint64())))
    return ScanPlan(schema, tuple(outputs), condition)


def _values(schema: Schema, updates: Mapping[str, str]) -> dict[str, Expr]:
    """The new value of each column, in the column's type."""
    from lancelet.expressions.build import call, cast
    from lancelet.expressions.sql import parse_expression

    if not isinstance(updates, Mapping):
        raise InvalidType(f"updates is a dict of columns and SQL expressions, not {type(updates)}")
    if not updates:
        raise InvalidInput("there are no updates; name at least one column and its new value")
    # Expressions see the columns of the table, not where a row is.
    visible = pa.schema([scan_field(field) for field in schema.fields])
    found: dict[str, Expr] = {}
    for name, text in updates.items():
        field = _updated_field(schema, name)
        if isinstance(text, pc.Expression) or not isinstance(text, str):
            raise InvalidType(f"the new value of '{name}' is an SQL expression as text, not {type(text)}")
        expr = parse_expression(text, visible)
        for path in columns_of(expr):
            if path[0] not in schema.names:
                raise UnknownColumn(path[0], schema.names)
        target = scan_field(field).type
        if field.is_json and pa.types.is_large_binary(type_of(expr)):
            # JSON as the functions of JSON have it.
            expr = call("json_extract", [expr, Literal("$", pa.string())])
        try:
            found[name] = cast(expr, target)
        except InvalidInput as error:
            raise InvalidInput(f"column '{name}' cannot have the value {text}: {error}") from None
    return found


def _updated_field(schema: Schema, name: object) -> Field:
    if not isinstance(name, str):
        raise InvalidType(f"a column is named by a text, not by {name!r}")
    for field in schema.fields:
        if field.name == name:
            if has_blobs(field):
                raise NotSupported(f"'{name}' holds blobs, which expressions cannot make; merge the new rows instead")
            return field
    if len(split_path(name)) > 1 and split_path(name)[0] in schema.names:
        raise InvalidInput(
            f"'{name}' is a field of a struct, and an update gives new values to whole columns; merge_insert() can change "
            "single fields"
        )
    raise UnknownColumn(name, schema.names)


def _rewritten(table: TableReader, plan: ScanPlan, writer: RowWriter, updates: Mapping[str, str]) -> tuple[Change, int]:
    schema = plan.schema
    found: list[Addresses] = []
    fragments = writer.write(_new_rows(table, plan, found))
    addresses = np.concatenate(found) if found else np.empty(0, np.uint64)
    fragments = writer.trace(fragments, lineage_of(table, addresses))
    fields = [node.id for field in schema.fields if field.name in updates for node in field.walk()]
    return rows_moved(table.snapshot, addresses, fragments, writer.files, fields=fields), len(addresses)


def _new_rows(table: TableReader, plan: ScanPlan, found: list[Addresses]) -> Iterator[pa.RecordBatch]:
    """The rows to write, with their blobs; their old addresses go to ``found``."""
    blobs = any(has_blobs(field) for field in plan.schema.fields)
    for batch in Scan(table, plan).batches():
        last = batch.num_columns - 1
        addresses = numpy_array(batch.column(last)).copy()
        found.append(addresses)
        rows = batch.remove_column(last)
        if not blobs:
            yield rows
            continue
        # All rows of a batch are of one fragment.
        reader = reader_of(table, fragment_of(int(addresses[0])))
        for piece in blob_pieces(reader, plan.schema, pa.Table.from_batches([rows])):
            yield from piece.to_batches()

"""The rows that an index is built from: one column, with the rows' addresses or ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.execution.fragment_reader import ROW_ADDRESS, ROW_ID
from lancelet.execution.plan import ScanPlan, column_of
from lancelet.execution.scan import Scan
from lancelet.execution.shown import scan_field
from lancelet.expressions.expr import Column
from lancelet.index.kind import ROW, VALUE, NewRows

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field
    from lancelet.index.kind import Kind

_BATCH_ROWS = 1 << 16


def find_column(table: TableReader, column: str) -> tuple[Column, Field]:
    """A column by its name or nested path; as in pylance, in any case when no name fits exactly."""
    schema = table.snapshot.manifest.schema
    found = column_of(schema, column, any_case=True)
    if found.path[0] not in schema.names:
        raise UnknownColumn(column, schema.names)
    return found, schema.field_by_path(found.path)


def column_of_field(table: TableReader, field_id: int) -> Column:
    """The column with a field id."""

    def below(fields: Iterable[Field], path: tuple[str, ...]) -> Iterator[Column]:
        for field in fields:
            if field.id == field_id:
                yield Column((*path, field.name), scan_field(field).type)
            yield from below(field.children, (*path, field.name))

    found = next(below(table.snapshot.manifest.schema.fields, ()), None)
    if found is None:
        raise InvalidInput(f"there is no field {field_id} in version {table.snapshot.version}")
    return found


def read_rows(
    table: TableReader,
    column: Column,
    kind: Kind,
    fragments: Iterable[int],
    seen: Callable[[int], object] | None = None,
) -> NewRows:
    """The live rows of some fragments, by ascending address; ``seen`` hears how many have been read."""
    manifest = table.snapshot.manifest
    name = ROW_ID if manifest.has_stable_row_ids and not kind.by_address else ROW_ADDRESS
    outputs = ((VALUE, column), (ROW, Column((name,), pa.uint64())))
    plan = ScanPlan(manifest.schema, outputs, batch_size=_BATCH_ROWS, fragment_ids=tuple(sorted(fragments)))

    def batches() -> Iterator[pa.RecordBatch]:
        if not plan.fragment_ids:
            return
        done = 0
        for batch in Scan(table, plan).batches():
            yield pa.RecordBatch.from_arrays([_stored(array) for array in batch.columns], names=[VALUE, ROW])
            done += batch.num_rows
            if seen is not None:
                seen(done)

    return NewRows(column.type, batches())


def _stored(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array

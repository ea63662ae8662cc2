"""New fields for the structs in lists: every list must be as long as the one that the table has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lancelet.errors import InvalidChange
from lancelet.execution.plan import ScanPlan, plan_outputs
from lancelet.execution.scan import Scan
from lancelet.format.schema import Field, Schema
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.execution.table_reader import TableReader


def with_checked_lists(
    table: TableReader, reader: FragmentReader, added: Schema, batches: Iterable[pa.RecordBatch]
) -> Iterable[pa.RecordBatch]:
    """The batches, compared with the lists in the table on their way; others pass untouched."""
    known = table.snapshot.manifest.schema
    names = [field.name for field in added.fields if field.name in known.names and _has_list(field)]
    return _compared(table, reader, names, batches) if names else batches


def _has_list(field: Field) -> bool:
    return field.logical_type.startswith(("list", "large_list")) or any(_has_list(child) for child in field.children)


def _compared(
    table: TableReader, reader: FragmentReader, names: list[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    schema = table.snapshot.manifest.schema
    plan = ScanPlan(schema, plan_outputs(schema, names), fragment_ids=(reader.fragment.id,))
    stored = Scan(table, plan).batches()
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        while sum(part.num_rows for part in waiting) < batch.num_rows:
            more = next(stored, None)
            if more is None:
                break
            waiting.append(more)
        together = pa.Table.from_batches(waiting).combine_chunks() if waiting else None
        for name in names:
            if together is not None:
                mine = together.column(name).slice(0, batch.num_rows).combine_chunks()
                mine = mine.combine_chunks() if isinstance(mine, pa.ChunkedArray) else mine
                if len(mine) == batch.num_rows:
                    _compare(name, batch.column(name), mine)
        waiting = [] if together is None else together.slice(batch.num_rows).to_batches()
        yield batch


def _compare(path: str, given: pa.Array, stored: pa.Array) -> None:
    kind = given.type
    if pa.types.is_struct(kind) and pa.types.is_struct(stored.type):
        mine = dict(zip((field.name for field in stored.type), stored.flatten(), strict=True))
        for field, child in zip(kind, given.flatten(), strict=True):
            if field.name in mine:
                _compare(f"{path}.{field.name}", child, mine[field.name])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = [pc.list_value_length(lists).fill_null(0).cast(pa.int64()) for lists in (given, stored)]
        if not lengths[0].equals(lengths[1]):
            raise InvalidChange(
                f"the lists of '{path}' are not as long as those in the table; give every item of a list its new fields"
            )
        _compare(f"{path}.{kind.value_field.name}", given.flatten(), stored.flatten())

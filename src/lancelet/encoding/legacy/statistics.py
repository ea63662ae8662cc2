"""Page statistics of legacy files (spec file-format.md 4.7).

They form a table of their own inside the file: one row for each batch, one struct
for each data field, named by the field's id::

    "4": struct { null_count: int64, min_value: T, max_value: T }

Bounds are null where nothing is known. Text bounds may be cut to 64 bytes: the
minimum is a prefix, the maximum is rounded up, so both remain bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lancelet.encoding.fetch import gather
from lancelet.encoding.legacy.table import PageTable
from lancelet.encoding.rows import RowRange, Step
from lancelet.format.schema import Field

_PARTS = ("null_count", "min_value", "max_value")


@dataclass(frozen=True, slots=True)
class PageStatistics:
    """What is known of one field's pages, one element for each batch."""

    null_count: pa.Array
    """Nulls of the data as it was handed to the writer, also those that the page could not keep."""
    min_value: pa.Array
    max_value: pa.Array


def read_statistics(table: PageTable, fields: tuple[Field, ...]) -> Step:
    """Statistics by field id; whatever is not of the known form is left out."""
    known = {int(field.name): field for field in fields if _is_statistics(field)}
    found = yield from gather(
        [table.read(_all_nullable(field), RowRange(0, int(table.batch_offsets[-1]))) for field in known.values()]
    )
    return {
        field_id: PageStatistics(*(struct.field(part) for part in _PARTS))
        for field_id, struct in zip(known, found, strict=True)
    }


def _is_statistics(field: Field) -> bool:
    return field.name.isdecimal() and field.name.isascii() and tuple(child.name for child in field.children) == _PARTS


def _all_nullable(field: Field) -> Field:
    """Unknown text bounds are stored as empty, also in fields without nulls; an empty bound is no loss."""
    return replace(field, children=tuple(replace(child, nullable=True) for child in field.children))

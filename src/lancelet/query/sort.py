"""Sorting results (ORDER BY)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column to sort by."""

    column: str
    ascending: bool = True
    nulls_first: bool = False


def sort_table(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """Rows in order; equal rows stay as they came."""
    columns: dict[str, pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for number, key in enumerate(keys):
        values = table.column(key.column)
        if values.null_count:
            # Nulls go by a key of their own, since Arrow places those of all keys alike.
            columns[f"n{number}"] = pc.is_null(values)
            order.append((f"n{number}", "descending" if key.nulls_first else "ascending"))
        columns[f"v{number}"] = values
        order.append((f"v{number}", "ascending" if key.ascending else "descending"))
    return table.take(pc.sort_indices(pa.table(columns), sort_keys=order))

"""Sorting results (ORDER BY)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.runtime import compute as pc
from lancelet.runtime.threads import outside

_QUICK = 100_000
"""So many rows are sorted in less time than an interrupt may take to be heard."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column to sort by."""

    column: str
    ascending: bool = True
    nulls_first: bool = False


def sort_table(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """Rows in order; equal rows stay as they came."""
    return outside(_sorted, table, keys) if table.num_rows > _QUICK else _sorted(table, keys)


def _sorted(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    columns: dict[str, pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for number, key in enumerate(keys):
        values = table.column(key.column)
        if values.null_count:
            # Nulls go by a key of their own, since Arrow places those of all keys alike.
            columns[f"n{number}"] = pc.is_null(values)
            order.append((f"n{number}", "descending" if key.nulls_first else "ascending"))
        columns[f"v{number}"] = total_order(values)
        order.append((f"v{number}", "ascending" if key.ascending else "descending"))
    return pick_rows(table, pc.sort_indices(pa.table(columns), sort_keys=order))


def total_order(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Integers that sort as floats do: -0.0 before 0.0, NaN after infinity, where Arrow has its own ideas."""
    if not pa.types.is_floating(values.type):
        return values
    signed = {16: (np.int16, pa.int16()), 32: (np.int32, pa.int32()), 64: (np.int64, pa.int64())}
    kind, dtype = signed[values.type.bit_width]
    bits = values.combine_chunks().cast(values.type).view(dtype)
    numbers = np.asarray(bits.fill_null(0)).astype(kind)
    keys = numbers ^ ((numbers >> (values.type.bit_width - 1)) & np.iinfo(kind).max)
    return pa.chunked_array([pa.array(keys, mask=np.asarray(bits.is_null()) if bits.null_count else None)])

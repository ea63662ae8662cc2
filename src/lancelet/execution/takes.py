"""Single rows of a table at one version: by number, by row id, by chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lancelet.errors import InvalidInput, InvalidType
from lancelet.execution.plan import plan_take
from lancelet.execution.row_numbers import row_numbers
from lancelet.execution.scan import Scan

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.execution.table_reader import TableReader

TakenColumns: TypeAlias = "Sequence[str] | Mapping[str, str] | None"
_MAX_PLANS = 64


class Takes:
    """Takes of one version; plans are remembered, since takes of the same columns are often repeated."""

    __slots__ = ("_plans", "_table")

    def __init__(self, table: TableReader) -> None:
        self._table = table
        self._plans: dict[tuple[str, ...] | None, Scan] = {}

    def __len__(self) -> int:
        """How many plans are remembered."""
        return len(self._plans)

    def plan(self, columns: TakenColumns) -> Scan:
        """The scan for some columns."""
        key = None if columns is None else tuple(columns) if isinstance(columns, list) else ()
        if key != () and (known := self._plans.get(key)) is not None:
            return known
        if columns is not None and (isinstance(columns, str) or not isinstance(columns, (Sequence, Mapping))):
            raise InvalidType(f"columns is a list of names or a dict of names and expressions, not {columns!r}")
        scan = Scan(self._table, plan_take(self._table.snapshot.manifest.schema, columns))
        if key != ():
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = scan
        return scan

    def by_number(self, indices: Any, columns: TakenColumns) -> pa.Table:
        """Rows by number, in the order given."""
        scan = self.plan(columns)
        rows = row_numbers(indices)
        if len(rows) == 0:
            return scan.schema.empty_table()
        return scan.take(*self._table.locate(rows))

    def by_id(self, row_ids: Any, columns: TakenColumns) -> pa.Table:
        """Rows by row id, in the order given; those that are gone are left out."""
        scan = self.plan(columns)
        owners, offsets, live = self._table.locate_ids(row_numbers(row_ids).astype(np.uint64))
        if not live.any():
            return scan.schema.empty_table()
        return scan.take(owners[live], offsets[live])


def draw_rows(total: int, count: int, *, in_order: bool) -> list[int]:
    """Some of so many row numbers by chance, each at most once."""
    if not 0 <= count <= total:
        raise InvalidInput(f"cannot sample {count} of {total} rows")
    rows = random.sample(range(total), count)
    return sorted(rows) if in_order else rows

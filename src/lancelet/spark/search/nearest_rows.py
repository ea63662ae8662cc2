"""``ORDER BY vector_l2_distance(v, array(...)) LIMIT k``: the rows that can be among the first, found by a search.

Spark computes the distances of these rows and sorts them, so that more of them do no harm, but none may be missing that
the order would put first:

- where an index is asked, which finds nearly all of the nearest rows, those that it misses are missing;
- rows without a vector come first where nulls do, and last where too few rows have one;
- where few rows are found, all are compared, and where there are not enough, others follow in any order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lancelet._api.nearest_query import nearest_query
from lancelet.execution.nearest import NearestScan
from lancelet.execution.plan import column_of, visible_schema
from lancelet.execution.scan import Scan
from lancelet.expressions import build
from lancelet.format.schema import join_path
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.spark.chosen_rows import taken_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Schema

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class NearestRows:
    """A search as the bridge tells it."""

    column: tuple[str, ...]
    query: tuple[float, ...]
    k: int
    metric: str
    nulls_first: bool
    use_index: bool = True
    nprobes: int | None = None
    refine_factor: int | None = None

    @classmethod
    def read(cls, text: str) -> NearestRows:
        """From JSON."""
        told: dict[str, Any] = json.loads(text)
        return cls(**{**told, "column": tuple(told["column"]), "query": tuple(told["query"])})

    def search(self, schema: Schema, *, use_index: bool) -> Nearest:
        """The search of a table; rows that a filter leaves out do not count."""
        found = nearest_query(
            schema,
            join_path(self.column),
            np.array(self.query, np.float32),
            k=self.k,
            metric=self.metric,
            nprobes=self.nprobes,
            minimum_nprobes=None,
            maximum_nprobes=None,
            refine_factor=self.refine_factor,
            use_index=use_index,
            ef=None,
            query_parallelism=None,
            approx_mode="normal",
            distance_range=None,
            search_effort=None,
        )
        return replace(found, prefilter=True)

    def rows(self, table: TableReader, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        """What a plan gives of the rows that can come first."""
        found = self._nearest(table, plan, use_index=self.use_index)
        if len(found) < self.k and self.use_index:
            found = self._nearest(table, plan, use_index=False)
        if len(found) < self.k:
            others = np.setdiff1d(_addresses(Scan(table, _only_addresses(plan, self.k + len(found)))), found)
        elif self.nulls_first and self._may_have_nulls(plan):
            others = _addresses(Scan(table, self._without_vectors(plan)))
        else:
            others = np.empty(0, np.uint64)
        return taken_rows(table, plan, np.concatenate([found, others]))

    def _nearest(self, table: TableReader, plan: ScanPlan, *, use_index: bool) -> Addresses:
        search = replace(_only_addresses(plan, None), nearest=self.search(plan.schema, use_index=use_index))
        return _addresses(NearestScan(table, search))

    def _without_vectors(self, plan: ScanPlan) -> ScanPlan:
        column = build.column(visible_schema(plan.schema), list(self.column))
        parts = [part for part in (plan.filter, build.is_null(column)) if part is not None]
        return replace(_only_addresses(plan, self.k), filter=build.all_of(parts))

    def _may_have_nulls(self, plan: ScanPlan) -> bool:
        return any(node.nullable for node in plan.schema.resolve(self.column))


def _only_addresses(plan: ScanPlan, limit: int | None) -> ScanPlan:
    address = ((ROW_ADDRESS, column_of(plan.schema, ROW_ADDRESS)),)
    return replace(plan, outputs=address, blobs_as_binary=frozenset(), limit=limit)


def _addresses(scan: Scan | NearestScan) -> Addresses:
    parts: Sequence[Addresses] = [batch.column(ROW_ADDRESS).to_numpy().astype(np.uint64) for batch in scan.batches()]
    return np.concatenate([np.empty(0, np.uint64), *parts])

"""``ORDER BY vector_l2_distance(v, array(...)) LIMIT k``: the rows that can be among the first, found by a search.

Spark computes the distances of these rows and sorts them, so that more of them do no harm, but none may be missing that
the order would put first:

- where an index is asked, which finds nearly all of the nearest rows, those that it misses are missing;
- rows that are as far as the last one, or so little farther that Spark may see it otherwise, are found with it: what else
  Spark sorts by tells which of them come first;
- rows that have no vector, or one that is not measured (it has no number in it, or very large ones), come first or last by the
  order: nulls where it says so, and what is not a number before all numbers where these go down. A search leaves them out, so
  they are looked for besides; but where an index was asked, only those without a vector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from lancelet._api.nearest_query import nearest_query
from lancelet.execution.costs import DEFAULT_BATCH_SIZE
from lancelet.execution.nearest import NearestScan
from lancelet.execution.nearest_plan import vector_column
from lancelet.execution.plan import column_of, visible_schema
from lancelet.execution.scan import Scan
from lancelet.execution.vectors import Vectors
from lancelet.expressions import build
from lancelet.format.schema import join_path
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.spark.chosen_rows import taken_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.execution.nearest_plan import Nearest, VectorColumn
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Schema

Addresses = npt.NDArray[np.uint64]
_NO_ROWS: Final[Addresses] = np.empty(0, np.uint64)
_ASCENDING: Final = "l2"
"""The metric by which small numbers come first, and what is no number last."""
_COSINE: Final = "cosine"
_SPARE: Final = 16
"""Rows beyond those that are wanted, which tell whether the last one has company."""
_MORE: Final = 4
_ROUNDING: Final = 1e-5
"""So much may one distance differ in two ways to compute it."""
_MUCH: Final = 1e15
"""Squares of larger numbers do not fit into floats, and those of smaller ones than its reciprocal vanish."""
_MISSING, _ODD, _LARGE = 1, 2, 3
"""No vector, or not all of its elements; something in it that is no number; numbers that are too large or too small."""


@dataclass(frozen=True, slots=True)
class NearestRows:
    """A search as the bridge tells it."""

    column: tuple[str, ...]
    query: tuple[float, ...]
    k: int
    metric: str
    nulls_first: bool
    is_never_null: bool
    """Whether all rows have a vector; some of its elements may still be missing, which is no vector to Spark either."""
    more_keys: bool
    """Whether rows of the same distance are sorted by something else."""
    use_index: bool = True
    nprobes: int | None = None
    refine_factor: int | None = None

    @classmethod
    def read(cls, text: str) -> NearestRows:
        """From JSON."""
        told: dict[str, Any] = json.loads(text)
        return cls(**{**told, "column": tuple(told["column"]), "query": tuple(told["query"])})

    def search(self, schema: Schema, count: int, *, use_index: bool) -> Nearest:
        """A search for some rows of a table; those that a filter leaves out do not count."""
        found = nearest_query(
            schema,
            join_path(self.column),
            np.array(self.query, np.float32),
            k=count,
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
        found, scan = self._nearest(table, plan, use_index=self.use_index)
        if scan.index is not None and len(found) >= self.k:
            may_be_first = self.nulls_first and not self.is_never_null and self._may_have_nulls(plan)
            others = _addresses(Scan(table, self._without_vectors(plan))) if may_be_first else _NO_ROWS
        else:
            if scan.index is not None:
                found, scan = self._nearest(table, plan, use_index=False)
            needs_all = len(found) < self.k
            # Rows that the search does not find can come before those that it finds.
            may_be_first = self.metric != _ASCENDING or (self.nulls_first and scan.use.missing > 0)
            others = self._unmeasured(table, plan, needs_all) if needs_all or may_be_first else _NO_ROWS
        return taken_rows(table, plan, np.concatenate([found, np.setdiff1d(others, found)]))

    def _nearest(self, table: TableReader, plan: ScanPlan, *, use_index: bool) -> tuple[Addresses, NearestScan]:
        """The nearest rows with all that are as far as the last one; and the search that found them."""
        count = self.k + _SPARE
        while True:
            search = self.search(plan.schema, count, use_index=use_index)
            scan = NearestScan(table, replace(_only_addresses(plan, None), nearest=search))
            marks = scan.hits.marks
            if len(marks) <= self.k:
                return _addresses(scan), scan
            last = marks[self.k - 1]
            about = max(abs(last), 0 if self.metric == _ASCENDING else 1)
            limit = last + _ROUNDING * about if np.isfinite(last) else last
            if len(marks) < count or marks[-1] > limit:
                return _addresses(scan)[marks <= limit], scan
            count *= _MORE

    def _unmeasured(self, table: TableReader, plan: ScanPlan, all_rows: bool) -> Addresses:
        """Rows whose vectors a search does not compare as Spark does, or all rows; of those that are alike no more than needed."""
        column = vector_column(plan.schema, join_path(self.column))
        address = (ROW_ADDRESS, column_of(plan.schema, ROW_ADDRESS))
        outputs = (address, ("vector", column_of(plan.schema, join_path(self.column))))
        kept = [_NO_ROWS]
        left = dict.fromkeys((_MISSING, _ODD), self.k)
        for batch in Scan(table, replace(_only_addresses(plan, None), outputs=outputs)).batches():
            addresses = batch.column(0).to_numpy().astype(np.uint64)
            kinds = self._kinds(Vectors.of(replace(column, path=("vector",)), batch.column(1)), column)
            for kind in (_MISSING, _ODD):
                some = addresses[kinds == kind]
                kept.append(some if self.more_keys else some[: left[kind]])
                left[kind] -= min(left[kind], len(some))
            kept.append(addresses[kinds != _MISSING] if all_rows else addresses[kinds == _LARGE])
        return np.unique(np.concatenate(kept))

    def _kinds(self, vectors: Vectors, column: VectorColumn) -> npt.NDArray[np.int8]:
        """What is odd about vectors, or nothing."""
        numbers = vectors.data.view(column.dtype).reshape(vectors.rows, column.dimension)
        with np.errstate(invalid="ignore"):
            largest = np.abs(numbers).max(axis=1).astype(np.float64)
        kinds = np.zeros(vectors.rows, np.int8)
        kinds[largest >= _MUCH] = _LARGE
        if self.metric == _COSINE:
            kinds[largest <= 1 / _MUCH] = _LARGE
        kinds[np.isnan(largest)] = _ODD
        if vectors.keep is not None:
            kinds[~vectors.keep] = _MISSING
        return kinds

    def _without_vectors(self, plan: ScanPlan) -> ScanPlan:
        column = build.column(visible_schema(plan.schema), list(self.column))
        parts = [part for part in (plan.filter, build.is_null(column)) if part is not None]
        limit = None if self.more_keys else self.k
        return replace(_only_addresses(plan, limit), filter=build.all_of(parts))

    def _may_have_nulls(self, plan: ScanPlan) -> bool:
        return any(node.nullable for node in plan.schema.resolve(self.column))


def _only_addresses(plan: ScanPlan, limit: int | None) -> ScanPlan:
    address = ((ROW_ADDRESS, column_of(plan.schema, ROW_ADDRESS)),)
    return replace(plan, outputs=address, blobs_as_binary=frozenset(), limit=limit, batch_size=DEFAULT_BATCH_SIZE)


def _addresses(scan: Scan | NearestScan) -> Addresses:
    parts: Sequence[Addresses] = [batch.column(ROW_ADDRESS).to_numpy().astype(np.uint64) for batch in scan.batches()]
    return np.concatenate([_NO_ROWS, *parts])

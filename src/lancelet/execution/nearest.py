"""Searching a table for the rows whose vectors are nearest to a query: every vector compared, or an index asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.execution.exact import ExactSearch
from lancelet.execution.indexed import IndexedSearch
from lancelet.execution.matching import MatchingScan
from lancelet.execution.plan import ScanPlan, exact_plan
from lancelet.execution.ranked_scan import RankedScan
from lancelet.execution.row_mask import RowMask
from lancelet.execution.scan import Scan
from lancelet.index.vector.query import SearchUse
from lancelet.log import debug
from lancelet.runtime.attributes import cached_property

if TYPE_CHECKING:
    from lancelet.execution.matching_plan import Matching
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.ranked_scan import Answer
    from lancelet.execution.table_reader import TableReader
    from lancelet.execution.vector_indices import VectorIndex


class NearestScan(RankedScan):
    """One execution of a plan with a search in it; where ``answers`` were found elsewhere, what comes after the search."""

    def __init__(
        self,
        table: TableReader,
        plan: ScanPlan,
        threads: int | None = None,
        answers: Sequence[Answer] | None = None,
    ) -> None:
        assert plan.nearest is not None, "the plan has a search"
        self.nearest: Nearest = plan.nearest
        super().__init__(table, plan, plan.nearest, threads)
        self.use: SearchUse = SearchUse()
        self._answers = answers

    def _open_reads(self) -> Scan:
        return Scan(self.table, exact_plan(self._searched, self.nearest), self._threads)

    def _find(self) -> Sequence[Answer]:
        nearest = self.nearest
        answers = self._find_nearest()
        if nearest.text is None or nearest.prefilter:
            return answers
        ids = np.concatenate([np.empty(0, np.uint64), *(ids for _, ids in answers)])
        matching = self._matching_ids(replace(self.plan, filter=None, mask=RowMask.of(ids)), nearest.text)
        kept = [np.isin(ids, matching) for _, ids in answers]
        return [(marks[keep], ids[keep]) for (marks, ids), keep in zip(answers, kept, strict=True)]

    @cached_property
    def _searched(self) -> ScanPlan:
        """The plan; where texts have to match before the search, with the rows that do in place of its filter."""
        plan, nearest = self.plan, self.nearest
        if nearest.text is None or not nearest.prefilter:
            return plan
        return replace(plan, filter=None, mask=RowMask.of(self._matching_ids(plan, nearest.text)))

    def _matching_ids(self, plan: ScanPlan, text: Matching) -> npt.NDArray[np.uint64]:
        """Row ids of all rows that a plan reads and whose texts match."""
        asked = replace(text, prefilter=True)
        whole = replace(plan, outputs=(), limit=None, offset=0, order_by=(), blobs_as_binary=frozenset())
        ((_, ids),) = MatchingScan(self.table, replace(whole, nearest=None, matching=asked), self._threads).answers
        return ids

    def _find_nearest(self) -> Sequence[Answer]:
        nearest, table = self.nearest, self.table
        debug(
            "the nearest %s rows of %s are looked for in '%s'", nearest.count, table.snapshot.uri, nearest.column.name
        )
        if self._answers is not None:
            return self._answers
        if self.index is not None:
            return IndexedSearch(table, self._searched, nearest, self.index, lambda: self._reads, self.use).run()
        if self.plan.indexed_only and nearest.use_index:
            return []
        metric = nearest.exact_metric()
        nearest.column.check_metric(metric)
        search = ExactSearch.of(table, nearest, metric, nearest.count)
        return [top.sorted() for top in search.run(self._reads, self.use)]

    @cached_property
    def index(self) -> VectorIndex | None:
        """The index that is asked; None: all vectors are compared."""
        return self.table.vector_indices.choose(self.nearest)

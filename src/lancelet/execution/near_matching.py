"""Searching a table for texts, with a search for vectors as the filter.

::

    prefilter      the nearest rows (of those that the filter lets through) ── texts searched in them ──► by score
    otherwise      the rows whose texts match, the best ones where there is a limit ── the nearest of them ──► by distance
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.execution.matching import MatchingScan
from lancelet.execution.nearest import NearestScan
from lancelet.execution.ranked_scan import NO_ROWS, Answer, Hits
from lancelet.execution.row_mask import RowMask

if TYPE_CHECKING:
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.plan import ScanPlan


class NearMatchingScan(MatchingScan):
    """One execution of a plan with both searches in it."""

    _looks_at_vectors = True
    _distances: npt.NDArray[np.float32] | None = None

    def _find(self) -> Sequence[Answer]:
        near = self.matching.near
        assert near is not None, "the plan has both searches"
        if self.matching.prefilter:
            _, nearest = self._nearest(self.plan, near)
            texts = replace(
                self.plan, filter=None, mask=RowMask.of(nearest), matching=replace(self.matching, near=None)
            )
            return MatchingScan(self.table, texts, self._threads).answers
        ((scores, ids),) = super()._find()
        among = replace(self.plan, filter=None, mask=RowMask.of(ids))
        # Few rows are left: all of them are compared.
        self._distances, nearest = self._nearest(among, replace(near, use_index=False, refine=None))
        order = np.argsort(ids)
        return [(scores[order[np.searchsorted(ids, nearest, sorter=order)]], nearest)]

    def _nearest(self, plan: ScanPlan, near: Nearest) -> Answer:
        """Of the rows that a plan reads."""
        whole = replace(plan, outputs=(), limit=None, offset=0, order_by=(), blobs_as_binary=frozenset(), matching=None)
        found = NearestScan(self.table, replace(whole, nearest=replace(near, prefilter=True)), self._threads).answers
        return next(iter(found), NO_ROWS)

    def _located(self, answers: Sequence[Answer]) -> Hits:
        return replace(super()._located(answers), distances=self._distances)

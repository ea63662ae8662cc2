"""Searching a table for the rows whose texts match a query.

A query of one column is one search (:mod:`lancelet.execution.text_column`). What takes several is put together of their
answers, row by row::

    MultiMatch    the best score of a row
    Boolean       rows of all that must match, or of any that should, less those of what must not; the sum of their scores
    Boosting      rows of the positive query; its score, less a share of the negative one's
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from lancelet.errors import InvalidInput
from lancelet.execution.allowed import AllowedRows, passing_rows
from lancelet.execution.combined_fields import find_combined
from lancelet.execution.indexed import is_repeatable
from lancelet.execution.plan import ScanPlan, allowed_plan
from lancelet.execution.ranked_scan import Answer, Hits, RankedScan
from lancelet.execution.scan import Scan
from lancelet.execution.text_column import ColumnSearch, ItemKeys, best
from lancelet.index.text.query import Boolean, Boosting, CombinedFields, MultiMatch, Phrase, columns_asked, leaves
from lancelet.log import debug
from lancelet.runtime.attributes import cached_property

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lancelet.execution.matching_plan import Matching
    from lancelet.execution.table_reader import TableReader
    from lancelet.expressions.expr import Expr
    from lancelet.index.text.query import Query


ColumnFinder: TypeAlias = "Callable[[str, Query, int | None], Answer | None]"
"""The best rows for a query of one column; None where it takes more than one search."""


class MatchingScan(RankedScan):
    """One execution of a plan with a search for texts in it; where ``find`` knows what columns have, what comes after it.

    ``segments`` are those of the indices that are asked, all by default.
    """

    _looks_at_vectors: ClassVar[bool] = False

    def __init__(
        self,
        table: TableReader,
        plan: ScanPlan,
        threads: int | None = None,
        find: ColumnFinder | None = None,
        segments: frozenset[str] | None = None,
    ) -> None:
        assert plan.matching is not None, "the plan has a search"
        if plan.matching.near is not None and not self._looks_at_vectors:
            raise InvalidInput(
                "a VectorSearchQuery is a filter of to_table and scanner alone; search for the vector beside the text instead"
            )
        self.matching: Matching = plan.matching
        super().__init__(table, plan, plan.matching, threads)
        self._columns: dict[str, ColumnSearch] = {}
        self._find_told = find
        self._segments = segments
        self.items = ItemKeys() if plan.matching.has_items else None
        """What items of lists are known by, where they are what is searched."""
        self._items_found: tuple[npt.NDArray[np.float32], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]

    def _open_reads(self) -> Scan:
        return Scan(self.table, allowed_plan(self.plan, self.matching), self._threads)

    def _find(self) -> Sequence[Answer]:
        table, plan = self.table, self.plan
        debug("texts of %s are searched in %s", table.snapshot.uri, ", ".join(c.name for c in self.matching.columns))
        # A filter that comes after the search looks at the best rows only, as in pylance.
        limit = None if plan.limit is None or plan.order_by else plan.offset + plan.limit
        if self._find_told is None:
            self.check()
        scores, keys = self.evaluate(self.matching.query, limit)
        if self.items is None:
            return [(scores, keys)]
        ids, items = self.items.decode(keys)
        self._items_found = scores, ids, items
        # Whoever asks for rows gets the best item of each.
        first = np.sort(np.unique(ids, return_index=True)[1])
        return [(scores[first], ids[first])]

    def _located(self, answers: Sequence[Answer]) -> Hits:
        if self.items is None:
            return super()._located(answers)
        scores, ids, items = self._items_found
        return replace(super()._located([(scores, ids)]), items=items)

    def check(self) -> None:
        """Raise where the indices of the columns cannot answer the query."""
        for leaf in leaves(self.matching.query):
            if isinstance(leaf, Phrase):
                self.column(leaf.column).check_positions()

    def evaluate(self, query: Query, limit: int | None) -> Answer:
        """The best rows for a query, or all."""
        columns = columns_asked(query)
        if limit == 0:
            return np.empty(0, np.float32), np.empty(0, np.uint64)
        if len(columns) == 1:
            find = self._find_told
            found = self.column(columns[0]).find(query, limit) if find is None else find(columns[0], query, limit)
            if found is not None:
                return found
        match query:
            case MultiMatch(queries):
                # A row that is not among the best of the column that it is best in is not among the best of all.
                return best([_greatest([self.evaluate(part, limit) for part in queries])], limit)
            case Boosting(positive, negative, share):
                return best([_lowered(self.evaluate(positive, None), self.evaluate(negative, None), share)], limit)
            case Boolean(must, should, must_not):
                parts = [[self.evaluate(part, None) for part in group] for group in (must, should, must_not)]
                return best([_combined(*parts)], limit)
            case CombinedFields():
                return best([self._find_combined(query)], limit)
        raise AssertionError(f"{query!r} is a query of one column")

    def _find_combined(self, query: CombinedFields) -> Answer:
        return find_combined(query, [self.column(name) for name in query.columns])

    def column(self, name: str) -> ColumnSearch:
        """The search of one column."""
        found = self._columns.get(name)
        if found is None:
            plan = self.plan
            found = self._columns[name] = ColumnSearch(
                self.table,
                self.matching.column(name),
                plan.fragment_ids,
                self._allowed,
                self._key,
                indexed_only=plan.indexed_only,
                items=self.items,
                segments=self._segments,
            )
        return found

    @cached_property
    def _allowed(self) -> AllowedRows:
        """What may be found; kept for the next search with the same filter."""
        plan, condition = self.plan, self._condition
        wanted = self.table.all_rows.fragments if plan.fragment_ids is None else frozenset(plan.fragment_ids)
        if condition is None and plan.mask is None:
            return self.table.kept(("live rows", wanted), lambda: AllowedRows(self.table, wanted))

        def make() -> AllowedRows:
            return AllowedRows(self.table, wanted, passing_rows(self._reads), self._key)

        return self.table.vector_indices.kept_rows(self._key, make)

    @property
    def _condition(self) -> Expr | None:
        """The filter, where it comes first."""
        return self.plan.filter if self.matching.prefilter else None

    @cached_property
    def _key(self) -> Hashable:
        """What masks of partitions are kept under: the version, and what chooses among its rows."""
        plan, condition, snapshot = self.plan, self._condition, self.table.snapshot
        if condition is not None and not is_repeatable(condition):
            return object()
        return "texts", snapshot.uri, snapshot.manifest.path, plan.fragment_ids, condition, plan.mask, plan.indexed_only


def _greatest(answers: Sequence[Answer]) -> Answer:
    """The best score of each row."""
    scores = np.concatenate([scores for scores, _ in answers])
    ids = np.concatenate([ids for _, ids in answers])
    order = np.lexsort((-scores, ids))
    scores, ids = scores[order], ids[order]
    first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    return scores[first], ids[first]


def _added(answer: Answer, more: Answer, factor: float = 1.0) -> Answer:
    """The scores of an answer, with those that another one has for its rows."""
    scores, ids = answer
    other_scores, other_ids = more
    if not len(other_ids) or not len(ids):
        return answer
    order = np.argsort(other_ids)
    known = other_ids[order]
    at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    here = known[at] == ids
    total = scores.copy()
    total[here] += np.float32(factor) * other_scores[order][at[here]]
    return total, ids


def _lowered(positive: Answer, negative: Answer, share: float) -> Answer:
    return _added(positive, negative, -share)


def _combined(must: Sequence[Answer], should: Sequence[Answer], must_not: Sequence[Answer]) -> Answer:
    ids = np.unique(np.concatenate([ids for _, ids in (must[:1] or should)]))
    for _, others in must[1:]:
        ids = ids[np.isin(ids, others)]
    for _, others in must_not:
        ids = ids[~np.isin(ids, others)]
    total: Answer = np.zeros(len(ids), np.float32), ids
    for part in (*must, *should):
        total = _added(total, part)
    return total

"""Search through an index: its nearest rows, those that it does not know, and exact distances where these are wanted.

::

    segments, side by side ──► k (or k * refine_factor) nearest rows by their codes
    fragments not indexed  ──► k nearest rows, every vector compared
                                   │
              only segments:  distances are those of the codes
              both, or refine_factor: vectors of all found rows are read, and compared (spec indices.md 14.13)

Of rows that segments know, those are passed over that were deleted, moved into fragments that are not indexed, or do not
pass a filter that comes first. When so few rows pass that comparing them all is less work, that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.execution.allowed import AllowedRows, passing_rows
from lancelet.execution.costs import FEW_ALLOWED
from lancelet.execution.exact import ExactSearch
from lancelet.execution.plan import exact_plan
from lancelet.execution.scan import Scan
from lancelet.execution.threads import core_count, ordered_map
from lancelet.expressions.expr import Call, Literal, walk
from lancelet.expressions.functions import FUNCTIONS
from lancelet.index.vector.query import VectorQuery
from lancelet.runtime.attributes import cached_property
from lancelet.runtime.threads import checkpoint

if TYPE_CHECKING:
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.ranked_scan import Answer
    from lancelet.execution.table_reader import TableReader
    from lancelet.execution.vector_indices import VectorIndex
    from lancelet.expressions.expr import Expr
    from lancelet.index.vector.query import KeyedRename, SearchUse
    from lancelet.index.vector.segment import VectorSegment
    from lancelet.index.vector.top import Top

_MULTI_SHARE = 4
"""Of rows with several vectors, each of the query's vectors asks for so many times more: other vectors of a row may be nearer."""


def compared_rows(nearest: Nearest) -> int:
    """How many rows an index is asked for, for each query vector, whose vectors are then compared."""
    return nearest.count * (nearest.refine or 1) * (_MULTI_SHARE if nearest.column.is_multi else 1)


@dataclass(frozen=True)
class IndexedSearch:
    """One search of a version through one of its indices."""

    table: TableReader
    plan: ScanPlan
    nearest: Nearest
    index: VectorIndex
    reads: Callable[[], Scan]
    """The scan of the column, with the filter when it comes first."""
    use: SearchUse

    @cached_property
    def unindexed(self) -> tuple[int, ...]:
        """The fragments whose vectors are all compared."""
        if self.plan.indexed_only:
            return ()
        return self.index.unindexed(self.table, self.nearest, self.plan.fragment_ids)

    @cached_property
    def allowed(self) -> AllowedRows:
        """What may be found; kept for the next search with the same filter."""
        plan, key = self.plan, self._key
        condition = plan.filter if self.nearest.prefilter else None

        def make() -> AllowedRows:
            ids = plan.fragment_ids
            fragments = self.table.all_rows.fragments if ids is None else frozenset(ids)
            restricted = condition is not None or plan.mask is not None
            return AllowedRows(self.table, fragments, passing_rows(self.reads()) if restricted else None, key)

        return self.table.vector_indices.kept_rows(key, make)

    @property
    def _key(self) -> Hashable:
        """What masks of partitions are kept under: the version, and what chooses among its rows."""
        plan = self.plan
        condition = plan.filter if self.nearest.prefilter else None
        if condition is not None and not is_repeatable(condition):
            return object()
        path = self.table.snapshot.manifest.path
        return RowsKey((path, plan.fragment_ids, condition, plan.mask, plan.indexed_only))

    def run(self) -> list[Answer]:
        """An answer for each query, or one for all the vectors of a query of several."""
        nearest, table = self.nearest, self.table
        if not self.is_narrow and not self.compares:
            return self.ask(nearest.count)
        exact = ExactSearch.of(table, nearest, self.index.metric, nearest.count)
        tops = exact.new_tops()
        if self.is_narrow:
            assert self.allowed.rows is not None
            self.use.note(refined=exact.compare_rows(table, self.allowed.rows.numbers(), tops))
            return [top.sorted() for top in tops]
        if self.unindexed:
            plan = replace(exact_plan(self.plan, nearest), fragment_ids=self.unindexed)
            exact.run(Scan(table, plan), self.use, tops)
        self._refine(exact, tops)
        return [top.sorted() for top in tops]

    @cached_property
    def is_narrow(self) -> bool:
        """Whether so few rows are allowed that all of them are compared, unless probes or a range say how the index is asked."""
        nearest = self.nearest
        told = (nearest.min_probes, nearest.max_probes, nearest.effort, nearest.lower, nearest.upper)
        if any(option is not None for option in told) or self.plan.indexed_only or nearest.segments is not None:
            return False
        return self.allowed.count_up_to(max(FEW_ALLOWED, nearest.count)) is not None

    @property
    def compares(self) -> bool:
        """Whether the vectors of found rows are read."""
        return bool(self.unindexed) or self.nearest.refine is not None or self.nearest.column.is_multi

    def _refine(self, exact: ExactSearch, tops: list[Top]) -> None:
        """Compare the vectors of rows that the index finds."""
        nearest, table = self.nearest, self.table
        answers = self.ask(compared_rows(nearest))
        if nearest.column.is_multi:
            rows = np.concatenate([ids for _, ids in answers]) if answers else np.empty(0, np.uint64)
            self.use.note(refined=exact.compare_rows(table, rows, tops, by_id=True))
            return
        for number, (_, ids) in enumerate(answers):
            one = exact
            if len(tops) > 1:
                alone = replace(nearest, queries=nearest.queries[number : number + 1])
                one = ExactSearch.of(table, alone, self.index.metric, nearest.count)
            self.use.note(refined=one.compare_rows(table, ids, [tops[number]], by_id=True))

    def ask(self, count: int) -> list[Answer]:
        """The nearest rows by their codes, for each query vector."""
        count = max(min(count, self.table.num_rows), 1)
        indices = self.table.vector_indices
        segments = [(indices.open(part), self.allowed.rename(part)) for part in self.index.parts]
        queries = [self._query(vector) for vector in self.nearest.queries]
        if len(segments) == 1 and len(queries) == 1:
            ((segment, rename),) = segments
            checkpoint()
            (found,) = segment.best_many(queries, count, rename)
            self.table.cache.indices.trim()
            # A segment goes by its own names of rows, which may order equal ones otherwise.
            return [(found.marks, found.rows) if rename.keeps_names else _merged([(found.marks, found.rows)], count)]
        return self._ask_together(queries, segments, count)

    def _ask_together(
        self, queries: list[VectorQuery], segments: Sequence[tuple[VectorSegment, KeyedRename]], count: int
    ) -> list[Answer]:
        """Several queries or segments, side by side."""
        together = all(segment.reads_together for segment, _ in segments)
        step = len(queries) if together else -(-len(queries) // core_count())
        groups = [queries[at : at + step] for at in range(0, len(queries), step)]
        works = [(group, segment, rename) for group in groups for segment, rename in segments]
        ahead = core_count() + 1 if len(works) > 1 else 1
        found = list(ordered_map(lambda work: work[1].best_many(work[0], count, work[2]), works, ahead))
        self.table.cache.indices.trim()
        answers = []
        for number in range(len(queries)):
            group, place = divmod(number, step)
            parts = found[group * len(segments) : (group + 1) * len(segments)]
            answers.append(_merged([(part[place].marks, part[place].rows) for part in parts], count))
        return answers

    def _query(self, vector: npt.NDArray[np.generic]) -> VectorQuery:
        nearest = self.nearest
        multi = nearest.column.is_multi
        return VectorQuery(
            vector,
            nearest.count,
            None if multi else nearest.lower,
            None if multi else nearest.upper,
            nearest.min_probes,
            nearest.max_probes,
            nearest.effort,
            nearest.ef,
            nearest.approx,
            self.use,
            self._workers,
        )

    @property
    def _workers(self) -> int:
        wanted = self.nearest.parallelism
        return 1 if wanted in (0, 1) else core_count() if wanted < 0 else min(wanted, core_count())


class RowsKey:
    """What chooses among rows, as a key whose hash is worked out once: conditions have long ones."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[Hashable, ...]) -> None:
        self._parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, RowsKey) and self._parts == other._parts)


def is_repeatable(condition: Expr) -> bool:
    """Whether equal filters have equal answers: nothing in them is drawn by chance, or equal and yet not the same."""
    for node in walk(condition):
        if isinstance(node, Call) and FUNCTIONS[node.name].volatile:
            return False
        if isinstance(node, Literal) and isinstance(node.value, float) and node.value == 0:
            return False
    return True


def _merged(answers: Sequence[Answer], count: int) -> Answer:
    """The best of several answers."""
    if len(answers) == 1:
        marks, ids = answers[0]
        # A segment goes by its own names of rows, which may order equal ones otherwise.
        order = np.lexsort((ids, marks))
        return marks[order], ids[order]
    marks = np.concatenate([np.empty(0, np.float32), *(marks for marks, _ in answers)])
    ids = np.concatenate([np.empty(0, np.uint64), *(ids for _, ids in answers)])
    order = np.lexsort((ids, marks))[:count]
    return marks[order], ids[order]

"""A search as a Spark job: the parts of a table are searched side by side, then the nearest of all are chosen.

::

    a segment of the index ── task ──► nearest rows by their codes ──┐
    another segment ───────── task ──► nearest rows by their codes   ├─ by query ─► compared where distances are to be
    rows that no index knows  task ──► nearest rows, compared        │              exact, k nearest of all, filtered,
    ...                                                              ┘              with their columns

What goes between the tasks are distances and row ids alone. The version is the one that was the newest when the search was
asked for, however late it runs. The answer is that of one process: distances are all exact where some rows had to be
compared, and where few rows pass a filter that comes first, all of them are compared; no task can know that, so that each tells
how many it has (spec indices.md 14.13). Where rows have lists of vectors, a segment tells what is near to each vector of the
query, by the number of that vector, and all goes into the one answer.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.execution.allowed import passing_rows
from lancelet.execution.costs import FEW_ALLOWED
from lancelet.execution.exact import ExactSearch
from lancelet.execution.indexed import IndexedSearch, compared_rows
from lancelet.execution.nearest import NearestScan
from lancelet.execution.plan import exact_plan
from lancelet.execution.ranked_scan import Answer
from lancelet.execution.scan import Scan
from lancelet.execution.table_reader import TableReader
from lancelet.index.vector.query import SearchUse
from lancelet.spark.plan import Split, split_fragments
from lancelet.spark.search.request import result_schema
from lancelet.spark.search.tasks import each_piece, finished

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.vector_indices import VectorIndex
    from lancelet.index.vector.metric import Metric
    from lancelet.spark.options import TableRef

_FOUND = "query int, how tinyint, mark float, row bigint"
_MOST_TASKS = 512
_ROWS_A_TASK = 50_000
"""Of the result; the few rows of a common search come from one task, and in order."""
_MANY = -1


class How(enum.IntEnum):
    """How a row was found."""

    COMPARED = 0
    CODES = 1
    ALLOWED = 2
    """Compared, by a task that has a segment; good only if few rows are allowed in all."""
    COUNT = 3
    """No row, but how many rows are allowed that a task looked at."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task looks at: a segment, or rows of some fragments."""

    segment: str | None = None
    split: Split | None = None


@dataclass(frozen=True, slots=True)
class SearchJob:
    """What all tasks of a search share."""

    place: TableRef
    """With the version."""
    plan: ScanPlan
    metric: Metric
    refines: bool = False
    """Whether vectors of rows that an index found are compared."""
    may_be_narrow: bool = False
    """Whether all rows that are allowed are compared, if they are few."""

    @property
    def nearest(self) -> Nearest:
        assert self.plan.nearest is not None, "the plan has a search"
        return self.plan.nearest

    @property
    def _few(self) -> int:
        return max(FEW_ALLOWED, self.nearest.count)

    def open(self) -> TableReader:
        return TableReader(self.place.open())

    def find(self, piece: Piece) -> pa.RecordBatch:
        """What a part of the table has near to each query."""
        table = self.open()
        if piece.segment is not None:
            return self._of_segment(table, piece.segment)
        assert piece.split is not None
        return self._of_rows(table, piece.split)

    def _of_rows(self, table: TableReader, split: Split) -> pa.RecordBatch:
        whole = replace(
            exact_plan(self.plan, self.nearest),
            fragment_ids=tuple(number for number, _, _ in split.pieces),
            row_ranges=tuple((first, last) for _, first, last in split.pieces),
        )
        search = ExactSearch.of(table, self.nearest, self.metric, self.nearest.count)
        tops = search.run(Scan(table, whole), SearchUse())
        found = _Found()
        found.add(How.COMPARED, [top.sorted() for top in tops])
        if self.may_be_narrow:
            rows = passing_rows(Scan(table, replace(whole, row_ranges=None)))
            self._count(found, _MANY if rows.has_whole else len(rows))
        return found.batch()

    def _of_segment(self, table: TableReader, segment: str) -> pa.RecordBatch:
        index = table.vector_indices.choose(self.nearest)
        assert index is not None, "the driver has chosen one"
        parts = tuple(part for part in index.parts if str(part.entry.uuid) == segment)
        fragments = tuple(sorted(parts[0].fragments))
        plan = replace(self.plan, fragment_ids=fragments)
        search = IndexedSearch(
            table,
            plan,
            self.nearest,
            replace(index, parts=parts),
            lambda: Scan(table, exact_plan(plan, self.nearest)),
            SearchUse(),
        )
        found = _Found()
        found.add(How.CODES, search.ask(compared_rows(self.nearest) if self.refines else self.nearest.count))
        if self.may_be_narrow:
            few = search.allowed.count_up_to(self._few)
            self._count(found, _MANY if few is None else few)
            if few is not None:
                assert search.allowed.rows is not None
                exact = ExactSearch.of(table, self.nearest, self.metric, self.nearest.count)
                tops = exact.new_tops()
                exact.compare_rows(table, search.allowed.rows.numbers(), tops)
                found.add(How.ALLOWED, [top.sorted() for top in tops])
        return found.batch()

    def _count(self, found: _Found, count: int) -> None:
        one: Answer = (np.zeros(1, np.float32), np.array([count], np.int64).view(np.uint64))
        found.add(How.COUNT, [one] * self.answers)

    @property
    def answers(self) -> int:
        """How many answers there are: one for each query, or for all the vectors of one."""
        return 1 if self.nearest.column.is_multi else len(self.nearest.queries)

    def finish(self, found: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the result for some of the queries, of which this is all that was found."""
        table = self.open()
        return NearestScan(table, self.plan, answers=self.all_answers(table, found)).batches()

    def all_answers(self, table: TableReader, found: Sequence[pa.RecordBatch]) -> list[Answer]:
        """What was found for each query."""
        queries, hows, marks, rows = (
            np.concatenate([batch.column(at).to_numpy() for batch in found]) for at in range(4)
        )
        answers: list[Answer] = [(np.empty(0, np.float32), np.empty(0, np.uint64))] * self.answers
        if self.nearest.column.is_multi:
            return [self._best(table, self.nearest, queries, hows, marks, rows)]
        order = np.argsort(queries, kind="stable")
        known, starts = np.unique(queries[order], return_index=True)
        for number, mine in zip(known.tolist(), np.split(order, starts[1:]), strict=True):
            one = replace(self.nearest, queries=self.nearest.queries[number : number + 1])
            answers[number] = self._best(table, one, queries[mine], hows[mine], marks[mine], rows[mine])
        return answers

    def _best(
        self,
        table: TableReader,
        one: Nearest,
        queries: npt.NDArray[np.int32],
        hows: npt.NDArray[np.int8],
        marks: npt.NDArray[np.float32],
        rows: npt.NDArray[np.int64],
    ) -> Answer:
        """The answer to one query."""
        counts = rows[hows == How.COUNT]
        is_narrow = self.may_be_narrow and not (counts == _MANY).any() and counts.sum() <= self._few
        compares = self.refines and not is_narrow
        used = hows == How.COMPARED
        if is_narrow:
            used |= hows == How.ALLOWED
        elif not compares:
            used |= hows == How.CODES
        ids = rows.view(np.uint64)
        some = [np.empty(0, np.uint64)]
        if compares:
            exact = ExactSearch.of(table, one, self.metric, one.count)
            (top,) = exact.new_tops()
            top.add(marks[used], ids[used])
            for vector in np.unique(queries[hows == How.CODES]):
                near = (hows == How.CODES) & (queries == vector)
                some.append(_nearest(marks[near], ids[near], compared_rows(one))[1])
            exact.compare_rows(table, np.concatenate(some), [top], by_id=True)
            return top.sorted()
        return _nearest(marks[used], ids[used], self.nearest.count)


class _Found:
    """Rows that a task found."""

    def __init__(self) -> None:
        self._queries: list[npt.NDArray[np.int32]] = []
        self._hows: list[npt.NDArray[np.int8]] = []
        self._answers: list[Answer] = []

    def add(self, how: How, answers: Sequence[Answer]) -> None:
        for number, answer in enumerate(answers):
            self._queries.append(np.full(len(answer[0]), number, np.int32))
            self._hows.append(np.full(len(answer[0]), how, np.int8))
            self._answers.append(answer)

    def batch(self) -> pa.RecordBatch:
        columns: list[npt.NDArray[Any]] = [
            np.concatenate([np.empty(0, np.int32), *self._queries]),
            np.concatenate([np.empty(0, np.int8), *self._hows]),
            np.concatenate([np.empty(0, np.float32), *(marks for marks, _ in self._answers)]),
            np.concatenate([np.empty(0, np.uint64), *(ids for _, ids in self._answers)]).view(np.int64),
        ]
        names = [part.split()[0] for part in _FOUND.split(", ")]
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)


def _nearest(marks: npt.NDArray[np.float32], ids: npt.NDArray[np.uint64], count: int) -> Answer:
    order = np.lexsort((ids, marks))[:count]
    return marks[order], ids[order]


# On the driver


def search_frame(spark: SparkSession, table: TableReader, place: TableRef, plan: ScanPlan) -> DataFrame:
    """The result of a search as a data frame, which is computed when it is asked for; ``place`` names the version."""
    job, pieces = plan_search(table, place, plan)
    last = min(job.answers, 1 + job.answers * job.nearest.count // _ROWS_A_TASK)
    found = found_frame(spark, job, pieces).repartition(last, "query")
    return found.mapInArrow(partial(finished, job), result_schema(plan))


def found_frame(spark: SparkSession, job: SearchJob, pieces: Sequence[Piece]) -> DataFrame:
    """What the parts of the table have."""
    count = len(pieces)
    parts = spark.range(0, count, 1, max(1, min(count, _MOST_TASKS)))
    return parts.mapInArrow(each_piece(job, pieces), _FOUND)


def plan_search(table: TableReader, place: TableRef, plan: ScanPlan) -> tuple[SearchJob, tuple[Piece, ...]]:
    """What tasks have to do for a search."""
    nearest = plan.nearest
    assert nearest is not None, "the plan has a search"
    index = table.vector_indices.choose(nearest)
    metric = nearest.exact_metric() if index is None else index.metric
    nearest.column.check_metric(metric)
    unindexed = _unindexed(table, plan, index)
    wanted = frozenset(node.id for node in nearest.column.field(plan.schema).walk())
    fragments = [fragment for fragment in table.snapshot.manifest.fragments if fragment.id in unindexed]
    splits = split_fragments(table, fragments, wanted, whole_fragments=index is not None)
    segments = [] if index is None else [str(part.entry.uuid) for part in index.parts]
    told = (nearest.min_probes, nearest.max_probes, nearest.effort, nearest.lower, nearest.upper)
    is_told = any(option is not None for option in told) or plan.indexed_only
    filters = nearest.prefilter and plan.filter is not None
    job = SearchJob(
        place,
        plan,
        metric,
        refines=bool(segments) and (bool(unindexed) or nearest.refine is not None or nearest.column.is_multi),
        may_be_narrow=bool(segments) and filters and not is_told,
    )
    return job, (*(Piece(segment) for segment in segments), *(Piece(split=split) for split in splits))


def _unindexed(table: TableReader, plan: ScanPlan, index: VectorIndex | None) -> frozenset[int]:
    """The fragments whose vectors are all compared."""
    assert plan.nearest is not None
    if plan.indexed_only and plan.nearest.use_index:
        return frozenset()
    ids = frozenset(table.snapshot.manifest.fragments.ids.tolist())
    return ids if index is None else ids - index.fragments

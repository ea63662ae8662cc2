"""A search as a Spark job: the parts of a table are searched side by side, then the nearest of all are chosen.

::

    rows of some fragments ── task ──► k nearest, by distance and row id ──┐
    rows of other fragments ─ task ──► k nearest                          ├─ by query ─► k nearest of all,
    ...                                                                   ┘              filtered, with their columns

What goes between the tasks are distances and row ids alone. The version is the one that was the newest when the search was
asked for, however late it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.execution.nearest import Answer, NearestScan
from lancelet.execution.table_reader import TableReader
from lancelet.expressions.expr import Column
from lancelet.format.system_columns import DISTANCE, QUERY_INDEX, ROW_ID, SEARCH_FIELDS
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.plan import Split, split_fragments
from lancelet.spark.search.request import result_schema
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.plan import ScanPlan
    from lancelet.spark.options import TableRef

_QUERY, _MARK, _ROW = "query", "mark", "row"
_FOUND = f"{_QUERY} int, {_MARK} float, {_ROW} bigint"
_MOST_TASKS = 512
_ROWS_A_TASK = 50_000
"""Of the result; the few rows of a common search come from one task, and in order."""


@dataclass(frozen=True, slots=True)
class SearchJob:
    """What all tasks of a search share."""

    place: TableRef
    """With the version."""
    plan: ScanPlan

    @property
    def nearest(self) -> Nearest:
        assert self.plan.nearest is not None, "the plan has a search"
        return self.plan.nearest

    def find(self, split: Split) -> pa.RecordBatch:
        """The nearest rows of a part of the table, for each query."""
        table = TableReader(self.place.open())
        nearest = self.nearest
        plan = replace(
            self.plan,
            outputs=_ids(self.nearest),
            filter=self.plan.filter if nearest.prefilter else None,
            offset=0,
            fragment_ids=tuple(number for number, _, _ in split.pieces),
            row_ranges=tuple((first, last) for _, first, last in split.pieces),
            nearest=replace(nearest, use_index=False, metric=nearest.exact_metric()),
        )
        found = NearestScan(table, plan).to_table().combine_chunks()
        queries = (
            found.column(QUERY_INDEX).combine_chunks()
            if nearest.is_batch
            else pa.array(np.zeros(found.num_rows, np.int32))
        )
        rows = found.column(ROW_ID).to_numpy().view(np.int64)
        return pa.record_batch({_QUERY: queries, _MARK: found.column(DISTANCE).combine_chunks(), _ROW: rows})

    def finish(self, found: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the result for some of the queries, of which this is all that was found."""
        queries, marks, rows = (np.concatenate([batch.column(at).to_numpy() for batch in found]) for at in range(3))
        ids = rows.view(np.uint64)
        order = np.lexsort((ids, marks, queries))
        queries, marks, ids = queries[order], marks[order], ids[order]
        nothing: Answer = (np.empty(0, np.float32), np.empty(0, np.uint64))
        answers = [nothing] * (len(self.nearest.queries) if self.nearest.is_batch else 1)
        known, starts = np.unique(queries, return_index=True)
        for number, start, stop in zip(known.tolist(), starts, [*starts[1:], len(queries)], strict=True):
            stop = min(stop, start + self.nearest.count)
            answers[number] = (marks[start:stop], ids[start:stop])
        return NearestScan(TableReader(self.place.open()), self.plan, answers=answers).batches()


def _ids(nearest: Nearest) -> tuple[tuple[str, Column], ...]:
    made = (DISTANCE, QUERY_INDEX) if nearest.is_batch else (DISTANCE,)
    return (
        (ROW_ID, Column((ROW_ID,), pa.uint64())),
        *((name, Column((name,), SEARCH_FIELDS[name].type)) for name in made),
    )


def search_frame(spark: SparkSession, table: TableReader, place: TableRef, plan: ScanPlan) -> DataFrame:
    """The result of a search as a data frame, which is computed when it is asked for; ``place`` names the version."""
    job = SearchJob(place, plan)
    nearest = job.nearest
    field = nearest.column.field(plan.schema)
    wanted = frozenset(node.id for node in field.walk())
    splits = tuple(split_fragments(table, table.snapshot.manifest.fragments, wanted))
    count = len(splits)
    parts = spark.range(0, count, 1, max(1, min(count, _MOST_TASKS)))
    answers = len(nearest.queries) if nearest.is_batch else 1
    last = min(answers, 1 + answers * nearest.count // _ROWS_A_TASK)
    found = parts.mapInArrow(_each(job, splits), _FOUND).repartition(last, _QUERY)
    return found.mapInArrow(partial(_finished, job), result_schema(plan))


def _each(job: SearchJob, splits: Sequence[Split]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    @in_a_sentence
    def find(number: int) -> pa.RecordBatch:
        with a_task():
            return job.find(splits[number])

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield find(number)

    return task


def _finished(job: SearchJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = [batch for batch in batches if batch.num_rows]
    if found:
        with a_task():
            yield from conformed_batches(job.finish(found), arrow_schema(result_schema(job.plan)))

"""Texts and vectors searched together as a Spark job: both as they are searched alone, and one task makes their answers one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import keep_rows
from lancelet.execution.ranked_scan import NO_ROWS
from lancelet.execution.table_reader import TableReader
from lancelet.runtime import compute as pc
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.search import job as vector_job
from lancelet.spark.search import text_job
from lancelet.spark.search.request import result_schema
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet.execution.hybrid import HybridPlan
    from lancelet.spark.options import TableRef
    from lancelet.spark.search.job import SearchJob
    from lancelet.spark.search.text_job import TextJob

_AS_VECTORS = ("-1 - step AS query", "CAST(0 AS TINYINT) AS how", "mark", "row")
"""Rows that texts found, among those of vectors: the numbers of their steps are negative."""


@dataclass(frozen=True, slots=True)
class HybridJob:
    """What the last task needs."""

    plan: HybridPlan
    texts: TextJob
    vectors: SearchJob

    def finish(self, found: list[pa.RecordBatch]) -> pa.Table:
        """The result."""
        table = TableReader(self.texts.place.open())
        near, fitting = [], []
        for batch in found:
            of_vectors = pc.greater_equal(batch.column(0), 0)
            near.append(keep_rows(batch, of_vectors))
            rest = keep_rows(batch, pc.invert(of_vectors))
            steps = pc.subtract(pa.scalar(-1, pa.int32()), rest.column(0))
            no_items = pa.array(np.zeros(len(rest), np.int32))
            columns = [steps, rest.column(2), rest.column(3), no_items]
            fitting.append(pa.RecordBatch.from_arrays(columns, names=["step", "mark", "row", "item"]))
        vectors = next(iter(self.vectors.all_answers(table, near)), NO_ROWS)
        return self.plan.show(table, self.texts.answer(table, fitting), vectors)


def hybrid_frame(spark: SparkSession, table: TableReader, place: TableRef, plan: HybridPlan) -> DataFrame:
    """The result of a search as a data frame; ``place`` names the version."""
    assert plan.texts is not None
    assert plan.vectors is not None
    texts, text_pieces = text_job.plan_texts(spark, table, place, plan.texts, by_row=True)
    vectors, vector_pieces = vector_job.plan_search(table, place, plan.vectors)
    near = vector_job.found_frame(spark, vectors, vector_pieces)
    fitting = text_job.found_frame(spark, texts, text_pieces).selectExpr(*_AS_VECTORS)
    job = HybridJob(plan, texts, vectors)
    return near.unionByName(fitting).repartition(1).mapInArrow(partial(_finished, job), result_schema(plan))


def _finished(job: HybridJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = [batch for batch in batches if batch.num_rows]
    if found:
        with a_task():
            shown = job.finish(found).combine_chunks().to_batches()
            yield from conformed_batches(iter(shown), arrow_schema(result_schema(job.plan)))

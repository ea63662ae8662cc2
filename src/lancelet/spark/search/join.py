"""For each row of a data frame the rows of a table that are nearest to it: tasks ask the table about their rows, many at a time.

Rows of the data frame are not shuffled, and come out in the order in which they were, each as often as rows were found for
it. In a left join a row for which none was found comes out once, with nulls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, NumericType, StructField, StructType

from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array
from lancelet.errors import InvalidInput, InvalidType, LanceletError, NotSupported
from lancelet.execution.nearest import NearestScan
from lancelet.execution.table_reader import TableReader
from lancelet.format.schema import join_path
from lancelet.format.system_columns import QUERY_INDEX
from lancelet.spark.arrays import conform
from lancelet.spark.names import find_name
from lancelet.spark.search.request import SearchRequest, result_schema, vector_matrix, with_queries
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lancelet._api.scan_options import SearchOptions
    from lancelet.dataset import LanceDataset
    from lancelet.execution.plan import ScanPlan
    from lancelet.expressions.expr import Expr
    from lancelet.spark.options import TableRef

_HOW = {"inner": False, "left": True, "left_outer": True, "leftouter": True}
_MOST_QUERIES = 1024
_MOST_ROWS = 1 << 16
"""Of a piece of the result."""


@dataclass(frozen=True, slots=True)
class JoinJob:
    """What all tasks of a join share."""

    place: TableRef
    """With the version."""
    plan: ScanPlan
    """For queries that are still to come."""
    on: str
    keeps_all: bool
    """Whether rows come out for which none was found."""
    found: pa.Schema
    """The columns of the table, as Spark wants them."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one partition beside those that were found for them."""
        table: TableReader | None = None
        assert self.plan.nearest is not None
        step = max(1, min(_MOST_QUERIES, _MOST_ROWS // max(1, self.plan.nearest.count)))
        for batch in batches:
            for start in range(0, batch.num_rows, step):
                with a_task():
                    table = TableReader(self.place.open()) if table is None else table
                    joined = self._joined(table, batch.slice(start, step))
                yield joined

    def _joined(self, table: TableReader, batch: pa.RecordBatch) -> pa.RecordBatch:
        nearest = self.plan.nearest
        assert nearest is not None
        queries, known = vector_matrix(batch.column(self.on), self.on, nearest.column.dimension)
        if queries.dtype.kind == "f":
            known &= ~np.isnan(queries).any(axis=1)
        asked = np.flatnonzero(known)
        plan = with_queries(self.plan, nearest.column, queries[asked])
        found = NearestScan(table, plan).to_table() if len(asked) else plan.output_schema.empty_table()
        owners = asked[found.column(QUERY_INDEX).to_numpy()]
        places = np.arange(len(owners))
        if self.keeps_all:
            alone = np.setdiff1d(np.arange(batch.num_rows), owners)
            places = np.concatenate([places, np.full(len(alone), -1)])
            owners = np.concatenate([owners, alone])
            order = np.argsort(owners, kind="stable")
            owners, places = owners[order], places[order]
        taken = arrow_array(places) if not self.keeps_all else pa.array(places, mask=places < 0)
        beside = pick_rows(batch, arrow_array(owners))
        columns = [conform(pick_rows(_one(found.column(field.name)), taken), field.type) for field in self.found]
        return pa.RecordBatch.from_arrays([*beside.columns, *columns], schema=pa.schema([*beside.schema, *self.found]))


def join_frame(
    frame: DataFrame,
    dataset: LanceDataset,
    place: TableRef,
    on: Any,
    how: Any,
    request: SearchRequest,
    options: SearchOptions,
) -> DataFrame:
    """The join, which is computed when it is asked for; ``place`` names the version."""
    name = _column_of(frame, on, request.case_sensitive)
    if not isinstance(how, str) or how.lower() not in _HOW:
        raise InvalidInput(f"rows are joined with how='inner' or how='left', not {how!r}")
    plan = request.plan(dataset, _any_query, options)
    nearest = plan.nearest
    assert nearest is not None
    if not nearest.is_batch:
        raise NotSupported(
            f"column '{nearest.column.name}' has several vectors a row, for which rows are not joined; search it, one query "
            "at a time"
        )
    keeps_all = _HOW[how.lower()]
    found = _beside(frame.schema, result_schema(plan), keeps_all)
    job = JoinJob(place, plan, name, keeps_all, arrow_schema(found))
    return frame.mapInArrow(partial(join_rows, job), StructType([*frame.schema, *found]))


def planned_join(
    dataset: LanceDataset, place: TableRef, told: Mapping[str, Any], condition: Expr | None, result: StructType
) -> JoinJob:
    """The join that a statement means: ``l0``, ``l1``, ... are columns of its left side, ``r0``, ``r1``, ... of the table."""
    columns = {f"r{number}": join_path([name]) for number, name in enumerate(told["columns"])}
    options: SearchOptions = {"metric": told["metric"], "use_index": told["use_index"]}
    if "nprobes" in told:
        options["nprobes"] = told["nprobes"]
    if "refine_factor" in told:
        options["refine_factor"] = told["refine_factor"]
    request = SearchRequest(join_path(told["column"]), told["k"], columns=columns, case_sensitive=True)
    plan = request.plan(dataset, _any_query, options)
    assert plan.nearest is not None
    plan = replace(plan, filter=condition, nearest=replace(plan.nearest, prefilter=True))
    found = StructType([field for field in result if field.name in columns])
    return JoinJob(place, plan, told["on"], bool(told["left"]), arrow_schema(found))


def _any_query(dimension: int) -> Any:
    """In place of the queries that the data frame will have."""
    return np.zeros((1, dimension), np.uint8)


def _column_of(frame: Any, on: Any, case_sensitive: bool) -> str:
    if not hasattr(frame, "mapInArrow"):
        raise InvalidType(f"rows of a Spark data frame are joined, not of {type(frame)}")
    if not isinstance(on, str):
        raise InvalidType(f"on= is the name of the data frame's column of vectors, not {on!r}")
    name = find_name(on, frame.columns, case_sensitive=case_sensitive)
    if name is None:
        raise InvalidInput(f"the data frame has no column '{on}'; it has: {', '.join(frame.columns)}")
    if frame.columns.count(name) > 1:
        raise InvalidInput(f"the data frame has several columns '{name}'; rename them, or select one of them")
    dtype = frame.schema[name].dataType
    if not isinstance(dtype, ArrayType) or not isinstance(dtype.elementType, NumericType):
        raise InvalidInput(
            f"column '{name}' of the data frame is {dtype.simpleString()}; vectors are arrays of numbers"
        )
    return name


def _beside(left: StructType, right: StructType, keeps_all: bool) -> StructType:
    """The columns of the table that come out."""
    fields = [field for field in right if field.name != QUERY_INDEX]
    taken = {name.lower() for name in left.names}
    for field in fields:
        if field.name.lower() in taken:
            raise InvalidInput(
                f"both sides have a column '{field.name}'; choose and rename those of the table with columns=, such as "
                f"columns={{'found_{field.name}': '{field.name}'}}, or rename it in the data frame"
            )
    return StructType([StructField(f.name, f.dataType, f.nullable or keeps_all, f.metadata) for f in fields])


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def join_rows(job: JoinJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a task does with its rows."""
    try:
        yield from job.run(batches)
    except LanceletError as error:
        raise error.with_traceback(None) from None

"""What a search asks of a table: the arguments of users, checked on the driver and made into a plan that tasks get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet._api.scanner import ScannerBuilder
from lancelet.errors import InvalidInput
from lancelet.execution.nearest_plan import USUAL_NAME, choose_vector_column, has_vectors, vector_column
from lancelet.format.system_columns import DISTANCE, SEARCH_FIELDS, SYSTEM_FIELDS
from lancelet.spark.names import find_name, path_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lancelet._api.scan_options import SearchOptions
    from lancelet._api.scanner import Columns
    from lancelet.dataset import LanceDataset
    from lancelet.execution.nearest_plan import VectorColumn
    from lancelet.execution.plan import ScanPlan
    from lancelet.format.schema import Schema


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search but for its query."""

    column: str | None
    k: int
    filter: str | None = None
    columns: Columns = None
    prefilter: bool = False
    fast_search: bool = False
    with_row_id: bool = False
    offset: int = 0
    case_sensitive: bool = False

    def plan(self, dataset: LanceDataset, query: Any, options: SearchOptions) -> ScanPlan:
        """The plan of the search of one version; a function makes the query for vectors of some dimension."""
        schema = dataset.table.snapshot.manifest.schema
        name = search_column(schema, self.column, case_sensitive=self.case_sensitive)
        if callable(query):
            query = query(vector_column(schema, name).dimension)
        scanner = (
            ScannerBuilder(dataset)
            .columns(self._columns(schema))
            .filter(self.filter)
            .offset(self.offset)
            .with_row_id(self.with_row_id)
            .prefilter(self.prefilter)
            .fast_search(self.fast_search)
            .nearest(name, query, self.k + self.offset, **options)
            .to_scanner()
        )
        return scanner.plan

    def _columns(self, schema: Schema) -> Any:
        """The names of columns as the table has them, and the distance; what makes no sense is left to the scanner."""
        columns: Any = self.columns
        if isinstance(columns, Mapping):
            return columns if DISTANCE in columns else {**columns, DISTANCE: DISTANCE}
        if not isinstance(columns, Sequence) or isinstance(columns, str):
            return columns
        names = [self._name(given, schema) for given in columns]
        return names if DISTANCE in names else [*names, DISTANCE]

    def _name(self, given: Any, schema: Schema) -> Any:
        if not isinstance(given, str):
            return given
        made = (*SYSTEM_FIELDS, *SEARCH_FIELDS)
        found = find_name(given, made, case_sensitive=self.case_sensitive) if given not in schema.names else None
        return found or path_named(given, schema, case_sensitive=self.case_sensitive)


def search_column(schema: Schema, name: str | None, *, case_sensitive: bool = False) -> str:
    """The column that is searched; without a name ``vector``, or the only one with vectors."""
    if name is not None:
        return path_named(name, schema, case_sensitive=case_sensitive)
    usual = find_name(USUAL_NAME, schema.names, case_sensitive=case_sensitive)
    return usual if usual is not None and has_vectors(schema, usual) else choose_vector_column(schema)


def result_schema(plan: ScanPlan) -> StructType:
    """The Spark schema of what a search gives."""
    from lancelet.spark.types import spark_schema

    system = {name: None for name in SYSTEM_FIELDS if name not in plan.schema.names}
    return spark_schema(plan.storage_schema, system)


def collected_queries(frame: DataFrame, column: str) -> npt.NDArray[Any]:
    """The vectors of a data frame: its only column, or the one that is called as the column of the table."""
    name = find_name(column, frame.columns)
    if name is None:
        if len(frame.columns) != 1:
            raise InvalidInput(
                f"the queries are in a data frame with the columns {', '.join(frame.columns)}, and none of them is called "
                f"'{column}'; select the one that has the vectors"
            )
        (name,) = frame.columns
    vectors = frame.select(f"`{name.replace('`', '``')}`").toArrow().column(0).combine_chunks()
    if not len(vectors):
        raise InvalidInput("the data frame with the queries has no rows; give at least one query")
    found, known = vector_matrix(vectors, name)
    if not known.all():
        raise InvalidInput(f"the query in row {int(np.flatnonzero(~known)[0])} is null; leave such rows out")
    return found


def vector_matrix(
    array: pa.Array, name: str, dimension: int | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Lists of numbers as rows of a matrix, and which of them are not null; those that are have zeros."""
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)) or not (
        pa.types.is_floating(array.type.value_type)
        or pa.types.is_integer(array.type.value_type)
        or pa.types.is_decimal(array.type.value_type)
    ):
        raise InvalidInput(f"column '{name}' is {array.type}; queries are arrays of numbers")
    known = np.asarray(array.is_valid())
    lengths = np.unique(np.asarray(array.drop_null().value_lengths()))
    size = dimension if dimension is not None else int(lengths[0]) if len(lengths) else 0
    wrong = lengths[lengths != size]
    if len(wrong):
        raise InvalidInput(
            f"column '{name}' has vectors of {int(wrong[0])} numbers, where {size} are wanted"
            if dimension is not None
            else f"the queries in column '{name}' have {size} and {int(wrong[0])} numbers; all must have the same length"
        )
    values = array.flatten()
    if values.null_count:
        raise InvalidInput(f"a vector of column '{name}' has a null in it; all of its elements must be numbers")
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    numbers = values.to_numpy(zero_copy_only=False)
    found = np.zeros((len(array), size), numbers.dtype)
    found[known] = numbers.reshape(-1, size)
    return found, known


def with_queries(plan: ScanPlan, column: VectorColumn, queries: npt.NDArray[Any]) -> ScanPlan:
    """The same search for other queries, each with an answer of its own."""
    assert plan.nearest is not None
    return replace(plan, nearest=replace(plan.nearest, queries=queries.astype(column.dtype), is_batch=True))

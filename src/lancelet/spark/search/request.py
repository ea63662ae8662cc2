"""What a search asks of a table: the arguments of users, checked on the driver and made into a plan that tasks get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet._api.hybrid_search import hybrid_plan
from lancelet._api.scanner import ScannerBuilder
from lancelet.errors import InvalidInput
from lancelet.execution.fusion import RANK_CONSTANT, VECTOR_WEIGHT
from lancelet.execution.hybrid import HybridPlan
from lancelet.execution.nearest_plan import USUAL_NAME, choose_vector_column, has_vectors, vector_column
from lancelet.format.system_columns import DISTANCE, FUSED_FIELDS, SCORE, SEARCH_FIELDS, SYSTEM_FIELDS
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
    from lancelet.query import FullTextQuery


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
            .columns(shown_columns(self.columns, schema, (DISTANCE,), case_sensitive=self.case_sensitive))
            .filter(self.filter)
            .offset(self.offset)
            .with_row_id(self.with_row_id)
            .prefilter(self.prefilter)
            .fast_search(self.fast_search)
            .nearest(name, query, self.k + self.offset, **options)
            .to_scanner()
        )
        return scanner.plan


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A search for texts, and maybe for vectors too, but for what is looked for."""

    text_columns: Sequence[str] | None = None
    vector_column: str | None = None
    k: int = 10
    filter: str | None = None
    columns: Columns = None
    prefilter: bool = True
    fast_search: bool = False
    with_row_id: bool = False
    offset: int = 0
    fusion: str = "rrf"
    rrf_k: float = RANK_CONSTANT
    weight: float = VECTOR_WEIGHT
    candidates: int | None = None
    case_sensitive: bool = False

    def texts(self, dataset: LanceDataset, text: str | FullTextQuery) -> ScanPlan:
        """The plan of a search for texts alone."""
        schema = dataset.table.snapshot.manifest.schema
        scanner = (
            ScannerBuilder(dataset)
            .columns(shown_columns(self.columns, schema, (SCORE,), case_sensitive=self.case_sensitive))
            .filter(self.filter)
            .limit(self.k)
            .offset(self.offset)
            .with_row_id(self.with_row_id)
            .prefilter(self.prefilter)
            .fast_search(self.fast_search)
            .full_text_search(text, self._text_columns(schema))
            .to_scanner()
        )
        return scanner.plan

    def both(self, dataset: LanceDataset, text: str | FullTextQuery, vector: Any, options: SearchOptions) -> HybridPlan:
        """The plan of a search for texts and vectors."""
        if not self.prefilter:
            raise InvalidInput(
                "where texts and vectors are searched together the filter comes first; leave prefilter out"
            )
        schema = dataset.table.snapshot.manifest.schema
        name = search_column(schema, self.vector_column, case_sensitive=self.case_sensitive)
        if callable(vector):
            vector = vector(vector_column(schema, name).dimension)
        return hybrid_plan(
            dataset,
            text,
            vector,
            text_columns=self._text_columns(schema),
            vector_column=name,
            filter=self.filter,
            columns=shown_columns(self.columns, schema, (), case_sensitive=self.case_sensitive),
            k=self.k,
            offset=self.offset,
            fusion=self.fusion,
            rrf_k=self.rrf_k,
            weight=self.weight,
            candidates=self.candidates,
            fast_search=self.fast_search,
            with_row_id=self.with_row_id,
            options={name: value for name, value in options.items() if value is not None},
        )

    def _text_columns(self, schema: Schema) -> Sequence[str] | None:
        names = self.text_columns
        if names is None or isinstance(names, str):
            return names
        return [path_named(name, schema, case_sensitive=self.case_sensitive) for name in names]


def shown_columns(columns: Any, schema: Schema, added: Sequence[str], *, case_sensitive: bool) -> Any:
    """The names of columns as the table has them, and what the search adds; what makes no sense is left to the scanner."""
    if isinstance(columns, Mapping):
        return {**columns, **{name: name for name in added if name not in columns}}
    if not isinstance(columns, Sequence) or isinstance(columns, str):
        return columns
    names = [_shown_name(given, schema, case_sensitive) for given in columns]
    return [*names, *(name for name in added if name not in names)]


def _shown_name(given: Any, schema: Schema, case_sensitive: bool) -> Any:
    if not isinstance(given, str):
        return given
    made = (*SYSTEM_FIELDS, *SEARCH_FIELDS, *FUSED_FIELDS)
    found = find_name(given, made, case_sensitive=case_sensitive) if given not in schema.names else None
    return found or path_named(given, schema, case_sensitive=case_sensitive)


def search_column(schema: Schema, name: str | None, *, case_sensitive: bool = False) -> str:
    """The column that is searched; without a name ``vector``, or the only one with vectors."""
    if name is not None:
        return path_named(name, schema, case_sensitive=case_sensitive)
    usual = find_name(USUAL_NAME, schema.names, case_sensitive=case_sensitive)
    return usual if usual is not None and has_vectors(schema, usual) else choose_vector_column(schema)


def result_schema(plan: ScanPlan | HybridPlan) -> StructType:
    """The Spark schema of what a search gives."""
    from lancelet.spark.types import spark_schema

    stored = plan.shown.schema if isinstance(plan, HybridPlan) else plan.schema
    system = {name: None for name in SYSTEM_FIELDS if name not in stored.names}
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

"""Searches as data frames: what is asked decides which job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancelet.errors import InvalidInput
from lancelet.spark.search.hybrid_job import hybrid_frame
from lancelet.spark.search.job import search_frame
from lancelet.spark.search.request import collected_queries, search_column
from lancelet.spark.search.text_job import text_frame
from lancelet.spark.table.edit import pin_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancelet._api.scan_options import SearchOptions
    from lancelet.dataset import LanceDataset
    from lancelet.query import FullTextQuery
    from lancelet.spark.options import TableRef
    from lancelet.spark.search.request import SearchRequest, TextRequest


def search_vectors(
    spark: SparkSession,
    dataset: LanceDataset,
    place: TableRef,
    query: Any,
    request: SearchRequest,
    options: SearchOptions,
) -> DataFrame:
    """The rows whose vectors are nearest to a query, or to each of several."""
    if query is None:
        raise InvalidInput("a search needs something to look for: a query vector, text=, or both")
    if isinstance(query, str):
        raise InvalidInput(f"a query is a vector; to look for a text, name it: text={query!r}")
    table = dataset.table
    if hasattr(query, "mapInArrow"):
        query = collected_queries(query, search_column(table.snapshot.manifest.schema, request.column))
    return search_frame(spark, table, pin_version(table.snapshot, place), request.plan(dataset, query, options))


def search_texts(
    spark: SparkSession,
    dataset: LanceDataset,
    place: TableRef,
    text: str | FullTextQuery,
    vector: Any,
    request: TextRequest,
    options: SearchOptions,
) -> DataFrame:
    """The rows that fit a text best, or a text and a vector."""
    table = dataset.table
    here = pin_version(table.snapshot, place)
    if vector is None:
        given = ["vector_column"] if request.vector_column is not None else list(options)
        if given:
            raise InvalidInput(f"{given[0]} is about a query vector, and there is none; give vector=, or leave it out")
        return text_frame(spark, table, here, request.texts(dataset, text))
    return hybrid_frame(spark, table, here, request.both(dataset, text, vector, options))

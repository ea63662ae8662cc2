"""``VECTOR_SEARCH``, a function of SQL whose result is a table (spec spark-sql.md 7.1)::

    SELECT id, _distance FROM VECTOR_SEARCH('/data/pictures.lance', array(0.1, 0.7), 5)
    SELECT * FROM VECTOR_SEARCH(table => 's3://bucket/pictures.lance', query_vector => array(0.1, 0.7),
                                filter => 'likes > 10', prefilter => true)
    SELECT q.id, f.* FROM questions q, LATERAL VECTOR_SEARCH(table => '/data/pictures.lance', query_vector => q.embedding) f

Arguments are named or go by their place, all of them in the same way. They are constants, but for the query: with
``LATERAL`` it may come from the rows of a query. The version is chosen when Spark analyses the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.types import ArrayType, NumericType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from lancelet._api.entry import dataset
from lancelet.errors import InvalidInput, TableNotFound
from lancelet.format.schema import split_path
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.named_tables import NamedTable
from lancelet.spark.options import storage_options
from lancelet.spark.search.request import SearchRequest, result_schema
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancelet._api.scan_options import SearchOptions
    from lancelet.dataset import LanceDataset
    from lancelet.execution.plan import ScanPlan

NAME = "VECTOR_SEARCH"
_QUERY = "query_vector"
_BY_PLACE = ("table", _QUERY, "k")
_OTHERS = {"num_results": "k", "limit": "k"}
"""Other names of arguments."""
_TEXTS = ("table", "vector_column", "filter", "distance_type", "namespace")
_COUNTS = ("k", "offset", "version", "nprobes", "minimum_nprobes", "maximum_nprobes", "ef", "refine_factor")
_BOUNDS = ("lower_bound", "upper_bound")
_FLAGS = ("bypass_vector_index", "fast_search", "prefilter", "with_row_id")
_LISTS = ("columns",)
_MAPS = ("storage_options",)
_KNOWN = (_QUERY, *_TEXTS, *_COUNTS, *_BOUNDS, *_FLAGS, *_LISTS, *_MAPS)
_DEFAULT_K = 10
_ALL = "*"
_WHAT: dict[type, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def register_functions(spark: SparkSession) -> None:
    """Let the SQL of a session search tables: ``VECTOR_SEARCH``, described in ``docs/spark.md``.

    :func:`local_session` does this by itself. The Python that Spark runs needs lancelet; over Spark Connect that is the server's.

    Examples
    --------
    >>> from pathlib import Path
    >>> import lancelet
    >>> import pyarrow as pa
    >>> register_functions(spark)
    >>> uri = str(Path("points.lance").absolute())  # or s3://bucket/points.lance
    >>> vectors = pa.array([[0.0, 0.0], [1.0, 0.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    >>> dataset = lancelet.write_dataset(pa.table({"id": [1, 2, 3], "v": vectors}), uri)
    >>> spark.sql(f"SELECT id, _distance FROM VECTOR_SEARCH('{uri}', array(1, 1), 2)").show()
    +---+---------+
    | id|_distance|
    +---+---------+
    |  2|      1.0|
    |  1|      2.0|
    +---+---------+
    <BLANKLINE>
    """
    from pyspark.sql.functions import udtf

    # Rows are few, and Arrow would ask for pandas.
    function: Any = udtf(VectorSearch, useArrow=False)
    spark.udtf.register(NAME, function)


@dataclass
class Analyzed(AnalyzeResult):
    """What the analysis of a call found out, for those who run it."""

    uri: str = ""
    version: int = 0
    storage: Mapping[str, str] | None = None
    request: SearchRequest | None = None
    options: SearchOptions | None = None
    query: Any = None
    """None: each row has its own."""


class VectorSearch:
    """The rows of a table whose vectors are nearest to a query."""

    def __init__(self, analyzed: Analyzed) -> None:
        self._analyzed = analyzed
        self._dataset: LanceDataset | None = None

    @staticmethod
    @in_a_sentence
    def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> Analyzed:
        """Check the arguments; the columns of the result."""
        given = _named(args, kwargs)
        values = {name: _value(name, argument) for name, argument in given.items() if name != _QUERY}
        for name in ("table", _QUERY):
            if name not in given:
                raise InvalidInput(f"{NAME} needs {name}, which is not given")
        uri, storage = _place(values)
        ds = _open(uri, values.get("version"), storage)
        request, options = _request(values)
        query, shape = _query(given[_QUERY])
        plan = request.plan(ds, query if query is not None else shape, options)
        assert plan.nearest is not None
        if plan.nearest.is_batch and request.offset:
            raise InvalidInput("offset goes with one query, not with several; leave it out, or ask for them one by one")
        return Analyzed(
            result_schema(plan),
            uri=uri,
            version=ds.version,
            storage=storage,
            request=request,
            options=options,
            query=query,
        )

    def eval(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of the result."""
        analyzed = self._analyzed
        query = analyzed.query
        if query is None:
            query = _plain(
                {name.lower(): value for name, value in (*zip(_BY_PLACE, args, strict=False), *kwargs.items())}[_QUERY]
            )
            if query is None:
                return
        with a_task():
            yield from self._rows(query)

    @in_a_sentence
    def _rows(self, query: Any) -> list[tuple[Any, ...]]:
        from lancelet.execution.nearest import NearestScan

        analyzed = self._analyzed
        assert analyzed.request is not None
        assert analyzed.options is not None
        if self._dataset is None:
            self._dataset = _open(analyzed.uri, analyzed.version, analyzed.storage)
        plan: ScanPlan = analyzed.request.plan(self._dataset, query, analyzed.options)
        rows: list[tuple[Any, ...]] = []
        for batch in conformed_batches(NearestScan(self._dataset.table, plan).batches(), arrow_schema(analyzed.schema)):
            rows += zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True)
        return rows


def _named(args: Sequence[AnalyzeArgument], kwargs: Mapping[str, AnalyzeArgument]) -> dict[str, AnalyzeArgument]:
    """Arguments by their names."""
    if args and kwargs:
        raise InvalidInput(
            f"{NAME} does not support mixing arguments with names and without; name all of them, or none"
        )
    if len(args) > len(_BY_PLACE):
        raise InvalidInput(f"{NAME} takes {', '.join(_BY_PLACE)} without names; give the others by name: nprobes => 20")
    found: dict[str, AnalyzeArgument] = dict(zip(_BY_PLACE, args, strict=False))
    for given, argument in kwargs.items():
        name = _OTHERS.get(given.lower(), given.lower())
        if name not in _KNOWN:
            raise InvalidInput(f"{NAME} has no argument '{given}'; it has: {', '.join((*_KNOWN, *_OTHERS))}")
        if name in found:
            raise InvalidInput(f"{NAME} is given {name} twice, as '{given}' too; give it once")
        found[name] = argument
    return found


def _value(name: str, argument: AnalyzeArgument) -> Any:
    """The value of a constant, of the right type."""
    if argument.isTable or not argument.isConstantExpression:
        raise InvalidInput(f"{name} of {NAME} is a constant; only {_QUERY} may come from rows, with LATERAL")
    value = argument.value
    if value is None:
        return None
    if name in _LISTS:
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise InvalidInput(f"{name} of {NAME} is an array of texts, not {value!r}")
        return value
    if name in _MAPS:
        if not isinstance(value, dict) or not all(isinstance(part, str) for pair in value.items() for part in pair):
            raise InvalidInput(f"{name} of {NAME} is a map of texts, not {value!r}")
        return value
    wanted = str if name in _TEXTS else int if name in _COUNTS else float if name in _BOUNDS else bool
    if wanted is float and isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not wanted:
        raise InvalidInput(f"{name} of {NAME} is {_WHAT[wanted]}, not {value!r}")
    return value


def _place(values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Where the table is."""
    uri = values["table"]
    if not uri:
        raise InvalidInput(f"table of {NAME} is the path of a table, not {uri!r}")
    given = {f"storage.{key}": value for key, value in (values.get("storage_options") or {}).items()}
    storage = storage_options(given)
    root = values.get("namespace")
    return (uri if root is None else NamedTable(root, tuple(split_path(uri)), storage).uri()), storage


def _open(uri: str, version: int | None, storage: Mapping[str, str] | None) -> LanceDataset:
    try:
        return dataset(uri, version, storage_options=dict(storage or {}) or None)
    except TableNotFound as error:
        raise TableNotFound(
            uri, f"{error.reason}; {NAME} takes the path of a table, or with namespace => 'folder' its name there"
        ) from None


def _request(values: Mapping[str, Any]) -> tuple[SearchRequest, SearchOptions]:
    columns = values.get("columns")
    k = values.get("k")
    request = SearchRequest(
        values.get("vector_column"),
        _DEFAULT_K if k is None else k,
        filter=values.get("filter"),
        columns=None if columns is None or columns == [_ALL] else columns,
        prefilter=bool(values.get("prefilter")),
        fast_search=bool(values.get("fast_search")),
        with_row_id=bool(values.get("with_row_id")),
        offset=values.get("offset") or 0,
    )
    bounds = (values.get("lower_bound"), values.get("upper_bound"))
    options: SearchOptions = {
        "metric": values.get("distance_type"),
        "nprobes": values.get("nprobes"),
        "minimum_nprobes": values.get("minimum_nprobes"),
        "maximum_nprobes": values.get("maximum_nprobes"),
        "ef": values.get("ef"),
        "refine_factor": values.get("refine_factor"),
        "use_index": not values.get("bypass_vector_index"),
        "distance_range": None if bounds == (None, None) else bounds,
    }
    return request, options


def _query(argument: AnalyzeArgument) -> tuple[Any, Any]:
    """The query, or None where rows have their own; then what makes one of its shape for vectors of some dimension."""
    dtype = argument.dataType
    depth = 0
    while isinstance(dtype, ArrayType):
        dtype, depth = dtype.elementType, depth + 1
    if argument.isTable or depth not in (1, 2) or not isinstance(dtype, NumericType):
        raise InvalidInput(
            f"{_QUERY} of {NAME} is an array of numbers, or an array of such arrays, not {argument.dataType.simpleString()}"
        )
    if argument.isConstantExpression:
        if argument.value is None:
            raise InvalidInput(f"{_QUERY} of {NAME} is null; give a vector")
        return _plain(argument.value), None
    return None, lambda dimension: np.zeros((1,) * (depth - 1) + (dimension,), np.uint8)


def _plain(value: Any) -> Any:
    """Numbers as Python has them: 1.5 is a decimal in SQL."""
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return float(value) if isinstance(value, Decimal) else value

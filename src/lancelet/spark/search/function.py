"""``VECTOR_SEARCH``, ``SEARCH`` and ``HYBRID_SEARCH``, functions of SQL whose results are tables (spec spark-sql.md 7.1)::

    SELECT id, _distance FROM VECTOR_SEARCH('/data/pictures.lance', array(0.1, 0.7), 5)
    SELECT * FROM VECTOR_SEARCH(table => 's3://bucket/pictures.lance', query_vector => array(0.1, 0.7),
                                filter => 'likes > 10', prefilter => true)
    SELECT q.id, f.* FROM questions q, LATERAL VECTOR_SEARCH(table => '/data/pictures.lance', query_vector => q.embedding) f
    SELECT id, _score FROM SEARCH('/data/pictures.lance', 'sunset beach', 5)
    SELECT id, _relevance_score FROM HYBRID_SEARCH('/data/pictures.lance', array(0.1, 0.7), 'sunset beach', 5)

Arguments are named or go by their place, all of them in the same way. They are constants, but for what is looked for: with
``LATERAL`` it may come from the rows of a query. The version is chosen when Spark analyses the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pyspark.sql.functions import udtf
from pyspark.sql.types import ArrayType, NumericType, StringType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from lancelet._api.entry import dataset
from lancelet._api.opening import parse_time
from lancelet.errors import InvalidInput, TableNotFound
from lancelet.execution.hybrid import HybridPlan
from lancelet.execution.opening import open_scan
from lancelet.execution.plan import ScanPlan
from lancelet.format.schema import split_path
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.named_tables import NamedTable
from lancelet.spark.options import TableRef, at_version, storage_options
from lancelet.spark.search.request import SearchRequest, TextRequest, result_schema
from lancelet.spark.sentences import in_a_sentence
from lancelet.spark.types import arrow_schema
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancelet._api.scan_options import SearchOptions
    from lancelet.dataset import LanceDataset

NAME = "VECTOR_SEARCH"
_EXTENSIONS_SETTING, _EXTENSIONS = "spark.sql.extensions", "LanceExtensions"
_VECTOR, _TEXT = "query_vector", "query"
_OTHERS = {"num_results": "k", "limit": "k"}
"""Other names of arguments."""
_TEXTS = ("table", "vector_column", "filter", "distance_type", "namespace", "fusion")
_COUNTS = (
    "k",
    "offset",
    "nprobes",
    "minimum_nprobes",
    "maximum_nprobes",
    "ef",
    "refine_factor",
    "candidates",
)
_NUMBERS = ("lower_bound", "upper_bound", "rrf_k", "weight")
_FLAGS = ("bypass_vector_index", "fast_search", "prefilter", "with_row_id")
_LISTS = ("columns", "search_columns")
_MAPS = ("storage_options",)
_VERSIONS: dict[str, tuple[type, ...]] = {"version": (int, str), "timestamp": (str, datetime)}
"""What chooses a version: a number, or a tag or branch; or a time."""
_OF_TEXTS = frozenset({"search_columns"})
_OF_VECTORS = frozenset(
    [
        "vector_column",
        "distance_type",
        "nprobes",
        "minimum_nprobes",
        "maximum_nprobes",
        "ef",
        "refine_factor",
        "lower_bound",
        "upper_bound",
        "bypass_vector_index",
    ]
)
_OF_BOTH = frozenset({"fusion", "rrf_k", "weight", "candidates"})
_OF_REQUESTS = ("filter", "prefilter", "fast_search", "with_row_id", "offset")
_DEFAULT_K = 10
_ALL = "*"
_WHAT: dict[type, str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class Function:
    """A function and its arguments."""

    name: str
    by_place: tuple[str, ...]
    sought: tuple[str, ...]
    """What is looked for."""
    left_out: frozenset[str]
    """Arguments that other functions have."""

    @property
    def known(self) -> tuple[str, ...]:
        names = (*_TEXTS, *_COUNTS, *_VERSIONS, *_NUMBERS, *_FLAGS, *_LISTS, *_MAPS)
        return (*self.sought, *(name for name in names if name not in self.left_out))

    @property
    def others(self) -> dict[str, str]:
        """Other names of arguments."""
        more = {"search_query": _TEXT} if _TEXT in self.sought else {}
        both = {"num_candidates": "candidates", "candidate_count": "candidates"} if len(self.sought) == 2 else {}
        return {**_OTHERS, **more, **both}


_VECTOR_SEARCH = Function(NAME, ("table", _VECTOR, "k"), (_VECTOR,), _OF_TEXTS | _OF_BOTH)
_SEARCH = Function("SEARCH", ("table", _TEXT, "k"), (_TEXT,), _OF_VECTORS | _OF_BOTH)
_HYBRID_SEARCH = Function("HYBRID_SEARCH", ("table", _VECTOR, _TEXT, "k"), (_VECTOR, _TEXT), frozenset({"prefilter"}))


def register_functions(spark: SparkSession) -> None:
    """Let the SQL of a session search tables: ``VECTOR_SEARCH``, ``SEARCH`` and ``HYBRID_SEARCH``, as in ``docs/spark.md``.

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
    if _EXTENSIONS in (spark.conf.get(_EXTENSIONS_SETTING, "") or ""):
        # The extension has them, and knows names of tables besides.
        return
    # Rows are few, and Arrow would ask for pandas.
    for name, function in FUNCTIONS.items():
        registered: Any = udtf(function, useArrow=False)
        spark.udtf.register(name, registered)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the table is that a name means, and the version that was loaded."""

    uri: str
    version: int
    storage: Mapping[str, str]


@dataclass
class Analyzed(AnalyzeResult):
    """What the analysis of a call found out, for those who run it."""

    uri: str = ""
    version: int = 0
    storage: Mapping[str, str] | None = None
    request: SearchRequest | TextRequest | None = None
    options: SearchOptions | None = None
    sought: dict[str, Any] = field(default_factory=dict)
    """What is looked for; None: each row has its own."""


class _Search:
    """The rows of a table that a search finds."""

    FUNCTION: ClassVar[Function]

    def __init__(self, analyzed: Analyzed) -> None:
        self._analyzed = analyzed
        self._dataset: LanceDataset | None = None

    def eval(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of the result."""
        sought = dict(self._analyzed.sought)
        if None in sought.values():
            others = self.FUNCTION.others
            named = ((others.get(name.lower(), name.lower()), value) for name, value in kwargs.items())
            given = dict((*zip(self.FUNCTION.by_place, args, strict=False), *named))
            sought = {name: _plain(given[name]) if value is None else value for name, value in sought.items()}
            if None in sought.values():
                return
        with a_task():
            yield from self._rows(sought)

    @in_a_sentence
    def _rows(self, sought: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        analyzed = self._analyzed
        assert analyzed.request is not None
        assert analyzed.options is not None
        if self._dataset is None:
            self._dataset = _open(self.FUNCTION, analyzed.uri, analyzed.version, analyzed.storage)
        table = self._dataset.table
        plan = _plan(analyzed.request, self._dataset, sought, analyzed.options)
        found = plan.run(table).to_batches() if isinstance(plan, HybridPlan) else open_scan(table, plan).batches()
        rows: list[tuple[Any, ...]] = []
        for batch in conformed_batches(iter(found), arrow_schema(analyzed.schema)):
            rows += zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True)
        return rows


class VectorSearch(_Search):
    """The rows of a table whose vectors are nearest to a query."""

    FUNCTION = _VECTOR_SEARCH

    @staticmethod
    @in_a_sentence
    def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> Analyzed:
        """Check the arguments; the columns of the result."""
        return _analyzed(_VECTOR_SEARCH, args, kwargs)


class TextSearch(_Search):
    """The rows of a table whose texts fit a query best."""

    FUNCTION = _SEARCH

    @staticmethod
    @in_a_sentence
    def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> Analyzed:
        """Check the arguments; the columns of the result."""
        return _analyzed(_SEARCH, args, kwargs)


class HybridSearch(_Search):
    """The rows of a table that fit a text and a vector best."""

    FUNCTION = _HYBRID_SEARCH

    @staticmethod
    @in_a_sentence
    def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> Analyzed:
        """Check the arguments; the columns of the result."""
        return _analyzed(_HYBRID_SEARCH, args, kwargs)


FUNCTIONS: dict[str, type[_Search]] = {
    search.FUNCTION.name: search for search in (VectorSearch, TextSearch, HybridSearch)
}
"""By their names."""


def at_place(search: type[_Search], place: Place) -> type[_Search]:
    """A function whose table is at a place, whatever it is called."""

    class Placed(search):  # type: ignore[misc, valid-type]
        @staticmethod
        @in_a_sentence
        def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> Analyzed:
            return _analyzed(search.FUNCTION, args, kwargs, place)

    return Placed


def _analyzed(
    function: Function,
    args: Sequence[AnalyzeArgument],
    kwargs: Mapping[str, AnalyzeArgument],
    place: Place | None = None,
) -> Analyzed:
    given = _named(function, args, kwargs)
    values = {name: _value(function, name, value) for name, value in given.items() if name not in function.sought}
    for name in ("table", *function.sought):
        if name not in given:
            raise InvalidInput(f"{function.name} needs {name}, which is not given")
    ds, storage = _opened(function, values, place)
    request, options = _request(function, values)
    sought, shapes = {}, {}
    for name in function.sought:
        sought[name], shapes[name] = _sought(function, name, given[name])
    filled = {name: shapes[name] if value is None else value for name, value in sought.items()}
    plan = _plan(request, ds, filled, options)
    if isinstance(plan, ScanPlan) and plan.nearest is not None and plan.nearest.is_batch and request.offset:
        raise InvalidInput("offset goes with one query, not with several; leave it out, or ask for them one by one")
    return Analyzed(
        result_schema(plan),
        uri=ds.uri,
        version=ds.version,
        storage=storage,
        request=request,
        options=options,
        sought=sought,
    )


def _plan(
    request: SearchRequest | TextRequest, ds: LanceDataset, sought: Mapping[str, Any], options: SearchOptions
) -> ScanPlan | HybridPlan:
    if isinstance(request, SearchRequest):
        return request.plan(ds, sought[_VECTOR], options)
    if _VECTOR not in sought:
        return request.texts(ds, sought[_TEXT])
    return request.both(ds, sought[_TEXT], sought[_VECTOR], options)


def _named(
    function: Function, args: Sequence[AnalyzeArgument], kwargs: Mapping[str, AnalyzeArgument]
) -> dict[str, AnalyzeArgument]:
    """Arguments by their names."""
    if args and kwargs:
        raise InvalidInput(
            f"{function.name} does not support mixing arguments with names and without; name all of them, or none"
        )
    if len(args) > len(function.by_place):
        raise InvalidInput(
            f"{function.name} takes {', '.join(function.by_place)} without names; give the others by name: offset => 20"
        )
    found: dict[str, AnalyzeArgument] = dict(zip(function.by_place, args, strict=False))
    for given, argument in kwargs.items():
        name = function.others.get(given.lower(), given.lower())
        if name not in function.known:
            known = ", ".join((*function.known, *function.others))
            raise InvalidInput(f"{function.name} has no argument '{given}'; it has: {known}")
        if name in found:
            raise InvalidInput(f"{function.name} is given {name} twice, as '{given}' too; give it once")
        found[name] = argument
    return found


def _value(function: Function, name: str, argument: AnalyzeArgument) -> Any:
    """The value of a constant, of the right type."""
    if argument.isTable or not argument.isConstantExpression:
        sought = " and ".join(function.sought)
        raise InvalidInput(f"{name} of {function.name} is a constant; only {sought} may come from rows, with LATERAL")
    value = argument.value
    if value is None:
        return None
    if name in _LISTS:
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise InvalidInput(f"{name} of {function.name} is an array of texts, not {value!r}")
        return value
    if name in _MAPS:
        if not isinstance(value, dict) or not all(isinstance(part, str) for pair in value.items() for part in pair):
            raise InvalidInput(f"{name} of {function.name} is a map of texts, not {value!r}")
        return value
    if name in _VERSIONS:
        if not isinstance(value, _VERSIONS[name]) or isinstance(value, bool):
            kinds = "a number, or the name of a tag or branch" if name == "version" else "a time"
            raise InvalidInput(f"{name} of {function.name} is {kinds}, not {value!r}")
        return value
    wanted = str if name in _TEXTS else int if name in _COUNTS else float if name in _NUMBERS else bool
    if wanted is float and isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not wanted:
        raise InvalidInput(f"{name} of {function.name} is {_WHAT[wanted]}, not {value!r}")
    return value


def _opened(
    function: Function, values: Mapping[str, Any], place: Place | None
) -> tuple[LanceDataset, Mapping[str, str]]:
    """The table at the version that is asked for."""
    ref = TableRef(*_path(function, values)) if place is None else TableRef(place.uri, place.storage, place.version)
    storage = ref.storage_options
    version, moment = values.get("version"), values.get("timestamp")
    if version is not None and moment is not None:
        raise InvalidInput(f"version and timestamp of {function.name} both choose a version; give one of them")
    if version is not None:
        ref = at_version(replace(ref, version=None), str(version), None)
    elif moment is not None:
        ref = replace(ref, version=None, asof=parse_time(moment))
    try:
        found = ref.open()
        return dataset(found.uri, found.version, storage_options=dict(storage) or None), storage
    except TableNotFound as error:
        raise _not_found(function, ref.uri, error) from None


def _path(function: Function, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Where the table is."""
    uri = values["table"]
    if not uri:
        raise InvalidInput(f"table of {function.name} is the path of a table, not {uri!r}")
    given = {f"storage.{key}": value for key, value in (values.get("storage_options") or {}).items()}
    storage = storage_options(given)
    root = values.get("namespace")
    return (uri if root is None else NamedTable(root, tuple(split_path(uri)), storage).uri()), storage


def _open(function: Function, uri: str, version: int, storage: Mapping[str, str] | None) -> LanceDataset:
    try:
        return dataset(uri, version, storage_options=dict(storage or {}) or None)
    except TableNotFound as error:
        raise _not_found(function, uri, error) from None


def _not_found(function: Function, uri: str, error: TableNotFound) -> TableNotFound:
    says = f"{function.name} takes the path of a table, its name in a catalog, or with namespace => 'folder' its name there"
    return TableNotFound(uri, f"{error.reason}; {says}")


def _request(function: Function, values: Mapping[str, Any]) -> tuple[SearchRequest | TextRequest, SearchOptions]:
    columns = values.get("columns")
    k = _DEFAULT_K if values.get("k") is None else values["k"]
    shared = {
        "columns": None if columns == [_ALL] else columns,
        **{name: values[name] for name in _OF_REQUESTS if values.get(name) is not None},
    }
    if _TEXT not in function.sought:
        return SearchRequest(values.get("vector_column"), k, **shared), _options(values)
    more = {name: values[name] for name in ("vector_column", *_OF_BOTH) if values.get(name) is not None}
    return TextRequest(values.get("search_columns"), k=k, **shared, **more), _options(values)


def _options(values: Mapping[str, Any]) -> SearchOptions:
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
    return options


def _sought(function: Function, name: str, argument: AnalyzeArgument) -> tuple[Any, Any]:
    """What is looked for, or None where rows have their own; then what stands for it: any text, or what makes a vector
    of some dimension.
    """
    dtype, depth = argument.dataType, 0
    while isinstance(dtype, ArrayType):
        dtype, depth = dtype.elementType, depth + 1
    if name == _TEXT:
        wanted, one, fits = "a text", "a text", depth == 0 and isinstance(dtype, StringType)
    else:
        wanted, one = "an array of numbers, or an array of such arrays", "a vector"
        fits = depth in (1, 2) and isinstance(dtype, NumericType)
    if argument.isTable or not fits:
        raise InvalidInput(f"{name} of {function.name} is {wanted}, not {argument.dataType.simpleString()}")
    if not argument.isConstantExpression:
        return None, "" if name == _TEXT else lambda dimension: np.zeros((1,) * (depth - 1) + (dimension,), np.uint8)
    if argument.value is None:
        raise InvalidInput(f"{name} of {function.name} is null; give {one}")
    return _plain(argument.value), None


def _plain(value: Any) -> Any:
    """Numbers as Python has them: 1.5 is a decimal in SQL."""
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return float(value) if isinstance(value, Decimal) else value

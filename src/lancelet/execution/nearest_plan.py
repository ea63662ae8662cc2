"""A search for the nearest vectors, as a small picklable value: part of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidType, LanceletError, UnknownColumn
from lancelet.execution.costs import KEPT_PLANS
from lancelet.execution.shown import scan_field
from lancelet.format.schema import join_path, split_path
from lancelet.format.system_columns import DISTANCE, QUERY_INDEX
from lancelet.index.vector.metric import Metric

if TYPE_CHECKING:
    from lancelet.execution.matching_plan import Matching
    from lancelet.format.schema import Field, Schema

_ELEMENTS: Final = {
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.uint8(): "uint8",
    pa.binary(2): "bfloat16",
}
"""Types of elements, and what kernels call them. Two bytes are a bfloat16 where the column says so."""
DEFAULT_COUNT: Final = 10
USUAL_NAME: Final = "vector"


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A column of vectors, or of lists of vectors."""

    path: tuple[str, ...]
    element: str
    """As kernels call it: ``float32``."""
    dimension: int
    is_multi: bool
    """Whether a row has a list of vectors."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def dtype(self) -> np.dtype[Any]:
        """What queries are made of; that of the column, but for bfloat16, which numpy does not know."""
        return np.dtype("float32" if self.element == "bfloat16" else self.element)

    @property
    def default_metric(self) -> Metric:
        return Metric.HAMMING if self.element == "uint8" else Metric.L2

    def field(self, schema: Schema) -> Field:
        """The field of the column."""
        return schema.field_by_path(self.path)

    def read_field(self, schema: Schema) -> Field:
        """The top-level field of the column, pruned to it; the same object each time, by which readers know it again."""
        return _pruned(schema, self.path)

    def check_metric(self, metric: Metric) -> None:
        """Raise when vectors of these elements are not compared so."""
        if (metric is Metric.HAMMING) != (self.element == "uint8"):
            allowed = "hamming" if self.element == "uint8" else "l2, cosine and dot"
            raise InvalidInput(
                f"Distance type {metric.value} does not support the vectors of column '{self.name}', which are of "
                f"{self.element}: use {allowed}"
            )


def vector_column(schema: Schema, name: Any) -> VectorColumn:
    """The column that a search names; in another case of letters too, where no other is meant."""
    if not isinstance(name, str):
        raise InvalidType(f"the column of a search is named by a text, not by {name!r}")
    return _column_named(schema, name)


@lru_cache(KEPT_PLANS)
def _column_named(schema: Schema, name: str) -> VectorColumn:
    try:
        chain = schema.resolve((name,) if name in schema.names else tuple(split_path(name)), any_case=True)
    except UnknownColumn as error:
        raise UnknownColumn(name, error.known) from None
    if any(node.logical_type != "struct" for node in chain[:-1]):
        raise InvalidInput(
            f"column '{name}' goes through a list or map; only fields of structs have a path of their own"
        )
    dtype = scan_field(chain[-1]).type
    is_multi = pa.types.is_list(dtype) or pa.types.is_large_list(dtype)
    vector = dtype.value_type if is_multi else dtype
    if not pa.types.is_fixed_size_list(vector):
        raise InvalidType(f"Query column {name} must be a vector. Got {dtype}: vectors are lists of fixed size.")
    element = _ELEMENTS.get(vector.value_type)
    if element is None or (element == "bfloat16" and not _is_bfloat16(vector.value_field)):
        raise InvalidInput(
            f"column '{name}' has vectors of {vector.value_type}, which are not compared: "
            "elements are float16, bfloat16, float32, float64 or uint8"
        )
    if vector.list_size < 1:
        raise InvalidInput(f"the vectors of column '{name}' have no elements")
    return VectorColumn(tuple(node.name for node in chain), element, vector.list_size, is_multi)


@lru_cache(KEPT_PLANS)
def _pruned(schema: Schema, path: tuple[str, ...]) -> Field:
    (field,) = schema.project([path]).fields
    return field


def choose_vector_column(schema: Schema) -> str:
    """The column that is meant where none is named: ``vector``, or the only one with vectors."""
    able = [join_path([field.name]) for field in schema.fields if has_vectors(schema, field.name)]
    if USUAL_NAME in able:
        return USUAL_NAME
    if len(able) == 1:
        return able[0]
    if not able:
        raise UnknownColumn(USUAL_NAME, schema.names, "the table, nor any other column of vectors")
    raise InvalidInput(f"several columns have vectors: {', '.join(able)}; name the one to search")


def has_vectors(schema: Schema, name: str) -> bool:
    """Whether a top-level column can be searched."""
    try:
        vector_column(schema, join_path([name]))
    except LanceletError:
        return False
    return True


def _is_bfloat16(item: pa.Field) -> bool:
    return (item.metadata or {}).get(b"ARROW:extension:name") == b"lance.bfloat16"


@dataclass(frozen=True, eq=False)
class Nearest:
    """The rows whose vectors are nearest to a query, or to each of several."""

    column: VectorColumn
    queries: npt.NDArray[Any]
    """One row for each query vector, in the type that the column is compared in."""
    is_batch: bool = False
    """Whether each query vector has an answer of its own, with its number in a column of the result."""
    count: int = DEFAULT_COUNT
    metric: Metric | None = None
    """None: that of the index that is asked, or what is usual for the elements."""
    lower: float | None = None
    """Distances in ``[lower, upper)``."""
    upper: float | None = None
    prefilter: bool = False
    """Whether the filter chooses among all rows, and not among the nearest ones."""
    use_index: bool = True
    min_probes: int | None = None
    max_probes: int | None = None
    effort: float | None = None
    refine: int | None = None
    """How many times as many rows an index is asked for, whose vectors are then compared."""
    ef: int | None = None
    approx: str = "normal"
    segments: tuple[str, ...] | None = None
    """The segments of the index that are asked; None: all."""
    text: Matching | None = None
    """Texts that rows have to match as well: before the search with ``prefilter``, otherwise those that it found."""
    parallelism: int = 0
    """How many partitions are looked at side by side, no more than there are cores: -1: as many; 0 and 1: one by one."""

    @property
    def made(self) -> tuple[str, ...]:
        """The columns that the search makes."""
        return (QUERY_INDEX, DISTANCE) if self.is_batch else (DISTANCE,)

    def exact_metric(self) -> Metric:
        """By what vectors are compared when no index says."""
        return self.metric or self.column.default_metric

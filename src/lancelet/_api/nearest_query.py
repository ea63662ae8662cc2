"""A vector search as users ask for it: every argument checked against the column, in pylance's order.

A query vector may be a list or tuple, an array of numpy or pyarrow, a scalar of the column, a tensor of torch, or whatever
numpy makes an array of. Several in one (two dimensions) are a batch, each with an answer of its own; on columns with
several vectors a row they are one query.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import InvalidInput, InvalidType
from lancelet.execution.nearest_plan import DEFAULT_COUNT, Nearest, VectorColumn, vector_column
from lancelet.index.vector.metric import metric_named
from lancelet.index.vector.query import APPROX_MODES

if TYPE_CHECKING:
    from lancelet.format.schema import Schema

_MOST_COUNT = (1 << 63) - 1
_MOST_FLOAT = float(np.finfo(np.float32).max)


class NearestOptions(TypedDict, total=False):
    """What ``nearest`` has in it; see :meth:`ScannerBuilder.nearest`."""

    column: str
    q: Any
    k: int | None
    metric: str | None
    nprobes: int | None
    minimum_nprobes: int | None
    maximum_nprobes: int | None
    refine_factor: int | None
    use_index: bool
    ef: int | None
    query_parallelism: int | None
    approx_mode: str
    distance_range: tuple[float | None, float | None] | None
    search_effort: float | None


def nearest_query(
    schema: Schema,
    column: object,
    q: object,
    *,
    k: object,
    metric: object,
    nprobes: object,
    minimum_nprobes: object,
    maximum_nprobes: object,
    refine_factor: object,
    use_index: bool,
    ef: object,
    query_parallelism: object,
    approx_mode: object,
    distance_range: object,
    search_effort: object,
) -> Nearest:
    """The search, or an error that says which argument makes no sense."""
    values, is_several = _query_values(q)
    vectors = vector_column(schema, column)
    queries = _fitted(vectors, values)
    count = DEFAULT_COUNT if k is None else min(_number("k", k, 1, "Nearest-K must be > 0 but got {}"), _MOST_COUNT)
    probes = None
    if nprobes is not None and search_effort is None:
        probes = _number("nprobes", nprobes, 1, "Nprobes must be > 0 but got {}")
    least = _optional("minimum_nprobes", minimum_nprobes, 0, "Minimum nprobes must be >= 0 but got {}")
    most = _optional("maximum_nprobes", maximum_nprobes, 0, "Maximum nprobes must be >= 0 but got {}")
    if least is not None and most is not None and least > most:
        raise InvalidInput(f"minimum_nprobes must be <= maximum_nprobes, got {least} and {most}")
    refine = _optional("refine_factor", refine_factor, 1, "Refine factor must be 1 or more got {}")
    beam = _optional("ef", ef, 1, "ef must be > 0 but got {}")
    parallelism = 0 if query_parallelism is None else _whole("query_parallelism", query_parallelism)
    if parallelism < -1:
        raise InvalidInput(f"query_parallelism must be >= -1, got {query_parallelism}")
    if approx_mode not in APPROX_MODES:
        raise InvalidInput(f"approx_mode must be one of 'fast', 'normal', or 'accurate', got {approx_mode!r}")
    lower, upper = _range(distance_range)
    chosen = None if metric is None else metric_named(metric)
    if chosen is not None:
        vectors.check_metric(chosen)
    search = Nearest(
        vectors,
        queries,
        is_several and not vectors.is_multi,
        count,
        chosen,
        lower,
        upper,
        use_index=bool(use_index),
        min_probes=least if probes is None else probes,
        max_probes=most if probes is None else probes,
        effort=_effort(search_effort),
        refine=refine,
        ef=beam,
        approx=approx_mode,
        parallelism=parallelism,
    )
    taken = [name for name in search.made if name in schema.names]
    if taken:
        raise InvalidInput(
            f"nearest neighbor search makes a column '{taken[0]}', and the table has one of that name: rename it first"
        )
    return search


def _query_values(q: object) -> tuple[npt.NDArray[Any], bool]:
    """The query vectors as rows of a matrix of numbers, and whether they came as several."""
    array = _array(q)
    if array.size == 0:
        raise InvalidInput("the query vector is empty; give as many numbers as the vectors of the column have")
    if array.ndim not in (1, 2):
        raise InvalidInput(f"a query is a vector, or a list of vectors; this one has {array.ndim} dimensions")
    if array.dtype.kind not in "fiub":
        raise InvalidType(f"a query vector has numbers, not {array.dtype}")
    return (array[None] if array.ndim == 1 else array), array.ndim == 2


def _array(q: Any) -> npt.NDArray[Any]:
    if isinstance(q, pa.Scalar):
        q = q.value if isinstance(q, pa.ExtensionScalar) else q
        if q is None or not q.is_valid:
            raise InvalidType("the query vector is null; give one that has a value")
        values = getattr(q, "values", None)
        if values is None:
            raise InvalidType(f"query vector must be list-like or pa.FloatingPointArray but received {q.type}")
        return _of_arrow(values)
    if isinstance(q, (pa.Array, pa.ChunkedArray)):
        return _of_arrow(q.combine_chunks() if isinstance(q, pa.ChunkedArray) else q)
    if q is None or isinstance(q, (str, bytes)):
        raise InvalidType(
            f"Query vectors should be an array of floats, got {type(q)}; give a list or an array of numbers"
        )
    if isinstance(q, (list, tuple)) and q and isinstance(q[0], (list, tuple, np.ndarray, pa.Array, pa.Scalar)):
        parts = [_array(part) for part in q]
        for part in parts:
            if part.shape != parts[0].shape:
                raise InvalidInput(
                    f"All query vectors must have the same length, but got {parts[0].size} and {part.size}"
                )
        return np.stack(parts)
    if hasattr(q, "detach") and hasattr(q, "cpu"):
        # A tensor of torch, which numpy takes only from the main memory and without gradients.
        q = q.detach().cpu()
        q = q.float() if "bfloat16" in str(q.dtype) else q
    try:
        found = np.asarray(q)
    except (TypeError, ValueError):
        raise InvalidType(
            f"Query vectors should be an array of floats, got {type(q)}; give a list or an array of numbers"
        ) from None
    if found.dtype == object:
        found = _of_objects(q, found)
    if found.dtype.kind in "US":
        raise InvalidInput("a query vector has numbers, not texts")
    return found


def _of_objects(q: object, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if any(value is None for value in found.ravel().tolist()):
        raise InvalidInput("the query vector has a null in it; all of its elements must be numbers")
    try:
        return found.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidType(
            f"Query vectors should be an array of floats, got {type(q)}; give a list or an array of numbers"
        ) from None


def _of_arrow(array: pa.Array) -> npt.NDArray[Any]:
    if isinstance(array, pa.ExtensionArray):
        if array.type.extension_name == "lance.bfloat16":
            return _of_bfloat16(array.storage)
        array = array.storage
    dtype = array.type
    if pa.types.is_fixed_size_list(dtype) or pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        if array.null_count:
            raise InvalidInput("one of the query vectors is null; all of them must have a value")
        parts = [_of_arrow(scalar.values) for scalar in array]
        if len({part.shape for part in parts}) > 1:
            sizes = sorted({part.size for part in parts})
            raise InvalidInput(f"All query vectors must have the same length, but got {sizes[0]} and {sizes[-1]}")
        return np.stack(parts) if parts else np.empty((0, 0))
    if not (pa.types.is_floating(dtype) or pa.types.is_integer(dtype)):
        raise InvalidType(f"query vector must be list-like or pa.FloatingPointArray but received {dtype}")
    if array.null_count:
        raise InvalidInput("the query vector has a null in it; all of its elements must be numbers")
    found: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found


def _of_bfloat16(storage: pa.Array) -> npt.NDArray[Any]:
    if storage.null_count:
        raise InvalidInput("the query vector has a null in it; all of its elements must be numbers")
    bits = np.frombuffer(b"".join(storage.to_pylist()), np.uint16)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _fitted(column: VectorColumn, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Queries in the type that the column is compared in."""
    if values.shape[1] != column.dimension:
        raise InvalidInput(
            f"Query vector size {values.shape[1]} does not match index column size {column.dimension} of "
            f"'{column.name}'; give a vector of {column.dimension} numbers, or a list of such vectors"
        )
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise InvalidInput("the query vector has a NaN in it, to which nothing is near; give numbers only")
    if column.element == "uint8":
        fitted = values.astype(np.uint8)
        if not np.array_equal(fitted, values):
            raise InvalidInput(
                f"column '{column.name}' has vectors of bytes: a query for it has whole numbers from 0 to 255"
            )
        return fitted
    if values.dtype == column.dtype:
        return np.array(values)
    with np.errstate(over="ignore"):
        fitted = values.astype(column.dtype)
    if (np.isinf(fitted) != np.isinf(values)).any():
        raise InvalidInput(
            f"the query has numbers that {column.element} cannot hold, of which column '{column.name}' is"
        )
    return fitted


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidType(f"{name} is a whole number, not {value!r}") from None


def _number(name: str, value: object, least: int, text: str) -> int:
    number = _whole(name, value)
    if number < least:
        raise InvalidInput(text.format(value))
    return number


def _optional(name: str, value: object, least: int, text: str) -> int | None:
    return None if value is None else _number(name, value, least, text)


def _effort(value: object) -> float | None:
    if value is None:
        return None
    effort = _real("search_effort", value)
    if not 0 <= effort <= 1:
        raise InvalidInput(f"search_effort must be finite and in [0, 1], got {value}")
    return effort


def _range(value: Any) -> tuple[float | None, float | None]:
    if value is None:
        return None, None
    try:
        lower, upper = value
    except (TypeError, ValueError):
        raise InvalidInput(f"distance_range must be a tuple of (lower_bound, upper_bound), got {value!r}") from None
    bounds = [None if bound is None else _real("distance_range", bound) for bound in (lower, upper)]
    if any(bound is not None and math.isnan(bound) for bound in bounds):
        raise InvalidInput("a bound of distance_range is NaN; leave it None for no bound")
    lower, upper = bounds
    # Distances are floats, of which the largest comes before infinity.
    return lower, None if upper is None else min(upper, _MOST_FLOAT)


def _real(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise InvalidType(f"{name} has numbers, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidType(f"{name} has numbers, not {value!r}") from None

"""Lists and other things: as text, from text, as ranges of numbers and dates, as vectors."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.array_functions import list_result, numbers
from lancelet.expressions.casting import Datum, cast_datum
from lancelet.expressions.coercion import describe, is_list_like, is_number, value_type
from lancelet.expressions.date_series import bind_dates, counts_dates, run_dates
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.list_parts import Lists, places, put_together, rows_of, take_apart
from lancelet.expressions.signature import (
    Bound,
    Function,
    arity,
    as_array,
    by_distinct,
    coerce,
    list_arg,
    rowwise,
    text_arg,
)
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

_MOST = 2**24


def _bind_to_text(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2, 3)
    kind = value_type(type_of(list_arg(name, args[0])))
    depth = kind
    while is_list_like(depth):
        depth = value_type(depth.value_type)
    if pa.types.is_nested(depth):
        raise InvalidInput(f"{name}() writes lists of plain values, not of {describe(depth)}")
    return [args[0], *(coerce(text_arg(name, arg), pa.string()) for arg in args[1:])], pa.string()


def _run_to_text(args: list[Datum], kind: pa.DataType) -> Datum:
    """Nulls are left out, or written as the third argument says."""
    rows, constant_row = rows_of(args)
    lists = take_apart(args[0], rows)
    while is_list_like(lists.values.type):
        lists = _flattened(lists)
    items = lists.items()
    if pa.types.is_floating(items.type):
        wide = cast_datum(items, pa.float64() if pa.types.is_float64(items.type) else pa.float32(), lenient=False)
        words = by_distinct(_plain_number, [wide], pa.string())
    else:
        words = cast_datum(items, pa.string(), lenient=False)
    separators = as_array(args[1], rows)
    fill = as_array(args[2], rows) if len(args) > 2 else pa.nulls(rows, pa.string())
    words = pc.coalesce(words, fill.take(pa.array(lists.rows())))
    kept = words.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.bincount(lists.rows()[kept], minlength=rows).astype(np.int64)
    valid = lists.valid & separators.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, lengths, 0)
    parts = put_together(words.filter(pa.array(kept & valid[lists.rows()])), lengths, valid, pa.list_(pa.string()))
    result = pc.binary_join(parts, separators)
    return result[0] if constant_row else result


def _plain_number(number: float) -> str:
    """Without an exponent, and without a fraction that is zero."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else str(number)
    plain = format(decimal.Decimal(repr(number)), "f")
    return plain.removesuffix(".0")


def _flattened(lists: Lists) -> Lists:
    """The items of lists of lists, without the lists between."""
    items = lists.items()
    inner = take_apart(items, len(items))
    bounds = np.concatenate(([0], np.cumsum(inner.lengths)))
    ends = np.cumsum(lists.lengths)
    lengths = bounds[ends] - bounds[ends - lists.lengths]
    return Lists(inner.items(), bounds[ends - lists.lengths], lengths, lists.valid)


def _bind_from_text(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2, 3)
    text = text_arg(name, args[0])
    kind = value_type(type_of(text))
    return [text, *(coerce(text_arg(name, arg), pa.string()) for arg in args[1:])], pa.list_(kind)


_NO_NULL = object()


def _split(text: str, separator: str | None, null: str | object | None = _NO_NULL) -> list[str | None]:
    if not text:
        parts: list[str] = []
    elif separator is None:
        parts = list(text)
    else:
        parts = text.split(separator) if separator else [text]
    return [None if part == null else part for part in parts]


def _run_from_text(args: list[Datum], kind: pa.DataType) -> Datum:
    """A null separator takes the text apart into its characters."""
    rows, constant_row = rows_of(args)
    columns = [as_array(arg, rows).to_pylist() for arg in args]
    made = pa.array([None if row[0] is None else _split(*row) for row in zip(*columns, strict=True)], kind)
    return made[0] if constant_row else made


def _bind_range(name: str, args: list[Expr]) -> Bound:
    if counts_dates(args):
        return bind_dates(name, args)
    arity(name, args, 1, 3)
    for arg in args:
        kind = value_type(type_of(arg))
        if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise InvalidInput(f"{name}() counts integers, not {describe(kind)} ({arg})")
    return [coerce(arg, pa.int64()) for arg in args], pa.list_(pa.int64())


def _run_range(inclusive: bool) -> Callable[[list[Datum], pa.DataType], Datum]:
    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        if pa.types.is_temporal(kind.value_type):
            return run_dates(inclusive)(args, kind)
        rows, constant_row = rows_of(args)
        given = [numbers(arg, rows) for arg in args]
        valid = np.all([some for _, some in given], axis=0)
        values = [value for value, _ in given]
        first = values[0] if len(values) > 1 else np.zeros(rows, np.int64)
        last = values[1] if len(values) > 1 else values[0]
        step = values[2] if len(values) > 2 else np.ones(rows, np.int64)
        if np.any(valid & (step == 0)):
            raise InvalidInput("range() and generate_series() take a step other than 0")
        safe = np.where(step == 0, 1, step)
        span = last.astype(object) - first.astype(object)
        counts = [
            max(0, int(gap) // int(by) + 1 if inclusive else -(-int(gap) // int(by)))
            for gap, by in zip(span, safe, strict=True)
        ]
        if any(count > _MOST for count, some in zip(counts, valid, strict=True) if some):
            raise InvalidInput(f"range() and generate_series() make up to {_MOST} numbers")
        lengths = np.where(valid, np.minimum(np.array(counts, dtype=object), _MOST), 0).astype(np.int64)
        flat = np.repeat(first, lengths) + places(lengths) * np.repeat(safe, lengths)
        made = put_together(pa.array(flat, pa.int64()), lengths, valid, kind)
        return made[0] if constant_row else made

    return run


def _vector(name: str, arg: Expr) -> Expr:
    kind = value_type(type_of(list_arg(name, arg)))
    if not is_number(value_type(kind.value_type)):
        raise InvalidInput(f"{name}() takes lists of numbers, not {describe(kind)} ({arg})")
    if pa.types.is_float64(kind.value_type):
        return arg
    return coerce(arg, list_result(pa.float64(), kind))


def _bind_vectors(count: int, result: pa.DataType) -> Callable[[str, list[Expr]], Bound]:
    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, count)
        return [_vector(name, arg) for arg in args], result

    return bind


def _sums(products: Any, rows_of_items: Any, rows: int) -> Any:
    return np.bincount(rows_of_items, weights=products, minlength=rows)


def _run_distance(measure: str) -> Callable[[list[Datum], pa.DataType], Datum]:
    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        rows, constant_row = rows_of(args)
        left, right = (take_apart(arg, rows) for arg in args)
        valid = left.valid & right.valid
        if np.any(valid & (left.lengths != right.lengths)):
            raise InvalidInput(f"{measure}() takes two lists of the same length")
        lengths = np.where(valid, left.lengths, 0)
        sides = [side.values.take(pa.array(side.positions(lengths))) for side in (left, right)]
        owners = np.repeat(np.arange(rows), lengths)
        holes = np.any([side.is_null().to_numpy(zero_copy_only=False) for side in sides], axis=0)
        valid &= _sums(holes.astype(np.float64), owners, rows) == 0
        first, second = (side.fill_null(0).to_numpy(zero_copy_only=False) for side in sides)
        with np.errstate(all="ignore"):
            if measure == "array_distance":
                result = np.sqrt(_sums((first - second) ** 2, owners, rows))
            else:
                result = _sums(first * second, owners, rows)
            if measure == "cosine_distance":
                norms = np.sqrt(_sums(first**2, owners, rows)) * np.sqrt(_sums(second**2, owners, rows))
                valid &= norms != 0
                result = 1 - result / norms
        made = pa.array(result, kind, mask=~valid, from_pandas=False)
        return made[0] if constant_row else made

    return run


def _run_normalize(args: list[Datum], kind: pa.DataType) -> Datum:
    rows, constant_row = rows_of(args)
    lists = take_apart(args[0], rows)
    items = lists.items()
    values = items.fill_null(0).to_numpy(zero_copy_only=False)
    norms = np.sqrt(_sums(values**2, lists.rows(), rows))
    holes = _sums(items.is_null().to_numpy(zero_copy_only=False).astype(np.float64), lists.rows(), rows)
    valid = lists.valid & (holes == 0) & ((norms != 0) | (lists.lengths == 0))
    kept = valid[lists.rows()]
    flat = pa.array(values[kept] / norms[lists.rows()][kept], pa.float64(), from_pandas=False)
    made = put_together(flat, np.where(valid, lists.lengths, 0), valid, kind)
    return made[0] if constant_row else made


def _bind_shape(result: pa.DataType) -> Callable[[str, list[Expr]], Bound]:
    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, 1)
        return [list_arg(name, args[0])], result

    return bind


def _run_ndims(args: list[Datum], kind: pa.DataType) -> Datum:
    return pc.if_else(pc.is_valid(args[0]), pa.scalar(_depth(args[0].type), kind), pa.scalar(None, kind))


def _dims(value: Any, depth: int) -> list[int] | None:
    """The lengths of a list, of its first item, and so on."""
    shape: list[int] = []
    while len(shape) < depth and (not shape or shape[-1]):
        shape.append(0 if value is None else len(value))
        value = value[0] if value else None
    return shape if shape[0] else None


def _depth(kind: pa.DataType) -> int:
    return 1 + _depth(value_type(kind.value_type)) if is_list_like(kind) else 0


def _run_dims(args: list[Datum], kind: pa.DataType) -> Datum:
    depth = _depth(args[0].type)
    return rowwise(lambda value: _dims(value, depth), args, kind)


def _bind_cardinality(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    if pa.types.is_map(value_type(type_of(args[0]))):
        return args, pa.uint64()
    return [list_arg(name, args[0])], pa.uint64()


def _run_cardinality(args: list[Datum], kind: pa.DataType) -> Datum:
    """The number of items; of lists of lists the product of their lengths."""
    if pa.types.is_map(args[0].type):
        rows, constant_row = rows_of(args)
        maps = as_array(args[0], rows)
        lengths = pa.array(np.diff(maps.offsets.to_numpy()), kind)
        lengths = pc.if_else(maps.is_valid(), lengths, pa.scalar(None, kind))
        return lengths[0] if constant_row else lengths
    depth = _depth(args[0].type)
    if depth == 1:
        return pc.list_value_length(args[0]).cast(kind)
    return rowwise(lambda value: math.prod(_dims(value, depth) or [0]), args, kind)


FUNCTIONS: dict[str, Function] = {
    "array_to_string": Function(_bind_to_text, _run_to_text, may_fail=True),
    "string_to_array": Function(_bind_from_text, _run_from_text),
    "range": Function(_bind_range, _run_range(inclusive=False), may_fail=True),
    "generate_series": Function(_bind_range, _run_range(inclusive=True), may_fail=True),
    **{
        name: Function(_bind_vectors(2, pa.float64()), _run_distance(name), may_fail=True)
        for name in ("array_distance", "cosine_distance", "inner_product")
    },
    "array_normalize": Function(_bind_vectors(1, pa.list_(pa.float64())), _run_normalize),
    "cardinality": Function(_bind_cardinality, _run_cardinality),
    "array_ndims": Function(_bind_shape(pa.uint64()), _run_ndims),
    "array_dims": Function(_bind_shape(pa.list_(pa.uint64())), _run_dims),
}

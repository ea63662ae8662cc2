"""JSON: members by their names, values by their paths.

===========================  ======================================================================
json_get(j, key)             a member of an object, or an element of an array, as JSONB
json_get_string, _int,       the same as text, integer, float or truth; null for null, and an error
_float, _bool(j, key)        for what cannot be taken for one
json_extract(j, path)        what a path leads to, as JSON text; several values become an array
json_extract_with_type       the same as JSONB, with a tag for its type
json_exists(j, path)         whether a path leads anywhere
json_array_length(j, path)   elements of the array at a path; 0 for what is no array
json_array_contains          whether the array at a path has an element with some text
===========================  ======================================================================

Paths are those of :mod:`lancelet.encoding.jsonb_paths`. Keys are names, and no paths: ``json_get(j, '$.a')`` looks for a
member that is called ``$.a``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from lancelet.encoding.jsonb_paths import JsonPath, key_path, parse_path
from lancelet.encoding.jsonb_values import Selection, select
from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import describe, is_list_like, value_type
from lancelet.expressions.expr import Column, Expr, Literal, type_of
from lancelet.expressions.signature import Bound, Function, arity, coerce, per_parameters
from lancelet.format.json_fields import ARROW_JSON, STORED_JSON

__all__ = ["FUNCTIONS", "GETTERS", "JSONB", "is_json"]

JSONB: Final = pa.large_binary()
_TYPED: Final = pa.struct([pa.field("value", JSONB), pa.field("type_tag", pa.uint8(), nullable=False)])

GETTERS: Final = {
    "json_get_string": pa.string(),
    "json_get_int": pa.int64(),
    "json_get_float": pa.float64(),
    "json_get_bool": pa.bool_(),
}
"""The functions that take a member as a value, and its type."""


def is_json(column: Column) -> bool:
    """Whether a column holds JSON."""
    return column.extension in (ARROW_JSON, STORED_JSON)


def _json_arg(name: str, arg: Expr) -> Expr:
    """An argument that must be JSON, as it is stored."""
    if isinstance(arg, Column) and is_json(arg):
        return Column(arg.path, JSONB, STORED_JSON)
    kind = value_type(type_of(arg))
    if pa.types.is_null(kind):
        return Literal(None, JSONB)
    if kind != JSONB:
        raise InvalidInput(f"{name}() takes a JSON column, or what json_get() gives, not {describe(kind)} ({arg})")
    return arg


def _text_arg(name: str, arg: Expr) -> Expr:
    kind = value_type(type_of(arg))
    if is_list_like(kind) or pa.types.is_nested(kind):
        raise InvalidInput(f"{name}() takes a text here, not {describe(kind)} ({arg})")
    return coerce(arg, pa.string())


def _bind(kind: pa.DataType, texts: int, is_path: bool, name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1 + texts)
    found = [_text_arg(name, arg) for arg in args[1:]]
    if is_path and isinstance(found[0], Literal) and found[0].value is not None:
        parse_path(str(found[0].value))
    return [_json_arg(name, args[0]), *found], kind


def _run(take: Callable[..., pa.Array], way: Callable[[str], JsonPath], args: list[Datum], kind: pa.DataType) -> Datum:
    def kernel(values: pa.Array, kind: pa.DataType, place: str | None, *others: str | None) -> pa.Array:
        if place is None or None in others:
            return _nothing(len(values), kind)
        return take(select(values, way(place)), values, *others)

    return per_parameters(kernel, args, kind)


def _nothing(count: int, kind: pa.DataType) -> pa.Array:
    if kind != _TYPED:
        return pa.nulls(count, kind)
    return pa.StructArray.from_arrays(
        [pa.nulls(count, JSONB), pa.repeat(pa.scalar(0, pa.uint8()), count)], fields=list(_TYPED)
    )


def _with_type(found: Selection, values: pa.Array) -> pa.Array:
    one = found.one()
    return pa.StructArray.from_arrays([one.stored(), pa.array(one.tags())], fields=list(_TYPED))


def _exists(found: Selection, values: pa.Array) -> pa.Array:
    return pa.array(found.found, mask=values.is_null().to_numpy(zero_copy_only=False))


def _contains(found: Selection, values: pa.Array, wanted: str) -> pa.Array:
    return pa.array(found.arrays_with(wanted), mask=values.is_null().to_numpy(zero_copy_only=False))


def _is_open(args: Sequence[Expr]) -> bool:
    """Whether a path comes from the rows, and may not be one."""
    return not isinstance(args[1], Literal)


def _getter(kind: pa.DataType, take: Callable[[Selection], pa.Array], may_fail: bool = True) -> Function:
    def taken(found: Selection, values: pa.Array) -> pa.Array:
        return take(found)

    return Function(partial(_bind, kind, 1, False), partial(_run, taken, key_path), may_fail)


def _by_path(kind: pa.DataType, take: Callable[..., pa.Array], texts: int = 1) -> Function:
    return Function(partial(_bind, kind, texts, True), partial(_run, take, parse_path), _is_open)


FUNCTIONS: dict[str, Function] = {
    "json_get": _getter(JSONB, Selection.stored, may_fail=False),
    "json_get_string": _getter(GETTERS["json_get_string"], Selection.texts),
    "json_get_int": _getter(GETTERS["json_get_int"], Selection.integers),
    "json_get_float": _getter(GETTERS["json_get_float"], Selection.floats),
    "json_get_bool": _getter(GETTERS["json_get_bool"], Selection.truths),
    "json_extract": _by_path(pa.string(), lambda found, values: found.json()),
    "json_extract_with_type": _by_path(_TYPED, _with_type),
    "json_exists": _by_path(pa.bool_(), _exists),
    "json_array_length": _by_path(pa.int64(), lambda found, values: found.array_sizes()),
    "json_array_contains": _by_path(pa.bool_(), _contains, texts=2),
}

"""How a function is described: what arguments it takes, what type it gives, how it runs.

``bind`` checks the arguments, puts literals into the types that the function
works on, casts what must be cast and says the result's type. ``run`` gets one
Arrow value for each bound argument (a scalar where the argument is constant; at
least one is an array unless the whole call is constant) and returns such a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum, can_cast
from lancelet.expressions.coercion import common_type, describe, is_list_like, is_number, is_text, value_type
from lancelet.expressions.expr import Cast, Expr, Literal, type_of
from lancelet.expressions.literals import place

__all__ = [
    "Bound",
    "Function",
    "arity",
    "as_array",
    "by_distinct",
    "coerce",
    "constant",
    "list_arg",
    "number_arg",
    "per_parameters",
    "rowwise",
    "text_arg",
    "unify",
]

Bound = tuple[list[Expr], pa.DataType]


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the SQL dialect."""

    bind: Callable[[str, list[Expr]], Bound]
    run: Callable[[list[Datum], pa.DataType], Datum]
    may_fail: bool | Callable[[Sequence[Expr]], bool] = False
    """Whether it raises on some values (with these arguments), so that it must not see rows that a guard has excluded."""
    volatile: bool = False
    """Whether each row has its own value, also without arguments; ``run`` gets a null for each row before them."""

    def can_fail(self, args: Sequence[Expr]) -> bool:
        return self.may_fail if isinstance(self.may_fail, bool) else self.may_fail(args)


def arity(name: str, args: Sequence[Expr], least: int, most: int | None = None) -> None:
    """Refuse a wrong number of arguments."""
    most = least if most is None else most
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise InvalidInput(f"{name}() takes {wanted} argument{'s' * (wanted != '1')}, not {len(args)}")


def coerce(expr: Expr, kind: pa.DataType) -> Expr:
    """``expr`` in type ``kind``: a literal is converted now when that loses nothing, anything else is cast."""
    origin = type_of(expr)
    if origin == kind:
        return expr
    if isinstance(expr, Literal):
        if expr.value is None:
            return Literal(None, kind)
        placed = place(expr, kind)
        if placed is not None and placed.exact:
            return Literal(placed.value, kind)
    if not can_cast(origin, kind):
        raise InvalidInput(f"cannot use {describe(origin)} ({expr}) as {describe(kind)}")
    return Cast(expr, kind)


def unify(what: str, args: Sequence[Expr]) -> Bound:
    """All arguments in one common type."""
    kind = value_type(type_of(args[0]))
    for arg in args[1:]:
        common = common_type(kind, type_of(arg))
        if common is None:
            raise InvalidInput(f"{what} mixes {describe(kind)} with {describe(value_type(type_of(arg)))} ({arg})")
        kind = common
    return [coerce(arg, kind) for arg in args], kind


def text_arg(name: str, arg: Expr) -> Expr:
    """An argument that must be text."""
    kind = value_type(type_of(arg))
    if pa.types.is_null(kind):
        return coerce(arg, pa.string())
    if not is_text(kind):
        raise InvalidInput(f"{name}() takes text, not {describe(kind)} ({arg}); CAST({arg} AS STRING) makes it text")
    return arg


def number_arg(name: str, arg: Expr) -> Expr:
    """An argument that must be a number."""
    kind = value_type(type_of(arg))
    if pa.types.is_null(kind):
        return coerce(arg, pa.float64())
    if not is_number(kind):
        raise InvalidInput(f"{name}() takes a number, not {describe(kind)} ({arg})")
    return arg


def list_arg(name: str, arg: Expr) -> Expr:
    """An argument that must be a list."""
    kind = value_type(type_of(arg))
    if not is_list_like(kind):
        raise InvalidInput(f"{name}() takes a list, not {describe(kind)} ({arg})")
    return arg


def constant(name: str, arg: Expr) -> Any:
    """The value of an argument that must be written as a literal."""
    if not isinstance(arg, Literal):
        raise InvalidInput(f"{name}() takes a literal here, not {arg}")
    return arg.value


def as_array(value: Datum, length: int) -> pa.Array:
    if not isinstance(value, pa.Scalar):
        return value
    return pa.repeat(value, length) if length else pa.nulls(0, value.type)  # pyarrow repeats no list zero times


def rowwise(function: Callable[..., object], args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """Apply a Python function to each row; a null argument gives null."""
    lengths = {len(arg) for arg in args if isinstance(arg, pa.Array)}
    if not lengths:
        values = [arg.as_py() for arg in args]
        return pa.scalar(None if None in values else function(*values), kind)
    columns = [as_array(arg, lengths.copy().pop()).to_pylist() for arg in args]
    return pa.array([None if None in row else function(*row) for row in zip(*columns, strict=True)], kind)


def by_distinct(function: Callable[..., object], args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """Like ``rowwise``, but once per distinct first argument when the others are constant."""
    first, *rest = args
    if not isinstance(first, pa.Array) or any(isinstance(arg, pa.Array) for arg in rest):
        return rowwise(function, args, kind)
    constants = [arg.as_py() for arg in rest]
    if None in constants:
        return pa.nulls(len(first), kind)
    encoded = first.dictionary_encode()
    results = [function(value, *constants) for value in encoded.dictionary.to_pylist()]
    return pa.array(results, kind).take(encoded.indices)


def per_parameters(kernel: Callable[..., pa.Array], args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """``kernel(values, kind, *parameters)``, once for each distinct combination of parameters.

    The first argument is the values; the others are given as Python values, None for null.
    """
    values, *params = args
    lengths = {len(arg) for arg in args if isinstance(arg, pa.Array)}
    if not lengths:
        return per_parameters(kernel, [as_array(values, 1), *params], kind)[0]
    rows = lengths.pop()
    values = as_array(values, rows)
    if not any(isinstance(param, pa.Array) for param in params):
        return _typed(kernel(values, kind, *(param.as_py() for param in params)), kind)
    if not rows:
        return pa.array([], kind)
    encoded = [as_array(param, rows).dictionary_encode(null_encoding="encode") for param in params]
    codes = np.stack([column.indices.to_numpy() for column in encoded])
    combinations, group_of = np.unique(codes, axis=1, return_inverse=True)
    group_of = group_of.reshape(-1)
    order = np.argsort(group_of, kind="stable")
    bounds = np.searchsorted(group_of[order], np.arange(combinations.shape[1] + 1))
    results: list[pa.Array] = []
    for number in range(combinations.shape[1]):
        members = pick_rows(values, pa.array(order[bounds[number] : bounds[number + 1]]))
        given = [
            column.dictionary[int(at)].as_py() for column, at in zip(encoded, combinations[:, number], strict=True)
        ]
        results.append(_typed(kernel(members, kind, *given), kind))
    back = np.empty(rows, np.int64)
    back[order] = np.arange(rows)
    return pick_rows(pa.concat_arrays(results), pa.array(back))


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)

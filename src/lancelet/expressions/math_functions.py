"""Functions of numbers beyond arithmetic: hyperbolic ones, angles, divisors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import numpy_type
from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import describe, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.list_parts import rows_of
from lancelet.expressions.signature import Bound, Function, arity, as_array, by_distinct, coerce, number_arg
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]


def _bind_float(name: str, args: list[Expr]) -> Bound:
    """A single float stays one; every other number becomes a double."""
    arity(name, args, 1)
    arg = number_arg(name, args[0])
    kind = pa.float32() if value_type(type_of(arg)) in (pa.float32(), pa.float16()) else pa.float64()
    return [coerce(arg, kind)], kind


def _by_numpy(function: Callable[..., Any]) -> Callable[[list[Datum], pa.DataType], Datum]:
    """Arrow has no kernel for these; numpy works on the values and Arrow keeps the nulls."""

    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        rows, constant_row = rows_of(args)
        arrays = [as_array(arg, rows) for arg in args]
        # Single floats are rounded from doubles: the nearest one, where numpy's own may be the next.
        wide = np.float64 if pa.types.is_floating(kind) else np.int64
        with np.errstate(all="ignore"):
            numbers = function(*(array.fill_null(0).to_numpy(zero_copy_only=False).astype(wide) for array in arrays))
            numbers = numbers.astype(numpy_type(kind))
        missing = np.any([array.is_null().to_numpy(zero_copy_only=False) for array in arrays], axis=0)
        result = pa.array(numbers, kind, mask=missing, from_pandas=False)
        return result[0] if constant_row else result

    return run


def _cot(angles: Floats) -> Floats:
    return 1 / np.tan(angles)


def _bind_pair(name: str, args: list[Expr]) -> Bound:
    """Two floats; single ones unless one is a double."""
    arity(name, args, 2)
    kinds = [value_type(type_of(number_arg(name, arg))) for arg in args]
    if name == "nanvl" and pa.types.is_null(kinds[1]):
        kinds = kinds[:1] * 2
    kind = pa.float64() if pa.float64() in kinds or any(pa.types.is_decimal(each) for each in kinds) else pa.float32()
    return [coerce(arg, kind) for arg in args], kind


def _run_nanvl(args: list[Datum], kind: pa.DataType) -> Datum:
    return pc.if_else(pc.is_nan(args[0]), args[1], args[0])


def _bind_integers(count: int) -> Callable[[str, list[Expr]], Bound]:
    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, count)
        for arg in args:
            kind = value_type(type_of(arg))
            if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
                raise InvalidInput(f"{name}() takes integers, not {describe(kind)} ({arg})")
        return [coerce(arg, pa.int64()) for arg in args], pa.int64()

    return bind


def _factorial(number: int) -> int:
    if not 0 <= number <= 20:
        raise InvalidInput(f"factorial() takes 0 to 20, not {number}: the result must fit into 64 bits")
    return math.factorial(number)


def _divisor(least_common: bool) -> Callable[..., Any]:
    def run(left: Any, right: Any) -> Any:
        result = (np.lcm if least_common else np.gcd)(left, right)
        overflows = result < 0
        if least_common:
            overflows |= (result != 0) & ((result % np.where(left == 0, 1, left) != 0) | (result < np.abs(left)))
        if np.any(overflows):
            raise InvalidInput(f"{'lcm' if least_common else 'gcd'}() overflows 64 bits")
        return result

    return run


def _bind_hex(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    kind = value_type(type_of(args[0]))
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise InvalidInput(f"to_hex() takes an integer, not {describe(kind)} ({args[0]})")
    return [args[0] if not pa.types.is_null(kind) else coerce(args[0], pa.int64())], pa.string()


def _run_hex(args: list[Datum], kind: pa.DataType) -> Datum:
    return by_distinct(lambda number: format(number % 2**64, "x"), args, kind)


_SINGLE: dict[str, Callable[..., Any]] = {
    "acosh": np.arccosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "sinh": np.sinh,
    "tanh": np.tanh,
    "cbrt": np.cbrt,
    "cot": _cot,
    "degrees": np.degrees,
    "radians": np.radians,
}

FUNCTIONS: dict[str, Function] = {
    **{name: Function(_bind_float, _by_numpy(function)) for name, function in _SINGLE.items()},
    "atan2": Function(_bind_pair, _by_numpy(np.arctan2)),
    "nanvl": Function(_bind_pair, _run_nanvl),
    "factorial": Function(_bind_integers(1), lambda args, kind: by_distinct(_factorial, args, kind), may_fail=True),
    "gcd": Function(_bind_integers(2), _by_numpy(_divisor(least_common=False)), may_fail=True),
    "lcm": Function(_bind_integers(2), _by_numpy(_divisor(least_common=True)), may_fail=True),
    "to_hex": Function(_bind_hex, _run_hex),
}

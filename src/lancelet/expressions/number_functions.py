"""Arithmetic, numeric functions, and the functions that choose among values (COALESCE, CASE, ...)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum, cast_datum
from lancelet.expressions.coercion import (
    DAY,
    UNITS,
    arithmetic_type,
    decimal_like,
    decimal_result,
    describe,
    value_type,
)
from lancelet.expressions.comparing import compare
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.list_parts import rows_of
from lancelet.expressions.nested_order import compare_nested, has_order
from lancelet.expressions.signature import Bound, Function, arity, as_array, coerce, constant, number_arg, unify
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "modulo": "%",
    "shift_left": "<<",
    "shift_right": ">>",
    "bit_wise_and": "&",
    "bit_wise_or": "|",
    "bit_wise_xor": "^",
}


def _bind_arithmetic(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    left, right = (value_type(type_of(arg)) for arg in args)
    kind = arithmetic_type(left, right)
    if kind is None:
        return _bind_time_arithmetic(name, args, left, right)
    if name.startswith(("shift", "bit")):
        if not pa.types.is_integer(kind):
            raise InvalidInput(f"{SYMBOLS[name]} works on integers, not on {describe(left)} and {describe(right)}")
    elif pa.types.is_decimal(kind) and pa.types.is_decimal(left) and pa.types.is_decimal(right):
        return args, decimal_result(name, left, right)
    elif pa.types.is_decimal(kind):
        args = [coerce(arg, _own_decimal(value_type(type_of(arg)), kind)) for arg in args]
        return args, decimal_result(name, type_of(args[0]), type_of(args[1]))
    return [coerce(arg, kind) for arg in args], kind


def _own_decimal(kind: pa.DataType, common: pa.DataType) -> pa.DataType:
    return kind if pa.types.is_decimal(kind) else common


def _bind_time_arithmetic(name: str, args: list[Expr], left: pa.DataType, right: pa.DataType) -> Bound:
    """date - date is a number of days, timestamp - timestamp a duration; days shift dates, durations timestamps."""
    if name == "add" and pa.types.is_integer(left) and pa.types.is_date(right):
        return _bind_time_arithmetic(name, args[::-1], right, left)
    if name in ("add", "subtract") and pa.types.is_date(left) and pa.types.is_integer(right):
        return [args[0], coerce(args[1], pa.int64())], left
    is_stamp, is_span = pa.types.is_timestamp, pa.types.is_duration
    if name == "subtract" and pa.types.is_date(left) and pa.types.is_date(right):
        return [coerce(arg, pa.date32()) for arg in args], pa.int64()
    if name == "subtract" and is_stamp(left) and is_stamp(right):
        unit = min(left.unit, right.unit, key=UNITS.index)
        return [coerce(arg, pa.timestamp(unit, type_of(arg).tz)) for arg in args], pa.duration(unit)
    if name in ("add", "subtract") and is_span(left) and is_span(right):
        return unify(SYMBOLS[name], args)
    if name in ("add", "subtract") and is_stamp(left) and is_span(right):
        return [args[0], coerce(args[1], pa.duration(left.unit))], left
    if name == "add" and is_span(left) and is_stamp(right):
        return [args[1], coerce(args[0], pa.duration(right.unit))], right
    raise InvalidInput(f"cannot compute {describe(left)} {SYMBOLS[name]} {describe(right)} ({args[0]}, {args[1]})")


def _run_arithmetic(name: str) -> Callable[[list[Datum], pa.DataType], Datum]:
    kernel = getattr(pc, name)

    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        left, right = args
        if pa.types.is_float16(kind):
            wide = [cast_datum(arg, pa.float32(), lenient=False) for arg in args]
            return cast_datum(kernel(*wide), kind, lenient=False)
        if pa.types.is_date(left.type):
            return _date_arithmetic(name, left, right, kind)
        if pa.types.is_timestamp(left.type) and left.type.tz != getattr(right.type, "tz", left.type.tz):
            args = [cast_datum(arg, pa.timestamp(arg.type.unit), False) for arg in args]
        if name.startswith("shift"):
            return kernel(left, pc.bit_wise_and(right, pa.scalar(kind.bit_width - 1, kind)))
        if name == "divide" and pa.types.is_signed_integer(kind):
            _refuse_overflow(left, right, kind)
        if pa.types.is_decimal(kind):
            return _decimal_arithmetic(name, left, right, kind)
        return kernel(*args)

    return run


def _date_arithmetic(name: str, left: Datum, right: Datum, kind: pa.DataType) -> Datum:
    """In days for date32 and in milliseconds for date64, the units that the types store."""
    if pa.types.is_date64(kind):
        right = pc.multiply(right, DAY * 1000)
    return cast_datum(getattr(pc, name)(*(cast_datum(arg, pa.int64(), False) for arg in (left, right))), kind, False)


def _refuse_overflow(left: Datum, right: Datum, kind: pa.DataType) -> None:
    """The least integer divided by -1 has no result, and pyarrow would answer 0."""
    if isinstance(right, pa.Scalar) and right.as_py() != -1:
        return
    least = -(2 ** (kind.bit_width - 1))
    lost = pc.and_kleene(pc.equal(left, pa.scalar(least, kind)), pc.equal(right, pa.scalar(-1, kind)))
    if (lost if isinstance(lost, pa.Scalar) else pc.any(lost)).as_py():
        raise InvalidInput(f"{least} / -1 overflows {kind}")


def _decimal_arithmetic(name: str, left: Datum, right: Datum, kind: pa.DataType) -> Datum:
    """Compute in 256 bits, where pyarrow's intermediate types have room, then cut to the wanted scale."""
    # Four more digits on the dividend are enough for the quotient's scale.
    extra = 4 if name == "divide" else 0
    left = cast_datum(left, pa.decimal256(left.type.precision + extra, left.type.scale + extra), lenient=False)
    right = cast_datum(right, pa.decimal256(right.type.precision, right.type.scale), lenient=False)
    result = getattr(pc, name)(left, right)
    return result.cast(pa.decimal256(76, kind.scale), safe=False).cast(kind)


def _decimal_modulo(left: Datum, right: Datum, kind: pa.DataType) -> Datum:
    # pyarrow's quotient of two decimals of n digits has 2n + 1 digits, and 76 are the most.
    digits = min(37, kind.scale + max(arg.type.precision - arg.type.scale for arg in (left, right)))
    left, right = (cast_datum(arg, pa.decimal256(digits, kind.scale), lenient=False) for arg in (left, right))
    times = pc.divide(left, right).cast(pa.decimal256(digits, 0), safe=False)
    return pc.subtract(left, pc.multiply(times, right)).cast(kind)


def _run_modulo(args: list[Datum], kind: pa.DataType) -> Datum:
    """The remainder has the sign of the dividend."""
    if pa.types.is_decimal(kind):
        return _decimal_modulo(args[0], args[1], kind)
    if all(isinstance(arg, pa.Scalar) for arg in args):
        return _run_modulo([as_array(args[0], 1), args[1]], kind)[0]
    if pa.types.is_integer(kind) and isinstance(args[1], pa.Scalar) and args[1].is_valid and args[1].as_py():
        return _modulo_of(args[0], args[1], kind)
    length = next(len(arg) for arg in args if isinstance(arg, pa.Array))
    left, right = (as_array(arg, length) for arg in args)
    valid = pc.and_(left.is_valid(), right.is_valid())
    if pa.types.is_integer(kind):
        if pc.any(pc.and_(valid, pc.equal(right, pa.scalar(0, kind)).fill_null(False))).as_py():
            raise InvalidInput("divide by zero in %")
        left, right = left.fill_null(0), right.fill_null(1)
    with np.errstate(all="ignore"):
        numbers = np.fmod(left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False))
    return pa.array(numbers, kind, mask=~valid.to_numpy(zero_copy_only=False), from_pandas=False)


def _modulo_of(values: pa.Array, divisor: pa.Scalar, kind: pa.DataType) -> pa.Array:
    """Remainders by one number that is not 0, as most filters have it."""
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    numbers = (values if mask is None else values.fill_null(0)).to_numpy(zero_copy_only=False)
    return pa.array(remainders(numbers, divisor.as_py()), kind, mask=mask, from_pandas=False)


def remainders(numbers: npt.NDArray[Any], divisor: int) -> npt.NDArray[Any]:
    """Those of whole numbers, by a multiplication: numpy divides by one number several times faster than it finds remainders."""
    size = abs(divisor)
    found: npt.NDArray[Any]
    if size > np.iinfo(numbers.dtype).max:
        found = np.fmod(numbers, numbers.dtype.type(divisor))
        return found
    found = numbers // numbers.dtype.type(size)
    found *= numbers.dtype.type(size)
    np.subtract(numbers, found, out=found)
    if numbers.dtype.kind == "i" and len(numbers) and int(numbers.min()) < 0:
        found[(numbers < 0) & (found != 0)] -= numbers.dtype.type(size)
    return found


def _bind_same(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    arg = number_arg(name, args[0])
    return [arg], value_type(type_of(arg))


def _bind_negate(name: str, args: list[Expr]) -> Bound:
    kind = value_type(type_of(args[0]))
    if pa.types.is_duration(kind):
        return args, kind
    if pa.types.is_unsigned_integer(kind):
        raise InvalidInput(f"cannot negate {kind} ({args[0]}); CAST it to a signed type")
    return _bind_same("-", args)


def _run_negate(args: list[Datum], kind: pa.DataType) -> Datum:
    if pa.types.is_float16(kind):
        return cast_datum(pc.negate(cast_datum(args[0], pa.float32(), False)), kind, False)
    return pc.negate(args[0])


def _float_kind(kind: pa.DataType) -> pa.DataType:
    return pa.float32() if pa.types.is_float32(kind) or pa.types.is_float16(kind) else pa.float64()


def _bind_float(name: str, args: list[Expr]) -> Bound:
    """Floats stay as they are; other numbers become doubles."""
    arity(name, args, 1)
    arg = number_arg(name, args[0])
    kind = _float_kind(value_type(type_of(arg)))
    return [coerce(arg, kind)], kind


def _bind_rounding(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 2 if name in ("round", "trunc") else 1)
    arg = number_arg(name, args[0])
    kind = value_type(type_of(arg))
    digits = [coerce(each, pa.int32()) for each in args[1:]]
    if digits and constant(name, digits[0]) is None:
        raise InvalidInput(f"{name}() takes a number of digits, not NULL")
    if pa.types.is_decimal(kind) and name != "trunc":
        scale = kind.scale if name != "round" else max(0, min(constant(name, digits[0]) if digits else 0, kind.scale))
        return [arg, *digits], decimal_like(kind.precision, scale, kind)
    return [coerce(arg, _float_kind(kind)), *digits], _float_kind(kind)


_MODES = {"round": "half_towards_infinity", "trunc": "towards_zero", "floor": "down", "ceil": "up"}


def _run_rounding(name: str) -> Callable[[list[Datum], pa.DataType], Datum]:
    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        value = args[0]
        digits = args[1].as_py() if len(args) > 1 else 0
        if not pa.types.is_decimal(kind):
            return pc.round(value, ndigits=digits, round_mode=_MODES[name])
        # Rounding can need a digit more than the type has.
        wide = value.cast(pa.decimal256(76, value.type.scale))
        return cast_datum(pc.round(wide, ndigits=digits, round_mode=_MODES[name]), kind, lenient=False)

    return run


def _kernel(function: Callable[[Datum], Datum]) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda args, kind: function(args[0]).cast(kind)


def _bind_power(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    return [coerce(number_arg(name, arg), pa.float64()) for arg in args], pa.float64()


def _bind_log(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 2)
    return [coerce(number_arg(name, arg), pa.float64()) for arg in args], pa.float64()


def _run_log(args: list[Datum], kind: pa.DataType) -> Datum:
    if len(args) == 1:
        return pc.log10(args[0])
    return pc.logb(args[1], args[0])


def _bind_float_test(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    return [number_arg(name, args[0])], pa.bool_()


def _run_iszero(args: list[Datum], kind: pa.DataType) -> Datum:
    return pc.equal(cast_datum(args[0], pa.float64(), False), 0.0)


def _run_isnan(args: list[Datum], kind: pa.DataType) -> Datum:
    if pa.types.is_floating(args[0].type):
        return pc.is_nan(args[0])
    return pc.is_nan(cast_datum(args[0], pa.float64(), False))


def _bind_common(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 1000)
    return unify(f"{name}()", args)


def _bind_ordered(name: str, args: list[Expr]) -> Bound:
    bound, kind = _bind_common(name, args)
    if not has_order(kind):
        raise InvalidInput(f"{name}() compares values that have an order, not {describe(kind)} ({args[0]})")
    return bound, kind


def _bind_pair(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    return _bind_ordered(name, args)


def _run_nullif(args: list[Datum], kind: pa.DataType) -> Datum:
    same = pc.fill_null(compare("=", *args) if pa.types.is_nested(kind) else pc.equal(*args), False)
    return pc.if_else(same, pa.scalar(None, kind), args[0])


def _bind_nvl2(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 3)
    values, kind = unify("nvl2()", args[1:])
    return [args[0], *values], kind


def _nested_extreme(op: str, args: list[Datum]) -> Datum:
    """Of lists and structs. Nulls are passed over; inside of them they lose against values, whichever is wanted."""
    rows, constant_row = rows_of(args)
    best, *others = [as_array(arg, rows) for arg in args]
    for other in others:
        better = pc.fill_null(compare_nested(op, other, best, nulls_last=op == "<"), False)
        chosen = pc.and_(other.is_valid(), pc.or_(best.is_null(), better))
        best = pc.if_else(chosen, other, best)
    return best[0] if constant_row else best


def _run_greatest(args: list[Datum], kind: pa.DataType) -> Datum:
    if pa.types.is_nested(kind):
        return _nested_extreme(">", args)
    result = pc.max_element_wise(*args)
    if not pa.types.is_floating(kind):
        return result
    for arg in args:  # NaN is above every other number
        result = pc.if_else(pc.fill_null(pc.is_nan(arg), False), pa.scalar(math.nan, kind), result)
    return result


def _run_least(args: list[Datum], kind: pa.DataType) -> Datum:
    return _nested_extreme("<", args) if pa.types.is_nested(kind) else pc.min_element_wise(*args)


def _bind_case(name: str, args: list[Expr]) -> Bound:
    """Arguments are condition, value, condition, value, ..., else value."""
    conditions, values = args[:-1:2], [*args[1:-1:2], args[-1]]
    for condition in conditions:
        if not pa.types.is_boolean(type_of(condition)):
            raise InvalidInput(
                f"a WHEN condition must be true or false, not {describe(type_of(condition))} ({condition})"
            )
    values, kind = unify("CASE", values)
    bound = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
    return [*bound, values[-1]], kind


def _run_case(args: list[Datum], kind: pa.DataType) -> Datum:
    length = max((len(arg) for arg in args if isinstance(arg, pa.Array)), default=None)
    conditions = args[:-1:2]
    if length is None:
        chosen = [value for test, value in zip(conditions, args[1:-1:2], strict=True) if test.as_py()]
        return chosen[0] if chosen else args[-1]
    tests = [as_array(condition, length).fill_null(False) for condition in conditions]
    names = [str(index) for index in range(len(tests))]
    return pc.case_when(pa.StructArray.from_arrays(tests, names), *args[1:-1:2], args[-1])


def _bind_bool(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    kind = type_of(args[0])
    if pa.types.is_null(kind):
        return [coerce(args[0], pa.bool_())], pa.bool_()
    if not pa.types.is_boolean(kind):
        raise InvalidInput(f"IS TRUE and IS FALSE test a condition, not {describe(kind)} ({args[0]})")
    return args, pa.bool_()


_MATH = {"sqrt": pc.sqrt, "exp": pc.exp, "ln": pc.ln, "log10": pc.log10, "log2": pc.log2, "sin": pc.sin, "cos": pc.cos}
_MATH |= {"tan": pc.tan, "asin": pc.asin, "acos": pc.acos, "atan": pc.atan, "signum": pc.sign}

FUNCTIONS: dict[str, Function] = {
    **{
        name: Function(_bind_arithmetic, _run_arithmetic(name), may_fail=name == "divide")
        for name in SYMBOLS
        if name != "modulo"
    },
    "modulo": Function(_bind_arithmetic, _run_modulo, may_fail=True),
    "negate": Function(_bind_negate, _run_negate),
    "abs": Function(_bind_same, _kernel(pc.abs_checked), may_fail=True),
    **{name: Function(_bind_rounding, _run_rounding(name), may_fail=True) for name in _MODES},
    **{name: Function(_bind_float, _kernel(kernel)) for name, kernel in _MATH.items()},
    "log": Function(_bind_log, _run_log),
    "power": Function(_bind_power, lambda args, _: pc.power(*args)),
    "isnan": Function(_bind_float_test, _run_isnan),
    "iszero": Function(_bind_float_test, _run_iszero),
    "coalesce": Function(_bind_common, lambda args, _: pc.coalesce(*args)),
    "nullif": Function(_bind_pair, _run_nullif),
    "nvl2": Function(_bind_nvl2, lambda args, _: pc.if_else(pc.is_valid(args[0]), args[1], args[2])),
    "greatest": Function(_bind_ordered, _run_greatest),
    "least": Function(_bind_ordered, _run_least),
    "case": Function(_bind_case, _run_case),
    "is_true": Function(_bind_bool, lambda args, _: pc.fill_null(args[0], False)),
    "is_false": Function(_bind_bool, lambda args, _: pc.fill_null(pc.invert(args[0]), False)),
}

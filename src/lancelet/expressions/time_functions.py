"""Functions on dates, times and timestamps. Values with a time zone show their local clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum, cast_datum
from lancelet.expressions.coercion import DAY, TICKS, describe, is_text, value_type
from lancelet.expressions.expr import Expr, Literal, type_of
from lancelet.expressions.list_parts import rows_of
from lancelet.expressions.literals import truncated
from lancelet.expressions.signature import Bound, Function, arity, as_array, by_distinct, coerce, constant, text_arg
from lancelet.expressions.time_formats import nanoseconds_of
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")


def _sub_second(ticks: int) -> Callable[[Datum], Datum]:
    """Seconds and their fraction, counted in ticks."""

    def part(value: Datum) -> Datum:
        fraction = pc.multiply(pc.subsecond(value), ticks)
        return pc.add(pc.multiply(pc.second(value), ticks), pc.floor(pc.add(fraction, 1e-6)).cast(pa.int64()))

    return part


_PARTS: dict[str, Callable[[Datum], Datum]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "isoyear": pc.iso_year,
    "day": pc.day,
    "dow": lambda value: pc.day_of_week(value, count_from_zero=True, week_start=7),
    "isodow": lambda value: pc.day_of_week(value, count_from_zero=False, week_start=1),
    "doy": pc.day_of_year,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "millisecond": _sub_second(10**3),
    "microsecond": _sub_second(10**6),
    "nanosecond": _sub_second(10**9),
}
_TOO_LARGE = 2.0**63
_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond", "nanosecond", "epoch")


def _part_name(name: str, arg: Expr) -> str:
    part = str(constant(name, arg)).lower()
    singular = part[:-1] if part.endswith("s") and part[:-1] in _PARTS else part
    if singular not in _PARTS and singular != "epoch":
        raise InvalidInput(f"{name}() knows no part {part!r}; it knows {', '.join(_PARTS)} and epoch")
    return singular


def _bind_part(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    part = _part_name(name, args[0])
    kind = value_type(type_of(args[1]))
    value = args[1]
    if is_text(kind):
        value, kind = coerce(value, pa.timestamp("ns")), pa.timestamp("ns")
    fits = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or (pa.types.is_time(kind) and part in _CLOCK)
    if not fits:
        raise InvalidInput(f"{name}() cannot take the {part} of {describe(kind)} ({args[1]})")
    wide = {"epoch": pa.float64(), "nanosecond": pa.int64()}
    return [Literal(part, pa.string()), value], wide.get(part, pa.int32())


def _run_part(args: list[Datum], kind: pa.DataType) -> Datum:
    part, value = args[0].as_py(), args[1]
    if part == "epoch":
        return _epoch(value)
    if pa.types.is_date(value.type) and part in _CLOCK:
        value = cast_datum(value, pa.timestamp("s"), lenient=False)
    return _PARTS[part](value).cast(kind)


def _epoch(value: Datum) -> Datum:
    """Seconds since 1970, or since midnight for a time."""
    if pa.types.is_date32(value.type):
        value = cast_datum(value, pa.timestamp("s"), lenient=False)
    ticks = TICKS["ms"] if pa.types.is_date64(value.type) else TICKS[value.type.unit]
    return pc.divide(cast_datum(cast_datum(value, pa.int64(), False), pa.float64(), False), float(ticks))


def _bind_trunc(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    unit = str(constant(name, args[0])).lower()
    if unit not in _UNITS:
        raise InvalidInput(f"{name}() knows no unit {unit!r}; it knows {', '.join(_UNITS)}")
    kind = value_type(type_of(args[1]))
    value = args[1]
    if pa.types.is_date(kind) or is_text(kind):
        value, kind = coerce(value, pa.timestamp("ns")), pa.timestamp("ns")
    if not pa.types.is_timestamp(kind):
        raise InvalidInput(f"{name}() takes a date or a timestamp, not {describe(kind)} ({args[1]})")
    return [Literal(unit, pa.string()), value], kind


def _run_trunc(args: list[Datum], kind: pa.DataType) -> Datum:
    return pc.floor_temporal(args[1], multiple=1, unit=args[0].as_py()).cast(kind)


def _bind_cast(kind: pa.DataType, counts_in: str | None = None) -> Callable[[str, list[Expr]], Bound]:
    """Text is parsed, in one of the formats behind it if there are some; a number counts units since 1970."""

    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, 1, 1 if pa.types.is_time(kind) else 100)
        origin = value_type(type_of(args[0]))
        if len(args) > 1 and is_text(origin):
            return [coerce(text_arg(name, arg), pa.string()) for arg in args], kind
        args = args[:1]
        if pa.types.is_integer(origin) and counts_in is not None:
            return [coerce(coerce(args[0], pa.int64()), pa.timestamp(counts_in))], kind
        if counts_in is not None and (pa.types.is_decimal(origin) or pa.types.is_floating(origin)):
            return [coerce(args[0], pa.float64())], kind
        return [args[0]], kind

    return bind


def _run_cast(counts_in: str | None = None) -> Callable[[list[Datum], pa.DataType], Datum]:
    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        if len(args) > 1:
            return _parsed(args, kind)
        if counts_in is None or not pa.types.is_floating(args[0].type):
            return cast_datum(args[0], kind, lenient=False)
        rows, constant_row = rows_of(args)
        counts = as_array(args[0], rows)
        units = counts.fill_null(0).to_numpy(zero_copy_only=False)
        scale = TICKS[kind.unit] // TICKS[counts_in]
        if scale == 1 and not np.all(np.abs(units) < _TOO_LARGE):
            raise InvalidInput(f"of the numbers some are no {kind}: NaN, infinite or too large")
        with np.errstate(over="ignore"):
            ticks = _saturated(units * scale)
        result = pa.array(ticks, mask=counts.is_null().to_numpy(zero_copy_only=False)).view(kind)
        return result[0] if constant_row else result

    return run


def _parsed(args: list[Datum], kind: pa.DataType) -> Datum:
    days = pa.types.is_date(kind)
    tick = DAY * 10**9 if days else 10**9 // TICKS[kind.unit]

    def parse(text: str, *forms: str) -> int:
        moment = nanoseconds_of(text, *forms)
        ticks = moment // tick if days else truncated(moment, tick)
        if not -(2**63) <= ticks < 2**63:
            raise InvalidInput(f"{text!r} is too far from 1970 for {kind}")
        return ticks

    return by_distinct(parse, args, pa.int32() if days else pa.int64()).cast(kind)


def _saturated(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Cut off at the point; NaN is 0, and what is too large the largest."""
    most = np.iinfo(np.int64)
    inside = np.nan_to_num(numbers, nan=0.0, posinf=_TOO_LARGE, neginf=-_TOO_LARGE)
    whole = np.where(np.abs(inside) < _TOO_LARGE, inside, 0.0).astype(np.int64)
    whole[inside >= _TOO_LARGE] = most.max
    whole[inside <= -_TOO_LARGE] = most.min
    return whole


FUNCTIONS: dict[str, Function] = {
    "date_part": Function(_bind_part, _run_part),
    "date_trunc": Function(_bind_trunc, _run_trunc),
    "to_time": Function(_bind_cast(pa.time64("ns")), _run_cast(), may_fail=True),
    "to_date": Function(_bind_cast(pa.date32()), _run_cast(), may_fail=True),
    "to_timestamp": Function(_bind_cast(pa.timestamp("ns"), "s"), _run_cast("s"), may_fail=True),
    **{
        f"to_timestamp_{name}": Function(_bind_cast(pa.timestamp(unit), unit), _run_cast(unit), may_fail=True)
        for name, unit in (("seconds", "s"), ("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}

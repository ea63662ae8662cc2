"""Dates and times made of numbers, turned into numbers and text, and put into bins."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.casting import Datum, cast_datum
from lancelet.expressions.coercion import DAY, TICKS, describe, is_text, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.list_parts import rows_of
from lancelet.expressions.literals import truncated
from lancelet.expressions.signature import (
    Bound,
    Function,
    arity,
    as_array,
    coerce,
    constant,
    per_parameters,
    rowwise,
    text_arg,
)
from lancelet.runtime import compute as pc

__all__ = ["FUNCTIONS"]

_EPOCH = dt.date(1970, 1, 1).toordinal()


def _bind_to_unix(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    kind = value_type(type_of(args[0]))
    if is_text(kind):
        return [coerce(args[0], pa.timestamp("s"))], pa.int64()
    if pa.types.is_integer(kind):
        return [coerce(args[0], pa.int64())], pa.int64()
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidInput(f"{name}() takes a date or a timestamp, not {describe(kind)} ({args[0]})")
    return args, pa.int64()


def _run_to_unix(args: list[Datum], kind: pa.DataType) -> Datum:
    value = args[0]
    if pa.types.is_integer(value.type):
        return value
    if pa.types.is_date(value.type):
        value = cast_datum(value, pa.timestamp("s"), lenient=False)
    return cast_datum(cast_datum(value, pa.timestamp("s", value.type.tz), lenient=False), kind, lenient=False)


def _bind_from_unix(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1, 2)
    kind = value_type(type_of(args[0]))
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise InvalidInput(f"{name}() takes seconds since 1970, not {describe(kind)} ({args[0]})")
    zone = constant(name, args[1]) if len(args) > 1 else None
    if len(args) > 1 and not isinstance(zone, str):
        raise InvalidInput(f"{name}() takes the name of a time zone, not {args[1]}")
    return [coerce(args[0], pa.int64()), *args[1:]], pa.timestamp("s", zone)


def _run_from_unix(args: list[Datum], kind: pa.DataType) -> Datum:
    return args[0].cast(kind)


def _bind_parts(count: int, kind: pa.DataType) -> Callable[[str, list[Expr]], Bound]:
    def bind(name: str, args: list[Expr]) -> Bound:
        arity(name, args, count)
        return [coerce(arg, pa.int32()) for arg in args], kind

    return bind


def _date(year: int, month: int, day: int) -> int:
    try:
        return dt.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        raise InvalidInput(f"make_date() knows no day {year}-{month}-{day}") from None


def _time(hour: int, minute: int, second: int) -> int:
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        raise InvalidInput(f"make_time() knows no time {hour}:{minute}:{second}")
    return (hour * 60 + minute) * 60 + second


def _run_parts(function: Callable[..., int]) -> Callable[[list[Datum], pa.DataType], Datum]:
    return lambda args, kind: rowwise(function, args, pa.int32()).cast(kind)


def _bind_local(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 1)
    kind = value_type(type_of(args[0]))
    if not pa.types.is_timestamp(kind):
        raise InvalidInput(f"{name}() takes a timestamp, not {describe(kind)} ({args[0]})")
    return args, pa.timestamp(kind.unit)


def _run_local(args: list[Datum], kind: pa.DataType) -> Datum:
    return args[0] if args[0].type.tz is None else pc.local_timestamp(args[0])


# Those of chrono's codes that mean the same to Arrow, and fractions of a second, which it writes in another way.
_CODE = re.compile(r"%(?:[YCymdejHIMSpABabhuwDFTRn%t]|(?P<dot>\.?)(?P<digits>[369]?)f)")
_CLOCK = frozenset("HIMSpTRn%tf")


def _bind_char(name: str, args: list[Expr]) -> Bound:
    arity(name, args, 2)
    kind = value_type(type_of(args[0]))
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)):
        raise InvalidInput(f"{name}() takes a date, a time or a timestamp, not {describe(kind)} ({args[0]})")
    return [args[0], coerce(text_arg(name, args[1]), pa.string())], pa.string()


def _char(values: pa.Array, kind: pa.DataType, form: str | None) -> pa.Array:
    if form is None:
        return pa.nulls(len(values), kind)
    if "%" in _CODE.sub("", form):
        raise InvalidInput(
            f"to_char() does not know what {form!r} asks for; it knows %Y %m %d %H %M %S %f %j %a %b ..."
        )
    if pa.types.is_time(values.type):
        if any(code[0][-1] not in _CLOCK for code in _CODE.finditer(form)):
            raise InvalidInput(f"to_char() of a time cannot show the date that {form!r} asks for")
        integers = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
        values = values.view(integers).cast(pa.int64()).view(pa.timestamp(values.type.unit))
    if pa.types.is_date(values.type):
        values = cast_datum(values, pa.timestamp("s"), lenient=False)
    # Without fractions, which Arrow would write behind the seconds.
    whole = pc.floor_temporal(values, unit="second").cast(pa.timestamp("s", values.type.tz))
    pieces: list[pa.Array] = []
    at = 0
    for code in _CODE.finditer(form):
        if code["dot"] is None:
            continue
        pieces += [pc.strftime(whole, format=form[at : code.start()], locale="C"), _fraction(values, *code.groups())]
        at = code.end()
    pieces.append(pc.strftime(whole, format=form[at:], locale="C"))
    return pc.binary_join_element_wise(*pieces, pa.scalar("", pa.string()))


def _fraction(values: pa.Array, dot: str, digits: str) -> pa.Array:
    """The fraction of a second in so many digits; behind a dot alone as many as it takes, in threes."""
    ticks = TICKS[values.type.unit]
    counts = values.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    nanoseconds = counts % ticks * (10**9 // ticks)
    mask = values.is_null().to_numpy(zero_copy_only=False)
    nine = pc.utf8_lpad(pa.array(nanoseconds, mask=mask).cast(pa.string()), width=9, padding="0")
    if digits or not dot:
        return pc.binary_join_element_wise(dot, pc.utf8_slice_codeunits(nine, 0, int(digits or 9)), "")
    short = pc.replace_substring_regex(nine, "(000)+$", "")
    return pc.if_else(pc.equal(short, ""), short, pc.binary_join_element_wise(".", short, ""))


_UNIT = re.compile(r"\s*([+-]?\d+)\s*([A-Za-z]+)\s*")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY}
_FRACTIONS = {"millisecond": 10**6, "microsecond": 10**3, "nanosecond": 1}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SHORT = {"sec": "second", "min": "minute", "mon": "month", "hr": "hour", "s": "second", "m": "minute", "h": "hour"}


def interval_parts(text: str) -> tuple[int, int]:
    """The months and the nanoseconds of an interval such as ``1 day 12 hours``."""
    at, months, total = 0, 0, 0
    while at < len(text):
        match = _UNIT.match(text, at)
        if match is None:
            raise InvalidInput(f"{text!r} is no interval; an example is '1 day 12 hours'")
        word = match[2].lower().removesuffix("s") if len(match[2]) > 1 else match[2].lower()
        word = _SHORT.get(word, word)
        if word in _MONTHS:
            months += int(match[1]) * _MONTHS[word]
        elif word in _SECONDS or word in _FRACTIONS:
            total += int(match[1]) * (_SECONDS.get(word, 0) * 10**9 or _FRACTIONS[word])
        else:
            units = ", ".join((*_MONTHS, *_SECONDS, *_FRACTIONS))
            raise InvalidInput(f"{match[2]!r} is no unit of time; they are {units}")
        at = match.end()
    return months, total


def _bind_bin(name: str, args: list[Expr]) -> Bound:
    """date_bin(interval, timestamp[, origin])."""
    arity(name, args, 2, 3)
    months, stride = interval_parts(str(constant(name, args[0])))
    kind = value_type(type_of(args[1]))
    value = args[1]
    if pa.types.is_date(kind) or is_text(kind) or pa.types.is_null(kind):
        value, kind = coerce(value, pa.timestamp("ns")), pa.timestamp("ns")
    if not pa.types.is_timestamp(kind):
        raise InvalidInput(f"{name}() takes a date or a timestamp, not {describe(kind)} ({args[1]})")
    if kind.tz is not None:
        kind = pa.timestamp("ns", kind.tz)
        value = coerce(value, kind)
    if months and stride:
        raise InvalidInput(f"date_bin() takes months or a fixed length, not both as in {args[0]}")
    if max(months, stride) <= 0 or stride % (10**9 // TICKS[kind.unit]):
        raise InvalidInput(f"date_bin() takes a length above zero that {kind} can tell, not {args[0]}")
    origin = coerce(args[2], pa.timestamp("ns")) if len(args) > 2 else None
    if origin is not None:
        constant(name, origin)
    return [args[0], value, *([origin] if origin is not None else [])], kind


def _run_bin(args: list[Datum], kind: pa.DataType) -> Datum:
    rows, constant_row = rows_of(args[1:2])
    tick = 10**9 // TICKS[kind.unit]
    months, stride = interval_parts(args[0].as_py())
    if len(args) > 2 and not args[2].is_valid:
        return pa.scalar(None, kind) if constant_row else pa.nulls(rows, kind)
    origin = truncated(args[2].value, tick) if len(args) > 2 else 0
    values = as_array(args[1], rows)
    ticks = values.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if months:
        bins = _bins_of_months(ticks, origin, months, kind.unit)
    else:
        bins = origin + (ticks - origin) // (stride // tick) * (stride // tick)
    result = pa.array(bins, pa.int64(), mask=values.is_null().to_numpy(zero_copy_only=False)).view(kind)
    return result[0] if constant_row else result


def _bins_of_months(ticks: npt.NDArray[np.int64], origin: int, months: int, unit: str) -> npt.NDArray[np.int64]:
    """Bins begin at the day of the origin, or the last of months that have no such day."""
    day = DAY * TICKS[unit]
    first = int(np.array(origin, f"datetime64[{unit}]").astype("datetime64[M]").astype(np.int64))
    first_day = int(np.array(first, "datetime64[M]").astype("datetime64[D]").astype(np.int64))
    days, clock = divmod(origin - first_day * day, day)
    months_of = ticks.view(f"datetime64[{unit}]").astype("datetime64[M]").astype(np.int64)

    def begins(month: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        start = month.view("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        after = (month + 1).view("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        begun: npt.NDArray[np.int64] = (start + np.minimum(days, after - start - 1)) * day + clock
        return begun

    month = first + (months_of - first) // months * months
    bins = begins(month)
    late = bins > ticks
    bins[late] = begins(month[late] - months)
    return bins


FUNCTIONS: dict[str, Function] = {
    "to_unixtime": Function(_bind_to_unix, _run_to_unix, may_fail=True),
    "from_unixtime": Function(_bind_from_unix, _run_from_unix, may_fail=True),
    "make_date": Function(_bind_parts(3, pa.date32()), _run_parts(_date), may_fail=True),
    "make_time": Function(_bind_parts(3, pa.time32("s")), _run_parts(_time), may_fail=True),
    "to_local_time": Function(_bind_local, _run_local),
    "to_char": Function(_bind_char, lambda args, kind: per_parameters(_char, args, kind), may_fail=True),
    "date_bin": Function(_bind_bin, _run_bin),
}

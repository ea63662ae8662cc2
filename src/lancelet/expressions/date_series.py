"""Ranges of dates and timestamps: ``range(DATE '2024-01-01', DATE '2024-06-01', INTERVAL '1 month')``.

Each step is made from the one before it: the month after January 31 is February 29, and the one after that March 29.
``range`` has all that come before the last value; pylance's, of dates, stops one step early where that is not met exactly.
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.expressions.calendar_functions import interval_parts
from lancelet.expressions.casting import Datum
from lancelet.expressions.coercion import DAY, describe, is_text, value_type
from lancelet.expressions.expr import Expr, type_of
from lancelet.expressions.signature import Bound, arity, coerce, constant, rowwise

__all__ = ["bind_dates", "counts_dates", "run_dates"]

_DAY = DAY * 10**9
_EPOCH = dt.date(1970, 1, 1).toordinal()
_MOST = 2**20


def counts_dates(args: list[Expr]) -> bool:
    """Whether a range begins with a date or a timestamp."""
    kind = value_type(type_of(args[0])) if args else pa.null()
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def bind_dates(name: str, args: list[Expr]) -> Bound:
    """``args`` are the first value, the last one and the text of an interval."""
    arity(name, args, 3)
    first, last = (value_type(type_of(arg)) for arg in args[:2])
    kind = pa.date32() if pa.types.is_date(first) else pa.timestamp("ns")
    fits = last == first or pa.types.is_null(last) or is_text(last) or pa.types.is_date(last) == pa.types.is_date(first)
    if getattr(first, "tz", None) is not None or getattr(last, "tz", None) is not None or not fits:
        raise InvalidInput(
            f"{name}() counts dates, or timestamps without a time zone, not {describe(first)} to {describe(last)}"
        )
    step = constant(name, args[2])
    if not isinstance(step, str):
        raise InvalidInput(f"{name}() of dates takes an interval as its step, as in INTERVAL '1 day', not {args[2]}")
    months, nanoseconds = interval_parts(step)
    if months * nanoseconds < 0 or not (months or nanoseconds):
        raise InvalidInput(f"{name}() takes a step that leads somewhere, not {step!r}")
    if pa.types.is_date(kind) and nanoseconds % _DAY:
        raise InvalidInput(f"{name}() of dates takes steps of whole days, not {step!r}")
    return [coerce(args[0], kind), coerce(args[1], kind), args[2]], pa.list_(kind)


def run_dates(inclusive: bool) -> Callable[[list[Datum], pa.DataType], Datum]:
    def run(args: list[Datum], kind: pa.DataType) -> Datum:
        days = pa.types.is_date(kind.value_type)
        integers, scale = (pa.int32(), _DAY) if days else (pa.int64(), 1)

        def series(first: int, last: int, step: str) -> list[int]:
            return [moment // scale for moment in _series(first * scale, last * scale, step, inclusive)]

        counts = rowwise(series, [args[0].cast(integers), args[1].cast(integers), args[2]], pa.list_(integers))
        return counts.cast(kind)

    return run


def _series(first: int, last: int, step: str, inclusive: bool) -> list[int]:
    months, nanoseconds = interval_parts(step)
    forwards = months + nanoseconds > 0
    moments: list[int] = []
    while (first < last if forwards else first > last) or (inclusive and first == last):
        if len(moments) == _MOST:
            raise InvalidInput(f"range() and generate_series() make up to {_MOST} dates")
        moments.append(first)
        first = _later(first, months) + nanoseconds
    return moments


def _later(moment: int, months: int) -> int:
    """So many months later, or on the last day of a month that is too short."""
    if not months:
        return moment
    days, clock = divmod(moment, _DAY)
    date = dt.date.fromordinal(days + _EPOCH)
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        raise InvalidInput(f"range() and generate_series() know the years {dt.MINYEAR} to {dt.MAXYEAR}")
    day = min(date.day, calendar.monthrange(year, month + 1)[1])
    return (dt.date(year, month + 1, day).toordinal() - _EPOCH) * _DAY + clock

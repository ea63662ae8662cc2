"""Constants: reading them from text, and putting one into another type's domain.

A column is never cast to meet a literal. The literal goes into the column's
type instead; where that type has no such value, the nearest one below it gives
the same answer to every comparison (``place``)::

    int8 column   x > 1.5    is   x > 1           1 is the greatest int8 below 1.5
                  x = 1.5    is   never true
                  x < 300    is   always true     300 is above every int8
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import arrow_scalar, numpy_type
from lancelet.errors import InvalidInput
from lancelet.expressions.coercion import DAY, TICKS, is_bytes, is_list_like, is_number, is_text
from lancelet.expressions.expr import Literal
from lancelet.runtime import compute as pc

__all__ = ["Placed", "number_from_text", "parse_text", "place", "to_scalar"]

# Wide enough for decimal256 and for the exact value of any double.
_EXACT = decimal.Context(prec=1100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})|(\d{4})(\d\d)(\d\d)")
_TIMESTAMP = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<time>\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?)"
    r"(?:\s?(?P<zone>Z|z|[+-]\d\d(?::?\d\d)?)|\s(?P<name>[A-Za-z][\w+\-/]*))?)?"
)
_TIME = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")
_EPOCH = dt.date(1970, 1, 1).toordinal()
_WORDS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "off", "0"), False
)


def to_scalar(literal: Literal) -> pa.Scalar:
    """The Arrow scalar of a literal."""
    value, kind = literal.value, literal.type
    if isinstance(value, float) and pa.types.is_float16(kind):
        value = np.float16(value)
    if isinstance(value, tuple):
        # A null stays None: pyarrow cannot put a null list into a list of lists.
        items = [None if item is None else to_scalar(Literal(item, kind.value_type)) for item in value]
        return pa.scalar(items, kind)
    return arrow_scalar(value, kind)


def number_from_text(text: str) -> Literal:
    """A number as it is written in SQL: int64, else uint64, else double."""
    if text.isdigit():
        value = int(text)
        if value < 2**63:
            return Literal(value, pa.int64())
        if value < 2**64:
            return Literal(value, pa.uint64())
    return Literal(float(text), pa.float64())


def parse_text(text: str, kind: pa.DataType) -> object:
    """The storage value that ``text`` spells in ``kind``; ValueError when it spells none."""
    if pa.types.is_boolean(kind):
        word = _WORDS.get(text.lower())
        if word is None:
            raise ValueError
        return word
    if pa.types.is_integer(kind):
        if not _INTEGER.fullmatch(text):
            raise ValueError
        return _in_range(int(text), kind)
    if pa.types.is_floating(kind):
        if not _FLOAT.fullmatch(text):
            raise ValueError
        return float(_rounded(float(text), kind))
    if pa.types.is_decimal(kind):
        return _decimal_from_text(text, kind)
    if pa.types.is_date(kind):
        days = _date_from_text(text)
        return days if pa.types.is_date32(kind) else days * DAY * 1000
    if pa.types.is_timestamp(kind):
        return _timestamp_from_text(text, kind)
    if pa.types.is_time(kind):
        return _time_from_text(text) * TICKS[kind.unit] // TICKS["ns"]
    if is_bytes(kind):
        return sized(text.encode(), kind)
    if is_text(kind):
        return text
    raise ValueError


def sized(raw: bytes, kind: pa.DataType) -> bytes:
    """Bytes for ``kind``, which may want a fixed number of them."""
    if pa.types.is_fixed_size_binary(kind) and len(raw) != kind.byte_width:
        raise ValueError
    return raw


def _in_range(value: int, kind: pa.DataType) -> int:
    low, high = integer_range(kind)
    if not low <= value <= high:
        raise ValueError
    return value


def integer_range(kind: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    bits = int(kind.bit_width)
    return (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimal_from_text(text: str, kind: pa.DataType) -> decimal.Decimal:
    text = text.strip()
    if text and not _DECIMAL.fullmatch(text):
        raise ValueError
    scaled = _scaled(decimal.Decimal(text or 0), kind).to_integral_value(decimal.ROUND_HALF_UP, _EXACT)
    if abs(scaled) >= 10**kind.precision:
        raise ValueError
    return _unscaled(scaled, kind)


def _date_from_text(text: str) -> int:
    match = _DATE.fullmatch(text)
    if match:
        year, month, day = (int(part) for part in match.groups() if part is not None)
        return dt.date(year, month, day).toordinal() - _EPOCH
    # The text of a timestamp with seconds spells its date too.
    return _timestamp_from_text(text, pa.timestamp("s")) // DAY


def _time_from_text(text: str) -> int:
    """Nanoseconds since midnight."""
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError
    hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return (hour * 3600 + minute * 60 + second) * TICKS["ns"] + int((match.group(4) or "0").ljust(9, "0"))


def _timestamp_from_text(text: str, kind: pa.DataType) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise ValueError
    time = match["time"] or "00:00:00"
    if time.count(":") < 2:
        raise ValueError  # hours and minutes alone are not enough for arrow-rs
    wall = (dt.date.fromisoformat(match["date"]).toordinal() - _EPOCH) * DAY * TICKS["ns"] + _time_from_text(time)
    zone = match["zone"]
    if zone and zone not in "Zz":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60 * TICKS["ns"]
        wall += offset if zone[0] == "-" else -offset
    ticks = truncated(wall, TICKS["ns"] // TICKS[kind.unit])
    if zone:
        return ticks
    name = match["name"] or kind.tz
    return ticks if name is None else _localized(ticks, kind.unit, name)


def truncated(value: int, divisor: int) -> int:
    """Integer division toward zero, which is how arrow-rs changes units."""
    return value // divisor if value >= 0 else -(-value // divisor)


def _localized(ticks: int, unit: str, zone: str) -> int:
    """The instant at which a clock in ``zone`` shows ``ticks``."""
    wall = pa.array([ticks], pa.timestamp(unit))
    try:
        return int(pc.assume_timezone(wall, zone, ambiguous="earliest", nonexistent="earliest")[0].value)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a literal lies in a type's domain.

    ``exact``: it is ``value``. Otherwise it lies just above ``value``, or, when
    ``value`` is None, above (``side`` 1) or below (``side`` -1) the whole domain.
    """

    value: object
    exact: bool = True
    side: int = 0


_ABOVE = Placed(None, exact=False, side=1)
_BELOW = Placed(None, exact=False, side=-1)


def place(literal: Literal, kind: pa.DataType, narrow: bool = False) -> Placed | None:
    """Put a non-null literal into the domain of ``kind``; None when the two types do not meet.

    ``narrow`` rounds a double to a float column's own precision, as pylance does
    with a number that is written next to its column.
    """
    value, origin = literal.value, literal.type
    if origin == kind:
        return Placed(value)
    if isinstance(value, str) and not is_text(kind):
        if pa.types.is_boolean(kind) or is_list_like(kind) or pa.types.is_fixed_size_binary(kind):
            return None
        return _placed_text(value, kind)
    if is_number(origin) and is_number(kind):
        return _placed_number(value, origin, kind, narrow)
    if is_text(origin) and is_text(kind):
        return Placed(value)
    if is_bytes(origin) and is_bytes(kind):
        fits = not pa.types.is_fixed_size_binary(kind) or kind.byte_width == len(_as_bytes(value))
        return Placed(value) if fits else None
    if pa.types.is_temporal(origin) and pa.types.is_temporal(kind):
        return _placed_time(_as_int(value), origin, kind)
    if is_list_like(origin) and is_list_like(kind):
        return _placed_list(literal, kind, narrow)
    return None


def _as_bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _as_int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _placed_text(text: str, kind: pa.DataType) -> Placed | None:
    if not (is_number(kind) or is_bytes(kind) or pa.types.is_temporal(kind)) or pa.types.is_duration(kind):
        return None
    try:
        return Placed(parse_text(text, kind))
    except ValueError:
        raise InvalidInput(f"{text!r} is not a value of type {kind}; compare with a value of that type") from None


def _placed_number(value: object, origin: pa.DataType, kind: pa.DataType, narrow: bool) -> Placed:
    assert isinstance(value, (int, float, decimal.Decimal))
    if pa.types.is_floating(kind):
        return _placed_float(value, kind, narrow or not pa.types.is_floating(origin))
    if isinstance(value, float):
        # NaN is above infinity in the order that comparisons use.
        if math.isnan(value) or value == math.inf:
            return _ABOVE
        if value == -math.inf:
            return _BELOW
    if pa.types.is_integer(kind):
        whole = math.floor(value)
        low, high = integer_range(kind)
        if whole > high:
            return _ABOVE
        if whole < low:
            return _BELOW
        return Placed(whole, exact=whole == value)
    exact = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    scaled = _scaled(exact, kind)
    floor = scaled.to_integral_value(decimal.ROUND_FLOOR, _EXACT)
    if abs(floor) >= 10**kind.precision:
        return _ABOVE if floor > 0 else _BELOW
    return Placed(_unscaled(floor, kind), exact=floor == scaled)


def _scaled(value: decimal.Decimal, kind: pa.DataType) -> decimal.Decimal:
    return value.scaleb(kind.scale, _EXACT)


def _unscaled(value: decimal.Decimal, kind: pa.DataType) -> decimal.Decimal:
    return decimal.Decimal(int(value)).scaleb(-kind.scale, _EXACT)


def _rounded(value: float, kind: pa.DataType) -> float:
    with np.errstate(over="ignore"):
        return float(value if pa.types.is_float64(kind) else numpy_type(kind)(value))


def _placed_float(value: int | float | decimal.Decimal, kind: pa.DataType, narrow: bool) -> Placed:
    wide = float(value)
    near = _rounded(wide, kind)
    if narrow or near == wide or math.isnan(wide):
        return Placed(near)
    if near > wide:
        dtype = numpy_type(kind)
        near = float(np.nextafter(dtype(near), dtype(-math.inf)))
    return Placed(near, exact=False)


def _placed_time(value: int, origin: pa.DataType, kind: pa.DataType) -> Placed | None:
    if pa.types.is_timestamp(kind) and (pa.types.is_timestamp(origin) or pa.types.is_date(origin)):
        return _placed_timestamp(value, origin, kind)
    if pa.types.is_date(kind) and (pa.types.is_timestamp(origin) or pa.types.is_date(origin)):
        per_unit = 1 if pa.types.is_date32(kind) else DAY * 1000
        per_day = _ticks_per_day(origin)
        return Placed(value * per_unit // per_day, exact=value * per_unit % per_day == 0)
    if pa.types.is_time(kind) and pa.types.is_time(origin):
        return _placed_ticks(value, origin, kind)
    if pa.types.is_duration(kind) and pa.types.is_duration(origin):
        return _placed_ticks(value, origin, kind)
    return None


def _placed_ticks(value: int, origin: pa.DataType, kind: pa.DataType) -> Placed:
    fine = value * TICKS[kind.unit]
    return Placed(fine // TICKS[origin.unit], exact=fine % TICKS[origin.unit] == 0)


def _ticks_per_day(kind: pa.DataType) -> int:
    if pa.types.is_timestamp(kind):
        return DAY * TICKS[kind.unit]
    return 1 if pa.types.is_date32(kind) else DAY * 1000


def _placed_timestamp(value: int, origin: pa.DataType, kind: pa.DataType) -> Placed:
    """A finer literal is cut to the column's unit (not placed just above): pylance compares so."""
    ticks = truncated(value * DAY * TICKS[kind.unit], _ticks_per_day(origin))
    if not -(2**63) <= ticks < 2**63:
        return _ABOVE if ticks > 0 else _BELOW
    # A naive timestamp shows the zone's clock; a date is midnight in UTC.
    if kind.tz is not None and pa.types.is_timestamp(origin) and origin.tz is None:
        try:
            ticks = _localized(ticks, kind.unit, kind.tz)
        except ValueError as error:
            raise InvalidInput(f"cannot place the timestamp in time zone {kind.tz!r}: {error}") from error
    return Placed(ticks)


def _placed_list(literal: Literal, kind: pa.DataType, narrow: bool) -> Placed | None:
    assert isinstance(literal.value, tuple)
    items: list[object] = []
    exact = True
    for item in literal.value:
        if item is None:
            items.append(None)
            continue
        placed = place(Literal(item, literal.type.value_type), kind.value_type, narrow)
        if placed is None:
            return None
        exact = exact and placed.exact
        items.append(placed.value)
    return Placed(tuple(items), exact=exact)

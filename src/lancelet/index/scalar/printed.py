"""Values as pylance prints them in the statistics of an index."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

_MOST_BYTES: Final = 10
_DAY_MILLISECONDS: Final = 86_400_000
_MOST_YEARS: Final = 262_142


def printed(value: pa.Scalar) -> str:
    """One value.

    >>> import pyarrow as pa
    >>> [printed(pa.scalar(value)) for value in (None, True, 1e20, 1.5, "a", b"a\\xff")]
    ['NULL', 'true', '100000000000000000000', '1.5', 'a', '61FF']
    """
    kind = value.type
    if not value.is_valid:
        return f"None,{kind.precision},{kind.scale}" if pa.types.is_decimal(kind) else "NULL"
    if pa.types.is_boolean(kind):
        return str(value.as_py()).lower()
    if pa.types.is_floating(kind):
        return _float(np.float64(value.as_py()) if pa.types.is_float64(kind) else np.float32(value.as_py()))
    if pa.types.is_decimal(kind):
        sign, digits, _ = value.as_py().as_tuple()
        number = int("".join(map(str, digits)))
        return f"Some({-number if sign else number}),{kind.precision},{kind.scale}"
    if pa.types.is_date(kind):
        return _day(value.value if pa.types.is_date32(kind) else value.value // _DAY_MILLISECONDS)
    if pa.types.is_temporal(kind):
        return str(value.value)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        data = value.as_py()
        return bytes(data[:_MOST_BYTES]).hex().upper() + ("..." if len(data) > _MOST_BYTES else "")
    return str(value.as_py())


def _float(value: np.floating) -> str:
    """The shortest digits that tell the value, without an exponent."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "inf" if value > 0 else "-inf"
    text = format(Decimal(np.format_float_scientific(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _day(days: int) -> str:
    year, month, day = str(np.datetime64(days, "D")).rsplit("-", 2)
    if abs(int(year)) > _MOST_YEARS:
        return ""
    sign = "-" if int(year) < 0 else "+" if int(year) > 9999 else ""
    return f"{sign}{abs(int(year)):04d}-{month}-{day}"

"""Texts of dates and times in formats that a call names, in chrono's codes.

A text has to be all of its format. What a code takes in::

    %Y 2024   %y 24   %m %d %H %M %S %I one or two digits   %e as %d   %j day of the year   %b %B %h May   %p PM
    %f nanoseconds, as a number   %3f %6f %9f so many digits   %.f and %.3f ... the same behind a dot   %s seconds since 1970
    %z %:z +02:00   %F %Y-%m-%d   %T %H:%M:%S   %R %H:%M   %D %m/%d/%y   %% itself
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache

from lancelet.errors import InvalidInput
from lancelet.expressions.coercion import DAY

__all__ = ["nanoseconds_of"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_TWO = r"\s*(\d{1,2})"
_TAKES = {
    "Y": r"\s*([+-]?\d{1,4})",
    "y": r"\s*(\d{2})",
    **dict.fromkeys("mdHMSI", _TWO),
    "e": _TWO,
    "j": r"\s*(\d{1,3})",
    "b": f"({'|'.join(_MONTHS)})",
    "B": f"({'|'.join(_LONG)}|{'|'.join(_MONTHS)})",
    "p": "(am|pm)",
    "f": r"(\d{1,9})",
    "3f": r"(\d{3})",
    "6f": r"(\d{6})",
    "9f": r"(\d{9})",
    ".f": r"(?:\.(\d{1,9}))?",
    ".3f": r"\.(\d{3})",
    ".6f": r"\.(\d{6})",
    ".9f": r"\.(\d{9})",
    "s": r"(-?\d{1,11})",
    "z": r"([+-]\d{2}:?\d{2})",
    ":z": r"([+-]\d{2}:?\d{2})",
}
_SAME = {"h": "b", "e": "d", ":z": "z", "B": "b"}
_LONGER = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y"}
_CODE = re.compile(r"%(\.?[369]?f|:z|.)", re.DOTALL)
_PIVOT = 70
"""Years of two digits from here on are of the century before."""
_EPOCH = dt.date(1970, 1, 1).toordinal()


def nanoseconds_of(text: str, *forms: str) -> int:
    """Nanoseconds since 1970 that a text tells in the first of some formats that it fits."""
    for form in forms:
        pattern, codes = _compiled(form)
        match = pattern.fullmatch(text)
        if match is None:
            continue
        moment = _moment({code: part for code, part in zip(codes, match.groups(), strict=True) if part is not None})
        if moment is not None:
            return moment
    raise InvalidInput(f"{text!r} is no date or time in the format {' or '.join(map(repr, forms))}")


@lru_cache(maxsize=64)
def _compiled(form: str) -> tuple[re.Pattern[str], list[str]]:
    form = _CODE.sub(lambda match: _LONGER.get(match[1], match[0]), form)
    pattern, codes, at = "", [], 0
    for match in _CODE.finditer(form):
        code = _SAME["h"] if match[1] == "h" else match[1]
        pattern += re.escape(form[at : match.start()])
        at = match.end()
        if code == "%":
            pattern += "%"
        elif code in _TAKES:
            pattern += _TAKES[code]
            codes.append(_SAME.get(code, code))
        else:
            raise InvalidInput(f"there is no %{code} for reading dates and times, in {form!r}")
    if "%" in form[at:] or len(set(codes)) < len(codes):
        raise InvalidInput(f"{form!r} is no format of dates and times: a code is cut off or there twice")
    return re.compile(pattern + re.escape(form[at:]), re.IGNORECASE | re.ASCII), codes


def _moment(parts: dict[str, str]) -> int | None:
    """What the parts say together; None where they do not say a day, or one that there is not."""
    offset = _offset(parts.get("z"))
    clock = _clock(parts)
    if clock is None:
        return None
    if "s" in parts:
        return int(parts["s"]) * 10**9 + clock % 10**9
    day = _day(parts)
    return None if day is None else day * DAY * 10**9 + clock - offset


def _offset(text: str | None) -> int:
    if text is None:
        return 0
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return (-minutes if text[0] == "-" else minutes) * 60 * 10**9


def _day(parts: dict[str, str]) -> int | None:
    if "Y" in parts:
        year = int(parts["Y"])
    elif "y" in parts:
        year = int(parts["y"]) + (1900 if int(parts["y"]) >= _PIVOT else 2000)
    else:
        return None
    try:
        if "j" in parts:
            date = dt.date(year, 1, 1) + dt.timedelta(int(parts["j"]) - 1)
            return date.toordinal() - _EPOCH if date.year == year else None
        month = int(parts["m"]) if "m" in parts else _MONTHS.index(parts["b"][:3].lower()) + 1
        return dt.date(year, month, int(parts["d"])).toordinal() - _EPOCH
    except (ValueError, KeyError, OverflowError):
        return None


def _clock(parts: dict[str, str]) -> int | None:
    """Nanoseconds since midnight, which it is where no hour is told."""
    fraction = _fraction(parts)
    if "H" in parts:
        hour = int(parts["H"])
    elif "I" in parts and "p" in parts and 1 <= int(parts["I"]) <= 12:
        hour = int(parts["I"]) % 12 + (12 if parts["p"].lower() == "pm" else 0)
    elif "I" in parts or "M" in parts or "S" in parts or "p" in parts:
        return None
    else:
        return fraction
    minute, second = parts.get("M"), int(parts.get("S", "0"))
    if minute is None or hour > 23 or int(minute) > 59 or second > 59:
        return None
    return ((hour * 60 + int(minute)) * 60 + second) * 10**9 + fraction


def _fraction(parts: dict[str, str]) -> int:
    for code, part in parts.items():
        if code == "f":
            return int(part)
        if code.endswith("f"):
            return int(part.ljust(9, "0"))
    return 0

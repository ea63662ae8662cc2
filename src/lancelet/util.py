"""Times and spans as users give them, under pylance's names."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from lancelet._api.opening import parse_time

__all__ = ["sanitize_ts", "td_to_micros"]


def sanitize_ts(ts: Any) -> datetime:
    """A point in time out of a datetime, a pandas Timestamp or a text.

    Examples
    --------
    >>> sanitize_ts("2024-01-31 12:30:00")
    datetime.datetime(2024, 1, 31, 12, 30)
    """
    return parse_time(ts)


def td_to_micros(td: timedelta) -> int:
    """A span in microseconds.

    Examples
    --------
    >>> td_to_micros(timedelta(seconds=1))
    1000000
    """
    return round(td / timedelta(microseconds=1))

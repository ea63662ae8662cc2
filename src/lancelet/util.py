"""Times and spans, k-means, graphs, and checks of vector indices, under pylance's names."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lancelet._api.opening import parse_time
from lancelet._naming.lazy import lazy_names

if TYPE_CHECKING:
    from lancelet._api.clustering import KMeans, MetricType
    from lancelet._api.hnsw import HNSW
    from lancelet._api.vector_checks import validate_vector_index

__all__ = ["HNSW", "KMeans", "MetricType", "sanitize_ts", "td_to_micros", "validate_vector_index"]

__getattr__ = lazy_names(
    __name__,
    {
        "lancelet._api.clustering": ("KMeans", "MetricType"),
        "lancelet._api.hnsw": ("HNSW",),
        "lancelet._api.vector_checks": ("validate_vector_index",),
    },
)


def sanitize_ts(ts: object) -> datetime:
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

"""How many partitions a search looks at (spec indices.md 14.12).

Where nobody says, it depends on how many rows are looked for and on the query: one that lies between partitions has
its neighbours in many of them. Those count whose centroids are hardly farther than the nearest one, from a fewest to a
most; the numbers are such that about as many are looked at as pylance does.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import numpy as np

from lancelet.errors import InvalidOption
from lancelet.index.vector.metric import Metric

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.index.vector.query import VectorQuery

_ROWS: Final = (1, 10, 100, 300, 1000)
"""Up to these numbers of rows that are looked for, the following hold."""
_FEWEST: Final = (5, 6, 11, 22, 29)
_FEWEST_COSINE: Final = (3, 8, 8, 28, 34)
_MOST: Final = (19, 24, 38, 81, 93)
_FARTHER: Final = (0.22, 0.262, 0.33, 0.372, 0.42)
_FARTHER_COSINE: Final = (0.234, 0.2875, 0.3795, 0.446, 0.525)
"""How much farther than the nearest a centroid may be, as a share of its distance."""


def own_probes(count: int, metric: Metric, marks: npt.NDArray[np.float32]) -> int:
    """Where nobody says; ``marks`` are the distances of all centroids, ascending."""
    if metric is Metric.DOT:
        # Products with centroids tell little of those with vectors of any length: none is left out, as in pylance.
        return len(marks)
    tier = min(bisect_left(_ROWS, count), len(_ROWS) - 1)
    grown = max(1.0, math.sqrt(count / _ROWS[-1]))
    is_cosine = metric is Metric.COSINE
    fewest = round(grown * (_FEWEST_COSINE if is_cosine else _FEWEST)[tier])
    farther = (_FARTHER_COSINE if is_cosine else _FARTHER)[tier]
    near = int(np.searchsorted(marks, marks[0] * (1 + farther), side="right")) if len(marks) else 0
    return min(round(grown * _MOST[tier]), max(fewest, near))


def probes_of(query: VectorQuery, metric: Metric, marks: npt.NDArray[np.float32]) -> tuple[int, int]:
    """How many partitions are looked at first, and at most when these have too few rows that count.

    ``marks`` are the distances of all centroids, ascending.
    """
    partitions = len(marks)
    lowest = 1 if query.min_probes is None else query.min_probes
    highest = max(partitions, lowest) if query.max_probes is None else query.max_probes
    if lowest < 1 or highest < 1 or lowest > highest:
        raise InvalidOption(
            f"a search probes from {lowest} to {highest} partitions; give at least 1, and no less at most"
        )
    lowest, highest = min(lowest, partitions), min(highest, partitions)
    if query.min_probes is not None and query.min_probes == query.max_probes:
        return lowest, highest
    own = max(lowest, own_probes(query.count, metric, marks))
    if query.effort is None:
        return min(own, highest), highest
    if not 0 <= query.effort <= 1:
        raise InvalidOption(f"search_effort is a number from 0 to 1, not {query.effort}")
    # From the least over what is chosen without an effort to all, in equal factors.
    if query.effort <= 0.5:
        wanted = lowest * (own / lowest) ** (2 * query.effort)
    else:
        wanted = own * (max(partitions, own) / own) ** (2 * query.effort - 1)
    first = min(max(lowest, round(wanted)), highest)
    return first, first if query.effort == 0 else highest

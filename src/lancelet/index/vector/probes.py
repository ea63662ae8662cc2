"""How many partitions a search looks at (spec indices.md 14.12)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from lancelet.errors import InvalidOption

if TYPE_CHECKING:
    from lancelet.index.vector.query import VectorQuery

_FEWEST: Final = 5
_GROWTH: Final = 0.8
"""Of the root of the number of rows that are looked for."""


def own_probes(count: int) -> int:
    """Where nobody says: more rows are spread over more partitions."""
    return _FEWEST + round(_GROWTH * math.sqrt(count))


def probes_of(query: VectorQuery, partitions: int) -> tuple[int, int]:
    """How many partitions are looked at first, and at most when these have too few rows that count."""
    lowest = 1 if query.min_probes is None else query.min_probes
    highest = max(partitions, lowest) if query.max_probes is None else query.max_probes
    if lowest < 1 or highest < 1 or lowest > highest:
        raise InvalidOption(
            f"a search probes from {lowest} to {highest} partitions; give at least 1, and no less at most"
        )
    lowest, highest = min(lowest, partitions), min(highest, partitions)
    if query.min_probes is not None and query.min_probes == query.max_probes:
        return lowest, highest
    own = max(lowest, own_probes(query.count))
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

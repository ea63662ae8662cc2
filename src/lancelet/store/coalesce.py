"""Merge byte ranges into few requests.

Near neighbours are fetched together with the gap between them: a request takes longer than
so few bytes. Wider gaps are not, since requests go out side by side, and what lies in them is paid for.
What touches is one span, however long; a long one is fetched in parts of about the same size, for several requests
side by side are faster than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lancelet.store.source import Ranges

GAP = 64 << 10
SPAN = 16 << 20


@dataclass(frozen=True, slots=True)
class Span:
    """One request, and which of the asked ranges it serves."""

    start: int
    stop: int
    members: tuple[int, ...]


def merge(ranges: Ranges, gap: int = GAP, limit: int = SPAN) -> list[Span]:
    """Group ranges into spans in file order. Empty ranges are in none; beyond ``limit`` a span goes on without gaps only."""
    spans: list[Span] = []
    members: list[int] = []
    start = stop = 0
    for index in sorted((i for i, (_, length) in enumerate(ranges) if length), key=lambda i: ranges[i]):
        offset, length = ranges[index]
        end = offset + length
        if members and (offset <= stop or (offset - stop <= gap and end - start <= limit)):
            members.append(index)
            stop = max(stop, end)
            continue
        if members:
            spans.append(Span(start, stop, tuple(members)))
        start, stop, members = offset, end, [index]
    if members:
        spans.append(Span(start, stop, tuple(members)))
    return spans


def split(span: Span, limit: int = SPAN) -> list[tuple[int, int]]:
    """The (start, stop) parts in which a span is fetched."""
    size = span.stop - span.start
    step = -(-size // -(-size // limit))
    return [(at, min(at + step, span.stop)) for at in range(span.start, span.stop, step)]

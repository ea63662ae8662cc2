"""Pictures of one run of ``python -m benchmarks.growth --pictures FOLDER``: time above, memory below, a panel for each act.

The farther to the right, the larger the table; each step of both scales is ten times the one before. A flat line stays as it
is, one that rises from corner to corner grows as the table does.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TypeAlias
from xml.sax.saxutils import escape

from benchmarks.picture import COLOURS

Lines: TypeAlias = dict[str, list[float]]
"""Milliseconds or MiB by library, one value for each size."""
WIDTH, HEIGHT, GAP, LEFT, TOP = 128, 150, 16, 66, 74
LEAST = 0.1
"""Milliseconds or MiB: what is less is drawn as so much."""


def draw(what: str, sizes: Sequence[int], times: Mapping[str, Lines], memory: Mapping[str, Lines]) -> str:
    """The picture, as the text of a file."""
    rows = [("ms", "processor time", times)] + ([("MiB", "peak memory", memory)] if memory else [])
    width = LEFT + len(times) * (WIDTH + GAP) + 8
    height = TOP + len(rows) * (HEIGHT + 62) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="16" y="22" font-size="14">What the same few rows cost in tables of ever more {escape(what)}</text>',
        f'<text x="16" y="{height - 8}" fill="#555">{escape(_machine())}</text>',
    ]
    for number, engine in enumerate(("lancelet", "pylance")):
        at = width - 190 + number * 95
        parts.append(f'<line x1="{at}" x2="{at + 22}" y1="18" y2="18" stroke="{COLOURS[engine]}" stroke-width="2"/>')
        parts.append(f'<text x="{at + 27}" y="22">{engine}</text>')
    for down, (unit, named, panels) in enumerate(rows):
        top = TOP + down * (HEIGHT + 62)
        parts.append(f'<text x="16" y="{top - 22}" fill="#555">{named}, {unit}</text>')
        low, high = _limits(panels)
        for across, (act, lines) in enumerate(panels.items()):
            parts.append(f'<g transform="translate({LEFT + across * (WIDTH + GAP)} {top})">')
            parts += _panel(act, unit, what, sizes, lines, low, high, first=across == 0)
            parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _limits(panels: Mapping[str, Lines]) -> tuple[int, int]:
    """Powers of ten between which all values of a row are; what is less than the least is drawn there."""
    values = [max(value, LEAST) for lines in panels.values() for line in lines.values() for value in line]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _panel(
    act: str, unit: str, what: str, sizes: Sequence[int], lines: Lines, low: int, high: int, *, first: bool
) -> Iterator[str]:
    steps = [math.log10(size) for size in sizes]
    span = max(steps[-1] - steps[0], 1)

    def place(step: float, value: float) -> tuple[float, float]:
        level = math.log10(max(value, LEAST))
        return (step - steps[0]) / span * WIDTH, (high - level) / (high - low) * HEIGHT

    yield f'<text x="0" y="-6" font-weight="bold">{escape(act)}</text>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    for power in range(low, high + 1):
        _, y = place(steps[0], 10.0**power)
        yield f'<line x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        if first:
            yield f'<text x="-6" y="{y + 4:.1f}" text-anchor="end" fill="#555">{10.0**power:g}</text>'
    for step in steps:
        x, _ = place(step, 1)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" stroke="#e5e5e5"/>'
        if round(step) % 2 == round(steps[0]) % 2:
            yield (
                f'<text x="{x:.1f}" y="{HEIGHT + 15}" text-anchor="middle" fill="#555">10'
                f'<tspan dy="-4" font-size="8">{round(step)}</tspan></text>'
            )
    for engine, values in lines.items():
        colour = COLOURS[engine]
        points = [place(step, value) for step, value in zip(steps, values, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        for (x, y), size, value in zip(points, sizes, values, strict=True):
            told = f"{engine}, {act}, {size:,} {what}: {value:,.2f} {unit}"
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"><title>{escape(told)}</title></circle>'


def _machine() -> str:
    day = datetime.now(timezone.utc).date()
    return (
        f"one run of make bench OF=growth, {day}: {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}"
    )

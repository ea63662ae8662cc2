"""A picture of one run of ``python -m benchmarks --picture FILE``: how long each measure takes, by engine.

A line for each measure; the farther to the left, the less time. Times are milliseconds, each step of the scale ten times the
one before. Nothing is in it that the run did not measure.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from xml.sax.saxutils import escape

COLOURS = {"lancelet": "#1f6feb", "pylance": "#c2571a", "Parquet": "#7a8f1f"}
WIDTH, LINE, NAMES, TOP, EDGE = 520, 20, 250, 62, 24

Times = Mapping[str, Mapping[str, float]]
"""Seconds, by measure and engine."""


def draw(times: Times, title: str) -> str:
    """The picture, as the text of a file."""
    height = TOP + LINE * len(times) + 2 * EDGE
    width = NAMES + WIDTH + 2 * EDGE
    values = [value * 1000 for line in times.values() for value in line.values()]
    low, high = 10.0 ** math.floor(math.log10(min(values))), 10.0 ** math.ceil(math.log10(max(values)))
    high = max(high, low * 10)

    def across(milliseconds: float) -> float:
        return NAMES + math.log(milliseconds / low) / math.log(high / low) * WIDTH

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{EDGE}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{EDGE}" y="{height - 8}" fill="#555" font-size="11">{escape(_machine())}</text>',
    ]
    for number, (engine, colour) in enumerate(COLOURS.items()):
        at = NAMES + number * 95
        parts.append(f'<circle cx="{at}" cy="38" r="4" fill="{colour}"/><text x="{at + 9}" y="42">{engine}</text>')
    value = low
    while value <= high * 1.001:
        at = across(value)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 6}" y2="{height - 2 * EDGE}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - EDGE - 8}" text-anchor="middle" fill="#555">{value:g} ms</text>')
        value *= 10
    for number, (name, line) in enumerate(times.items()):
        parts += _line(name, line, TOP + number * LINE + LINE / 2, across)
    return "\n".join([*parts, "</svg>", ""])


def _line(name: str, line: Mapping[str, float], y: float, across: Callable[[float], float]) -> Iterator[str]:
    places = {engine: across(seconds * 1000) for engine, seconds in line.items()}
    yield f'<text x="{NAMES - 14}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'
    first, last = min(places.values()), max(places.values())
    yield f'<line x1="{first:.1f}" x2="{last:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#bbb"/>'
    for engine, x in places.items():
        told = f"{engine}, {name}: {line[engine] * 1000:.3g} ms"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[engine]}"><title>{escape(told)}</title></circle>'


def _machine() -> str:
    day = datetime.now(timezone.utc).date()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    # Who looks at it should know whether others were at work.
    return f"one run of make bench, {day}: {machine}, load {os.getloadavg()[0]:.0f} at its end"

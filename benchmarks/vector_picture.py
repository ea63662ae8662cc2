"""``python -m benchmarks.vector_picture docs/vectors.svg``: recall and CPU time of vector searches, as a picture.

A panel for each kind of index: the farther to the right, the more of the ten nearest rows are found; the lower, the
less CPU time a query takes. The points of a line are one index, asked ever harder. Each library asks the index that it built
itself, of the same parameters; both take turns.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import lancelet
from benchmarks.vectors import ENGINES, Data, Vectors, alternate, ask_all, build, cases, exact, recall

SWEEPS: dict[str, list[dict[str, Any]]] = {
    "IVF_FLAT": [{"nprobes": probes} for probes in (1, 2, 4, 8, 16, 32)],
    "IVF_PQ": [{"nprobes": probes, "refine_factor": 10} for probes in (1, 2, 4, 8, 16, 32)],
    "IVF_RQ": [{"nprobes": probes, "refine_factor": 4} for probes in (1, 2, 4, 8, 16, 32)],
    "IVF_HNSW_SQ": [{"nprobes": 1, "ef": ef, "refine_factor": 2} for ef in (20, 30, 45, 70, 110, 180)],
}
ASKED = {
    "IVF_FLAT": "nprobes 1 to 32",
    "IVF_PQ": "nprobes 1 to 32, refine_factor 10",
    "IVF_RQ": "nprobes 1 to 32, refine_factor 4",
    "IVF_HNSW_SQ": "ef 20 to 180, refine_factor 2",
}
WIDTH, HEIGHT, EDGE, GAP = 340, 250, 62, 34
COLOURS = {"lancelet": "#1f6feb", "lance": "#c2571a"}
NAMES = {"lancelet": "lancelet", "lance": "pylance"}


@dataclass(frozen=True, slots=True)
class Point:
    """One way to ask an index."""

    asked: str
    recall: float
    milliseconds: float


Lines = dict[str, list[Point]]
"""By library."""


def measure(data: Data, count: int, repeats: int) -> tuple[dict[str, Lines], Point]:
    """The lines of all kinds, and the exact search of lancelet."""
    queries = data.queries(count)
    truth = exact(data, queries)
    found: dict[str, Lines] = {}
    with tempfile.TemporaryDirectory() as folder:
        where = {engine.__name__: Path(folder) / engine.__name__ for engine in ENGINES}
        for path in where.values():
            data.write(path)
        for case in cases(data):
            if case.kind not in SWEEPS or case.kind in found:
                continue
            for engine in ENGINES:
                build(engine, where[engine.__name__], case)
            opened = [engine.dataset(where[engine.__name__]) for engine in ENGINES]
            found[case.kind] = {engine.__name__: [] for engine in ENGINES}
            for options in SWEEPS[case.kind]:
                works = [lambda one=one, options=options: ask_all(one, queries, options) for one in opened]
                recalls = [recall(work(), truth) for work in works]
                taken = alternate(works, repeats)
                told = ", ".join(f"{key} {value}" for key, value in options.items())
                for engine, share, seconds in zip(ENGINES, recalls, taken, strict=True):
                    found[case.kind][engine.__name__].append(Point(told, share, seconds / count * 1e3))
            print(case.kind, found[case.kind])
        whole = _exact_search(lancelet.dataset(where["lancelet"]), queries, repeats)
    return found, whole


def _exact_search(dataset: Any, queries: Vectors, repeats: int) -> Point:
    few = queries[: max(len(queries) // 5, 1)]
    (taken,) = alternate([lambda: ask_all(dataset, few, {"use_index": False})], repeats)
    return Point("use_index False", 1.0, taken / len(few) * 1e3)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where points are in a panel: recall to the right, time upwards by its logarithm."""

    least: float
    low: float
    high: float

    @classmethod
    def of(cls, points: Sequence[Point]) -> Scale:
        times = [point.milliseconds for point in points]
        least = math.floor(min(point.recall for point in points) * 10) / 10
        return cls(min(least, 0.9), 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times))))

    def x(self, share: float) -> float:
        return (share - self.least) / (1 - self.least) * WIDTH

    def y(self, milliseconds: float) -> float:
        return (1 - math.log(milliseconds / self.low) / math.log(self.high / self.low)) * HEIGHT

    def times(self) -> Iterator[float]:
        value = self.low
        while value <= self.high * 1.001:
            yield value
            value *= 10


def draw(lines: dict[str, Lines], whole: Point, title: str) -> str:
    """The picture, as the text of a file."""
    width, height = 2 * (WIDTH + EDGE) + 2 * GAP, 2 * (HEIGHT + EDGE) + 3 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{EDGE}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, (engine, colour) in enumerate(COLOURS.items()):
        at = width - GAP - 190 + number * 95
        parts.append(f'<line x1="{at}" x2="{at + 22}" y1="16" y2="16" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{at + 27}" y="20">{NAMES[engine]}</text>')
    for number, (kind, panel) in enumerate(lines.items()):
        across, down = number % 2, number // 2
        left, top = EDGE + across * (WIDTH + EDGE + GAP / 2), 2 * GAP + down * (HEIGHT + EDGE + GAP / 2)
        parts.append(f'<g transform="translate({left:.0f} {top:.0f})">')
        parts += _panel(kind, panel, whole)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(kind: str, panel: Lines, whole: Point) -> Iterator[str]:
    scale = Scale.of([whole, *(point for points in panel.values() for point in points)])
    yield f'<text x="0" y="-8"><tspan font-weight="bold">{kind}</tspan> <tspan fill="#555">{ASKED[kind]}</tspan></text>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    for step in range(round(scale.least * 10), 11):
        at = scale.x(step / 10)
        yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{HEIGHT}" stroke="#e5e5e5"/>'
        yield f'<text x="{at:.1f}" y="{HEIGHT + 15}" text-anchor="middle" fill="#555">{step / 10:.1f}</text>'
    for value in scale.times():
        at = scale.y(value)
        yield f'<line x1="0" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e5e5e5"/>'
        yield f'<text x="-6" y="{at + 4:.1f}" text-anchor="end" fill="#555">{value:g} ms</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT + 31}" text-anchor="middle" fill="#555">recall of 10</text>'
    at = scale.y(whole.milliseconds)
    yield f'<line x1="0" x2="{WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="{COLOURS["lancelet"]}" stroke-dasharray="3 4"/>'
    yield f'<text x="4" y="{at - 4:.1f}" fill="{COLOURS["lancelet"]}">exact search of lancelet, {whole.milliseconds:.2g} ms</text>'
    for engine, points in panel.items():
        colour = COLOURS[engine]
        places = [(scale.x(point.recall), scale.y(point.milliseconds)) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        for point, (x, y) in zip(points, places, strict=True):
            told = f"{NAMES[engine]}, {point.asked}: recall {point.recall:.3f}, {point.milliseconds:.3f} ms"
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{escape(told)}</title></circle>'


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.vector_picture", description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument(
        "--clustered", action="store_true", help="vectors that hang together, which are found more easily"
    )
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    data = Data("picture", arguments.rows, arguments.dimension, arguments.clustered)
    lines, whole = measure(data, arguments.queries, arguments.repeats)
    title = f"{data.rows:,} vectors of {data.dimension} numbers: CPU time a query"
    arguments.target.write_text(draw(lines, whole, title))


if __name__ == "__main__":
    main()

"""What is measured: a name, how to ask an engine, and how to check that all give the same answer."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.engines import Engine
from lancelet.testing import assert_identical

SLOW = 4.0
"""Seconds after which an engine is not asked again for the same thing."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of the table."""

    name: str
    ask: Callable[[Engine], Any]
    remote: bool = True
    """Whether to count its requests over S3 as well."""


def _touch(batches: Iterable[pa.RecordBatch]) -> int:
    """Read every byte of every buffer, as a consumer would; a mapped page is not read until somebody looks."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        for column in batch.columns:
            for buffer in column.buffers():
                if buffer is not None:
                    words = np.frombuffer(buffer, np.uint8, buffer.size)
                    np.bitwise_or.reduce(words[: words.size // 8 * 8].view(np.uint64)) if words.size >= 8 else None
    return rows


def _counted(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def measures(rows: int) -> list[Measure]:
    rng = random.Random(7)
    some = {count: [rng.randrange(rows) for _ in range(count)] for count in (1, 100, 5000)}
    narrow = ["id", "a", "f", "category", "text"]
    wide = ["id", "text", "vector"]
    found = [
        Measure("scan all, to a table", lambda engine: engine.table(None), remote=False),
        Measure("scan all, streamed", lambda engine: _counted(engine.stream(None))),
        Measure("scan all, every byte read", lambda engine: _touch(engine.stream(None)), remote=False),
    ]
    found += [
        Measure(f"scan {column}", lambda engine, column=column: engine.table([column]))
        for column in ("id", "a", "f", "flag", "category", "text", "vector", "tags", "points")
    ]
    for share, columns in ((0.001, wide), (0.01, wide), (0.1, wide), (0.5, narrow)):
        limit = int(share * 1_000_000)
        what = "vectors" if columns is wide else "scalars and text"
        found.append(Measure(f"filter {share:.1%}, {what}", lambda engine, n=limit, c=columns: engine.below(n, c)))
    found.append(Measure("count_rows(filter)", lambda engine: engine.count_below(10_000)))
    for count, picks in some.items():
        found.append(Measure(f"take {count}, all columns", lambda engine, picks=picks: engine.take(picks, None)))
        found.append(Measure(f"take {count}, scalars and text", lambda engine, picks=picks: engine.take(picks, narrow)))
    return found


def check(name: str, answers: dict[str, Any]) -> None:
    """Fail unless every engine gave the rows that pylance gave; lancelet must match it bit for bit."""
    expected = answers["pylance"]
    for engine, answer in answers.items():
        if not isinstance(expected, pa.Table):
            assert answer == expected, f"{name}: {engine} gave {answer}, pylance {expected}"
        elif engine == "lancelet":
            assert_identical(answer, expected)
        else:
            assert answer.num_rows == expected.num_rows, f"{name}: {engine} gave {answer.num_rows} rows"


def medians(measure: Measure, engines: list[Engine], repeats: int) -> dict[str, float]:
    """Median seconds of each engine, taking turns so that a slow minute of the machine hits all of them."""
    check(measure.name, {engine.name: measure.ask(engine) for engine in engines})
    seconds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for turn in range(repeats):
        for engine in engines if turn % 2 == 0 else engines[::-1]:
            taken = seconds[engine.name]
            if taken and engine.name == "Parquet" and taken[0] > SLOW:
                continue
            started = time.perf_counter()
            measure.ask(engine)
            taken.append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in seconds.items()}

"""``python -m benchmarks.spark_builds``: indices built as a Spark job, beside the same builds in one process.

Both build in turn, over tables of the same rows, and give the same answers. Workers and this process have built an index of
that kind before, so that neither imports anything; what the first build of a session costs above that is said, too. CPU time
is that of this process, Java and all Python workers together.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import lancelet
from benchmarks.spark import MIB, watched, worked
from benchmarks.texts import Drawn
from lancelet.query import MatchQuery
from lancelet.spark import LanceTable, local_session

DIMENSION = 128
SMALL = 20_000
QUESTIONS = 50
TARGET = 1.3


@dataclass(frozen=True, slots=True)
class Build:
    """An index over a column."""

    name: str
    column: str
    kind: str
    options: dict[str, Any]
    write: Callable[[Path, int], None]
    ask: Callable[[Path], Any]
    """What it finds; both builds find the same."""


def vector_table(place: Path, count: int) -> None:
    """Vectors around a thousand centres, in fragments of half a million or four of them."""

    def batches() -> Iterator[pa.RecordBatch]:
        centres = np.random.default_rng(1).standard_normal((1000, DIMENSION)).astype(np.float32)
        for start in range(0, count, 50_000):
            drawn, size = np.random.default_rng(start + 2), min(50_000, count - start)
            noise = 0.5 * drawn.standard_normal((size, DIMENSION), np.float32)
            vectors = (centres[drawn.integers(0, 1000, size)] + noise).astype(np.float32)
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION)
            yield pa.record_batch({"id": pa.array(np.arange(start, start + size)), "vector": column})

    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), DIMENSION))])
    lancelet.write_dataset(batches(), place, schema=schema, max_rows_per_file=min(500_000, count // 4))


def text_table(place: Path, count: int) -> None:
    """Documents of about a hundred words, in four fragments."""
    schema = pa.schema([("key", pa.int64()), ("text", pa.string())])
    lancelet.write_dataset(Drawn(count).batches(0, count), place, schema=schema, max_rows_per_file=count // 4)


def near(place: Path) -> Any:
    """Rows near some vectors of the table."""
    ds = lancelet.dataset(place)
    queries = np.stack([row["vector"] for row in ds.take(list(range(QUESTIONS)), ["vector"]).to_pylist()])
    nearest = {"column": "vector", "q": queries.astype(np.float32), "nprobes": 16}
    return ds.to_table(["id", "_distance"], nearest=nearest)


def matching(place: Path) -> Any:
    """Keys and scores of the best documents for common and rare words."""
    ds = lancelet.dataset(place)
    words = [f"w{word} w{word * 37 % 5000}" for word in range(QUESTIONS)]
    found = [
        ds.to_table(["key", "_score"], full_text_query=MatchQuery(text, "text"), limit=10).sort_by(
            [("_score", "descending"), ("key", "ascending")]
        )
        for text in words
    ]
    return pa.concat_tables(found)


def builds(small: bool = False) -> list[Build]:
    """Those that are compared, or for a small table."""
    vectors = {"num_partitions": 16 if small else 1024}
    texts = {"stem": False, "remove_stop_words": False}
    return [
        Build("IVF_PQ", "vector", "IVF_PQ", {**vectors, "num_sub_vectors": 16}, vector_table, near),
        Build("IVF_SQ", "vector", "IVF_SQ", vectors, vector_table, near),
        Build("IVF_FLAT", "vector", "IVF_FLAT", vectors, vector_table, near),
        Build("INVERTED", "text", "INVERTED", texts, text_table, matching),
        Build("INVERTED with positions", "text", "INVERTED", {**texts, "with_position": True}, text_table, matching),
    ]


def on_spark(spark: SparkSession, build: Build, place: Path) -> None:
    LanceTable.forPath(spark, str(place)).createIndex(build.column, build.kind, **build.options)


def alone(build: Build, place: Path) -> None:
    dataset = lancelet.dataset(place)
    create = dataset.create_index if build.column == "vector" else dataset.create_scalar_index
    create(build.column, build.kind, replace=True, **build.options)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    own, others, begin = time.process_time(), worked(), time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    return seconds, time.process_time() - own + worked() - others


def compare(spark: SparkSession, folder: Path, build: Build, first: Build, rows: int, repeats: int) -> list[str]:
    """One line of the table."""
    places = [folder / f"{kind}-{build.column}.lance" for kind in ("spark", "alone")]
    small = folder / f"small-{build.column}.lance"
    for place, count in ((places[0], rows), (places[1], rows), (small, SMALL)):
        if not place.exists():
            build.write(place, count)
    cold, warm = (timed(lambda: on_spark(spark, first, small)) for _ in range(2))
    alone(first, small)
    taken: list[tuple[tuple[float, float], tuple[float, float]]] = []
    peaks: list[int] = []
    for _ in range(repeats):
        with watched(peaks):
            spent = timed(lambda: on_spark(spark, build, places[0]))
        taken.append((spent, timed(lambda: alone(build, places[1]))))
    same = "the same" if build.ask(places[0]).equals(build.ask(places[1])) else "DIFFERENT"
    wall, cpu = (statistics.median(one[at] / other[at] for one, other in taken) for at in (0, 1))
    seconds = [f"{statistics.median(pair[who][0] for pair in taken):.1f}" for who in (0, 1)]
    return [
        build.name,
        *seconds,
        f"{wall:.2f}",
        f"{cpu:.2f}",
        f"{cold[1] - warm[1]:.1f}",
        f"{max(peaks) / MIB:,.0f}",
        same,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spark_builds", description=__doc__)
    parser.add_argument("--vectors", type=int, default=2_000_000)
    parser.add_argument("--texts", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="builds whose names have this in them")
    arguments = parser.parse_args()
    report = Table(title=f"Builds on local[2] beside one process, at most {TARGET} of its time")
    for heading in ("index", "Spark, s", "alone, s", "ratio", "CPU", "first, CPU s", "worker, MiB", "answers"):
        report.add_column(heading, justify="left" if heading == "index" else "right")
    with tempfile.TemporaryDirectory() as folder:
        settings = {"spark.local.dir": folder, "spark.log.level": "ERROR"}
        spark = local_session(min(2, os.cpu_count() or 1), memory="2g", settings=settings)
        try:
            for build, first in zip(builds(), builds(small=True), strict=True):
                if arguments.only in build.name:
                    rows = arguments.vectors if build.column == "vector" else arguments.texts
                    report.add_row(*compare(spark, Path(folder), build, first, rows, arguments.repeats))
        finally:
            spark.stop()
    Console().print(report)


if __name__ == "__main__":
    main()

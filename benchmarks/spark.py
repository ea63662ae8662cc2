"""``python -m benchmarks.spark``: Lance and Spark's own Parquet source in one session, on the same rows.

Both have 8 columns of mixed types. Every question is asked of both in turn, and their answers are compared before any is
timed. A lookup is by row id in Lance and by the key column in Parquet, which has no row ids. CPU time is that of Java and
all Python workers together; it says more than time on a machine that does other things too.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from rich.console import Console
from rich.table import Table

from lancelet.spark import local_session

FORMATS = ("lance", "parquet")
KEYS = 100
WIDE_ROWS = 400
SMALL_ROWS = 1000
ROWS_A_VECTOR = 10
DIMENSION = 128
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table."""

    name: str
    ask: Callable[[str], Any]
    """Asks a format; what it returns is compared."""
    target: float


def rows(spark: SparkSession, count: int) -> DataFrame:
    """The same rows each time."""
    drawn = F.xxhash64("id")
    return spark.range(0, count, numPartitions=8).select(
        F.col("id").alias("k"),
        drawn.alias("a"),
        (drawn % 1000).cast("int").alias("small"),
        (drawn / F.lit(2.0**63)).alias("f"),
        F.concat(F.lit("row "), F.hex(drawn)).alias("text"),
        F.element_at(
            F.array(*[F.lit(f"category {n}") for n in range(10)]), F.pmod(drawn, F.lit(10)).cast("int") + 1
        ).alias("word"),
        F.timestamp_micros(F.lit(1_700_000_000_000_000) + F.col("id") * 1000).alias("at"),
        F.when(drawn % 7 != 0, drawn % 2 == 0).alias("flag"),
    )


def wide_rows(spark: SparkSession) -> DataFrame:
    """A mebibyte in each, as hard to compress as an image."""

    def drawn(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            payload = np.random.default_rng(number).bytes(MIB)
            yield pa.record_batch({"id": pa.array([number]), "payload": pa.array([payload])})

    return spark.range(0, WIDE_ROWS, numPartitions=2).mapInArrow(drawn, "id long, payload binary")


def vector_rows(spark: SparkSession, count: int) -> DataFrame:
    """Vectors of float32, a tenth as many as rows."""
    places = F.sequence(F.lit(0), F.lit(DIMENSION - 1))
    vector = F.transform(places, lambda place: (F.xxhash64("id", place) / F.lit(2.0**63)).cast("float"))
    return spark.range(0, max(1, count // ROWS_A_VECTOR), numPartitions=4).select("id", vector.alias("vector"))


def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sum of all vectors, so exactly that their order does not matter."""
    for batch in batches:
        values = batch.column("vector").flatten().to_numpy(zero_copy_only=False)
        yield pa.record_batch({"total": pa.array([int(np.sum((values * 1024).astype(np.int64)))])})


class Places:
    """Where each format has its table."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self._spark = spark
        self._folder = folder
        self._raw = str(folder / "raw")
        rows(spark, count).write.parquet(self._raw)
        for name in FORMATS:
            self.write(name, "table")
        for name in FORMATS:
            options = {"vector.vector": str(DIMENSION)} if name == "lance" else {}
            vectors = vector_rows(spark, count).write.format(name).mode("append")
            vectors.options(**options).save(str(folder / f"vectors.{name}"))
            rows(spark, SMALL_ROWS).coalesce(1).write.format(name).mode("append").save(str(folder / f"small.{name}"))
            wide_rows(spark).write.format(name).mode("append").save(str(folder / f"wide.{name}"))
        wanted = random.Random(3).sample(range(count), KEYS)
        self.keys = sorted(wanted)
        found = self.read("lance", rowId="true").where(F.col("k").isin(self.keys)).select("_rowid").collect()
        self.row_ids = sorted(row["_rowid"] for row in found)

    def read(self, kind: str, name: str = "table", **options: str) -> DataFrame:
        return self._spark.read.format(kind).options(**options).load(str(self._folder / f"{name}.{kind}"))

    def write(self, kind: str, name: str) -> Path:
        """Write all rows into a new table."""
        target = self._folder / f"{name}.{kind}"
        shutil.rmtree(target, ignore_errors=True)
        self._spark.read.parquet(self._raw).write.format(kind).mode("append").save(str(target))
        return target

    def written(self, kind: str) -> int:
        target = self.write(kind, "written")
        return int(self._spark.read.format(kind).load(str(target)).count())

    def mapped(self, kind: str) -> Any:
        return self.read(kind, "vectors").mapInArrow(summed, "total long").agg(F.sum("total")).collect()

    def grouped(self, kind: str) -> list[Any]:
        return sorted(self.read(kind).groupBy("small").agg(F.count("*"), F.sum("k")).collect())

    def lookup(self, kind: str) -> list[Any]:
        if kind == "parquet":
            found = self.read(kind).where(F.col("k").isin(self.keys))
        else:
            found = self.read(kind, rowId="true").where(F.col("_rowid").isin(self.row_ids)).drop("_rowid")
        return sorted(found.collect())


def cases(places: Places) -> list[Case]:
    """What is asked."""
    return [
        Case("count(*)", lambda kind: places.read(kind).count(), 0.5),
        Case("sum of a column", lambda kind: places.read(kind).agg(F.sum("small")).collect(), 2.0),
        Case("sum of doubles", lambda kind: round(places.read(kind).agg(F.sum("f")).first()[0], 3), 2.0),
        Case("sum where", lambda kind: places.read(kind).where("small > 900").agg(F.sum("small")).collect(), 2.0),
        Case("group by", places.grouped, 0.9),
        Case("vectors into mapInArrow", places.mapped, 0.7),
        Case("sum of 1,000 rows", lambda kind: places.read(kind, "small").agg(F.sum("small")).collect(), 1.2),
        Case("all columns", lambda kind: noop(places.read(kind)), 2.0),
        Case("write", places.written, 1.5),
        Case("rows of 1 MiB", lambda kind: noop(places.read(kind, "wide")), 2.0),
        Case(f"lookup of {KEYS} rows", places.lookup, 0.2),
    ]


def noop(frame: DataFrame) -> None:
    """Make all rows, and drop them."""
    frame.write.format("noop").mode("overwrite").save()


def fingerprint(frame: DataFrame) -> Any:
    """Of all rows, in any order."""
    return frame.agg(F.count("*"), F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))).collect()


def started(spark: SparkSession) -> str:
    """What the first Python workers of a session cost, in words."""
    spark.range(0, 2, numPartitions=2).mapInArrow(lambda batches: batches, "id long").collect()
    spent: dict[bool, list[float]] = {True: [], False: []}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.cmdline()[-1] == "pyspark.worker":
                parent = process.parent()
                is_fork = parent is not None and parent.cmdline()[-1] == "pyspark.worker"
                spent[is_fork].append(sum(process.cpu_times()[:2]))
    daemon, workers = sum(spent[False]), statistics.median(spent[True])
    return f"Python: {daemon:.2f} s of CPU until workers can be forked, {workers:.2f} s for each"


class Peaks(threading.Thread):
    """The most memory that a Python worker has had, by looking often."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.05):
            self.most = max(self.most, *(peak for peak in self._peaks()), 0)

    def stop(self) -> int:
        self._done.set()
        self.join()
        return self.most

    @staticmethod
    def _peaks() -> Iterator[int]:
        for process in psutil.Process().children(recursive=True):
            try:
                if "pyspark.worker" in process.cmdline():
                    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                        if line.startswith("VmHWM:"):
                            yield int(line.split()[1]) << 10
            except (psutil.Error, OSError):
                continue


def forget_peaks() -> None:
    """Let the workers that are there count from now on."""
    for process in psutil.Process().children(recursive=True):
        try:
            if "pyspark.worker" in process.cmdline():
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")
        except (psutil.Error, OSError):
            continue


@contextmanager
def watched(found: list[int]) -> Iterator[None]:
    """Note the peak of the workers meanwhile."""
    forget_peaks()
    peaks = Peaks()
    peaks.start()
    try:
        yield
    finally:
        found.append(peaks.stop())


def worked() -> float:
    """Seconds of CPU that Java and the Python workers have used."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            spent = process.cpu_times()
            total += spent.user + spent.system + spent.children_user + spent.children_system
    return total


def timed(case: Case, kind: str) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    working, begun = worked(), time.perf_counter()
    case.ask(kind)
    return time.perf_counter() - begun, worked() - working


def measured(case: Case, repeats: int) -> tuple[dict[str, list[float]], int]:
    """Median seconds and seconds of CPU of each format, and the peak of the workers."""
    answers = {kind: case.ask(kind) for kind in FORMATS}
    if answers["lance"] != answers["parquet"]:
        raise SystemExit(f"{case.name}: the formats gave different answers: {answers}")
    seconds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in FORMATS}
    most: list[int] = []
    with watched(most):
        for turn in range(repeats):
            for kind in FORMATS if turn % 2 else reversed(FORMATS):
                seconds[kind].append(timed(case, kind))
    medians = {
        kind: [statistics.median(times) for times in zip(*taken, strict=True)] for kind, taken in seconds.items()
    }
    return medians, most[0]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    arguments = parser.parse_args()
    report = Table(
        title=f"{arguments.rows:,} rows x 8 columns, local[2], median of {arguments.repeats} turns, milliseconds"
    )
    for column in ("question", "Lance", "Parquet", "ratio", "at most", "ratio of CPU time", "worker, MiB"):
        report.add_column(column, justify="left" if column == "question" else "right")
    with tempfile.TemporaryDirectory() as folder:
        spark = local_session(2, memory="2g", settings={"spark.local.dir": folder, "spark.log.level": "ERROR"})
        try:
            Console().print(started(spark))
            places = Places(spark, Path(folder), arguments.rows)
            if fingerprint(places.read("lance")) != fingerprint(places.read("parquet")):
                raise SystemExit("the tables have different rows")
            for case in cases(places):
                if arguments.only in case.name:
                    taken, peak = measured(case, arguments.repeats)
                    ours, theirs = taken["lance"], taken["parquet"]
                    ratio, ratio_of_cpu = (f"{mine / other:.2f}" for mine, other in zip(ours, theirs, strict=True))
                    times = (f"{seconds[0] * 1000:,.0f}" for seconds in (ours, theirs))
                    report.add_row(case.name, *times, ratio, f"{case.target}", ratio_of_cpu, f"{peak / MIB:,.0f}")
        finally:
            spark.stop()
    Console().print(report)


if __name__ == "__main__":
    main()

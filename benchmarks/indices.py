"""``python -m benchmarks.indices``: scalar indices built and asked, lancelet and pylance side by side.

Both build the same index over the same table in turn. Then both ask: filters whose answers are checked against each
other first, once over the index of each. Builds also run in a process of their own, which tells its peak memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import lancelet

ENGINES: tuple[ModuleType, ...] = (lancelet, lance)
TURN = 0.03
"""Seconds that a library asks before the other does, so that what that one left in the caches is not what is measured."""
CHUNK = 1_000_000
CODE = 0x5DEECE66D
BUILDS = (
    ("number", "BTREE"),
    ("text", "BTREE"),
    ("label", "BITMAP"),
    ("many", "BITMAP"),
    ("key", "ZONEMAP"),
    ("code", "BLOOMFILTER"),
    ("labels", "LABEL_LIST"),
    ("words", "NGRAM"),
)


def batches(rows: int) -> Iterable[pa.RecordBatch]:
    """Rows with columns for every kind of index."""
    drawn = np.random.default_rng(7)
    words = np.array([f"{a}{b}" for a in ("red", "blue", "swift", "slow", "dark") for b in ("fox", "stone", "river")])
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        keys = np.arange(start, start + count)
        number = keys * 2_654_435_761 % 2**40
        labels = drawn.integers(0, 50, 2 * count).astype(np.int32)
        yield pa.record_batch(
            {
                "key": keys,
                "number": number,
                "text": pc.binary_join_element_wise("user", pa.array(number).cast(pa.string()), "-"),
                "code": number ^ CODE,
                "label": drawn.integers(0, 100, count),
                "many": drawn.integers(0, 100_000, count),
                "labels": pa.ListArray.from_arrays(np.arange(0, 2 * count + 1, 2, dtype=np.int32), labels),
                "words": pa.array(words[drawn.integers(0, len(words), count)]),
            }
        )


def questions(rows: int) -> dict[str, tuple[str, list[str]]]:
    """Filters and the columns to read, by what they show."""
    keys = np.random.default_rng(3).integers(0, rows, 1000)
    numbers = keys * 2_654_435_761 % 2**40
    few = ["key", "number"]
    return {
        "point, BTREE": (f"number = {numbers[0]}", few),
        "point, text BTREE": (f"text = 'user-{numbers[1]}'", few),
        "1 % range, BTREE": (f"number between {2**39} and {2**39 + 2**40 // 100}", few),
        "IN of 1,000, BTREE": (f"number in ({', '.join(map(str, numbers))})", few),
        "one of 100, BITMAP": ("label = 42", few),
        "one of 100,000, BITMAP": ("many = 4242", few),
        "1 % range and label": (f"number < {2**40 // 100} and label = 42", few),
        "1 % range and one of 100,000": (f"number < {2**40 // 100} and many = 4242", few),
        "point, ZONEMAP": (f"key = {keys[2]}", few),
        "20,000 rows, ZONEMAP": (f"key between {keys[3]} and {keys[3] + 20_000}", few),
        "point, BLOOMFILTER": (f"code = {numbers[4] ^ CODE}", few),
        "IN of 5, BLOOMFILTER": (f"code in ({', '.join(str(n ^ CODE) for n in numbers[5:10])})", few),
        "two labels, LABEL_LIST": ("array_has_all(labels, [3, 7])", few),
        "count of a range": (f"number < {2**40 // 100}", []),
    }


def build(engine: ModuleType, where: Path, column: str, kind: str) -> None:
    engine.dataset(where).create_scalar_index(column, kind)


def ask(engine: ModuleType, dataset: Any, condition: str, columns: list[str]) -> Any:
    if not columns:
        return dataset.count_rows(filter=condition)
    return dataset.to_table(columns, filter=condition)


def _peak(engine: str, where: str, column: str, kind: str, out: Any) -> None:
    build({"lancelet": lancelet, "lance": lance}[engine], Path(where), column, kind)
    # Of this program alone: what the kernel counts for a process begins with its parent.
    status = Path("/proc/self/status").read_text()
    out.put(int(status.partition("VmHWM:")[2].split()[0]))


def peak(engine: ModuleType, where: Path, column: str, kind: str) -> float:
    """Peak memory of a build in a process of its own, in MiB."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    child = context.Process(target=_peak, args=(engine.__name__, str(where), column, kind, out))
    child.start()
    grown = out.get()
    child.join()
    return float(grown) / 1024


def alternate(work: Callable[[ModuleType], object], repeats: int, turn: float = 0) -> dict[str, tuple[float, float]]:
    """Median seconds of each library, by the clock and of the processors, of work that is done again until a turn is over."""
    taken: dict[str, list[tuple[float, float]]] = {engine.__name__: [] for engine in ENGINES}
    for number in range(repeats):
        for engine in ENGINES if number % 2 else reversed(ENGINES):
            began, used, times = time.perf_counter(), time.process_time(), 0
            while not times or time.perf_counter() < began + turn:
                work(engine)
                times += 1
            taken[engine.__name__].append(((time.perf_counter() - began) / times, (time.process_time() - used) / times))
    return {name: tuple(map(statistics.median, zip(*times, strict=True))) for name, times in taken.items()}  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.indices", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--builds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--only", default="", help="kinds of indices to build, separated by commas")
    arguments = parser.parse_args()
    wanted = arguments.only.upper().split(",") if arguments.only else [kind for _, kind in BUILDS]
    console = Console()
    report = Table(title=f"{arguments.rows:,} rows, medians")
    for column in ("what", "lancelet", "pylance", "ratio", "ratio of CPU time", "peak MiB", "peak MiB of pylance"):
        report.add_column(column, justify="left" if column == "what" else "right")
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "table"
        some = next(iter(batches(1)))
        reader = pa.RecordBatchReader.from_batches(some.schema, batches(arguments.rows))
        lance.write_dataset(reader, where)
        for column, kind in BUILDS:
            if kind not in wanted:
                continue

            def one(engine: ModuleType, column: str = column, kind: str = kind) -> None:
                build(engine, where, column, kind)

            taken = alternate(one, arguments.builds)
            peaks = [peak(engine, where, column, kind) for engine in ENGINES]
            _row(report, f"build {kind} on {column}", taken, 1, "s", [f"{mib:,.0f}" for mib in peaks])
        for engine in ENGINES:
            other = Path(folder) / engine.__name__
            shutil.copytree(where, other)
            made = engine.dataset(other)
            for index in made.describe_indices():
                made.drop_index(index.name)
            for column, kind in BUILDS:
                if kind in wanted:
                    made.create_scalar_index(column, kind)
        opened = {engine.__name__: engine.dataset(Path(folder) / engine.__name__) for engine in ENGINES}
        for label, (condition, columns) in questions(arguments.rows).items():
            answers = [ask(engine, opened[engine.__name__], condition, columns) for engine in ENGINES]
            if columns:
                answers = [answer.sort_by("key").combine_chunks() for answer in answers]
            assert answers[0] == answers[1], label

            def timed(engine: ModuleType, condition: str = condition, columns: list[str] = columns) -> None:
                ask(engine, opened[engine.__name__], condition, columns)

            _row(report, label, alternate(timed, arguments.repeats, TURN), 1000, "ms", ["", ""])
    console.print(report)


def _row(
    report: Table, what: str, taken: dict[str, tuple[float, float]], scale: float, unit: str, more: list[str]
) -> None:
    ours, theirs = taken["lancelet"], taken["lance"]
    ratios = (f"{mine / other:.2f}" for mine, other in zip(ours, theirs, strict=True))
    report.add_row(what, f"{ours[0] * scale:,.2f} {unit}", f"{theirs[0] * scale:,.2f} {unit}", *ratios, *more)


if __name__ == "__main__":
    main()

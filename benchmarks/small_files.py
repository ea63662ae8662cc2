"""``python -m benchmarks.small_files``: what files, columns and fragments cost beside their values, lancelet and pylance side by side.

Many small fragments, many columns, single rows: the values are few, so what is measured is how files are opened, their
columns described and their pages planned. "Fresh" opens the table in every turn, "warm" asks one that is open. Both
libraries answer in turns, and first, untimed, must give the same.
"""

from __future__ import annotations

import argparse
import copy
import gc
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet
from benchmarks.data import CACHE, main_table
from lancelet.testing import assert_identical

ENGINES: tuple[ModuleType, ...] = (lancelet, lance)
ROWS = 1000
Ask = Callable[[Any], Any]
Case = tuple[str, Path, bool, Ask]
"""Its name, the table, whether the table is opened in every turn, and what is asked of it."""


def narrow(start: int, rows: int) -> pa.Table:
    """Five columns of the usual types; 7 in 100 values of ``a`` are null."""
    drawn = np.random.default_rng(start)
    keys = np.arange(start, start + rows)
    return pa.table(
        {
            "id": keys,
            "a": pa.array(drawn.integers(0, 1_000_000, rows), pa.int32(), mask=drawn.random(rows) < 0.07),
            "f": drawn.random(rows),
            "category": pa.array(np.array(["lan", "ce", "let", "ta", "ble"])[drawn.integers(0, 5, rows)]),
            "text": pa.array(np.char.add("row number ", drawn.integers(0, 10**9, rows).astype(str))),
        }
    )


def fragments(count: int) -> Path:
    """A table of so many fragments of 1,000 rows."""
    return _once(
        f"small-{count}",
        lambda path: lance.write_dataset(narrow(0, count * ROWS), path, max_rows_per_file=ROWS),
    )


def nested(count: int) -> Path:
    """A table of so many fragments of 1,000 rows with structs and lists."""

    def write(path: Path) -> None:
        rows = count * ROWS
        drawn = np.random.default_rng(0).integers(0, 1000, rows)
        table = pa.table(
            {
                "id": np.arange(rows),
                "struct": pa.array([{"x": at, "y": f"text {at}"} for at in drawn.tolist()]),
                "list": pa.array([[at] * (at % 4) for at in drawn.tolist()]),
                "points": pa.array([[{"x": at, "y": at / 2}] * (at % 5) for at in drawn.tolist()]),
            }
        )
        lance.write_dataset(table, path, max_rows_per_file=ROWS)

    return _once(f"nested-{count}", write)


def wide(rows: int, columns: int = 1000) -> Path:
    """A table of a thousand columns: integers, floats, texts and integers with nulls by turns."""

    def write(path: Path) -> None:
        base = narrow(0, rows)
        kinds = ("id", "f", "text", "a")
        drawn = {f"c{at}": base[kinds[at % 4]].take(_shuffled(at, rows)) for at in range(columns)}
        lance.write_dataset(pa.table(drawn), path)

    return _once(f"wide-{columns}-{rows}", write)


def _shuffled(seed: int, rows: int) -> pa.Array:
    return pa.array(np.random.default_rng(seed).permutation(rows))


def simulated(count: int) -> Path:
    """A version of so many fragments, all of which have the same file: what is asked for is never in it."""

    def write(path: Path) -> None:
        table = lance.write_dataset(narrow(0, ROWS), path)
        (one,) = table.get_fragments()
        many = []
        for number in range(count):
            entry = copy.copy(one.metadata)
            entry.id = number
            many.append(entry)
        lance.LanceDataset.commit(path, lance.LanceOperation.Overwrite(table.schema, many), read_version=table.version)

    return _once(f"simulated-{count}", write)


def _once(name: str, write: Callable[[Path], object]) -> Path:
    folder = CACHE / name
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write(folder / "t.lance")
        (folder / "complete").touch()
    return folder / "t.lance"


def cases() -> Iterator[Case]:
    for count in (10, 100, 1000):
        yield f"scan of {count:,} fragments, fresh", fragments(count), True, _scan
        yield f"scan of {count:,} fragments, warm", fragments(count), False, _scan
    yield "scan of 100 nested fragments, fresh", nested(100), True, _scan
    yield "scan of 100 nested fragments, warm", nested(100), False, _scan
    yield "filter 1 %, 750 fragments", fragments(750), False, lambda table: table.to_table(filter="a < 10000")
    yield "count with a filter, 750 fragments", fragments(750), False, lambda table: table.count_rows("a < 10000")
    yield "filter 1 %, 750 fragments, fresh", fragments(750), True, lambda table: table.to_table(filter="a < 10000")
    for rows in (100, 1000, 20_000):
        if rows < 20_000:
            yield f"1,000 columns, {rows:,} rows, fresh", wide(rows), True, _scan
        yield f"1,000 columns, {rows:,} rows, warm", wide(rows), False, _scan
    yield "1,000 columns, take 100 of 100 rows", wide(100), False, lambda table: table.take(list(range(100)))
    small = fragments(1)
    yield "open a small table", small, True, lambda table: table.version
    yield "open, and scan a small table", small, True, _scan
    yield "take 1 row, warm", small, False, lambda table: table.take([500])
    large, _ = main_table(200_000)
    picks = np.random.default_rng(7).integers(0, 200_000, 5000).tolist()
    yield "take 1 of 200,000 rows, warm", large, False, lambda table: table.take([77_777], columns=["id", "a", "f"])
    yield "filter 10 %", large, False, lambda table: table.to_table(["id", "a", "text"], filter="a < 100000")
    yield "scan one column", large, False, lambda table: table.to_table(["a"])
    yield "nested scan", large, False, lambda table: table.to_table(["points"])
    yield "nested take of 5,000", large, False, lambda table: table.take(picks, columns=["points"])
    yield "100,000 fragments, open and count_rows", simulated(100_000), True, lambda table: table.count_rows()


def _scan(table: Any) -> pa.Table:
    return table.to_table()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.small_files", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="*", metavar="WORD", help="only cases whose name has one of these words")
    arguments = parser.parse_args()
    report = Table(title=f"Median of {arguments.repeats} turns, milliseconds", title_justify="left")
    for column in ("case", "lancelet", "pylance", "ratio", "CPU lancelet", "CPU pylance", "ratio of CPU time"):
        report.add_column(column, justify="left" if column == "case" else "right")
    for name, where, fresh, ask in cases():
        if arguments.only and not any(word in name for word in arguments.only):
            continue
        wall, cpu = (
            dict(zip(("lancelet", "lance"), part, strict=True))
            for part in _medians(where, fresh, ask, arguments.repeats)
        )
        cells = []
        for taken in (wall, cpu):
            cells += [f"{taken['lancelet'] * 1000:,.2f}", f"{taken['lance'] * 1000:,.2f}"]
            cells.append(f"{taken['lancelet'] / taken['lance']:.2f}")
        report.add_row(name, *cells)
    Console(width=140).print(report)


def _medians(where: Path, fresh: bool, ask: Ask, repeats: int) -> tuple[list[float], list[float]]:
    """Wall and CPU seconds of each engine; several calls a turn where one is too short for the clock."""
    tables = [engine.dataset(str(where)) for engine in ENGINES]
    answers = [ask(table) for table in tables]
    if isinstance(answers[1], pa.Table):
        assert_identical(answers[0].combine_chunks(), answers[1].combine_chunks())
    elif answers[0] != answers[1]:
        raise SystemExit(f"the libraries differ: {answers[0]} and {answers[1]}")
    del answers
    begun = time.perf_counter()
    _turn(0, where, tables, fresh, ask, 1)
    calls = max(1, min(200, int(0.02 / (time.perf_counter() - begun))))
    wall: list[list[float]] = [[], []]
    cpu: list[list[float]] = [[], []]
    for turn in range(repeats):
        for engine in (0, 1) if turn % 2 else (1, 0):
            gc.collect()
            taken = _turn(engine, where, tables, fresh, ask, calls)
            wall[engine].append(taken[0])
            cpu[engine].append(taken[1])
    return [statistics.median(each) for each in wall], [statistics.median(each) for each in cpu]


def _turn(engine: int, where: Path, tables: list[Any], fresh: bool, ask: Ask, calls: int) -> tuple[float, float]:
    path = str(where)
    worked, begun = time.process_time(), time.perf_counter()
    for _ in range(calls):
        ask(ENGINES[engine].dataset(path) if fresh else tables[engine])
    return (time.perf_counter() - begun) / calls, (time.process_time() - worked) / calls


if __name__ == "__main__":
    main()

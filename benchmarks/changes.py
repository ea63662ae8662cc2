"""``python -m benchmarks.changes``: updates and merges, lancelet and pylance side by side.

Every turn makes a copy of the same table for each library, whose files are links:
both change it in the same way, and the rows are compared after the first turn.
Times include the syncs that make a commit of lancelet's last, which pylance leaves
out; processor time counts all threads. Memory is the peak above what the process
had before, each in a process of its own: all of it, and what is its own alone, for
pages of mapped files are the system's, which takes them back when it needs room.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import psutil
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet
from lancelet.testing import assert_identical

ENGINES: dict[str, ModuleType] = {"lancelet": lancelet, "pylance": lance}
Act = Callable[[Any], Any]
_PIECE = 20_000


def rows(keys: np.ndarray, seed: int) -> pa.Table:
    """A key, a number, a short text and a vector."""
    rng = np.random.default_rng(seed)
    count = len(keys)
    numbers = rng.integers(0, 10**6, count)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "f": rng.random(count),
            "s": pa.array(np.char.add("text ", numbers.astype(str))),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(count * 32, dtype=np.float32)), 32),
        }
    )


def upsert(data: Any) -> Act:
    return lambda d: d.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(data)


def acts(count: int) -> dict[str, Act]:
    """What is done to a table of ``count`` rows; half of the keys of a source are new."""
    rng = np.random.default_rng(1)
    few, many = (rows(rng.choice(count * 2, share, replace=False), 2) for share in (count // 100, count // 2))
    return {
        "update 1%": lambda d: d.update({"f": "f + 1"}, "k % 100 = 7"),
        "update all": lambda d: d.update({"f": "f + 1"}),
        "update all after 10%": lambda d: d.update({"f": "f + 1"}),
        "upsert 1%": upsert(few),
        "upsert 50%": upsert(many),
        "upsert 1%, two of four columns": upsert(few.select(["k", "f"])),
        "upsert 50%, two of four columns": upsert(many.select(["k", "f"])),
        "insert 50%": lambda d: d.merge_insert("k").when_not_matched_insert_all().execute(many),
        "delete 50%": lambda d: d.merge_insert("k").when_matched_delete().execute(many.select(["k"])),
        "patch 50% in place": lambda d: (
            d.merge_insert("k").when_matched_update_all().write_mode("rewrite_columns").execute(many.select(["k", "f"]))
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.changes", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", nargs="*", metavar="WORD", help="only changes whose name has one of these words")
    arguments = parser.parse_args()
    report = Table(title=f"Changes of {arguments.rows:,} rows, medians of {arguments.turns} turns, milliseconds")
    for column in ("change", "lancelet", "pylance", "ratio", "cpu ratio"):
        report.add_column(column, justify="left" if column == "change" else "right")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table"
        keys = np.random.default_rng(0).permutation(arguments.rows)
        lance.write_dataset(rows(keys, 0), table, max_rows_per_file=500_000)
        updated = _copied(table, "updated")
        lance.dataset(updated).update({"f": "f + 1"}, "k % 10 = 3")
        for name, act in acts(arguments.rows).items():
            if arguments.only and not any(word in name for word in arguments.only):
                continue
            wall, cpu = _turns(updated if "after" in name else table, act, arguments.turns)
            ratios = (f"{taken['lancelet'] / taken['pylance']:.2f}" for taken in (wall, cpu))
            report.add_row(name, *(f"{wall[engine] * 1000:,.0f}" for engine in ENGINES), *ratios)
        Console().print(report)
        if not arguments.only:
            Console().print(_memory(table, arguments.rows))


def _turns(table: Path, act: Act, turns: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds of each engine, by the clock and of the processors."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ENGINES}
    answers: dict[str, Any] = {}
    for turn in range(turns + 1):
        for name in ENGINES if turn % 2 else reversed(ENGINES):
            copy = _copied(table)
            dataset = ENGINES[name].dataset(str(copy))
            began, used = time.perf_counter(), time.process_time()
            answer = act(dataset)
            seconds = time.perf_counter() - began, time.process_time() - used
            if turn:
                taken[name].append(seconds)
            else:
                answers[name] = answer, lance.dataset(copy).to_table().sort_by("k")
            shutil.rmtree(copy)
    assert answers["lancelet"][0] == answers["pylance"][0]
    assert_identical(answers["lancelet"][1], answers["pylance"][1])
    wall, cpu = ({name: statistics.median(t[at] for t in taken[name]) for name in ENGINES} for at in (0, 1))
    return wall, cpu


def _copied(table: Path, name: str = "copy") -> Path:
    copy = table.with_name(name)
    shutil.copytree(table, copy, copy_function=os.link)
    return copy


def _memory(table: Path, count: int) -> Table:
    report = Table(title="Peak memory above opening, MiB")
    for column in ("change", *(name + which for which in ("", ", own") for name in ENGINES)):
        report.add_column(column, justify="left" if column == "change" else "right")
    spawned = multiprocessing.get_context("spawn")
    for what in ("upsert 50%, streamed", "update all"):
        found = []
        for engine in ENGINES:
            copy = _copied(table)
            with spawned.Pool(1) as pool:
                found.append(pool.apply(_peak, (engine, str(copy), what, count)))
            shutil.rmtree(copy)
        report.add_row(what, *(f"{peaks[which] / 2**20:,.0f}" for which in (0, 1) for peaks in found))
    return report


def _peak(engine: str, uri: str, what: str, count: int) -> tuple[int, int]:
    """Peaks of the memory that one change takes, the pieces of its stream included: of all, and of its own."""
    dataset = ENGINES[engine].dataset(uri)
    keys = np.random.default_rng(1).choice(count * 2, count // 2, replace=False)

    def stream() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(keys), _PIECE):
            yield from rows(keys[start : start + _PIECE], start).to_batches()

    process, done = psutil.Process(), threading.Event()

    def held() -> tuple[int, int]:
        status = Path("/proc/self/status").read_text()
        return process.memory_full_info().uss, int(status.partition("RssAnon:")[2].split()[0]) * 1024

    before = held()
    seen = [before]

    def watch() -> None:
        while not done.wait(0.01):
            seen.append(held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    if what == "update all":
        dataset.update({"f": "f + 1"})
    else:
        upsert(pa.RecordBatchReader.from_batches(rows(keys[:1], 0).schema, stream()))(dataset)
    done.set()
    watcher.join()
    whole, own = (max(each) - first for each, first in zip(zip(*seen, strict=True), before, strict=True))
    return whole, own


if __name__ == "__main__":
    main()

"""``python -m benchmarks.growth``: how what is done to a table grows with its size, lancelet and pylance side by side.

Tables of ever more rows, fragments, versions or columns, the other three staying as they are. What is done is always the
same: a few rows are taken, appended, deleted, looked up or compacted, so whatever grows is the cost of there being
more. Large tables are simulated by their metadata: a file stands there once, and many fragments refer to it; the index
knows the rows of the first of them, and says that it covers all.

Both libraries take turns on tables of their own, each turn with a table that was just opened. Times are processor time of all
threads, medians. Memory is the peak above what a process had before, each in a process of its own that has done the same
to a small table first. ``--pictures docs`` draws what this run measured.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.data import CACHE
from benchmarks.growth_acts import acts, copy_of, few_rows, grow, table_of
from benchmarks.growth_picture import LEAST, Lines, draw
from benchmarks.turns import ENGINES, Taken, in_turn
from lancelet.testing import assert_identical

SIZES = {
    "rows": tuple(10**power for power in range(4, 10)),
    "fragments": tuple(10**power for power in range(6)),
    "versions": tuple(10**power for power in range(5)),
    "columns": tuple(10**power for power in range(5)),
}
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["benchmarks.growth_acts"])


def measure(what: str, size: int, act: str, folder: Path, turns: int, seconds: float) -> dict[str, Taken]:
    """Processor time of each library; before it counts, both must do the same. The last turn is the one that takes too long."""
    begun = time.perf_counter()
    places = {name: copy_of(table_of(what, size), folder / name) for name in ENGINES}
    taken = {name: Taken() for name in ENGINES}
    for turn in range(turns + 1):
        if turn > 1 and time.perf_counter() - begun > seconds:
            break
        answers = {}
        for name in in_turn(turn):
            if act == "compaction" and turn:
                for _ in range(2):
                    lance.write_dataset(few_rows(lance.dataset(places[name]).schema), places[name], mode="append")
            table = ENGINES[name].dataset(places[name])

            def do(name: str = name, table: Any = table) -> None:
                answers[name] = acts()[act](ENGINES[name], places[name], table)  # noqa: B023

            (taken[name] if turn else Taken()).timed(do)
        ours, theirs = answers["lancelet"], answers["pylance"]
        if isinstance(theirs, pa.Table):
            assert_identical(ours, theirs)
        else:
            assert ours == theirs, f"{act} of {size:,} {what}: {ours} and {theirs}"
    for place in places.values():
        shutil.rmtree(place)
    return taken


def peaks(what: str, size: int, act: str, folder: Path) -> dict[str, int]:
    """Bytes by which a process of each library grew."""
    found = {}
    for name in ENGINES:
        small, where = (
            copy_of(table_of("versions", 1), folder / "small"),
            copy_of(table_of(what, size), folder / "large"),
        )
        mine, theirs = _FORKS.Pipe(duplex=False)
        child = _FORKS.Process(target=grow, args=(name, act, small, where, theirs))
        child.start()
        theirs.close()
        found[name] = mine.recv()
        child.join()
        shutil.rmtree(small)
        shutil.rmtree(where)
    return found


def slope(sizes: tuple[int, ...], values: list[float]) -> float:
    """The power with which the last hundredfold grew: 0 for what stays, 1 for what grows as the table does."""
    first = max(len(sizes) - 3, 0)
    return math.log(max(values[-1], LEAST) / max(values[first], LEAST)) / math.log(sizes[-1] / sizes[first])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=60.0, help="after which a case has no further turns")
    parser.add_argument("--of", nargs="*", choices=list(SIZES), default=list(SIZES), help="what grows")
    parser.add_argument("--only", nargs="*", choices=list(acts()), default=list(acts()), help="what is done")
    parser.add_argument("--largest", type=int, default=10**9, help="leave out what is larger")
    parser.add_argument("--no-memory", action="store_true", help="measure time alone")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw growth-rows.svg and so on there")
    arguments = parser.parse_args()
    console = Console()
    for what in arguments.of:
        sizes = tuple(size for size in SIZES[what] if size <= arguments.largest)
        times: dict[str, Lines] = {}
        memory: dict[str, Lines] = {}
        for act in track(arguments.only, what, console=console, transient=True):
            with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
                measured = [
                    measure(what, size, act, Path(folder), arguments.turns, arguments.seconds) for size in sizes
                ]
                times[act] = {name: [statistics.median(each[name].cpu) * 1000 for each in measured] for name in ENGINES}
                if not arguments.no_memory:
                    grown = [peaks(what, size, act, Path(folder)) for size in sizes]
                    memory[act] = {name: [max(each[name], 0) / 2**20 for each in grown] for name in ENGINES}
        console.print(_report(what, sizes, times, memory))
        if arguments.pictures is not None:
            (arguments.pictures / f"growth-{what}.svg").write_text(draw(what, sizes, times, memory))


def _report(what: str, sizes: tuple[int, ...], times: Mapping[str, Lines], memory: Mapping[str, Lines]) -> Table:
    report = Table(title=f"Processor time in milliseconds, and memory in MiB, by {what}", title_justify="left")
    for heading in ("", "library", *(f"{size:,}" for size in sizes), "power"):
        report.add_column(heading, justify="right" if heading not in ("", "library") else "left", no_wrap=True)
    for unit, kind in (("", times), (", MiB", memory)):
        for act, lines in kind.items():
            for name, values in lines.items():
                power = f"{slope(sizes, values):.2f}" if len(sizes) > 2 else "-"
                report.add_row(f"{act}{unit}", name, *(f"{value:,.2f}" for value in values), power)
    return report


if __name__ == "__main__":
    main()

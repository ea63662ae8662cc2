"""``python -m benchmarks.writes``: lancelet and pylance write the same tables in turn, new ones and appends.

What lancelet wrote is read back by pylance and compared before anything is timed. Times include the syncs that make a
commit of lancelet's last, which pylance leaves out. Processor time counts all threads; a busy machine disturbs it less.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet
from benchmarks.write_cases import Case, cases
from lancelet.testing import assert_identical

ENGINES: dict[str, Any] = {"lancelet": lancelet, "pylance": lance}
console = Console()


@dataclass(slots=True)
class Taken:
    """What one engine took for one case."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    size: int = 0


def main() -> None:
    arguments = _arguments()
    report = Table(title=f"Writes, medians of {arguments.turns} turns", title_justify="left", header_style="bold")
    for name in ("case", "lancelet ms", "pylance ms", "ratio", "cpu", "size"):
        report.add_column(name, justify="left" if name == "case" else "right", no_wrap=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        wanted = (c for c in cases() if not arguments.only or any(word in c.name for word in arguments.only))
        ratios = [_row(report, case.name, _creates(case, Path(folder), arguments)) for case in wanted]
        if not arguments.only:
            ratios += [_row(report, *change) for change in _small_changes(Path(folder), arguments.turns * 5)]
    console.print(report)
    over = sum(ratio > 1 for ratio in ratios)
    console.print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, {over} of {len(ratios)} above 1")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.writes", description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0, help="after which a case has no further turns")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--only", nargs="*", metavar="WORD", help="only cases whose name has one of these words")
    return parser.parse_args()


def _creates(case: Case, folder: Path, arguments: argparse.Namespace) -> dict[str, Taken]:
    taken = {name: Taken() for name in ENGINES}

    def write(name: str) -> None:
        ENGINES[name].write_dataset(case.table, folder / name, data_storage_version=case.version)

    for name in ENGINES:
        write(name)
        taken[name].size = sum(file.stat().st_size for file in (folder / name / "data").iterdir())
    assert_identical(lance.dataset(folder / "lancelet").to_table(), lance.dataset(folder / "pylance").to_table())
    began = time.perf_counter()
    for turn in range(arguments.turns):
        if turn > 2 and time.perf_counter() - began > arguments.seconds:
            break
        for name in sorted(ENGINES, reverse=bool(turn % 2)):
            shutil.rmtree(folder / name)
            _timed(taken[name], lambda name=name: write(name))
    for name in ENGINES:
        shutil.rmtree(folder / name)
    return taken


def _small_changes(folder: Path, turns: int) -> list[tuple[str, dict[str, Taken]]]:
    """Appends of one row, and deletes of one."""
    row = pa.table({"a": [1], "b": ["x"]})
    appends = {name: Taken() for name in ENGINES}
    deletes = {name: Taken() for name in ENGINES}
    for name, engine in ENGINES.items():
        engine.write_dataset(pa.table({"a": range(10_000), "b": ["x"] * 10_000}), folder / name)
    for turn in range(turns):
        for name in sorted(ENGINES, reverse=bool(turn % 2)):
            engine = ENGINES[name]
            _timed(appends[name], lambda: engine.write_dataset(row, folder / name, mode="append"))  # noqa: B023
            dataset = engine.dataset(folder / name)
            _timed(deletes[name], lambda: dataset.delete(f"a = {turn + 5}"))  # noqa: B023
    for name in ENGINES:
        shutil.rmtree(folder / name)
    return [("append one row", appends), ("delete one row", deletes)]


def _timed(taken: Taken, act: Callable[[], object]) -> None:
    gc.collect()
    gc.disable()
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    taken.cpu.append(time.process_time() - cpu)
    taken.wall.append(time.perf_counter() - wall)
    gc.enable()


def _row(report: Table, name: str, taken: dict[str, Taken]) -> float:
    ours, theirs = taken["lancelet"], taken["pylance"]
    wall = [statistics.median(each.wall) * 1000 for each in (ours, theirs)]
    cpu = statistics.median(ours.cpu) / statistics.median(theirs.cpu)
    ratio = wall[0] / wall[1]
    colour = "green" if ratio <= 0.7 else "yellow" if ratio <= 1 else "red"
    size = f"{ours.size / theirs.size:.3f}" if theirs.size else "-"
    report.add_row(name, f"{wall[0]:,.1f}", f"{wall[1]:,.1f}", f"[{colour}]{ratio:.2f}[/{colour}]", f"{cpu:.2f}", size)
    return ratio


if __name__ == "__main__":
    main()

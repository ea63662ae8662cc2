"""Two engines taking turns: what each took by the clock and of the processors, and a line of a report about it."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

import lance
from rich.table import Table

import lancelet

ENGINES: dict[str, ModuleType] = {"lancelet": lancelet, "pylance": lance}


@dataclass(slots=True)
class Taken:
    """What one engine took for one case."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    size: int = 0

    def timed(self, act: Callable[[], object]) -> None:
        """Note what ``act`` takes; processor time counts all threads."""
        gc.collect()
        gc.disable()
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        gc.enable()


def in_turn(turn: int) -> list[str]:
    """Names of the engines; each is first in every other turn."""
    return sorted(ENGINES, reverse=bool(turn % 2))


def new_report(title: str) -> Table:
    report = Table(title=title, title_justify="left", header_style="bold")
    for name in ("case", "lancelet ms", "pylance ms", "ratio", "cpu", "size"):
        report.add_column(name, justify="left" if name == "case" else "right", no_wrap=True)
    return report


def add_row(report: Table, name: str, taken: dict[str, Taken]) -> float:
    """A line of medians; returns the ratio by the clock."""
    ours, theirs = taken["lancelet"], taken["pylance"]
    wall = [statistics.median(each.wall) * 1000 for each in (ours, theirs)]
    cpu = statistics.median(ours.cpu) / statistics.median(theirs.cpu)
    ratio = wall[0] / wall[1]
    colour = "green" if ratio <= 0.7 else "yellow" if ratio <= 1 else "red"
    size = f"{ours.size / theirs.size:.3f}" if theirs.size else "-"
    report.add_row(name, f"{wall[0]:,.1f}", f"{wall[1]:,.1f}", f"[{colour}]{ratio:.2f}[/{colour}]", f"{cpu:.2f}", size)
    return ratio

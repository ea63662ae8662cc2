"""What the demo shows on the screen: headings, tables, and a bar for the tasks of a Spark job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.1
_SHOWN_LETTERS = 44
console = Console(highlight=False)


def section(title: str, *code: str) -> None:
    """A heading, and the lines of a program that do it."""
    console.print()
    console.print(Rule(f"[bold]{title}", align="left"))
    for at, line in enumerate(code):
        prompt = ">>>" if at == 0 else "..."
        console.print(f"  [dim]{prompt}[/dim] [cyan]{line}[/cyan]", soft_wrap=True)


def say(text: str) -> None:
    console.print(f"  {text}")


def show(rows: pa.Table) -> None:
    """Rows as a table."""
    grid = Table(header_style="bold", box=None, padding=(0, 2))
    for field in rows.schema:
        right = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        grid.add_column(field.name, overflow="ellipsis", no_wrap=True, justify="right" if right else "left")
    for row in rows.to_pylist():
        grid.add_row(*(_cell(value) for value in row.values()))
    console.print(grid)


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


@contextmanager
def working(spark: SparkSession, what: str) -> Iterator[None]:
    """Show how many tasks are done while Spark works; one line at the end where there is no terminal."""
    started = time.perf_counter()
    if not console.is_terminal:
        yield
        say(f"{what}: {time.perf_counter() - started:.1f} s")
        return
    bar = Progress(
        TextColumn(f"  [bold]{what:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
        console=console,
    )
    stop = threading.Event()
    with bar:
        watcher = threading.Thread(target=_watch, args=(spark, bar, bar.add_task("", total=None), stop), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def _watch(spark: SparkSession, bar: Progress, line: Any, stop: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    stages: dict[int, tuple[int, int]] = {}
    while not stop.wait(_POLL_SECONDS):
        for stage in {*stages, *tracker.getActiveStageIds()}:
            info = tracker.getStageInfo(stage)
            if info is not None:
                stages[stage] = (info.numCompletedTasks, info.numTasks)
        if stages:
            done, total = (sum(counts) for counts in zip(*stages.values(), strict=True))
            bar.update(line, completed=done, total=total)
    # Stages too short to be seen between two looks count as done, like all others.
    total = max(1, sum(count for _, count in stages.values()))
    bar.update(line, completed=total, total=total)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text if len(text) <= _SHOWN_LETTERS else text[: _SHOWN_LETTERS - 1] + "…"

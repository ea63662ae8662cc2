"""``python -m benchmarks.cleanup``: cleanups of tables with many versions, lancelet and pylance side by side.

Each turn makes fresh copies of the same table, has both libraries explain and
carry out the same cleanup, and checks that they removed the same files.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import lance
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet

ENGINES: tuple[ModuleType, ...] = (lancelet, lance)
EVERYTHING = timedelta(0)


def appended(where: Path, versions: int) -> None:
    """One small append a version: every file is still needed at the end."""
    for number in range(versions):
        lance.write_dataset(pa.table({"a": range(10)}), where, mode="append" if number else "create")


def changed(where: Path, versions: int) -> None:
    """Appends, deletes and now and then an overwrite: most files are needed by old versions only."""
    for number in range(versions // 2):
        mode = "create" if number == 0 else "overwrite" if number % 50 == 49 else "append"
        lance.write_dataset(pa.table({"a": range(1000)}), where, mode=mode).delete(f"a = {number}")


HISTORIES: dict[str, Callable[[Path, int], None]] = {"appends": appended, "appends and deletes": changed}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.cleanup", description=__doc__)
    parser.add_argument("--versions", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    report = Table(title=f"Cleanup of {arguments.versions} versions, median of {arguments.repeats} turns, milliseconds")
    for column in ("history", "step", "lancelet", "pylance", "ratio"):
        report.add_column(column, justify="left" if column in ("history", "step") else "right")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in HISTORIES.items():
            table = Path(folder) / name
            make(table, arguments.versions)
            for step, seconds in _turns(table, arguments.repeats).items():
                ours, theirs = (statistics.median(seconds[engine.__name__]) * 1000 for engine in ENGINES)
                report.add_row(name, step, f"{ours:,.1f}", f"{theirs:,.1f}", f"{ours / theirs:.2f}")
    Console().print(report)


def _turns(table: Path, repeats: int) -> dict[str, dict[str, list[float]]]:
    taken: dict[str, dict[str, list[float]]] = {
        step: {engine.__name__: [] for engine in ENGINES} for step in ("explain", "clean up")
    }
    for turn in range(repeats + 1):
        left = []
        for engine in ENGINES if turn % 2 else reversed(ENGINES):
            copy = table.with_name("copy")
            shutil.copytree(table, copy)
            dataset = engine.dataset(copy)
            begin = time.perf_counter()
            dataset.explain_cleanup_old_versions(EVERYTHING)
            middle = time.perf_counter()
            dataset.cleanup_old_versions(EVERYTHING)
            end = time.perf_counter()
            if turn:
                taken["explain"][engine.__name__].append(middle - begin)
                taken["clean up"][engine.__name__].append(end - middle)
            left.append(sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()))
            shutil.rmtree(copy)
        assert left[0] == left[1], "the two libraries removed different files"
    return taken


if __name__ == "__main__":
    main()

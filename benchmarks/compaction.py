"""``python -m benchmarks.compaction``: many small fragments into few large ones, lancelet and pylance side by side.

Each turn has both libraries compact the same version of a table, which is restored in between; the first turn, which is
not timed, checks that they made the same fragments of the same rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet

ENGINES: tuple[ModuleType, ...] = (lancelet, lance)
DIMENSIONS = 32


def table(first: int, rows: int) -> pa.Table:
    drawn = np.random.default_rng(first)
    keys = np.arange(first, first + rows)
    vectors = pa.array(drawn.random(rows * DIMENSIONS, np.float32))
    return pa.table(
        {
            "k": keys,
            "f": drawn.random(rows),
            "s": pa.array(np.char.add("text ", (keys % 1000).astype(str))),
            "v": pa.FixedSizeListArray.from_arrays(vectors, DIMENSIONS),
        }
    )


def make(where: Path, fragments: int, rows: int, *, stable: bool) -> lance.LanceDataset:
    each = rows // fragments
    batches = (batch for n in range(fragments) for batch in table(n * each, each).to_batches())
    reader = pa.RecordBatchReader.from_batches(table(0, 1).schema, batches)
    return lance.write_dataset(reader, where, max_rows_per_file=each, enable_stable_row_ids=stable)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.compaction", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--fragments", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    title = (
        f"{arguments.fragments} fragments of {arguments.rows:,} rows, median of {arguments.repeats} turns, milliseconds"
    )
    report = Table(title=title)
    for column in ("table", "lancelet", "pylance", "ratio", "ratio of CPU time"):
        report.add_column(column, justify="left" if column == "table" else "right")
    cases: list[tuple[str, bool, str | None, dict[str, Any]]] = [
        ("plain", False, None, {}),
        ("every fifth row deleted", False, "k % 5 = 0", {}),
        ("stable row ids", True, "k % 50 = 0", {}),
        ("ten new fragments", False, None, {"target_rows_per_fragment": arguments.rows // 10}),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, stable, deleted, options in cases:
            where = Path(folder) / name
            dataset = make(where, arguments.fragments, arguments.rows, stable=stable)
            if deleted:
                dataset.delete(deleted)
            taken = _turns(where, dataset.version, options, arguments.repeats)
            ours, theirs = (
                [statistics.median(times) * 1000 for times in zip(*taken[engine.__name__], strict=True)]
                for engine in ENGINES
            )
            ratios = [f"{mine / other:.2f}" for mine, other in zip(ours, theirs, strict=True)]
            report.add_row(name, f"{ours[0]:,.0f}", f"{theirs[0]:,.0f}", *ratios)
    Console().print(report)


def _turns(where: Path, version: int, options: dict[str, Any], repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Wall and CPU seconds of each turn."""
    taken: dict[str, list[tuple[float, float]]] = {engine.__name__: [] for engine in ENGINES}
    for turn in range(repeats + 1):
        found = []
        for engine in ENGINES if turn % 2 else reversed(ENGINES):
            dataset = engine.dataset(where)
            worked, begun = time.process_time(), time.perf_counter()
            dataset.optimize.compact_files(**options)
            ended, working = time.perf_counter(), time.process_time()
            if turn:
                taken[engine.__name__].append((ended - begun, working - worked))
            else:
                made = lance.dataset(where)
                found.append(([f.physical_rows for f in made.get_fragments()], made.to_table()))
            lance.dataset(where, version=version).restore()
        if found and found[0] != found[1]:
            raise SystemExit("the libraries made different tables")
    return taken


if __name__ == "__main__":
    main()

"""``python -m benchmarks.columns``: columns added, cast and joined, lancelet and pylance side by side.

Each turn has both libraries make the same change to the same version of a table, which is restored in between; the
first turn, which is not timed, checks that they made the same column.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
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
Change = Callable[[Any], None]


def table(rows: int) -> pa.Table:
    drawn = np.random.default_rng(0)
    keys = np.arange(rows)
    texts = pa.array(np.char.add("row ", (keys % 100_000).astype(str)))
    return pa.table({"k": keys, "f": drawn.random(rows), "s": texts})


def changes(rows: int) -> dict[str, Change]:
    drawn = np.random.default_rng(1)
    others = pa.table({"k": drawn.permutation(rows)[: rows // 4], "new": drawn.random(rows // 4)})
    return {
        "integers by SQL": lambda dataset: dataset.add_columns({"new": "k * 2 + 1"}),
        "floats by SQL": lambda dataset: dataset.add_columns({"new": "f * 3.5"}),
        "texts by SQL": lambda dataset: dataset.add_columns({"new": "upper(s)"}),
        "a function": lambda dataset: dataset.add_columns(doubled, read_columns=["k"]),
        "a table": lambda dataset: dataset.add_columns(pa.table({"new": np.arange(len(dataset))})),
        "nulls": lambda dataset: dataset.add_columns(pa.field("new", pa.int64())),
        "cast to int32": lambda dataset: dataset.alter_columns({"path": "k", "data_type": pa.int32(), "name": "new"}),
        "cast to float": lambda dataset: dataset.alter_columns({"path": "f", "data_type": pa.float32(), "name": "new"}),
        "join by key": lambda dataset: dataset.merge(others, "k"),
        "rename": lambda dataset: dataset.alter_columns({"path": "k", "name": "new"}),
    }


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"new": pc.multiply(batch["k"], 2)})


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.columns", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    report = Table(title=f"A column of {arguments.rows:,} rows, median of {arguments.repeats} turns, milliseconds")
    for column in ("table", "change", "lancelet", "pylance", "ratio", "ratio of CPU time"):
        report.add_column(column, justify="left" if column in ("table", "change") else "right")
    with tempfile.TemporaryDirectory() as folder:
        for name, deleted in (("plain", None), ("every tenth row deleted", "k % 10 = 0")):
            where = Path(folder) / name
            dataset = lance.write_dataset(table(arguments.rows), where)
            if deleted:
                dataset.delete(deleted)
            for label, change in changes(arguments.rows).items():
                taken = _turns(where, dataset.version, change, arguments.repeats)
                ours, theirs = (
                    [statistics.median(times) * 1000 for times in zip(*taken[engine.__name__], strict=True)]
                    for engine in ENGINES
                )
                ratios = [f"{mine / other:.2f}" for mine, other in zip(ours, theirs, strict=True)]
                report.add_row(name, label, f"{ours[0]:,.1f}", f"{theirs[0]:,.1f}", *ratios)
    Console().print(report)


def _turns(where: Path, version: int, change: Change, repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Wall and CPU seconds of each turn."""
    taken: dict[str, list[tuple[float, float]]] = {engine.__name__: [] for engine in ENGINES}
    for turn in range(repeats + 1):
        found = []
        for engine in ENGINES if turn % 2 else reversed(ENGINES):
            dataset = engine.dataset(where)
            worked, begun = time.process_time(), time.perf_counter()
            change(dataset)
            ended, working = time.perf_counter(), time.process_time()
            if turn:
                taken[engine.__name__].append((ended - begun, working - worked))
            else:
                found.append(lance.dataset(where).to_table(columns=["new"]))
            lance.dataset(where, version=version).restore()
        if found and not found[0].equals(found[1]):
            raise SystemExit("the libraries made different columns")
    return taken


if __name__ == "__main__":
    main()

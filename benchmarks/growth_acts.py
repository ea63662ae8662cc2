"""What ``benchmarks.growth`` does, the tables that it does it to, and how much a process grows while it does."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import lance
import numpy as np
import pyarrow as pa

from benchmarks.data import CACHE
from benchmarks.turns import ENGINES

# Processes are forked from a server that has not used it yet.
warnings.filterwarnings("ignore", "lance is not fork-safe")

FILE_ROWS = 1_000_000
SMALL_ROWS = 100
"""Of a fragment where rows are not what grows; what has fewer is compacted."""
FEW = 10
Act: TypeAlias = Callable[[ModuleType, Path, Any], Any]
"""What is done with a library, the place of a table, and the table, which was just opened."""


def acts() -> dict[str, Act]:
    return {
        "open": lambda engine, where, _: engine.dataset(where).version,
        "plan": lambda _, __, table: (
            table.scanner(["k"], filter="k > 7").explain_plan() != "",
            len(_fragments(table)),
        ),
        "take": lambda _, __, table: table.take(_spread(table)),
        "append": lambda engine, where, table: (
            engine.write_dataset(few_rows(table.schema), where, mode="append").version
        ),
        "delete": lambda _, __, table: table.delete(f"k = {table.version % 89}")["num_deleted_rows"],
        "compaction": lambda _, __, table: (
            table.optimize.compact_files(target_rows_per_fragment=SMALL_ROWS).files_removed
        ),
        "lookup": lambda _, __, table: table.to_table(filter="k = 3"),
    }


def _fragments(table: Any) -> list[Any]:
    return list(table.get_fragments())


def _spread(table: Any) -> list[int]:
    """Some rows, all over the table."""
    rows = table.count_rows()
    return [number * rows // FEW for number in range(FEW)]


def _rows(first: int, count: int, columns: int) -> pa.Table:
    keys = np.arange(first, first + count)
    return pa.table({"k": keys} | {f"c{number}": keys * number for number in range(1, columns)})


def few_rows(schema: pa.Schema) -> pa.Table:
    """Rows whose keys nothing else has."""
    return _rows(-FEW, FEW, len(schema))


def table_of(what: str, size: int) -> Path:
    """A table, made once, by pylance."""
    folder = CACHE / f"growth-{what}-{size}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _make(folder / "t.lance", **{what: size})
        (folder / "complete").touch()
    return folder / "t.lance"


def _make(where: Path, rows: int = 0, fragments: int = 1, versions: int = 1, columns: int = 2) -> None:
    """Fragments that share a file, an index over their keys, then two fragments of few rows each."""
    each = min(rows, FILE_ROWS) or SMALL_ROWS
    count = max(rows // each, fragments)
    table = lance.write_dataset(_rows(0, each, columns), where)
    table.create_scalar_index("k", "BTREE")
    (index,) = table.read_transaction(table.version).operation.new_indices
    if count > 1:
        first = table.get_fragments()[0].metadata
        more = [lance.FragmentMetadata(id=0, files=first.files, physical_rows=each) for _ in range(count - 1)]
        table = lance.LanceDataset.commit(where, lance.LanceOperation.Append(more), read_version=table.version)
        covering = replace(index, fragment_ids=type(index.fragment_ids)(range(count)), dataset_version=table.version)
        change = lance.LanceOperation.CreateIndex([covering], [index])
        table = lance.LanceDataset.commit(where, change, read_version=table.version)
    while table.version < versions:
        table.update_config({"turn": str(table.version)})
    for _ in range(2):
        table.insert(few_rows(table.schema))


def copy_of(table: Path, where: Path) -> Path:
    """Another table with the same files, which are links."""
    shutil.copytree(table, where, copy_function=os.link)
    return where


def grow(name: str, act: str, small: Path, where: Path, told: Connection) -> None:
    """Do it to the small table, which loads all that is loaded when it is first needed, then to the other one."""
    engine, do = ENGINES[name], acts()[act]
    do(engine, small, engine.dataset(small))
    table = None if act == "open" else engine.dataset(where)
    # The peak starts again from here.
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    answer = do(engine, where, table)
    told.send(_memory("VmHWM") - before)
    del answer


def _memory(name: str) -> int:
    _, _, rest = Path("/proc/self/status").read_text().partition(f"{name}:")
    return int(rest.split()[0]) * 1024

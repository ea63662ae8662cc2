"""``python -m benchmarks.commits``: changes of few rows or none, where a commit is most of what there is to do.

Each turn has both libraries change a table of their own, which began alike and stays open; at the end both tables must
have the same rows. Times include the syncs that make a commit of lancelet's last, which pylance leaves out; processor time
counts all threads, and a busy machine disturbs it less.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from benchmarks.turns import ENGINES, Taken, add_row, in_turn, new_report
from lancelet.testing import assert_identical

Act = Callable[[Any, int], object]
"""A dataset and the number of the turn."""


@dataclass(frozen=True, slots=True)
class Case:
    """A change of a table with some fragments of some rows."""

    name: str
    fragments: int
    rows: int
    act: Act
    turns: int = 1
    """How many times as many as asked for."""


def cases() -> Iterable[Case]:
    row = pa.table({"k": [-1], "s": ["new"]})
    return (
        Case("append one row", 1, 10_000, lambda d, _: d.insert(row), 3),
        Case("delete one row", 1, 10_000, lambda d, turn: d.delete(f"k = {turn}"), 3),
        Case("delete one row of 100 fragments", 100, 1000, lambda d, turn: d.delete(f"k = {turn * 100}"), 3),
        Case("update one row", 1, 10_000, lambda d, turn: d.update({"s": "'x'"}, f"k = {turn}"), 3),
        Case("update config", 1, 10_000, lambda d, turn: d.update_config({"turn": str(turn)}), 3),
        Case("update config, 100 fragments", 100, 10, lambda d, turn: d.update_config({"turn": str(turn)}), 3),
        Case("create tag", 1, 100, lambda d, turn: d.tags.create(f"t{turn}", 1), 3),
        Case("create branch", 1, 100, lambda d, turn: d.create_branch(f"b{turn}"), 3),
        Case("shallow clone", 10, 1000, lambda d, turn: d.shallow_clone(f"{d.uri}-shallow{turn}", d.version)),
        Case("deep clone of 10 fragments", 10, 1000, lambda d, turn: d.deep_clone(f"{d.uri}-deep{turn}", d.version)),
        Case("add a column of nulls", 10, 1000, lambda d, turn: d.add_columns(pa.field(f"n{turn}", pa.int64()))),
        Case("append, 100,000 fragments", 100_000, 1, lambda d, _: d.insert(row)),
        Case("delete one row, 100,000 fragments", 100_000, 1, lambda d, turn: d.delete(f"_rowaddr = {turn << 32}")),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.commits", description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--only", nargs="*", metavar="WORD", help="only cases whose name has one of these words")
    arguments = parser.parse_args()
    wanted = [c for c in cases() if not arguments.only or any(word in c.name for word in arguments.only)]
    report = new_report(f"Commits, medians of {arguments.turns} turns or more")
    console = Console()
    for case in track(wanted, "measuring", console=console, transient=True):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            add_row(report, case.name, _turns(case, Path(folder), arguments.turns * case.turns))
    console.print(report)


def _turns(case: Case, folder: Path, turns: int) -> dict[str, Taken]:
    taken = {name: Taken() for name in ENGINES}
    first, *others = ENGINES
    _make(folder / first, case)
    for name in others:
        shutil.copytree(folder / first, folder / name)
    opened = {name: engine.dataset(folder / name) for name, engine in ENGINES.items()}
    for turn in range(turns + 1):
        for name in in_turn(turn):
            dataset = opened[name]
            # The first turn is not timed.
            (taken[name] if turn else Taken()).timed(lambda: case.act(dataset, turn))  # noqa: B023
    tables = [lance.dataset(folder / name) for name in ENGINES]
    assert len({table.version for table in tables}) == 1
    if case.fragments <= 1000:
        assert_identical(*(table.to_table() for table in tables))
    else:
        assert len({table.count_rows() for table in tables}) == 1
    return taken


def _make(where: Path, case: Case) -> None:
    """Keys are not in order, so that no statistics tell where one is."""
    count = case.fragments * case.rows
    keys = [number * 7919 % count for number in range(count)]
    table = pa.table({"k": keys, "s": [f"text {key % 100}" for key in keys]})
    if case.fragments < 10_000:
        lance.write_dataset(table, where, max_rows_per_file=case.rows)
        return
    # The fragments share one file, which nothing here reads; what counts is how many there are.
    made = lance.write_dataset(table.slice(0, case.rows), where)
    file = made.get_fragments()[0].metadata.files[0]
    fragments = [
        lance.FragmentMetadata(id=number, files=[file], physical_rows=case.rows) for number in range(case.fragments)
    ]
    lance.LanceDataset.commit(where, lance.LanceOperation.Overwrite(made.schema, fragments))


if __name__ == "__main__":
    main()

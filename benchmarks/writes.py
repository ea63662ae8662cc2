"""``python -m benchmarks.writes``: lancelet and pylance write the same tables in turn, new ones and appends.

What lancelet wrote is read back by pylance and compared before anything is timed. Times include the syncs that make a
commit of lancelet's last, which pylance leaves out. Processor time counts all threads; a busy machine disturbs it less.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import lance
import pyarrow as pa
from rich.console import Console

from benchmarks.turns import ENGINES, Taken, add_row, in_turn, new_report
from benchmarks.write_cases import Case, cases
from lancelet.testing import assert_identical

console = Console()


def main() -> None:
    arguments = _arguments()
    report = new_report(f"Writes, medians of {arguments.turns} turns")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        wanted = (c for c in cases() if not arguments.only or any(word in c.name for word in arguments.only))
        ratios = [add_row(report, case.name, _creates(case, Path(folder), arguments)) for case in wanted]
        if not arguments.only:
            ratios += [add_row(report, *change) for change in _small_changes(Path(folder), arguments.turns * 5)]
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
        for name in in_turn(turn):
            shutil.rmtree(folder / name)
            taken[name].timed(lambda name=name: write(name))
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
        for name in in_turn(turn):
            engine = ENGINES[name]
            appends[name].timed(lambda: engine.write_dataset(row, folder / name, mode="append"))  # noqa: B023
            dataset = engine.dataset(folder / name)
            deletes[name].timed(lambda: dataset.delete(f"a = {turn + 5}"))  # noqa: B023
    for name in ENGINES:
        shutil.rmtree(folder / name)
    return [("append one row", appends), ("delete one row", deletes)]


if __name__ == "__main__":
    main()

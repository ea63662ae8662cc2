"""``python -m benchmarks.duck``: DuckDB asks a dataset of lancelet and one of pylance, which it knows as datasets of pyarrow.

What is measured is how much of a query reaches the table: only the columns that it names, and only the rows that its
conditions leave. Both libraries answer in turns, and first, untimed, must give the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset
from rich.console import Console

from benchmarks.data import main_table
from benchmarks.small_files import wide
from benchmarks.turns import ENGINES, Taken, add_row, in_turn, new_report

assert pyarrow.dataset, "datasets are pyarrow's where that is loaded"


def cases() -> Iterator[tuple[str, Path, str]]:
    table, _ = main_table(200_000)
    yield "filter 0.1 %", table, "select id, a, text from dataset where a < 1000 order by id"
    yield "one row with its vector", table, "select id, vector from dataset where id = 77777"
    yield "one of ten columns", table, "select sum(id) from dataset"
    yield "one of 1,000 columns", wide(20_000), "select sum(c0) from dataset"
    yield "filter, one of 1,000 columns", wide(20_000), "select max(c1) from dataset where c0 < 100"


def ask(connection: duckdb.DuckDBPyConnection, dataset: Any, query: str) -> list[Any]:
    connection.register("dataset", dataset)
    return connection.sql(query).fetchall()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.duck", description=__doc__)
    parser.add_argument("--turns", type=int, default=9)
    arguments = parser.parse_args()
    report = new_report(f"DuckDB, medians of {arguments.turns} turns")
    connection = duckdb.connect()
    for name, where, query in cases():
        opened = {engine: module.dataset(str(where)) for engine, module in ENGINES.items()}
        ours, theirs = (ask(connection, opened[engine], query) for engine in ENGINES)
        assert ours == theirs, name
        taken = {engine: Taken() for engine in ENGINES}
        for turn in range(arguments.turns):
            for engine in in_turn(turn):
                taken[engine].timed(lambda: ask(connection, opened[engine], query))  # noqa: B023
        add_row(report, name, taken)
    Console().print(report)


if __name__ == "__main__":
    main()

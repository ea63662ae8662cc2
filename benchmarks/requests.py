"""``python -m benchmarks.requests``: what an object store is asked for, lancelet and pylance side by side.

Requests and bytes are counted by a server on the loopback (:mod:`benchmarks.counting_s3`), so a busy machine changes
nothing. "Cold" opens the table anew, with the opening counted; "warm" asks a second time, of a table that has
answered once. Both libraries must give the same rows. A time beside them would say nothing: the store is this machine.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet
from benchmarks.counting_s3 import Count, serving
from benchmarks.data import CACHE, SCHEMA, batches
from lancelet.testing import assert_identical

KEYS = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "us-east-1", "allow_http": "true"}
MODULES = {"lancelet": lancelet, "pylance": lance}
WIDE = ["id", "text", "vector"]
DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the report."""

    name: str
    table: str
    ask: Callable[[Any], Any]
    warm: bool = False
    same: bool = True
    """Whether both libraries must give the same rows: searches of an index are approximate."""


def cases(rows: int) -> list[Case]:
    """All that is counted, for a large table of so many rows."""
    drawn = np.random.default_rng(7)
    picks = {count: drawn.choice(rows, count, replace=False).tolist() for count in (1, 100, rows // 10)}
    query = drawn.random(DIMENSIONS, np.float32)
    found = [
        Case("open, count_rows", "large", lambda ds: ds.count_rows()),
        Case("scan all, 1 fragment, large", "large", lambda ds: ds.to_table()),
        Case("scan all, 1 fragment of 1,000 rows", "one", lambda ds: ds.to_table()),
        Case("scan all, 20 fragments of 1,000 rows", "many", lambda ds: ds.to_table()),
        Case("scan one column, large", "large", lambda ds: ds.to_table(["a"])),
        Case("scan the vectors", "large", lambda ds: ds.to_table(["vector"])),
        Case("scan one column, 20 fragments", "many", lambda ds: ds.to_table(["a"])),
        Case("first 10 rows", "large", lambda ds: ds.head(10)),
    ]
    for warm in (False, True):
        for count, chosen in picks.items():
            found.append(Case(f"take {count:,}", "large", lambda ds, p=chosen: ds.take(p), warm))
        found.append(Case("take 100 of id", "large", lambda ds: ds.take(picks[100], ["id"]), warm))
        found.append(Case("take 100, 20 fragments", "many", lambda ds: ds.take(range(100, 20_000, 199)), warm))
    for share in (0.001, 0.01, 0.1):
        limit = int(share * 1_000_000)
        found.append(
            Case(f"filter {share:.1%}, vectors", "large", lambda ds, n=limit: ds.to_table(WIDE, filter=f"a < {n}"))
        )
    found += [
        Case("count_rows with a filter", "large", lambda ds: ds.count_rows("a < 10000")),
        Case("filter, 20 fragments", "many", lambda ds: ds.to_table(["id"], filter="a < 10000")),
    ]
    for table, segments in (("indexed", "1 segment"), ("segments", "4 segments")):
        for warm in (False, True):
            found += [
                Case(
                    f"BTREE point, {segments}", table, lambda ds: ds.to_table(["id", "text"], filter="id = 777"), warm
                ),
                Case(f"BTREE count, {segments}", table, lambda ds: ds.count_rows("id < 3000"), warm),
                Case(f"IVF_PQ, {segments}", table, lambda ds: ds.to_table(["id"], nearest=_near(query)), warm, False),
                Case(
                    f"text, {segments}",
                    table,
                    lambda ds: ds.to_table(["id"], full_text_query="token17 token99", limit=10),
                    warm,
                    False,
                ),
            ]
    found += [
        Case(
            "blobs: 10 of 100", "blobs", lambda ds: [b.read() for b in ds.take_blobs("blob", indices=range(0, 100, 10))]
        ),
        Case("blobs: ids only", "blobs", lambda ds: ds.to_table(["id"])),
    ]
    return found


def _near(query: np.ndarray) -> dict[str, Any]:
    return {"column": "vector", "q": query, "k": 10, "nprobes": 4}


def tables(folder: Path, rows: int) -> None:
    """The tables, made once; those with an index have a fifth of the rows."""
    makers: dict[str, Callable[[Path], object]] = {
        "large": lambda path: lance.write_dataset(
            pa.RecordBatchReader.from_batches(SCHEMA, batches(rows)), path, data_storage_version="2.2"
        ),
        "one": lambda path: lance.write_dataset(_narrow(0, 1000), path),
        "many": lambda path: lance.write_dataset(_narrow(0, 20_000), path, max_rows_per_file=1000),
        "indexed": lambda path: _indexed(path, rows // 5, 1),
        "segments": lambda path: _indexed(path, rows // 5, 4),
        "blobs": _blobs,
    }
    for name, make in makers.items():
        if not (folder / name / "complete").exists():
            shutil.rmtree(folder / name, ignore_errors=True)
            make(folder / name)
            (folder / name / "complete").touch()


def _narrow(start: int, rows: int) -> pa.Table:
    drawn = np.random.default_rng(start)
    return pa.table(
        {
            "id": np.arange(start, start + rows),
            "a": pa.array(drawn.integers(0, 1_000_000, rows), pa.int32(), mask=drawn.random(rows) < 0.07),
            "f": drawn.random(rows),
            "category": pa.array(np.array(["lan", "ce", "let"])[drawn.integers(0, 3, rows)]),
            "text": pa.array([f"token{i % 211} token{i % 101} row {i}" for i in range(start, start + rows)]),
        }
    )


def _indexed(path: Path, rows: int, segments: int) -> None:
    """A table with a BTREE, an IVF_PQ and a text index, each in so many segments."""
    each = rows // segments
    for number in range(segments):
        drawn = np.random.default_rng(number)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(drawn.random(each * DIMENSIONS, np.float32)), DIMENSIONS)
        piece = _narrow(number * each, each).append_column("vector", vectors)
        table = lance.write_dataset(piece, path, mode="append")
        if number == 0:
            table.create_scalar_index("id", "BTREE")
            table.create_scalar_index("text", "INVERTED", with_position=False)
            table.create_index("vector", "IVF_PQ", num_partitions=16, num_sub_vectors=8)
        else:
            table.optimize.optimize_indices(num_indices_to_merge=0)


def _blobs(path: Path) -> None:
    drawn = np.random.default_rng(3)
    blobs = pa.array([drawn.bytes(100_000) for _ in range(100)], pa.large_binary())
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
    )
    lance.write_dataset(pa.table([pa.array(range(100)), blobs], schema=schema), path, data_storage_version="2.1")


def counted(
    case: Case, endpoint: str, count: Count, log: Callable[[str], object] | None = None
) -> dict[str, tuple[int, int]]:
    """Requests and bytes of each library, whose answers are equal."""
    answers, counts = {}, {}
    for name, module in MODULES.items():
        options = KEYS | {"aws_endpoint": endpoint}
        count.reset()
        table = module.dataset(f"s3://bench/{case.table}", storage_options=options)
        if case.warm:
            case.ask(table)
            count.reset()
        answers[name] = case.ask(table)
        counts[name] = (count.requests, count.bytes)
        if log is not None:
            for line in count.asked:
                log(f"  {name}: {line}")
    if case.same and isinstance(answers["pylance"], pa.Table):
        assert_identical(answers["lancelet"], answers["pylance"])
    elif case.same:
        assert answers["lancelet"] == answers["pylance"], case.name
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.requests", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the large table")
    parser.add_argument("--only", nargs="*", metavar="WORD", help="only cases whose name has one of these words")
    parser.add_argument("--log", action="store_true", help="show every request")
    arguments = parser.parse_args()
    console = Console()
    folder = CACHE / f"requests-{arguments.rows}"
    with console.status("tables (made once)"):
        tables(folder, arguments.rows)
    report = Table(title="Requests and bytes", title_justify="left", header_style="bold")
    for heading in ("", "requests", "pylance", "KB", "pylance", ""):
        report.add_column(heading, justify="left" if not heading else "right")
    over = 0
    with serving(folder) as (endpoint, count):
        for case in cases(arguments.rows):
            name = f"{case.name}, {'warm' if case.warm else 'cold'}"
            if arguments.only and not any(word in name for word in arguments.only):
                continue
            counts = counted(case, endpoint, count, console.print if arguments.log else None)
            (asked, size), (their_asked, their_size) = counts["lancelet"], counts["pylance"]
            more = " and ".join(
                what for what, is_more in (("requests", asked > their_asked), ("bytes", size > their_size)) if is_more
            )
            over += bool(more)
            cells = [f"{asked:,}", f"{their_asked:,}", f"{size / 1000:,.1f}", f"{their_size / 1000:,.1f}"]
            report.add_row(name, *cells, f"[red]more {more}[/red]" if more else "[green]ok[/green]")
    console.print(report)
    console.print(f"{over} of {report.row_count} with more requests or bytes than pylance")


if __name__ == "__main__":
    main()

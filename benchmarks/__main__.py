"""``python -m benchmarks``: measure, then print tables of medians and ratios."""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import lance
import pyarrow.fs
from rich.console import Console
from rich.progress import track
from rich.table import Table

import lancelet
from benchmarks import counting_s3, data, fresh
from benchmarks.engines import Engine, Lance, Parquet
from benchmarks.measures import Measure, measures, medians
from benchmarks.picture import draw

NAMES = ("lancelet", "pylance", "Parquet")
console = Console()


def main() -> None:
    arguments = _arguments()
    with console.status(f"tables of {arguments.rows:,} rows (made once, kept in {data.CACHE})"):
        table, parquet = data.main_table(arguments.rows)
    wanted = [m for m in measures(arguments.rows) if not arguments.only or any(o in m.name for o in arguments.only)]
    console.print(
        f"{arguments.rows:,} rows, {_size(table) / 1e6:,.0f} MB as Lance 2.2, {_size(parquet) / 1e6:,.0f} MB as Parquet"
    )
    times = _times(wanted, table, parquet, arguments.repeats)
    if arguments.picture is not None:
        title = f"{arguments.rows:,} rows, medians of {arguments.repeats} turns: the farther left, the less time"
        arguments.picture.write_text(draw(times, title))
    if not arguments.only:
        _opening(arguments)
        _requests(wanted, arguments)
        _memory(table, parquet, arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", metavar="WORD", help="only measures whose name has one of these words")
    parser.add_argument("--remote-rows", type=int, default=200_000, help="rows of the table that is served over S3")
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--versions", type=int, default=1_000)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the times of this run (SVG)")
    parser.add_argument("--large", action="store_true", help="measure memory on a table of 5 GB too (made once)")
    return parser.parse_args()


def _times(wanted: list[Measure], table: Path, parquet: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds, by measure and engine."""
    engines: list[Engine] = [
        Lance("lancelet", lancelet, str(table)),
        Lance("pylance", lance, str(table)),
        Parquet(str(parquet)),
    ]
    report = _report(f"Median of {repeats} turns, milliseconds", "ms")
    ratios, times = [], {}
    for measure in track(wanted, "measuring", console=console, transient=True):
        seconds = medians(measure, engines, repeats)
        times[measure.name] = seconds
        ratios.append(seconds["lancelet"] / seconds["pylance"])
        _row(report, measure.name, {name: value * 1000 for name, value in seconds.items()}, "{:,.2f}")
    console.print(report)
    if ratios:
        over = sum(ratio > 1 for ratio in ratios)
        console.print(
            f"lancelet / pylance: geometric mean {statistics.geometric_mean(ratios):.2f}, "
            f"worst {max(ratios):.2f}, {over} of {len(ratios)} above 1"
        )
    return times


def _opening(arguments: argparse.Namespace) -> None:
    with console.status(f"a table of {arguments.fragments:,} fragments and {arguments.versions:,} versions"):
        many = data.many_fragments(arguments.fragments, arguments.versions)
        small, parquet = data.main_table(20_000)
    report = _report("Opening, milliseconds", "ms")
    taken: dict[str, list[float]] = {"lancelet": [], "pylance": []}
    for _ in range(7):
        for name, module in (("lancelet", lancelet), ("pylance", lance)):
            started = time.perf_counter()
            assert module.dataset(str(many)).version == arguments.versions
            taken[name].append((time.perf_counter() - started) * 1000)
    label = f"open {arguments.fragments:,} fragments, {arguments.versions:,} versions"
    _row(report, label, {name: statistics.median(values) for name, values in taken.items()}, "{:,.1f}")
    seconds = fresh.first_use({"lancelet": small, "pylance": small, "Parquet": parquet})
    _row(report, "first use: import to first row", {name: value * 1000 for name, value in seconds.items()}, "{:,.0f}")
    console.print(report)


def _requests(wanted: list[Measure], arguments: argparse.Namespace) -> None:
    """Requests and bytes of each measure over S3, with a dataset opened afresh for each."""
    table, _ = data.main_table(arguments.remote_rows)
    asked = _report(f"Requests over S3, {arguments.remote_rows:,} rows (opening included)", "requests")
    read = _report(f"Megabytes over S3, {arguments.remote_rows:,} rows", "MB")
    by_name = {measure.name: measure for measure in measures(arguments.remote_rows)}
    with counting_s3.serving(table.parent) as (endpoint, count):
        for measure in track(wanted, "counting requests", console=console, transient=True):
            if not measure.remote:
                continue
            requests, size = {}, {}
            for name in NAMES:
                count.reset()
                by_name[measure.name].ask(_remote(name, endpoint))
                requests[name], size[name] = count.requests, count.bytes / 1e6
            _row(asked, measure.name, requests, "{:,.0f}")
            _row(read, measure.name, size, "{:,.2f}")
    console.print(asked)
    console.print(read)


def _remote(name: str, endpoint: str) -> Engine:
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "us-east-1"}
    options = keys | {"aws_endpoint": endpoint, "allow_http": "true"}
    if name == "Parquet":
        host = endpoint.removeprefix("http://")
        files: Any = pyarrow.fs.S3FileSystem(
            access_key="k", secret_key="s", region="us-east-1", endpoint_override=host, scheme="http"
        )
        return Parquet("bench/t.parquet", files)
    return Lance(name, {"lancelet": lancelet, "pylance": lance}[name], "s3://bench/t.lance", options)


def _memory(table: Path, parquet: Path, arguments: argparse.Namespace) -> None:
    report = _report("Peak memory above opening, MiB", "MiB")
    paths = {"lancelet": table, "pylance": table, "Parquet": parquet}
    _row(report, f"stream {arguments.rows:,} rows", _mib(fresh.peak_memory(paths, "scan")), "{:,.0f}")
    lances = {"lancelet": table, "pylance": table}
    _row(report, "take 10,000 rows", _mib(fresh.peak_memory(lances, "take")), "{:,.0f}")
    if arguments.large:
        with console.status("a table of 5 GB"):
            large = data.five_gigabytes()
        lances = {"lancelet": large, "pylance": large}
        _row(report, "stream 5 GB", _mib(fresh.peak_memory(lances, "scan")), "{:,.0f}")
        _row(report, "take 10,000 rows of 5 GB", _mib(fresh.peak_memory(lances, "take")), "{:,.0f}")
    console.print(report)


def _mib(values: dict[str, float]) -> dict[str, float]:
    return {name: value / 2**20 for name, value in values.items()}


def _report(title: str, unit: str) -> Table:
    report = Table(title=title, title_justify="left", header_style="bold")
    report.add_column(unit, no_wrap=True)
    for name in NAMES:
        report.add_column(name, justify="right")
    report.add_column("ratio", justify="right")
    return report


def _row(report: Table, name: str, values: dict[str, float], form: str) -> None:
    ratio = values["lancelet"] / values["pylance"] if values["pylance"] else float("nan")
    colour = "green" if ratio <= 0.5 else "yellow" if ratio <= 1 else "red"
    cells = [form.format(values[engine]) if engine in values else "-" for engine in NAMES]
    report.add_row(name, *cells, f"[{colour}]{ratio:.2f}[/{colour}]")


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


if __name__ == "__main__":
    main()

"""``python -m benchmarks.races``: writers of lancelet and of pylance race for the versions of one table.

Every writer is a process of its own, begins when all are ready, and appends, deletes, updates and merges rows by turns
until the time is over. Rows belong to one writer each, but fragments hold rows of many, so that commits meet without
ever asking for the same row: no operation has a reason to fail. At the end the table must have exactly the rows
that its writers believe in, and the files that no version names are counted by who wrote them.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

ENGINES = {"lancelet": "lancelet", "pylance": "lance"}
ACTS = ("append", "delete", "update", "merge")
ROWS = 200
"""Rows that a writer has at the start."""
_OWNED = 1_000_000_000
_MODES = {"lancelet": 0o022, "pylance": 0o027}
"""Which rights new files lack: they tell who wrote a file."""
console = Console()


@dataclass(frozen=True)
class RaceTable:
    """Where the table is, for each library."""

    uri: str
    options: dict[str, dict[str, str] | None]


@dataclass
class Result:
    """What one writer did."""

    engine: str
    rows: dict[int, int]
    """Key and value of the rows that it believes in."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: {act: [] for act in ACTS})
    failures: list[str] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.races", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--writers", type=int, default=8, help="of each library")
    parser.add_argument("--places", nargs="*", choices=["local", "s3"], default=["local", "s3"])
    parser.add_argument("--only", nargs="*", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--acts", nargs="*", choices=ACTS, default=list(ACTS))
    arguments = parser.parse_args()
    for place in arguments.places:
        with {"local": _local, "s3": _s3}[place]() as (where, writer_of):
            engines = [engine for engine in arguments.only for _ in range(arguments.writers)]
            results, wall = race(where, engines, arguments.seconds, tuple(arguments.acts))
            console.print(_report(place, results, wall))
            _check(where, results, writer_of)


def race(place: RaceTable, engines: list[str], seconds: float, acts: tuple[str, ...]) -> tuple[list[Result], float]:
    """Let the writers run; returns what they did, and how long it took until the last one had ended."""
    spawned = multiprocessing.get_context("spawn")
    table = pa.concat_tables([_rows(_first_rows(number)) for number in range(len(engines))])
    _dataset_module("lancelet").write_dataset(table, place.uri, storage_options=place.options["lancelet"])
    barrier = spawned.Barrier(len(engines) + 1)
    pipes, children = [], []
    for number, engine in enumerate(engines):
        here, there = spawned.Pipe(duplex=False)
        child = spawned.Process(target=_write, args=(engine, number, place, seconds, acts, barrier, there))
        child.start()
        there.close()
        pipes.append(here)
        children.append(child)
    barrier.wait()
    began = time.perf_counter()
    results = [pipe.recv() for pipe in pipes]
    for child in children:
        child.join()
    return results, time.perf_counter() - began


def _first_rows(number: int) -> dict[int, int]:
    return {number * _OWNED + at: 0 for at in range(ROWS)}


def _rows(rows: dict[int, int]) -> pa.Table:
    return pa.table({"k": pa.array(rows.keys(), pa.int64()), "v": pa.array(rows.values(), pa.int64())})


def _dataset_module(engine: str) -> Any:
    return importlib.import_module(ENGINES[engine])


def _write(
    engine: str,
    number: int,
    place: RaceTable,
    seconds: float,
    acts: tuple[str, ...],
    barrier: Barrier,
    pipe: Connection,
) -> None:
    os.umask(_MODES[engine])
    module, options = _dataset_module(engine), place.options[engine]
    chance = random.Random(number)
    result = Result(engine, _first_rows(number))
    fresh = iter(range(number * _OWNED + ROWS, (number + 1) * _OWNED))
    _warm_up(module)
    module.dataset(place.uri, storage_options=options).count_rows()
    barrier.wait()
    end = time.perf_counter() + seconds
    turn = number
    while time.perf_counter() < end:
        act = acts[turn % len(acts)]
        turn += 1
        began = time.perf_counter()
        try:
            after = _act(module, place.uri, options, act, result.rows, fresh, chance)
        except Exception as error:  # noqa: BLE001
            result.failures.append(f"{act}: {type(error).__name__}: {str(error)[:200]}")
        else:
            result.rows = after
            result.seconds[act].append(time.perf_counter() - began)
    pipe.send(result)


def _warm_up(module: Any) -> None:
    """Every operation once, on a table of its own: what is loaded at first use does not count."""
    with tempfile.TemporaryDirectory() as folder:
        rows, uri, fresh = _first_rows(0), f"{folder}/t", iter(range(ROWS, _OWNED))
        module.write_dataset(_rows(rows), uri)
        for act in ACTS:
            rows = _act(module, uri, None, act, rows, fresh, random.Random(0))


def _act(
    module: Any,
    uri: str,
    options: dict[str, str] | None,
    act: str,
    rows: dict[int, int],
    fresh: Iterator[int],
    chance: random.Random,
) -> dict[int, int]:
    """One operation; returns the rows of this writer after it."""
    if act == "append":
        new = {next(fresh): 0 for _ in range(2)}
        module.write_dataset(_rows(new), uri, mode="append", storage_options=options)
        return rows | new
    key = chance.choice(list(rows))
    dataset = module.dataset(uri, storage_options=options)
    if act == "delete":
        assert dataset.delete(f"k = {key}")["num_deleted_rows"] == 1
        return {k: v for k, v in rows.items() if k != key}
    if act == "update":
        assert dataset.update({"v": "v + 1"}, where=f"k = {key}")["num_rows_updated"] == 1
        return rows | {key: rows[key] + 1}
    changed = {key: rows[key] + 100, next(fresh): 0}
    merge = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    done = merge.execute(_rows(changed))
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (1, 1)
    return rows | changed


@contextmanager
def _local() -> Iterator[tuple[RaceTable, Any]]:
    folder = Path(tempfile.mkdtemp())
    table = folder / "t"

    def writer_of(path: str) -> str:
        mode = (table / path).stat().st_mode
        return "pylance" if mode & 0o777 == 0o666 & ~_MODES["pylance"] else "lancelet"

    try:
        yield RaceTable(str(table), dict.fromkeys(ENGINES)), writer_of
    finally:
        shutil.rmtree(folder)


@contextmanager
def _s3() -> Iterator[tuple[RaceTable, Any]]:
    """A bucket on the loopback; each library has a key of its own, by which the server knows who wrote what."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication
    from moto.server import ThreadedMotoServer

    writers: dict[str, str] = {}
    plain = DomainDispatcherApplication.__call__
    one_at_a_time = threading.Lock()

    def noted(app: Any, environ: Any, start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] in ("PUT", "POST"):
            key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
            writers.setdefault(environ["PATH_INFO"].removeprefix("/races/t/"), key)
        if environ.get("HTTP_IF_NONE_MATCH"):
            # A real store creates an object once; this one looks first and writes then.
            with one_at_a_time:
                return plain(app, environ, start_response)
        return plain(app, environ, start_response)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    DomainDispatcherApplication.__call__ = noted  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        credential = "AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/s3/aws4_request"
        make = urllib.request.Request(f"{endpoint}/races", method="PUT", headers={"Authorization": credential})
        urllib.request.urlopen(make).close()
        common = {"aws_endpoint": endpoint, "aws_region": "us-east-1", "allow_http": "true"}
        options: dict[str, dict[str, str] | None] = {
            engine: {**common, "aws_access_key_id": engine, "aws_secret_access_key": "secret"} for engine in ENGINES
        }
        yield RaceTable("s3://races/t", options), lambda path: writers.get(path, "nobody")
    finally:
        DomainDispatcherApplication.__call__ = plain  # type: ignore[method-assign]
        server.stop()


def _report(place: str, results: list[Result], wall: float) -> Table:
    done = {
        engine: sum(len(s) for r in results if r.engine == engine for s in r.seconds.values()) for engine in ENGINES
    }
    share = done["lancelet"] / max(sum(done.values()), 1)
    report = Table(title=f"{place}: {len(results)} writers, {wall:.0f} s, {share:.0%} of the operations are lancelet's")
    for column in ("library", "operation", "done", "failed", "median ms", "slowest ms"):
        report.add_column(column, justify="left" if column in ("library", "operation") else "right")
    for engine in ENGINES:
        for act in ACTS:
            seconds = [s for result in results if result.engine == engine for s in result.seconds[act]]
            failed = sum(f.startswith(act) for result in results if result.engine == engine for f in result.failures)
            if seconds or failed:
                times = (statistics.median(seconds) * 1000, max(seconds) * 1000) if seconds else (0, 0)
                report.add_row(engine, act, f"{len(seconds)}", f"{failed}", *(f"{t:,.0f}" for t in times))
        report.add_row(engine, "all", f"{done[engine]}", "", "", "", end_section=True)
    for text, count in Counter(f for result in results for f in result.failures).most_common(6):
        console.print(f"{count} x {text}")
    return report


def _check(place: RaceTable, results: list[Result], writer_of: Any) -> None:
    """The table has the rows that its writers believe in, every version has its files, and nothing else is there."""
    dataset = _dataset_module("lancelet").dataset(place.uri, storage_options=place.options["lancelet"])
    table = dataset.to_table()
    found = Counter(zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True))
    believed = Counter(item for result in results for item in result.rows.items())
    wrong = (found - believed) + (believed - found)
    verdict = (
        "as its writers believe" if not wrong else f"[red]{sum(wrong.values())} rows are wrong: {list(wrong)[:5]}[/]"
    )
    console.print(f"{table.num_rows:,} rows in {dataset.version:,} versions, {verdict}")
    findings = dataset.verify().findings
    orphans = [finding.place for finding in findings if finding.kind == "orphan file"]
    kinds = Counter((writer_of(path), path.partition("/")[0]) for path in orphans)
    console.print(f"{len(orphans)} files that no version names: {dict(kinds)}")
    for finding in findings:
        if finding.kind != "orphan file":
            console.print(f"[red]{finding}[/]")


if __name__ == "__main__":
    main()

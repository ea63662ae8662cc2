"""``python -m benchmarks.memwal``: a MemWAL, lancelet and pylance in turn.

Puts are durable ones by one thread, each of as many rows as the line says. A lookup asks for one key of a table with ten
generations, none of which is in it yet; the answers of both are compared first. The merge takes runs of a writer into a table of
twice as many rows: lancelet with ``compact_mem_wal``, pylance with one ``merge_insert`` of all rows, and what they made is
compared. Memory is the most that a process had which put rows for a while under small limits, beside one that only imports.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import re
import shutil
import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lancelet

ENGINES: tuple[ModuleType, ...] = (lancelet, lance)
KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("value", pa.float64()),
        pa.field("text", pa.string()),
    ]
)
SHARD = "5eed0000-0000-4000-8000-000000000001"
PUT_ROWS = (1, 100, 10_000)
GENERATIONS = 10
_LIMITS = {"max_memtable_size": 4 << 20, "max_unflushed_memtable_bytes": 16 << 20}
Options = dict[str, str] | None


def rows(ids: Any) -> pa.Table:
    numbers = np.asarray(ids, np.int64)
    texts = np.char.add("text of row ", numbers.astype(str))
    return pa.table([pa.array(numbers), pa.array(numbers / 2), pa.array(texts)], schema=SCHEMA)


def new_table(where: str, options: Options, count: int = 0) -> None:
    made = lance.write_dataset(rows(np.arange(count)), where, storage_options=options)
    made.initialize_mem_wal(unsharded=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.memwal", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for puts of one size, by one library, in one turn")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are merged")
    parser.add_argument("--places", nargs="*", choices=["local", "s3"], default=["local", "s3"])
    parser.add_argument("--only", nargs="*", choices=["puts", "lookups", "merge", "memory"])
    arguments = parser.parse_args()
    report = Table(title=f"a MemWAL, median of {arguments.repeats} turns")
    for column in ("what", "lancelet", "pylance", "ratio"):
        report.add_column(column, justify="left" if column == "what" else "right")
    chosen = arguments.only or ["puts", "lookups", "merge", "memory"]
    for place in arguments.places if "puts" in chosen else ():
        with {"local": _local, "s3": _s3}[place]() as (where, options):
            for count in PUT_ROWS:
                _line(report, f"{place}: puts of {count:,} rows, a second", *_puts(where, options, count, arguments))
    with _local() as (where, _):
        if "lookups" in chosen:
            for unit, clock in {"ms": time.perf_counter, "ms of CPU": time.process_time}.items():
                measured = _lookups(f"{where}/{clock.__name__}", arguments.repeats, clock)
                _line(report, f"lookup over {GENERATIONS} generations, {unit}", *measured)
        if "merge" in chosen:
            _line(report, f"merge of {arguments.rows:,} upserts, ms of CPU", *_merges(where, arguments))
        if "memory" in chosen:
            _line(report, "memory of a writer with 16 MiB in MemTables, MiB", *_memory(where))
    Console().print(report)


def _line(report: Table, name: str, ours: float, theirs: float) -> None:
    report.add_row(name, f"{ours:,.2f}", f"{theirs:,.2f}", f"{ours / theirs:.2f}")


@contextmanager
def _local() -> Iterator[tuple[str, Options]]:
    with tempfile.TemporaryDirectory() as folder:
        yield folder, None


@contextmanager
def _s3() -> Iterator[tuple[str, Options]]:
    """A bucket on the loopback, served by a process of its own."""
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    server = spawned.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        endpoint = ours.recv()
        credential = "AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/s3/aws4_request"
        make = urllib.request.Request(f"{endpoint}/memwal", method="PUT", headers={"Authorization": credential})
        urllib.request.urlopen(make).close()
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        yield "s3://memwal", {"aws_endpoint": endpoint, "aws_region": "us-east-1", "allow_http": "true", **keys}
    finally:
        server.terminate()
        server.join()


def _serve(pipe: Connection) -> None:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    pipe.send(f"http://{host}:{port}")
    threading.Event().wait()


def _medians(repeats: int, measure: Callable[[ModuleType, int], float]) -> tuple[float, float]:
    """Turns of both, after one of each that does not count."""
    taken: dict[str, list[float]] = {engine.__name__: [] for engine in ENGINES}
    for turn in range(repeats + 1):
        for engine in ENGINES if turn % 2 else reversed(ENGINES):
            measured = measure(engine, turn)
            if turn:
                taken[engine.__name__].append(measured)
    ours, theirs = (statistics.median(taken[engine.__name__]) for engine in ENGINES)
    return ours, theirs


def _puts(where: str, options: Options, count: int, arguments: argparse.Namespace) -> tuple[float, float]:
    batch = rows(np.arange(count)).to_batches()[0]

    def measure(engine: ModuleType, turn: int) -> float:
        uri = f"{where}/{engine.__name__}-{count}-{turn}-{uuid4().hex}"
        new_table(uri, options)
        writer = engine.dataset(uri, storage_options=options).mem_wal_writer(SHARD)
        begun, puts = time.perf_counter(), 0
        while time.perf_counter() - begun < arguments.seconds:
            writer.put(batch)
            puts += 1
        taken = time.perf_counter() - begun
        writer.close()
        return puts / taken

    return _medians(arguments.repeats, measure)


def _snapshot(where: str, module: ModuleType) -> Any:
    """All runs of the shard, for a planner."""
    found = module.ShardSnapshot(SHARD)
    folders = sorted(Path(where, "_mem_wal", SHARD).glob("*_gen_*"), key=lambda path: int(path.name.rpartition("_")[2]))
    for folder in folders:
        found = found.with_sstable(int(folder.name.rpartition("_")[2]), folder.name)
    return found.with_current_generation(len(folders) + 1)


def _lookups(where: str, repeats: int, clock: Callable[[], float]) -> tuple[float, float]:
    uri, each = f"{where}/lookups", 10_000
    new_table(uri, None, GENERATIONS * each)
    for generation in range(GENERATIONS):
        with lance.dataset(uri).mem_wal_writer(SHARD) as writer:
            ids = np.random.default_rng(generation).choice(2 * GENERATIONS * each, each, replace=False)
            writer.put(rows(ids).to_batches()[0])
    keys = np.random.default_rng(99).integers(0, 2 * GENERATIONS * each, 100).tolist()
    mem_wal = {"lancelet": "lancelet.mem_wal", "lance": "lance"}
    planners = {}
    for engine in ENGINES:
        module = importlib.import_module(mem_wal[engine.__name__])
        planners[engine.__name__] = module.LsmPointLookupPlanner(engine.dataset(uri), [_snapshot(uri, module)])

    def ask(engine: ModuleType, key: int) -> list[Any]:
        found: list[Any] = planners[engine.__name__].plan_lookup(pa.array([key], pa.int64())).to_table().to_pylist()
        return found

    for key in keys:
        if ask(lancelet, key) != ask(lance, key):
            raise SystemExit(f"the libraries found different rows for {key}")

    def measure(engine: ModuleType, turn: int) -> float:
        begun = clock()
        for key in keys:
            ask(engine, key)
        return (clock() - begun) / len(keys) * 1000

    return _medians(repeats, measure)


def _merges(where: str, arguments: argparse.Namespace) -> tuple[float, float]:
    first, count = f"{where}/merge", arguments.rows
    new_table(first, None, 2 * count)
    ids = np.random.default_rng(1).choice(3 * count, count, replace=False)
    with lancelet.dataset(first).mem_wal_writer(SHARD, max_memtable_rows=1 << 40, max_memtable_size=1 << 40) as writer:
        for part in np.array_split(ids, 4):
            writer.put(rows(part))
            writer.flush()
    made: dict[str, pa.Table] = {}

    def measure(engine: ModuleType, turn: int) -> float:
        uri = f"{where}/merge-{engine.__name__}"
        shutil.copytree(first, uri)
        worked = time.process_time()
        if engine is lancelet:
            lancelet.dataset(uri).compact_mem_wal()
        else:
            _merge_with_pylance(uri)
        taken = (time.process_time() - worked) * 1000
        if not turn:
            made[engine.__name__] = lance.dataset(uri).to_table().sort_by("id")
        shutil.rmtree(uri)
        return taken

    medians = _medians(arguments.repeats, measure)
    if made["lancelet"] != made["lance"]:
        raise SystemExit("the libraries made different tables")
    return medians


def _merge_with_pylance(uri: str) -> None:
    folders = sorted(Path(uri, "_mem_wal", SHARD).glob("*_gen_*"))
    upserts = pa.concat_tables([lance.dataset(folder).to_table(columns=SCHEMA.names) for folder in folders])
    merge = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.mark_sstables_as_compacted([lance.CompactedSsTable(SHARD, len(folders))]).execute(upserts)


def _memory(where: str) -> tuple[float, float]:
    """Peaks of processes that put 400 MiB of rows, above those of processes that put nothing."""
    found = []
    for engine in ENGINES:
        peaks = []
        for puts in (0, 200):
            uri = f"{where}/memory-{engine.__name__}-{puts}"
            new_table(uri, None)
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                peaks.append(pool.apply(_put_many, (engine.__name__, uri, puts)))
        found.append(peaks[1] - peaks[0])
    return found[0], found[1]


def _put_many(engine: str, uri: str, puts: int) -> float:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(np.arange(2000)), pa.array(np.zeros(2000)), pa.array(["x" * 1000] * 2000)], schema=SCHEMA
    )
    with importlib.import_module(engine).dataset(uri).mem_wal_writer(SHARD, **_LIMITS) as writer:
        for _ in range(puts):
            writer.put(batch)
    # What rusage tells begins with the memory of the process that started this one.
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(peak) / 1024


if __name__ == "__main__":
    main()

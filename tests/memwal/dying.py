"""What a process does that is killed meanwhile; no pylance in here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

import pyarrow as pa

from lancelet.execution.table_reader import TableReader
from lancelet.file import FileCache
from lancelet.memwal.collection import collect_garbage
from lancelet.memwal.compaction import compact_runs
from lancelet.memwal.config import WriterConfig
from lancelet.memwal.incoming import rows_to_delete, rows_to_put
from lancelet.memwal.placing import ShardMap
from lancelet.memwal.shard import Shard, seal
from lancelet.memwal.staging import StreamBatch, add_runs, stage_run
from lancelet.memwal.wal_entry import entry_schema
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot

WRITES = ("write", "fsync", "link", "replace", "unlink", "mkdir", "rmdir", "copy_file_range")
"""What changes files; a write that is under way when the process dies is there by half."""
READS = ("open", "os.scandir", "os.listdir")
"""Events of the interpreter when files are opened and folders are read."""


def die_at(where: str, at: int) -> None:
    """End this process with SIGKILL at one of its requests to the file system: the first one is 0."""
    left = at

    def count() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def counted(name: str) -> Callable[..., Any]:
        plain = getattr(os, name)

        def request(*args: Any, **named: Any) -> Any:
            if count():
                if name == "write":
                    plain(args[0], memoryview(args[1])[: len(args[1]) // 2])
                die()
            return plain(*args, **named)

        return request

    for name in WRITES:
        setattr(os, name, counted(name))

    def watch(event: str, args: tuple[Any, ...]) -> None:
        if event in READS and str(args[0]).startswith(where) and count():
            die()

    sys.addaudithook(watch)


def work(where: str, name: UUID, at: int, told: Connection) -> None:
    """Claim, put, delete, flush, compact, clean up and seal; every put is told when it was acknowledged."""
    die_at(where, at)
    base = open_snapshot(where)
    shard = Shard.claim(base, name, WriterConfig())
    for number in range(10, 14):
        rows = pa.table({"id": [number, number + 100], "text": ["child", "child"]})
        shard.append(rows_to_put(base, shard.schema, rows, None))
        told.send(number)
        if number == 11:
            shard.freeze()
            shard.flush()
        if number == 12:
            # The first writer is fenced, and what it put since its run is read from the log.
            shard = Shard.claim(base, name, WriterConfig())
    shard.append(rows_to_delete(base, shard.key, shard.schema, {"id": [1]}, None))
    told.send(1)
    shard.freeze()
    shard.flush()
    done = compact_runs(TableReader(base, FileCache())).snapshot
    collect_garbage(done, older_than=timedelta(0))
    shard.append(rows_to_put(base, shard.schema, pa.table({"id": [14, 114], "text": ["child", "child"]}), None))
    told.send(14)
    seal(base, name)
    done = compact_runs(TableReader(base.latest(), FileCache())).snapshot
    collect_garbage(done, older_than=timedelta(0))


BATCHES = 3


def stream(where: str, name: UUID, at: int, told: Connection) -> None:
    """Add batches of a stream to all shards; every batch is told when it is there."""
    die_at(where, at)
    base = open_snapshot(where)
    for number in range(BATCHES):
        add_batch(base, number)
        told.send(number)


def add_batch(base: Snapshot, number: int) -> None:
    schema = base.manifest.schema
    rows = pa.table({"id": list(range(8)), "text": [f"batch {number}"] * 8})
    (batch,) = rows_to_put(base, entry_schema(schema), rows, None)
    for place, part in ShardMap.of(base).split(batch, schema):
        run = stage_run(base, place[0], [part], b"one stem", number)
        add_runs(base, place, [run], StreamBatch("query", number))

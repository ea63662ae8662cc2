"""What a process does that is killed meanwhile; no pylance in here."""

from __future__ import annotations

import os
import signal
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
from lancelet.memwal.shard import Shard
from lancelet.memwal.staging import StreamBatch, add_runs, stage_run
from lancelet.memwal.wal_entry import entry_schema
from lancelet.store.local import LocalStore
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot

COUNTED = (
    "put",
    "put_if_absent",
    "put_new",
    "put_hint",
    "open_sink",
    "settle",
    "read_all",
    "read_tail",
    "delete",
    "list_names",
)


class DyingStore(LocalStore):
    """A local store that ends its process at one of its operations."""

    left = 1 << 60

    @classmethod
    def count(cls) -> None:
        if not cls.left:
            os.kill(os.getpid(), signal.SIGKILL)
        cls.left -= 1


def _counted(name: str) -> Callable[..., Any]:
    plain = getattr(LocalStore, name)

    def operation(self: DyingStore, *args: Any, **named: Any) -> Any:
        self.count()
        return plain(self, *args, **named)

    return operation


for _name in COUNTED:
    setattr(DyingStore, _name, _counted(_name))


def work(where: str, name: UUID, at: int, told: Connection) -> None:
    """Put, delete, flush, compact and clean up; every put is told when it was acknowledged."""
    DyingStore.left = at
    base = open_snapshot(DyingStore(where))
    shard = Shard.claim(base, name, WriterConfig())
    for number in range(10, 14):
        rows = pa.table({"id": [number, number + 100], "text": ["child", "child"]})
        shard.append(rows_to_put(base, shard.schema, rows, None))
        told.send(number)
        if number == 11:
            shard.freeze()
            shard.flush()
    shard.append(rows_to_delete(base, shard.key, shard.schema, {"id": [1]}, None))
    told.send(1)
    shard.freeze()
    shard.flush()
    done = compact_runs(TableReader(base, FileCache())).snapshot
    collect_garbage(done, older_than=timedelta(0))


BATCHES = 3


def stream(where: str, name: UUID, at: int, told: Connection) -> None:
    """Add batches of a stream to all shards; every batch is told when it is there."""
    DyingStore.left = at
    base = open_snapshot(DyingStore(where))
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

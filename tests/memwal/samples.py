"""Tables with a MemWAL that tests begin with, and what their files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import lance
import pyarrow as pa

from lancelet.format.proto import mem_wal_pb2
from lancelet.memwal.details import require_details
from lancelet.memwal.names import number_of
from lancelet.memwal.writer import ShardWriter
from lancelet.table.manifest.snapshot import open_snapshot

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("val", pa.float64()),
        pa.field("text", pa.string()),
    ]
)
SHARD = UUID("5eed0000-0000-4000-8000-000000000001")
OTHER = UUID("5eed0000-0000-4000-8000-000000000002")


def rows(ids: list[int], mark: str = "", schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows with these keys; ``mark`` tells who wrote them."""
    columns: dict[str, list[Any]] = {"id": ids, "val": [i / 2 for i in ids], "text": [f"{mark}{i}" for i in ids]}
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def keyed_table(where: Path, ids: list[int], **options: Any) -> lance.LanceDataset:
    """A table of pylance's with a primary key and a MemWAL."""
    dataset = lance.write_dataset(rows(ids, "base "), where)
    dataset.initialize_mem_wal(**options)
    return dataset


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def manifests(where: Path, shard: UUID = SHARD) -> dict[int, mem_wal_pb2.ShardManifest]:
    """The states of a shard by their versions, as the files have them."""
    found = {}
    for file in (where / "_mem_wal" / str(shard) / "manifest").glob("*.binpb"):
        number = number_of(file.name, ".binpb")
        assert number is not None
        found[number] = mem_wal_pb2.ShardManifest.FromString(file.read_bytes())
    return dict(sorted(found.items()))


def entries(where: Path, shard: UUID = SHARD) -> dict[int, pa.Table]:
    """The entries of a shard's log by their positions."""
    found = {}
    for file in (where / "_mem_wal" / str(shard) / "wal").glob("*.arrow"):
        number = number_of(file.name, ".arrow")
        assert number is not None
        with pa.ipc.open_stream(file.read_bytes()) as reader:
            found[number] = reader.read_all()
    return dict(sorted(found.items()))


def runs(where: Path, shard: UUID = SHARD) -> list[Path]:
    return sorted((where / "_mem_wal" / str(shard)).glob("*_gen_*"), key=lambda path: int(path.name.rpartition("_")[2]))


def open_writer(where: Path, shard: UUID = SHARD, **options: Any) -> ShardWriter:
    """A writer of ours, on the newest version of a table."""
    snapshot = open_snapshot(where)
    return ShardWriter.open(snapshot, shard, require_details(snapshot).config.with_options(options))


def snapshot_of(where: Path, shard: UUID = SHARD) -> lance.ShardSnapshot:
    """What pylance is to read of a shard: the runs of its newest state."""
    newest = list(manifests(where, shard).values())[-1]
    found = lance.ShardSnapshot(str(shard)).with_current_generation(newest.current_generation)
    for run in newest.sstables:
        found = found.with_sstable(run.generation, run.path)
    return found

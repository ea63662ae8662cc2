"""Progress of a MemWAL in the table's manifest (spec memwal.md 3 and 8.1).

The index entry ``__lance_mem_wal`` records the last generation of each shard
that went into the table. A commit that merges runs writes the entry anew, with
a new uuid; all else in its details stays as it is, known to us or not.
"""

from __future__ import annotations

import uuid as uuids
from typing import TYPE_CHECKING

from lancelet.errors import CommitConflict, InvalidInput
from lancelet.format.proto import mem_wal_pb2, table_pb2
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX, Indices
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.table.commit.operations import CompactedSsTable


def record_compacted(indices: Indices, tables: tuple[CompactedSsTable, ...], version: int, path: str) -> Indices:
    """The indices with the progress of some shards noted."""
    at = next((number for number, index in enumerate(indices) if index.name == MEM_WAL_INDEX), None)
    if at is None:
        raise InvalidInput(f"{path} has no MemWAL, whose runs are to be marked as merged")
    entry = table_pb2.IndexMetadata()
    entry.CopyFrom(indices[at])
    details = parse_message(entry.index_details.value, mem_wal_pb2.MemWalIndexDetails, path, "MemWAL index")
    shards = {known.shard_id.uuid: known for known in details.compacted_sstables}
    for table in tables:
        known = shards.get(table.shard.bytes)
        if known is None:
            known = details.compacted_sstables.add(shard_id=table_pb2.UUID(uuid=table.shard.bytes))
            shards[table.shard.bytes] = known
        if table.generation <= known.generation:
            raise CommitConflict(
                path,
                version - 1,
                f"run {table.generation} of shard {table.shard} is not newer than run {known.generation}, which is in "
                "the table already; merge only what comes after it",
            )
        known.generation = table.generation
    entry.index_details.value = details.SerializeToString()
    entry.uuid.uuid = uuids.uuid4().bytes
    entry.dataset_version = version
    return [*indices[:at], *indices[at + 1 :], entry]

"""Progress of a MemWAL in the table's manifest (spec memwal.md 3, 8.1 and 8.2).

The index entry ``__lance_mem_wal`` records the last generation of each shard
that went into the table, and for each index up to which generation it has the
rows. A commit that changes either writes the entry anew, with a new uuid; all
else in its details stays as it is, known to us or not.

Every commit asks each index what it can prove: one that covers all fragments of
the version before has all rows of the runs that were in that version. An index
that changed, in its segments or in what they cover, has to prove it again.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lancelet.errors import CommitConflict, InvalidInput
from lancelet.format.proto import mem_wal_pb2, table_pb2
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX, SYSTEM_INDICES, Indices, covered_fragments
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.table.commit.operations import CompactedSsTable
    from lancelet.table.manifest.manifest import Manifest


def record_compacted(indices: Indices, tables: tuple[CompactedSsTable, ...], version: int, path: str) -> Indices:
    """The indices with the progress of some shards noted."""
    entry = _entry(indices)
    if entry is None:
        raise InvalidInput(f"{path} has no MemWAL, whose runs are to be marked as merged")
    details = _details(entry, path)
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
    return _replaced(indices, entry, details, version)


def record_catchup(indices: Indices, previous: Manifest, version: int, path: str) -> Indices:
    """The indices with a note of which of them have the rows of which runs; ``previous`` is the version before."""
    entry = _entry(indices)
    if entry is None:
        return indices
    details = _details(entry, path)
    before = _entry(previous.indices)
    proven = {} if before is None else _generations(_details(before, previous.path).compacted_sstables)
    now = _generations(details.compacted_sstables)
    known = {one.index_name: _generations(one.compacted_sstables) for one in details.index_catchup}
    earned: dict[str, dict[bytes, int]] = {}
    live = frozenset(previous.fragments.ids.tolist())
    for name in sorted({index.name for index in indices} - set(SYSTEM_INDICES)):
        credit = dict(known.get(name, {})) if _segments(indices, name) == _segments(previous.indices, name) else {}
        if live and live <= _covered_by(indices, name):
            for shard, generation in proven.items():
                credit[shard] = max(generation, credit.get(shard, 0))
        kept = {shard: min(generation, now[shard]) for shard, generation in credit.items() if shard in now}
        if kept:
            earned[name] = kept
    if earned == known:
        return indices
    del details.index_catchup[:]
    for name, kept in earned.items():
        added = details.index_catchup.add(index_name=name)
        for shard, generation in kept.items():
            added.compacted_sstables.add(shard_id=table_pb2.UUID(uuid=shard), generation=generation)
    return _replaced(indices, entry, details, version)


def sharding_fields(manifest: Manifest) -> frozenset[int]:
    """The fields that tell which shard of its MemWAL a row belongs to."""
    entry = _entry(manifest.indices)
    specs = () if entry is None else _details(entry, manifest.path).sharding_specs
    return frozenset(number for spec in specs for one in spec.fields for number in one.source_ids)


def _entry(indices: Sequence[table_pb2.IndexMetadata]) -> table_pb2.IndexMetadata | None:
    return next((index for index in indices if index.name == MEM_WAL_INDEX), None)


def _details(entry: table_pb2.IndexMetadata, path: str) -> mem_wal_pb2.MemWalIndexDetails:
    return parse_message(entry.index_details.value, mem_wal_pb2.MemWalIndexDetails, path, "MemWAL index")


def _replaced(
    indices: Indices, entry: table_pb2.IndexMetadata, details: mem_wal_pb2.MemWalIndexDetails, version: int
) -> Indices:
    made = table_pb2.IndexMetadata()
    made.CopyFrom(entry)
    made.index_details.value = details.SerializeToString()
    made.uuid.uuid = uuids.uuid4().bytes
    made.dataset_version = version
    return [*(index for index in indices if index is not entry), made]


def _generations(tables: Iterable[mem_wal_pb2.CompactedSsTable]) -> dict[bytes, int]:
    return {table.shard_id.uuid: table.generation for table in tables}


def _segments(indices: Sequence[table_pb2.IndexMetadata], name: str) -> list[tuple[bytes, bytes]]:
    return sorted((index.uuid.uuid, index.fragment_bitmap) for index in indices if index.name == name)


def _covered_by(indices: Sequence[table_pb2.IndexMetadata], name: str) -> frozenset[int]:
    parts = [covered_fragments(index) for index in indices if index.name == name]
    return frozenset().union(*(part for part in parts if part is not None))

"""The MemWAL of a table: its entry among the table's indices (spec memwal.md 3)."""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lancelet.errors import CorruptFile, IndexNotFound, InvalidInput, InvalidOption
from lancelet.format.proto import mem_wal_pb2, table_pb2
from lancelet.memwal.config import WriterConfig
from lancelet.memwal.log import read_log
from lancelet.memwal.primary_key import PrimaryKey, refuse_mark
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, list_shards
from lancelet.memwal.sharding import (
    BUCKET,
    NUM_BUCKETS,
    UNSHARDED,
    ShardingSpec,
    bucket_spec,
    identity_spec,
    spec_from_proto,
    spec_to_proto,
    unsharded_spec,
)
from lancelet.memwal.told import ToldShard, read_told
from lancelet.table.commit import operations as ops
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX, SYSTEM_INDICES
from lancelet.table.commit.run import commit
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.snapshot import Snapshot

TYPE_URL: Final = "/lance.table.MemWalIndexDetails"


@dataclass(frozen=True)
class MemWalDetails:
    """What a version of a table says about its MemWAL."""

    message: mem_wal_pb2.MemWalIndexDetails
    indices: tuple[str, ...]
    """The names of all indices of the version."""
    path: str = ""
    """Of the manifest that says it."""

    @cached_property
    def specs(self) -> tuple[ShardingSpec, ...]:
        return tuple(spec_from_proto(spec) for spec in self.message.sharding_specs)

    @cached_property
    def config(self) -> WriterConfig:
        """What a writer does where nobody says otherwise."""
        return WriterConfig.of_texts(self.message.writer_config_defaults)

    @cached_property
    def compacted(self) -> Mapping[UUID, int]:
        """The last generation of each shard that is in the table."""
        return {UUID(bytes=run.shard_id.uuid): run.generation for run in self.message.compacted_sstables}

    @cached_property
    def maintained(self) -> tuple[str, ...]:
        """The indices that runs have too. One that the table lost since is none of them."""
        if self.message.maintain_all_indexes:
            return self.indices
        return tuple(name for name in self.message.maintained_indexes if name in self.indices)

    @cached_property
    def caught_up(self) -> Mapping[str, Mapping[UUID, int]]:
        """For indices that say so, up to which generation of each shard they have the rows that are in the table."""
        return {
            one.index_name: {UUID(bytes=run.shard_id.uuid): run.generation for run in one.compacted_sstables}
            for one in self.message.index_catchup
        }

    @cached_property
    def told(self) -> Mapping[UUID, ToldShard]:
        """What it tells of shards, as they were at some moment."""
        return read_told(self.message.inline_snapshots, self.specs, self.path)

    def shown(self) -> dict[str, Any]:
        """As ``mem_wal_index_details`` tells it."""
        message = self.message
        snapshots = {"shard_snapshots": [one.shown() for one in self.told.values()]} if self.told else {}
        return {
            **snapshots,
            "num_shards": message.num_shards,
            "maintained_indexes": list(message.maintained_indexes),
            "maintain_all_indexes": message.maintain_all_indexes,
            "writer_config_defaults": dict(message.writer_config_defaults),
            "sharding_specs": [
                {
                    "spec_id": spec.spec_id,
                    "fields": [
                        {
                            "field_id": one.field_id,
                            "source_ids": one.source_ids,
                            "transform": one.transform,
                            "expression": one.expression,
                            "result_type": one.result_type,
                            "parameters": one.parameters,
                        }
                        for one in spec.fields
                    ],
                }
                for spec in self.specs
            ],
        }


def read_details(manifest: Manifest) -> MemWalDetails | None:
    """The MemWAL of a version; None when it has none."""
    entry = next((index for index in manifest.indices if index.name == MEM_WAL_INDEX), None)
    if entry is None:
        return None
    message = parse_message(entry.index_details.value, mem_wal_pb2.MemWalIndexDetails, manifest.path, "MemWAL index")
    names = dict.fromkeys(index.name for index in manifest.indices if index.name not in SYSTEM_INDICES)
    return MemWalDetails(message, tuple(names), manifest.path)


def require_details(snapshot: Snapshot) -> MemWalDetails:
    """The MemWAL of a version that must have one."""
    details = read_details(snapshot.manifest)
    if details is None:
        raise InvalidOption(
            f"MemWAL is not initialized on version {snapshot.version} of {snapshot.uri}; call initialize_mem_wal() first"
        )
    return details


def check_progress(snapshot: Snapshot, state: ShardManifest) -> None:
    """Raise when a version has more runs of a shard than the shard ever had: its next ones would count as compacted.

    So it is in clones in which a library began a shard anew that numbers runs from 1. The version is older than the state.
    """
    done = require_details(snapshot).compacted.get(state.shard, 0)
    if state.version and state.generation <= done:
        raise CorruptFile(
            f"{snapshot.uri}/_mem_wal/{state.shard}",
            f"runs up to {done} are in the table, and the next run of the shard is {state.generation}: the shard was begun anew, as "
            "in a clone, and its rows would be taken for compacted. Its runs are tables: put their rows to another shard, and "
            "remove this folder",
        )


def initialize(
    snapshot: Snapshot,
    *,
    maintained_indexes: Sequence[str] | None = None,
    bucket_column: str | None = None,
    num_buckets: int | None = None,
    identity_column: str | None = None,
    unsharded: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Snapshot:
    """Give a table a MemWAL."""
    manifest = snapshot.manifest
    if read_details(manifest) is not None:
        raise InvalidOption(f"MemWAL is already initialized on {snapshot.uri}; writers can be opened")
    if (bucket_column is None) != (num_buckets is None):
        raise InvalidInput("bucket sharding requires both `bucket_column` and `num_buckets`")
    if sum((bucket_column is not None, identity_column is not None, bool(unsharded))) > 1:
        raise InvalidInput("at most one of bucket sharding, `identity_column`, or `unsharded` may be set")
    refuse_mark(manifest.schema, snapshot.uri)
    PrimaryKey.of(manifest.schema)
    message = mem_wal_pb2.MemWalIndexDetails(maintain_all_indexes=maintained_indexes is None)
    for name in maintained_indexes or ():
        if name not in {index.name for index in manifest.indices} - set(SYSTEM_INDICES):
            raise IndexNotFound(f"Index '{name}' from maintained_indexes not found on dataset {snapshot.uri}")
        message.maintained_indexes.append(name)
    spec = None
    if bucket_column is not None and num_buckets is not None:
        spec = bucket_spec(manifest.schema, bucket_column, num_buckets)
    elif identity_column is not None:
        spec = identity_spec(manifest.schema, identity_column)
    elif unsharded:
        spec = unsharded_spec()
    if spec is not None:
        message.sharding_specs.append(spec_to_proto(spec))
        message.num_shards = _num_shards(spec)
    message.compacted_sstables.extend(_left_behind(snapshot))
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if given:
        message.writer_config_defaults.update(WriterConfig().with_options(given).texts())
    entry = table_pb2.IndexMetadata(
        name=MEM_WAL_INDEX, dataset_version=snapshot.version, index_version=0, created_at=time.time_ns() // 10**6
    )
    entry.uuid.uuid = uuids.uuid4().bytes
    entry.index_details.type_url = TYPE_URL
    entry.index_details.value = message.SerializeToString()
    return commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),)))


def _left_behind(snapshot: Snapshot) -> list[mem_wal_pb2.CompactedSsTable]:
    """How far shards of a MemWAL had come that the table lost, as by an overwrite; refuses those that have rows."""
    found = []
    for shard in list_shards(snapshot.store):
        states = ShardStates.of(snapshot.store, shard)
        state = states.latest()
        if state is None:
            continue
        if state.sstables or any(entry.batches for entry in read_log(states, state)):
            raise InvalidOption(
                f"shard {shard} in _mem_wal of {snapshot.uri} has rows of a MemWAL that the table does not know any more: it was "
                "overwritten, or brought back to a version before it. Nobody can tell whether these rows are in the table, and "
                "they would hide newer ones. Remove the folder _mem_wal if they are not needed, and call this again"
            )
        reached = mem_wal_pb2.CompactedSsTable(generation=state.generation - 1)
        reached.shard_id.uuid = shard.bytes
        found += [reached] if state.generation > 1 else []
    return found


def _num_shards(spec: ShardingSpec) -> int:
    """How many shards a spec leads to; 0 where that depends on the rows."""
    (one,) = spec.fields
    if one.transform == BUCKET:
        return int(one.parameters[NUM_BUCKETS])
    return 1 if one.transform == UNSHARDED else 0

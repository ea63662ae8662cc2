"""States of a shard: immutable files with ascending numbers (spec memwal.md 4).

A state is made of the newest one and put under the next number if nobody has it; who loses begins again with what the
winner wrote. The hint says where to begin to look for the newest one; it may be old or missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from lancelet.errors import CorruptFile, InvalidInput, MissingFile, StorageError, UncertainPut
from lancelet.format.proto import mem_wal_pb2, table_pb2
from lancelet.memwal.names import HINT, MEM_WAL_DIR, manifest_path, shard_folder
from lancelet.table.manifest.manifest import parse_message

if TYPE_CHECKING:
    from lancelet.store import Store

ATTEMPTS: Final = 16
"""How often a put without an answer, or one that lost a race, is made again."""


@dataclass(frozen=True, slots=True)
class SsTable:
    """A run of a shard."""

    generation: int
    path: str
    """The name of its folder in that of the shard."""
    in_memory_bytes: int | None = None
    physical_rows: int | None = None
    primary_key_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class StreamMark:
    """How far a stream has come that adds whole runs (:mod:`lancelet.memwal.staging`). States of pylance do not repeat it."""

    query: str
    batch: int
    epoch: int
    """Under which it was added; as long as it is the shard's, nobody has claimed the shard since."""


@dataclass(frozen=True, slots=True)
class ShardManifest:
    """One state of a shard."""

    shard: UUID
    version: int = 0
    """0 for a shard that nobody has claimed yet."""
    epoch: int = 0
    replay_after: int = 0
    """The last entry of the log that is in a run; 0 for none."""
    last_seen: int = 0
    generation: int = 1
    """That of the next run."""
    sstables: tuple[SsTable, ...] = ()
    spec_id: int = 0
    """0 for a shard that no spec tells the rows of."""
    field_values: tuple[tuple[str, bytes], ...] = field(default=())
    """The values of sharding fields that all rows of the shard have."""
    sealed: bool = False
    claim: bytes = b""
    """Drawn by whoever claimed the shard with this state."""
    marks: tuple[StreamMark, ...] = ()
    """Of each query the last batch that is in the shard, the latest last."""
    has_all_marks: bool = False
    """Whether no other query ever added runs; else earlier states may tell of more."""

    @property
    def has_flushed(self) -> bool:
        """Whether any entry of the log was ever made a run. Of the first model, whose logs begin at 0, no number says so."""
        return bool(self.replay_after or self.sstables or self.generation > 1)

    @property
    def flushed(self) -> tuple[int, int]:
        """What changes whenever entries of the log become a run."""
        return self.generation, self.replay_after

    def __post_init__(self) -> None:
        generations = [run.generation for run in self.sstables]
        if sorted(set(generations)) != generations:
            raise InvalidInput(
                f"the runs of shard {self.shard} are not in the order of their generations: {generations}"
            )


def encode_manifest(manifest: ShardManifest) -> bytes:
    """The content of a state's file."""
    message = mem_wal_pb2.ShardManifest(
        version=manifest.version,
        writer_epoch=manifest.epoch,
        replay_after_wal_entry_position=manifest.replay_after,
        wal_entry_position_last_seen=manifest.last_seen,
        current_generation=manifest.generation,
        sstables=[
            mem_wal_pb2.SsTable(
                generation=run.generation,
                path=run.path,
                in_memory_bytes=run.in_memory_bytes,
                physical_rows=run.physical_rows,
                primary_key_bytes=run.primary_key_bytes,
            )
            for run in manifest.sstables
        ],
        shard_spec_id=manifest.spec_id,
        shard_id=table_pb2.UUID(uuid=manifest.shard.bytes),
        shard_field_entries=[
            mem_wal_pb2.ShardFieldEntry(field_id=name, value=value) for name, value in manifest.field_values
        ],
        status=mem_wal_pb2.ShardManifest.SEALED if manifest.sealed else mem_wal_pb2.ShardManifest.ACTIVE,
        claim_token=manifest.claim,
        stream_marks=[
            mem_wal_pb2.StreamMark(query=mark.query, batch=mark.batch, writer_epoch=mark.epoch)
            for mark in manifest.marks
        ],
        has_all_marks=manifest.has_all_marks,
    )
    return message.SerializeToString()


def decode_manifest(data: bytes, shard: UUID, version: int, path: str) -> ShardManifest:
    """A state out of its file; also one of the older model, in which a shard is a region."""
    message = parse_message(data, mem_wal_pb2.ShardManifest, path, "shard manifest")
    if message.version != version:
        raise CorruptFile(path, f"is version {message.version}, and its name says {version}")
    if message.HasField("shard_id") and message.shard_id.uuid != shard.bytes:
        raise CorruptFile(path, f"is about shard {message.shard_id.uuid.hex()}, and lies in the folder of {shard}")
    runs = [_decode_run(run, path) for run in message.sstables]
    return ShardManifest(
        shard,
        version,
        message.writer_epoch,
        message.replay_after_wal_entry_position,
        message.wal_entry_position_last_seen,
        message.current_generation or 1,
        tuple(sorted(runs, key=lambda run: run.generation)),
        message.shard_spec_id,
        tuple((entry.field_id, entry.value) for entry in message.shard_field_entries),
        message.status == mem_wal_pb2.ShardManifest.SEALED,
        message.claim_token,
        tuple(StreamMark(mark.query, mark.batch, mark.writer_epoch) for mark in message.stream_marks),
        message.has_all_marks,
    )


def _decode_run(run: mem_wal_pb2.SsTable, path: str) -> SsTable:
    if not run.path or "/" in run.path or run.path in (".", ".."):
        raise CorruptFile(path, f"run {run.generation} is in {run.path!r}, which is no folder of the shard's")
    return SsTable(
        run.generation,
        run.path,
        run.in_memory_bytes if run.HasField("in_memory_bytes") else None,
        run.physical_rows if run.HasField("physical_rows") else None,
        run.primary_key_bytes if run.HasField("primary_key_bytes") else None,
    )


def list_shards(table: Store) -> list[UUID]:
    """The shards that have a folder."""
    shards = []
    for name in table.list_folders(MEM_WAL_DIR):
        with suppress(ValueError):
            shards.append(UUID(name))
    return sorted(shards)


class ShardStates:
    """The states of one shard on its store."""

    __slots__ = ("shard", "store")

    def __init__(self, store: Store, shard: UUID) -> None:
        self.store = store
        """The folder of the shard."""
        self.shard = shard

    @classmethod
    def of(cls, table: Store, shard: UUID) -> ShardStates:
        """Those of a shard of the table in a folder."""
        return cls(table.child(shard_folder(shard)), shard)

    def read(self, version: int) -> ShardManifest:
        path = manifest_path(version)
        return decode_manifest(self.store.read_all(path), self.shard, version, self.store.join(path))

    def latest(self) -> ShardManifest | None:
        """The newest state; None for a shard that nobody has claimed."""
        newest = None
        for version in self._candidates():
            try:
                newest = self.read(version)
            except MissingFile:
                break
        return newest

    def _candidates(self) -> Iterator[int]:
        first = self._hint()
        if first > 1 and not self.store.exists(manifest_path(first)):
            # A hint that is ahead of the states, as after a folder was copied by hand, is no help.
            first = 1
        while True:
            yield first
            first += 1

    def _hint(self) -> int:
        with suppress(MissingFile, ValueError, TypeError, KeyError, StorageError):
            return max(1, int(json.loads(self.store.read_all(HINT))["version"]))
        return 1

    def write(self, manifest: ShardManifest) -> bool:
        """Put a state under its number; False when somebody else's is there."""
        data, path = encode_manifest(manifest), manifest_path(manifest.version)
        for _ in range(ATTEMPTS):
            try:
                done = self.store.put_if_absent(path, data)
            except UncertainPut:
                continue
            # A store that repeats requests on its own tells the first one's success as a conflict with the second.
            done = done or self.store.read_all(path) == data
            if done:
                with suppress(StorageError):
                    self.store.put_hint(HINT, json.dumps({"version": manifest.version}, separators=(",", ":")).encode())
            return done
        raise StorageError(
            self.store.join(path), f"the store did not say what became of {ATTEMPTS} requests to write this state"
        )

    def update(self, change: Callable[[ShardManifest], ShardManifest | None]) -> ShardManifest:
        """Make the next state of the newest one, as often as others are faster; None from ``change`` leaves it."""
        for _ in range(ATTEMPTS):
            newest = self.latest() or ShardManifest(self.shard)
            changed = change(newest)
            if changed is None:
                return newest
            claim = changed.claim if changed.claim != newest.claim else b""
            following = replace(changed, version=newest.version + 1, claim=claim)
            if self.write(following):
                return following
        raise StorageError(self.store.uri, f"others were faster {ATTEMPTS} times to write the next state of the shard")

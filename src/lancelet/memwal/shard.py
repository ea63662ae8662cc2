"""A shard in the hands of its writer: the log, the MemTables in front of it, and how they become runs.

::

    put ──> log (durable) ──> active MemTable ──freeze──> frozen MemTables ──flush──> runs, in the shard's next state

Everything here happens in the thread that calls it. :mod:`lancelet.memwal.writer` adds threads and waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from lancelet.errors import MemWalEnded, ShardSealed, StorageError, WriterFenced
from lancelet.memwal.config import WriterConfig
from lancelet.memwal.details import MemWalDetails, check_progress, require_details
from lancelet.memwal.log import Log, claim, read_log
from lancelet.memwal.memtable import MemTable
from lancelet.memwal.primary_key import PrimaryKey
from lancelet.memwal.run_files import write_run
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, SsTable, list_shards
from lancelet.memwal.wal_entry import WalEntry, encode_entry, entry_schema, fitted
from lancelet.table.commit.index_upkeep import has_mem_wal

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot


class Shard:
    """A shard that was claimed. Appends come from one thread at a time, and so do flushes."""

    def __init__(self, base: Snapshot, states: ShardStates, manifest: ShardManifest, config: WriterConfig) -> None:
        self._stand_on(base)
        self.states = states
        self.manifest = manifest
        self.config = config
        delay = config.wal_persist_retry_base_delay_ms / 1000
        self.log = Log(states, manifest.epoch, manifest.replay_after, config.max_wal_persist_retries + 1, delay)
        self.active = MemTable(manifest.generation)
        self.frozen: list[MemTable] = []
        self._lock = threading.Lock()

    def _stand_on(self, base: Snapshot) -> None:
        """Have rows in the columns of a version."""
        self.base = base
        self.key = PrimaryKey.of(base.manifest.schema)
        self.schema = entry_schema(base.manifest.schema)
        self.details: MemWalDetails = require_details(base)

    @classmethod
    def claim(
        cls,
        base: Snapshot,
        shard: UUID,
        config: WriterConfig,
        field_values: tuple[tuple[str, bytes], ...] = (),
    ) -> Shard:
        """Take a shard over, and have what its earlier writers left in its log."""
        details = require_details(base)
        PrimaryKey.of(base.manifest.schema)
        states = ShardStates.of(base.store, shard)
        spec_id = details.specs[-1].spec_id if details.specs else 0
        # A clone or a branch has the progress of shards whose folders it has not: runs of such numbers would count as compacted.
        following = details.compacted.get(shard, 0) + 1
        claimed = claim(states, spec_id, field_values, following, partial(check_progress, base))
        taken = cls(base, states, claimed, config)
        taken._replay()
        return taken

    @property
    def id(self) -> UUID:
        return self.states.shard

    @property
    def epoch(self) -> int:
        return self.manifest.epoch

    def _replay(self) -> None:
        entries = list(read_log(self.states, self.manifest))
        self.log.tail = entries[-1].position if entries else self.log.tail
        if self.epoch == 1:
            # Nobody was here before. If others came since, the log may have holes already that look like its end.
            self.log.check_epoch()
            return
        entries += self.log.fence()
        if any(entry.batches for entry in entries):
            # Nobody adds to them now, so that the newest version has all columns that they were written with.
            self._stand_on(self.base.latest())
        for entry in entries:
            self._take_in(entry)
        # A log of the first model may end at 0, which would say that nothing was flushed.
        self.active.last_position = self.active.last_position or self.log.tail
        self.manifest = self.states.update(self._with_tail)

    def _with_tail(self, newest: ShardManifest) -> ShardManifest:
        if newest.epoch > self.epoch:
            self.log.check_epoch()
        return replace(newest, last_seen=self.log.tail)

    def _take_in(self, entry: WalEntry) -> None:
        """Rows of an entry that somebody else wrote."""
        batches = [fitted(batch, self.schema) for batch in entry.batches]
        self.active.add(batches, entry.position)

    def append(self, batches: Sequence[pa.RecordBatch]) -> int:
        """Write batches as one entry of the log, and have them in the MemTable; returns the bytes of the entry."""
        data = encode_entry(self.schema, batches, self.epoch, self.active.generation)
        for entry in self.log.append(data):
            self._take_in(entry)
        with self._lock:
            self.active.add(batches, self.log.tail)
        return len(data)

    @property
    def is_full(self) -> bool:
        """Whether the active MemTable is to become a run."""
        active, config = self.active, self.config
        return (
            active.nbytes >= config.max_memtable_size
            or active.num_rows >= config.max_memtable_rows
            or active.num_batches >= config.max_memtable_batches
        )

    def freeze(self) -> bool:
        """Put a new MemTable in the place of the active one; False when there is nothing in it."""
        with self._lock:
            if not self.active.num_rows:
                return False
            self.frozen.append(self.active)
            self.active = MemTable(self.active.generation + 1)
        return True

    def flush(self) -> SsTable | None:
        """Make a run of the oldest frozen MemTable; None when there is none."""
        if not self.frozen:
            return None
        memtable = self.frozen[0]
        store = self.states.store
        newest = self._newest_table()
        maintained = require_details(newest).maintained
        run = write_run(store, self.base, memtable.batches(), memtable.generation, maintained, indexed=newest)

        def with_run(newest: ShardManifest) -> ShardManifest | None:
            if newest.epoch > self.epoch:
                self.log.check_epoch()
            if newest.replay_after >= memtable.last_position:
                # An earlier try, of which nobody heard, has the rows in a run; the folder of this one is a leftover.
                return None
            return replace(
                newest,
                replay_after=memtable.last_position,
                last_seen=max(newest.last_seen, memtable.last_position),
                generation=newest.generation + 1,
                sstables=(*newest.sstables, run),
            )

        try:
            done = self.states.update(with_run)
        except (WriterFenced, ShardSealed):
            # Only then it is sure that no state names the run. After all else its files stay until they are collected.
            with suppress(StorageError):
                store.remove_folder(run.path)
            raise
        with self._lock:
            self.manifest = done
            self.frozen.pop(0)
        return run

    def _newest_table(self) -> Snapshot:
        """The newest version; raises when it has lost its MemWAL: a run would be of no use, and acknowledged rows are not seen."""
        newest = self.base.latest()
        if not has_mem_wal(newest.manifest):
            raise MemWalEnded(self.states.store.uri, newest.version)
        return newest

    def memtables(self) -> tuple[ShardManifest, list[tuple[int, tuple[pa.RecordBatch, ...]]]]:
        """A state of the shard, and the rows that none of its runs has, by generation: one moment of both."""
        with self._lock:
            tables = [*self.frozen, self.active]
            return self.manifest, [(one.generation, one.batches()) for one in tables if one.num_rows]

    @property
    def unflushed_bytes(self) -> int:
        with self._lock:
            return self.active.nbytes + sum(one.nbytes for one in self.frozen)


def fence_earlier(base: Snapshot) -> None:
    """Fence writers that are left of a MemWAL that the table had before: they put rows in the columns of then."""
    for shard in list_shards(base.store):
        state = ShardStates.of(base.store, shard).latest()
        if state is not None and not state.sealed:
            Shard.claim(base, shard, require_details(base).config)


def seal(base: Snapshot, shard: UUID) -> ShardManifest:
    """Let a shard take no more rows. Its writer is fenced, and what its log has becomes runs."""
    base = base.latest()
    states = ShardStates.of(base.store, shard)
    newest = states.latest()
    if newest is not None and newest.sealed:
        return newest
    try:
        taken = Shard.claim(base, shard, require_details(base).config)
    except ShardSealed:
        # Somebody else was faster.
        return states.update(lambda newest: None)
    taken.freeze()
    while taken.flush() is not None:
        continue

    def shut(newest: ShardManifest) -> ShardManifest | None:
        if newest.epoch > taken.epoch:
            taken.log.check_epoch()
        return replace(newest, epoch=newest.epoch + 1, sealed=True)

    return states.update(shut)

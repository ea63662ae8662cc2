"""What a MemWAL does not need any more (spec memwal.md 6 and 8.3).

- A run that is in the table, in a version of some age: whoever reads begins with newer versions by now. It has indices of its own
  rows, and stays until those of the table that runs have too know these rows.
- An entry of the log that is in a run; but not the first one of a writer. A writer that was fenced long ago and knows nothing of it
  would go on at its position, and must find it taken.
- A folder of a run that no state names: of a flush that failed. One of a generation that is still to come may be of a writer that
  sleeps, and would name it when it wakes up: it stays, however old it is, until another run has that generation or the shard is
  sealed. One of a batch waits for the end of its job, which may take days.

States of shards stay: they are small, and the newest one is found through them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, MissingFile, NotFound
from lancelet.memwal.details import read_details
from lancelet.memwal.log import ENTRIES, read_entry
from lancelet.memwal.names import WAL_DIR, entry_path, is_staged, number_of, run_generation
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, list_shards
from lancelet.table.manifest.snapshot import open_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

KEPT = timedelta(hours=1)
"""How old a version must be for runs to go that are in it."""
STAGED = timedelta(days=7)
"""How old a folder of a batch must be that nothing names, whatever else is asked for."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What went."""

    num_runs: int = 0
    num_entries: int = 0
    num_leftovers: int = 0
    """Folders of runs that no state named."""


def collect_garbage(snapshot: Snapshot, *, older_than: timedelta = KEPT, now: datetime | None = None) -> Collected:
    """Remove what nobody needs, of all shards."""
    moment = now or datetime.now(timezone.utc)
    compacted = _compacted(snapshot, older_than, moment - older_than)
    total = Collected()
    for shard in list_shards(snapshot.store):
        states = ShardStates.of(snapshot.store, shard)
        manifest = states.latest() or ShardManifest(shard)
        runs = _drop_runs(states, manifest, compacted.get(shard, 0))
        entries = _drop_entries(states.store, manifest.replay_after) if manifest.version else 0
        leftovers = _drop_leftovers(states, moment - max(older_than, STAGED))
        total = Collected(total.num_runs + runs, total.num_entries + entries, total.num_leftovers + leftovers)
    return total


def _compacted(snapshot: Snapshot, older_than: timedelta, before: datetime) -> Mapping[UUID, int]:
    """How far shards had come in the newest version that is old enough, and are in the newest of all."""
    try:
        old = snapshot.latest() if not older_than else open_snapshot(snapshot.store, asof=before)
    except NotFound:
        return {}
    details, newest = read_details(old.manifest), read_details(snapshot.latest().manifest)
    if details is None or newest is None:
        return {}
    # A version that was restored has fewer runs than others before it.
    found = {shard: min(done, newest.compacted.get(shard, 0)) for shard, done in details.compacted.items()}
    for name in newest.maintained:
        known = newest.caught_up.get(name, {})
        found = {shard: min(done, known.get(shard, 0)) for shard, done in found.items()}
    return found


def _drop_runs(states: ShardStates, manifest: ShardManifest, done: int) -> int:
    """Runs go from the states first, so that nobody begins to read them, and then from the store."""
    if not any(run.generation <= done for run in manifest.sstables):
        return 0
    gone: dict[str, int] = {}

    def without(newest: ShardManifest) -> ShardManifest | None:
        gone.update({run.path: run.generation for run in newest.sstables if run.generation <= done})
        left = tuple(run for run in newest.sstables if run.generation > done)
        return None if len(left) == len(newest.sstables) else replace(newest, sstables=left)

    states.update(without)
    for path in gone:
        states.store.remove_folder(path)
    return len(gone)


def _drop_entries(shard: Store, replayed: int) -> int:
    """Entries that are in runs, but for the first of each epoch."""
    positions = sorted(
        position
        for name in shard.list_names(WAL_DIR)
        if (position := number_of(name, ".arrow")) is not None and position <= replayed
    )
    needed: set[int] = set()
    known: int | None = None
    for position, epoch in zip(positions, ENTRIES.each(shard, positions, partial(_epoch, shard)), strict=True):
        if epoch is None or epoch != known:
            needed.add(position)
        known = epoch
    gone = [entry_path(position) for position in positions if position not in needed]
    shard.delete_many(gone)
    return len(gone)


def _epoch(shard: Store, position: int) -> int | None:
    """The epoch of an entry; None for one that cannot be read, which may be the first of a writer, or that another cleanup
    removed. Its rows are in a run."""
    with suppress(CorruptFile, MissingFile):
        return read_entry(shard, position).epoch
    return None


def _drop_leftovers(states: ShardStates, before: datetime) -> int:
    """Folders of runs that were never named, or not any more; those of batches when they were written ``before``."""
    # A job that died before it claimed the shard leaves folders and no state.
    newest = states.latest() or ShardManifest(states.shard)
    named = {run.path for run in newest.sstables}
    gone = 0
    for folder in states.store.list_folders():
        generation, staged = run_generation(folder), is_staged(folder)
        if folder in named or (generation is None and not staged):
            continue
        # Whoever could still name it would find the shard sealed, or itself fenced.
        is_over = newest.sealed or (generation is not None and generation < newest.generation)
        if is_over or (staged and _is_older(states.store, folder, before)):
            states.store.remove_folder(folder)
            gone += 1
    return gone


def _is_older(shard: Store, folder: str, before: datetime) -> bool:
    """Whether all files of a folder are; one without files may have just been made."""
    written = [item.modified for item in shard.list_objects(folder)]
    return bool(written) and max(written) < before

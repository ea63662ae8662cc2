"""Runs that tasks of a job write without a claim, and that one process then adds to their shards.

::

    tasks     rows ──> runs in folders that nothing names yet
    driver    claims the shard, unless the query has it; what its log holds becomes a run
              writes the shard's next state: with the new runs, and with the mark of their batch

The mark is in the same state as the runs, so that a batch that comes again finds out, shard by shard, whether it is there: a batch
that was added to some of its shards only is completed. As long as nobody else claims the shard, the query keeps it from batch to
batch: its drivers never write to the log, so that there is nothing to fence, and of two of them only one can write the next state.

States of pylance do not repeat marks. Where the newest state does not say that it has all of them, the earlier ones are asked; they
are never removed. A shard that was sealed in the middle of a batch has its mark, and the one that takes such rows now has none:
then those before it are asked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lancelet.errors import MissingFile, ShardSealed, StorageError, WriterFenced
from lancelet.execution.threads import ordered_map
from lancelet.memwal.details import require_details
from lancelet.memwal.names import is_staged, new_staged_folder
from lancelet.memwal.run_files import write_run
from lancelet.memwal.shard import Shard
from lancelet.memwal.shard_manifest import ShardManifest, ShardStates, SsTable, StreamMark, list_shards

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.memwal.placing import Place
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

_CLAIMS: Final = 8
"""How often a shard is claimed again that others claimed meanwhile."""
_MARKS: Final = 256
"""Queries that a state remembers; of others, earlier states do."""
_STEM_BYTES: Final = 8
_STATES_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a query, which must not be added twice."""

    query: str
    number: int


def new_stem() -> bytes:
    """What the folders of all runs of a job begin with."""
    return secrets.token_bytes(_STEM_BYTES)


def stage_run(base: Snapshot, shard: UUID, batches: Sequence[pa.RecordBatch], stem: bytes, batch: int = 0) -> SsTable:
    """Write rows, in the columns of the log, as a run that has no generation yet."""
    store = ShardStates.of(base.store, shard).store
    return write_run(store, base, batches, 0, require_details(base).maintained, new_staged_folder(stem, batch))


def has_batch(base: Snapshot, shard: UUID, batch: StreamBatch, before: Sequence[UUID] = ()) -> bool:
    """Whether a shard has a batch already, or one of those ``before`` it that are sealed."""
    states = ShardStates.of(base.store, shard)
    return _reached(base, states, states.latest(), batch.query, before) >= batch.number


def add_runs(
    base: Snapshot,
    place: Place,
    runs: Sequence[SsTable],
    batch: StreamBatch | None = None,
    before: Sequence[UUID] = (),
) -> bool:
    """Make staged runs, the older ones first, the newest of their shard; False when the batch is there already.

    Another writer of the shard is fenced: what was acknowledged to it comes before these runs. ``before`` are shards
    that had such rows, and were sealed.
    """
    states = ShardStates.of(base.store, place[0])
    fenced: WriterFenced | None = None
    for _ in range(_CLAIMS):
        try:
            return _add(base, states, place, runs, batch, before)
        except WriterFenced as error:
            fenced = error
    assert fenced is not None
    raise fenced


def _add(
    base: Snapshot,
    states: ShardStates,
    place: Place,
    runs: Sequence[SsTable],
    batch: StreamBatch | None,
    before: Sequence[UUID],
) -> bool:
    seen = states.latest()
    if seen is not None and seen.sealed:
        raise ShardSealed(states.store.uri)
    if batch is not None and _reached(base, states, seen, batch.query, before) >= batch.number:
        return False
    known = 0 if seen is None else seen.version
    if seen is not None and batch is not None and _is_held(seen, batch.query):
        epoch, tail = seen.epoch, seen.replay_after
    else:
        taken = Shard.claim(base, place[0], require_details(base).config, place[1])
        taken.freeze()
        while taken.flush() is not None:
            continue
        epoch, tail = taken.epoch, taken.log.tail
    added = False

    def with_runs(newest: ShardManifest) -> ShardManifest | None:
        nonlocal added
        added = batch is None or _last_batch(states, newest, batch.query, known) < batch.number
        if not added:
            return None
        if newest.epoch > epoch:
            if newest.sealed:
                raise ShardSealed(states.store.uri)
            raise WriterFenced(states.store.uri, epoch, newest.epoch)
        numbered = (replace(run, generation=newest.generation + number) for number, run in enumerate(runs))
        return replace(
            newest,
            replay_after=max(newest.replay_after, tail),
            last_seen=max(newest.last_seen, tail),
            generation=newest.generation + len(runs),
            sstables=(*newest.sstables, *numbered),
            **({} if batch is None else _with_mark(states, newest, batch)),
        )

    states.update(with_runs)
    return added


def _is_held(newest: ShardManifest, query: str) -> bool:
    """Whether nobody has claimed a shard since a query added to it."""
    return any(mark.query == query and mark.epoch == newest.epoch for mark in newest.marks)


def _with_mark(states: ShardStates, newest: ShardManifest, batch: StreamBatch) -> dict[str, Any]:
    """What the next state says of streams: all that is known, so that nobody has to ask earlier states."""
    marks, whole = _all_marks(states, newest)
    others = [mark for mark in marks if mark.query != batch.query]
    kept = others[-_MARKS + 1 :]
    made = StreamMark(batch.query, batch.number, newest.epoch)
    return {"marks": (*kept, made), "has_all_marks": whole and len(kept) == len(others)}


def _all_marks(states: ShardStates, newest: ShardManifest) -> tuple[Sequence[StreamMark], bool]:
    """The marks of all queries, and whether that is sure, up to a state that has as many as one may have."""
    found: dict[str, StreamMark] = {}
    for state in _backwards(states, newest, 0):
        for mark in reversed(state.marks):
            found.setdefault(mark.query, mark)
        if state.has_all_marks or len(state.marks) >= _MARKS:
            return list(found.values())[::-1], state.has_all_marks
    return list(found.values())[::-1], True


def _reached(
    base: Snapshot, states: ShardStates, newest: ShardManifest | None, query: str, before: Sequence[UUID]
) -> int:
    """The last batch of a query that is in a shard, or else in those before it; -1 for none."""
    found = -1 if newest is None else _last_batch(states, newest, query)
    for shard in before if found < 0 else ():
        sealed = ShardStates.of(base.store, shard)
        state = sealed.latest()
        if state is not None:
            found = max(found, _last_batch(sealed, state, query))
    return found


def _last_batch(states: ShardStates, newest: ShardManifest, query: str, after: int = 0) -> int:
    """The last batch of a query that the states after one tell of; -1 for none."""
    for state in _backwards(states, newest, after):
        for mark in state.marks:
            if mark.query == query:
                return mark.batch
        if state.has_all_marks:
            break
    return -1


def _backwards(states: ShardStates, newest: ShardManifest, after: int) -> Iterator[ShardManifest]:
    def read(version: int) -> ShardManifest | None:
        try:
            return states.read(version)
        except MissingFile:
            return None

    if newest.version > after:
        yield newest
    ahead = 1 if states.store.is_local else _STATES_AT_ONCE
    for state in ordered_map(read, range(newest.version - 1, after, -1), ahead):
        if state is None:
            return
        yield state


def drop_runs(base: Snapshot, shard: UUID, runs: Sequence[SsTable]) -> None:
    """Remove runs that were not added, but for those that the shard's newest state names."""
    if runs:
        states = ShardStates.of(base.store, shard)
        newest = states.latest()
        named = set() if newest is None else {run.path for run in newest.sstables}
        for run in runs:
            if run.path not in named:
                states.store.remove_folder(run.path)


def drop_staged(table: Store, stem: bytes) -> int:
    """Remove the folders of a job that is over, but for those that states name, as far as the store lets us.

    Returns their number.
    """
    count = 0
    with suppress(StorageError):
        for shard in list_shards(table):
            states = ShardStates.of(table, shard)
            folders = [folder for folder in states.store.list_folders() if is_staged(folder, stem)]
            newest = states.latest() if folders else None
            named = set() if newest is None else {run.path for run in newest.sstables}
            for folder in folders:
                if folder not in named:
                    states.store.remove_folder(folder)
                    count += 1
    return count

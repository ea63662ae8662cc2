"""The log of a shard: claiming it, replaying it, and appending to it (spec memwal.md 5 and 6).

Only the writer with the highest epoch may append, and positions are taken one after the other by creating files that must not
exist. Whoever claims a shard raises the epoch, reads the log to its end, and puts a sentinel behind it: the position at which
every earlier writer would go on is taken then, and it finds out that it was fenced. An entry that an earlier writer got in
before the sentinel counts, since it was acknowledged.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Final

from lancelet.errors import (
    CorruptFile,
    InvalidInput,
    MissingFile,
    ShardSealed,
    StorageError,
    UncertainPut,
    WriterFenced,
)
from lancelet.memwal.ahead import Ahead
from lancelet.memwal.names import GIVEN_UP_DIR, entry_path
from lancelet.memwal.wal_entry import WalEntry, decode_entry, encode_sentinel, lost_entry

if TYPE_CHECKING:
    from lancelet.memwal.shard_manifest import ShardManifest, ShardStates
    from lancelet.store import Store

ENTRIES: Final = Ahead("lancelet-memwal-log")


def claim(
    states: ShardStates,
    spec_id: int = 0,
    field_values: tuple[tuple[str, bytes], ...] = (),
    generation: int = 1,
    check: Callable[[ShardManifest], None] | None = None,
) -> ShardManifest:
    """Take a shard over from whoever had it; a shard that nobody has is made, and its runs begin with a generation.

    ``check`` may refuse a state before anybody is fenced.
    """

    def take(newest: ShardManifest) -> ShardManifest:
        if newest.sealed:
            raise ShardSealed(states.store.uri)
        if check is not None:
            check(newest)
        taken = replace(newest, epoch=newest.epoch + 1, claim=secrets.token_bytes(8))
        if newest.version:
            return taken
        return replace(taken, spec_id=spec_id, field_values=field_values, generation=generation, has_all_marks=True)

    return states.update(take)


def read_entry(shard: Store, position: int) -> WalEntry:
    """One entry; ``MissingFile`` when there is none."""
    path = entry_path(position)
    return decode_entry(shard.read_all(path), position, shard.join(path))


def read_log(states: ShardStates, manifest: ShardManifest) -> Iterator[WalEntry]:
    """The entries that are in no run of a state, to the end of the log. Only logs of the first model have an entry 0.

    Where entries became runs meanwhile, some may be gone that were still to come: whoever goes by the rows has to look whether
    the state is the same afterwards.
    """
    if not manifest.has_flushed:
        with suppress(MissingFile):
            yield read_entry(states.store, 0)
    first = manifest.replay_after + 1
    looked_at = ENTRIES.each(states.store, itertools.count(first), partial(_found, states.store))
    for position, found in enumerate(looked_at, first):
        if found is not None:
            yield found
        elif _is_hole(states, manifest, position):
            # It may have come just now, and the one behind it too.
            yield _entry_before_others(states, position)
        else:
            return


def _found(shard: Store, position: int) -> WalEntry | None:
    try:
        return read_entry(shard, position)
    except MissingFile:
        return None


def _is_hole(states: ShardStates, manifest: ShardManifest, position: int) -> bool:
    """Whether the log goes on behind a position that has no entry, other than by a cleanup after the state."""
    if not states.store.exists(entry_path(position + 1)):
        return False
    newest = states.latest()
    return newest is not None and newest.flushed == manifest.flushed


def _entry_before_others(states: ShardStates, position: int) -> WalEntry:
    try:
        return read_entry(states.store, position)
    except MissingFile as error:
        path = states.store.join(entry_path(position))
        raise CorruptFile(path, lost_entry(position, f"is gone, and entry {position + 1} is there")) from error


def give_up_entry(states: ShardStates, position: int) -> str:
    """Put a sentinel in the place of an entry that is gone or cannot be read; returns where its file is kept, if it has one."""
    store, path = states.store, entry_path(position)
    try:
        damaged = store.read_all(path)
    except MissingFile:
        if not store.exists(entry_path(position + 1)):
            raise
        store.put_if_absent(path, encode_sentinel(_epoch_before(store, position)))
        return ""
    with suppress(CorruptFile):
        read_entry(store, position)
        raise InvalidInput(
            f"entry {position} of {store.uri} can be read, and its rows would be lost: it is not given up"
        )
    kept = f"{GIVEN_UP_DIR}/{path.rpartition('/')[2]}"
    store.put(kept, damaged)
    store.put(path, encode_sentinel(_epoch_before(store, position)))
    return store.join(kept)


def _epoch_before(shard: Store, position: int) -> int:
    """That of the last entry before a position that can be read; none of a later writer's."""
    for earlier in range(position - 1, -1, -1):
        with suppress(CorruptFile, MissingFile):
            return read_entry(shard, earlier).epoch
    return 1


class Log:
    """The end of a shard's log, for the writer that has the shard."""

    __slots__ = ("_attempts", "_delay", "_states", "epoch", "tail")

    def __init__(self, states: ShardStates, epoch: int, tail: int, attempts: int, delay: float = 0.0) -> None:
        self._states = states
        self.epoch = epoch
        self.tail = tail
        """The last position that is taken."""
        self._attempts = attempts
        self._delay = delay
        """Seconds before the second attempt; each time twice as long."""

    def fence(self) -> list[WalEntry]:
        """Put a sentinel at the end; returns the entries that others got in before it."""
        return self._take(encode_sentinel(self.epoch))

    def append(self, data: bytes) -> list[WalEntry]:
        """Add an entry; returns those of earlier writers that were in the way, which come before it.

        After an error that leaves open whether the entry is there, nothing else may be appended.
        """
        return self._take(data)

    def _take(self, data: bytes) -> list[WalEntry]:
        found: list[WalEntry] = []
        while not self._put(entry_path(self.tail + 1), data):
            entry = read_entry(self._states.store, self.tail + 1)
            self.check_epoch()
            if entry.epoch >= self.epoch:
                path = self._states.store.join(entry_path(self.tail + 1))
                raise CorruptFile(path, f"entry {entry.position} has epoch {entry.epoch}, which is that of this writer")
            self.tail += 1
            found.append(entry)
        self.tail += 1
        return found

    def _put(self, path: str, data: bytes) -> bool:
        """Write an entry; False when another one is there."""
        store = self._states.store
        failure: StorageError | None = None
        uncertain = False
        for attempt in range(self._attempts):
            if failure is not None:
                sleep(self._delay * 2 ** (attempt - 1))
            try:
                if store.put_if_absent(path, data):
                    return True
                # What is there may be ours: stores repeat requests, and a request without an answer may have been heard.
                return store.read_all(path) == data
            except UncertainPut as error:
                uncertain, failure = True, error
            except MissingFile:
                # It was in the way, and is gone: a sentinel that a cleanup removed, or a store that lies.
                continue
            except StorageError as error:
                failure = error
        if failure is None:
            raise StorageError(
                store.join(path), f"the store said {self._attempts} times that this entry is there, and did not have it"
            )
        if uncertain:
            raise UncertainPut(
                failure.path, f"nobody knows whether this entry of the log was written: {failure.reason}"
            )
        raise failure

    def check_epoch(self) -> ShardManifest:
        """The newest state of the shard, if it is still this writer's."""
        newest = self._states.latest()
        if newest is None:
            raise CorruptFile(self._states.store.uri, "the states of the shard are gone, while a writer has it")
        if newest.epoch > self.epoch:
            if newest.sealed:
                raise ShardSealed(self._states.store.uri)
            raise WriterFenced(self._states.store.uri, self.epoch, newest.epoch)
        return newest

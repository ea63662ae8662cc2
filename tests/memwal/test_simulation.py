"""Histories of writers, compactors, cleaners and readers on a store with bad days, each drawn from a seed.

Writers pause between any two requests, die at any of them, come back, fence each other, and seal shards; neighbours write to the
table itself and move its rows. What is checked of every history:

- an acknowledged put is there, once, in all strong reads that begin after it and at the end;
- a put is there as a whole or not at all;
- nobody sees an older row of a key after a newer one, and rows that a reader saw do not go away;
- a batch of a stream, which its driver repeats until it hears that it is there, becomes runs of its shard once;
- what neighbours did to rows of their own stays as it is.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pyarrow as pa
import pytest

from drawing import seeds
from lancelet.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    LanceletError,
    MissingFile,
    ShardSealed,
    StorageError,
    WriterFenced,
)
from lancelet.execution.table_reader import TableReader
from lancelet.file import FileCache
from lancelet.memwal.collection import collect_garbage
from lancelet.memwal.compaction import compact_runs
from lancelet.memwal.config import WriterConfig
from lancelet.memwal.details import initialize
from lancelet.memwal.incoming import rows_to_delete, rows_to_put
from lancelet.memwal.names import is_staged, shard_folder
from lancelet.memwal.scan import LevelScan
from lancelet.memwal.shard import Shard, seal
from lancelet.memwal.shard_manifest import ShardStates
from lancelet.memwal.staging import StreamBatch, add_runs, stage_run
from lancelet.memwal.view import take_view
from lancelet.memwal.wal_entry import entry_schema
from lancelet.table.commit.patience import Pace
from lancelet.table.manifest.snapshot import open_snapshot
from lancelet.writing.options import write_options
from lancelet.writing.table import Target, write_table
from memwal.neighbour import Neighbour
from memwal.samples import KEY, OTHER, SHARD
from memwal.world import Killed, World, WorldStore, new_world

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("n", pa.int64())])
KEYLESS = pa.schema([field.remove_metadata() for field in SCHEMA])
SHARDS = (SHARD, OTHER)
CONTENDED = 3
"""Keys of each shard that all puts write to; every put has two keys of its own besides."""
OWN = 1000
ALONE = 1 << 30
"""Ids of what takes the place of a contended key in tables without a key."""
NEVER = 1 << 60


TROUBLE = (Killed, WriterFenced, ShardSealed, StorageError, MissingFile, CommitOutcomeUnknown)


@dataclass
class Attempt:
    """A put, or a deletion, of a contended key."""

    number: int
    key: int
    deletes: bool
    began: int
    ended: int = NEVER
    acknowledged: bool = False


@dataclass
class Story:
    """What everybody was told, and when."""

    keyed: bool
    """Whether rows replace others with their key. Else all that are put have ids of their own, and nothing is deleted."""
    clock: int = 0
    attempts: dict[int, Attempt] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    batches: list[tuple[Attempt, UUID]] = field(default_factory=list)
    """Those of streams, and their shards."""

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def begin(self, key: int, deletes: bool) -> Attempt:
        number = len(self.attempts) + 1
        made = Attempt(number, key if self.keyed else ALONE + number, deletes and self.keyed, self.tick())
        self.attempts[made.number] = made
        return made


def rows_of(attempt: Attempt) -> pa.Table:
    own = OWN + 2 * attempt.number
    return pa.table({"id": [own, attempt.key, own + 1], "n": [attempt.number] * 3}, KEYLESS)


def writer(world: World, store: WorldStore, story: Story, chance: random.Random, number: int) -> Callable[[], None]:
    def live() -> None:
        place = chance.choices(range(len(SHARDS)), [5, 1])[0]
        config = WriterConfig(
            max_wal_persist_retries=chance.choice([0, 3]),
            wal_persist_retry_base_delay_ms=0,
            max_memtable_rows=chance.choice([3, 7, 100]),
        )
        shard = Shard.claim(open_snapshot(store), SHARDS[place], config)
        for _ in range(chance.randrange(1, 7)):
            kind = chance.choices(["put", "delete", "flush", "seal"], [60, 20, 20, 1])[0]
            if kind == "seal":
                seal(open_snapshot(store), SHARDS[place])
                return
            if kind == "flush":
                shard.freeze()
                while shard.frozen:
                    shard.flush()
                continue
            key = place * CONTENDED + chance.randrange(CONTENDED)
            attempt = story.begin(key, kind == "delete")
            try:
                if attempt.deletes:
                    shard.append(rows_to_delete(shard.base, shard.key, shard.schema, {"id": [key]}, None))
                else:
                    shard.append(rows_to_put(shard.base, shard.schema, rows_of(attempt), None))
                attempt.acknowledged = True
            finally:
                attempt.ended = story.tick()
            if shard.is_full and shard.freeze():
                shard.flush()

    def act() -> None:
        for _ in range(3):
            world.lives.pop(number, None)
            if chance.random() < 0.4:
                world.lives[number] = chance.randrange(40)
            try:
                live()
            except TROUBLE:
                continue

    return act


def streamer(world: World, store: WorldStore, story: Story, chance: random.Random, number: int) -> Callable[[], None]:
    """The driver of a stream: after every death it begins with the batch that it did not hear of."""
    query, pending = f"query {number}", list[tuple[Attempt, int]]()

    def live() -> None:
        base = open_snapshot(store)
        for _ in range(chance.randrange(1, 5)):
            if not pending:
                place = chance.choices(range(len(SHARDS)), [5, 1])[0]
                attempt = story.begin(place * CONTENDED + chance.randrange(CONTENDED), False)
                story.batches.append((attempt, SHARDS[place]))
                pending.append((attempt, place))
            attempt, place = pending[0]
            rows = rows_to_put(base, entry_schema(base.manifest.schema), rows_of(attempt), None)
            run = stage_run(base, SHARDS[place], rows, chance.randbytes(8), attempt.number)
            add_runs(base, (SHARDS[place], ()), [run], StreamBatch(query, attempt.number))
            attempt.acknowledged, attempt.ended = True, story.tick()
            pending.clear()

    def act() -> None:
        for _ in range(4):
            world.lives.pop(number, None)
            if chance.random() < 0.5:
                world.lives[number] = chance.randrange(60)
            try:
                live()
            except TROUBLE:
                continue

    return act


def check_batches(store: WorldStore, story: Story) -> None:
    """No state ever named two runs of one batch, and that of an acknowledged one was named."""
    named: dict[int, set[str]] = {}
    for shard in SHARDS:
        states = ShardStates(store.child(shard_folder(shard)), shard)  # type: ignore[arg-type]
        newest = states.latest()
        for version in range(1, 0 if newest is None else newest.version + 1):
            for run in states.read(version).sstables:
                if is_staged(run.path):
                    named.setdefault(int(run.path.rpartition("_")[2]), set()).add(run.path)
    for attempt, _ in story.batches:
        runs = named.get(attempt.number, set())
        assert len(runs) == 1 or not (runs or attempt.acknowledged), f"batch {attempt.number} is there as {runs}"


def pace(chance: random.Random) -> Pace:
    clock = iter(range(10**9))
    return Pace(lambda: float(next(clock)), lambda seconds: None, chance)


def compactor(world: World, store: WorldStore, chance: random.Random, number: int) -> Callable[[], None]:
    def act() -> None:
        for _ in range(2):
            world.lives.pop(number, None)
            if chance.random() < 0.3:
                world.lives[number] = chance.randrange(80)
            try:
                compact_runs(TableReader(open_snapshot(store), FileCache()), pace=pace(chance))
                collect_garbage(open_snapshot(store), older_than=timedelta(0))
            except (Killed, StorageError, MissingFile, CommitConflict, CommitOutcomeUnknown):
                continue

    return act


def read(store: WorldStore, *, strong: bool) -> dict[int, int]:
    """Every row by its key; raises when a key is there twice."""
    view = take_view(open_snapshot(store), FileCache(), strong=strong)
    found: dict[int, int] = {}
    for batch in LevelScan().batches(view):
        for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            assert key not in found, f"key {key} is there twice"
            found[key] = value
    return found


def check(story: Story, found: dict[int, int], began: int, before: dict[int, int], *, strong: bool) -> None:
    """One read, beside what had happened before it, and what the same reader saw before."""
    now = story.clock
    for attempt in story.attempts.values():
        own = OWN + 2 * attempt.number
        there = [key in found for key in (own, own + 1)]
        assert there[0] == there[1], f"half of put {attempt.number} is there"
        if strong and attempt.acknowledged and attempt.ended < began and not attempt.deletes:
            assert there[0], f"put {attempt.number} was acknowledged, and is not there"
        assert not there[0] or attempt.began <= now
    for key in before:
        assert key < OWN or key in found, f"key {key} was there, and is not any more"
    for key in range(len(SHARDS) * CONTENDED):
        value = found.get(key)
        if value:
            seen = story.attempts[value]
            assert seen.key == key
            for other in story.attempts.values():
                newer = other.key == key and other.acknowledged and other.began > seen.ended
                assert not (strong and newer and other.ended < began), (
                    f"put {value} is there, and {other.number} is newer"
                )
            earlier = story.attempts.get(before.get(key) or 0)
            assert earlier is None or earlier.began <= seen.ended, f"put {value} came back after {before[key]}"


def reader(store: WorldStore, story: Story, chance: random.Random) -> Callable[[], None]:
    def act() -> None:
        seen: dict[bool, dict[int, int]] = {True: {}, False: {}}
        for _ in range(3):
            strong = chance.random() < 0.6
            began = story.tick()
            try:
                found = read(store, strong=strong)
            except (StorageError, MissingFile):
                continue
            check(story, found, began, seen[strong], strong=strong)
            seen[strong] = found

    return act


@functools.cache
def beginning(*, keyed: bool, stable: bool) -> dict[str, bytes]:
    """The objects of a table with a MemWAL that nobody has used; ``stable`` are the ids of its rows."""
    world = new_world(0, 0.0)
    start = pa.table({"id": list(range(len(SHARDS) * CONTENDED)), "n": [0] * len(SHARDS) * CONTENDED})
    start = start.cast(SCHEMA if keyed else KEYLESS)
    options = write_options(enable_stable_row_ids=stable)
    initialize(write_table(start, None, Target(WorldStore(world, "table"), None), options))  # type: ignore[arg-type]
    return world.objects


def simulate(seed: int) -> Story:
    chance = random.Random(seed)
    world = new_world(seed, chance.choice([0.0, 0.01, 0.03]))
    story = Story(chance.random() < 0.8)
    world.objects.update(beginning(keyed=story.keyed, stable=chance.random() < 0.3))
    store = WorldStore(world, "table")
    world.calm = False
    makers: list[Callable[[int], Callable[[], None]]] = [
        lambda number: writer(world, store, story, random.Random(chance.random()), number)
    ] * chance.choice([1, 2, 3])
    makers += [lambda number: compactor(world, store, random.Random(chance.random()), number)] * chance.choice(
        [0, 1, 1, 2]
    )
    makers += [lambda number: streamer(world, store, story, random.Random(chance.random()), number)] * chance.choice(
        [0, 0, 1, 2]
    )
    makers += [lambda number: reader(store, story, random.Random(chance.random()))] * chance.choice([1, 1, 2])
    neighbours: list[Neighbour] = []

    def neighbour(number: int) -> Callable[[], None]:
        neighbours.append(Neighbour(world, store, random.Random(chance.random()), number))
        return neighbours[-1].act

    makers += [neighbour] * chance.choice([0, 0, 1, 2])
    world.baton.run([make(number) for number, make in enumerate(makers)])
    world.calm = True
    for path, data in world.late:
        world.objects.setdefault(path, data)
    finish(store, story, neighbours, whole=seed % 3 == 0)
    return story


def finish(store: WorldStore, story: Story, neighbours: Sequence[Neighbour], *, whole: bool) -> None:
    """On a calm day all is there; and, of ``whole`` histories, after everything is flushed, compacted and cleaned up."""
    began = story.tick()
    found = read(store, strong=True)
    check(story, found, began, {}, strong=True)
    check_batches(store, story)
    for one in neighbours:
        one.check(found)
    if not whole:
        return
    base = open_snapshot(store)
    for name in SHARDS:
        with suppress(ShardSealed):
            shard = Shard.claim(base, name, WriterConfig())
            shard.freeze()
            shard.flush()
    assert read(store, strong=False) == found
    done = compact_runs(TableReader(base, FileCache())).snapshot
    assert read(store, strong=False) == found
    collect_garbage(done, older_than=timedelta(0))
    assert read(store, strong=True) == found
    rows = done.latest()
    assert sum(TableReader(rows, FileCache()).row_counts) == len(found)


@pytest.mark.parametrize("block", range(4))
def test_histories(block: int) -> None:
    acknowledged = fenced = 0
    for seed in seeds(block * 50, block * 50 + 50):
        try:
            story = simulate(seed)
        except (AssertionError, LanceletError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        acknowledged += sum(attempt.acknowledged for attempt in story.attempts.values())
        fenced += sum(not attempt.acknowledged for attempt in story.attempts.values())
    assert acknowledged > 100
    assert fenced > 5, "some puts are to fail"


@pytest.mark.parametrize("seed", [12157010953])
def test_histories_that_went_wrong_once(seed: int) -> None:
    simulate(seed)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(40))
def test_more_histories(block: int) -> None:
    """All blocks are 20,000 histories, and as many cells as a soak takes of a test."""
    for seed in seeds(1000 + block * 500, 1500 + block * 500):
        try:
            simulate(seed)
        except (AssertionError, LanceletError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error

"""A few hundred histories of several writers on a store with bad days: what was committed is serialisable.

Writers append, delete and overwrite without talking to each other. Afterwards the versions are walked in order: each
must be the one before it changed by exactly one of the commits, every commit that was reported as done is there once,
every one that was reported as failed is not there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from drawing import examples, seeds
from faults.simulated import Baton, SimulatedStore, Weather
from lancelet.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    LanceletError,
    RetryableCommitConflict,
    StorageError,
    TableNotFound,
)
from lancelet.format.schema import schema_from_arrow
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import delete_rows
from lancelet.table.commit.patience import Pace
from lancelet.table.commit.run import commit, create
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from lancelet.table.rows.deletions import read_deletions

SCHEMA = schema_from_arrow(pa.schema([("k", pa.int64())]))
ROWS = 6

Row = tuple[str, int]
"""Data file and offset: the identity of a row."""


@dataclass
class Story:
    """What the writers were told."""

    done: dict[str, tuple[str, frozenset[Row]]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    unknown: dict[str, tuple[str, frozenset[Row]]] = field(default_factory=dict)


def writer(number: int, store: SimulatedStore, story: Story, chance: random.Random) -> Callable[[], None]:
    clock = iter(range(10**9))
    pace = Pace(lambda: float(next(clock)), lambda seconds: None, chance)

    def report(kind: str, uuid: str, rows: frozenset[Row], act: Callable[[], Snapshot]) -> None:
        try:
            act()
        except CommitOutcomeUnknown as error:
            assert error.uuid == uuid
            story.unknown[uuid] = (kind, rows)
        except (CommitConflict, StorageError, TableNotFound):
            story.failed.add(uuid)
        else:
            story.done[uuid] = (kind, rows)

    def append(kind: str, uuid: str) -> None:
        file = f"{uuid}.lance"
        new = Fragment(0, (DataFile(file, (0,), (0,), 2, 2, 10),), None, ROWS)
        rows = frozenset((file, row) for row in range(ROWS))
        if kind == "append":
            base = open_snapshot(store)
            report(kind, uuid, rows, lambda: commit(base, ops.Append((new,)), uuid=uuid, pace=pace))
        else:
            report(kind, uuid, rows, lambda: commit(store, ops.Overwrite(SCHEMA, (new,)), uuid=uuid, pace=pace))

    def delete(uuid: str) -> None:
        base = open_snapshot(store)
        if not len(base.manifest.fragments):
            return
        fragment = chance.choice(list(base.manifest.fragments))
        chosen = sorted(chance.sample(range(ROWS), chance.choice([1, 1, 2, ROWS])))
        files = WrittenFiles(store)
        with files:
            deletion = delete_rows(base, {fragment.id: chosen}, files=files)
            affected = deletion.affected_rows
            rows = frozenset((fragment.files[0].path, int(row)) for r in affected.values() for row in r)
            report(
                "delete",
                uuid,
                rows,
                lambda: commit(base, deletion.operation, affected_rows=affected, uuid=uuid, pace=pace, files=files),
            )

    def act() -> None:
        for turn in range(5):
            uuid = f"{number}-{turn}"
            kind = chance.choices(["append", "delete", "overwrite"], [5, 5, 1])[0]
            try:
                delete(uuid) if kind == "delete" else append(kind, uuid)
            except StorageError:
                # The table could not even be read; nothing was tried.
                continue

    return act


def rows_of(snapshot: Snapshot) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for fragment in snapshot.manifest.fragments:
        gone = set(read_deletions(snapshot.places, fragment).offsets.tolist())
        assert fragment.physical_rows == ROWS
        found.update((fragment.files[0].path, row) for row in range(ROWS) if row not in gone)
    return found


def check(store: SimulatedStore, story: Story) -> int:
    """Walk the versions and compare them with what the writers were told."""
    store.calm = True
    latest = open_snapshot(store).version
    before: Counter[Row] = Counter()
    seen = []
    everything = {**story.done, **story.unknown}
    for version in range(1, latest + 1):
        snapshot = open_snapshot(store, version)
        ids = snapshot.manifest.fragments.ids
        assert np.all(np.diff(ids) > 0), "fragment ids are unique and ascending"
        message = snapshot.manifest.transaction
        assert message is not None
        after = rows_of(snapshot)
        assert all(count == 1 for count in after.values()), f"version {version} has a row twice"
        if version > 1:
            seen.append(message.uuid)
            assert message.uuid not in story.failed, f"{message.uuid} is version {version}, but was reported as failed"
            kind, rows = everything[message.uuid]
            expected = Counter(before)
            if kind == "append":
                expected.update(rows)
            elif kind == "overwrite":
                expected = Counter(rows)
            else:
                assert all(before[row] for row in rows), f"version {version} deletes rows that were gone"
                expected.subtract(rows)
            assert +expected == after, f"version {version} is not its predecessor after {kind}"
        before = after
    assert len(seen) == len(set(seen)), "a commit took place twice"
    assert set(story.done) <= set(seen), "a commit that was reported as done is lost"
    return latest


def simulate(seed: int, weather: Weather) -> tuple[Story, int]:
    chance = random.Random(seed)
    baton = Baton(chance)
    store = SimulatedStore(baton, weather, lists_in_order=chance.random() < 0.7, calm=True)
    create(store, ops.Overwrite(SCHEMA, (Fragment(0, (DataFile("first", (0,), (0,), 2, 2, 1),), None, ROWS),)))
    store.calm = False
    story = Story()
    actors = [
        writer(number, store, story, random.Random(chance.random())) for number in range(chance.choice([2, 3, 5]))
    ]
    baton.run(actors)
    return story, check(store, story)


@pytest.mark.parametrize("block", [*range(4), *(pytest.param(block, marks=pytest.mark.soak) for block in range(4, 8))])
def test_histories_are_serialisable(block: int) -> None:
    versions = unknown = 0
    for seed in range(block * 25, block * 25 + 25):
        try:
            story, latest = simulate(seed, Weather())
        except (AssertionError, LanceletError, KeyError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        versions += latest
        unknown += len(story.unknown)
    assert versions > 25 * 5
    assert unknown < versions / 10


@pytest.mark.parametrize("block", [0, 1, *(pytest.param(block, marks=pytest.mark.soak) for block in (2, 3))])
def test_storms(block: int) -> None:
    """Much worse weather: fewer commits, more of them without a known outcome, and still no wrong answer."""
    for seed in range(1000 + block * 25, 1000 + block * 25 + 25):
        try:
            simulate(seed, Weather(0.1, 0.1, 0.1, 0.1, 0.1, 0.3))
        except (AssertionError, LanceletError, KeyError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.soak
def test_many_storms() -> None:
    for seed in seeds(5000, 5000 + examples(150)):
        try:
            simulate(seed, Weather(0.1, 0.1, 0.1, 0.1, 0.1, 0.3))
        except (AssertionError, LanceletError, KeyError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_fair_weather_lets_everybody_through() -> None:
    for seed in range(5):
        story, latest = simulate(seed, Weather(0, 0, 0, 0, 0, 0))
        assert not story.unknown
        assert latest == 1 + len(story.done)


def test_the_same_seed_is_the_same_history() -> None:
    assert simulate(3, Weather())[0] == simulate(3, Weather())[0]


def test_retryable_conflicts_are_conflicts() -> None:
    assert issubclass(RetryableCommitConflict, CommitConflict)

"""Processes killed (SIGKILL) at their requests to the file system: what they had acknowledged is there, once, and work goes on."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

import lancelet
from lancelet.format.proto import mem_wal_pb2
from lancelet.memwal.names import is_staged
from lancelet.memwal.shard_manifest import list_shards
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.dying import BATCHES, add_batch, stream, work
from memwal.samples import SHARD, keyed_table, manifests, rows

# Children are forked from a process that has imported what they need, and nothing of pylance.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["lancelet.memwal.compaction", "lancelet.memwal.collection", "lancelet.memwal.shard"])


def run_and_kill(where: Path, at: int, work: Callable[..., None] = work) -> tuple[set[int], bool]:
    """The puts that a process acknowledged before it died at a request, and whether it died."""
    heard, told = FORK.Pipe(duplex=False)
    child = FORK.Process(target=work, args=(str(where), SHARD, at, told))
    child.start()
    told.close()
    acknowledged = set()
    with suppress(EOFError):
        while True:
            acknowledged.add(heard.recv())
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return acknowledged, child.exitcode != 0


def check(where: Path, acknowledged: set[int]) -> None:
    dataset = lancelet.dataset(where)
    before = sorted(dataset.lsm_scanner(strong=True).to_table()["id"].to_pylist())
    assert len(set(before)) == len(before), "a row is there twice"
    for number in range(10, 15):
        assert (number in before) == (number + 100 in before), "half of a put is there"
        assert number in before or number not in acknowledged, f"put {number} was acknowledged, and is not there"
    assert 1 not in before or 1 not in acknowledged
    newest = list(manifests(where).values())[-1:]
    if newest and newest[0].status == mem_wal_pb2.ShardManifest.SEALED:
        # Another shard takes rows only after all of this one are in the table.
        dataset.compact_mem_wal()
    with dataset.writer() as writer:
        writer.put(rows([50], "parent "))
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(timedelta(0))
    assert sorted(lancelet.dataset(where).to_table()["id"].to_pylist()) == sorted([*before, 50])


def kills(folder: Path, first: int, step: int) -> int:
    keyed_table(folder / "start", [1, 2, 3], unsharded=True)
    at, died = first, True
    while died:
        where = folder / str(at)
        shutil.copytree(folder / "start", where)
        acknowledged, died = run_and_kill(where, at)
        check(where, acknowledged)
        shutil.rmtree(where)
        at += step
    assert acknowledged == {10, 11, 12, 13, 1, 14}
    return at


def test_writers_that_are_killed_lose_nothing_that_they_acknowledged(tmp_path: Path) -> None:
    assert kills(tmp_path, 20, 61) > 400


@pytest.mark.soak
@pytest.mark.parametrize("first", range(9))
def test_writers_killed_at_every_request(tmp_path: Path, first: int) -> None:
    assert kills(tmp_path, first, 9) > 400


def streams_killed(folder: Path, first: int, step: int) -> int:
    """Whoever goes on adds what was not told of, after somebody else has written to the shards."""
    keyed_table(folder / "start", list(range(8)), bucket_column="id", num_buckets=2)
    at, died = first, True
    while died:
        where = folder / str(at)
        shutil.copytree(folder / "start", where)
        told, died = run_and_kill(where, at, stream)
        with lancelet.dataset(where).writer() as writer:
            writer.put(rows(list(range(8)), "newer "))
        for number in range(len(told), BATCHES):
            add_batch(open_snapshot(where), number)
        for shard in list_shards(open_snapshot(where).store):
            paths = {run.path for state in manifests(where, shard).values() for run in state.sstables}
            batches = sorted(int(path.rpartition("_")[2]) for path in paths if is_staged(path))
            assert batches == list(range(BATCHES)), f"killed at {at}"
        found = lancelet.dataset(where).lsm_scanner().to_table()
        assert sorted(found["id"].to_pylist()) == list(range(8))
        shutil.rmtree(where)
        at += step
    assert told == set(range(BATCHES))
    return at


def test_batches_of_drivers_that_are_killed_are_there_once(tmp_path: Path) -> None:
    assert streams_killed(tmp_path, 20, 61) > 400


@pytest.mark.soak
@pytest.mark.parametrize("first", range(9))
def test_drivers_killed_at_every_request(tmp_path: Path, first: int) -> None:
    assert streams_killed(tmp_path, first, 9) > 400

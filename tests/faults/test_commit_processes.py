"""Real processes that do nothing but commit: as many meet as can. Whole writes are in ``test_writers.py``."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import lance
import pyarrow as pa

import lancelet
from faults.committing import append_all, append_for_ever, delete_all
from lancelet.format.schema import schema_from_arrow
from lancelet.store import open_store
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit, create
from lancelet.table.manifest.fragment import DataFile, Fragment
from lancelet.table.manifest.snapshot import open_snapshot

# Children are forked from a process that has imported what they need, and nothing of pylance.
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["lancelet.table.commit.deletion_write", "lancelet.table.commit.run"])
SCHEMA = pa.schema([("k", pa.int64())])


def fragment(uri: str, keys: list[int]) -> Fragment:
    made = lance.fragment.LanceFragment.create(uri, pa.table({"k": pa.array(keys, pa.int64())}))
    (file,) = made.files
    stored = DataFile(file.path, tuple(file.fields), tuple(file.column_indices), 2, 2, file.file_size_bytes)
    return Fragment(0, (stored,), None, made.physical_rows)


def together(target: object, arguments: list[tuple[object, ...]]) -> None:
    barrier = FORK.Barrier(len(arguments))
    children = [FORK.Process(target=target, args=(*given, barrier)) for given in arguments]  # type: ignore[arg-type]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * len(children)


def test_appends(tmp_path: Path) -> None:
    uri, writers, each = str(tmp_path / "t"), 6, 5
    keys = iter(range(10**6))
    create(open_store(uri), ops.Overwrite(schema_from_arrow(SCHEMA), (fragment(uri, [next(keys)]),)))
    work = [[fragment(uri, [next(keys), next(keys)]) for _ in range(each)] for _ in range(writers)]
    together(append_all, [(uri, fragments) for fragments in work])
    dataset = lancelet.dataset(uri)
    assert dataset.version == 1 + writers * each
    assert sorted(dataset.to_table()["k"].to_pylist()) == list(range(1 + 2 * writers * each))
    assert [entry.fragment_id for entry in dataset.get_fragments()] == list(range(1 + writers * each))
    theirs = lance.dataset(uri)
    assert theirs.to_table().equals(dataset.to_table())
    theirs.validate()


def test_disjoint_deletions_in_one_fragment(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create(open_store(uri), ops.Overwrite(schema_from_arrow(SCHEMA), (fragment(uri, list(range(60))),)))
    together(delete_all, [(uri, list(range(number, 48, 6))) for number in range(6)])
    assert lancelet.dataset(uri).version == 49
    assert lancelet.dataset(uri).to_table()["k"].to_pylist() == list(range(48, 60))
    assert lance.dataset(uri).to_table()["k"].to_pylist() == list(range(48, 60))
    lance.dataset(uri).validate()


def test_killed_writers(tmp_path: Path) -> None:
    """``kill -9`` at any moment: every version that is there is whole, and the next writer goes on."""
    uri = str(tmp_path / "t")
    new = fragment(uri, [7])
    create(open_store(uri), ops.Overwrite(schema_from_arrow(SCHEMA), (new,)))
    for _ in range(5):
        barrier = FORK.Barrier(2)
        child = FORK.Process(target=append_for_ever, args=(uri, [new], barrier))
        child.start()
        barrier.wait()
        reached = open_snapshot(uri).version
        while open_snapshot(uri).version < reached + 3:
            assert child.is_alive()
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        latest = open_snapshot(uri).version
        assert lancelet.dataset(uri).count_rows() == latest
        assert lance.dataset(uri).to_table()["k"].to_pylist() == [7] * latest
        assert commit(open_snapshot(uri), ops.Append((new,))).version == latest + 1

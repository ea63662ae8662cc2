"""What cleanups leave alone, whoever works or sleeps beside them."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

import lancelet
from lancelet.memwal.collection import collect_garbage
from lancelet.memwal.config import WriterConfig
from lancelet.memwal.shard import Shard
from lancelet.memwal.writer import ShardWriter
from lancelet.store.local import LocalStore
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.racing import racing
from memwal.samples import SHARD, entries, keyed_table, open_writer, rows, runs

NOW = timedelta(0)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    keyed_table(tmp_path / "t", [1, 2, 3], unsharded=True)
    return tmp_path / "t"


def ids(where: Path) -> list[int]:
    found: list[int] = lancelet.dataset(where).lsm_scanner(strong=True).to_table()["id"].to_pylist()
    return sorted(found)


def writer_on(store: LocalStore) -> ShardWriter:
    return ShardWriter(Shard.claim(open_snapshot(store), SHARD, WriterConfig()))


def grow_old(folder: Path) -> None:
    for file in folder.rglob("*"):
        os.utime(file, (0, 0))


def test_a_run_whose_writer_sleeps_before_it_is_named_stays(where: Path) -> None:
    def sleep() -> None:
        (run,) = runs(where)
        grow_old(run)
        lancelet.dataset(where).cleanup_mem_wal(NOW)

    # The first state is that of the claim.
    with writer_on(racing(where, "put_if_absent", "manifest/", sleep, before=True, passed=1)) as writer:
        writer.put(rows([7]))
    assert ids(where) == [1, 2, 3, 7]


def test_a_folder_of_a_run_that_has_no_files_yet_stays(where: Path) -> None:
    Shard.claim(open_snapshot(where), SHARD, WriterConfig())
    folders = [where / "_mem_wal" / str(SHARD) / name for name in ("0badf00d_gen_1", f"{'0badf00d' * 3}_batch_1")]
    for folder in folders:
        folder.mkdir()
    assert lancelet.dataset(where).cleanup_mem_wal(NOW)["num_leftovers"] == 0
    assert all(folder.exists() for folder in folders)


def test_what_is_left_of_a_run_goes_when_nobody_can_name_it_any_more(where: Path) -> None:
    dataset = lancelet.dataset(where)
    with open_writer(where) as writer:
        writer.put(rows([7]))
    folders = [where / "_mem_wal" / str(SHARD) / f"0badf00d_gen_{generation}" for generation in (1, 2)]
    for folder in folders:
        folder.mkdir()
        (folder / "bloom_filter.bin").write_bytes(b"")
        grow_old(folder)
    assert dataset.cleanup_mem_wal(NOW)["num_leftovers"] == 1
    assert [folder.exists() for folder in folders] == [False, True]
    dataset.seal_mem_wal_shard(str(SHARD))
    assert dataset.cleanup_mem_wal(NOW)["num_leftovers"] == 1
    assert not folders[1].exists()
    assert ids(where) == [1, 2, 3, 7]


def test_two_cleanups_at_once(where: Path) -> None:
    with open_writer(where) as writer:
        for number in range(7, 11):
            writer.put(rows([number]))
    fast = open_snapshot(where)
    slow = racing(where, "list_names", "wal", lambda: _clean(fast))
    assert _clean(open_snapshot(slow)) == 0
    assert list(entries(where)) == [1]
    assert ids(where) == [1, 2, 3, 7, 8, 9, 10]


def _clean(snapshot: object) -> int:
    return collect_garbage(snapshot, older_than=NOW).num_entries  # type: ignore[arg-type]

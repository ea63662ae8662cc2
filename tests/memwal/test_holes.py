"""Logs in which an entry is gone, and logs that only seem to have such a hole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import lancelet
from lancelet.errors import CorruptFile, MissingFile
from lancelet.file import FileCache
from lancelet.memwal.names import entry_path
from lancelet.memwal.scan import LevelScan
from lancelet.memwal.shard_manifest import ShardStates
from lancelet.memwal.view import take_view
from lancelet.store.local import LocalStore
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.racing import racing
from memwal.samples import SHARD, entries, keyed_table, open_writer, rows


@pytest.fixture
def where(tmp_path: Path) -> Path:
    keyed_table(tmp_path / "t", [1], unsharded=True)
    return tmp_path / "t"


def read(store: LocalStore) -> list[int]:
    view = take_view(open_snapshot(store), FileCache(), strong=True)
    return sorted(number for batch in LevelScan(("id",)).batches(view) for number in batch.column(0).to_pylist())


def test_entries_behind_one_that_is_gone_are_not_passed_over(where: Path) -> None:
    writer = open_writer(where)
    for number in range(10, 14):
        writer.put(rows([number]))
    writer.abandon()
    entry = where / "_mem_wal" / str(SHARD) / entry_path(2)
    entry.unlink()
    dataset = lancelet.dataset(where)
    advice = r"entry 2 of the log is gone, .* give_up_mem_wal_entry\(shard_id, 2\)"
    for act in (dataset.lsm_scanner(strong=True).to_table, lambda: dataset.mem_wal_writer(str(SHARD))):
        with pytest.raises(CorruptFile, match=advice):
            act()
    with pytest.raises(MissingFile):
        dataset.give_up_mem_wal_entry(str(SHARD), 5)
    assert dataset.give_up_mem_wal_entry(str(SHARD), 2) == ""
    assert read(LocalStore(where)) == [1, 10, 12, 13]
    with dataset.mem_wal_writer(str(SHARD)) as again:
        again.put(rows([14]))
    dataset.compact_mem_wal()
    assert sorted(dataset.to_table()["id"].to_pylist()) == [1, 10, 12, 13, 14]


def test_puts_that_come_while_the_end_of_a_log_is_found(where: Path) -> None:
    writer = open_writer(where)
    writer.put(rows([10]))

    def go_on() -> None:
        for number in range(11, 14):
            writer.put(rows([number]))

    assert read(racing(where, "exists", "wal/", go_on, before=True)) == [1, 10, 11, 12, 13]


def test_a_cleanup_beside_a_reader_makes_no_hole(where: Path) -> None:
    for numbers in ([10, 11], [12, 13]):
        writer = open_writer(where)
        for number in numbers:
            writer.put(rows([number]))

    def clean_up() -> None:
        writer.flush()
        dataset = lancelet.dataset(where)
        dataset.compact_mem_wal()
        dataset.cleanup_mem_wal(timedelta(0))
        assert list(entries(where)) == [1, 3], "those that fence writers"

    assert read(racing(where, "read_all", "wal/", clean_up)) == [1, 10, 11, 12, 13]


def test_long_logs_on_remote_stores() -> None:
    dataset = lancelet.write_dataset(rows([1]), "memory://memwal/long")
    dataset.initialize_mem_wal()
    writer = dataset.mem_wal_writer(str(SHARD))
    for number in range(10, 60):
        writer.put(rows([number]))
    store = ShardStates.of(dataset.table.snapshot.store, SHARD).store
    assert not store.is_local
    assert dataset.lsm_scanner(strong=True).count_rows() == 51
    store.delete(entry_path(31))
    with pytest.raises(CorruptFile, match="entry 31 of the log is gone"):
        dataset.lsm_scanner(strong=True).count_rows()
    dataset.give_up_mem_wal_entry(str(SHARD), 31)
    with dataset.mem_wal_writer(str(SHARD)) as again:
        again.put(rows([60]))
    found = dataset.lsm_scanner().to_table()["id"].to_pylist()
    assert sorted(found) == [1, *(number for number in range(10, 61) if number != 40)]
    # What is left are the first entries of both writers.
    assert dataset.cleanup_mem_wal()["num_entries"] == 50
    assert dataset.lsm_scanner(strong=True).count_rows() == 51

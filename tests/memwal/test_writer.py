"""Writers: what is acknowledged is in the log, one writer has a shard, and what others left is not lost."""

from __future__ import annotations

import logging
import pickle
import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import (
    CorruptFile,
    InvalidInput,
    NotSupported,
    PartialPut,
    ShardSealed,
    UnfitData,
    UnknownColumn,
    WriterClosed,
    WriterFenced,
)
from lancelet.memwal.config import WriterConfig
from lancelet.memwal.log import claim
from lancelet.memwal.names import entry_path
from lancelet.memwal.shard import Shard, seal
from lancelet.memwal.shard_manifest import ShardStates
from lancelet.store import open_store
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import (
    KEY,
    OTHER,
    SCHEMA,
    SHARD,
    by_id,
    entries,
    keyed_table,
    manifests,
    open_writer,
    rows,
    runs,
    snapshot_of,
)


@pytest.fixture
def where(tmp_path: Path) -> Path:
    keyed_table(tmp_path / "t", [1, 2, 3], unsharded=True)
    return tmp_path / "t"


def content(where: Path) -> list[dict[str, object]]:
    """The table and the runs of its shard, as pylance reads them."""
    return by_id(lance.LsmScanner.from_snapshots(lance.dataset(where), [snapshot_of(where)]).to_table())


def test_a_put_is_in_the_log_when_it_returns(where: Path) -> None:
    writer = open_writer(where)
    writer.put(rows([2, 5], "a "))
    assert list(entries(where)) == [1]
    writer.put({"id": [6], "val": [1.0]}, schema=SCHEMA.remove(2))
    writer.delete(pa.table({"id": [1], "other": ["x"]}))
    found = entries(where)
    assert found[2].to_pylist() == [{"id": 6, "val": 1.0, "text": None, "_tombstone": False}]
    assert found[3].to_pylist() == [{"id": 1, "val": None, "text": None, "_tombstone": True}]
    assert writer.stats()["wal_flush_count"] == 3
    assert writer.memtable_stats()["row_count"] == 4
    writer.close()
    writer.close()
    assert [row["id"] for row in content(where)] == [2, 3, 5, 6]
    with pytest.raises(WriterClosed, match="already closed"):
        writer.put(rows([7]))


def test_a_writer_goes_on_where_a_killed_one_of_either_stopped(where: Path) -> None:
    dataset = lance.dataset(where)
    theirs = dataset.mem_wal_writer(str(SHARD))
    theirs.put(rows([4], "pylance "))
    ours = open_writer(where)
    ours.put(rows([5], "ours "))
    ours.abandon()
    again = dataset.mem_wal_writer(str(SHARD))
    again.put(rows([6], "pylance "))
    with open_writer(where) as last:
        assert last.memtable_stats()["row_count"] == 3
        last.delete(pa.table({"id": [4]}))
    assert [(row["id"], row["text"]) for row in content(where)] == [
        (1, "base 1"), (2, "base 2"), (3, "base 3"), (5, "ours 5"), (6, "pylance 6")
    ]  # fmt: skip


def test_a_fenced_writer_says_so_and_loses_nothing_that_was_acknowledged(where: Path) -> None:
    first = open_writer(where)
    first.put(rows([4], "first "))
    with open_writer(where) as second:
        second.put(rows([5], "second "))
        with pytest.raises(WriterFenced, match=r"local epoch 1 < stored epoch 2.*acknowledged are safe"):
            first.put(rows([6], "first "))
        with pytest.raises(WriterClosed, match="cannot go on after an error"):
            first.put(rows([6], "first "))
        with pytest.raises(WriterFenced):
            first.close()
    assert [row["id"] for row in content(where)] == [1, 2, 3, 4, 5]
    assert [manifest.writer_epoch for manifest in manifests(where).values()] == [1, 2, 2, 2]


def test_pylance_is_fenced_by_us_and_we_by_pylance(where: Path) -> None:
    theirs = lance.dataset(where).mem_wal_writer(str(SHARD))
    theirs.put(rows([4]))
    ours = open_writer(where)
    with pytest.raises(OSError, match="fenced"):
        theirs.put(rows([5]))
    ours.put(rows([6]))
    last = lance.dataset(where).mem_wal_writer(str(SHARD))
    with pytest.raises(WriterFenced):
        ours.put(rows([7]))
    last.close()
    assert [row["id"] for row in content(where)] == [1, 2, 3, 4, 6]


def test_a_writer_that_wrote_nothing_is_fenced_too(where: Path) -> None:
    first = open_writer(where)
    second = open_writer(where)
    with pytest.raises(WriterFenced):
        first.put(rows([4]))
    second.put(rows([5]))


def test_an_entry_of_a_writer_without_a_sentinel_behind_it_counts(where: Path) -> None:
    """pylance puts no sentinel into an empty log, so that an earlier writer may come first once more."""
    first = lance.dataset(where).mem_wal_writer(str(SHARD))
    second = open_writer(where)
    (where / "_mem_wal" / str(SHARD) / entry_path(1)).unlink()
    second.shard.log.tail = 0
    first.put(rows([4], "first "))
    second.put(rows([5], "second "))
    second.close()
    assert [row["id"] for row in content(where)] == [1, 2, 3, 4, 5]


def test_a_sealed_shard_takes_no_rows(where: Path) -> None:
    writer = open_writer(where)
    writer.put(rows([4]))
    seal(open_snapshot(where), SHARD)
    seal(open_snapshot(where), SHARD)
    assert [row["id"] for row in content(where)] == [1, 2, 3, 4], "what was acknowledged is in a run"
    with pytest.raises(ShardSealed, match="takes no more rows; write to another shard"):
        open_writer(where)
    with pytest.raises(OSError, match=r"(?i)seal"):
        lance.dataset(where).mem_wal_writer(str(SHARD))
    with pytest.raises(ShardSealed):
        writer.put(rows([5]))
    with pytest.raises(ShardSealed):
        writer.close()


def test_a_damaged_entry_is_not_passed_over(where: Path) -> None:
    writer = open_writer(where)
    writer.put(rows([4]))
    writer.put(rows([5]))
    (where / "_mem_wal" / str(SHARD) / entry_path(2)).write_bytes(b"nothing of use")
    with pytest.raises(CorruptFile, match=r"entry 2 of the log cannot be read .* rows of this entry are lost"):
        open_writer(where)


def test_rows_that_do_not_fit_leave_no_trace(where: Path) -> None:
    with open_writer(where) as writer:
        for wrong in (
            pa.table({"id": ["x"]}),
            pa.table({"id": [1], "other": [1]}),
            pa.table({"val": [1.0]}),
            pa.table({"id": pa.array([None], pa.int64())}),
        ):
            with pytest.raises(UnfitData):
                writer.put(wrong)
        with pytest.raises(UnknownColumn, match="keys of rows to delete"):
            writer.delete(pa.table({"val": [1.0]}))
        writer.put(rows([]))
        assert entries(where) == {}
    assert runs(where) == []


def test_deletes_need_a_key_and_columns_that_can_be_null(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "plain").initialize_mem_wal()
    with open_writer(tmp_path / "plain") as writer:
        with pytest.raises(InvalidInput, match="delete requires a primary key"):
            writer.delete(pa.table({"id": [1]}))
        writer.put(pa.table({"id": [1, 1]}))
    schema = pa.schema([pa.field("id", pa.int64(), False, KEY), pa.field("n", pa.int64(), nullable=False)])
    lance.write_dataset(schema.empty_table(), tmp_path / "strict").initialize_mem_wal()
    with open_writer(tmp_path / "strict") as writer, pytest.raises(UnfitData, match="column 'n' cannot be null"):
        writer.delete(pa.table({"id": [1]}))


def test_columns_that_a_log_cannot_hold_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    lancelet.write_dataset(schema.empty_table(), tmp_path).initialize_mem_wal()
    with pytest.raises(NotSupported, match="column 'b' of .* holds blobs, or JSON in lists or maps"):
        open_writer(tmp_path)


def test_a_full_memtable_becomes_a_run_beside_the_puts(where: Path) -> None:
    with open_writer(where, max_memtable_rows=4) as writer:
        for start in range(10, 40, 2):
            writer.put(rows([start, start + 1], "new "))
    found = list(manifests(where).values())[-1]
    assert [run.generation for run in found.sstables] == list(range(1, found.current_generation))
    assert sum(run.physical_rows for run in found.sstables) == 30
    assert found.replay_after_wal_entry_position == 15
    assert [row["id"] for row in content(where)] == [1, 2, 3, *range(10, 40)]


def test_puts_wait_while_too_much_is_in_memory(where: Path) -> None:
    with open_writer(where, max_unflushed_memtable_bytes=1) as writer:
        for start in range(5):
            writer.put(rows([start]))
        assert writer.memtable_stats()["frozen_count"] == 0
        assert writer.stats()["memtable_flush_count"] == 4


def test_puts_that_do_not_wait_are_written_together(where: Path) -> None:
    with open_writer(where, durable_write=False, max_wal_flush_interval_ms=60_000) as writer:
        for number in range(10, 15):
            writer.put(rows([number]))
        assert entries(where) == {}
        waiting = writer.submit([])
        assert waiting.is_durable
    assert [table.num_rows for table in entries(where).values()] == [5]


def test_puts_that_do_not_wait_are_written_when_they_are_many(where: Path) -> None:
    with open_writer(where, durable_write=False, max_wal_flush_interval_ms=60_000, max_wal_buffer_size=100) as writer:
        for number in range(10, 20):
            writer.put(rows([number]))
        assert entries(where)
    assert sum(table.num_rows for table in entries(where).values()) == 10


def test_many_threads_share_entries_and_all_their_rows_are_there(where: Path) -> None:
    writer = open_writer(where)
    together = threading.Barrier(8)

    def write(number: int) -> None:
        together.wait()
        for step in range(5):
            writer.put(rows([100 * number + step], "thread "))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    expected = {100 * number + step for number in range(1, 9) for step in range(5)}
    assert {row["id"] for row in content(where)} == expected | {1, 2, 3}
    assert len(entries(where)) <= 40


def test_a_shard_is_made_under_the_spec_of_its_table(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    open_writer(tmp_path, OTHER).close()
    assert manifests(tmp_path, OTHER)[1].shard_spec_id == 1


def test_a_first_writer_that_slept_while_it_claimed_the_shard_is_fenced(where: Path) -> None:
    """Its state was written, and it did not hear of it until others had flushed and cleaned up the log."""
    states = ShardStates.of(open_store(where), SHARD)
    first = claim(states)
    with open_writer(where) as second:
        second.put(rows([4], "second "))
        second.put(rows([5], "second "))
    assert lancelet.dataset(where).cleanup_mem_wal()["num_entries"] == 2
    late = Shard(open_snapshot(where), states, first, WriterConfig())
    with pytest.raises(WriterFenced):
        late._replay()


def test_a_put_that_only_some_shards_have_says_which(tmp_path: Path) -> None:
    keyed_table(tmp_path, [], bucket_column="id", num_buckets=2)
    dataset = lancelet.dataset(tmp_path)
    writer = dataset.writer()
    writer.put(rows([1, 2, 3, 4], "old "))
    first, second = writer.stats()
    with dataset.mem_wal_writer(second):
        pass
    with pytest.raises(PartialPut, match="put the rows again") as caught:
        writer.put(rows([1, 2, 3, 4], "new "))
    assert (caught.value.durable, caught.value.failed) == ((first,), (second,))
    assert isinstance(caught.value.__cause__, WriterFenced)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    with dataset.writer() as again:
        again.put(rows([1, 2, 3, 4], "new "))
    assert {row["text"][:3] for row in dataset.lsm_scanner().to_table().to_pylist()} == {"new"}


def test_writers_tell_what_they_did_from_time_to_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keyed_table(tmp_path, [])
    with caplog.at_level(logging.INFO, "lancelet"):
        for interval in (0, 1 << 40):
            with lancelet.dataset(tmp_path).mem_wal_writer(str(SHARD), stats_log_interval_ms=interval) as writer:
                writer.put(rows([1]))
                writer.put(rows([2]))
    told = [record.getMessage() for record in caplog.records if "put_count" in record.getMessage()]
    assert len(told) == 2
    assert "'put_count': 2" in told[1]

"""What goes wrong in the middle, and what others do meanwhile: rows that were acknowledged stay, once."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import (
    CorruptFile,
    InvalidInput,
    InvalidOption,
    MemWalEnded,
    MissingFile,
    NotSupported,
    PartialPut,
    ShardSealed,
    StorageError,
    UnfitData,
    WriterClosed,
    WriterFenced,
)
from lancelet.file import FileCache
from lancelet.memwal.collection import collect_garbage
from lancelet.memwal.incoming import rows_to_put
from lancelet.memwal.names import entry_path
from lancelet.memwal.placing import ShardMap
from lancelet.memwal.scan import LevelScan
from lancelet.memwal.shard_manifest import list_shards
from lancelet.memwal.sharding import bucket_of
from lancelet.memwal.staging import StreamBatch, add_runs, has_batch, new_stem, stage_run
from lancelet.memwal.view import take_view
from lancelet.memwal.wal_entry import entry_schema
from lancelet.memwal.writer import Acknowledgement
from lancelet.runtime.threads import Task
from lancelet.table.manifest.snapshot import Snapshot, open_snapshot
from memwal.faulty import FaultyStore, failing
from memwal.samples import KEY, SCHEMA, SHARD, entries, keyed_table, manifests, open_writer, rows


@pytest.fixture
def where(tmp_path: Path) -> Path:
    keyed_table(tmp_path / "t", [1, 2, 3], unsharded=True)
    return tmp_path / "t"


def ids(where: Path, *, strong: bool = False) -> list[int]:
    found: list[int] = lancelet.dataset(where).lsm_scanner(strong=strong).to_table()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("state", "the line is cut")])
def test_a_flush_that_ends_after_its_state_landed_keeps_its_run(where: Path, error: BaseException) -> None:
    writer = open_writer(where)
    writer.put(rows([4]))
    states: Any = writer.shard.states
    states.store = FaultyStore(states.store, "manifest/", failing(error))
    with pytest.raises(type(error)):
        writer.flush()
    assert ids(where) == [1, 2, 3, 4]
    writer.put(rows([5]))
    writer.close()
    newest = list(manifests(where, SHARD).values())[-1]
    assert [run.generation for run in newest.sstables] == [1, 2]
    assert ids(where) == [1, 2, 3, 4, 5]


def test_a_handle_of_an_older_version_takes_over_columns_that_came_since(where: Path) -> None:
    old = lancelet.dataset(where)
    lancelet.dataset(where).add_columns(pa.field("y", pa.int64()))
    writer = lancelet.dataset(where).mem_wal_writer(str(SHARD))
    writer.put({"id": [4], "y": [40]})
    old.mem_wal_writer(str(SHARD)).close()
    found = lancelet.dataset(where).lsm_scanner().filter("id = 4").to_table()
    assert found["y"].to_pylist() == [40]


def test_a_router_goes_on_when_the_table_gets_a_column(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    dataset = lancelet.dataset(tmp_path)
    with dataset.writer() as writer:
        lancelet.dataset(tmp_path).add_columns(pa.field("y", pa.int64()))
        writer.put(rows(list(range(10))))
    assert ids(tmp_path) == list(range(10))


def test_a_strong_reader_sees_rows_behind_a_run_that_is_compacted_meanwhile(where: Path) -> None:
    writer = open_writer(where)
    writer.put(rows([4]))
    writer.shard.freeze()
    writer.put(rows([5]))
    snapshot = open_snapshot(where)

    class Overtaken(Snapshot):
        """The newest version is asked for when all logs were read."""

        def latest(self) -> Snapshot:
            if list(manifests(where).values())[-1].current_generation == 1:
                writer.shard.flush()
                lancelet.dataset(where).compact_mem_wal()
            return super().latest()

    first = Overtaken.of(snapshot.store, snapshot.manifest)
    view = take_view(first, FileCache(), strong=True)
    found = [row for batch in LevelScan().batches(view) for row in batch.column("id").to_pylist()]
    assert sorted(found) == [1, 2, 3, 4, 5]


def test_runs_stay_that_a_restored_version_does_not_have(where: Path) -> None:
    dataset = lancelet.dataset(where)
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows([4]))
    before = dataset.version
    dataset.compact_mem_wal()
    compacted = datetime.now(timezone.utc)
    lancelet.dataset(where, version=before).restore()
    assert ids(where) == [1, 2, 3, 4]
    collect_garbage(open_snapshot(where), older_than=timedelta(microseconds=1), now=compacted)
    assert ids(where) == [1, 2, 3, 4]


def test_what_a_run_could_not_hold_is_refused_before_the_log_has_it(tmp_path: Path) -> None:
    strict = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    inner = pa.list_(pa.field("item", pa.int64(), nullable=False))
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False, KEY),
            ("s", strict),
            ("l", pa.list_(strict)),
            ("n", inner),
            ("t", pa.string()),
        ]
    )
    dataset = lancelet.write_dataset(schema.empty_table(), tmp_path)
    dataset.initialize_mem_wal()

    damaged = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        for name, column in (
            ("s", pa.array([{"a": None}], strict)),
            ("l", pa.array([[{"a": None}]], pa.list_(strict))),
            ("n", pa.array([[1, None]], inner)),
            ("t", damaged),
        ):
            with pytest.raises(UnfitData, match=rf"column '{name}"):
                writer.put(
                    pa.table({"id": pa.array([1]), name: column}, pa.schema([schema.field("id"), schema.field(name)]))
                )
        writer.put(
            pa.table(
                {"id": [2], "s": pa.nulls(1, strict), "l": pa.array([[None, {"a": 1}]], pa.list_(strict))},
                schema=pa.schema([schema.field(n) for n in ("id", "s", "l")]),
            )
        )
        assert list(entries(tmp_path)) == [1]
    assert ids(tmp_path) == [2]


def test_rows_without_a_key_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), True, KEY), ("t", pa.string())])
    dataset = lancelet.write_dataset(pa.table({"id": [None, 1], "t": ["base", "one"]}, schema), tmp_path)
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        for wrong in ({"id": pa.array([None], pa.int64()), "t": ["new"]}, {"t": ["new"]}):
            with pytest.raises(UnfitData, match="column 'id' is part of the primary key"):
                writer.put(pa.table(wrong))
        with pytest.raises(UnfitData, match="column 'id' is part of the primary key"):
            writer.delete(pa.table({"id": pa.array([None], pa.int64())}))


def test_a_table_with_the_column_that_marks_deletions_has_no_log(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset({"id": [1], "_tombstone": ["x"]}, tmp_path)
    with pytest.raises(InvalidOption, match="has a column '_tombstone'.*rename it"):
        dataset.initialize_mem_wal()


def test_rows_of_one_key_do_not_go_to_two_shards(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    dataset = lancelet.dataset(tmp_path)
    with dataset.mem_wal_writer(str(SHARD)) as named:
        named.put(rows([7], "named "))
    with pytest.raises(InvalidInput, match=r"does not say which rows it has.*seal it .* and call compact_mem_wal"):
        dataset.writer()
    dataset.seal_mem_wal_shard(str(SHARD))
    with pytest.raises(InvalidInput, match=r"is sealed and has rows that are not in the table yet.*compact_mem_wal"):
        dataset.writer()
    dataset.compact_mem_wal()
    with dataset.writer() as writer:
        writer.put(rows([7], "newer "))
        (shard,) = writer.stats()
    assert ids(tmp_path) == [1, 7]
    other = next(key for key in range(10) if bucket_of(pa.array([key]), 2) != bucket_of(pa.array([7]), 2))
    for named in (dataset.mem_wal_writer(shard), dataset.writer(shard_id=shard)):
        with named, pytest.raises(UnfitData, match="do not belong to this shard"):
            named.put(rows([other]))


def test_rows_of_a_sealed_bucket_go_to_the_shard_after_it(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=1)
    dataset = lancelet.dataset(tmp_path)
    for mark in ("a ", "b ", "c "):
        with dataset.writer() as writer:
            writer.put(rows([7], mark))
            (shard,) = writer.stats()
        dataset.seal_mem_wal_shard(shard)
        dataset.compact_mem_wal()
    assert dataset.to_table(filter="id = 7")["text"].to_pylist() == ["c 7"]


def test_a_put_to_shards_of_which_one_cannot_be_had_leaves_no_trace(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    dataset = lancelet.dataset(tmp_path)
    with dataset.writer() as writer:
        writer.put(rows(list(range(2, 12))))
        shards = list(writer.stats())
    dataset.compact_mem_wal()
    late = dataset.writer()
    dataset.seal_mem_wal_shard(shards[1])
    for _ in range(2):
        with pytest.raises(ShardSealed, match=r"write to another shard.*after compact_mem_wal"):
            late.put(rows(list(range(20, 30))))
    late.close()
    assert ids(tmp_path) == list(range(1, 12))


def test_a_field_inside_a_column_that_came_later_is_null_in_older_rows(tmp_path: Path) -> None:
    old = pa.schema([pa.field("id", pa.int64(), False, KEY), ("s", pa.struct([("a", pa.int64())]))])
    dataset = lancelet.write_dataset(pa.table({"id": [1], "s": [{"a": 1}]}, old), tmp_path)
    dataset.initialize_mem_wal()
    writer = dataset.mem_wal_writer(str(SHARD))
    writer.put(pa.table({"id": [2], "s": [{"a": 2}]}, old))
    writer.flush()
    writer.put(pa.table({"id": [3, 4], "s": [{"a": 3}, None]}, old))
    lancelet.dataset(tmp_path).add_columns(pa.field("s", pa.struct([("b", pa.bool_())])))
    expected = {1: {"a": 1, "b": None}, 2: {"a": 2, "b": None}, 3: {"a": 3, "b": None}, 4: None}
    for _ in ("from the log", "from a run", "from the table"):
        found = lancelet.dataset(tmp_path).lsm_scanner(strong=True).to_table()
        assert {row["id"]: row["s"] for row in found.to_pylist()} == expected
        lancelet.dataset(tmp_path).mem_wal_writer(str(SHARD)).close()
        lancelet.dataset(tmp_path).compact_mem_wal()
    lancelet.dataset(tmp_path).mem_wal_writer(str(SHARD)).put({"id": [5], "s": [{"a": 5, "b": True}]})
    lance.dataset(tmp_path).alter_columns({"path": "s.b", "name": "c"})
    with pytest.raises(NotSupported, match="column 's' was given another type"):
        lancelet.dataset(tmp_path).lsm_scanner(strong=True).to_table()


@pytest.mark.parametrize("awaited", ["wal/", "manifest/"])
def test_work_that_comes_while_the_last_of_it_ends_is_done_too(where: Path, awaited: str) -> None:
    writer = open_writer(where, durable_write=False, max_wal_flush_interval_ms=0, max_memtable_rows=1)
    # Both have looked for work and found none, and are not known to be at their ends.
    writer._timer, writer._flush = Task(writer._write_later), Task(writer._flush_quietly)
    writer._write_later()
    writer._flush_quietly()
    written = threading.Event()
    states: Any = writer.shard.states
    states.store = FaultyStore(states.store, awaited, written.set)
    writer.put(rows([4]))
    assert written.wait(20)
    writer.close()


def test_a_put_that_nobody_writes_is_not_acknowledged() -> None:
    with pytest.raises(WriterClosed, match="given up before its rows were in the log"):
        Acknowledgement().wait()


def test_a_store_that_contradicts_itself_is_named(where: Path) -> None:
    class Lying(FaultyStore):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            return False

    writer = open_writer(where)
    states: Any = writer.shard.states
    states.store = Lying(states.store, "", lambda: None)
    with pytest.raises(StorageError, match=r"said 4 times that this entry is there, and did not have it"):
        writer.put(rows([4]))


def test_an_entry_that_the_store_refused_is_put_again_after_a_while(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(FaultyStore):
        left = 3

        def put_if_absent(self, path: str, data: bytes) -> bool:
            if self.left:
                self.left -= 1
                raise StorageError(path, "slow down")
            return super().put_if_absent(path, data)

    waited: list[float] = []
    monkeypatch.setattr("lancelet.memwal.log.sleep", waited.append)
    writer = open_writer(where)
    states: Any = writer.shard.states
    states.store = Refusing(states.store, "none", lambda: None)
    writer.put(rows([4]))
    assert waited == [0.05, 0.1, 0.2]
    assert 4 in ids(where, strong=True)
    states.store.left = 4
    with pytest.raises(StorageError, match="slow down"):
        writer.put(rows([5]))


def test_a_put_that_one_shard_refuses_is_settled_in_the_others_when_it_raises(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    dataset = lancelet.dataset(tmp_path)
    writer = dataset.writer()
    writer.put(rows(list(range(2, 12))))
    first, second = (UUID(shard) for shard in writer.stats())
    open_writer(tmp_path, first).close()
    with pytest.raises(PartialPut) as caught:
        writer.put(rows(list(range(2, 12)), "again "))
    assert isinstance(caught.value.__cause__, WriterFenced)
    assert len(entries(tmp_path, second)) == 2
    with pytest.raises(WriterClosed):
        writer.put(rows(list(range(2, 12)), "never "))
    assert len(entries(tmp_path, second)) == 2, "nothing is handed in when a shard cannot take its part"


@pytest.mark.parametrize(
    ("version", "column", "value"),
    [
        ("legacy", pa.field("x", pa.int64()), None),
        ("2.0", pa.field("x", pa.struct([("a", pa.int64())])), None),
        ("2.1", pa.field("x", pa.struct([("a", pa.int64())]), metadata={"packed": "true"}), {"a": None}),
    ],
)
def test_nulls_that_the_files_of_a_table_have_no_place_for_are_refused(
    tmp_path: Path, version: str, column: pa.Field, value: Any
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False, KEY), column])
    dataset = lancelet.write_dataset(schema.empty_table(), tmp_path, data_storage_version=version)
    dataset.initialize_mem_wal()
    good = {"a": 1} if pa.types.is_struct(column.type) else 1
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        with pytest.raises(UnfitData):
            writer.put(pa.table({"id": [1], "x": pa.array([value], column.type)}, schema))
        if version != "2.1":
            with pytest.raises(UnfitData, match=r"cannot be deleted through its MemWAL.*use delete\(\) of the dataset"):
                writer.delete({"id": [1]})
        writer.put(pa.table({"id": [2], "x": pa.array([good], column.type)}, schema))
    assert ids(tmp_path) == [2]


@pytest.mark.parametrize("how", ["shallow clone", "deep clone", "branch"])
def test_rows_that_are_put_to_a_clone_are_there(tmp_path: Path, how: str) -> None:
    """A clone has the progress of shards and none of their folders: its runs are not taken for those that are compacted."""
    keyed_table(tmp_path / "t", [1], bucket_column="id", num_buckets=1)
    dataset = lancelet.dataset(tmp_path / "t")
    for mark in ("a ", "b "):
        with dataset.writer() as writer:
            writer.put(rows([2], mark))
    dataset.compact_mem_wal()
    match how:
        case "shallow clone":
            clone = dataset.shallow_clone(str(tmp_path / "c"), dataset.version)
        case "deep clone":
            clone = dataset.deep_clone(str(tmp_path / "c"), dataset.version)
        case _:
            clone = dataset.create_branch("other")
    with clone.writer() as writer:
        writer.put(rows([2, 3], "clone "))
        assert clone.lsm_scanner(strong=True).count_rows() == 3
    expected = [1, 2, 3]
    assert sorted(clone.lsm_scanner().to_table()["id"].to_pylist()) == expected
    assert clone.compact_mem_wal()["num_runs"] == 1
    assert clone.to_table(filter="id > 1")["text"].to_pylist() == ["clone 2", "clone 3"]
    assert ids(tmp_path / "t") == [1, 2]


def test_rows_of_before_an_overwrite_do_not_come_back(where: Path) -> None:
    dataset = lancelet.dataset(where)
    with dataset.writer() as writer:
        writer.put(rows([4]))
    dataset.compact_mem_wal()
    lancelet.write_dataset(rows([9]), where, mode="overwrite")
    with pytest.raises(InvalidOption, match="MemWAL is not initialized on version 4"):
        ids(where)
    with pytest.raises(
        InvalidOption, match="has rows of a MemWAL that the table does not know any more.*Remove the folder _mem_wal"
    ):
        lancelet.dataset(where).initialize_mem_wal(unsharded=True)
    shutil.rmtree(where / "_mem_wal")
    lancelet.dataset(where).initialize_mem_wal(unsharded=True)
    assert ids(where) == [9]


def test_a_writer_is_told_that_the_table_lost_its_mem_wal(where: Path) -> None:
    dataset = lancelet.dataset(where)
    writer = dataset.writer()
    writer.put(rows([4]))
    lancelet.write_dataset(rows([9]), where, mode="overwrite")
    for act in (writer.flush, writer.close):
        with pytest.raises(MemWalEnded, match=r"version 3 of the table has no MemWAL any more .* put these rows again"):
            act()
    lancelet.dataset(where).checkout_version(2).restore()
    assert 4 in ids(where, strong=True), "they are in the log"


def test_writers_of_a_mem_wal_that_was_ended_are_fenced_by_the_next_one(where: Path) -> None:
    dataset = lancelet.dataset(where)
    writer = dataset.writer()
    writer.put(rows([4]))
    writer.flush()
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(timedelta(0))
    dataset.drop_index("__lance_mem_wal")
    dataset.alter_columns({"path": "val", "data_type": pa.float32()})
    dataset.initialize_mem_wal(unsharded=True)
    with pytest.raises(WriterFenced):
        writer.put(rows([5]))
    assert ids(where, strong=True) == [1, 2, 3, 4]


def test_shards_without_rows_go_on_after_an_overwrite(where: Path) -> None:
    dataset = lancelet.dataset(where)
    with dataset.writer() as writer:
        writer.put(rows([4]))
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(timedelta(0))
    lancelet.write_dataset(rows([9]), where, mode="overwrite").initialize_mem_wal(unsharded=True)
    with lancelet.dataset(where).writer() as writer:
        writer.put(rows([5]))
    assert ids(where) == [5, 9]
    assert lancelet.dataset(where).compact_mem_wal()["num_runs"] == 1


def test_two_shards_that_take_all_rows_are_refused(where: Path) -> None:
    dataset = lancelet.dataset(where)
    with dataset.writer() as writer:
        writer.put(rows([4], "a "))
    with dataset.mem_wal_writer(str(SHARD)) as named:
        named.put(rows([4], "b "))
    with pytest.raises(InvalidInput, match="nobody can tell which row of a key is newer: seal one of them"):
        dataset.writer()


def test_a_shard_that_ends_while_a_put_is_handed_in_makes_it_a_partial_one(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    with lancelet.dataset(tmp_path).writer(durable_write=False) as writer:
        writer.put(rows(list(range(2, 12)))).wait()
        first, second = writer._router.writers
        # The first one takes its rows, and the second is closed by another thread before it gets its own.
        submit: Any = first.submit

        def overtaken(batches: Any) -> Acknowledgement:
            taken: Acknowledgement = submit(batches)
            second.abandon()
            return taken

        first.submit = overtaken  # type: ignore[method-assign]
        with pytest.raises(PartialPut) as caught:
            writer.put(rows(list(range(2, 12)), "again "))
        assert (caught.value.durable, caught.value.failed) == ((first.shard_id,), (second.shard_id,))


def test_folders_of_a_job_that_died_before_its_first_claim_go(where: Path) -> None:
    base = open_snapshot(where)
    batches = rows_to_put(base, entry_schema(base.manifest.schema), rows([4]), None)
    run = stage_run(base, SHARD, batches, new_stem())
    later = datetime.now(timezone.utc) + timedelta(days=6)
    assert collect_garbage(base, now=later).num_leftovers == 0
    assert collect_garbage(base, now=later + timedelta(days=2)).num_leftovers == 1
    assert not (where / "_mem_wal" / str(SHARD) / run.path).exists()


@pytest.mark.parametrize("keyed", [True, False])
def test_a_batch_is_not_repeated_in_the_shard_after_a_sealed_one(tmp_path: Path, keyed: bool) -> None:
    schema = SCHEMA if keyed else pa.schema([field.remove_metadata() for field in SCHEMA])
    dataset = lancelet.write_dataset(rows([1], "base ", schema), tmp_path)
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=1)
    batch = StreamBatch("q", 3)

    def add(number: int, mark: str) -> bool:
        base = open_snapshot(tmp_path)
        shards = ShardMap.of(base)
        (given,) = rows_to_put(base, entry_schema(base.manifest.schema), rows([1], mark, schema), None)
        ((place, part),) = shards.split(given, base.manifest.schema)
        run = stage_run(base, place[0], [part], new_stem(), number)
        before = shards.before(place)
        known = has_batch(base, place[0], replace(batch, number=number), before)
        added = add_runs(base, place, [run], replace(batch, number=number), before)
        assert known != added
        return added

    assert add(3, "three ")
    (shard,) = list_shards(open_snapshot(tmp_path).store)
    dataset.seal_mem_wal_shard(str(shard))
    dataset.compact_mem_wal()
    dataset.update({"text": "'newer'"}, where="text = 'three 1'")
    assert not add(3, "three ")
    assert add(4, "four ")
    assert not add(3, "three ")
    found = lancelet.dataset(tmp_path).lsm_scanner().to_table()["text"].to_pylist()
    assert sorted(found) == (["four 1"] if keyed else ["base 1", "four 1", "newer"])


def test_a_version_of_before_a_sealed_shard_was_compacted_is_not_read_with_rows_twice(where: Path) -> None:
    dataset = lancelet.dataset(where)
    before = dataset.version
    for mark in ("a ", "b "):
        with dataset.writer() as writer:
            writer.put(rows([1, 4], mark))
            (shard,) = writer.stats()
        if mark == "a ":
            first = shard
            dataset.seal_mem_wal_shard(shard)
            dataset.compact_mem_wal()
    lancelet.dataset(where, version=before).restore()
    restored = lancelet.dataset(where)
    for refused in (lambda: ids(where), lambda: ids(where, strong=True), restored.compact_mem_wal):
        with pytest.raises(InvalidInput, match=rf"call compact_mem_wal\(\['{first}'\]\) first"):
            refused()
    restored.compact_mem_wal([first])
    assert ids(where) == [1, 2, 3, 4]
    restored.compact_mem_wal()
    assert sorted(lancelet.dataset(where).to_table()["text"].to_pylist()) == ["b 1", "b 4", "base 2", "base 3"]


def test_a_key_that_the_table_got_later_is_looked_up_once(tmp_path: Path) -> None:
    bare = pa.schema([field.remove_metadata() for field in SCHEMA])
    dataset = lancelet.write_dataset(rows([1], "base ", bare), tmp_path)
    dataset.initialize_mem_wal(unsharded=True)
    with dataset.writer() as writer:
        writer.put(pa.concat_tables([rows([5], "a ", bare), rows([5, 1], "b ", bare)]))
    lancelet.dataset(tmp_path).update_field_metadata({"id": KEY})
    scanner = lancelet.dataset(tmp_path).lsm_scanner()
    assert sorted(scanner.to_table()["text"].to_pylist()) == ["b 1", "b 5"]
    assert sorted(scanner.take_keys(pa.array([5, 1]))["text"].to_pylist()) == ["b 1", "b 5"]


def test_a_new_stream_does_not_read_the_states_of_all_others(where: Path) -> None:
    base = open_snapshot(where)

    def add(query: str, number: int) -> None:
        batches = rows_to_put(base, entry_schema(base.manifest.schema), rows([4]), None)
        run = stage_run(base, SHARD, batches, new_stem(), number)
        assert add_runs(base, (SHARD, ()), [run], StreamBatch(query, number))

    def requests_of_a_new_query() -> int:
        base.store.counters.reset()
        assert not has_batch(base, SHARD, StreamBatch("unknown", 0))
        return base.store.counters.requests

    for number in range(20):
        add("old", number)
    assert 0 < requests_of_a_new_query() < 6
    with lance.dataset(where).mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows([5]))
    assert not list(manifests(where).values())[-1].stream_marks, "pylance does not repeat marks"
    assert requests_of_a_new_query() < 12
    add("new", 0)
    newest = list(manifests(where).values())[-1]
    assert ([mark.query for mark in newest.stream_marks], newest.has_all_marks) == (["old", "new"], True)
    assert requests_of_a_new_query() < 6
    assert has_batch(base, SHARD, StreamBatch("old", 19))
    assert not has_batch(base, SHARD, StreamBatch("old", 20))


def test_a_shard_that_pylance_began_anew_in_a_clone_is_not_passed_over(where: Path, tmp_path: Path) -> None:
    with lance.dataset(where).mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows([4]))
    lancelet.dataset(where).compact_mem_wal()
    newest = lance.dataset(where)
    clone = newest.shallow_clone(str(tmp_path / "c"), newest.version)
    with lance.dataset(clone.uri).mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows([5]))
        for refused in (
            lancelet.dataset(clone.uri).lsm_scanner().count_rows,
            lancelet.dataset(clone.uri).lsm_scanner(strong=True).count_rows,
            lambda: lancelet.dataset(clone.uri).mem_wal_writer(str(SHARD)),
        ):
            with pytest.raises(CorruptFile, match="the shard was begun anew, as in a clone"):
                refused()


def test_an_entry_that_cannot_be_read_is_given_up_on_demand_and_costs_its_own_rows(where: Path) -> None:
    writer = open_writer(where)
    for number in range(10, 14):
        writer.put(rows([number], "new "))
    entry = where / "_mem_wal" / str(SHARD) / entry_path(2)
    damaged = entry.read_bytes()[:-200]
    entry.write_bytes(damaged)
    dataset = lancelet.dataset(where)
    advice = r"entry 2 of the log cannot be read .* give_up_mem_wal_entry\(shard_id, 2\)"
    for act in (dataset.lsm_scanner(strong=True).to_table, lambda: dataset.mem_wal_writer(str(SHARD))):
        with pytest.raises(CorruptFile, match=advice):
            act()
    with pytest.raises(InvalidInput, match="entry 1 of .* can be read, and its rows would be lost"):
        dataset.give_up_mem_wal_entry(str(SHARD), 1)
    with pytest.raises(MissingFile):
        dataset.give_up_mem_wal_entry(str(SHARD), 9)
    assert Path(dataset.give_up_mem_wal_entry(str(SHARD), 2)).read_bytes() == damaged
    found = set(dataset.lsm_scanner(strong=True).to_table()["id"].to_pylist())
    assert found >= {10, 12, 13}
    assert 11 not in found
    with dataset.mem_wal_writer(str(SHARD)) as again:
        again.put(rows([14], "new "))
    dataset.compact_mem_wal()
    assert set(dataset.to_table()["id"].to_pylist()) == {*found, 14}


def test_an_entry_that_is_in_a_run_may_be_damaged(where: Path) -> None:
    with open_writer(where) as writer:
        for number in range(10, 14):
            writer.put(rows([number], "new "))
    entry = where / "_mem_wal" / str(SHARD) / entry_path(2)
    entry.write_bytes(b"")
    dataset = lancelet.dataset(where)
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(timedelta(0))
    assert entry.exists(), "it may be the first one of a writer that was fenced"
    assert set(dataset.to_table()["id"].to_pylist()) >= {10, 11, 12, 13}

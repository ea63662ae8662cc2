"""Rows that go through a table's MemWAL on Spark: upserts of streams and batches, reads that see them, compaction as a job."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st

import lancelet
from lancelet.errors import InvalidInput, MissingFile, ShardSealed
from lancelet.memwal.names import is_staged
from lancelet.memwal.shard_manifest import ShardStates, list_shards
from lancelet.memwal.staging import StreamBatch
from lancelet.spark import LanceTable
from lancelet.spark.memwal.read import pin_shards
from lancelet.spark.memwal.upsert import Part, UpsertJob, add_parts, plan_upsert, write_parts
from lancelet.spark.options import TableRef
from lancelet.spark.source import LanceDataSource
from lancelet.spark.table.columns import add_columns
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import KEY, by_id, snapshot_of
from spark.test_streams import replay

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("text", pa.string())])
SPARK = st.StructType().add("id", st.LongType()).add("text", st.StringType())
MARKED = st.StructType([*SPARK, st.StructField("_tombstone", st.BooleanType())])
BUCKETS = {"bucket_column": "id", "num_buckets": 3}


def rows(ids: Any, mark: str) -> pa.Table:
    return pa.table({"id": list(ids), "text": [f"{mark}{number}" for number in ids]}, SCHEMA)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with a MemWAL of three shards."""
    where = str(tmp_path / "t.lance")
    lance.write_dataset(rows(range(6), "base "), where).initialize_mem_wal(**BUCKETS)
    return where


def seen(uri: str) -> dict[int, str]:
    """The table with all runs, as we and pylance see it."""
    shards = [snapshot_of(Path(uri), shard) for shard in list_shards(open_snapshot(uri).store)]
    theirs = lance.LsmScanner.from_snapshots(lance.dataset(uri), shards).to_table()
    ours = lancelet.dataset(uri).lsm_scanner().to_table()
    assert by_id(ours) == by_id(theirs)
    return {row["id"]: row["text"] for row in by_id(ours)}


def states(uri: str) -> list[tuple[int, int]]:
    """Of each shard the number of its newest state, and of its runs."""
    store = open_snapshot(uri).store
    newest = [ShardStates.of(store, shard).latest() for shard in list_shards(store)]
    return [(state.version, len(state.sstables)) for state in newest if state is not None]


def unnamed(uri: str) -> list[str]:
    """Folders of runs that no state names."""
    store = open_snapshot(uri).store
    found = []
    for shard in list_shards(store):
        here = ShardStates.of(store, shard)
        newest = here.latest()
        named = set() if newest is None else {run.path for run in newest.sstables}
        found += [folder for folder in here.store.list_folders() if is_staged(folder) and folder not in named]
    return found


def plan(uri: str, schema: st.StructType = SPARK, **options: str) -> UpsertJob:
    job = plan_upsert(schema, {"path": uri, "writepath": "memwal", **options}, overwrite=False)
    copy: UpsertJob = pickle.loads(pickle.dumps(job))
    return copy


def task(job: UpsertJob, table: pa.Table) -> tuple[Part, ...]:
    return write_parts(job, table.to_batches())


# Upserts


def test_a_batch_is_in_each_shard_once(uri):
    job = plan(uri)
    first, again = task(job, rows([1, 2, 3, 9], "a ")), task(job, rows([1, 2, 3, 9], "a "))
    add_parts(job, first, StreamBatch("q", 0))
    after = seen(uri)
    assert after == {0: "base 0", 1: "a 1", 2: "a 2", 3: "a 3", 4: "base 4", 5: "base 5", 9: "a 9"}
    known = states(uri)
    add_parts(job, again, StreamBatch("q", 0))
    assert (seen(uri), states(uri), unnamed(uri)) == (after, known, [])
    assert lance.dataset(uri).version == 2, "no version was made"


def test_a_batch_that_stopped_half_way_is_completed(uri):
    job = plan(uri)
    parts = task(job, rows(range(20), "a "))
    assert len(parts) == 3
    for done in range(4):
        query = StreamBatch("q", done)
        for part in parts[:done]:
            add_parts(job, [part], query)
        # Another writer is faster than the restart: its rows are newer than the batch's.
        with lancelet.dataset(uri).writer() as writer:
            writer.put(rows(range(20), f"newer {done} "))
        add_parts(job, parts, query)
        after = seen(uri)
        again = {int(number) for number, text in after.items() if text.startswith("a ")}
        expected = {row for part in parts[done:] for row in _ids(part)}
        assert again == expected, "what was there stays older than what came after it"


def _ids(part: Part) -> list[int]:
    with pa.ipc.open_stream(part.rows) as reader:
        return reader.read_all()["id"].to_pylist()


def test_two_drivers_with_one_batch(uri):
    """A driver that was thought dead adds a batch while its successor does."""
    jobs = [plan(uri), plan(uri)]
    parts = [task(job, rows(range(8), "a ")) for job in jobs]
    for number in range(3):
        add_parts(jobs[number % 2], parts[number % 2][: number + 1], StreamBatch("q", 0))
    assert [runs for _, runs in states(uri)] == [1, 1, 1]
    add_parts(jobs[0], task(jobs[0], rows([1], "b ")), StreamBatch("q", 1))
    add_parts(jobs[1], parts[1], StreamBatch("q", 0))
    assert seen(uri)[1] == "b 1"


def test_a_batch_is_known_after_others_have_written_to_the_shard(uri):
    """States that pylance writes do not tell of batches; those before them do."""
    job = plan(uri)
    parts = task(job, rows([1, 2, 3, 4], "a "))
    add_parts(job, parts, StreamBatch("q", 7))
    for shard in list_shards(open_snapshot(uri).store):
        held = [number for part in parts if part.place[0] == shard for number in _ids(part)]
        with lance.dataset(uri).mem_wal_writer(str(shard)) as writer:
            writer.put(rows(held, "pylance "))
    add_parts(job, parts, StreamBatch("q", 7))
    assert [seen(uri)[number] for number in (1, 2, 3, 4)] == [f"pylance {number}" for number in (1, 2, 3, 4)]
    lancelet.dataset(uri).compact_mem_wal()
    add_parts(job, parts, StreamBatch("q", 7))
    assert seen(uri)[1] == "pylance 1"
    add_parts(job, parts, StreamBatch("q", 8))
    assert seen(uri)[1] == "a 1"


def test_what_a_writer_had_in_its_log_is_older_than_the_batch(uri):
    writer = lancelet.dataset(uri).writer()
    writer.put(rows([1, 2, 3, 50], "log "))
    job = plan(uri)
    add_parts(job, task(job, rows([1, 2], "a ")))
    with pytest.raises(OSError, match="epoch"):
        writer.put(rows([1], "late "))
    add_parts(job, task(job, rows([3, 4, 5], "b ")))
    after = seen(uri)
    assert (after[1], after[2], after[3], after[50]) == ("a 1", "a 2", "b 3", "log 50")


def test_deletions_are_rows_with_a_mark(uri):
    job = plan(uri, MARKED)
    table = rows([1, 2, 1, 7, 7], "a ").append_column("_tombstone", pa.array([False, True, True, True, None]))
    add_parts(job, task(job, table))
    assert seen(uri) == {0: "base 0", 3: "base 3", 4: "base 4", 5: "base 5", 7: "a 7"}


def test_a_task_with_many_rows_writes_runs(uri):
    job = plan(uri)
    count = 20_000
    parts = task(job, rows(range(count), "a "))
    assert all(part.run is not None for part in parts)
    few = task(job, rows([1, 2, 3], "b "))
    add_parts(job, [*few, *parts, *few], StreamBatch("q", 0))
    after = seen(uri)
    assert len(after) == count
    assert (after[1], after[4]) == ("b 1", "a 4"), "tasks count in their order"
    more = task(job, rows(range(count), "c "))
    add_parts(job, more, StreamBatch("q", 0))
    assert unnamed(uri) == []
    add_parts(job, parts, StreamBatch("q", 0))
    assert len(seen(uri)) == count, "runs that are named stay when the same ones are committed again"


def test_a_sealed_shard_ends_the_write_and_leaves_no_runs(uri):
    job = plan(uri)
    add_parts(job, task(job, rows([1], "a ")))
    (shard,) = list_shards(open_snapshot(uri).store)
    lancelet.dataset(uri).seal_mem_wal_shard(str(shard))
    with pytest.raises(ShardSealed):
        add_parts(job, task(job, rows([1], "b ")))
    assert unnamed(uri) == []
    with pytest.raises(InvalidInput, match="compact_mem_wal"):
        plan(uri)


def test_a_batch_is_known_in_the_shard_after_a_sealed_one(uri):
    job = plan(uri)
    parts = task(job, rows(range(20), "a "))
    add_parts(job, parts[:1], StreamBatch("q", 0))
    (shard,) = list_shards(open_snapshot(uri).store)
    lancelet.dataset(uri).seal_mem_wal_shard(str(shard))
    lancelet.dataset(uri).compact_mem_wal()
    lancelet.dataset(uri).update({"text": "'newer'"}, where="text like 'a %'")
    job = plan(uri)
    add_parts(job, task(job, rows(range(20), "a ")), StreamBatch("q", 0))
    after = {row["id"]: row["text"] for row in lancelet.dataset(uri).lsm_scanner().to_table().to_pylist()}
    assert {number for number, text in after.items() if text == "newer"} == set(_ids(parts[0]))
    assert (len(after), unnamed(uri)) == (20, [])


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        ({"writepath": "log"}, SPARK, "writePath is memwal"),
        ({"savemode": "overwrite"}, SPARK, "the mode is append"),
        ({"mergeschema": "true"}, SPARK, "mergeschema does not go with"),
        ({}, st.StructType().add("text", st.StringType()), "`id` is missing"),
        ({}, st.StructType().add("id", st.LongType()).add("other", st.StringType()), "do not fit"),
        ({}, st.StructType([*SPARK, st.StructField("_tombstone", st.LongType())]), "is boolean"),
    ],
)
def test_writes_that_make_no_sense(uri, options, schema, words):
    with pytest.raises(ValueError, match=words):
        plan(uri, schema, **options)


def test_a_table_without_a_memwal(tmp_path):
    lance.write_dataset(rows([1], ""), tmp_path / "plain.lance")
    with pytest.raises(ValueError, match=r"initialize_mem_wal\(\) first"):
        plan(str(tmp_path / "plain.lance"))


def test_columns_that_changed_meanwhile(uri):
    job = plan(uri)
    parts = task(job, rows([1], "a "))
    lance.dataset(uri).add_columns(pa.field("more", pa.int64()))
    with pytest.raises(OSError, match="columns of the table changed"):
        add_parts(job, parts)


def test_no_column_is_computed_that_rows_in_the_mem_wal_would_not_have(uri):
    for columns in ({"more": "id + 1"}, lambda batch: batch):
        with pytest.raises(InvalidInput, match="cannot add a computed column"):
            add_columns(None, TableRef(uri, {}), columns)


def test_texts_go_into_columns_of_json(tmp_path):
    uri, schema = str(tmp_path / "json.lance"), pa.schema([SCHEMA.field(0), pa.field("text", pa.json_())])
    texts = {number: f'{{"n":{number}}}' for number in range(4)}
    made = lancelet.write_dataset(
        pa.table({"id": [0, 1], "text": pa.array([texts[0], texts[1]], pa.json_())}, schema), uri
    )
    made.initialize_mem_wal(**BUCKETS)
    job = plan(uri)
    add_parts(job, task(job, pa.table({"id": [1, 2, 3], "text": [texts[0], texts[2], texts[3]]}, SCHEMA)))
    expected = [{"id": number, "text": texts[number if number != 1 else 0]} for number in range(4)]
    assert read(levels(uri)) == expected
    with pytest.raises(ValueError, match="is not JSON"):
        task(job, rows([7], "no JSON "))
    made.compact_mem_wal()
    assert by_id(lance.dataset(uri).to_table()) == expected


# Reading


def levels(uri: str, schema: st.StructType = SPARK, **options: str) -> Any:
    """A read of the table with its runs."""
    source = LanceDataSource({"path": uri, "memwal": "runs", **options})
    return source.reader(schema)


def read(reader: Any) -> list[dict[str, Any]]:
    """All rows, each task run from a copy, as in another process."""
    found = []
    for part in reader.partitions():
        copy, split = pickle.loads(pickle.dumps((reader, part)))
        found.extend(row for batch in copy.read(split) for row in batch.to_pylist())
    return sorted(found, key=lambda row: row["id"])


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Fragments, runs with newer rows and deletions, and rows that are only in logs."""
    uri = str(tmp_path / "h.lance")
    stable = {"enable_stable_row_ids": request.param}
    for first in range(0, 100, 20):
        lance.write_dataset(rows(range(first, first + 20), "base "), uri, mode="append", **stable)
    lance.dataset(uri).delete("id = 50")
    lance.dataset(uri).initialize_mem_wal(**BUCKETS)
    for number in range(3):
        with lancelet.dataset(uri).writer() as writer:
            writer.put(rows(range(number * 7, 40 + number), f"run {number} "))
            writer.delete({"id": [number, 60 + number, 200]})
        if not number:
            lancelet.dataset(uri).compact_mem_wal()
    writer = lancelet.dataset(uri).writer()
    writer.put(rows([5, 80, 300], "log "))
    return uri


def test_tasks_give_what_one_process_gives(history):
    expected = by_id(lancelet.dataset(history).lsm_scanner().to_table())
    assert {row["text"] for row in expected} >= {"run 1 7", "run 2 41", "base 99"}
    for size in ("1k", "1g"):
        reader = levels(history, splitbytes=size)
        assert len(reader.partitions()) > 2 if size == "1k" else len(reader.partitions()) == 2
        assert read(reader) == expected
    assert read(levels(history, memwal="log")) == by_id(lancelet.dataset(history).lsm_scanner(strong=True).to_table())
    seen(history)


def test_filters_and_limits_of_reads_with_runs(history):
    whole = by_id(lancelet.dataset(history).lsm_scanner().to_table())
    chosen = read(levels(history, filter="text like 'base %' or id < 9", splitbytes="1k"))
    assert chosen == [row for row in whole if row["text"].startswith("base ") or row["id"] < 9]
    short = read(levels(history, limit="7"))
    assert len(short) == 7
    assert all(row in whole for row in short)
    assert len(read(levels(history, limit="1000"))) == len(whole)
    text = st.StructType().add("text", st.StringType())
    (reader, *_) = [levels(history, text)]
    assert sorted(
        row["text"] for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()
    ) == sorted(row["text"] for row in whole)


def test_a_read_stays_with_what_it_was_planned_for(history):
    expected = by_id(lancelet.dataset(history).lsm_scanner().to_table())
    reader = levels(history)
    with lancelet.dataset(history).writer() as writer:
        writer.put(rows(range(100), "later "))
    lancelet.dataset(history).compact_mem_wal()
    assert read(reader) == expected
    assert {row["text"] for row in read(levels(history))} == {f"later {number}" for number in range(100)} | {"log 300"}


def test_runs_that_a_cleanup_removed_are_missed(history):
    before = lancelet.dataset(history).table.snapshot
    lancelet.dataset(history).compact_mem_wal()
    lancelet.dataset(history).cleanup_mem_wal(older_than=dt.timedelta(0))
    with pytest.raises(MissingFile, match="load the table anew"):
        pin_shards(before, with_logs=False)
    assert pin_shards(before.latest(), with_logs=False) == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memwal": "all"}, "memWal is one of runs, log"),
        ({"version": "1"}, "version and memWal exclude each other"),
        ({"rowid": "true"}, "rowId and memWal exclude each other"),
    ],
)
def test_reads_that_make_no_sense(uri, options, words):
    with pytest.raises(ValueError, match=words):
        levels(uri, **options)


# By Spark


def run(spark: Any, source: str, target: str, checkpoint: str) -> None:
    stream = spark.readStream.format("lance").option("maxVersionsPerTrigger", 1).option("startingVersion", 1)
    routed = LanceTable.forPath(spark, target).repartitionByShard(stream.load(source))
    sink = routed.writeStream.format("lance").option("writePath", "memwal")
    query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(target)
    try:
        assert query.awaitTermination(600)
    finally:
        query.stop()


def test_a_stream_of_upserts(spark, uri, tmp_path):
    source, checkpoint = str(tmp_path / "source.lance"), str(tmp_path / "checkpoint")
    lance.write_dataset(rows([3, 4, 10], "one "), source)
    run(spark, source, uri, checkpoint)
    after = {0: "base 0", 1: "base 1", 2: "base 2", 3: "one 3", 4: "one 4", 5: "base 5", 10: "one 10"}
    assert seen(uri) == after
    known = states(uri)
    replay(checkpoint)
    lance.write_dataset(rows([3], "two "), source, mode="append")
    run(spark, source, uri, checkpoint)
    assert seen(uri) == {**after, 3: "two 3"}
    new = sum(version for version, _ in states(uri)) - sum(version for version, _ in known)
    assert new == 1, "the batch that the checkpoint forgot was there already"
    assert lance.dataset(uri).version == 2, "no version was made"


def test_a_batch_of_upserts_is_read_and_compacted(spark, uri):
    """The keys 4 and 5 are in the table twice, which it does not forbid."""
    lance.write_dataset(rows([4, 5], "twice "), uri, mode="append")
    frame = spark.createDataFrame([(1, "a", False), (2, None, True), (4, "c", False), (8, "b", False)], MARKED)
    frame.write.format("lance").mode("append").option("writePath", "memwal").save(uri)
    with lancelet.dataset(uri).writer() as writer:
        writer.put(rows([8, 9], "later "))
        writer.delete({"id": [77]})
    whole = spark.read.format("lance").option("memWal", "runs").load(uri)
    expected = by_id(lancelet.dataset(uri).lsm_scanner().to_table())
    found = sorted(map(tuple, whole.where("id > 0").collect()))
    assert found == [(row["id"], row["text"]) for row in expected if row["id"] > 0]
    alone = shutil.copytree(uri, f"{uri}.alone")
    one = lancelet.dataset(alone).compact_mem_wal()
    table = LanceTable.forPath(spark, uri)
    assert table.compactMemWal() == one
    assert by_id(lance.dataset(uri).to_table()) == by_id(lance.dataset(alone).to_table())
    mine, other = (open_snapshot(where).manifest.transaction.update for where in (uri, alone))
    assert (mine.inserted_rows, mine.compacted_sstables) == (other.inserted_rows, other.compacted_sstables)
    assert table.compactMemWal()["num_runs"] == 0
    assert lance.dataset(uri).version == 4
    assert lancelet.dataset(uri).verify().ok


WIDE = pa.schema(
    [
        pa.field("a", pa.uint64(), nullable=False, metadata=KEY),
        pa.field("b", pa.string(), nullable=False, metadata=KEY),
        pa.field("at", pa.timestamp("ns")),
        pa.field("v", pa.list_(pa.float32(), 2)),
        pa.field("j", pa.json_()),
    ]
)


def wide(ids: range, mark: int) -> pa.Table:
    columns = [
        [number + (1 << 63) for number in ids],
        [f"\0{number % 3}" for number in ids],
        [1_600_000_000_123_456_789 + mark] * len(ids),
        [[mark, None] for _ in ids],
        [f'{{"{mark}":[{number},null]}}' for number in ids],
    ]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, WIDE, strict=True)], WIDE)


@pytest.mark.soak
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_rows_are_compacted_as_they_are_stored(spark, tmp_path, keyed, stable):
    """Values that Spark has no type for, a key of two columns, and tables that are only added to."""
    schema = WIDE if keyed else pa.schema([field.remove_metadata() for field in WIDE])
    uri = str(tmp_path / "wide.lance")
    made = lancelet.write_dataset(
        wide(range(40), 0).cast(schema), uri, max_rows_per_file=7, enable_stable_row_ids=stable
    )
    made.initialize_mem_wal(bucket_column="a", num_buckets=2)
    for number in range(3):
        with lancelet.dataset(uri).writer() as writer:
            writer.put(wide(range(30 + number, 50 + number), number + 1).cast(schema))
            if keyed:
                writer.delete(wide(range(number, number + 2), 0).select(["a", "b"]))
    alone = shutil.copytree(uri, f"{uri}.alone")
    expected = lancelet.dataset(alone).compact_mem_wal()
    assert LanceTable.forPath(spark, uri).compactMemWal() == expected
    order = [("a", "ascending"), ("at", "ascending")]
    tables = [lance.dataset(where).to_table().sort_by(order) for where in (uri, alone)]
    assert tables[0].equals(tables[1])
    if stable and keyed:
        ids = [
            lancelet.dataset(where)
            .to_table(with_row_id=True, filter="a < 9223372036854775848")
            .sort_by(order)["_rowid"]
            for where in (uri, alone)
        ]
        assert ids[0].equals(ids[1]), "rows that were there keep their ids"
    assert lancelet.dataset(uri).verify().ok

"""A table and its shards read as one: beside pylance, and beside a plain dict of what was written."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancelet
from drawing import examples
from lancelet.errors import InvalidInput, InvalidType, MissingFile, NotSupported, WriterClosed
from lancelet.format.proto import mem_wal_pb2
from lancelet.memwal.names import entry_path, manifest_path
from lancelet.memwal.shard_manifest import list_shards
from memwal.samples import KEY, OTHER, SCHEMA, SHARD, by_id, keyed_table, rows, runs, snapshot_of


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """Three rows in the table, two runs of a shard, and rows in its log."""
    where = tmp_path / "t"
    keyed_table(where, [1, 2, 3, 4], unsharded=True)
    writer = lancelet.dataset(where).mem_wal_writer(str(SHARD))
    writer.put(rows([2, 5], "a "))
    writer.put(rows([5, 6], "b "))
    writer.flush()
    writer.delete(pa.table({"id": [1, 5]}))
    writer.put(rows([6, 7], "c "))
    writer.flush()
    writer.put(rows([3, 8], "d "))
    writer.delete(pa.table({"id": [7]}))
    return where


FLUSHED = {2: "a 2", 3: "base 3", 4: "base 4", 6: "c 6", 7: "c 7"}
ALL = {2: "a 2", 3: "d 3", 4: "base 4", 6: "c 6", 8: "d 8"}


def texts(table: pa.Table) -> dict[int, str]:
    ids = table["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    return dict(sorted(zip(ids, table["text"].to_pylist(), strict=True)))


def test_runs_are_read_with_the_table_and_logs_by_strong_readers(where: Path) -> None:
    dataset = lancelet.dataset(where)
    assert texts(dataset.to_table()) == {number: f"base {number}" for number in (1, 2, 3, 4)}
    assert texts(dataset.lsm_scanner().to_table()) == FLUSHED
    assert texts(dataset.lsm_scanner(strong=True).to_table()) == ALL
    assert dataset.lsm_scanner().count_rows() == dataset.lsm_scanner(strong=True).count_rows() == 5


def test_scans_are_those_of_pylance(where: Path) -> None:
    snapshot = snapshot_of(where)
    ours = lancelet.ShardSnapshot(str(SHARD))
    for generation, run in enumerate(runs(where), 1):
        ours = ours.with_sstable(generation, run.name)

    def scanners() -> tuple[Any, Any]:
        return (
            lance.LsmScanner.from_snapshots(lance.dataset(where), [snapshot]),
            lancelet.LsmScanner.from_snapshots(lancelet.dataset(where), [ours]),
        )

    for ask in (
        lambda scanner: scanner,
        lambda scanner: scanner.project(["text", "id"]),
        lambda scanner: scanner.filter("val >= 1.5"),
        lambda scanner: scanner.filter("text like '% 2' or id = 6").project(["id"]),
        lambda scanner: scanner.with_row_address().with_memtable_gen(),
    ):
        theirs, mine = (ask(scanner).to_table() for scanner in scanners())
        assert mine.schema.equals(theirs.schema, check_metadata=True)
        assert by_id(mine) == by_id(theirs)
        assert [ask(scanner).count_rows() for scanner in scanners()] == [theirs.num_rows] * 2
    for limit, offset in ((2, None), (2, 1), (10, 4), (0, None), (None, 3)):
        counts = [scanner.limit(limit, offset).to_table().num_rows for scanner in scanners()]
        assert counts[0] == counts[1]
    assert scanners()[1].to_batch().num_rows == 5
    assert sum(batch.num_rows for batch in scanners()[1].to_batches()) == 5
    assert scanners()[1].to_reader().read_all().num_rows == 5


def test_lookups_are_those_of_pylance(where: Path) -> None:
    ours = lancelet.ShardSnapshot(str(SHARD))
    for generation, run in enumerate(runs(where), 1):
        ours = ours.with_sstable(generation, run.name)
    theirs = lance.LsmPointLookupPlanner(lance.dataset(where), [snapshot_of(where)])
    mine = lancelet.LsmPointLookupPlanner(lancelet.dataset(where), [ours], ["id"])
    for key in range(10):
        asked = pa.array([key], pa.int64())
        for columns in (None, ["text"]):
            expected = theirs.plan_lookup(asked, columns)
            plan = mine.plan_lookup(asked, columns)
            assert plan.schema.names == (expected.schema.names if columns is None else columns)
            assert plan.to_table().to_pylist() == expected.to_table().select(plan.schema.names).to_pylist(), key
    assert "generation=2" in plan.explain()
    assert plan.dataset_schema.names == SCHEMA.names
    found = lancelet.dataset(where).lsm_scanner(strong=True).take_keys(pa.array(range(10), pa.int64()))
    assert texts(found) == ALL
    with pytest.raises(InvalidInput, match="exactly one element"):
        mine.plan_lookup(pa.array([1, 2]))
    with pytest.raises(InvalidType, match="column 'id' of the key is int64"):
        mine.plan_lookup(pa.array(["x"])).to_table()
    with pytest.raises(NotSupported, match="pk_columns are those of the table's primary key"):
        lancelet.LsmPointLookupPlanner(lancelet.dataset(where), [], ["val"])


def test_a_writer_reads_what_it_wrote(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1, 2])
    dataset = lancelet.dataset(tmp_path)
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.put(rows([2, 3], "new "))
        assert texts(writer.lsm_scanner().to_table()) == {1: "base 1", 2: "new 2", 3: "new 3"}
        before = writer.lsm_scanner()
        writer.delete(pa.table({"id": [3]}))
        assert texts(writer.lsm_scanner().filter("id > 1").to_table()) == {2: "new 2"}
        assert texts(before.to_table()) == {1: "base 1", 2: "new 2", 3: "new 3"}, "a scanner is of one moment"
        with dataset.mem_wal_writer(str(OTHER)) as other:
            other.put(rows([9], "other "))
        found = writer.lsm_scanner([_ours(tmp_path, OTHER)]).to_table()
        assert texts(found) == {1: "base 1", 2: "new 2", 9: "other 9"}


def test_a_writer_of_all_shards_reads_what_it_wrote_without_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed_table(tmp_path, [1, 2], bucket_column="id", num_buckets=3)
    dataset = lancelet.dataset(tmp_path)
    with dataset.writer() as before:
        before.put(rows(list(range(1, 8)), "run "))
    writer = dataset.writer()
    writer.put(rows([1], "new "))
    monkeypatch.setattr("lancelet.memwal.view.read_log", lambda *_: pytest.fail("nobody needs the log"))
    expected = {number: f"run {number}" for number in range(1, 8)} | {1: "new 1"}
    first = writer.lsm_scanner()
    assert texts(first.to_table()) == expected, "what others have in runs is there too"
    writer.delete({"id": [2]})
    assert texts(first.to_table()) == expected, "a scanner is of one moment"
    del expected[2]
    later = writer.lsm_scanner()
    writer.flush()
    dataset.compact_mem_wal()
    dataset.cleanup_mem_wal(timedelta(0))
    assert texts(later.to_table()) == expected, "what was compacted since is in the table"
    assert texts(later.take_keys(pa.array([1, 2]))) == {1: "new 1"}
    writer.close()
    assert texts(writer.lsm_scanner().to_table()) == expected


def _ours(where: Path, shard: Any) -> lancelet.ShardSnapshot:
    found = lancelet.ShardSnapshot(str(shard)).with_current_generation(2).with_spec_id(0)
    for generation, run in enumerate(runs(where, shard), 1):
        found.with_sstable(generation, run.name)
    return found


def test_a_scanner_stays_the_same_while_runs_are_compacted(where: Path) -> None:
    dataset = lancelet.dataset(where)
    scanner = dataset.lsm_scanner(strong=True)
    assert scanner.count_rows() == 5
    lancelet.dataset(where).compact_mem_wal()
    assert texts(scanner.to_table()) == ALL
    assert texts(dataset.lsm_scanner(strong=True).to_table()) == ALL
    assert texts(dataset.lsm_scanner().to_table()) == FLUSHED


def test_runs_that_are_gone_are_an_error_unless_they_are_in_the_table(where: Path) -> None:
    snapshot = lancelet.ShardSnapshot(str(SHARD)).with_sstable(1, "00000000_gen_1")
    with pytest.raises((MissingFile, FileNotFoundError)):
        lancelet.LsmScanner.from_snapshots(lancelet.dataset(where), [snapshot]).to_table()
    lancelet.dataset(where).compact_mem_wal()
    assert texts(lancelet.LsmScanner.from_snapshots(lancelet.dataset(where), [snapshot]).to_table()) == FLUSHED
    with pytest.raises(InvalidInput, match="named by its folder"):
        snapshot.with_sstable(1, "../x")


def test_without_a_key_all_rows_count(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset({"n": [1, 2]}, tmp_path)
    dataset.initialize_mem_wal(unsharded=True)
    writer = dataset.writer()
    writer.put({"n": [2, 2]})
    writer.flush()
    writer.put({"n": [3]})
    assert sorted(dataset.lsm_scanner(strong=True).to_table()["n"].to_pylist()) == [1, 2, 2, 2, 3]
    assert dataset.lsm_scanner().filter("n = 2").count_rows() == 3
    with pytest.raises(InvalidInput, match="a lookup requires a primary key"):
        dataset.lsm_scanner().take_keys(pa.array([1]))
    with pytest.raises(InvalidInput, match="requires a primary key"):
        lancelet.LsmPointLookupPlanner(dataset, [])


VECTORS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY),
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("text", pa.string()),
    ]
)
WORDS = ["kelp", "tide", "pool", "crab", "sand"]


def searched(ids: list[int], seed: int) -> pa.Table:
    drawn = np.random.default_rng(seed)
    words = [" ".join(drawn.choice(WORDS, 3)) for _ in ids]
    return pa.table({"id": ids, "v": drawn.random((len(ids), 4)).astype("f4").tolist(), "text": words}, VECTORS)


@pytest.mark.parametrize("indexed", [False, True])
def test_searches_look_at_all_levels(tmp_path: Path, indexed: bool) -> None:
    levels = [searched(list(range(300)), 1), searched(list(range(100, 220)), 2), searched(list(range(50, 120)), 3)]
    dataset = lancelet.write_dataset(levels[0], tmp_path)
    if indexed:
        dataset.create_index("v", "IVF_FLAT", num_partitions=2)
        dataset.create_scalar_index("text", "INVERTED")
    dataset.initialize_mem_wal(unsharded=True)
    writer = dataset.writer()
    writer.put(levels[1])
    writer.flush()
    writer.put(levels[2])
    writer.delete({"id": [0, 55]})
    newest = {row["id"]: row for level in levels for row in level.to_pylist() if row["id"] not in (0, 55)}
    truth = pa.Table.from_pylist(list(newest.values()), VECTORS)
    whole = lancelet.write_dataset(truth, tmp_path / "whole")
    query = [0.5, 0.4, 0.6, 0.1]
    for condition in (None, "id % 3 = 0"):
        scanner = dataset.lsm_scanner(strong=True).nearest("v", query, 7, nprobes=2).project(["id"])
        expected = whole.to_table(
            ["id", "_distance"], filter=condition, prefilter=True, nearest={"column": "v", "q": query, "k": 7}
        )
        found = (scanner if condition is None else scanner.filter(condition)).to_table()
        assert found["id"].to_pylist() == expected["id"].to_pylist()
        assert np.allclose(found["_distance"], expected["_distance"])
    nearest = dataset.lsm_scanner(strong=True).nearest("v", query, 3).project(["id"]).to_table()["id"].to_pylist()
    for limit, offset in ((3, 2), (1, 1), (5, 0), (None, 1), (2, 3)):
        scanner = dataset.lsm_scanner(strong=True).nearest("v", query, 3).limit(limit, offset).project(["id"])
        wanted = nearest[offset:] if limit is None else nearest[offset : offset + limit]
        assert scanner.to_table()["id"].to_pylist() == wanted, "ranks end at k"
    with pytest.raises(NotSupported, match="takes one vector, and several were given"):
        dataset.lsm_scanner(strong=True).nearest("v", np.zeros((2, 4), "f4"), 3).to_table()
    if indexed:
        matched = dataset.lsm_scanner(strong=True).full_text_search("kelp", ["text"]).project(["id"]).to_table()
        assert set(matched["id"].to_pylist()) == {key for key, row in newest.items() if "kelp" in row["text"].split()}
        scores = matched["_score"].to_pylist()
        assert scores == sorted(scores, reverse=True)


def test_vector_plans_are_those_of_pylance(tmp_path: Path) -> None:
    dataset = lance.write_dataset(searched(list(range(60)), 1), tmp_path)
    dataset.create_index("v", "IVF_FLAT", num_partitions=1)
    dataset.initialize_mem_wal()
    with lance.dataset(tmp_path).mem_wal_writer(str(SHARD)) as writer:
        writer.put(searched(list(range(30, 70)), 2))
    query = pa.array([0.5, 0.4, 0.6, 0.1], pa.float32())
    for options in ({}, {"filter": "id < 40"}, {"distance_type": "l2"}):
        theirs = lance.LsmVectorSearchPlanner(lance.dataset(tmp_path), [snapshot_of(tmp_path)], "v", **options)
        ours = lancelet.LsmVectorSearchPlanner(lancelet.dataset(tmp_path), [_ours(tmp_path, SHARD)], "v", **options)
        expected = theirs.plan_search(query, 8).to_table().sort_by("_distance")
        found = ours.plan_search(query, 8).to_table()
        assert found["id"].to_pylist() == expected["id"].to_pylist(), options
        assert np.allclose(found["_distance"], expected["_distance"], atol=1e-6)
    for wrong in ({"k": 0}, {"nprobes": 0}, {"overfetch_factor": 0.5}):
        with pytest.raises(ValueError, match="must be"):
            ours.plan_search(query, **wrong)


def test_rows_go_to_the_shards_of_their_buckets(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1, 2], bucket_column="id", num_buckets=3)
    dataset = lancelet.dataset(tmp_path)
    with dataset.writer() as writer:
        writer.put(rows(list(range(20)), "a "))
        shards = set(writer.stats())
    assert len(shards) == 3
    with dataset.writer() as writer:
        acknowledged = writer.put(rows(list(range(10, 30)), "b "))
        assert acknowledged.is_durable
        writer.delete({"id": [3, 12]})
        assert set(writer.stats()) == shards, "every writer finds the shards of another"
    found = texts(dataset.lsm_scanner().to_table())
    assert sorted(found) == [n for n in range(30) if n not in (3, 12)]
    assert found[9] == "a 9"
    assert found[10] == "b 10"
    for key in (4, 12, 25):
        assert dataset.lsm_scanner().take_keys(pa.array([key])).num_rows == (key != 12)
    with pytest.raises(WriterClosed):
        writer.put(rows([1]))


def test_many_shards_on_a_remote_store() -> None:
    dataset = lancelet.write_dataset(rows([-1, -2], "base "), "memory://memwal/shards")
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=20)
    expected = {-1: "base -1", -2: "base -2"}
    for turn in range(3):
        writer = dataset.writer()
        writer.put(rows(list(range(turn * 10, 100)), f"{turn} "))
        expected |= {number: f"{turn} {number}" for number in range(turn * 10, 100)}
        if turn < 2:
            writer.close()
    assert len(list_shards(dataset.table.snapshot.store)) == 20
    assert texts(dataset.lsm_scanner(strong=True).to_table()) == expected
    dataset.compact_mem_wal()
    assert texts(dataset.lsm_scanner(strong=True).to_table()) == expected


def test_rows_of_unsharded_tables_go_to_the_shard_that_is_there(where: Path) -> None:
    with lancelet.dataset(where).writer() as writer:
        writer.put(rows([9], "e "))
        assert list(writer.stats()) == [str(SHARD)]
    assert texts(lancelet.dataset(where).lsm_scanner().to_table()) == {**ALL, 9: "e 9"}


def test_writers_that_cannot_tell_the_shard_of_a_row_say_so(tmp_path: Path) -> None:
    keyed_table(tmp_path / "manual", [1])
    with pytest.raises(InvalidInput, match="no way to tell the shard of a row: name one with shard_id"):
        lancelet.dataset(tmp_path / "manual").writer()
    with lancelet.dataset(tmp_path / "manual").writer(shard_id=str(SHARD)) as writer:
        writer.put(rows([2]))
    keyed_table(tmp_path / "other", [1], bucket_column="val", num_buckets=2)
    with pytest.raises(InvalidInput, match="sharded by 'val', which is not part of the primary key"):
        lancelet.dataset(tmp_path / "other").writer()
    with pytest.raises(OSError, match="MemWAL is not initialized"):
        lancelet.write_dataset({"a": [1]}, tmp_path / "none").writer()
    with pytest.raises(InvalidType, match="unexpected keyword argument 'speed'"):
        lancelet.dataset(tmp_path / "manual").writer(shard_id=str(SHARD), speed=1)


def test_awaited_puts_are_durable(tmp_path: Path) -> None:
    keyed_table(tmp_path, [1], bucket_column="id", num_buckets=2)
    dataset = lancelet.dataset(tmp_path)

    async def write() -> None:
        async with dataset.writer() as writer:
            done = await asyncio.gather(*(writer.put(rows([number], "a ")) for number in range(2, 12)))
            assert all(one.is_durable for one in done)
            await writer.delete({"id": [1]})
            await writer.flush()
            with pytest.raises(OSError, match="do not fit"):
                await writer.put({"other": [1]})

    asyncio.run(write())
    assert sorted(texts(dataset.lsm_scanner().to_table())) == list(range(2, 12))


@settings(max_examples=examples(8))
@given(st.data())
def test_any_history_reads_as_a_dict_would(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    where = tmp_path_factory.mktemp("history") / "t"
    buckets = data.draw(st.sampled_from([1, 3]))
    dataset = lancelet.write_dataset(rows([0, 1, 2], "base "), where, enable_stable_row_ids=data.draw(st.booleans()))
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=buckets)
    model = {number: f"base {number}" for number in (0, 1, 2)}
    flushed = dict(model)
    writer = dataset.writer()
    for step in range(data.draw(st.integers(1, 7))):
        kind = data.draw(st.sampled_from(["put", "put", "delete", "flush", "compact", "reopen", "clean"]))
        ids = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
        if kind == "put":
            writer.put(rows(ids, f"{step} "))
            model.update({number: f"{step} {number}" for number in ids})
        elif kind == "delete":
            writer.delete({"id": ids})
            for number in ids:
                model.pop(number, None)
        elif kind == "flush":
            writer.flush()
            flushed = dict(model)
        elif kind == "compact":
            dataset.compact_mem_wal()
            assert texts(dataset.to_table()) == flushed
        elif kind == "clean":
            lancelet.dataset(where).cleanup_mem_wal(timedelta(0))
        else:
            writer = dataset.writer()
            # A shard is claimed, and its log read, with the first row for it: here all of them.
            writer.delete({"id": list(range(100, 140))})
        assert texts(dataset.lsm_scanner().to_table()) == flushed
        strong = dataset.lsm_scanner(strong=True)
        assert texts(strong.to_table()) == model
        assert strong.count_rows() == len(model)
        assert texts(strong.take_keys(pa.array(range(8), pa.int64()))) == model


def test_runs_of_the_first_model_are_read_and_compacted(tmp_path: Path) -> None:
    """Regions knew no deletions, and no files beside a run that find its keys."""
    keyed_table(tmp_path, [1, 2])
    lancelet.write_dataset(rows([2, 3], "region "), tmp_path / "_mem_wal" / str(SHARD) / "flushed_1")
    message = mem_wal_pb2.ShardManifest(version=1, writer_epoch=1, current_generation=2)
    message.shard_id.uuid = SHARD.bytes
    message.sstables.add(generation=1, path="flushed_1")
    folder = tmp_path / "_mem_wal" / str(SHARD)
    (folder / "manifest").mkdir()
    (folder / manifest_path(1)).write_bytes(message.SerializeToString())
    dataset = lancelet.dataset(tmp_path)
    expected = {1: "base 1", 2: "region 2", 3: "region 3"}
    assert texts(dataset.lsm_scanner().to_table()) == expected
    assert texts(dataset.lsm_scanner(strong=True).take_keys(pa.array([2, 3]))) == {2: "region 2", 3: "region 3"}
    dataset.compact_mem_wal()
    assert texts(dataset.to_table()) == expected
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.delete({"id": [3]})
    assert texts(dataset.lsm_scanner().to_table()) == {1: "base 1", 2: "region 2"}


def entry_of_a_region(table: pa.Table, epoch: int) -> bytes:
    """An entry that tells no ids and has no deletions."""
    plain = pa.schema([field.remove_metadata() for field in table.schema], {b"writer_epoch": str(epoch).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain) as stream:
        stream.write_table(table.cast(plain))
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("last", [0, 2])
def test_logs_of_the_first_model_begin_at_0(tmp_path: Path, last: int, flushed: bool) -> None:
    """A state says 0 when nothing was flushed, and when the entry 0 was."""
    keyed_table(tmp_path, [1])
    folder = tmp_path / "_mem_wal" / str(SHARD)
    message = mem_wal_pb2.ShardManifest(version=1, writer_epoch=1, current_generation=2 if flushed else 1)
    message.shard_id.uuid = SHARD.bytes
    if flushed:
        message.sstables.add(generation=1, path="flushed_1")
        lancelet.write_dataset(rows([1, 2], "flushed "), folder / "flushed_1")
    (folder / "manifest").mkdir(parents=True)
    (folder / "wal").mkdir()
    (folder / manifest_path(1)).write_bytes(message.SerializeToString())
    for position in range(last + 1):
        (folder / entry_path(position)).write_bytes(entry_of_a_region(rows([2, 10 + position], f"{position} "), 1))
    dataset = lancelet.dataset(tmp_path)
    expected = {1: "flushed 1", 2: "flushed 2"} if flushed else {1: "base 1"}
    for position in range(1 if flushed else 0, last + 1):
        expected |= {2: f"{position} 2", 10 + position: f"{position} {10 + position}"}
    assert texts(dataset.lsm_scanner(strong=True).to_table()) == expected
    with dataset.mem_wal_writer(str(SHARD)) as writer:
        writer.flush()
        assert texts(dataset.lsm_scanner().to_table()) == expected
        writer.put(rows([99], "new "))
    dataset.compact_mem_wal()
    assert texts(dataset.to_table()) == {**expected, 99: "new 99"}

"""What the table's entry tells of shards, in the picture of today and in that of the first model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import CorruptFile, InvalidInput
from lancelet.format.proto import mem_wal_pb2, table_pb2
from lancelet.memwal.details import TYPE_URL, require_details
from lancelet.memwal.run_files import Run
from lancelet.memwal.shard_manifest import list_shards
from lancelet.memwal.sharding import evaluate
from lancelet.memwal.view import take_view
from lancelet.table.commit import operations as ops
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX
from lancelet.table.commit.run import commit
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import KEY, OTHER, SHARD, keyed_table, open_writer, rows

REGIONS = pa.schema(
    [
        pa.field("region_id", pa.binary(16)),
        pa.field("version", pa.uint64()),
        pa.field("region_spec_id", pa.uint32()),
        pa.field("writer_epoch", pa.uint64()),
        pa.field("replay_after_wal_entry_position", pa.uint64()),
        pa.field("wal_entry_position_last_seen", pa.uint64()),
        pa.field("current_generation", pa.uint64()),
        pa.field("merged_generation", pa.uint64()),
        pa.field("flushed_generations", pa.list_(pa.struct([("generation", pa.uint64()), ("path", pa.string())]))),
        pa.field("bucket", pa.int32()),
    ]
)


def stored(table: pa.Table, where: Path) -> bytes:
    """A table as the bytes of a Lance file, written by pylance."""
    with lance.file.LanceFileWriter(str(where), table.schema) as writer:
        writer.write_batch(table)
    return where.read_bytes()


def tell(where: Path, data: bytes) -> None:
    """Put a picture into the entry, as whoever keeps it up does."""
    snapshot = open_snapshot(where)
    old = next(index for index in snapshot.manifest.indices if index.name == MEM_WAL_INDEX)
    message = mem_wal_pb2.MemWalIndexDetails.FromString(old.index_details.value)
    message.inline_snapshots = data
    message.snapshot_ts_millis = 1
    entry = table_pb2.IndexMetadata()
    entry.CopyFrom(old)
    entry.uuid.uuid = bytes(15) + b"\1"
    entry.index_details.type_url = TYPE_URL
    entry.index_details.value = message.SerializeToString()
    commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),), (ops.IndexSegment.of(old),)))


def region(shard: Any, bucket: int, runs: list[tuple[int, str]]) -> dict[str, Any]:
    numbers = {"version": 3, "region_spec_id": 1, "writer_epoch": 2, "replay_after_wal_entry_position": 5}
    flushed = [{"generation": generation, "path": path} for generation, path in runs]
    return {
        "region_id": shard.bytes,
        **numbers,
        "wal_entry_position_last_seen": 6,
        "current_generation": len(runs) + 1,
        "merged_generation": 0,
        "flushed_generations": flushed,
        "bucket": bucket,
    }


def pictures(tmp_path: Path) -> dict[str, bytes]:
    regions = pa.Table.from_pylist([region(SHARD, 0, [(1, "x_gen_1")]), region(OTHER, 1, [])], REGIONS)
    shards = pa.table(
        {
            "shard_id": [str(SHARD), str(OTHER)],
            "shard_spec_id": pa.array([1, 1], pa.uint32()),
            "shard_field_bucket": pa.array([0, 1], pa.int32()),
        }
    )
    return {name: stored(table, tmp_path / name) for name, table in {"regions": regions, "shards": shards}.items()}


@pytest.mark.parametrize("kind", ["regions", "shards"])
def test_both_pictures_are_read_and_shown(tmp_path: Path, kind: str) -> None:
    where = tmp_path / "t"
    keyed_table(where, [1], bucket_column="id", num_buckets=2)
    tell(where, pictures(tmp_path)[kind])
    told = require_details(open_snapshot(where)).told
    assert {shard: dict(one.field_values) for shard, one in told.items()} == {
        SHARD: {"bucket": bytes(4)},
        OTHER: {"bucket": b"\1\0\0\0"},
    }
    shown = lancelet.dataset(where).mem_wal_index_details()
    assert shown is not None
    first = shown["shard_snapshots"][0]
    assert (first["shard_id"], first["shard_spec_id"]) == (str(SHARD), 1)
    if kind == "regions":
        assert (first["version"], first["writer_epoch"], first["current_generation"]) == (3, 2, 2)
        assert (first["replay_after_wal_entry_position"], first["wal_entry_position_last_seen"]) == (5, 6)
        assert first["sstables"] == [{"generation": 1, "path": "x_gen_1"}]
    assert lance.dataset(where).mem_wal_index_details()["num_shards"] == 2, "pylance passes over it"


@pytest.mark.parametrize("kind", ["regions", "shards"])
def test_which_rows_a_shard_has_is_learned_where_its_state_does_not_say(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "t"
    keyed_table(where, [1], bucket_column="id", num_buckets=2)
    snapshot = open_snapshot(where)
    (spec,) = require_details(snapshot).specs
    buckets = evaluate(pa.record_batch({"id": range(20)}), spec, snapshot.manifest.schema).column(0)
    kept = [[key for key in range(20) if buckets[key].as_py() == bucket] for bucket in (0, 1)]
    for shard, ids in zip((SHARD, OTHER), kept, strict=True):
        with lance.dataset(where).mem_wal_writer(str(shard)) as writer:
            writer.put(rows(ids, "new "))
    with pytest.raises(InvalidInput, match="does not say which rows it has"):
        lancelet.dataset(where).writer()
    tell(where, pictures(tmp_path)[kind])
    asked: list[str] = []
    may_hold = Run.may_hold

    def noted(run: Run, columns: Any) -> bool:
        asked.append(run.store.uri)
        return may_hold(run, columns)

    monkeypatch.setattr(Run, "may_hold", noted)
    dataset = lancelet.dataset(where)
    assert dataset.lsm_scanner().take_keys(pa.array([kept[1][0]]))["text"].to_pylist() == [f"new {kept[1][0]}"]
    assert [str(OTHER) in uri for uri in asked] == [True]
    assert dataset.lsm_scanner().count_rows() == 20
    with dataset.writer() as writer:
        writer.put(rows([kept[0][0], kept[1][0]], "newer "))
    shards = {one.shard for one in take_view(open_snapshot(where), dataset.table.cache).shards}
    assert shards == {SHARD, OTHER}, "rows went to the shards of their buckets"
    dataset.compact_mem_wal()
    assert len(require_details(open_snapshot(where)).told) == 2, "commits carry the picture on"


def test_states_of_a_shard_are_newer_than_the_picture(tmp_path: Path) -> None:
    where = tmp_path / "t"
    keyed_table(where, [1])
    with open_writer(where) as writer:
        writer.put(rows([2], "new "))
    lost = pa.Table.from_pylist([region(SHARD, 0, [(1, "x_gen_1")])], REGIONS)
    tell(where, stored(lost, tmp_path / "lost"))
    assert lancelet.dataset(where).lsm_scanner().count_rows() == 2
    for file in (where / "_mem_wal" / str(SHARD) / "manifest").iterdir():
        file.unlink()
    with pytest.raises(CorruptFile, match=r"no states any more.*x_gen_1.*put the folder 'manifest' back"):
        lancelet.dataset(where).lsm_scanner().count_rows()


@pytest.mark.parametrize("data", [b"no file at all", "without names"])
def test_a_damaged_picture_is_told_of_by_its_name(tmp_path: Path, data: bytes | str) -> None:
    where = tmp_path / "t"
    keyed_table(where, [1], bucket_column="id", num_buckets=2)
    tell(where, data if isinstance(data, bytes) else stored(pa.table({"a": [1]}), tmp_path / "other"))
    with pytest.raises(
        CorruptFile, match=r"manifest.*what it tells of the shards of its MemWAL cannot be read"
    ) as told:
        lancelet.dataset(where).mem_wal_index_details()
    assert "inline_snapshots" in str(told.value)


def test_rows_are_found_where_shards_go_by_what_nobody_knows(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("text", pa.string())])
    dataset = lancelet.write_dataset(pa.table({"id": [1], "text": ["base"]}, schema), tmp_path / "t")
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=1)
    with dataset.writer() as writer:
        writer.put({"id": [1, 2], "text": ["new", "new"]})
    snapshot = open_snapshot(tmp_path / "t")
    details = require_details(snapshot)
    details.message.sharding_specs[0].fields[0].transform = "year"
    old = next(index for index in snapshot.manifest.indices if index.name == MEM_WAL_INDEX)
    entry = table_pb2.IndexMetadata()
    entry.CopyFrom(old)
    entry.uuid.uuid = bytes(15) + b"\2"
    entry.index_details.value = details.message.SerializeToString()
    commit(snapshot, ops.CreateIndex((ops.IndexSegment.of(entry),), (ops.IndexSegment.of(old),)))
    dataset = lancelet.dataset(tmp_path / "t")
    assert dataset.lsm_scanner().take_keys(pa.array([1, 2]))["text"].to_pylist() == ["new", "new"]
    writer = dataset.writer()
    with pytest.raises(OSError, match=r"Unsupported MemWAL sharding transform for field 'bucket': 'year'.*shard_id"):
        writer.put({"id": [3], "text": ["x"]})
    (shard,) = list_shards(snapshot.store)
    with dataset.writer(shard_id=str(shard)) as named:
        named.put({"id": [3], "text": ["x"]})
    dataset.compact_mem_wal()
    assert sorted(dataset.to_table()["text"].to_pylist()) == ["new", "new", "x"]

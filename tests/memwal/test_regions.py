"""A table of the first model, whose shards were regions: every message by the names and numbers that it had then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import lancelet
from lancelet.format.proto import table_pb2
from lancelet.memwal.details import TYPE_URL, require_details
from lancelet.memwal.names import entry_path, manifest_path
from lancelet.memwal.sharding import evaluate
from lancelet.table.commit import operations as ops
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX
from lancelet.table.commit.run import commit
from lancelet.table.manifest.snapshot import open_snapshot
from memwal.samples import OTHER, SHARD, rows

MESSAGES = {
    "UUID": {"uuid": (1, "bytes")},
    "FlushedGeneration": {"generation": (1, "uint64"), "path": (2, "string")},
    "MergedGeneration": {"region_id": (1, "UUID"), "generation": (2, "uint64")},
    "RegionManifest": {
        "region_id": (11, "UUID"),
        "version": (1, "uint64"),
        "region_spec_id": (10, "uint32"),
        "writer_epoch": (2, "uint64"),
        "replay_after_wal_entry_position": (3, "uint64"),
        "wal_entry_position_last_seen": (4, "uint64"),
        "current_generation": (6, "uint64"),
        "flushed_generations": (8, "FlushedGeneration*"),
    },
    "Parameter": {"key": (1, "string"), "value": (2, "string")},
    "RegionField": {
        "field_id": (1, "string"),
        "source_ids": (2, "int32*"),
        "transform": (3, "string"),
        "result_type": (5, "string"),
        "parameters": (6, "Parameter*"),
    },
    "RegionSpec": {"spec_id": (1, "uint32"), "fields": (2, "RegionField*")},
    "MemWalIndexDetails": {
        "snapshot_ts_millis": (1, "int64"),
        "num_regions": (2, "uint32"),
        "region_specs": (7, "RegionSpec*"),
        "maintained_indexes": (8, "string*"),
        "merged_generations": (9, "MergedGeneration*"),
    },
}


def build() -> dict[str, Any]:
    """The classes of these messages."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="regions.proto", package="regions", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            one = message.field.add(name=field, number=number)
            one.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            if kind in MESSAGES:
                one.type, one.type_name = kinds.TYPE_MESSAGE, f".regions.{kind}"
            else:
                one.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"regions.{name}")) for name in MESSAGES}


def entry(table: pa.Table) -> bytes:
    """An entry of then: no ids, no deletions."""
    plain = pa.schema([field.remove_metadata() for field in table.schema], {b"writer_epoch": b"1"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain) as stream:
        stream.write_table(table.cast(plain))
    return sink.getvalue().to_pybytes()


def make(where: Path) -> list[list[int]]:
    """Two regions by a bucket: the first run of one is merged, the second is not, and its log goes on; returns keys of each."""
    proto = build()
    dataset = lancelet.write_dataset(rows(list(range(20)), "base "), where)
    dataset.create_scalar_index("val", "BTREE", name="by_val")
    field = proto["RegionField"](field_id="bucket", source_ids=[0], transform="bucket", result_type="int32")
    field.parameters.add(key="num_buckets", value="2")
    details = proto["MemWalIndexDetails"](snapshot_ts_millis=7, num_regions=2, maintained_indexes=["by_val"])
    details.region_specs.add(spec_id=1).fields.append(field)
    details.merged_generations.add(generation=1).region_id.uuid = SHARD.bytes
    added = table_pb2.IndexMetadata(name=MEM_WAL_INDEX, dataset_version=2)
    added.uuid.uuid = bytes(15) + b"\1"
    added.index_details.type_url = TYPE_URL
    added.index_details.value = details.SerializeToString()
    snapshot = commit(open_snapshot(where), ops.CreateIndex((ops.IndexSegment.of(added),)))
    (spec,) = require_details(snapshot).specs
    buckets = evaluate(pa.record_batch({"id": range(40)}), spec, snapshot.manifest.schema).column(0).to_pylist()
    keys = [[key for key in range(40) if buckets[key] == bucket] for bucket in (0, 1)]
    for shard in (SHARD, OTHER):
        folder = where / "_mem_wal" / str(shard)
        state = proto["RegionManifest"](version=1, region_spec_id=1, writer_epoch=1, current_generation=1)
        state.region_id.uuid = shard.bytes
        if shard == SHARD:
            state.current_generation, state.replay_after_wal_entry_position = 3, 1
            state.wal_entry_position_last_seen = 2
            for generation in (1, 2):
                state.flushed_generations.add(generation=generation, path=f"flushed_{generation}")
            lancelet.write_dataset(rows(keys[0][:3], "run "), folder / "flushed_2")
        (folder / manifest_path(1)).parent.mkdir(parents=True)
        (folder / manifest_path(1)).write_bytes(state.SerializeToString())
    (where / "_mem_wal" / str(SHARD) / "wal").mkdir()
    for position, ids in ((2, keys[0][2:4]), (3, keys[0][-1:])):
        (where / "_mem_wal" / str(SHARD) / entry_path(position)).write_bytes(entry(rows(ids, "log ")))
    (where / "_mem_wal" / str(OTHER) / "wal").mkdir()
    (where / "_mem_wal" / str(OTHER) / entry_path(0)).write_bytes(entry(rows(keys[1][:1], "log ")))
    return keys


def texts(table: pa.Table) -> dict[int, str]:
    return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))


def test_a_whole_table_of_regions_is_read_gone_on_with_and_compacted(tmp_path: Path) -> None:
    where = tmp_path / "t"
    first, second = make(where)
    dataset = lancelet.dataset(where)
    expected = {key: f"base {key}" for key in range(20)} | {key: f"run {key}" for key in first[:3]}
    assert texts(dataset.lsm_scanner().to_table()) == expected
    expected |= {key: f"log {key}" for key in (*first[2:4], first[-1], second[0])}
    strong = dataset.lsm_scanner(strong=True)
    assert texts(strong.to_table()) == expected
    assert texts(strong.take_keys(pa.array([first[0], first[-1], second[0]]))) == {
        key: expected[key] for key in (first[0], first[-1], second[0])
    }
    for shard in (SHARD, OTHER):
        with dataset.mem_wal_writer(str(shard)) as writer:
            writer.delete({"id": [(first if shard == SHARD else second)[1]]})
    for key in (first[1], second[1]):
        del expected[key]
    assert texts(dataset.lsm_scanner().to_table()) == expected
    dataset.compact_mem_wal()
    assert texts(lance.dataset(where).to_table()) == expected
    details = lance.dataset(where).mem_wal_index_details()
    assert (details["num_shards"], details["maintained_indexes"]) == (2, ["by_val"])
    with lance.dataset(where).mem_wal_writer(str(SHARD)) as theirs:
        theirs.put(rows(first[:1], "pylance "))
    dataset.compact_mem_wal()
    assert texts(dataset.to_table()) == expected | {first[0]: f"pylance {first[0]}"}

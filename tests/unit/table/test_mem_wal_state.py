"""Progress of a MemWAL in the manifest: what we do not know of its entry stays."""

from __future__ import annotations

from uuid import UUID

import pytest

from lancelet.errors import CommitConflict, CorruptFile, InvalidInput
from lancelet.format.proto import mem_wal_pb2, table_pb2
from lancelet.table.commit.index_upkeep import MEM_WAL_INDEX
from lancelet.table.commit.mem_wal_state import record_compacted
from lancelet.table.commit.operations import CompactedSsTable

SHARD, OTHER = UUID(int=3), UUID(int=4)
LATER_FIELD = b"\xfa\x3f\x05later"
"""Field 1023, a text: what a later release might add."""


def entry(details: bytes) -> table_pb2.IndexMetadata:
    message = table_pb2.IndexMetadata(name=MEM_WAL_INDEX, dataset_version=1)
    message.index_details.value = details
    return message


def test_progress_is_noted_and_the_rest_stays_known_or_not():
    before = mem_wal_pb2.MemWalIndexDetails(maintain_all_indexes=False, maintained_indexes=["a"], num_shards=2)
    before.compacted_sstables.add(generation=4).shard_id.uuid = SHARD.bytes
    (after,) = record_compacted(
        [entry(before.SerializeToString() + LATER_FIELD)],
        (CompactedSsTable(SHARD, 5), CompactedSsTable(OTHER, 1)),
        7,
        "file",
    )
    details = mem_wal_pb2.MemWalIndexDetails.FromString(after.index_details.value)
    reached = {UUID(bytes=table.shard_id.uuid): table.generation for table in details.compacted_sstables}
    assert reached == {SHARD: 5, OTHER: 1}
    assert after.dataset_version == 7
    assert LATER_FIELD in after.index_details.value
    details.ClearField("compacted_sstables")
    before.ClearField("compacted_sstables")
    assert details.SerializeToString() == before.SerializeToString() + LATER_FIELD


@pytest.mark.parametrize("generation", [3, 4])
def test_a_run_that_is_in_the_table_already_is_a_conflict(generation: int):
    details = mem_wal_pb2.MemWalIndexDetails()
    details.compacted_sstables.add(generation=4).shard_id.uuid = SHARD.bytes
    with pytest.raises(CommitConflict, match="not newer than run 4"):
        record_compacted([entry(details.SerializeToString())], (CompactedSsTable(SHARD, generation),), 7, "file")


def test_damaged_details_are_our_error():
    with pytest.raises(CorruptFile, match="MemWAL index"):
        record_compacted([entry(b"\x0a\xff")], (CompactedSsTable(SHARD, 1),), 7, "file")


def test_a_table_without_a_mem_wal():
    with pytest.raises(InvalidInput, match="has no MemWAL"):
        record_compacted([], (CompactedSsTable(SHARD, 1),), 7, "file")

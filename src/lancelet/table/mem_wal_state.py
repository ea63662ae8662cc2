"""Progress of a MemWAL in the table's manifest (spec memwal.md 3 and 8.1).

The index entry ``__lance_mem_wal`` records the last generation of each shard
that went into the table: field 9 of its details. A commit that merges runs
writes the entry anew, with a new uuid. All other fields of the details stay as
they are, known or not, so they are cut out of the bytes rather than parsed.
"""

from __future__ import annotations

import uuid as uuids
from typing import TYPE_CHECKING

from lancelet.errors import CommitConflict, CorruptFile, InvalidInput
from lancelet.format.proto import table_pb2, transaction_pb2
from lancelet.table.index_upkeep import MEM_WAL_INDEX, Indices
from lancelet.table.manifest import parse_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lancelet.table.operations import CompactedSsTable

COMPACTED = 9
_TAG = bytes([COMPACTED << 3 | 2])
_FIXED = {1: 8, 5: 4}


def record_compacted(indices: Indices, tables: tuple[CompactedSsTable, ...], version: int, path: str) -> Indices:
    """The indices with the progress of some shards noted."""
    at = next((number for number, index in enumerate(indices) if index.name == MEM_WAL_INDEX), None)
    if at is None:
        raise InvalidInput(f"{path} has no MemWAL, whose runs are to be marked as merged")
    entry = table_pb2.IndexMetadata()
    entry.CopyFrom(indices[at])
    kept, reached = [], dict[bytes, int]()
    for number, whole, content in _fields(entry.index_details.value, path):
        if number != COMPACTED:
            kept.append(whole)
            continue
        known = parse_message(content, transaction_pb2.Transaction.CompactedSsTable, path, "MemWAL index")
        reached[known.shard_id.uuid] = known.generation
    for table in tables:
        done = reached.get(table.shard.bytes, 0)
        if table.generation <= done:
            raise CommitConflict(
                path,
                version - 1,
                f"run {table.generation} of shard {table.shard} is not newer than run {done}, which is in the table "
                "already; merge only what comes after it",
            )
        reached[table.shard.bytes] = table.generation
    before = [whole for whole in kept if _number(whole) < COMPACTED]
    after = [whole for whole in kept if _number(whole) > COMPACTED]
    entry.index_details.value = b"".join([*before, *(_shard(*pair) for pair in reached.items()), *after])
    entry.uuid.uuid = uuids.uuid4().bytes
    entry.dataset_version = version
    return [*indices[:at], *indices[at + 1 :], entry]


def _shard(shard: bytes, generation: int) -> bytes:
    message = transaction_pb2.Transaction.CompactedSsTable(
        shard_id=table_pb2.UUID(uuid=shard), generation=generation
    ).SerializeToString()
    # A uuid and a number are always shorter than 128 bytes.
    return _TAG + bytes([len(message)]) + message


def _number(field: bytes) -> int:
    return _varint(field, 0, "")[0] >> 3


def _fields(data: bytes, path: str) -> Iterator[tuple[int, bytes, bytes]]:
    """The top-level fields of a message: number, all its bytes, and its content."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at, path)
        kind = tag & 7
        if kind == 0:
            content = at
            _, at = _varint(data, at, path)
        elif kind == 2:
            length, content = _varint(data, at, path)
            at = content + length
        elif kind in _FIXED:
            content = at
            at += _FIXED[kind]
        else:
            raise CorruptFile(path, f"has a field of the unknown wire type {kind}", "MemWAL index")
        if at > len(data):
            raise CorruptFile(path, "ends in the middle of a field", "MemWAL index")
        yield tag >> 3, data[start:at], data[content:at]


def _varint(data: bytes, at: int, path: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise CorruptFile(path, "has a number without an end", "MemWAL index")

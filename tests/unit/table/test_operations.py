"""Operations as values and as messages: nothing is lost on the way, in either direction."""

from __future__ import annotations

import pickle
from uuid import UUID

import pyarrow as pa
import pytest
from pyroaring import BitMap

from lancelet.errors import CorruptFile
from lancelet.format.proto import table_pb2
from lancelet.format.proto import transaction_pb2 as pb
from lancelet.format.schema import schema_from_arrow
from lancelet.table.commit import operations as ops
from lancelet.table.commit.properties import COMMIT_MESSAGE
from lancelet.table.commit.transactions import transaction_from_proto, transaction_message
from lancelet.table.manifest.fragment import DataFile, DeletionFile, Fragment, OverlayFile, Spilled, fragment_from_proto
from lancelet.table.manifest.manifest import BasePath
from lancelet.table.manifest.messages import fragment_message

FILE = DataFile("a.lance", (0, 3, -2), (0, 1, 2), 2, 1, 99, 0)
LEGACY = DataFile("b.lance", (0, 1), (), 0, 2)
ROWS = BitMap([1, 70000]).serialize()
FRAGMENTS = (
    Fragment(0, (FILE,)),
    Fragment(
        7,
        (FILE, LEGACY),
        DeletionFile(True, 3, 2**64 - 1, 5, 0),
        100,
        b"\n\x00",
        b"",
        b"\n\x01",
        (OverlayFile(FILE, (ROWS, ROWS, ROWS), 9), OverlayFile(LEGACY, (ROWS,), 0)),
    ),
    Fragment(8, (), DeletionFile(False, 0, 0, None), 5, Spilled.COLUMN, Spilled.COLUMN, Spilled.COLUMN),
)
SCHEMA = schema_from_arrow(
    pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
            pa.field("st", pa.struct([("x", pa.list_(pa.string())), ("d", pa.dictionary(pa.int8(), pa.string()))])),
        ],
        metadata={"a": "ü"},
    )
)
BASES = (BasePath("/x", None, True, 0), BasePath("s3://y", "name", False, 5))
SHARDS = (ops.CompactedSsTable(UUID(int=3), 0), ops.CompactedSsTable(UUID(int=4), 9))


def segment(name: str = "i", *fragments: int, fields: tuple[int, ...] = (0,), number: int = 1) -> ops.IndexSegment:
    message = table_pb2.IndexMetadata(name=name, fields=fields, index_version=0, created_at=5)
    message.uuid.uuid = UUID(int=number).bytes
    message.fragment_bitmap = BitMap(fragments).serialize()
    message.index_details.type_url = "/somebody.Else"
    message.index_details.value = b"\xff\x00 not a message"
    return ops.IndexSegment.of(message)


OPERATIONS: list[ops.Operation] = [
    ops.Append(FRAGMENTS),
    ops.Append(()),
    ops.Delete(FRAGMENTS, (1, 2**32 - 1), "k > 3"),
    ops.Overwrite(SCHEMA, FRAGMENTS, {"a": "b"}, BASES),
    ops.CreateIndex((segment("x", 1, 2),), (segment("y"),)),
    ops.Rewrite(
        (ops.RewriteGroup(FRAGMENTS[:1], FRAGMENTS[1:]), ops.RewriteGroup(FRAGMENTS[1:], ())),
        (ops.RewrittenIndex(UUID(int=1), UUID(int=2), "/some.Details", b"\xff", 3, (("p", 1), ("q", 2))),),
    ),
    ops.Merge(FRAGMENTS, SCHEMA, True),
    ops.Restore(3),
    ops.ReserveFragments(4),
    ops.Update(
        (1,), FRAGMENTS, FRAGMENTS, (2,), (3, 4), False, ops.KeyFilter((0,), b"\x01\x02", 16, 8, 0.5), {}, SHARDS
    ),
    ops.Update((), (), (), (2,), (), True, ops.KeyFilter((0, 1), hashes=frozenset([1, 2**64 - 1])), {4: ROWS, 0: ROWS}),
    ops.Project(schema_from_arrow(pa.schema([("k", pa.int64())])), True),
    ops.UpdateConfig(
        ops.MapEdits({"a": "1", "b": None}),
        ops.MapEdits({}, True),
        ops.MapEdits({"": ""}),
        {0: ops.MapEdits({"x": None}), 9: ops.MapEdits({"x": "y"}, True)},
    ),
    ops.UpdateConfig(),
    ops.DataReplacement(((0, FILE), (3, LEGACY))),
    ops.UpdateMemWalState(SHARDS),
    ops.Clone(True, "tag", 3, "/source", "dev"),
    ops.Clone(False, None, 0, "", None),
    ops.UpdateBases(BASES),
    ops.DataOverlay(((3, FRAGMENTS[1].overlays), (4, ()))),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_round_trip(operation: ops.Operation) -> None:
    transaction = ops.Transaction(2**40, operation, "some-uuid", {COMMIT_MESSAGE: "hello"}, "tag")
    data = transaction_message(transaction).SerializeToString()
    again = transaction_from_proto(pb.Transaction.FromString(data), "file")
    assert again == transaction
    assert pickle.loads(pickle.dumps(transaction)) == transaction
    assert transaction.file_name == f"{2**40}-some-uuid.txn"


def test_every_operation_is_here() -> None:
    known = {transaction_message(ops.Transaction(1, op)).WhichOneof("operation") for op in OPERATIONS}
    assert known == {field.name for field in pb.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields}


def test_fragments_keep_everything() -> None:
    for fragment in FRAGMENTS:
        assert fragment_from_proto(fragment_message(fragment), "file") == fragment


def test_indices_are_kept_byte_for_byte() -> None:
    data = segment("x", 1).data + bytes.fromhex("62020801")  # field 12, which the format reserves
    index = ops.IndexSegment(data)
    message = transaction_message(ops.Transaction(1, ops.CreateIndex((index,))))
    again = transaction_from_proto(pb.Transaction.FromString(message.SerializeToString()), "file")
    assert again is not None
    assert isinstance(again.operation, ops.CreateIndex)
    assert again.operation.new_indices[0].data == data
    assert index.fragment_ids == {1}
    assert ops.IndexSegment.of(table_pb2.IndexMetadata(name="x")).fragment_ids is None


def test_older_spellings() -> None:
    message = pb.Transaction()
    message.update_config.upsert_values["a"] = "1"
    message.update_config.delete_keys.append("b")
    message.update_config.schema_metadata["s"] = "t"
    message.update_config.field_metadata[3].metadata["x"] = "y"
    read = transaction_from_proto(message, "file")
    assert read is not None
    assert read.operation == ops.UpdateConfig(
        ops.MapEdits({"a": "1", "b": None}),
        None,
        ops.MapEdits({"s": "t"}, True),
        {3: ops.MapEdits({"x": "y"}, True)},
    )
    message = pb.Transaction()
    message.rewrite.old_fragments.add(id=1)
    message.rewrite.new_fragments.add(id=2)
    read = transaction_from_proto(message, "file")
    assert read is not None
    assert read.operation == ops.Rewrite((ops.RewriteGroup((Fragment(1, ()),), (Fragment(2, ()),)),))
    message = pb.Transaction()
    message.update.updated_fragment_offsets[5].offsets.extend([3, 1])
    read = transaction_from_proto(message, "file")
    assert read is not None
    assert isinstance(read.operation, ops.Update)
    assert BitMap.deserialize(read.operation.updated_offsets[5]) == BitMap([1, 3])


def test_what_cannot_be_read() -> None:
    assert transaction_from_proto(pb.Transaction(read_version=1, uuid="u"), "file") is None
    unknown = pb.Transaction.FromString(bytes.fromhex("a20700"))  # an empty message as operation 116
    assert transaction_from_proto(unknown, "file") is None
    message = pb.Transaction()
    message.update_mem_wal_state.compacted_sstables.add().shard_id.uuid = b"short"
    with pytest.raises(CorruptFile, match="5 bytes"):
        transaction_from_proto(message, "file")

"""Operations on the wire, in the commit layer and in users' hands: nothing is lost between them.

Messages are drawn by walking the descriptors, so that a field that is added to a ``.proto`` without a conversion fails here.
"""

from __future__ import annotations

import pickle
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from drawing import examples
from lancelet._api.conversion import shown_transaction, stored_transaction
from lancelet.format.proto import file_pb2, table_pb2
from lancelet.format.proto import transaction_pb2 as pb
from lancelet.table.commit.transactions import transaction_from_proto, transaction_message

OPERATIONS = [field.name for field in pb.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields]
OLDER = {
    # Spellings of older writers, each read into the current one; they have tests of their own below.
    "lance.table.Transaction.Rewrite.old_fragments",
    "lance.table.Transaction.Rewrite.new_fragments",
    "lance.table.Transaction.Update.updated_fragment_offsets",
    "lance.table.Transaction.UpdateConfig.upsert_values",
    "lance.table.Transaction.UpdateConfig.delete_keys",
    "lance.table.Transaction.UpdateConfig.schema_metadata",
    "lance.table.Transaction.UpdateConfig.field_metadata",
}
REFUSED = {
    # No release writes them, and reading says so.
    "lance.table.DataFragment.external_row_ids",
    "lance.table.DataFragment.external_created_at_versions",
    "lance.table.DataFragment.external_last_updated_at_versions",
}
LEFT = OLDER | REFUSED

WHOLE = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(0, 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(1, 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(1, 2**53),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(0.1, 1),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(0.1, 1, width=32),
    FieldDescriptor.CPPTYPE_BOOL: st.just(True),
    FieldDescriptor.CPPTYPE_STRING: st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
}
BITMAPS = st.sets(st.integers(0, 2**32 - 1), max_size=4).map(lambda rows: BitMap(rows).serialize())
UUIDS = st.uuids().map(lambda uuid: uuid.bytes)


@st.composite
def schemas(draw: st.DrawFn) -> list[file_pb2.Field]:
    """A schema's messages are rebuilt, not copied; ``tests/unit/table/test_manifest.py`` has all that they say."""
    names = draw(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=3, unique=True))
    return [
        file_pb2.Field(name=name, id=number, parent_id=-1, logical_type="int64", nullable=True, encoding="PLAIN")
        for number, name in enumerate(names)
    ]


@st.composite
def data_files(draw: st.DrawFn) -> table_pb2.DataFile:
    numbers = draw(st.lists(st.integers(-5, 100), min_size=1, max_size=3, unique=True))
    message = filled(draw, table_pb2.DataFile, {"fields", "column_indices"})
    message.fields.extend(numbers)
    message.column_indices.extend(range(len(numbers)))
    return message


@st.composite
def overlays(draw: st.DrawFn) -> table_pb2.DataOverlayFile:
    message = table_pb2.DataOverlayFile(data_file=draw(data_files()), committed_version=draw(st.integers(1, 99)))
    if draw(st.booleans()) and len(message.data_file.fields) > 1:
        message.field_coverage.offset_bitmaps.extend(draw(BITMAPS) for _ in message.data_file.fields)
    else:
        message.shared_offset_bitmap = draw(BITMAPS)
    return message


@st.composite
def fragments(draw: st.DrawFn) -> table_pb2.DataFragment:
    message = filled(draw, table_pb2.DataFragment, {"id", "physical_rows"})
    message.id, message.physical_rows = draw(st.integers(0, 2**32 - 1)), 2**32
    if message.HasField("deletion_file"):
        message.deletion_file.num_deleted_rows %= 2**32
    return message


@st.composite
def segments(draw: st.DrawFn) -> table_pb2.IndexMetadata:
    message = filled(draw, table_pb2.IndexMetadata, {"created_at"})
    message.created_at = draw(st.integers(0, 2**41))
    return message


MESSAGES: dict[str, st.SearchStrategy[Any]] = {
    "lance.table.DataFile": data_files(),
    "lance.table.DataFragment": fragments(),
    "lance.table.DataOverlayFile": overlays(),
    "lance.table.IndexMetadata": segments(),
    "lance.table.UUID": UUIDS.map(lambda data: table_pb2.UUID(uuid=data)),
}
BYTES = {
    "lance.table.IndexMetadata.fragment_bitmap": BITMAPS,
    "lance.table.Transaction.Update.UpdatedFragmentOffsetBitmapsEntry.value": BITMAPS,
    "lance.table.Transaction.Overwrite.SchemaMetadataEntry.value": st.just("ü".encode()),
    "lance.table.Transaction.Merge.SchemaMetadataEntry.value": st.just(b"x"),
}


def value(draw: st.DrawFn, field: FieldDescriptor) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return draw(drawn(field.message_type._concrete_class))
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return draw(st.sampled_from([entry.number for entry in field.enum_type.values]))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw(BYTES.get(field.full_name, st.binary(min_size=1, max_size=4)))
    return draw(WHOLE[field.cpp_type])


@st.composite
def drawn(draw: st.DrawFn, kind: type[Message]) -> Message:
    known = MESSAGES.get(kind.DESCRIPTOR.full_name)
    return filled(draw, kind) if known is None else draw(known)


def filled(draw: st.DrawFn, kind: type[Message], leave: set[str] = frozenset()) -> Any:  # type: ignore[assignment]
    """A message with a value in every field that can have one, one of each ``oneof``."""
    message = kind()
    chosen = {
        draw(st.sampled_from([field.name for field in group.fields if field.full_name not in LEFT]))
        for group in kind.DESCRIPTOR.oneofs
    }
    for field in kind.DESCRIPTOR.fields:
        if field.name in leave or field.full_name in LEFT:
            continue
        if field.containing_oneof is not None and field.name not in chosen:
            continue
        if field.name == "schema":
            message.schema.extend(draw(schemas()))
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, entry = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            target = getattr(message, field.name)
            if entry.message_type is None:
                target[value(draw, key)] = value(draw, entry)
            else:
                target[value(draw, key)].CopyFrom(value(draw, entry))
        elif field.is_repeated:
            getattr(message, field.name).extend([value(draw, field)])
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(value(draw, field))
            getattr(message, field.name).SetInParent()
        else:
            setattr(message, field.name, value(draw, field))
    return message


@st.composite
def transactions(draw: st.DrawFn, kind: str) -> pb.Transaction:
    message = pb.Transaction(read_version=draw(st.integers(1, 2**40)), uuid=str(draw(st.uuids())), tag="t")
    message.transaction_properties["who"] = draw(st.text(st.characters(codec="utf-8"), max_size=3))
    field = pb.Transaction.DESCRIPTOR.fields_by_name[kind]
    getattr(message, kind).CopyFrom(draw(drawn(field.message_type._concrete_class)))
    getattr(message, kind).SetInParent()
    return message


@pytest.mark.parametrize("kind", OPERATIONS)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_every_field_of_every_operation_comes_back_from_users_hands(kind: str, data: st.DataObject) -> None:
    message = data.draw(transactions(kind))
    stored = transaction_from_proto(message, "file")
    assert stored is not None
    assert transaction_message(stored) == message, "lost between the wire and the commit layer"
    shown = pickle.loads(pickle.dumps(shown_transaction(stored)))
    assert transaction_message(stored_transaction(shown)) == message, "lost in users' hands"


def shown(message: pb.Transaction) -> Any:
    stored = transaction_from_proto(message, "file")
    assert stored is not None
    return shown_transaction(stored).operation


def test_metadata_of_old_transactions_is_a_whole_new_map() -> None:
    message = pb.Transaction()
    message.update_config.upsert_values["a"] = "1"
    message.update_config.delete_keys.append("b")
    message.update_config.schema_metadata["c"] = "3"
    message.update_config.field_metadata[4].metadata["d"] = "5"
    update = shown(message)
    assert (update.config_updates.updates, update.config_updates.replace) == ({"a": "1", "b": None}, False)
    assert (update.schema_metadata_updates.updates, update.schema_metadata_updates.replace) == ({"c": "3"}, True)
    assert (update.field_metadata_updates[4].updates, update.field_metadata_updates[4].replace) == ({"d": "5"}, True)


def test_offsets_of_old_updates_are_shown() -> None:
    message = pb.Transaction()
    message.update.updated_fragment_offsets[3].offsets.extend([1, 70_000])
    assert BitMap.deserialize(shown(message).updated_fragment_offsets[3]) == BitMap([1, 70_000])


def test_a_nameless_group_of_an_old_rewrite_is_shown() -> None:
    message = pb.Transaction()
    message.rewrite.old_fragments.add(id=1, physical_rows=2)
    message.rewrite.new_fragments.add(id=5, physical_rows=2)
    (group,) = shown(message).groups
    assert [f.id for f in group.old_fragments] == [1]
    assert [f.id for f in group.new_fragments] == [5]


def test_a_segment_that_was_changed_keeps_what_is_not_shown() -> None:
    message = pb.Transaction()
    entry = message.create_index.new_indices.add(name="i", fields=[3], dataset_version=2)
    entry.uuid.uuid = UUID(int=1).bytes
    entry.metadata["who"] = "me"
    stored = transaction_from_proto(message, "file")
    assert stored is not None
    transaction = shown_transaction(stored)
    transaction.operation.new_indices[0].name = "j"
    (changed,) = stored_transaction(transaction).operation.new_indices
    assert changed.name == "j"
    assert changed.message.metadata["who"] == "me"
    assert changed.fields == (3,)

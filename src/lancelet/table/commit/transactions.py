"""Transactions on the wire, both ways (spec table-format.md 6.2).

Older writers spelled some things differently; all spellings are read, the
current one is written::

    Rewrite       old_fragments, new_fragments        groups
    UpdateConfig  upsert_values, delete_keys, ...     config_updates, ...
    Update        updated_fragment_offsets            updated_fragment_offset_bitmaps
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from google.protobuf.any_pb2 import Any as AnyMessage
from pyroaring import BitMap

from lancelet.errors import CorruptFile
from lancelet.format.proto import file_pb2, mem_wal_pb2, table_pb2
from lancelet.format.proto import transaction_pb2 as pb
from lancelet.format.schema import Schema
from lancelet.format.schema_messages import metadata_bytes, schema_messages
from lancelet.table.commit import operations as ops
from lancelet.table.manifest.fragment import Fragment, data_file_from_proto, fragment_from_proto, overlay_from_proto
from lancelet.table.manifest.messages import (
    base_path_from_proto,
    base_path_message,
    data_file_message,
    fragment_messages,
    overlay_message,
)

Message = pb.Transaction


def transaction_message(transaction: ops.Transaction) -> Message:
    """The message of a transaction."""
    message = Message(
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        tag=transaction.tag,
        transaction_properties=dict(transaction.properties),
    )
    name, write = _WRITERS[type(transaction.operation)]
    getattr(message, name).CopyFrom(write(transaction.operation))
    return message


def transaction_from_proto(message: Message, path: str) -> ops.Transaction | None:
    """Read a transaction's message; None when we do not know its operation. ``path`` is the file that it came from."""
    kind = message.WhichOneof("operation")
    if kind is None:
        return None
    operation = _READERS[kind](getattr(message, kind), path)
    properties = dict(message.transaction_properties)
    return ops.Transaction(message.read_version, operation, message.uuid, properties, message.tag)


def _fragments(messages: Iterable[table_pb2.DataFragment], path: str) -> tuple[Fragment, ...]:
    return tuple(fragment_from_proto(message, path) for message in messages)


def _schema(messages: Iterable[file_pb2.Field], metadata: Mapping[str, bytes], path: str) -> Schema:
    return Schema.from_proto(list(messages), metadata, path=path)


def _uuid(message: table_pb2.UUID, path: str) -> UUID:
    if len(message.uuid) != 16:
        raise CorruptFile(path, f"has a uuid of {len(message.uuid)} bytes", "transaction")
    return UUID(bytes=message.uuid)


def _overwrite(operation: ops.Overwrite) -> pb.Transaction.Overwrite:
    return Message.Overwrite(
        fragments=fragment_messages(operation.fragments),
        schema=schema_messages(operation.schema),
        schema_metadata=metadata_bytes(operation.schema.metadata),
        config_upsert_values=dict(operation.config_upserts),
        initial_bases=[base_path_message(base) for base in operation.initial_bases],
    )


def _create_index(operation: ops.CreateIndex) -> pb.Transaction.CreateIndex:
    return Message.CreateIndex(
        new_indices=[segment.message for segment in operation.new_indices],
        removed_indices=[segment.message for segment in operation.removed_indices],
    )


def _rewrite(operation: ops.Rewrite) -> pb.Transaction.Rewrite:
    return Message.Rewrite(
        groups=[
            Message.Rewrite.RewriteGroup(
                old_fragments=fragment_messages(group.old_fragments),
                new_fragments=fragment_messages(group.new_fragments),
            )
            for group in operation.groups
        ],
        rewritten_indices=[
            Message.Rewrite.RewrittenIndex(
                old_id=table_pb2.UUID(uuid=index.old_uuid.bytes),
                new_id=table_pb2.UUID(uuid=index.new_uuid.bytes),
                new_index_details=AnyMessage(type_url=index.details_type_url, value=index.details),
                new_index_version=index.index_version,
                new_index_files=[table_pb2.IndexFile(path=path, size_bytes=size) for path, size in index.files],
            )
            for index in operation.rewritten_indices
        ],
    )


def _read_rewrite(message: pb.Transaction.Rewrite, path: str) -> ops.Rewrite:
    groups = [(group.old_fragments, group.new_fragments) for group in message.groups]
    if not groups and message.old_fragments:
        groups = [(message.old_fragments, message.new_fragments)]
    return ops.Rewrite(
        tuple(ops.RewriteGroup(_fragments(old, path), _fragments(new, path)) for old, new in groups),
        tuple(
            ops.RewrittenIndex(
                _uuid(index.old_id, path),
                _uuid(index.new_id, path),
                index.new_index_details.type_url,
                index.new_index_details.value,
                index.new_index_version,
                tuple((file.path, file.size_bytes) for file in index.new_index_files),
            )
            for index in message.rewritten_indices
        ),
    )


def _merge(operation: ops.Merge) -> pb.Transaction.Merge:
    return Message.Merge(
        fragments=fragment_messages(operation.fragments),
        schema=schema_messages(operation.schema),
        schema_metadata=metadata_bytes(operation.schema.metadata),
        preserves_nullability=operation.preserves_nullability,
    )


def _sstables(tables: Iterable[ops.CompactedSsTable]) -> list[mem_wal_pb2.CompactedSsTable]:
    return [
        mem_wal_pb2.CompactedSsTable(shard_id=table_pb2.UUID(uuid=table.shard.bytes), generation=table.generation)
        for table in tables
    ]


def _read_sstables(messages: Iterable[mem_wal_pb2.CompactedSsTable], path: str) -> tuple[ops.CompactedSsTable, ...]:
    return tuple(ops.CompactedSsTable(_uuid(message.shard_id, path), message.generation) for message in messages)


def _key_filter(keys: ops.KeyFilter) -> pb.KeyExistenceFilter:
    message = pb.KeyExistenceFilter(field_ids=keys.field_ids)
    if keys.hashes is not None:
        message.exact.key_hashes.extend(sorted(keys.hashes))
    else:
        message.bloom.bitmap = keys.bitmap or b""
        message.bloom.num_bits = keys.num_bits
        message.bloom.number_of_items = keys.number_of_items
        message.bloom.probability = keys.probability
    return message


def _read_key_filter(message: pb.KeyExistenceFilter) -> ops.KeyFilter:
    ids = tuple(message.field_ids)
    if message.WhichOneof("data") == "exact":
        return ops.KeyFilter(ids, hashes=frozenset(message.exact.key_hashes))
    bloom = message.bloom
    return ops.KeyFilter(ids, bloom.bitmap, bloom.num_bits, bloom.number_of_items, bloom.probability)


def _update(operation: ops.Update) -> pb.Transaction.Update:
    message = Message.Update(
        removed_fragment_ids=operation.removed_fragment_ids,
        updated_fragments=fragment_messages(operation.updated_fragments),
        new_fragments=fragment_messages(operation.new_fragments),
        fields_modified=operation.fields_modified,
        compacted_sstables=_sstables(operation.compacted_sstables),
        fields_for_preserving_frag_bitmap=operation.preserved_fields,
        update_mode=Message.Update.REWRITE_COLUMNS if operation.rewrites_columns else Message.Update.REWRITE_ROWS,
        updated_fragment_offset_bitmaps=dict(operation.updated_offsets),
    )
    if operation.inserted_keys is not None:
        message.inserted_rows.CopyFrom(_key_filter(operation.inserted_keys))
    return message


def _read_update(message: pb.Transaction.Update, path: str) -> ops.Update:
    offsets = {
        int(number): BitMap(entry.offsets, optimize=False).serialize()
        for number, entry in message.updated_fragment_offsets.items()
    }
    offsets |= {int(number): data for number, data in message.updated_fragment_offset_bitmaps.items()}
    return ops.Update(
        tuple(message.removed_fragment_ids),
        _fragments(message.updated_fragments, path),
        _fragments(message.new_fragments, path),
        tuple(message.fields_modified),
        tuple(message.fields_for_preserving_frag_bitmap),
        message.update_mode == Message.Update.REWRITE_COLUMNS,
        _read_key_filter(message.inserted_rows) if message.HasField("inserted_rows") else None,
        offsets,
        _read_sstables(message.compacted_sstables, path),
    )


def _map(edits: ops.MapEdits) -> pb.Transaction.UpdateMap:
    return Message.UpdateMap(
        entries=[Message.UpdateMap.Entry(key=key, value=value) for key, value in edits.updates.items()],
        replace=edits.replace,
    )


def _read_map(message: pb.Transaction.UpdateMap) -> ops.MapEdits:
    return ops.MapEdits(
        {entry.key: entry.value if entry.HasField("value") else None for entry in message.entries}, message.replace
    )


def _update_config(operation: ops.UpdateConfig) -> pb.Transaction.UpdateConfig:
    message = Message.UpdateConfig()
    if operation.config is not None:
        message.config_updates.CopyFrom(_map(operation.config))
    if operation.table_metadata is not None:
        message.table_metadata_updates.CopyFrom(_map(operation.table_metadata))
    if operation.schema_metadata is not None:
        message.schema_metadata_updates.CopyFrom(_map(operation.schema_metadata))
    for number, edits in operation.field_metadata.items():
        message.field_metadata_updates[number].CopyFrom(_map(edits))
    return message


def _read_update_config(message: pb.Transaction.UpdateConfig, path: str) -> ops.UpdateConfig:
    def edits(name: Any, upserts: Mapping[str, str], gone: Iterable[str], *, replace: bool) -> ops.MapEdits | None:
        if message.HasField(name):
            return _read_map(getattr(message, name))
        older: dict[str, str | None] = {**upserts, **dict.fromkeys(gone)}
        return ops.MapEdits(older, replace) if older else None

    fields = {int(number): _read_map(updates) for number, updates in message.field_metadata_updates.items()}
    # The older forms of metadata were whole new maps.
    older = {int(number): ops.MapEdits({**entry.metadata}, True) for number, entry in message.field_metadata.items()}
    return ops.UpdateConfig(
        edits("config_updates", message.upsert_values, message.delete_keys, replace=False),
        edits("table_metadata_updates", {}, (), replace=False),
        edits("schema_metadata_updates", message.schema_metadata, (), replace=True),
        fields or older,
    )


def _read_replacement(message: pb.Transaction.DataReplacement, path: str) -> ops.DataReplacement:
    return ops.DataReplacement(
        tuple(
            (entry.fragment_id, data_file_from_proto(entry.new_file, path, f"fragment {entry.fragment_id}"))
            for entry in message.replacements
        )
    )


def _replacement(operation: ops.DataReplacement) -> pb.Transaction.DataReplacement:
    return Message.DataReplacement(
        replacements=[
            Message.DataReplacement.Replacement(fragment_id=number, new_file=data_file_message(file))
            for number, file in operation.replacements
        ]
    )


def _clone(operation: ops.Clone) -> pb.Transaction.Clone:
    return Message.Clone(
        is_shallow=operation.is_shallow,
        ref_name=operation.ref_name,
        ref_version=operation.ref_version,
        ref_path=operation.ref_path,
        branch_name=operation.branch_name,
    )


def _read_clone(message: pb.Transaction.Clone, path: str) -> ops.Clone:
    return ops.Clone(
        message.is_shallow,
        message.ref_name if message.HasField("ref_name") else None,
        message.ref_version,
        message.ref_path,
        message.branch_name if message.HasField("branch_name") else None,
    )


def _overlay(operation: ops.DataOverlay) -> pb.Transaction.DataOverlay:
    return Message.DataOverlay(
        groups=[
            Message.DataOverlay.Group(fragment_id=number, overlays=[overlay_message(overlay) for overlay in overlays])
            for number, overlays in operation.groups
        ]
    )


def _read_overlay(message: pb.Transaction.DataOverlay, path: str) -> ops.DataOverlay:
    return ops.DataOverlay(
        tuple(
            (
                group.fragment_id,
                tuple(overlay_from_proto(overlay, path, f"fragment {group.fragment_id}") for overlay in group.overlays),
            )
            for group in message.groups
        )
    )


_WRITERS: dict[type[Any], tuple[str, Callable[[Any], Any]]] = {
    ops.Append: ("append", lambda op: Message.Append(fragments=fragment_messages(op.fragments))),
    ops.Delete: (
        "delete",
        lambda op: Message.Delete(
            updated_fragments=fragment_messages(op.updated_fragments),
            deleted_fragment_ids=op.deleted_fragment_ids,
            predicate=op.predicate,
        ),
    ),
    ops.Overwrite: ("overwrite", _overwrite),
    ops.CreateIndex: ("create_index", _create_index),
    ops.Rewrite: ("rewrite", _rewrite),
    ops.Merge: ("merge", _merge),
    ops.Restore: ("restore", lambda op: Message.Restore(version=op.version)),
    ops.ReserveFragments: ("reserve_fragments", lambda op: Message.ReserveFragments(num_fragments=op.num_fragments)),
    ops.Update: ("update", _update),
    ops.Project: (
        "project",
        lambda op: Message.Project(schema=schema_messages(op.schema), preserves_nullability=op.preserves_nullability),
    ),
    ops.UpdateConfig: ("update_config", _update_config),
    ops.DataReplacement: ("data_replacement", _replacement),
    ops.UpdateMemWalState: (
        "update_mem_wal_state",
        lambda op: Message.UpdateMemWalState(compacted_sstables=_sstables(op.compacted_sstables)),
    ),
    ops.Clone: ("clone", _clone),
    ops.UpdateBases: (
        "update_bases",
        lambda op: Message.UpdateBases(new_bases=[base_path_message(base) for base in op.new_bases]),
    ),
    ops.DataOverlay: ("data_overlay", _overlay),
}

_READERS: dict[str, Callable[[Any, str], ops.Operation]] = {
    "append": lambda m, path: ops.Append(_fragments(m.fragments, path)),
    "delete": lambda m, path: ops.Delete(
        _fragments(m.updated_fragments, path), tuple(m.deleted_fragment_ids), m.predicate
    ),
    "overwrite": lambda m, path: ops.Overwrite(
        _schema(m.schema, m.schema_metadata, path),
        _fragments(m.fragments, path),
        dict(m.config_upsert_values),
        tuple(base_path_from_proto(base) for base in m.initial_bases),
    ),
    "create_index": lambda m, path: ops.CreateIndex(
        tuple(ops.IndexSegment.of(index) for index in m.new_indices),
        tuple(ops.IndexSegment.of(index) for index in m.removed_indices),
    ),
    "rewrite": _read_rewrite,
    "merge": lambda m, path: ops.Merge(
        _fragments(m.fragments, path), _schema(m.schema, m.schema_metadata, path), m.preserves_nullability
    ),
    "restore": lambda m, path: ops.Restore(m.version),
    "reserve_fragments": lambda m, path: ops.ReserveFragments(m.num_fragments),
    "update": _read_update,
    "project": lambda m, path: ops.Project(_schema(m.schema, {}, path), m.preserves_nullability),
    "update_config": _read_update_config,
    "data_replacement": _read_replacement,
    "update_mem_wal_state": lambda m, path: ops.UpdateMemWalState(_read_sstables(m.compacted_sstables, path)),
    "clone": _read_clone,
    "update_bases": lambda m, path: ops.UpdateBases(tuple(base_path_from_proto(base) for base in m.new_bases)),
    "data_overlay": _read_overlay,
}

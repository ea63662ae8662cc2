"""Operations of the commit layer and the classes that users hold, each made of the other.

Each kind of operation has one pair of functions, side by side: ``shown_...`` makes the user's value, ``stored_...`` the one
that can be committed. There and back nothing is lost (``tests/unit/_api/test_conversion.py`` walks every field of
the wire messages).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancelet._api.fragment_metadata import FragmentMetadata, data_file, fragment_metadata, stored_file, stored_fragment
from lancelet._api.transaction import Index, IndexFile, LanceOperation, Transaction
from lancelet.bitmap import Bitmap
from lancelet.errors import InvalidInput, InvalidType
from lancelet.format.file_versions import DEFAULT_VERSION
from lancelet.format.proto import table_pb2
from lancelet.format.schema import Schema
from lancelet.index import registry  # noqa: F401 - kinds tell commits of rewrites what becomes of their segments
from lancelet.index.metadata import index_from_proto
from lancelet.schema import LanceSchema
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import bitmap_bytes
from lancelet.table.commit.transactions import transaction_from_proto
from lancelet.table.manifest.fragment import Fragment, OverlayFile
from lancelet.table.rows.roaring import decode_roaring
from lancelet.writing.fit import new_schema

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest

_MODES = {"": False, "rewrite_rows": False, "rewrite_columns": True}


def read_transaction(manifest: Manifest) -> Transaction | None:
    """How a version came about; None when that is not recorded."""
    message = manifest.transaction
    if message is None:
        return None
    stored = transaction_from_proto(message, manifest.path)
    if stored is None:
        # An operation of a later release: all that is known of it is that it was one.
        properties = dict(message.transaction_properties)
        return Transaction(message.read_version, LanceOperation.BaseOperation(), message.uuid, properties)
    return shown_transaction(stored)


def shown_transaction(stored: ops.Transaction) -> Transaction:
    """A transaction as users see it."""
    shown = Transaction(stored.read_version, shown_operation(stored.operation), stored.uuid, dict(stored.properties))
    shown.tag = stored.tag
    return shown


def stored_transaction(shown: Transaction) -> ops.Transaction:
    """A transaction as the commit layer knows it."""
    properties = dict(shown.transaction_properties or {})
    return ops.Transaction(shown.read_version, stored_operation(shown.operation), shown.uuid, properties, shown.tag)


def shown_operation(operation: ops.Operation) -> LanceOperation.BaseOperation:
    """An operation as users see it."""
    show = _SHOW.get(type(operation))
    if show is not None:
        return show(operation)
    shown = LanceOperation.BaseOperation()
    shown.stored = operation
    return shown


def stored_operation(operation: LanceOperation.BaseOperation) -> ops.Operation:
    """The operation as the commit layer knows it."""
    store = _STORE.get(type(operation))
    if type(operation) is LanceOperation.BaseOperation and operation.stored is not None:
        return operation.stored
    if store is None:
        raise InvalidType(
            f"{type(operation)} cannot be committed; build one of the kinds in LanceOperation, or a Transaction"
        )
    return store(operation)


# What several of them have


def _shown_fragments(fragments: Iterable[Fragment]) -> list[FragmentMetadata]:
    return [fragment_metadata(fragment) for fragment in fragments]


def _stored_fragments(fragments: object) -> tuple[Fragment, ...]:
    if isinstance(fragments, (str, bytes)) or not isinstance(fragments, Iterable):
        raise InvalidType(f"fragments are a list of FragmentMetadata, not {type(fragments)}")
    return tuple(stored_fragment(fragment) for fragment in fragments)


def _stored_schema(schema: LanceSchema | pa.Schema, fragments: Iterable[Fragment]) -> Schema:
    if isinstance(schema, LanceSchema):
        return schema._schema
    if not isinstance(schema, pa.Schema):
        raise InvalidType(f"a schema is a LanceSchema or a pyarrow.Schema, not {type(schema)}")
    files = [file for fragment in fragments for file in fragment.files]
    return new_schema(schema, files[0].version if files else DEFAULT_VERSION)


def _stored_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"{text!r} is not a UUID") from None


# Rows


def _shown_append(operation: ops.Append) -> LanceOperation.Append:
    return LanceOperation.Append(_shown_fragments(operation.fragments))


def _stored_append(operation: LanceOperation.Append) -> ops.Append:
    return ops.Append(_stored_fragments(operation.fragments))


def _shown_overwrite(operation: ops.Overwrite) -> LanceOperation.Overwrite:
    shown = LanceOperation.Overwrite(
        LanceSchema(operation.schema), _shown_fragments(operation.fragments), list(operation.initial_bases) or None
    )
    shown.config_upserts = dict(operation.config_upserts)
    return shown


def _stored_overwrite(operation: LanceOperation.Overwrite) -> ops.Overwrite:
    fragments = _stored_fragments(operation.fragments)
    schema = _stored_schema(operation.new_schema, fragments)
    return ops.Overwrite(schema, fragments, dict(operation.config_upserts), tuple(operation.initial_bases or ()))


def _shown_delete(operation: ops.Delete) -> LanceOperation.Delete:
    return LanceOperation.Delete(
        _shown_fragments(operation.updated_fragments), list(operation.deleted_fragment_ids), operation.predicate
    )


def _stored_delete(operation: LanceOperation.Delete) -> ops.Delete:
    return ops.Delete(
        _stored_fragments(operation.updated_fragments), tuple(operation.deleted_fragment_ids), operation.predicate
    )


def _shown_update(operation: ops.Update) -> LanceOperation.Update:
    shown = LanceOperation.Update(
        list(operation.removed_fragment_ids),
        _shown_fragments(operation.updated_fragments),
        _shown_fragments(operation.new_fragments),
        list(operation.fields_modified),
        list(operation.preserved_fields),
        "rewrite_columns" if operation.rewrites_columns else "rewrite_rows",
        dict(operation.updated_offsets) or None,
    )
    shown.inserted_keys, shown.compacted_sstables = operation.inserted_keys, operation.compacted_sstables
    return shown


def _stored_update(operation: LanceOperation.Update) -> ops.Update:
    if operation.update_mode not in _MODES:
        raise InvalidInput(f"update_mode is 'rewrite_rows' or 'rewrite_columns', not {operation.update_mode!r}")
    return ops.Update(
        tuple(operation.removed_fragment_ids),
        _stored_fragments(operation.updated_fragments),
        _stored_fragments(operation.new_fragments),
        tuple(operation.fields_modified),
        tuple(operation.fields_for_preserving_frag_bitmap),
        _MODES[operation.update_mode],
        operation.inserted_keys,
        dict(operation.updated_fragment_offsets or {}),
        operation.compacted_sstables,
    )


# Columns


def _shown_merge(operation: ops.Merge) -> LanceOperation.Merge:
    return LanceOperation.Merge(
        _shown_fragments(operation.fragments), LanceSchema(operation.schema), operation.preserves_nullability
    )


def _stored_merge(operation: LanceOperation.Merge) -> ops.Merge:
    fragments = _stored_fragments(operation.fragments)
    return ops.Merge(fragments, _stored_schema(operation.schema, fragments), operation.preserves_nullability)


def _shown_project(operation: ops.Project) -> LanceOperation.Project:
    return LanceOperation.Project(LanceSchema(operation.schema), operation.preserves_nullability)


def _stored_project(operation: LanceOperation.Project) -> ops.Project:
    return ops.Project(_stored_schema(operation.schema, ()), operation.preserves_nullability)


def _shown_replacement(operation: ops.DataReplacement) -> LanceOperation.DataReplacement:
    return LanceOperation.DataReplacement(
        [LanceOperation.DataReplacementGroup(number, data_file(file)) for number, file in operation.replacements]
    )


def _stored_replacement(operation: LanceOperation.DataReplacement) -> ops.DataReplacement:
    return ops.DataReplacement(
        tuple((entry.fragment_id, stored_file(entry.new_file)) for entry in operation.replacements)
    )


def _shown_overlay(operation: ops.DataOverlay) -> LanceOperation.DataOverlay:
    def shown(overlay: OverlayFile) -> LanceOperation.DataOverlayFile:
        rows = [Bitmap(decode_roaring(data, overlay.file.path, "overlay").tolist()) for data in overlay.coverage]
        offsets = rows[0] if len(rows) == 1 else rows
        return LanceOperation.DataOverlayFile(data_file(overlay.file), offsets, overlay.committed_version or None)

    return LanceOperation.DataOverlay(
        [LanceOperation.DataOverlayGroup(number, list(map(shown, overlays))) for number, overlays in operation.groups]
    )


def _stored_overlay(operation: LanceOperation.DataOverlay) -> ops.DataOverlay:
    def stored(overlay: LanceOperation.DataOverlayFile) -> OverlayFile:
        offsets: Iterable[Any] = overlay.offsets
        several = isinstance(offsets, list) and any(not isinstance(entry, int) for entry in offsets)
        groups = list(offsets) if several else [offsets]
        coverage = tuple(bitmap_bytes(np.array(sorted(group), np.uint32)) for group in groups)
        return OverlayFile(stored_file(overlay.data_file), coverage, overlay.committed_version or 0)

    return ops.DataOverlay(tuple((group.fragment_id, tuple(map(stored, group.overlays))) for group in operation.groups))


# Files and versions


def _shown_rewrite(operation: ops.Rewrite) -> LanceOperation.Rewrite:
    def shown(index: ops.RewrittenIndex) -> LanceOperation.RewrittenIndex:
        value = LanceOperation.RewrittenIndex(
            str(index.old_uuid), str(index.new_uuid), index.details_type_url, index.details, index.index_version
        )
        value.files = index.files
        return value

    return LanceOperation.Rewrite(
        [
            LanceOperation.RewriteGroup(_shown_fragments(group.old_fragments), _shown_fragments(group.new_fragments))
            for group in operation.groups
        ],
        list(map(shown, operation.rewritten_indices)),
    )


def _stored_rewrite(operation: LanceOperation.Rewrite) -> ops.Rewrite:
    return ops.Rewrite(
        tuple(
            ops.RewriteGroup(_stored_fragments(group.old_fragments), _stored_fragments(group.new_fragments))
            for group in operation.groups
        ),
        tuple(
            ops.RewrittenIndex(
                _stored_uuid(index.old_id),
                _stored_uuid(index.new_id),
                index.new_details_type_url,
                index.new_details_value,
                index.new_index_version,
                index.files,
            )
            for index in operation.rewritten_indices
        ),
    )


def _shown_clone(operation: ops.Clone) -> LanceOperation.Clone:
    return LanceOperation.Clone(
        operation.is_shallow, operation.ref_name, operation.ref_version, operation.ref_path, operation.branch_name
    )


def _stored_clone(operation: LanceOperation.Clone) -> ops.Clone:
    return ops.Clone(
        operation.is_shallow, operation.ref_name, operation.ref_version, operation.ref_path, operation.branch_name
    )


# Indices


def shown_index(message: table_pb2.IndexMetadata, path: str) -> Index:
    """A segment as users see it; ``path`` is the file that it came from."""
    index = index_from_proto(message, path)
    shown = Index(
        str(index.uuid),
        index.name,
        list(index.fields),
        index.dataset_version,
        Bitmap(index.fragment_ids or ()),
        index.index_version or 0,
        index.created_at,
        index.base_id,
        [IndexFile(file.path, file.size) for file in index.files] or None,
        (index.type_url, index.details) if index.type_url else None,
        list(index.covering_fields),
    )
    shown.stored = message.SerializeToString()
    return shown


def stored_index(index: Index) -> table_pb2.IndexMetadata:
    """An index segment as manifests list it: as it was when nothing of it was changed, else with the changes."""
    if not isinstance(index, Index):
        raise InvalidType(f"a segment of an index is an Index, not {index!r}")
    message = table_pb2.IndexMetadata()
    if index.stored is not None:
        message.ParseFromString(index.stored)
        if shown_index(message, "the index") == index:
            return message
        for name in ("fields", "covering_fields", "files", "created_at", "base_id", "index_details"):
            message.ClearField(name)
    message.name = index.name
    message.uuid.uuid = _stored_uuid(index.uuid).bytes
    message.dataset_version, message.index_version = index.dataset_version, index.index_version
    message.fragment_bitmap = BitMap(index.fragment_ids).serialize()
    message.fields.extend(index.fields)
    message.covering_fields.extend(index.covering_fields)
    if index.created_at is not None:
        message.created_at = _milliseconds(index.created_at)
    if index.base_id is not None:
        message.base_id = index.base_id
    if index.index_details is not None:
        message.index_details.type_url, message.index_details.value = index.index_details
    for file in index.files or ():
        message.files.add(path=file.path, size_bytes=file.size_bytes)
    return message


def _milliseconds(moment: datetime) -> int:
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return round(zoned.timestamp() * 1000)


def _shown_create_index(operation: ops.CreateIndex) -> LanceOperation.CreateIndex:
    def shown(segments: Iterable[ops.IndexSegment]) -> list[Index]:
        return [shown_index(segment.message, "the transaction") for segment in segments]

    return LanceOperation.CreateIndex(shown(operation.new_indices), shown(operation.removed_indices))


def _stored_create_index(operation: LanceOperation.CreateIndex) -> ops.CreateIndex:
    def stored(indices: Iterable[Index]) -> tuple[ops.IndexSegment, ...]:
        return tuple(ops.IndexSegment.of(stored_index(index)) for index in indices)

    return ops.CreateIndex(stored(operation.new_indices), stored(operation.removed_indices))


# Metadata


def _shown_edits(edits: ops.MapEdits) -> LanceOperation.UpdateMap:
    return LanceOperation.UpdateMap(dict(edits.updates), edits.replace)


def _stored_edits(edits: LanceOperation.UpdateMap) -> ops.MapEdits:
    return ops.MapEdits(dict(edits.updates), edits.replace)


def _shown_config(operation: ops.UpdateConfig) -> LanceOperation.UpdateConfig:
    return LanceOperation.UpdateConfig(
        None if operation.config is None else _shown_edits(operation.config),
        None if operation.table_metadata is None else _shown_edits(operation.table_metadata),
        None if operation.schema_metadata is None else _shown_edits(operation.schema_metadata),
        {number: _shown_edits(edits) for number, edits in operation.field_metadata.items()} or None,
    )


def _stored_config(operation: LanceOperation.UpdateConfig) -> ops.UpdateConfig:
    config, table, schema = (
        None if edits is None else _stored_edits(edits)
        for edits in (operation.config_updates, operation.table_metadata_updates, operation.schema_metadata_updates)
    )
    fields = operation.field_metadata_updates or {}
    return ops.UpdateConfig(config, table, schema, {number: _stored_edits(edits) for number, edits in fields.items()})


_SHOW: dict[type, Callable[[Any], LanceOperation.BaseOperation]] = {
    ops.Append: _shown_append,
    ops.Overwrite: _shown_overwrite,
    ops.Delete: _shown_delete,
    ops.Update: _shown_update,
    ops.Merge: _shown_merge,
    ops.Project: _shown_project,
    ops.DataReplacement: _shown_replacement,
    ops.DataOverlay: _shown_overlay,
    ops.Rewrite: _shown_rewrite,
    ops.Restore: lambda operation: LanceOperation.Restore(operation.version),
    ops.Clone: _shown_clone,
    ops.CreateIndex: _shown_create_index,
    ops.UpdateConfig: _shown_config,
}

_STORE: dict[type, Callable[[Any], ops.Operation]] = {
    LanceOperation.Append: _stored_append,
    LanceOperation.Overwrite: _stored_overwrite,
    LanceOperation.Delete: _stored_delete,
    LanceOperation.Update: _stored_update,
    LanceOperation.Merge: _stored_merge,
    LanceOperation.Project: _stored_project,
    LanceOperation.DataReplacement: _stored_replacement,
    LanceOperation.DataOverlay: _stored_overlay,
    LanceOperation.Rewrite: _stored_rewrite,
    LanceOperation.Restore: lambda operation: ops.Restore(operation.version),
    LanceOperation.Clone: _stored_clone,
    LanceOperation.CreateIndex: _stored_create_index,
    LanceOperation.UpdateConfig: _stored_config,
}

"""Operations that users build, as operations that can be committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancelet.errors import InvalidInput, InvalidType, NotSupported
from lancelet.file.writer import DEFAULT_VERSION
from lancelet.format.proto import table_pb2
from lancelet.format.schema import Schema
from lancelet.fragment_metadata import FragmentMetadata, stored_file, stored_fragment
from lancelet.schema import LanceSchema
from lancelet.table import operations as ops
from lancelet.table.commit import RETRIES, TIMEOUT, commit
from lancelet.table.deletion_write import bitmap_bytes
from lancelet.table.fragment import Fragment, OverlayFile
from lancelet.table.names import NamingScheme
from lancelet.transaction import Index, LanceOperation, Transaction
from lancelet.writing.fit import new_schema
from lancelet.writing.options import transaction_texts
from lancelet.writing.table import Target

if TYPE_CHECKING:
    from lancelet.located import Manager
    from lancelet.table.snapshot import Snapshot

_MODES = {"": False, "rewrite_rows": False, "rewrite_columns": True}


def commit_change(
    place: Any,
    change: LanceOperation.BaseOperation | Transaction,
    read_version: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    base_params: Mapping[str, Mapping[str, str]] | None = None,
    commit_message: str | None = None,
    retries: int = RETRIES,
    timeout: timedelta | None = None,
    detached: bool = False,
    stable_row_ids: bool | None = None,
    v2_names: bool | None = None,
    manager: Manager | None = None,
) -> Snapshot:
    """Commit what a user built to the table at a uri; see :func:`lancelet.table.commit.commit`."""
    uuid, properties = None, transaction_texts(commit_message, None)
    if isinstance(change, Transaction):
        if commit_message is not None:
            raise InvalidInput(
                "commit_message does not go with a Transaction; set the message among its transaction_properties"
            )
        uuid, read_version = change.uuid, change.read_version
        properties = dict(change.transaction_properties or {})
        change = change.operation
    elif read_version is None and not isinstance(change, (LanceOperation.Overwrite, LanceOperation.Restore)):
        raise InvalidInput("read_version is missing: only Overwrite and Restore are based on no version")
    operation = stored_operation(change)
    target = Target.of(place, storage_options, base_params, manager)
    return commit(
        target.snapshot or target.store,
        operation,
        read_version=read_version,
        properties=properties,
        retries=retries,
        timeout=TIMEOUT if timeout is None else timeout.total_seconds(),
        detached=detached,
        stable_row_ids=stable_row_ids,
        naming=None if v2_names is None else NamingScheme.V2 if v2_names else NamingScheme.V1,
        uuid=uuid,
    )


def merged_appends(transactions: Iterable[Any]) -> Transaction:
    """Several appends as one, based on the oldest version that any of them was based on."""
    found = list(transactions)
    if not found:
        raise InvalidInput("there are no transactions to commit")
    fragments: list[FragmentMetadata] = []
    for transaction in found:
        if not isinstance(transaction, Transaction) or not isinstance(transaction.operation, LanceOperation.Append):
            raise NotSupported("only Append transactions can be committed as a batch")
        fragments.extend(transaction.operation.fragments)
    return Transaction(min(t.read_version for t in found), LanceOperation.Append(fragments))


def stored_operation(operation: LanceOperation.BaseOperation) -> ops.Operation:
    """The operation as the commit layer knows it."""
    convert = _CONVERTERS.get(type(operation))
    if convert is None:
        raise InvalidType(
            f"{type(operation)} cannot be committed; build one of the kinds in LanceOperation, or a Transaction"
        )
    return convert(operation)


def _fragments(given: Any) -> tuple[Fragment, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidType(f"fragments are a list of FragmentMetadata, not {type(given)}")
    return tuple(stored_fragment(fragment) for fragment in given)


def _schema(schema: LanceSchema | pa.Schema, fragments: Iterable[Fragment]) -> Schema:
    if isinstance(schema, LanceSchema):
        return schema._schema
    if not isinstance(schema, pa.Schema):
        raise InvalidType(f"a schema is a LanceSchema or a pyarrow.Schema, not {type(schema)}")
    files = [file for fragment in fragments for file in fragment.files]
    return new_schema(schema, files[0].version if files else DEFAULT_VERSION)


def _overwrite(operation: LanceOperation.Overwrite) -> ops.Operation:
    fragments = _fragments(operation.fragments)
    schema = _schema(operation.new_schema, fragments)
    return ops.Overwrite(schema, fragments, {}, tuple(operation.initial_bases or ()))


def _merge(operation: LanceOperation.Merge) -> ops.Operation:
    fragments = _fragments(operation.fragments)
    return ops.Merge(fragments, _schema(operation.schema, fragments), operation.preserves_nullability)


def _update(operation: LanceOperation.Update) -> ops.Operation:
    if operation.update_mode not in _MODES:
        raise InvalidInput(f"update_mode is 'rewrite_rows' or 'rewrite_columns', not {operation.update_mode!r}")
    return ops.Update(
        tuple(operation.removed_fragment_ids),
        _fragments(operation.updated_fragments),
        _fragments(operation.new_fragments),
        tuple(operation.fields_modified),
        tuple(operation.fields_for_preserving_frag_bitmap),
        _MODES[operation.update_mode],
        updated_offsets=dict(operation.updated_fragment_offsets or {}),
    )


def _rewrite(operation: LanceOperation.Rewrite) -> ops.Operation:
    return ops.Rewrite(
        tuple(
            ops.RewriteGroup(_fragments(group.old_fragments), _fragments(group.new_fragments))
            for group in operation.groups
        ),
        tuple(
            ops.RewrittenIndex(
                _uuid(index.old_id),
                _uuid(index.new_id),
                index.new_details_type_url,
                index.new_details_value,
                index.new_index_version,
            )
            for index in operation.rewritten_indices
        ),
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput(f"{text!r} is not a UUID") from None


def index_message(index: Index) -> table_pb2.IndexMetadata:
    """An index segment as manifests list it."""
    if not isinstance(index, Index):
        raise InvalidType(f"a segment of an index is an Index, not {index!r}")
    message = table_pb2.IndexMetadata(
        name=index.name,
        fields=index.fields,
        dataset_version=index.dataset_version,
        fragment_bitmap=BitMap(index.fragment_ids).serialize(),
        index_version=index.index_version,
        covering_fields=index.covering_fields,
    )
    message.uuid.uuid = _uuid(index.uuid).bytes
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


def _edits(given: LanceOperation.UpdateMap | None) -> ops.MapEdits | None:
    return None if given is None else ops.MapEdits(dict(given.updates), given.replace)


def _config(operation: LanceOperation.UpdateConfig) -> ops.Operation:
    fields = operation.field_metadata_updates or {}
    return ops.UpdateConfig(
        _edits(operation.config_updates),
        _edits(operation.table_metadata_updates),
        _edits(operation.schema_metadata_updates),
        {number: ops.MapEdits(dict(edits.updates), edits.replace) for number, edits in fields.items()},
    )


def _overlay(file: LanceOperation.DataOverlayFile) -> OverlayFile:
    offsets: Iterable[Any] = file.offsets
    several = isinstance(offsets, list) and any(not isinstance(entry, int) for entry in offsets)
    groups = list(offsets) if several else [offsets]
    coverage = tuple(bitmap_bytes(np.array(sorted(group), np.uint32)) for group in groups)
    return OverlayFile(stored_file(file.data_file), coverage, file.committed_version or 0)


_CONVERTERS: dict[type, Callable[[Any], ops.Operation]] = {
    LanceOperation.Append: lambda o: ops.Append(_fragments(o.fragments)),
    LanceOperation.Overwrite: _overwrite,
    LanceOperation.Delete: lambda o: ops.Delete(
        _fragments(o.updated_fragments), tuple(o.deleted_fragment_ids), o.predicate
    ),
    LanceOperation.Update: _update,
    LanceOperation.Merge: _merge,
    LanceOperation.Project: lambda o: ops.Project(_schema(o.schema, ()), o.preserves_nullability),
    LanceOperation.Restore: lambda o: ops.Restore(o.version),
    LanceOperation.Clone: lambda o: ops.Clone(o.is_shallow, o.ref_name, o.ref_version, o.ref_path, o.branch_name),
    LanceOperation.Rewrite: _rewrite,
    LanceOperation.CreateIndex: lambda o: ops.CreateIndex(
        tuple(ops.IndexSegment.of(index_message(index)) for index in o.new_indices),
        tuple(ops.IndexSegment.of(index_message(index)) for index in o.removed_indices),
    ),
    LanceOperation.DataReplacement: lambda o: ops.DataReplacement(
        tuple((entry.fragment_id, stored_file(entry.new_file)) for entry in o.replacements)
    ),
    LanceOperation.UpdateConfig: _config,
    LanceOperation.DataOverlay: lambda o: ops.DataOverlay(
        tuple((group.fragment_id, tuple(map(_overlay, group.overlays))) for group in o.groups)
    ),
}

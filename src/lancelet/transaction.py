"""Transactions as values: what a commit did to a table (spec table-format.md 6.2)."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from lancelet.bitmap import Bitmap
from lancelet.format.schema import Schema
from lancelet.fragment_metadata import DataFile, FragmentMetadata, data_file, fragment_metadata
from lancelet.index.metadata import index_from_proto
from lancelet.schema import LanceSchema
from lancelet.table.fragment import data_file_from_proto, fragment_from_proto
from lancelet.table.manifest import BasePath
from lancelet.table.roaring import decode_roaring
from lancelet.table.transactions import transaction_message

if TYPE_CHECKING:
    from lancelet.format.proto import file_pb2, table_pb2
    from lancelet.format.proto import transaction_pb2 as pb
    from lancelet.table.manifest import Manifest
    from lancelet.table.operations import Transaction as StoredTransaction


@dataclass
class IndexFile:
    """A file of an index segment."""

    path: str
    size_bytes: int


@dataclass
class Index:
    """An index segment."""

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Bitmap
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)


class LanceOperation:
    """The kinds of changes."""

    class BaseOperation:
        """Any change."""

    @dataclass
    class Append(BaseOperation):
        """New rows at the end."""

        fragments: list[FragmentMetadata]

    @dataclass
    class Overwrite(BaseOperation):
        """New content and schema; also how a table is created."""

        new_schema: LanceSchema | pa.Schema
        fragments: list[FragmentMetadata]
        initial_bases: list[BasePath] | None = None

    @dataclass
    class Delete(BaseOperation):
        """Rows marked as deleted, and fragments that lost all of theirs."""

        updated_fragments: list[FragmentMetadata]
        deleted_fragment_ids: list[int]
        predicate: str

    @dataclass
    class Update(BaseOperation):
        """Rows or columns replaced."""

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None

    @dataclass
    class Merge(BaseOperation):
        """Columns added; the fragments are the complete new list."""

        fragments: list[FragmentMetadata]
        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

    @dataclass
    class Project(BaseOperation):
        """Columns dropped, renamed or reordered."""

        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

    @dataclass
    class Restore(BaseOperation):
        """An old version made the newest again."""

        version: int

    @dataclass
    class Clone(BaseOperation):
        """The first commit of a clone or branch."""

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None

    @dataclass
    class RewriteGroup:
        """Fragments, and those with the same rows that replace them."""

        old_fragments: list[FragmentMetadata]
        new_fragments: list[FragmentMetadata]

    @dataclass
    class RewrittenIndex:
        """A segment of an index, and the one that replaces it."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """The same rows in other files."""

        groups: list[LanceOperation.RewriteGroup]
        rewritten_indices: list[LanceOperation.RewrittenIndex]

    @dataclass
    class CreateIndex(BaseOperation):
        """Index segments added and removed."""

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class DataReplacementGroup:
        """A fragment, and its new file."""

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Files of one set of fields exchanged."""

        replacements: list[LanceOperation.DataReplacementGroup]

    @dataclass
    class UpdateMap:
        """Edits of a map of texts; None removes a key."""

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Config and metadata edited."""

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class DataOverlayFile:
        """New values for some cells."""

        data_file: DataFile
        offsets: Bitmap | list[Bitmap]
        committed_version: int | None = None

    @dataclass
    class DataOverlayGroup:
        """New values for cells of one fragment."""

        fragment_id: int
        overlays: list[LanceOperation.DataOverlayFile]

    @dataclass
    class DataOverlay(BaseOperation):
        """New values for single cells."""

        groups: list[LanceOperation.DataOverlayGroup]


@dataclass
class Transaction:
    """A commit: the version that it was based on, and what it did."""

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)


def read_transaction(manifest: Manifest) -> Transaction | None:
    """How a version came about; None when that is not recorded."""
    message = manifest.transaction
    return None if message is None else _transaction(message, manifest.path)


def shown_transaction(transaction: StoredTransaction) -> Transaction:
    """A transaction that is ready to be committed, as users see it."""
    return _transaction(transaction_message(transaction), transaction.file_name)


def _transaction(message: pb.Transaction, path: str) -> Transaction:
    kind = message.WhichOneof("operation")
    # Operations without a class of their own carry nothing for users: ids reserved, base paths added.
    show = _OPERATIONS.get(kind or "")
    operation = LanceOperation.BaseOperation() if show is None else show(getattr(message, kind or ""), path)
    return Transaction(message.read_version, operation, message.uuid, dict(message.transaction_properties))


def _fragments(messages: Iterable[table_pb2.DataFragment], path: str) -> list[FragmentMetadata]:
    return [fragment_metadata(fragment_from_proto(message, path)) for message in messages]


def _schema(messages: Iterable[file_pb2.Field], metadata: Mapping[str, bytes], path: str) -> LanceSchema:
    return LanceSchema(Schema.from_proto(list(messages), metadata, path=path))


def _bases(messages: Iterable[table_pb2.BasePath]) -> list[BasePath] | None:
    bases = [
        BasePath(base.path, base.name if base.HasField("name") else None, base.is_dataset_root, base.id)
        for base in messages
    ]
    return bases or None


def index_of(message: table_pb2.IndexMetadata, path: str) -> Index:
    """A segment as users see it."""
    index = index_from_proto(message, path)
    return Index(
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


def _update(message: pb.Transaction.Update, path: str) -> LanceOperation.BaseOperation:
    rows = {int(number): bytes(bitmap) for number, bitmap in message.updated_fragment_offset_bitmaps.items()}
    return LanceOperation.Update(
        list(message.removed_fragment_ids),
        _fragments(message.updated_fragments, path),
        _fragments(message.new_fragments, path),
        list(message.fields_modified),
        list(message.fields_for_preserving_frag_bitmap),
        "rewrite_columns" if message.update_mode else "rewrite_rows",
        rows or None,
    )


def _rewrite(message: pb.Transaction.Rewrite, path: str) -> LanceOperation.BaseOperation:
    groups = list(message.groups)
    shown = [
        LanceOperation.RewriteGroup(_fragments(g.old_fragments, path), _fragments(g.new_fragments, path))
        for g in groups
    ]
    if not groups and message.old_fragments:
        old, new = _fragments(message.old_fragments, path), _fragments(message.new_fragments, path)
        shown = [LanceOperation.RewriteGroup(old, new)]
    indices = [
        LanceOperation.RewrittenIndex(
            str(UUID(bytes=index.old_id.uuid)),
            str(UUID(bytes=index.new_id.uuid)),
            index.new_index_details.type_url,
            index.new_index_details.value,
            index.new_index_version,
        )
        for index in message.rewritten_indices
    ]
    return LanceOperation.Rewrite(shown, indices)


def _map(message: pb.Transaction.UpdateMap) -> LanceOperation.UpdateMap:
    updates = {entry.key: entry.value if entry.HasField("value") else None for entry in message.entries}
    return LanceOperation.UpdateMap(updates, message.replace)


def _config(message: pb.Transaction.UpdateConfig, path: str) -> LanceOperation.BaseOperation:
    def edits(name: Any, upserts: Mapping[str, str], gone: Iterable[str] = ()) -> LanceOperation.UpdateMap | None:
        if message.HasField(name):
            return _map(getattr(message, name))
        # Older writers listed the edits apart.
        updates: dict[str, str | None] = {**upserts, **dict.fromkeys(gone)}
        return LanceOperation.UpdateMap(updates) if updates else None

    fields = {int(number): _map(updates) for number, updates in message.field_metadata_updates.items()}
    older = {int(n): LanceOperation.UpdateMap({**m.metadata}) for n, m in message.field_metadata.items()}
    return LanceOperation.UpdateConfig(
        edits("config_updates", message.upsert_values, message.delete_keys),
        edits("table_metadata_updates", {}),
        edits("schema_metadata_updates", message.schema_metadata),
        fields or older or None,
    )


def _clone(message: pb.Transaction.Clone, path: str) -> LanceOperation.BaseOperation:
    return LanceOperation.Clone(
        message.is_shallow,
        message.ref_name if message.HasField("ref_name") else None,
        message.ref_version,
        message.ref_path,
        message.branch_name if message.HasField("branch_name") else None,
    )


def _replacement(message: pb.Transaction.DataReplacement, path: str) -> LanceOperation.BaseOperation:
    return LanceOperation.DataReplacement(
        [
            LanceOperation.DataReplacementGroup(
                entry.fragment_id,
                data_file(data_file_from_proto(entry.new_file, path, f"fragment {entry.fragment_id}")),
            )
            for entry in message.replacements
        ]
    )


def _overlay(message: pb.Transaction.DataOverlay, path: str) -> LanceOperation.BaseOperation:
    def shown(overlay: table_pb2.DataOverlayFile, place: str) -> LanceOperation.DataOverlayFile:
        def rows(data: bytes) -> Bitmap:
            return Bitmap(decode_roaring(data, path, place).tolist())

        offsets: Bitmap | list[Bitmap]
        if overlay.WhichOneof("coverage") == "field_coverage":
            offsets = [rows(data) for data in overlay.field_coverage.offset_bitmaps]
        else:
            offsets = rows(overlay.shared_offset_bitmap)
        file = data_file(data_file_from_proto(overlay.data_file, path, place))
        return LanceOperation.DataOverlayFile(file, offsets, overlay.committed_version or None)

    return LanceOperation.DataOverlay(
        [
            LanceOperation.DataOverlayGroup(
                group.fragment_id, [shown(overlay, f"fragment {group.fragment_id}") for overlay in group.overlays]
            )
            for group in message.groups
        ]
    )


_OPERATIONS: dict[str, Callable[[Any, str], LanceOperation.BaseOperation]] = {
    "append": lambda m, path: LanceOperation.Append(_fragments(m.fragments, path)),
    "overwrite": lambda m, path: LanceOperation.Overwrite(
        _schema(m.schema, m.schema_metadata, path), _fragments(m.fragments, path), _bases(m.initial_bases)
    ),
    "delete": lambda m, path: LanceOperation.Delete(
        _fragments(m.updated_fragments, path), list(m.deleted_fragment_ids), m.predicate
    ),
    "update": _update,
    "merge": lambda m, path: LanceOperation.Merge(
        _fragments(m.fragments, path), _schema(m.schema, m.schema_metadata, path), m.preserves_nullability
    ),
    "project": lambda m, path: LanceOperation.Project(_schema(m.schema, {}, path), m.preserves_nullability),
    "restore": lambda m, path: LanceOperation.Restore(m.version),
    "clone": _clone,
    "rewrite": _rewrite,
    "create_index": lambda m, path: LanceOperation.CreateIndex(
        [index_of(i, path) for i in m.new_indices], [index_of(i, path) for i in m.removed_indices]
    ),
    "data_replacement": _replacement,
    "update_config": _config,
    "data_overlay": _overlay,
}

"""Fragments, files and base paths as wire messages: the other direction of ``fragment.py`` (spec table-format.md 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.format.proto import table_pb2
from lancelet.table.manifest.fragment import DataFile, DeletionFile, Fragment, OverlayFile, Spilled
from lancelet.table.manifest.manifest import BasePath

if TYPE_CHECKING:
    from collections.abc import Iterable


def fragment_message(fragment: Fragment) -> table_pb2.DataFragment:
    """The message of a fragment."""
    message = table_pb2.DataFragment(
        id=fragment.id,
        files=[data_file_message(file) for file in fragment.files],
        physical_rows=fragment.physical_rows or 0,
        overlays=[overlay_message(overlay) for overlay in fragment.overlays],
        metadata=dict(fragment.metadata),
    )
    if fragment.deletion_file is not None:
        message.deletion_file.CopyFrom(deletion_file_message(fragment.deletion_file))
    if isinstance(fragment.row_ids, Spilled):
        message.column_row_ids.SetInParent()
    elif fragment.row_ids is not None:
        message.inline_row_ids = fragment.row_ids
    if isinstance(fragment.created_at, Spilled):
        message.column_created_at_versions.SetInParent()
    elif fragment.created_at is not None:
        message.inline_created_at_versions = fragment.created_at
    if isinstance(fragment.last_updated_at, Spilled):
        message.column_last_updated_at_versions.SetInParent()
    elif fragment.last_updated_at is not None:
        message.inline_last_updated_at_versions = fragment.last_updated_at
    return message


def fragment_messages(fragments: Iterable[Fragment]) -> list[table_pb2.DataFragment]:
    return [fragment_message(fragment) for fragment in fragments]


def data_file_message(file: DataFile) -> table_pb2.DataFile:
    return table_pb2.DataFile(
        path=file.path,
        fields=file.fields,
        column_indices=file.column_indices,
        file_major_version=file.major,
        file_minor_version=file.minor,
        file_size_bytes=file.size or 0,
        base_id=file.base_id,
    )


def deletion_file_message(file: DeletionFile) -> table_pb2.DeletionFile:
    return table_pb2.DeletionFile(
        file_type=table_pb2.DeletionFile.BITMAP if file.is_bitmap else table_pb2.DeletionFile.ARROW_ARRAY,
        read_version=file.read_version,
        id=file.id,
        num_deleted_rows=file.num_deleted_rows or 0,
        base_id=file.base_id,
    )


def overlay_message(overlay: OverlayFile) -> table_pb2.DataOverlayFile:
    message = table_pb2.DataOverlayFile(
        data_file=data_file_message(overlay.file), committed_version=overlay.committed_version
    )
    if len(overlay.coverage) == 1:
        message.shared_offset_bitmap = overlay.coverage[0]
    else:
        message.field_coverage.offset_bitmaps.extend(overlay.coverage)
    return message


def base_path_message(base: BasePath) -> table_pb2.BasePath:
    return table_pb2.BasePath(id=base.id, name=base.name, is_dataset_root=base.is_dataset_root, path=base.path)


def base_path_from_proto(message: table_pb2.BasePath) -> BasePath:
    name = message.name if message.HasField("name") else None
    return BasePath(message.path, name, message.is_dataset_root, message.id)

"""Versions as plain values: listings of them, their manifests, what a manifest tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancelet._naming.html import rows_html
from lancelet.execution.threads import ordered_map
from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.versions import list_versions

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.names import ManifestName
    from lancelet.table.manifest.snapshot import Snapshot

_MANIFESTS_AT_ONCE = 16


class Versions(list[dict[str, Any]]):
    """Versions as dicts, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        counts = ("total_rows", "total_fragments", "total_files_size")
        rows = ([one["version"], one["timestamp"], *(int(one["metadata"][count]) for count in counts)] for one in self)
        return rows_html(("version", "committed", "rows", "fragments", "bytes"), rows)


def list_version_entries(store: Store) -> Versions:
    """All versions, oldest first; reads every manifest."""

    def entry(name: ManifestName) -> dict[str, Any]:
        return version_entry(read_manifest(store, name.path))

    return Versions(ordered_map(entry, list_versions(store), 1 if store.is_local else _MANIFESTS_AT_ONCE))


def newest_manifests(snapshot: Snapshot, count: int) -> list[Manifest]:
    """Of a version and those before it, so many, the newest first."""
    names = [name for name in list_versions(snapshot.store) if name.version <= snapshot.version]
    return [read_manifest(snapshot.store, name.path) for name in names[::-1][:count]]


def max_field_id(manifest: Manifest) -> int:
    """The greatest field id in the schema or in a data file; -1 without any."""
    in_schema = max((field.id for field in manifest.schema.walk()), default=-1)
    in_files = (max(file.fields, default=-1) for fragment in manifest.fragments for file in fragment.files)
    return max(in_schema, max(in_files, default=-1))


def version_entry(manifest: Manifest) -> dict[str, Any]:
    """A version as listings show it: number, local time, and counts as texts."""
    rows = deleted = files = size = deletions = 0
    # What the writer recorded, right or wrong.
    fragments = manifest.message.fragments
    for fragment in fragments:
        rows += fragment.physical_rows
        files += len(fragment.files)
        size += sum(file.file_size_bytes for file in fragment.files)
        if fragment.HasField("deletion_file"):
            deletions += 1
            deleted += fragment.deletion_file.num_deleted_rows
    counts = {
        "total_data_file_rows": rows,
        "total_data_files": files,
        "total_deletion_file_rows": deleted,
        "total_deletion_files": deletions,
        "total_files_size": size,
        "total_fragments": len(fragments),
        "total_rows": rows - deleted,
    }
    return {
        "version": manifest.version,
        # Local time without a zone, as pylance shows it.
        "timestamp": manifest.timestamp.astimezone().replace(tzinfo=None),
        "metadata": {name: str(count) for name, count in counts.items()},
    }

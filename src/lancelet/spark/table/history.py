"""What a table is like and how it came about, as rows for data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancelet.errors import InvalidInput
from lancelet.execution.table_reader import TableReader
from lancelet.inspect.past import past_version
from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.versions import list_versions

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.snapshot import Snapshot

HISTORY = (
    "version bigint, timestamp timestamp, operation string, readVersion bigint, properties map<string,string>, "
    "numRows bigint, numFragments int"
)
DETAIL = (
    "format string, location string, branch string, version bigint, lastModified timestamp, numRows bigint, "
    "numDeletedRows bigint, numFragments int, numFiles int, sizeInBytes bigint, fileVersion string, "
    "stableRowIds boolean, config map<string,string>"
)


def history(snapshot: Snapshot, limit: int | None) -> list[tuple[Any, ...]]:
    """Versions, the newest first; what old writers did not record is null."""
    if limit is not None and limit < 1:
        raise InvalidInput(f"limit is a number of versions above 0, not {limit!r}")
    names = list_versions(snapshot.store)[::-1][:limit]
    return [_version(read_manifest(snapshot.store, name.path)) for name in names]


def _version(manifest: Manifest) -> tuple[Any, ...]:
    past = past_version(manifest)
    made = past.version, past.committed, past.operation, past.read_version, past.properties
    return *made, past.rows, past.fragments


def detail(snapshot: Snapshot) -> tuple[Any, ...]:
    """One version."""
    table, manifest = TableReader(snapshot), snapshot.manifest
    files = [file for fragment in manifest.fragments for file in fragment.files]
    physical = sum(reader.physical_rows for reader in table.readers())
    return (
        "lance",
        snapshot.uri,
        manifest.branch,
        manifest.version,
        manifest.timestamp,
        table.num_rows,
        physical - table.num_rows,
        len(manifest.fragments),
        len(files),
        sum(file.size or 0 for file in files),
        manifest.data_storage_version,
        manifest.has_stable_row_ids,
        dict(manifest.config),
    )

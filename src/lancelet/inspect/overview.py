"""A table at a glance: how much there is of it, and what might be done for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lancelet._naming.html import facts_html
from lancelet.execution.table_reader import TableReader
from lancelet.index.metadata import read_indices
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.manifest.versions import list_versions

SMALL_ROWS: Final = 1 << 20
"""A fragment with fewer rows is put together with its neighbours by a compaction."""
_MANY_SMALL: Final = 10
_MANY_VERSIONS: Final = 100
_MANY_DELETED: Final = 0.1


@dataclass(frozen=True, slots=True)
class Overview:
    """One version of a table, in numbers."""

    uri: str
    version: int
    branch: str | None
    committed: datetime
    versions: int
    """That are still there."""
    rows: int
    deleted_rows: int
    """Of these the files still have the values."""
    columns: int
    fragments: int
    files: int
    bytes: int
    """Of data files, as far as the manifest knows."""
    file_version: str
    stable_row_ids: bool
    indices: tuple[str, ...]
    advice: tuple[str, ...]
    """What could be done, each with the way to do it."""

    def _repr_html_(self) -> str:
        facts = {
            "version": f"{self.version}{f' of {self.branch}' if self.branch else ''}",
            "committed": f"{self.committed:%Y-%m-%d %H:%M} UTC",
            "rows": self.rows,
            "deleted rows": self.deleted_rows,
            "fragments": self.fragments,
            "files": f"{self.files:,} of version {self.file_version}",
            "bytes": self.bytes,
            "indices": ", ".join(self.indices) or "none",
        }
        return facts_html(self.uri, facts | ({"advice": "; ".join(self.advice)} if self.advice else {}))


def overview(snapshot: Snapshot) -> Overview:
    """Count what a version has. Reads manifests, and deletion files where they were not counted."""
    table, manifest = TableReader(snapshot), snapshot.manifest
    physical = [reader.physical_rows for reader in table.readers()]
    rows, fragments = table.num_rows, manifest.fragments
    files = [file for fragment in fragments for file in fragment.files]
    versions = len(list_versions(snapshot.store))
    small = sum(count < SMALL_ROWS for count in physical)
    return Overview(
        snapshot.uri,
        manifest.version,
        manifest.branch,
        manifest.timestamp,
        versions,
        rows,
        sum(physical) - rows,
        len(manifest.schema.fields),
        len(fragments),
        len(files),
        sum(file.size or 0 for file in files),
        manifest.data_storage_version,
        manifest.has_stable_row_ids,
        tuple(sorted({entry.name for entry in read_indices(manifest)})),
        tuple(_advice(rows, sum(physical) - rows, small, versions)),
    )


def _advice(rows: int, deleted: int, small: int, versions: int) -> list[str]:
    found = []
    if small >= _MANY_SMALL:
        found.append(f"{small:,} fragments have fewer than {SMALL_ROWS:,} rows: compact puts them together")
    if deleted > _MANY_DELETED * (rows + deleted):
        found.append(f"{deleted:,} of {rows + deleted:,} rows are deleted: compact gives their space back")
    if versions >= _MANY_VERSIONS:
        found.append(f"{versions:,} versions are kept: cleanup removes old ones")
    return found

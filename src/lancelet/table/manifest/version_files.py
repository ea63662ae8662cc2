"""All files that a version consists of: what to copy, to check, to show and to spare.

Cleanup reads the same names from the bytes of many manifests at once (``table/cleanup/references.py``); a test compares
the two.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from lancelet.errors import CorruptFile
from lancelet.table.manifest.flags import Feature
from lancelet.table.manifest.names import BLOBS_DIR, DATA_DIR, DELETIONS_DIR, INDICES_DIR, TRANSACTIONS_DIR

if TYPE_CHECKING:
    from lancelet.format.proto import table_pb2
    from lancelet.table.manifest.fragment import DataFile
    from lancelet.table.manifest.paths import FilePlace, Places
    from lancelet.table.manifest.snapshot import Snapshot

_SUFFIX = ".lance"


class Role(enum.Enum):
    """What a file is for."""

    TRANSACTION = "transaction file"
    DATA = "data file"
    DELETION = "deletion file"
    INDEX = "index file"
    BLOB = "blob file"


@dataclass(frozen=True, slots=True)
class VersionFile:
    """A file that a version refers to."""

    role: Role
    folder: str
    """Of a table, in which such files are."""
    path: str
    """Inside that folder."""
    base_id: int | None = None
    """The base path that it is in, if not in the table's own folder."""
    size: int | None = None

    @property
    def name(self) -> str:
        """Its path in a table."""
        return f"{self.folder}/{self.path}"

    def place(self, places: Places) -> FilePlace:
        return places.referred(self.folder, self.path, self.base_id)


def named_files(snapshot: Snapshot) -> Iterator[VersionFile]:
    """The files that the manifest names. What is in the folder of an index whose files it does not name is listed."""
    manifest = snapshot.manifest
    if manifest.transaction_file:
        yield VersionFile(Role.TRANSACTION, TRANSACTIONS_DIR, manifest.transaction_file)
    for fragment in manifest.fragments:
        for file in fragment.all_files:
            yield VersionFile(Role.DATA, DATA_DIR, file.path, file.base_id, file.size)
    for fragment in manifest.fragments:
        if (deletions := fragment.deletion_file) is not None:
            yield VersionFile(Role.DELETION, DELETIONS_DIR, deletions.name(fragment.id), deletions.base_id)
    for index in manifest.indices:
        yield from index_files(index, snapshot)


def blob_files(snapshot: Snapshot) -> Iterator[VersionFile]:
    """The files of blobs, which no manifest names: in a folder beside each data file, and in that of managed blobs."""
    manifest, places = snapshot.manifest, snapshot.places
    if any(field.is_blob_v2 for field in manifest.schema.walk()):
        for fragment in manifest.fragments:
            for file in fragment.all_files:
                yield from _side_files(file, places)
    if manifest.head.reader_feature_flags & Feature.MANAGED_BLOBS:
        for entry in snapshot.store.list_objects(BLOBS_DIR):
            yield VersionFile(Role.BLOB, BLOBS_DIR, entry.path[len(BLOBS_DIR) + 1 :], None, entry.size)


def index_uuid(index: table_pb2.IndexMetadata, path: str) -> str:
    """The name of an index's folder; ``path`` is the manifest's."""
    if len(index.uuid.uuid) != 16:
        raise CorruptFile(path, f"its UUID has {len(index.uuid.uuid)} bytes", f"index {index.name!r}")
    return str(UUID(bytes=index.uuid.uuid))


def index_files(index: table_pb2.IndexMetadata, snapshot: Snapshot) -> Iterator[VersionFile]:
    """The files of one segment of an index."""
    uuid = index_uuid(index, snapshot.manifest.path)
    base = index.base_id if index.HasField("base_id") else None
    files = [(file.path, file.size_bytes or None) for file in index.files]
    if not files:
        # Older writers did not record them.
        folder = snapshot.places.referred(INDICES_DIR, uuid, base)
        files = [(entry.path[len(folder.path) + 1 :], entry.size) for entry in folder.store.list_objects(folder.path)]
    for path, size in files:
        yield VersionFile(Role.INDEX, INDICES_DIR, f"{uuid}/{path}", base, size)


def _side_files(file: DataFile, places: Places) -> Iterator[VersionFile]:
    """Files of large blobs, in a folder named like the data file."""
    place = places.data_file(file)
    folder, stem = place.path.removesuffix(_SUFFIX), file.path.removesuffix(_SUFFIX)
    for entry in place.store.list_objects(folder):
        path = f"{stem}/{entry.path[len(folder) + 1 :]}"
        yield VersionFile(Role.BLOB, DATA_DIR, path, file.base_id, entry.size)

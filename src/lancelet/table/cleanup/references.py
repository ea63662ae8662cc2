"""Which files versions refer to, read from many manifests in one go.

Only names are wanted here, not fragments: a manifest is taken apart by
``manifest_wire.pyx``, and of its fragments only those are parsed that the
manifest read before it did not have. What is held is the names, and the bytes
of one manifest.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, MissingFile
from lancelet.format.proto import table_pb2
from lancelet.runtime.threads import Pool
from lancelet.table.manifest.flags import Feature
from lancelet.table.manifest.manifest import TAIL, Manifest, ManifestFile, check_manifest, manifest_body, parse_message
from lancelet.table.manifest.manifest_wire import split_manifest
from lancelet.table.manifest.version_files import index_uuid

if TYPE_CHECKING:
    from lancelet.store import Store

_AT_ONCE = 16
_POOL = Pool("lancelet-manifests", _AT_ONCE)
"""Manifests that are asked for at the same time when the store is far away."""


class Origin(enum.Enum):
    """Which of the files that a manifest names are wanted."""

    ANY = "all of them"
    OWN = "those in the table's own folder"
    BASE_PATHS = "those in base paths"

    def has(self, file: table_pb2.DataFile | table_pb2.DeletionFile | table_pb2.IndexMetadata) -> bool:
        return self is _ANY or (self is _BASE_PATHS) == file.HasField("base_id")


# Looked up for every file of every version: a name is quicker than an attribute of the enum.
_ANY, _BASE_PATHS = Origin.ANY, Origin.BASE_PATHS


@dataclass(frozen=True, slots=True)
class ManifestHead:
    """A manifest whose fragments are still bytes."""

    manifest: Manifest
    """Without its fragments."""
    fragments: frozenset[bytes]


@dataclass(slots=True)
class FileNames:
    """Names of files, by folder of the table."""

    data: set[str] = field(default_factory=set)
    """Paths below ``data/``."""
    deletions: set[str] = field(default_factory=set)
    transactions: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)
    """Folders below ``_indices/``."""
    managed_blobs: bool = False
    """Whether rows may refer to objects in ``_blobs/``, which no manifest names."""

    def add(self, other: FileNames) -> None:
        self.data |= other.data
        self.deletions |= other.deletions
        self.transactions |= other.transactions
        self.indices |= other.indices
        self.managed_blobs |= other.managed_blobs

    def shares(self, other: FileNames) -> bool:
        """Whether some data, deletion or index file is in both."""
        return not (
            self.data.isdisjoint(other.data)
            and self.deletions.isdisjoint(other.deletions)
            and self.indices.isdisjoint(other.indices)
        )


def read_head(store: Store, path: str) -> ManifestHead:
    """Read a manifest without parsing its fragments."""
    tail, size = store.read_tail(path, TAIL)
    file = ManifestFile(store, path, size, tail)
    body = manifest_body(file)
    split = split_manifest(body)
    if split is None:
        raise CorruptFile(file.full_path, "not a Manifest message", "manifest")
    rest, fragments = split
    message = file.parse(rest, table_pb2.Manifest, "manifest")
    check_manifest(file.full_path, message)
    return ManifestHead(Manifest(file, message), frozenset(fragments))


def read_heads(store: Store, paths: Iterable[str]) -> Iterator[ManifestHead | None]:
    """Read many manifests, in order; None for one that is gone since it was listed."""

    def read(path: str) -> ManifestHead | None:
        try:
            return read_head(store, path)
        except MissingFile:
            return None

    if store.is_local:
        yield from map(read, paths)
        return
    queue = iter(paths)
    while chunk := list(islice(queue, _AT_ONCE)):
        tasks = [_POOL.submit(read, path) for path in chunk]
        yield from [task.result() for task in tasks]


class NameReader:
    """Collects the names in one manifest after another into ``names``."""

    __slots__ = ("_from", "_previous", "names")

    def __init__(self, origin: Origin = Origin.ANY) -> None:
        self.names = FileNames()
        self._from = origin
        self._previous: frozenset[bytes] = frozenset()

    def read(self, head: ManifestHead) -> None:
        """Add the names in a manifest."""
        self.names.add(_names(head, head.fragments - self._previous, self._from))
        self._previous = head.fragments


def names_in(head: ManifestHead, origin: Origin = Origin.ANY) -> FileNames:
    """All names in one manifest."""
    return _names(head, head.fragments, origin)


def _names(head: ManifestHead, fragments: Iterable[bytes], origin: Origin) -> FileNames:
    manifest = head.manifest
    names = FileNames(managed_blobs=bool(manifest.reader_flags & Feature.MANAGED_BLOBS))
    for raw in fragments:
        _add_fragment(names, parse_message(raw, table_pb2.DataFragment, manifest.path, "fragments"), origin)
    for index in manifest.indices:
        if origin.has(index):
            names.indices.add(index_uuid(index, manifest.path))
    if manifest.transaction_file is not None and origin is not Origin.BASE_PATHS:
        names.transactions.add(manifest.transaction_file)
    return names


def _add_fragment(names: FileNames, fragment: table_pb2.DataFragment, origin: Origin) -> None:
    for file in fragment.files:
        if origin.has(file):
            names.data.add(file.path)
    for overlay in fragment.overlays:
        if origin.has(overlay.data_file):
            names.data.add(overlay.data_file.path)
    if fragment.HasField("deletion_file"):
        deletion = fragment.deletion_file
        if origin.has(deletion):
            suffix = "bin" if deletion.file_type == table_pb2.DeletionFile.BITMAP else "arrow"
            names.deletions.add(f"{fragment.id}-{deletion.read_version}-{deletion.id}.{suffix}")

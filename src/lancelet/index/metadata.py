"""What a manifest says about its indices (spec table-format.md 2.3, ``IndexMetadata``).

An index may consist of several segments with the same name, each with a folder
of its own and a set of fragments that it covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from uuid import UUID

from pyroaring import BitMap

from lancelet.errors import CorruptFile
from lancelet.table.commit.index_upkeep import details_name
from lancelet.table.rows.roaring import decode_roaring

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lancelet.format.proto import table_pb2
    from lancelet.table.manifest.manifest import Manifest


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of a segment."""

    path: str
    """Relative to the segment's folder."""
    size: int


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """One segment of an index."""

    uuid: UUID
    """Also the name of its folder in ``_indices/``."""
    name: str
    fields: tuple[int, ...]
    dataset_version: int
    """The version that it was built from."""
    fragment_ids: frozenset[int] | None
    """Fragments that it covers, whether they still exist or not; None when the writer did not say."""
    type_url: str
    """Kind of index, for example ``/lance.table.BTreeIndexDetails``; empty for the oldest indices."""
    details: bytes
    """The message that ``type_url`` names."""
    index_version: int | None
    created_at: datetime | None
    base_id: int | None
    files: tuple[IndexFile, ...]
    covering_fields: tuple[int, ...]
    metadata: Mapping[str, str]

    @property
    def type_name(self) -> str:
        """Last part of the type URL, for example ``BTreeIndexDetails``."""
        return details_name(self.type_url)

    def covers(self, live: Iterable[int]) -> BitMap:
        """Those of the live fragments that the segment covers."""
        return BitMap(self.fragment_ids or ()) & BitMap(live)


def read_indices(manifest: Manifest) -> tuple[IndexMetadata, ...]:
    """All index segments of a version."""
    return tuple(index_from_proto(message, manifest.path) for message in manifest.indices)


def index_from_proto(message: table_pb2.IndexMetadata, path: str) -> IndexMetadata:
    """Read one segment's message; ``path`` is the file that it came from."""
    place = f"index {message.name!r}"
    if len(message.uuid.uuid) != 16:
        raise CorruptFile(path, f"its UUID has {len(message.uuid.uuid)} bytes", place)
    fragments = None
    if message.HasField("fragment_bitmap"):
        # No bytes at all, as an absent default, is the empty set too.
        data = message.fragment_bitmap
        fragments = frozenset(decode_roaring(data, path, place).tolist()) if data else frozenset()
    return IndexMetadata(
        UUID(bytes=message.uuid.uuid),
        message.name,
        tuple(message.fields),
        message.dataset_version,
        fragments,
        message.index_details.type_url,
        message.index_details.value,
        message.index_version if message.HasField("index_version") else None,
        _time(message.created_at, path, place) if message.HasField("created_at") else None,
        message.base_id if message.HasField("base_id") else None,
        tuple(IndexFile(file.path, file.size_bytes) for file in message.files),
        tuple(message.covering_fields),
        dict(message.metadata),
    )


def _time(milliseconds: int, path: str, place: str) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise CorruptFile(path, f"was created at {milliseconds} milliseconds", place) from None

"""Parts of an index that processes write into one folder, each over some fragments, and that one of them merges.

::

    _indices/<uuid>/staging/...     parts, until they are merged
    _indices/<uuid>/...             the segment; whoever asked for it commits it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.file.checksums import are_wanted
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import BuiltInStages, Kind, NewRows, Source
from lancelet.index.metadata import IndexMetadata
from lancelet.index.segments import index_file_version
from lancelet.indexing.create import Watch, build_segment, read_uuid
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.names import INDICES_DIR

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.execution.table_reader import TableReader
    from lancelet.table.manifest.snapshot import Snapshot

_STAGING: Final = "staging"


def stage_part(
    table: TableReader,
    column: str | Sequence[str],
    kind: Kind,
    name: str,
    fragments: Sequence[int],
    options: Mapping[str, object],
    uuid: str | None,
    watch: Watch | None = None,
) -> None:
    """Write a part over some fragments, into a folder that other parts may be in."""
    assert isinstance(kind, BuiltInStages)
    if not fragments:
        raise InvalidInput("fragment_ids names no fragments")
    told = {**options, **kind.stage_options(list(fragments))}
    with WrittenFiles(table.snapshot.store) as files:
        build_segment(table, column, kind, name, fragments, files, options=told, uuid=uuid, watch=watch, shared=True)


def merge_staged(table: TableReader, kind: Kind, uuid: str) -> None:
    """Make a segment of the parts in a folder, and remove them."""
    assert isinstance(kind, BuiltInStages)
    snapshot = table.snapshot
    found = read_uuid(snapshot, uuid, shared=True)
    assert found is not None
    folder = f"{INDICES_DIR}/{found}"
    names = sorted(snapshot.store.list_names(f"{folder}/{_STAGING}"))
    if not names:
        if next(iter(snapshot.store.list_names(folder)), None) is not None:
            return
        raise InvalidInput(f"there are no parts of an index {found} in {snapshot.uri}; build them with this index_uuid")
    place = IndexFolder(snapshot, _entry(snapshot, kind, found))
    segments = kind.staged(place, names, pa.null())
    if not segments:
        raise InvalidInput(f"none of the parts of index {found} in {snapshot.uri} is complete; build them again")
    sources = [Source(segment) for segment in segments]
    with WrittenFiles(snapshot.store) as files:
        out = SegmentWriter(
            snapshot.store,
            found,
            index_file_version(snapshot),
            files,
            snapshot.manifest.has_stable_row_ids,
            are_wanted(snapshot.manifest.config),
        )
        kind.write(sources, NewRows(pa.null()), out, kind.options_of_staged(segments))
    snapshot.store.delete_many([f"{folder}/{_STAGING}/{name}" for name in names])


def _entry(snapshot: Snapshot, kind: Kind, uuid: UUID) -> IndexMetadata:
    """An entry for a segment that has none yet."""
    return IndexMetadata(
        uuid, "", (), snapshot.version, None, kind.type_url, b"", kind.newest_version, None, None, (), (), {}
    )

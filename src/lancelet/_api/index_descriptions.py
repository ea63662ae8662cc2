"""Indices as a dataset describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from lancelet.bitmap import Bitmap
from lancelet.errors import IndexNotFound, InvalidType
from lancelet.index.fragment_reuse import FragmentReuse
from lancelet.index.kind import KnownKind, title_of
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.registry import known_kind
from lancelet.index.segments import indexed_type, open_segment, usable_kind
from lancelet.table.commit.fragment_reuse import advanced, read_rewrites
from lancelet.table.commit.index_upkeep import SYSTEM_INDICES

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field
    from lancelet.table.manifest.snapshot import Snapshot


@dataclass
class IndexConfig:
    """A kind of index and its options."""

    index_type: str
    parameters: dict[str, Any]


class IndexInformation(TypedDict):
    """A segment as ``list_indices`` shows it."""

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: Bitmap
    base_id: int | None


class SupportedDistributedIndices(str, Enum):
    """Kinds whose parts ``merge_index_metadata`` of pylance can put together."""

    BTREE = "BTREE"
    INVERTED = "INVERTED"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"
    IVF_SQ = "IVF_SQ"
    VECTOR = "VECTOR"


@dataclass(frozen=True)
class IndexSegment:
    """A segment as a plan of a build names it; :meth:`lancelet.LanceDataset.commit_existing_index_segments` takes what
    :meth:`lancelet.LanceDataset.create_index_uncommitted` gives."""

    uuid: str
    fragment_ids: Bitmap
    index_version: int


@dataclass(frozen=True)
class IndexSegmentDescription:
    """One segment of an index."""

    uuid: str
    dataset_version_at_last_update: int
    fragment_ids: Bitmap
    index_version: int
    created_at: datetime | None
    size_bytes: int | None
    base_id: int | None
    covering_fields: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class IndexDescription:
    """An index: all of its segments together."""

    name: str
    type_url: str
    index_type: str
    num_rows_indexed: int
    fields: list[int]
    field_names: list[str]
    segments: list[IndexSegmentDescription]
    details: dict[str, Any]
    total_size_bytes: int | None


def remap_row_addresses(snapshot: Snapshot, addresses: object) -> pa.Array | None:
    """Present addresses of rows that compactions may have moved; null for rows that are gone.

    None when the version remembers no compaction.
    """
    if not isinstance(addresses, pa.Array) or addresses.type != pa.uint64():
        raise InvalidType(f"addresses are an array of uint64, not {getattr(addresses, 'type', type(addresses))}")
    reuse = FragmentReuse.of(snapshot)
    if reuse is None:
        return None
    found, kept = reuse.follow(addresses.fill_null(0).to_numpy())
    return pa.array(found, mask=~kept | addresses.is_null().to_numpy(zero_copy_only=False))


def describe_indices(table: TableReader) -> list[IndexDescription]:
    """All indices by name."""
    by_name: dict[str, list[IndexMetadata]] = {}
    for segment in read_indices(table.snapshot.manifest):
        by_name.setdefault(segment.name, []).append(segment)
    return [_describe(table, by_name[name]) for name in sorted(by_name)]


def index_statistics(table: TableReader, name: str) -> dict[str, Any]:
    """Rows and fragments with and without an index, and what its segments tell of themselves."""
    segments = [segment for segment in read_indices(table.snapshot.manifest) if segment.name == name]
    if not segments:
        raise IndexNotFound(f'Index "{name}" not found in version {table.snapshot.version} of {table.snapshot.uri}')
    live = table.snapshot.manifest.fragments.ids.tolist()
    coverage = [segment.covers(live) for segment in _followed(table, segments)]
    covered = set().union(*coverage)
    per_segment = [_rows(table, fragments) for fragments in coverage]
    indexed = _rows(table, covered)
    shown = [_segment_statistics(table, segment) for segment in segments]
    times = [segment.created_at for segment in segments if segment.created_at is not None]
    return {
        "index_type": _title(table, segments[0]) if shown[0] else "N/A",
        "name": name,
        "num_indices": len(segments),
        "num_segments": len(segments),
        "indices": shown,
        "segments": shown,
        "num_indexed_fragments": len(covered),
        "num_indexed_rows": indexed,
        "num_unindexed_fragments": len(live) - len(covered),
        "num_unindexed_rows": table.num_rows - indexed,
        "num_indexed_rows_per_delta": per_segment,
        "updated_at_timestamp_ms": round(max(times).timestamp() * 1000) if times else None,
    }


def _segment_statistics(table: TableReader, segment: IndexMetadata) -> dict[str, Any]:
    """What the files of a segment tell; of kinds that we do not know, only which one it is."""
    usable = usable_kind(table.snapshot, segment)
    if usable is None:
        kind = _kind(table, segment) or KnownKind()
        return dict(kind.statistics(table.snapshot, segment))
    if not usable.is_built(segment):
        return {}
    dtype = indexed_type(table.snapshot, segment)
    return dict(open_segment(table.snapshot, segment, dtype).statistics())


def _describe(table: TableReader, segments: Sequence[IndexMetadata]) -> IndexDescription:
    first = segments[0]
    kind = _kind(table, first)
    names = {node.id: path for path, node in _named(table)}
    live = table.snapshot.manifest.fragments.ids.tolist()
    followed = _followed(table, segments)
    covered = set().union(*(segment.covers(live) for segment in followed))
    shown = [
        IndexSegmentDescription(
            str(segment.uuid),
            segment.dataset_version,
            Bitmap(segment.fragment_ids or ()),
            segment.index_version or 0,
            segment.created_at,
            _size(segment),
            segment.base_id,
            list(segment.covering_fields),
        )
        for segment in followed
    ]
    sizes = [segment.size_bytes for segment in shown]
    return IndexDescription(
        first.name,
        first.type_url,
        _title(table, first),
        _rows(table, covered),
        list(first.fields),
        [names.get(number, str(number)) for number in first.fields],
        shown,
        {} if kind is None else kind.parameters(first, table.snapshot.manifest.path),
        None if None in sizes else sum(size or 0 for size in sizes),
    )


def _followed(table: TableReader, segments: Sequence[IndexMetadata]) -> list[IndexMetadata]:
    """Segments with the fragments that those which they were built from have become since."""
    rewrites = read_rewrites(table.snapshot)
    if not rewrites:
        return list(segments)
    return [
        segment
        if segment.fragment_ids is None or segment.name in SYSTEM_INDICES
        else replace(segment, fragment_ids=frozenset(advanced(segment.fragment_ids, rewrites)))
        for segment in segments
    ]


def _named(table: TableReader) -> Iterator[tuple[str, Field]]:
    """All fields with their paths, in which names with dots or backticks stand between backticks."""

    def below(prefix: str, fields: Iterable[Field]) -> Iterator[tuple[str, Field]]:
        for node in fields:
            name = "`" + node.name.replace("`", "``") + "`" if prefix and {".", "`"} & set(node.name) else node.name
            yield prefix + name, node
            yield from below(f"{prefix}{name}.", node.children)

    return below("", table.snapshot.manifest.schema.fields)


def _rows(table: TableReader, fragment_ids: Any) -> int:
    """Live rows of some fragments."""
    wanted = set(fragment_ids)
    ids = table.snapshot.manifest.fragments.ids.tolist()
    return sum(rows for number, rows in zip(ids, table.row_counts.tolist(), strict=True) if number in wanted)


def _size(segment: IndexMetadata) -> int | None:
    return sum(file.size for file in segment.files) if segment.files else None


def _kind(table: TableReader, segment: IndexMetadata) -> KnownKind | None:
    """The kind of a segment; the oldest entries do not tell it, but their files do."""
    names: list[str] = []
    if not segment.type_url and not segment.files:
        beside = table.snapshot.places.index_file(str(segment.uuid), "any", segment.base_id)
        names = list(beside.store.list_names(beside.path.rpartition("/")[0]))
    return known_kind(segment, names)


def _title(table: TableReader, segment: IndexMetadata) -> str:
    """The kind of an index by its usual name, for example ``BTree`` or ``IVF_PQ``."""
    kind = _kind(table, segment)
    return title_of(segment.type_url) if kind is None else kind.title(table.snapshot, segment)

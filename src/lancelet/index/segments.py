"""Segments of a version: opened, and written anew from older ones and from rows.

What a segment calls a row may be out of date: fragments were rewritten since (the
fragment-reuse index tells where their rows went), or the table was changed and a row with a stable id
now lives in a fragment that the segment does not cover. :class:`Whereabouts` answers both.
"""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancelet.errors import CorruptFile, InvalidInput
from lancelet.file.checksums import are_wanted
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, VERSIONS
from lancelet.format.proto import table_pb2
from lancelet.index.folder import BUILD_MEMORY, IndexFolder, SegmentWriter
from lancelet.index.fragment_reuse import FragmentReuse
from lancelet.index.kind import Built, Kind, NewRows, Rename, Segment, Source
from lancelet.index.metadata import IndexFile, IndexMetadata
from lancelet.index.registry import kind_of_entry
from lancelet.index.row_set import RowSet
from lancelet.table.commit.fragment_reuse import advanced, is_known
from lancelet.table.commit.index_upkeep import SYSTEM_INDICES
from lancelet.table.manifest.names import INDICES_DIR
from lancelet.table.rows.addresses import MAX_ROWS, OFFSET_MASK, fragments_of, row_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    import numpy.typing as npt

    from lancelet.format.schema import Field
    from lancelet.index.row_set import RowNumbers
    from lancelet.table.commit.written import WrittenFiles
    from lancelet.table.manifest.snapshot import Snapshot
    from lancelet.table.rows.row_id_index import RowIdIndex


def indexed_fields(snapshot: Snapshot, entry: IndexMetadata) -> tuple[Field, ...]:
    """The fields that a segment is about."""
    nodes = {node.id: node for node in snapshot.manifest.schema.walk()}
    for number in entry.fields:
        if number not in nodes:
            raise CorruptFile(snapshot.manifest.path, f"index {entry.name!r} is on field {number}, which is not there")
    return tuple(nodes[number] for number in entry.fields)


def indexed_type(snapshot: Snapshot, entry: IndexMetadata) -> pa.DataType:
    """The type of the values that a segment is about."""
    return joined_type([field.arrow_field for field in indexed_fields(snapshot, entry)])


def joined_type(fields: Sequence[pa.Field]) -> pa.DataType:
    """The type of a column, or of the values of several columns together."""
    return fields[0].type if len(fields) == 1 else pa.struct([pa.field(field.name, field.type) for field in fields])


def joined_values(arrays: Sequence[pa.Array], dtype: pa.DataType) -> pa.Array:
    """The values of one column, or of several together, of the type that :func:`joined_type` gives."""
    return arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(list(arrays), fields=list(dtype))


def usable_kind(snapshot: Snapshot, entry: IndexMetadata) -> Kind | None:
    """The kind of a segment that can be opened and written anew; None for what is left as it is."""
    chains = [chain for number, chain in text_chains(snapshot.manifest.schema.fields) if number in entry.fields]
    if not chains or len(chains) < len(entry.fields):
        return None
    fields = [chain[-1] for chain in chains]
    kinds = [kind_over(field, entry) for field in fields]
    in_lists = any(node.is_list for chain in chains for node in chain[:-1])
    if in_lists and not (kinds[0] is not None and kinds[0].takes_items):
        return None
    if kinds[0] is None or None in kinds or (snapshot.manifest.has_stable_row_ids and not kinds[0].with_stable_ids):
        return None
    return kinds[0]


def text_chains(fields: Iterable[Field]) -> Iterator[tuple[int, tuple[Field, ...]]]:
    """The fields that have one value in a row, by their numbers, and those in structs that are items of lists, of which texts
    are indexed too; each with the fields that lead to it.
    """

    def below(fields: Iterable[Field], chain: tuple[Field, ...]) -> Iterator[tuple[int, tuple[Field, ...]]]:
        inside = any(node.is_list for node in chain)
        for field in fields:
            if not (inside and (field.is_list or field.is_json)):
                yield field.id, (*chain, field)
            if field.logical_type == "struct":
                yield from below(field.children, (*chain, field))
            elif field.is_list and not inside and field.children[0].logical_type == "struct":
                yield from below(field.children[0].children, (*chain, field, field.children[0]))

    return below(fields, ())


def kind_over(field: Field, entry: IndexMetadata) -> Kind | None:
    """The same of a segment that is about this field, alone or with others."""
    if entry.name in SYSTEM_INDICES:
        return None
    kind = kind_of_entry(entry)
    return None if kind is None or len(entry.fields) > kind.most_columns or not can_be_on(kind, field) else kind


def can_be_on(kind: Kind, field: Field) -> bool:
    """Whether a kind can do anything with the values of a field as they are stored."""
    if field.is_json:
        return kind.reads_stored_json or kind.takes_json
    return not (kind.reads_stored_json or field.is_blob or field.is_blob_v2)


def open_segment(snapshot: Snapshot, entry: IndexMetadata, dtype: pa.DataType) -> Segment:
    """Open a segment of a kind that we know."""
    kind = kind_of_entry(entry)
    if kind is None:
        raise InvalidInput(f"index {entry.name!r} is of a kind that this version of lancelet does not know")
    return kind.open(IndexFolder(snapshot, entry), dtype)


@dataclass(frozen=True)
class Whereabouts:
    """Where the rows of segments are in one version."""

    snapshot: Snapshot
    row_ids: Callable[[], RowIdIndex]
    """Finds stable row ids; asked only when the table has them."""
    count_rows: Callable[[int], int] | None = None
    """Counts the rows of a fragment of which the manifest does not tell; by default there may be any number."""

    @cached_property
    def _reuse(self) -> FragmentReuse | None:
        return FragmentReuse.of(self.snapshot)

    @cached_property
    def _is_known(self) -> bool:
        return is_known(self.snapshot)

    @cached_property
    def _live(self) -> frozenset[int]:
        return frozenset(self.snapshot.manifest.fragments.ids.tolist())

    @cached_property
    def _overlaid(self) -> tuple[tuple[int, int, frozenset[int]], ...]:
        """Overlays: the fragment, the version that added it, and the fields."""
        manifest = self.snapshot.manifest
        return tuple(
            (fragment.id, overlay.committed_version, frozenset(overlay.data_file.fields))
            for fragment in map(manifest.message.fragments.__getitem__, manifest.fragments.with_overlays)
            for overlay in fragment.overlays
        )

    def coverage(self, entry: IndexMetadata) -> frozenset[int]:
        """Fragments of this version all of whose rows a segment knows, with the values that they have now."""
        covered = entry.fragment_ids or frozenset()
        if not self._is_known:
            return frozenset()
        if self._reuse is not None:
            covered = advanced(covered, self._reuse.rewrites)
        stale = {
            fragment
            for fragment, version, fields in self._overlaid
            if version > entry.dataset_version and not fields.isdisjoint(entry.fields)
        }
        return (covered & self._live) - stale

    def names_ids(self, entry: IndexMetadata) -> bool:
        """Whether a segment calls rows by ids that are not addresses."""
        if not self.snapshot.manifest.has_stable_row_ids:
            return False
        kind = kind_of_entry(entry)
        return kind is not None and not kind.names_addresses(entry)

    def keeps_names(self, entry: IndexMetadata) -> bool:
        """Whether a segment calls rows by the addresses that they have now."""
        return self._reuse is None and not self.names_ids(entry)

    def source(self, entry: IndexMetadata, dtype: pa.DataType) -> Source:
        """An older segment, to be carried over into a new one: what it does not cover any more is dropped."""
        segment = open_segment(self.snapshot, entry, dtype)
        return Source(segment, self.rename(entry), partial(self._most_rows, self.names_ids(entry)))

    def rename(self, entry: IndexMetadata) -> Rename:
        """How the rows of a segment are called in a new one."""
        kind = kind_of_entry(entry)
        keeps_ids = self.names_ids(entry) and kind is not None and not kind.by_address

        def renamed(rows: RowNumbers) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
            addresses, kept = self.addresses(entry, rows)
            return (rows if keeps_ids else addresses), kept

        return renamed

    def rename_to_addresses(self, entry: IndexMetadata) -> Rename:
        """Where the rows of a segment are now, whatever it calls them."""
        return partial(self.addresses, entry)

    def most_rows(self, entry: IndexMetadata, high: int) -> int:
        """How many rows there can be under an upper half of what a segment calls rows."""
        return self._most_rows(self.names_ids(entry), high)

    def addresses(self, entry: IndexMetadata, rows: RowNumbers) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
        """Addresses of a segment's rows, and which of them are in its coverage."""
        if self.names_ids(entry):
            found, kept = self.row_ids().lookup(rows)
        elif self._reuse is not None:
            found, kept = self._reuse.follow(rows)
        else:
            found, kept = rows, np.ones(len(rows), np.bool_)
        return found, kept & self._covered(entry, found, kept)

    def present(self, entry: IndexMetadata, rows: RowSet, covered: RowSet) -> RowSet:
        """The addresses of a set of a segment's rows that are in its coverage."""
        named = self.names_ids(entry)
        moved = rows.fragments if named else rows.fragments & self._moved.keys()
        if not moved:
            return self._checked(entry, rows & covered)
        whole = {high: self._most_rows(named, high) for high in moved if rows.is_whole(high)}
        addresses, kept = self.addresses(entry, rows.within(moved).counted(whole).numbers())
        return self._checked(entry, rows.within(rows.fragments - moved) & covered) | RowSet.of(addresses[kept])

    @cached_property
    def _moved(self) -> Mapping[int, int]:
        """Fragments that were rewritten, and how many rows they had."""
        groups = [group for rewrite in self._reuse.rewrites for group in rewrite.groups] if self._reuse else []
        return {fragment.id: fragment.physical_rows for group in groups for fragment in group.old_fragments}

    def _most_rows(self, named: bool, high: int) -> int:
        """How many rows there can be under an upper half of addresses, or, ``named``, of ids."""
        if not named:
            return self._rows(high) if high in self._live else self._moved.get(high, 0)
        index = self.row_ids()
        some = fragments_of(index.starts) <= high
        last = int(index.stops[some].max(initial=0)) - row_address(high, 0)
        return min(max(last, 0), MAX_ROWS)

    def _rows(self, number: int) -> int:
        """Physical rows of a fragment; as many as there can be where nobody tells."""
        fragments = self.snapshot.manifest.fragments
        place = fragments.position(number)
        assert place is not None
        count = fragments[place].physical_rows
        if count is None:
            return OFFSET_MASK if self.count_rows is None else self.count_rows(number)
        return count

    def _checked(self, entry: IndexMetadata, rows: RowSet) -> RowSet:
        for number in rows.fragments:
            if not rows.is_whole(number) and (last := rows.bitmap(number).max()) >= self._rows(number):
                raise self._beyond(entry, number, last)
        return rows

    def _covered(
        self, entry: IndexMetadata, addresses: RowNumbers, kept: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Which addresses are in the coverage of a segment."""
        fragments, counts = self._extents(entry)
        if not len(fragments):
            return np.zeros(len(addresses), np.bool_)
        high = fragments_of(addresses)
        at = np.minimum(np.searchsorted(fragments, high), len(fragments) - 1)
        covered: npt.NDArray[np.bool_] = fragments[at] == high
        beyond = covered & kept & ((addresses & np.uint64(OFFSET_MASK)) >= counts[at])
        if beyond.any():
            first = int(beyond.argmax())
            raise self._beyond(entry, int(high[first]), int(addresses[first]) & OFFSET_MASK)
        return covered

    def _extents(self, entry: IndexMetadata) -> tuple[RowNumbers, RowNumbers]:
        """The fragments in the coverage of a segment, ascending, and their rows; every question about rows needs them."""
        if entry.uuid not in self._known_extents:
            covered = sorted(self.coverage(entry))
            counts = [self._rows(number) for number in covered]
            self._known_extents[entry.uuid] = np.array(covered, np.uint64), np.array(counts, np.uint64)
        return self._known_extents[entry.uuid]

    @cached_property
    def _known_extents(self) -> dict[UUID, tuple[RowNumbers, RowNumbers]]:
        return {}

    def _beyond(self, entry: IndexMetadata, number: int, row: int) -> CorruptFile:
        """Rows beyond the end of a fragment mean that the index is damaged, or not about this table."""
        folder = f"{self.snapshot.uri}/{INDICES_DIR}/{entry.uuid}"
        return CorruptFile(folder, f"names row {row} of fragment {number}, which has {self._rows(number)}", entry.name)


@dataclass(frozen=True, slots=True)
class NewSegment:
    """What a segment is to be, apart from its content."""

    name: str
    fields: tuple[int, ...]
    kind: Kind
    coverage: frozenset[int]
    options: Mapping[str, Any]
    uuid: UUID | None = None
    """Drawn when it is not given."""
    memory_limit: int = BUILD_MEMORY


def write_segment(
    snapshot: Snapshot, new: NewSegment, sources: Sequence[Source], rows: NewRows, files: WrittenFiles
) -> table_pb2.IndexMetadata:
    """Write a segment for a version, and tell its entry. The files are the caller's to keep or to remove."""
    manifest = snapshot.manifest
    uuid = new.uuid or uuids.uuid4()
    out = SegmentWriter(
        snapshot.store,
        uuid,
        index_file_version(snapshot),
        files,
        manifest.has_stable_row_ids,
        are_wanted(manifest.config),
        new.memory_limit,
    )
    built = new.kind.write(sources, rows, out, new.options)
    return entry_of(snapshot, new, uuid, built, out.written)


def entry_of(
    snapshot: Snapshot, new: NewSegment, uuid: UUID, built: Built, files: Iterable[IndexFile]
) -> table_pb2.IndexMetadata:
    """The entry of a segment that was written for a version."""
    entry = table_pb2.IndexMetadata(
        name=new.name,
        fields=new.fields,
        dataset_version=snapshot.version,
        fragment_bitmap=BitMap(sorted(new.coverage if built.covers else ()), optimize=False).serialize(),
        index_version=built.index_version,
        created_at=time.time_ns() // 10**6,
        files=[table_pb2.IndexFile(path=file.path, size_bytes=file.size) for file in files],
    )
    entry.uuid.uuid = uuid.bytes
    entry.index_details.type_url = new.kind.type_url
    entry.index_details.value = built.details
    return entry


def index_file_version(snapshot: Snapshot) -> str:
    """The file version that index files of a table have."""
    version = snapshot.manifest.data_storage_version
    if version == LEGACY:
        return VERSIONS[0]
    return version if version in VERSIONS else DEFAULT_VERSION

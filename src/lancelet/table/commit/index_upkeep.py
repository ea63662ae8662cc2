"""What a commit does to the list of indices (spec table-format.md 6.3).

An index entry that does not change goes into the next manifest as it is, with
whatever details we do not understand. Covered fragments that disappear stay in
a bitmap: readers look only at those that are live.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyroaring import BitMap

from lancelet.errors import InvalidInput
from lancelet.format.proto import table_pb2
from lancelet.table.rows.roaring import decode_roaring

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lancelet.table.commit.operations import CreateIndex, Rewrite
    from lancelet.table.manifest.manifest import Manifest

Indices = list[table_pb2.IndexMetadata]

REUSE_INDEX = "__lance_frag_reuse"
MEM_WAL_INDEX = "__lance_mem_wal"
ANY_VERSION = 2**31 - 1
_VERSIONS_WITH_IDS: dict[str, int] = {}
"""Kinds that name rows by their ids, and the last ``index_version`` to do so. All others, and those that nobody has
registered, may name them by address: their entries give up the fragments that are rewritten, which loses no rows."""
SYSTEM_INDICES = (REUSE_INDEX, MEM_WAL_INDEX)
"""Entries that hold no values of the table."""


def has_mem_wal(manifest: Manifest) -> bool:
    """Whether a version has a MemWAL, so that rows of the table may lie beside it."""
    return any(index.name == MEM_WAL_INDEX for index in manifest.indices)


def register_ids(details: str, last_version: int) -> None:
    """Tell that segments with such details, up to a version, name rows by their stable ids where a table has these."""
    _VERSIONS_WITH_IDS[details.lower()] = last_version


def create_indices(indices: Indices, operation: CreateIndex) -> Indices:
    """Replace the segments that a CreateIndex removes or writes anew."""
    gone = {segment.uuid for segment in (*operation.removed_indices, *operation.new_indices)}
    return [index for index in indices if index.uuid.uuid not in gone] + [s.message for s in operation.new_indices]


def retain_relevant(indices: Indices, field_ids: Collection[int], live: Collection[int]) -> Indices:
    """Drop the entries of vanished fields, and of several segments of an index those that cover nothing.

    When all of them cover nothing, the oldest stays, so that the definition of the index does.
    """
    kept = [index for index in indices if all(field in field_ids for field in index.fields)]
    segments: dict[str, list[table_pb2.IndexMetadata]] = defaultdict(list)
    for index in kept:
        segments[index.name].append(index)
    gone: set[bytes] = set()
    for same in segments.values():
        if len(same) == 1:
            continue
        empty = [index for index in same if not _covered(index).intersection(live)]
        if len(empty) == len(same):
            empty.remove(min(empty, key=lambda index: index.dataset_version))
        gone.update(index.uuid.uuid for index in empty)
    return [index for index in kept if index.uuid.uuid not in gone]


def uncover(indices: Indices, fragments: Collection[int], fields: Collection[int]) -> Indices:
    """Take fragments out of the bitmaps of the indices on any of these fields, whose values there have changed."""
    if not fragments or not fields:
        return indices

    def uncovered(index: table_pb2.IndexMetadata) -> table_pb2.IndexMetadata:
        if not index.HasField("fragment_bitmap") or not any(field in fields for field in index.fields):
            return index
        covered = _covered(index)
        return with_coverage(index, covered.difference(fragments)) if covered.intersection(fragments) else index

    return [uncovered(index) for index in indices]


def rewrite_indices(indices: Indices, operation: Rewrite, groups: Iterable[tuple[set[int], set[int]]]) -> Indices:
    """Replace the segments that were rebuilt, and move their coverage from the old fragments to the new ones.

    ``groups`` are the old and new fragment ids of each group.
    """
    rebuilt = {index.old_uuid.bytes: index for index in operation.rewritten_indices}
    groups = list(groups)
    result = []
    for index in indices:
        new = rebuilt.get(index.uuid.uuid)
        if new is None:
            result.append(index)
            continue
        changed = move_coverage(index, groups)
        changed.uuid.uuid = new.new_uuid.bytes
        changed.index_version = new.index_version
        if new.details_type_url:
            changed.index_details.type_url = new.details_type_url
            changed.index_details.value = new.details
        del changed.files[:]
        changed.files.extend(table_pb2.IndexFile(path=path, size_bytes=size) for path, size in new.files)
        changed.ClearField("base_id")
        result.append(changed)
    return result


def move_coverage(
    index: table_pb2.IndexMetadata, groups: Iterable[tuple[set[int], set[int]]]
) -> table_pb2.IndexMetadata:
    """The entry with the new fragments of each group in place of the old ones."""
    covered = set(_covered(index))
    for old, new in groups:
        inside = covered & old
        if inside and inside != old:
            raise InvalidInput(
                f"the fragments {sorted(old)} cannot be rewritten together: index '{index.name}' covers only "
                f"{sorted(inside)} of them; rewrite those and the others apart"
            )
        if inside:
            covered = (covered - old) | new
    return with_coverage(index, covered)


def follow_rows(index: table_pb2.IndexMetadata, groups: Iterable[tuple[set[int], set[int]]]) -> table_pb2.IndexMetadata:
    """An entry that was not rebuilt, after a rewrite of a table with stable row ids.

    One that names rows by their ids finds them in the new fragments; one that names them by address, or may do so,
    gives up the old fragments.
    """
    if not index.HasField("fragment_bitmap") or index.name in SYSTEM_INDICES:
        return index
    last = _VERSIONS_WITH_IDS.get(kind_of(index).lower())
    if last is not None and index.index_version <= last:
        return move_coverage(index, groups)
    return leave_fragments(index, groups)


def leave_fragments(
    index: table_pb2.IndexMetadata, groups: Iterable[tuple[set[int], set[int]]]
) -> table_pb2.IndexMetadata:
    """The entry without the old fragments of each group."""
    gone = {number for old, _ in groups for number in old}
    covered = _covered(index)
    return with_coverage(index, covered - gone) if covered & gone else index


def follows(index: table_pb2.IndexMetadata, followers: Collection[str] | None) -> bool:
    """Whether an entry is of one of these kinds, or of any when there are none."""
    return followers is None or index.name in SYSTEM_INDICES or kind_of(index).lower() in followers


def kind_of(index: table_pb2.IndexMetadata) -> str:
    """The name of its details, for example ``BTreeIndexDetails``; empty for the oldest indices."""
    return details_name(index.index_details.type_url)


def details_name(type_url: str) -> str:
    """The last part of the type URL of a message."""
    return type_url.rpartition("/")[2].rpartition(".")[2]


def covered_fragments(index: table_pb2.IndexMetadata) -> frozenset[int] | None:
    """Fragments in the bitmap of an entry; None when it has none."""
    return _covered(index) if index.HasField("fragment_bitmap") else None


def _covered(index: table_pb2.IndexMetadata) -> frozenset[int]:
    if not index.HasField("fragment_bitmap"):
        return frozenset()
    return frozenset(decode_roaring(index.fragment_bitmap, f"index {index.name}", "covered fragments").tolist())


def with_coverage(index: table_pb2.IndexMetadata, covered: Iterable[int]) -> table_pb2.IndexMetadata:
    """The entry with another set of covered fragments."""
    changed = table_pb2.IndexMetadata()
    changed.CopyFrom(index)
    changed.fragment_bitmap = BitMap(sorted(covered), optimize=False).serialize()
    return changed

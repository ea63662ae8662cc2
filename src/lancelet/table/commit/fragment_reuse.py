"""The fragment-reuse index: where rows went when fragments were rewritten and the indices were not (spec indices.md 15).

An entry of the index list, without fields. Its details are a list of rewrites, the
oldest first, inline or in ``_indices/<uuid>/details.binpb``. Each has groups::

    changed_row_addrs   64-bit Roaring of the old addresses of the rows that were kept
    old_fragments       in the order of their rows
    new_fragments       the same rows, one after another

Indices that were built before a rewrite go on naming the old fragments and
addresses; who reads them translates. A commit advances their sets of covered
fragments, so that changes to a new fragment reach the indices of the old ones.
"""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyroaring import BitMap, BitMap64

from lancelet.errors import InvalidInput, NotSupported
from lancelet.format.proto import table_pb2
from lancelet.format.proto.fragment_reuse_pb2 import FragmentReuseIndexDetails
from lancelet.store.objects import put_own
from lancelet.table.commit.index_upkeep import REUSE_INDEX, SYSTEM_INDICES, Indices, covered_fragments, with_coverage
from lancelet.table.commit.operations import IndexSegment, Rewrite, RewriteGroup
from lancelet.table.manifest.manifest import parse_message
from lancelet.table.manifest.names import INDICES_DIR
from lancelet.table.rows.addresses import row_address, row_addresses
from lancelet.table.rows.deletions import read_deletions

if TYPE_CHECKING:
    from lancelet.table.commit.written import WrittenFiles
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.paths import Places
    from lancelet.table.manifest.snapshot import Snapshot

Version = FragmentReuseIndexDetails.Version
Group = FragmentReuseIndexDetails.Group
Content = FragmentReuseIndexDetails.InlineContent

TYPE_URL = "/lance.table.FragmentReuseIndexDetails"
KNOWN_VERSION = 0
DETAILS_FILE = "details.binpb"
INLINE_BYTES = 200 << 10
"""Longer lists go into a file of their own, so that manifests stay small."""


def reuse_entry(indices: Iterable[table_pb2.IndexMetadata]) -> table_pb2.IndexMetadata | None:
    """The entry in the index list, if there is one."""
    return next((index for index in indices if index.name == REUSE_INDEX), None)


def is_known(snapshot: Snapshot) -> bool:
    """Whether we can tell where rows went; also when none did."""
    entry = reuse_entry(snapshot.manifest.indices)
    return entry is None or entry.index_version == KNOWN_VERSION


def check_known(snapshot: Snapshot) -> None:
    """Refuse a change that indices must follow when we cannot tell where their rows are."""
    entry = reuse_entry(snapshot.manifest.indices)
    if entry is not None and entry.index_version != KNOWN_VERSION:
        raise NotSupported(
            f"{snapshot.uri} has a fragment-reuse index of version {entry.index_version}, which this version of lancelet "
            "does not know, so that its indices cannot follow a compaction; drop the indices first"
        )


def read_rewrites(snapshot: Snapshot) -> tuple[Version, ...]:
    """The rewrites that a table remembers, the oldest first. None of a form that is not known."""
    entry = reuse_entry(snapshot.manifest.indices)
    if entry is None or entry.index_version != KNOWN_VERSION:
        return ()
    place = "fragment-reuse index"
    path = snapshot.manifest.path
    details = parse_message(entry.index_details.value, FragmentReuseIndexDetails, path, place)
    if details.WhichOneof("content") != "external":
        return tuple(details.inline.versions)
    base = entry.base_id if entry.HasField("base_id") else None
    folder = str(uuids.UUID(bytes=entry.uuid.uuid))
    file = snapshot.places.index_file(folder, details.external.path, base)
    start, size = details.external.offset, details.external.size
    (data,) = file.open().read([(start, size)])
    return tuple(parse_message(data.tobytes(), Content, file.full_path, place).versions)


def advance_coverage(indices: Indices, rewrites: Sequence[Version]) -> Indices:
    """Entries that cover the new fragments of each rewrite in place of the old ones.

    An entry covers the new fragments of a group when it covered all the old ones.
    """
    if not rewrites:
        return indices
    result = []
    for index in indices:
        known = None if index.name in SYSTEM_INDICES else covered_fragments(index)
        covered = None if known is None else advanced(known, rewrites)
        result.append(index if covered is None or covered == known else with_coverage(index, covered))
    return result


def advanced(covered: Iterable[int], rewrites: Iterable[Version]) -> frozenset[int]:
    """The fragments that hold the rows of ``covered`` after the rewrites."""
    found = set(covered)
    for rewrite in rewrites:
        for group in rewrite.groups:
            old = {fragment.id for fragment in group.old_fragments}
            if old and old <= found:
                found = (found - old) | {fragment.id for fragment in group.new_fragments}
    return frozenset(found)


def describe_rewrite(places: Places, groups: Iterable[RewriteGroup]) -> bytes:
    """What a rewrite did to the addresses of rows. All fragments must have their ids and numbers of rows."""
    return Version(groups=[_group(places, group) for group in groups]).SerializeToString()


def remember_rewrite(rewrite: Rewrite, latest: Snapshot, files: WrittenFiles) -> Rewrite:
    """The rewrite with the entry that records it after those that ``latest`` remembers."""
    assert rewrite.moves is not None
    check_known(latest)
    newest = Version.FromString(rewrite.moves)
    newest.dataset_version = latest.version
    kept = [*_needed(read_rewrites(latest), latest.manifest.indices), newest]
    new = [fragment.id for version in kept for group in version.groups for fragment in group.new_fragments]
    message = table_pb2.IndexMetadata(
        name=REUSE_INDEX,
        dataset_version=latest.version,
        fragment_bitmap=BitMap(new).serialize(),
        index_version=KNOWN_VERSION,
        created_at=time.time_ns() // 10**6,
    )
    uuid = uuids.uuid4()
    message.uuid.uuid = uuid.bytes
    message.index_details.type_url = TYPE_URL
    content = Content(versions=kept)
    data = content.SerializeToString()
    details = FragmentReuseIndexDetails()
    if len(data) > INLINE_BYTES:
        path = f"{INDICES_DIR}/{uuid}/{DETAILS_FILE}"
        files.add(path)
        put_own(latest.store, path, data)
        details.external.path, details.external.size = DETAILS_FILE, len(data)
    else:
        details.inline.CopyFrom(content)
    message.index_details.value = details.SerializeToString()
    return replace(rewrite, reuse_index=IndexSegment.of(message))


def unneeded_rewrites(snapshot: Snapshot, indices: Indices) -> Indices:
    """The entry of the fragment-reuse index, when none of these indices needs it any more."""
    entry = reuse_entry(snapshot.manifest.indices)
    if entry is None or entry.index_version != KNOWN_VERSION or _needed(read_rewrites(snapshot), indices):
        return []
    return [entry]


def _needed(rewrites: Sequence[Version], indices: Iterable[table_pb2.IndexMetadata]) -> list[Version]:
    """Rewrites that some index has not seen: it was built from the version before, or an earlier one."""
    built = [index.dataset_version for index in indices if index.name not in SYSTEM_INDICES]
    oldest = min(built, default=0)
    return [rewrite for rewrite in rewrites if built and rewrite.dataset_version >= oldest]


def _group(places: Places, group: RewriteGroup) -> Group:
    message = Group()
    survivors = BitMap64()
    for fragment in group.old_fragments:
        first, rows = row_address(fragment.id, 0), _rows(fragment)
        gone = read_deletions(places, fragment).offsets
        survivors.add_range(first, first + rows)
        if len(gone):
            survivors -= BitMap64(row_addresses(fragment.id, gone))
        message.old_fragments.add(id=fragment.id, physical_rows=rows, num_deleted_rows=len(gone))
    for fragment in group.new_fragments:
        message.new_fragments.add(id=fragment.id, physical_rows=_rows(fragment))
    survivors.run_optimize()
    message.changed_row_addrs = survivors.serialize()
    return message


def _rows(fragment: Fragment) -> int:
    if fragment.physical_rows is None:
        raise InvalidInput(f"fragment {fragment.id} does not say how many rows it has")
    return fragment.physical_rows

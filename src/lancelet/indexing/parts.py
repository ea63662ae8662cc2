"""Indices built in parts: segments over some fragments each, by any process, merged if wanted and committed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lancelet.errors import InvalidInput
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import NewRows, Stages
from lancelet.index.metadata import IndexMetadata, index_from_proto, read_indices
from lancelet.index.registry import kind_of_entry
from lancelet.index.segments import NewSegment, Whereabouts, write_segment
from lancelet.indexing.create import Watch, build_segment, check_name
from lancelet.indexing.rows import columns_of_fields, find_columns, old_source
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.proto import table_pb2
    from lancelet.index.kind import Kind
    from lancelet.table.manifest.snapshot import Snapshot


def build_part(
    table: TableReader,
    column: str | Sequence[str],
    kind: Kind,
    name: str,
    fragments: Sequence[int],
    *,
    options: Mapping[str, object] | None = None,
    uuid: str | None = None,
    watch: Watch | None = None,
    stages: Stages | None = None,
) -> table_pb2.IndexMetadata:
    """Write a segment over some fragments without committing it."""
    with WrittenFiles(table.snapshot.store) as files:
        return build_segment(
            table, column, kind, name, fragments, files, options=options, uuid=uuid, watch=watch, stages=stages
        )


def merge_parts(table: TableReader, parts: Sequence[table_pb2.IndexMetadata]) -> table_pb2.IndexMetadata:
    """One segment out of several that are not committed; these stay where they are."""
    entries = _entries(table, parts)
    first = entries[0]
    kind = kind_of_entry(first)
    if kind is None or any(kind_of_entry(entry) is not kind or entry.fields != first.fields for entry in entries):
        raise InvalidInput("only segments of one kind, over one column, can be merged")
    where = Whereabouts(table.snapshot, lambda: table.row_id_index, table.physical_rows)
    indexed = columns_of_fields(table, first.fields)
    sources = [old_source(table, where, entry, indexed) for entry in entries]
    coverage = frozenset().union(*(where.coverage(entry) for entry in entries))
    new = NewSegment(first.name, first.fields, kind, coverage, kind.options(IndexFolder(table.snapshot, first)))
    with WrittenFiles(table.snapshot.store) as files:
        merged = write_segment(table.snapshot, new, sources, NewRows(indexed.type), files)
        merged.dataset_version = min(entry.dataset_version for entry in entries)
        return merged


def commit_parts(
    table: TableReader, name: str, column: str | Sequence[str], parts: Sequence[table_pb2.IndexMetadata]
) -> Snapshot:
    """Make segments the ones of an index, in place of those that cover the same fragments."""
    check_name(name)
    entries = _entries(table, parts)
    kinds = [kind_of_entry(entry) for entry in entries]
    ids = find_columns(table, column, in_lists=all(kind is not None and kind.takes_items for kind in kinds)).ids
    for entry in entries:
        if entry.fields != ids:
            raise InvalidInput(f"segment {entry.uuid} is of another column than {column!r}; build it for this one")
        _check_values(table.snapshot, entry)
    where = Whereabouts(table.snapshot, lambda: table.row_id_index, table.physical_rows)
    covered = frozenset().union(*(where.coverage(entry) for entry in entries))
    gone = []
    for message, entry in zip(table.snapshot.manifest.indices, read_indices(table.snapshot.manifest), strict=True):
        if entry.name != name:
            continue
        if entry.fields != ids:
            raise InvalidInput(f"index {name!r} is on another column; commit the segments under another name")
        known = where.coverage(entry)
        if known and known.isdisjoint(covered):
            continue
        if orphans := sorted(known - covered):
            raise InvalidInput(
                f"the new segments of {name!r} would orphan the fragments {orphans} of the segment {entry.uuid}; "
                "build segments for them too"
            )
        gone.append(ops.IndexSegment.of(message))
    new = []
    for part in parts:
        part.name = name
        new.append(ops.IndexSegment.of(part))
    return commit(table.snapshot, ops.CreateIndex(tuple(new), tuple(gone)))


def _check_values(snapshot: Snapshot, entry: IndexMetadata) -> None:
    """Raise when fragments got other values in place since a segment was built from them."""
    if entry.dataset_version >= snapshot.version:
        return

    def files(one: Snapshot) -> dict[int, list[str | None]]:
        fragments, found = one.manifest.fragments, {}
        for number in entry.fragment_ids or ():
            if (at := fragments.position(number)) is not None:
                places = [fragments[at].locate(field_id) for field_id in entry.fields]
                found[number] = [None if place is None else fragments[at].files[place.file].path for place in places]
        return found

    now = files(snapshot)
    then = files(snapshot.at(entry.dataset_version)) if now else {}
    if changed := sorted(number for number, file in now.items() if then.get(number) != file):
        raise InvalidInput(
            f"the fragments {changed} have got other values since version {entry.dataset_version}, from which "
            f"segment {entry.uuid} was built; build it again"
        )


def _entries(table: TableReader, parts: Sequence[table_pb2.IndexMetadata]) -> list[IndexMetadata]:
    if not parts:
        raise InvalidInput("there are no segments")
    entries = [index_from_proto(part, table.snapshot.manifest.path) for part in parts]
    seen: set[int] = set()
    for entry in entries:
        if twice := sorted(seen & (entry.fragment_ids or frozenset())):
            raise InvalidInput(f"the fragments {twice} are in more than one segment")
        seen |= entry.fragment_ids or frozenset()
    return entries

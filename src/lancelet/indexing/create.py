"""Creating and dropping indices."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING

from lancelet._naming.texts import check_text
from lancelet.editing.retry import retried
from lancelet.errors import IndexNotFound, IndexRefused, InvalidInput, InvalidType, NotSupported
from lancelet.execution.table_reader import TableReader
from lancelet.index.kind import NewRows, Stages
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.registry import kind_of_entry
from lancelet.index.segments import NewSegment, can_be_on, write_segment
from lancelet.indexing.rows import find_columns, read_rows
from lancelet.table.commit import operations as ops
from lancelet.table.commit.index_upkeep import SYSTEM_INDICES
from lancelet.table.commit.patience import BUILD_SECONDS
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.names import INDICES_DIR

if TYPE_CHECKING:
    from lancelet.format.proto import table_pb2
    from lancelet.index.kind import Kind
    from lancelet.table.manifest.snapshot import Snapshot

_FIRST_NUMBER = 2

Watch = Callable[[int, int], object]
"""Hears how many rows have been read, and of how many."""


def create_index(
    table: TableReader,
    column: str | Sequence[str],
    kind: Kind,
    *,
    name: str | None = None,
    replace: bool = True,
    train: bool = True,
    options: Mapping[str, object] | None = None,
    uuid: str | None = None,
    watch: Watch | None = None,
    stages: Stages | None = None,
) -> Snapshot:
    """Build an index over all rows and commit it; when fragments are rewritten meanwhile, over the newest version.

    Without ``train`` it covers nothing: ``optimize_indices`` fills it.
    """

    def attempt(table: TableReader) -> Snapshot:
        chosen, replaced = name_index(table, column, kind, name, replace, options)
        fragments = table.snapshot.manifest.fragments.ids.tolist() if train else []
        with WrittenFiles(table.snapshot.store) as files:
            entry = build_segment(
                table, column, kind, chosen, fragments, files, options=options, uuid=uuid, watch=watch, stages=stages
            )
            operation = ops.CreateIndex((ops.IndexSegment.of(entry),), replaced)
            return commit(table.snapshot, operation, files=files)

    return retried(table, attempt, None, BUILD_SECONDS)


def build_segment(
    table: TableReader,
    column: str | Sequence[str],
    kind: Kind,
    name: str,
    fragments: Sequence[int],
    files: WrittenFiles,
    *,
    options: Mapping[str, object] | None = None,
    uuid: str | None = None,
    watch: Watch | None = None,
    stages: Stages | None = None,
    shared: bool = False,
) -> table_pb2.IndexMetadata:
    """Write a segment over some fragments; nothing refers to it yet. A ``shared`` folder may have files already."""
    check_name(name)
    found = find_columns(table, column, in_lists=kind.takes_items)
    for path, field in zip(found.paths, found.fields, strict=True):
        if not can_be_on(kind, field):
            raise InvalidType(
                f"column '{path}' is {field.logical_type}, and a JSON index is on a column of JSON"
                if kind.reads_stored_json
                else f"column '{path}' holds JSON or blobs, of which there can be no {kind.name} index"
            )
    if table.snapshot.manifest.has_stable_row_ids and not kind.with_stable_ids:
        raise NotSupported(
            f"{table.snapshot.uri} has stable row ids, with which a {kind.name} index over this target is not supported; "
            "take a bitmap as the target"
        )
    options = options or {}
    kind.check(found.arrow_field, options)
    options = kind.options_on(found.arrow_field, options)
    live = set(table.snapshot.manifest.fragments.ids.tolist())
    try:
        fragments = [index(number) for number in fragments]
    except TypeError:
        raise InvalidType(f"fragments are chosen by their numbers, not by {fragments!r}") from None
    if missing := sorted(set(fragments) - live):
        raise InvalidInput(f"fragments {missing} are not in version {table.snapshot.version} of {table.snapshot.uri}")
    total = table.num_rows
    seen = None if watch is None else lambda done: watch(done, total)
    rows = read_rows(table, found, kind, fragments, seen, stages)
    new = NewSegment(name, found.ids, kind, frozenset(fragments), options, read_uuid(table.snapshot, uuid, shared))
    return write_segment(table.snapshot, new, (), rows if fragments else NewRows(found.type), files)


def drop_index(table: TableReader, name: str) -> Snapshot:
    """Remove all segments of an index, those too that others write meanwhile; their files go with the next cleanup."""
    if not isinstance(name, str):
        raise InvalidType(f"the name of an index is a text, not {name!r}")

    def attempt(table: TableReader) -> Snapshot:
        snapshot = table.snapshot
        gone = tuple(ops.IndexSegment.of(message) for message in snapshot.manifest.indices if message.name == name)
        if not gone:
            known = sorted({message.name for message in snapshot.manifest.indices} - set(SYSTEM_INDICES))
            raise IndexNotFound(
                f'Index "{name}" not found in version {snapshot.version} of {snapshot.uri}; it has '
                f"{', '.join(known) if known else 'no indices'}"
            )
        done = commit(snapshot, ops.CreateIndex((), gone))
        # A compaction in between is no conflict, but puts segments with other UUIDs in their place.
        left = any(message.name == name for message in done.manifest.indices)
        return attempt(TableReader(done, table.cache)) if left else done

    return retried(table, attempt, None, BUILD_SECONDS)


def name_index(
    table: TableReader,
    column: str | Sequence[str],
    kind: Kind,
    name: str | None,
    replace: bool,
    options: Mapping[str, object] | None = None,
) -> tuple[str, tuple[ops.IndexSegment, ...]]:
    """The name of a new index, and the segments that it replaces.

    A name that is drawn from the column belongs to one kind of index: another kind gets a number.
    """
    check_name(name)
    found = find_columns(table, column, in_lists=kind.takes_items)
    present: dict[str, list[IndexMetadata]] = {}
    for entry in read_indices(table.snapshot.manifest):
        present.setdefault(entry.name, []).append(entry)
    chosen = name
    if chosen is None:
        number = _FIRST_NUMBER
        paths = (".".join(f"`{step}`" if "." in step else step for step in path) for path in found.names)
        stem = "_".join(paths) + kind.name_suffix(options or {})
        chosen = stem
        while chosen in present and not _same(present[chosen], found.ids, kind):
            chosen = f"{stem}_{number}"
            number += 1
    same = present.get(chosen, [])
    if any(entry.fields != found.ids for entry in same):
        raise IndexRefused(
            f"Index name '{chosen}' already exists with different fields, please specify a different name"
        )
    if same and not replace:
        raise IndexRefused(f"Index name '{chosen}' already exists, please specify a different name or use replace=True")
    uuids_gone = {entry.uuid.bytes for entry in same}
    gone = [message for message in table.snapshot.manifest.indices if message.uuid.uuid in uuids_gone]
    return chosen, tuple(ops.IndexSegment.of(message) for message in gone)


def check_name(name: str | None) -> None:
    """Raise when an index cannot be called so."""
    if name is not None:
        check_text(name, "the name of an index")
    if name in SYSTEM_INDICES:
        raise IndexRefused(f"an index cannot be called {name!r}, which means something of its own to a table")


def _same(entries: Sequence[IndexMetadata], ids: tuple[int, ...], kind: Kind) -> bool:
    return all(entry.fields == ids and kind_of_entry(entry) is kind for entry in entries)


def read_uuid(snapshot: Snapshot, text: str | None, shared: bool = False) -> uuids.UUID | None:
    """The folder that a caller wants; one with files would lose them, whether the build succeeds or fails."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidType(f"index_uuid is a UUID as text, not {text!r}")
    try:
        found = uuids.UUID(text)
    except ValueError:
        raise InvalidInput(f"index_uuid is a UUID as text, not {text!r}") from None
    if not shared and next(iter(snapshot.store.list_names(f"{INDICES_DIR}/{found}")), None) is not None:
        raise InvalidInput(f"there are files of an index {found} in {snapshot.uri} already; draw another index_uuid")
    return found

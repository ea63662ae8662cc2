"""Changing a commit so that it can follow others (spec table-format.md 7.4).

Two deletions in one fragment are joined by row: the second writer repeats its
deletion file with the rows of both. A new index gives up the fragments whose
values have changed since it was built. A rewrite is remembered after those that
others made meanwhile.
"""

from __future__ import annotations

import uuid as uuids
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lancelet.errors import RetryableCommitConflict
from lancelet.file.checksums import are_wanted
from lancelet.format.proto import table_pb2
from lancelet.table.commit import operations as ops
from lancelet.table.commit.deletion_write import joined_deletions, write_deletions
from lancelet.table.commit.fragment_reuse import DETAILS_FILE, remember_rewrite, reuse_entry
from lancelet.table.commit.index_upkeep import uncover
from lancelet.table.manifest.kept_fragments import find_fragment
from lancelet.table.manifest.names import DELETIONS_DIR, INDICES_DIR, TRANSACTIONS_DIR

if TYPE_CHECKING:
    from lancelet.table.commit.conflicts import Rebase
    from lancelet.table.commit.written import WrittenFiles
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.snapshot import Snapshot


def carry_out(rebase: Rebase, latest: Snapshot, files: WrittenFiles) -> bool:
    """Change the operation as the conflict rules asked; says whether it counts as based on ``latest`` from now on."""
    if rebase.uncovered:
        rebase.operation = _shrink_indices(rebase.operation, rebase)
        rebase.uncovered.clear()
    if rebase.marked:
        rebase.operation = _join_deletions(rebase, latest, files)
        rebase.marked.clear()
    if isinstance(rebase.operation, ops.Rewrite) and rebase.operation.moves is not None:
        rebase.operation = remember_rewrite(rebase.operation, latest, files)
    return isinstance(rebase.operation, (ops.Delete, ops.Update, ops.DataOverlay))


def is_current(manifest: Manifest, path: str) -> bool:
    """Whether a version has a file in the form that it was committed in; data files have no other.

    What a commit writes anew when others come first are its deletion files, its transaction and the record of a rewrite.
    """
    folder, _, name = path.partition("/")
    if folder == TRANSACTIONS_DIR:
        return name == manifest.transaction_file
    if folder == DELETIONS_DIR:
        number = int(name.partition("-")[0])
        fragment = find_fragment(manifest, number)
        file = None if fragment is None else fragment.deletion_file
        return file is not None and file.base_id is None and file.path(number) == path
    if folder == INDICES_DIR and name.endswith(f"/{DETAILS_FILE}"):
        entry = reuse_entry(manifest.indices)
        return entry is not None and name == f"{uuids.UUID(bytes=entry.uuid.uuid)}/{DETAILS_FILE}"
    return True


def _join_deletions(rebase: Rebase, latest: Snapshot, files: WrittenFiles) -> ops.Delete | ops.Update:
    operation: ops.Delete | ops.Update = rebase.operation
    affected = rebase.affected_rows
    assert affected is not None
    kept, removed = [], []
    for fragment in operation.updated_fragments:
        if fragment.id not in rebase.marked:
            kept.append(fragment)
            continue
        current = latest.manifest.fragments.by_id(fragment.id)
        rows = affected.get(fragment.id, np.empty(0, np.uint32))
        joined = None if current is None else joined_deletions(latest, current, rows)
        if current is None or joined is None:
            raise RetryableCommitConflict(
                latest.uri,
                latest.version,
                f"This {type(operation).__name__} transaction touches rows of fragment {fragment.id} that another "
                f"transaction deleted or moved up to version {latest.version}. Please retry it on the newest version",
            )
        if len(joined) == current.physical_rows:
            removed.append(fragment.id)
            continue
        file = write_deletions(
            latest.store,
            fragment.id,
            latest.version,
            joined,
            bitmap=True,
            checksums=are_wanted(latest.manifest.config),
            files=files,
        )
        kept.append(replace(current, deletion_file=file))
    if isinstance(operation, ops.Delete):
        return replace(
            operation,
            updated_fragments=tuple(kept),
            deleted_fragment_ids=(*operation.deleted_fragment_ids, *removed),
        )
    return replace(
        operation, updated_fragments=tuple(kept), removed_fragment_ids=(*operation.removed_fragment_ids, *removed)
    )


def _shrink_indices(operation: ops.CreateIndex, rebase: Rebase) -> ops.CreateIndex:
    messages: list[table_pb2.IndexMetadata] = [segment.message for segment in operation.new_indices]
    for fragments, fields in rebase.uncovered:
        messages = uncover(messages, fragments, fields)
    return replace(operation, new_indices=tuple(ops.IndexSegment.of(message) for message in messages))

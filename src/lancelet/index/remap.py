"""Indices after fragments were rewritten: new segments in which the rows have their new addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lancelet.index.folder import IndexFolder
from lancelet.index.fragment_reuse import FragmentReuse
from lancelet.index.kind import Moves, NewRows
from lancelet.index.metadata import IndexMetadata, index_from_proto, read_indices
from lancelet.index.segments import NewSegment, Whereabouts, indexed_type, usable_kind, write_segment
from lancelet.table.commit.fragment_reuse import Version, check_known, describe_rewrite
from lancelet.table.commit.operations import RewriteGroup, RewrittenIndex

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lancelet.index.kind import Kind, Rename
    from lancelet.index.row_set import RowNumbers
    from lancelet.table.commit.written import WrittenFiles
    from lancelet.table.manifest.snapshot import Snapshot
    from lancelet.table.rows.row_id_index import RowIdIndex


def remap_indices(
    snapshot: Snapshot, row_ids: Callable[[], RowIdIndex], groups: Sequence[RewriteGroup], files: WrittenFiles
) -> tuple[RewrittenIndex, ...]:
    """New segments for the indices that name rows of the old fragments by address.

    Kinds that do not follow moves, or that we do not know, get none.
    """
    check_known(snapshot)
    old = {fragment.id for group in groups for fragment in group.old_fragments}
    where = Whereabouts(snapshot, row_ids)
    concerned = [
        (entry, kind)
        for entry in read_indices(snapshot.manifest)
        if (kind := usable_kind(snapshot, entry)) is not None
        and kind.moves is Moves.REWRITTEN
        and not where.names_ids(entry)
        and where.coverage(entry) & old
    ]
    if not concerned:
        return ()
    moves = FragmentReuse((Version.FromString(describe_rewrite(snapshot.places, groups)),), snapshot.manifest.path)
    return tuple(_remap(snapshot, where, moves, entry, kind, files) for entry, kind in concerned)


def _remap(
    snapshot: Snapshot,
    where: Whereabouts,
    moves: FragmentReuse,
    entry: IndexMetadata,
    kind: Kind,
    files: WrittenFiles,
) -> RewrittenIndex:
    dtype = indexed_type(snapshot, entry)
    source = replace(where.source(entry, dtype), rename=_moved(where.rename(entry), moves))
    # The commit makes the coverage of the new segment out of that of the old one.
    new = NewSegment(entry.name, entry.fields, kind, frozenset(), kind.options(IndexFolder(snapshot, entry)))
    made = index_from_proto(write_segment(snapshot, new, [source], NewRows(dtype), files), snapshot.manifest.path)
    return RewrittenIndex(
        entry.uuid,
        made.uuid,
        made.type_url,
        made.details,
        made.index_version or 0,
        tuple((file.path, file.size) for file in made.files),
    )


def _moved(rename: Rename, moves: FragmentReuse) -> Rename:
    def renamed(rows: RowNumbers) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
        found, kept = rename(rows)
        after, alive = moves.follow(found)
        return after, kept & alive

    return renamed

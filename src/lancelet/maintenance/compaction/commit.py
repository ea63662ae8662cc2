"""Putting rewritten fragments in the place of the old ones (spec table-format.md 8.7).

Two commits: the first takes ids for the new fragments, the second exchanges them.
Indices that name rows by address cannot follow by themselves; the second commit then
also records where the rows went, in the fragment-reuse index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from lancelet.errors import InvalidInput, RetryableCommitConflict
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.table_reader import TableReader
from lancelet.index.registry import details_that_follow
from lancelet.maintenance.compaction.execute import Rewritten, rewrite_fragments
from lancelet.maintenance.compaction.plan import ALL, index_coverage, plan_tasks
from lancelet.table.commit import operations as ops
from lancelet.table.commit.fragment_reuse import describe_rewrite
from lancelet.table.commit.patience import BUILD_SECONDS, Patience
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles
from lancelet.table.manifest.names import DATA_DIR, INDICES_DIR

if TYPE_CHECKING:
    from lancelet.format.schema import Schema
    from lancelet.maintenance.compaction.options import CompactionSettings
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.snapshot import Snapshot

Rewriter: TypeAlias = (
    "Callable[[TableReader, Sequence[tuple[Fragment, ...]], CompactionSettings, WrittenFiles], Sequence[Rewritten]]"
)
"""Rewrites groups of fragments, and adds what it makes to the files."""


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """What a compaction did."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    """Deletion files included, overlays not."""
    files_added: int = 0


def metrics_of(rewrites: Iterable[Rewritten]) -> CompactionMetrics:
    """Fragments and files that come and go."""
    done = list(rewrites)
    old = [fragment for rewrite in done for fragment in rewrite.old]
    new = [fragment for rewrite in done for fragment in rewrite.new]
    gone = sum(len(fragment.files) + (fragment.deletion_file is not None) for fragment in old)
    return CompactionMetrics(len(old), len(new), gone, sum(len(fragment.files) for fragment in new))


def rewrite_here(
    table: TableReader, groups: Sequence[tuple[Fragment, ...]], settings: CompactionSettings, files: WrittenFiles
) -> Sequence[Rewritten]:
    """Rewrite groups of fragments one after the other."""
    return [rewrite_fragments(table, group, settings, files) for group in groups]


def compact(
    table: TableReader, settings: CompactionSettings, rewrite: Rewriter = rewrite_here
) -> tuple[Snapshot, CompactionMetrics]:
    """Plan, rewrite and commit; an error leaves the table as it was, without new files.

    When another commit gets in between, the newest version is planned again. What has been rewritten is used
    again where the same fragments are still to be rewritten together.
    """
    patience = Patience(BUILD_SECONDS)
    known: dict[tuple[Fragment, ...], Rewritten] = {}
    schema: Schema | None = None
    with WrittenFiles(table.snapshot.store) as files:
        while True:
            manifest = table.snapshot.manifest
            plans = plan_tasks(table, settings)
            groups = [plan.fragments(manifest) for plan in plans]
            if schema is not None and schema != manifest.schema:
                _discard(files, known.values())
                known = {}
            schema = manifest.schema
            _discard(files, [known.pop(group) for group in list(known) if group not in groups])
            if not groups:
                return table.snapshot, CompactionMetrics()
            new = [group for group in groups if group not in known]
            known.update(zip(new, rewrite(table, new, settings, files), strict=True))
            rewrites = [replace(known[group], read_version=table.snapshot.version) for group in groups]
            try:
                done = commit_rewrites(table.snapshot, rewrites, defer=settings.defer_index_remap, files=files)
                return done, metrics_of(rewrites)
            except RetryableCommitConflict:
                if patience.is_over:
                    raise
            table = TableReader(table.snapshot.latest(), table.cache)


def commit_rewrites(
    snapshot: Snapshot, rewrites: Sequence[Rewritten], *, defer: bool = False, files: WrittenFiles | None = None
) -> Snapshot:
    """Commit what was rewritten.

    With ``defer`` all indices go on through the fragment-reuse index; otherwise it depends on their kinds
    (:class:`lancelet.index.kind.Moves`). ``files`` are kept as long as the commit may have taken place.
    """
    _check_apart(rewrites)
    if not rewrites:
        return snapshot
    read_version = min(rewrite.read_version for rewrite in rewrites)
    count = sum(len(rewrite.new) for rewrite in rewrites)
    reserved = commit(snapshot, ops.ReserveFragments(count), read_version=read_version)
    following = (reserved.manifest.max_fragment_id or 0) - count + 1
    groups = []
    for rewrite in rewrites:
        new = tuple(replace(fragment, id=following + at) for at, fragment in enumerate(rewrite.new))
        groups.append(ops.RewriteGroup(rewrite.old, new))
        following += len(new)
    followers = None if defer else details_that_follow()
    with WrittenFiles(snapshot.store) if files is None else nullcontext(files) as kept:
        remapped = () if defer else _remap(reserved, groups, kept)
        operation = ops.Rewrite(tuple(groups), remapped, _moves(reserved, groups, followers), followers)
        try:
            return commit(reserved, operation, read_version=read_version, files=kept)
        except RetryableCommitConflict:
            # What was rewritten may serve the next attempt; these name fragments that it will call otherwise.
            for index in remapped:
                for path, _ in index.files:
                    kept.discard(f"{INDICES_DIR}/{index.new_uuid}/{path}")
            raise


def _remap(
    snapshot: Snapshot, groups: Sequence[ops.RewriteGroup], files: WrittenFiles
) -> tuple[ops.RewrittenIndex, ...]:
    if not snapshot.manifest.indices:
        return ()
    from lancelet.index.remap import remap_indices

    counted = [_counted(snapshot, group) for group in groups]
    return remap_indices(snapshot, lambda: TableReader(snapshot).row_id_index, counted, files)


def _check_apart(rewrites: Sequence[Rewritten]) -> None:
    ids = [fragment.id for rewrite in rewrites for fragment in rewrite.old]
    if len(set(ids)) < len(ids):
        twice = sorted({number for number in ids if ids.count(number) > 1})
        raise InvalidInput(f"the fragments {twice} were rewritten more than once; commit one result for each")


def _moves(snapshot: Snapshot, groups: Sequence[ops.RewriteGroup], followers: frozenset[str] | None) -> bytes | None:
    """What the fragment-reuse index has to remember; None when no index follows by it."""
    if snapshot.manifest.has_stable_row_ids:
        return None
    coverage = index_coverage(snapshot, followers)
    old = {fragment.id for group in groups for fragment in group.old_fragments}
    if not any(covered is ALL or covered & old for covered in coverage):
        return None
    return describe_rewrite(snapshot.places, [_counted(snapshot, group) for group in groups])


def _counted(snapshot: Snapshot, group: ops.RewriteGroup) -> ops.RewriteGroup:
    """The group with the numbers of rows that old writers did not record."""

    def rows(fragment: Fragment) -> int:
        if fragment.physical_rows is not None:
            return fragment.physical_rows
        return FragmentReader(snapshot, fragment, TableReader(snapshot).cache).physical_rows

    old = tuple(replace(fragment, physical_rows=rows(fragment)) for fragment in group.old_fragments)
    return replace(group, old_fragments=old)


def _discard(files: WrittenFiles, rewrites: Iterable[Rewritten]) -> None:
    """Remove what was rewritten in vain."""
    for rewrite in rewrites:
        for fragment in rewrite.new:
            for file in fragment.files:
                files.discard(f"{DATA_DIR}/{file.path}")

"""Which fragments to rewrite together (spec table-format.md 8.7).

Fragments are looked at in scan order. A fragment is worth rewriting by itself when too
many of its rows are deleted, or too many cells overlaid; a small one only together
with a neighbour. Neighbours that are covered by the same indices make a bin, and a bin is
cut so that every piece has the wanted number of rows::

    rows    40  90  30  30  40  20  90  10     target 50
    bins    .       [30  30  40  20]    .      single ones are left alone
    tasks           [30  30][40  20]           what is left of a bin goes with its last piece
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lancelet.errors import NotSupported
from lancelet.table.commit.fragment_reuse import advance_coverage, read_rewrites
from lancelet.table.commit.index_upkeep import SYSTEM_INDICES, covered_fragments, follows

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.maintenance.compaction.options import CompactionSettings
    from lancelet.table.manifest.fragment import Fragment
    from lancelet.table.manifest.manifest import Manifest
    from lancelet.table.manifest.snapshot import Snapshot

ALL = frozenset((-1,))
"""Stands for every fragment, in an index that does not say what it covers."""


class Reason(enum.Enum):
    """Why a fragment is rewritten."""

    DELETIONS = "many deleted rows"
    OVERLAYS = "many overlays"
    SMALL = "few rows"


@dataclass(frozen=True, slots=True)
class WornFragment:
    """A fragment that is worth rewriting."""

    position: int
    """Place in the scan order."""
    reason: Reason
    rows: int
    """Rows in the files."""
    deleted: int
    nbytes: int

    @property
    def live(self) -> int:
        return self.rows - self.deleted


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """Neighbouring fragments that become new ones: those from ``first`` on, in the scan order of one version."""

    first: int
    count: int
    rows: int
    """Rows that stay."""
    deleted: int
    nbytes: int
    reasons: tuple[tuple[Reason, int], ...]
    """How many fragments are rewritten for each reason."""
    target: int
    """Rows that a new fragment is to have."""

    def fragments(self, manifest: Manifest) -> tuple[Fragment, ...]:
        """The fragments, in the version that the plan was made for."""
        return tuple(manifest.fragments[self.first : self.first + self.count])

    def describe(self, ids: Sequence[int]) -> str:
        """One line for people; ``ids`` are those of the fragments."""
        named = f"fragment {ids[0]}" if len(ids) == 1 else f"{len(ids)} fragments, {ids[0]} to {ids[-1]}"
        why = ", ".join(f"{count} with {reason.value}" for reason, count in self.reasons)
        parts = even_parts(self.rows, self.target)
        became = f"{len(parts)} of {parts[0]:,} rows" if parts else "nothing"
        return f"{named} ({why}): {self.rows:,} rows, {self.deleted:,} deleted, {self.nbytes:,} bytes -> {became}"


def plan_tasks(table: TableReader, settings: CompactionSettings) -> tuple[TaskPlan, ...]:
    """The tasks that a table needs, in scan order."""
    snapshot = table.snapshot
    if settings.defer_index_remap and snapshot.manifest.has_stable_row_ids:
        raise NotSupported(
            f"{snapshot.uri} has stable row ids, whose moves a fragment-reuse index cannot record; compact it without "
            "defer_index_remap"
        )
    tasks = (
        task_of(piece, settings.target_rows_per_fragment)
        for members in _bins(table, settings)
        if len(members) > 1 or members[0].reason is not Reason.SMALL
        for piece in _pieces(members, settings.target_rows_per_fragment)
    )
    return tuple(_within(tasks, settings))


def index_coverage(snapshot: Snapshot, kinds: Collection[str] | None = None) -> list[frozenset[int]]:
    """For each segment of an index (of some kinds), the fragments that it covers; :data:`ALL` when it does not say."""
    manifest = snapshot.manifest
    if not manifest.has_indices:
        return []
    indices = advance_coverage(list(manifest.indices), read_rewrites(snapshot))
    chosen = (index for index in indices if index.name not in SYSTEM_INDICES and follows(index, kinds))
    found = (covered_fragments(index) for index in chosen)
    return [ALL if covered is None else covered for covered in found]


def even_parts(rows: int, target: int) -> tuple[int, ...]:
    """Numbers of rows, as equal as can be and none below ``target`` if there are as many rows."""
    if rows == 0:
        return ()
    count = max(1, rows // target)
    each, more = divmod(rows, count)
    return (each + 1,) * more + (each,) * (count - more)


def _bins(table: TableReader, settings: CompactionSettings) -> Iterator[list[WornFragment]]:
    """Neighbouring candidates under the same indices."""
    coverage = index_coverage(table.snapshot)
    excluded = frozenset(settings.excluded_fragment_ids)
    current: list[WornFragment] = []
    indices: list[int] = []
    ids, following = table.snapshot.manifest.fragments.ids, -1
    for position in _possible(table, settings):
        number = int(ids[position])
        candidate = None if number in excluded else _candidate(table, position, settings)
        own = [which for which, covered in enumerate(coverage) if covered is ALL or number in covered]
        if current and (candidate is None or own != indices or position != following):
            yield current
            current = []
        if candidate is not None:
            current.append(candidate)
            indices, following = own, position + 1
    if current:
        yield current


def _possible(table: TableReader, settings: CompactionSettings) -> list[int]:
    """Places of the fragments that are worth rewriting as far as the manifest tells; those of which it does not are among them."""
    fragments = table.snapshot.manifest.fragments
    rows, live = fragments.physical_rows, fragments.row_counts
    possible = (rows < settings.target_rows_per_fragment) | (live < 0)
    if settings.materialize_deletions:
        possible |= (rows - live) / np.maximum(rows, 1) >= settings.materialize_deletions_threshold
    possible[fragments.with_overlays] = True
    found: list[int] = np.flatnonzero(possible).tolist()
    return found


def _candidate(table: TableReader, position: int, settings: CompactionSettings) -> WornFragment | None:
    fragment = table.snapshot.manifest.fragments[position]
    rows = fragment.physical_rows
    if rows is None:
        rows = table.reader(position).physical_rows
    deleted = rows - int(table.row_counts[position])
    reason = judge(rows, deleted, len(fragment.overlays), settings)
    return None if reason is None else WornFragment(position, reason, rows, deleted, _size(table.snapshot, fragment))


def judge(rows: int, deleted: int, overlays: int, settings: CompactionSettings) -> Reason | None:
    """Why a fragment is worth rewriting, if it is."""
    share = deleted / rows if rows else 0.0
    if settings.materialize_deletions and share > settings.materialize_deletions_threshold:
        return Reason.DELETIONS
    if overlays > settings.max_overlays_per_fragment:
        return Reason.OVERLAYS
    return Reason.SMALL if rows < settings.target_rows_per_fragment else None


def _size(snapshot: Snapshot, fragment: Fragment) -> int:
    """Bytes of a fragment's data files; old writers did not record them."""
    files = fragment.all_files
    return sum(file.size if file.size is not None else snapshot.places.data_file(file).open().size for file in files)


def _pieces(members: Sequence[WornFragment], target: int) -> Iterator[Sequence[WornFragment]]:
    """Cut a bin so that each piece has at least ``target`` rows, if the bin has as many."""
    left = sum(member.live for member in members)
    start = rows = 0
    for at, member in enumerate(members):
        if rows >= target and left >= target:
            yield members[start:at]
            start, rows = at, 0
        rows += member.live
        left -= member.live
    yield members[start:]


def task_of(members: Sequence[WornFragment], target: int) -> TaskPlan:
    """The task of rewriting neighbours together."""
    rows = sum(member.live for member in members)
    reasons = [(reason, sum(member.reason is reason for member in members)) for reason in Reason]
    return TaskPlan(
        members[0].position,
        len(members),
        rows,
        sum(member.deleted for member in members),
        sum(member.nbytes for member in members),
        tuple((reason, count) for reason, count in reasons if count),
        target,
    )


def _within(tasks: Iterable[TaskPlan], settings: CompactionSettings) -> Iterator[TaskPlan]:
    """The first tasks that together stay within the limits of one run."""
    fragments = rows = nbytes = 0
    for task in tasks:
        fragments, rows, nbytes = fragments + task.count, rows + task.rows, nbytes + task.nbytes
        limits = (
            (fragments, settings.max_source_fragments),
            (rows, settings.max_source_rows),
            (nbytes, settings.max_source_bytes),
        )
        if any(limit is not None and total > limit for total, limit in limits):
            return
        yield task

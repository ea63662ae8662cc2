"""Bringing indices up to date: rows that they do not know yet, and segments that are to be one.

Of the segments of an index, the last few are written anew together with the
rows of the fragments that no segment covers::

    segments {0} {1} {2}, new fragment 3     merge 1 (the default): {0} {1} {2, 3}
                                             merge 0: {0} {1} {2} {3};  retrain: {0, 1, 2, 3}

A segment whose rows were moved by a rewrite of fragments is written anew too, so that the fragment-reuse index need
not be asked for it any more; and so is one that has texts which its rows had before they were updated.

Segments of a kind that learns (vectors) that learned apart cannot be put together: their rows are read again. Where nobody says how many
segments are merged, such a kind gets a segment for the new rows alone; when partitions do not fit any more, all
is written anew with others.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from lancelet.editing.retry import retried
from lancelet.errors import InvalidOption, InvalidType, NotSupported
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import NewRows, Segment, Source
from lancelet.index.metadata import IndexMetadata, index_from_proto, read_indices
from lancelet.index.registry import kind_of_entry
from lancelet.index.segments import NewSegment, Whereabouts, open_segment, usable_kind, write_segment
from lancelet.index.text.kind import InvertedKind
from lancelet.indexing.rows import columns_of_fields, old_source, read_rows
from lancelet.table.commit import operations as ops
from lancelet.table.commit.fragment_reuse import read_rewrites, unneeded_rewrites
from lancelet.table.commit.index_upkeep import SYSTEM_INDICES
from lancelet.table.commit.patience import BUILD_SECONDS
from lancelet.table.commit.run import commit
from lancelet.table.commit.written import WrittenFiles

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.proto import table_pb2
    from lancelet.index.text.segment import TextSegment
    from lancelet.table.manifest.snapshot import Snapshot

DEFAULT_MERGED = 1


class Workers(Protocol):
    """Those who write segments in place of this process; nothing refers to what they write."""

    def parts(
        self, table: TableReader, columns: Sequence[str], new: NewSegment, files: WrittenFiles
    ) -> list[table_pb2.IndexMetadata]:
        """Segments over the fragments of a new one, for columns."""

    def merge(
        self,
        table: TableReader,
        new: NewSegment,
        old: Sequence[IndexMetadata],
        fragments: frozenset[int],
        files: WrittenFiles,
    ) -> table_pb2.IndexMetadata:
        """One segment with the entries of old ones and the rows of some fragments."""


def optimize_indices(
    table: TableReader,
    *,
    merged: int | None = None,
    names: Collection[str] | None = None,
    retrain: bool = False,
    workers: Workers | None = None,
) -> Snapshot:
    """Extend indices by the rows that they do not cover, in one commit; nothing to do makes no version.

    Indices of kinds that we do not know stay as they are: a warning names them, and naming one of them is an error.
    ``workers`` read rows in place of this process.
    """
    if merged is not None and not isinstance(merged, int):
        raise InvalidType(f"num_indices_to_merge is a number of segments, not {merged!r}")
    if merged is not None and merged < 0:
        raise InvalidOption(f"num_indices_to_merge is a number of segments, not {merged}")

    _tell_of_others(table.snapshot, names)

    def attempt(table: TableReader) -> Snapshot:
        manifest = table.snapshot.manifest
        by_name: dict[str, list[IndexMetadata]] = {}
        for entry in read_indices(manifest):
            if entry.name not in SYSTEM_INDICES and (names is None or entry.name in names):
                by_name.setdefault(entry.name, []).append(entry)
        where = Whereabouts(table.snapshot, lambda: table.row_id_index, table.physical_rows)
        with WrittenFiles(table.snapshot.store) as files:
            upkeep = _Upkeep(table, where, files, workers)
            new: list[table_pb2.IndexMetadata] = []
            replaced: set[bytes] = set()
            for entries in by_name.values():
                if all(usable_kind(table.snapshot, entry) is not None for entry in entries):
                    made, gone = upkeep.extend(entries, merged, retrain)
                    new += made
                    replaced.update(entry.uuid.bytes for entry in gone)
            old = [message for message in manifest.indices if message.uuid.uuid in replaced]
            kept = [message for message in manifest.indices if message.uuid.uuid not in replaced]
            old += unneeded_rewrites(table.snapshot, kept + new)
            if not new and not old:
                return table.snapshot
            operation = ops.CreateIndex(
                tuple(ops.IndexSegment.of(message) for message in new),
                tuple(ops.IndexSegment.of(message) for message in old),
            )
            return commit(table.snapshot, operation, files=files)

    return retried(table, attempt, None, BUILD_SECONDS)


def _tell_of_others(snapshot: Snapshot, names: Collection[str] | None) -> None:
    """Say which indices cannot be extended; those that have nothing to be extended by are of no interest."""
    live = snapshot.manifest.fragments.ids.tolist()
    covered: dict[str, set[int]] = {}
    for entry in read_indices(snapshot.manifest):
        if entry.name not in SYSTEM_INDICES and usable_kind(snapshot, entry) is None:
            covered.setdefault(entry.name, set()).update(entry.covers(live))
    if named := sorted(covered.keys() & set(names or ())):
        raise NotSupported(
            f"index {named[0]!r} of {snapshot.uri} is of a kind that lancelet does not extend yet; leave it out of "
            "index_names, or extend it with pylance"
        )
    behind = sorted(name for name, fragments in covered.items() if len(fragments) < len(live))
    if behind and names is None:
        listed = ", ".join(map(repr, behind))
        warnings.warn(
            f"{listed} of {snapshot.uri} stay as they are: lancelet does not extend indices of their kind yet, and new "
            "rows are not in them",
            UserWarning,
            stacklevel=4,
        )


@dataclass(frozen=True, slots=True)
class _Upkeep:
    """One version whose indices are extended."""

    table: TableReader
    where: Whereabouts
    files: WrittenFiles
    workers: Workers | None

    def extend(
        self, entries: Sequence[IndexMetadata], merged: int | None, retrain: bool
    ) -> tuple[list[table_pb2.IndexMetadata], list[IndexMetadata]]:
        """New segments of one index, and the ones that they replace."""
        live = frozenset(self.table.snapshot.manifest.fragments.ids.tolist())
        if retrain:
            return self._write(entries[-1], (), live, self._options(entries[-1], fresh=True)), list(entries)
        missing = live.difference(*(self.where.coverage(entry) for entry in entries))
        kind = kind_of_entry(entries[-1])
        assert kind is not None
        empty = [entry for entry in entries if not kind.is_built(entry)]
        if merged is None and kind.learns:
            merged = 0
            known = [entry for entry in entries if entry not in empty]
            if missing and known:
                segments = [self._opened(entry) for entry in known]
                indexed = columns_of_fields(self.table, known[-1].fields)
                new_rows = read_rows(self.table, indexed, kind, missing)
                options = kind.rebalanced(segments, self._options(known[-1]), new_rows)
                if options is not None:
                    return self._write(known[-1], (), self._covered(known) | missing, options), list(entries)
        merged = DEFAULT_MERGED if merged is None else merged
        last = list(entries[max(len(entries) - merged, 0) :]) if merged else []
        moved = [entry for entry in entries if entry not in last and entry not in empty and self._is_stale(entry)]
        new = [made for entry in moved for made in self._write(entry, [entry], frozenset(), self._options(entry))]
        if not missing and len(last) <= 1 and not any(self._is_stale(entry) for entry in last):
            return new, moved
        gone = [*moved, *last, *(entry for entry in empty if entry not in last and missing)]
        sources = [entry for entry in last if entry not in empty]
        if kind.learns and not kind.can_merge([self._opened(entry) for entry in sources]):
            missing, sources = missing | self._covered(sources), []
        # What others have learned is what the new one starts from.
        like = next((entry for entry in reversed(entries) if entry not in empty), entries[-1])
        new += self._write(like, sources, missing, self._options(like))
        return new, gone

    def _count(self, fragments: frozenset[int]) -> int:
        """Live rows of fragments."""
        positions = map(self.table.snapshot.manifest.fragments.position, fragments)
        return sum(int(self.table.row_counts[place]) for place in positions if place is not None)

    def _covered(self, entries: Sequence[IndexMetadata]) -> frozenset[int]:
        return frozenset().union(*(self.where.coverage(entry) for entry in entries))

    def _opened(self, entry: IndexMetadata) -> Segment:
        return open_segment(self.table.snapshot, entry, columns_of_fields(self.table, entry.fields).type)

    def _options(self, entry: IndexMetadata, *, fresh: bool = False) -> Mapping[str, Any]:
        kind = kind_of_entry(entry)
        assert kind is not None
        folder = IndexFolder(self.table.snapshot, entry)
        return kind.options(folder) if fresh else kind.options_beside(folder)

    def _write(
        self,
        like: IndexMetadata,
        old: Sequence[IndexMetadata],
        fragments: frozenset[int],
        options: Mapping[str, object],
    ) -> list[table_pb2.IndexMetadata]:
        """A segment with the entries of old ones and the rows of some fragments; of graphs there may be several for new rows."""
        kind = kind_of_entry(like)
        assert kind is not None
        snapshot = self.table.snapshot
        indexed = columns_of_fields(self.table, like.fields)
        coverage = fragments | self._covered(old)
        new = NewSegment(like.name, like.fields, kind, coverage, options)
        heavy = kind.learns and not kind.is_worth_merging(self._count(coverage), options)
        if self.workers is not None and heavy and old:
            return [self.workers.merge(self.table, new, old, fragments, self.files)]
        if self.workers is not None and heavy:
            made = self.workers.parts(self.table, indexed.paths, new, self.files)
            return made or [write_segment(snapshot, new, (), NewRows(indexed.type), self.files)]
        sources = [old_source(self.table, self.where, entry, indexed) for entry in old]
        if self.workers is None or not fragments:
            rows = read_rows(self.table, indexed, kind, fragments)
            return [write_segment(snapshot, new, sources, rows, self.files)]
        with WrittenFiles(snapshot.store) as passing:
            made = self.workers.parts(self.table, indexed.paths, replace(new, coverage=fragments), passing)
            entries = [index_from_proto(part, snapshot.manifest.path) for part in made]
            sources += [Source(open_segment(snapshot, entry, indexed.type)) for entry in entries]
            written = write_segment(snapshot, new, sources, NewRows(indexed.type), self.files)
            passing.remove()
        return [written]

    def _is_stale(self, entry: IndexMetadata) -> bool:
        """Whether rows of a segment were moved since it was written, or it has texts that rows do not have any more."""
        if any(rewrite.dataset_version >= entry.dataset_version for rewrite in read_rewrites(self.table.snapshot)):
            return True
        if not isinstance(kind_of_entry(entry), InvertedKind) or not self.where.names_ids(entry):
            return False
        source = old_source(self.table, self.where, entry, columns_of_fields(self.table, entry.fields))
        return cast("TextSegment", source.segment).has_outdated

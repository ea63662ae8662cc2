"""The scalar indices of a version, ready to be asked: open segments, and their answers as addresses of this version.

Open segments are kept in the cache of the table (by UUID, so that all versions
share them); what they cover, and where their rows are now, belongs to a version.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.errors import IndexNotFound
from lancelet.execution.costs import ENTRIES_AN_ANSWER, FEW_INDEXED, MOST_NARROW_SHARE, MOST_WIDE_SHARE
from lancelet.execution.index_match import Lookup, Member, asked_type, compared_type
from lancelet.execution.shown import scan_field
from lancelet.expressions.coercion import is_list_like
from lancelet.expressions.expr import Column
from lancelet.index.folder import IndexFolder
from lancelet.index.kind import Answering, ScalarKind, Weighing
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.questions import Answer, HasItems, IsIn, Missing, Question
from lancelet.index.row_set import RowSet
from lancelet.index.segments import Whereabouts, kind_over
from lancelet.runtime.events import READS, tell

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.execution.table_reader import TableReader


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment, and what was read for it."""

    folder: IndexFolder
    segment: Answering
    weighing: Weighing | None
    """The segment, if it can tell what an answer costs."""

    @classmethod
    def of(cls, folder: IndexFolder, segment: Answering) -> OpenSegment:
        return cls(folder, segment, segment if isinstance(segment, Weighing) else None)

    @property
    def nbytes(self) -> int:
        return self.segment.nbytes + self.folder.held_bytes


@dataclass(slots=True)
class IndexUse:
    """What the indices did for one search."""

    loaded: int = 0
    """Segments that were opened."""
    cached: int = 0
    """Segments that were open already."""
    parts: int = 0
    """Reads of some rows of index files."""
    rows: int = 0
    """Entries in these parts."""
    found: dict[tuple[int, str], int] = field(default_factory=dict)
    """Rows of answers, by the identity of what was looked up and the name of the index."""

    def note(self, lookup: Lookup, part: IndexPart, answer: Answer) -> None:
        """Count the rows of an answer; whole fragments count as nothing."""
        rows = 0 if answer.rows.has_whole else len(answer.rows)
        key = id(lookup), part.entry.name
        self.found[key] = self.found.get(key, 0) + rows


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A segment of a version."""

    entry: IndexMetadata
    kind: ScalarKind
    dtype: pa.DataType
    fragments: frozenset[int]
    """What it knows of this version."""
    covered: RowSet
    """The same as a set of rows."""
    rows: int
    """About how many these are."""
    keys: tuple[str, ...] | None = ()
    """The members of JSON documents that it is about, if it is on JSON; None for nothing that filters name."""

    def takes(self, question: Question) -> bool:
        """Whether it answers such a question; the values must be of its own type."""
        asked = asked_type(question)
        own = (
            self.dtype.value_type
            if isinstance(question, HasItems) and is_list_like(self.dtype)
            else compared_type(self.dtype)
        )
        return (asked is None or asked == own) and self.kind.takes(question, self.dtype)


class TableIndices:
    """The segments of a version by the field that they are about, the best kinds first."""

    def __init__(self, table: TableReader) -> None:
        self._table = table
        self._where = Whereabouts(table.snapshot, lambda: table.row_id_index, table.physical_rows)
        self._by_field: dict[int, list[IndexPart]] = {}
        self._by_column: dict[Column, Sequence[IndexPart]] = {}
        for part in self._usable():
            self._by_field.setdefault(part.entry.fields[0], []).append(part)
        for parts in self._by_field.values():
            parts.sort(key=lambda part: part.kind.rank)

    def __bool__(self) -> bool:
        return bool(self._by_field)

    def columns(self) -> tuple[str, ...]:
        """The top-level columns that have an index, in the order of the table."""
        return tuple(field.name for field in self._table.snapshot.manifest.schema.fields if field.id in self._by_field)

    def segment(self, part: IndexPart) -> Answering:
        """An open segment."""
        return self._open(part, IndexUse()).segment

    def parts(self, column: Column) -> Sequence[IndexPart]:
        """The segments on a column."""
        found = self._by_column.get(column)
        if found is None:
            schema = self._table.snapshot.manifest.schema
            known = self._by_field and column.path[0] in schema.names
            parts = self._by_field.get(schema.field_by_path(column.path).id, ()) if known else ()
            keys = column.keys if isinstance(column, Member) else ()
            found = [self._typed(part) for part in parts if part.keys == keys]
            self._by_column[column] = found
        return found

    def _typed(self, part: IndexPart) -> IndexPart:
        """A segment with the type of its values, where only its files tell."""
        if part.keys == ():
            return part
        return replace(part, dtype=part.kind.value_type(self._open(part, IndexUse()).folder, part.dtype))

    def ask(self, part: IndexPart, question: Question, use: IndexUse, *, with_nulls: bool) -> Answer | None:
        """The answer in addresses of this version, within what the segment covers; None when it is not worth asking."""
        held = self._open(part, use)
        if held.weighing is not None and part.rows > FEW_INDEXED and not _is_equality(question):
            share = held.weighing.share(question)
            if (
                share > (MOST_NARROW_SHARE if _is_narrow(part.dtype) else MOST_WIDE_SHARE)
                and share * part.rows > FEW_INDEXED
            ):
                return None
        before = held.folder.count.parts, held.folder.count.rows
        answer = held.segment.ask(question)
        use.parts += held.folder.count.parts - before[0]
        use.rows += held.folder.count.rows - before[1]
        self._table.cache.indices.trim()
        nulls: RowSet | None = RowSet()
        if not isinstance(question, Missing):
            nulls = answer.nulls if with_nulls else None
            nulls = None if nulls is None else self._where.present(part.entry, nulls, part.covered)
        return Answer(self._where.present(part.entry, answer.rows, part.covered), answer.exact, nulls)

    def entries(self, lookup: Lookup, use: IndexUse) -> float:
        """About how many entries are read to answer exactly; infinite when no index does."""
        asked = lookup.asked[0]
        exact = [part for part in self.parts(lookup.column) if part.kind.is_exact and part.takes(asked.question)]
        if asked.loose or not exact:
            return math.inf
        held = [(part, self._open(part, use).weighing) for part in exact]
        shares = [0 if weighing is None else weighing.share(asked.question) * part.rows for part, weighing in held]
        return sum(shares) + ENTRIES_AN_ANSWER * len(exact)

    def hold_segments(self, name: str, segments: Collection[UUID] | None = None) -> None:
        """Open the segments of an index, or some of them, with all that they have in memory as far as the cache goes."""
        cache = self._table.cache.indices
        for parts in self._by_field.values():
            for part in parts:
                if part.entry.name != name or (segments is not None and part.entry.uuid not in segments):
                    continue
                held = self._open(part, IndexUse())
                size = sum(file.size for file in part.entry.files)
                if not held.folder.held and size <= cache.max_bytes:
                    folder = IndexFolder(self._table.snapshot, part.entry)
                    folder.hold()
                    cache.put(part.entry.uuid, OpenSegment.of(folder, part.kind.open(folder, part.dtype)))

    def _open(self, part: IndexPart, use: IndexUse) -> OpenSegment:
        made: list[OpenSegment] = []

        def make() -> OpenSegment:
            folder = IndexFolder(self._table.snapshot, part.entry)
            if self._table.cache.checked:
                folder.check_files()
            made.append(OpenSegment.of(folder, part.kind.open(folder, part.dtype)))
            tell(READS, type="open_scalar_index", index_uuid=part.entry.uuid, index_type=part.kind.name)
            return made[0]

        held: OpenSegment = self._table.cache.indices.get(part.entry.uuid, make)
        if made:
            use.loaded += 1
            use.parts += held.folder.count.parts
        else:
            use.cached += 1
        return held

    def _usable(self) -> Iterable[IndexPart]:
        manifest = self._table.snapshot.manifest
        if not len(manifest.indices):
            return
        fields = {node.id: node for node in manifest.schema.walk()}
        ids, counts = manifest.fragments.ids, self._table.row_counts
        for entry in read_indices(manifest):
            node = fields.get(entry.fields[0]) if len(entry.fields) == 1 else None
            kind = None if node is None else kind_over(node, entry)
            if node is None or not isinstance(kind, ScalarKind):
                continue
            if manifest.has_stable_row_ids and not kind.with_stable_ids:
                continue
            covered = self._where.coverage(entry)
            if not covered:
                continue
            rows = int(counts.sum() if len(covered) == len(ids) else counts[_are_in(ids, covered)].sum())
            dtype = scan_field(node).type
            yield IndexPart(entry, kind, dtype, covered, RowSet.whole(covered), rows, kind.keys(entry))


def _are_in(ids: npt.NDArray[np.int64], covered: frozenset[int]) -> npt.NDArray[np.bool_]:
    """Which ids a set that is not empty has."""
    known = np.sort(np.fromiter(covered, np.int64, len(covered)))
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, ids), len(known) - 1)] == ids
    return found


def prewarm(table: TableReader, name: str, segments: Collection[UUID] | None = None) -> None:
    """Have an index, or some of its segments, in memory for the filters to come."""
    if not any(message.name == name for message in table.snapshot.manifest.indices):
        raise IndexNotFound(f'Index "{name}" not found in version {table.snapshot.version} of {table.snapshot.uri}')
    table.indices.hold_segments(name, segments)
    table.vector_indices.hold_segments(name, segments)
    table.text_indices.hold_segments(name, segments)


def _is_equality(question: Question) -> bool:
    return isinstance(question, IsIn) and len(question.values) == 1


def _is_narrow(dtype: pa.DataType) -> bool:
    """Whether values are quick to read and to compare."""
    return bool(pa.types.is_primitive(dtype) or pa.types.is_boolean(dtype))

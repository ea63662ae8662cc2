"""The INVERTED indices of a version: which one a search asks, and what its segments know of this version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancelet.format.schema import join_path
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.registry import known_kind
from lancelet.index.segments import Whereabouts
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.metadata import Head
from lancelet.index.text.partition import Partition
from lancelet.index.text.search import PartitionSearch

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.execution.matching_plan import TextColumn
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field

INVERTED = "INVERTED"


@dataclass(frozen=True, slots=True)
class TextPart:
    """A segment of a version."""

    entry: IndexMetadata
    fragments: frozenset[int]
    """What it knows of this version."""


@dataclass(frozen=True, slots=True)
class OpenTexts:
    """An open segment; kept by size."""

    head: Head
    partitions: tuple[PartitionSearch, ...]
    analyzer: Analyzer

    @property
    def nbytes(self) -> int:
        return sum(partition.nbytes for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class TextIndex:
    """The index that a search asks."""

    name: str
    parts: tuple[TextPart, ...]
    """All its segments."""

    @property
    def fragments(self) -> frozenset[int]:
        """What it knows of this version."""
        return frozenset().union(*(part.fragments for part in self.parts))


class TextIndices:
    """The segments of a version by the field that they are about, in the order of the manifest."""

    def __init__(self, table: TableReader) -> None:
        self._table = table
        self.where = Whereabouts(table.snapshot, lambda: table.row_id_index, table.physical_rows)
        manifest = table.snapshot.manifest
        self._by_field: dict[int, list[TextPart]] = {}
        for entry in read_indices(manifest) if len(manifest.indices) else ():
            kind = known_kind(entry) if len(entry.fields) == 1 else None
            if kind is not None and kind.name == INVERTED:
                self._by_field.setdefault(entry.fields[0], []).append(TextPart(entry, self.where.coverage(entry)))

    def columns(self) -> Iterator[str]:
        """The paths of the columns that have an index."""

        def below(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[str]:
            for node in fields:
                if node.id in self._by_field:
                    yield join_path((*path, node.name))
                if node.logical_type == "struct":
                    yield from below(node.children, (*path, node.name))

        return below(self._table.snapshot.manifest.schema.fields, ())

    def choose(self, column: TextColumn) -> TextIndex | None:
        """The index on a column: the first one; None where it has none."""
        parts = self._by_field.get(column.field(self._table.snapshot.manifest.schema).id, [])
        if not parts:
            return None
        name = parts[0].entry.name
        return TextIndex(name, tuple(part for part in parts if part.entry.name == name))

    def open(self, part: TextPart) -> OpenTexts:
        """The open segment, which is kept for the next search."""
        table = self._table

        def make() -> OpenTexts:
            folder = IndexFolder(table.snapshot, part.entry)
            if table.cache.checked:
                folder.check_files()
            head = Head.read(folder)
            numbers = [None] if head.parts is None else head.parts
            searches = tuple(PartitionSearch(Partition(folder, head, number)) for number in numbers)
            return OpenTexts(head, searches, Analyzer(head.params))

        held: OpenTexts = table.cache.indices.get(("texts", part.entry.uuid), make)
        return held

    def hold_segments(self, name: str, segments: Collection[UUID] | None = None) -> None:
        """Open the segments of an index, or some of them, with their tokens and documents."""
        for parts in self._by_field.values():
            for part in parts:
                if part.entry.name == name and (segments is None or part.entry.uuid in segments):
                    for search in self.open(part).partitions:
                        search.hold()
        self._table.cache.indices.trim()

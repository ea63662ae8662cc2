"""The INVERTED indices of a version: which one a search asks, and what its segments know of this version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.execution.shown import texts_type
from lancelet.expressions.coercion import is_list_like
from lancelet.format.schema import join_path
from lancelet.index.folder import IndexFolder
from lancelet.index.metadata import IndexMetadata, read_indices
from lancelet.index.segments import Whereabouts, kind_over, text_chains
from lancelet.index.text.kind import InvertedKind
from lancelet.index.text.query import DocumentGranularity
from lancelet.index.text.search import PartitionSearch
from lancelet.runtime.attributes import cached_property
from lancelet.runtime.events import READS, tell

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.execution.matching_plan import TextColumn
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field
    from lancelet.index.text.segment import TextSegment

_KEPT_QUERIES: Final = 256
_KEPT_LENGTH: Final = 1024
"""The terms of so many queries are kept, of texts of so many characters at most."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A segment of a version."""

    entry: IndexMetadata
    kind: InvertedKind
    dtype: pa.DataType
    fragments: frozenset[int]
    """What it knows of this version."""
    has_items: bool
    """Whether each item of a list is a text of its own."""


@dataclass(frozen=True, slots=True)
class OpenTexts:
    """An open segment, and what was read for it; kept by size."""

    folder: IndexFolder
    segment: TextSegment
    partitions: tuple[PartitionSearch, ...]
    _words: dict[str, list[tuple[bytes, int]]] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return self.folder.held_bytes + sum(partition.nbytes for partition in self.partitions)

    def words(self, text: str) -> list[tuple[bytes, int]]:
        """The terms of a query, and their places in it."""
        found = self._words.get(text)
        if found is None:
            found = self.segment.analyzer.query(text)
            if len(self._words) >= _KEPT_QUERIES:
                self._words.clear()
            if len(text) <= _KEPT_LENGTH:
                self._words[text] = found
        return found


@dataclass(frozen=True)
class TextIndex:
    """The index that a search asks."""

    name: str
    parts: tuple[TextPart, ...]
    """All its segments."""

    @cached_property
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
        self._chosen: dict[tuple[TextColumn, bool], TextIndex | None] = {}
        self._have_items: dict[tuple[TextColumn, DocumentGranularity | None], bool] = {}
        chains = dict(text_chains(manifest.schema.fields)) if len(manifest.indices) else {}
        for entry in read_indices(manifest) if chains else ():
            chain = chains.get(entry.fields[0]) if len(entry.fields) == 1 else None
            kind = None if chain is None else kind_over(chain[-1], entry)
            if chain is not None and isinstance(kind, InvertedKind):
                told = kind.parameters(entry, manifest.path).get("document_granularity")
                part = TextPart(
                    entry,
                    kind,
                    texts_type(chain),
                    self.where.coverage(entry),
                    told == DocumentGranularity.LIST_ELEMENT,
                )
                self._by_field.setdefault(chain[-1].id, []).append(part)

    def columns(self) -> Iterator[str]:
        """The paths of the columns that have an index."""

        def below(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[str]:
            for node in fields:
                if node.id in self._by_field:
                    yield join_path((*path, node.name))
                if node.logical_type == "struct":
                    yield from below(node.children, (*path, node.name))
                elif node.is_list and node.children[0].logical_type == "struct":
                    yield from below(node.children[0].children, (*path, node.name))

        return below(self._table.snapshot.manifest.schema.fields, ())

    def has_items(self, column: TextColumn, granularity: DocumentGranularity | None) -> bool:
        """Whether items of lists are texts of their own, as a query asks, or as the index on a column has them."""
        found = self._have_items.get((column, granularity))
        if found is None:
            found = self._have_items[column, granularity] = self._has_items(column, granularity)
        return found

    def _has_items(self, column: TextColumn, granularity: DocumentGranularity | None) -> bool:
        field = column.field(self._table.snapshot.manifest.schema)
        indexed = {part.has_items for part in self._by_field.get(field.id, [])}
        if granularity is None:
            if len(indexed) > 1:
                raise InvalidInput(
                    f"FTS query for field '{column.name}' must specify document_granularity: it has indices of rows, and of "
                    "items of lists"
                )
            return True in indexed
        wanted = granularity is DocumentGranularity.LIST_ELEMENT
        if indexed and wanted not in indexed:
            raise InvalidInput(
                f"FTS query for field '{column.name}' requested {granularity.value} document granularity, but the existing "
                "FTS index uses a different granularity: leave document_granularity out, or create such an index"
            )
        if wanted and not is_list_like(column.type(self._table.snapshot.manifest.schema)):
            raise InvalidInput(f"column '{column.name}' has no lists, whose items could be texts of their own")
        return wanted

    def choose(self, column: TextColumn, *, has_items: bool = False) -> TextIndex | None:
        """The index on a column: the first one with such texts; None where it has none."""
        if (column, has_items) not in self._chosen:
            self._chosen[column, has_items] = self._choose(column, has_items)
        return self._chosen[column, has_items]

    def _choose(self, column: TextColumn, has_items: bool) -> TextIndex | None:
        known = self._by_field.get(column.field(self._table.snapshot.manifest.schema).id, [])
        parts = [part for part in known if part.has_items == has_items]
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
            segment = part.kind.open(folder, part.dtype)
            tell(READS, type="open_text_index", index_uuid=part.entry.uuid, index_type=part.kind.name)
            return OpenTexts(folder, segment, tuple(map(PartitionSearch, segment.partitions)))

        held: OpenTexts = table.cache.indices.get(("texts", part.entry.uuid), make)
        return held

    def hold_segments(self, name: str, segments: Collection[UUID] | None = None) -> None:
        """Open the segments of an index, or some of them, with their tokens and documents."""
        for parts in self._by_field.values():
            for part in parts:
                if part.entry.name == name and (segments is None or part.entry.uuid in segments):
                    self.open(part).segment.hold()
        self._table.cache.indices.trim()

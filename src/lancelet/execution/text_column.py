"""Searching one column of texts: the partitions of its index, and the texts that no index knows.

::

    segments ── partitions, side by side ──► best documents, by the statistics of the index
    fragments not indexed ── tokens in memory ──► best texts, by the statistics of both together
                                                     │
                                     the best of all, as row ids

Documents of rows that are deleted, moved or not wanted are passed over, but still count in the statistics of an index, until
it is written anew; texts that are not indexed count if they may be found. So pylance has it too (spec indices.md 10.8).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.encoding.rows import RowIndices, RowRange
from lancelet.errors import InvalidInput
from lancelet.execution.allowed import AllowedRows
from lancelet.execution.outdated_texts import NO_OUTDATED, Outdated, outdated_documents
from lancelet.execution.shown import show_column
from lancelet.execution.threads import core_count, ordered_map
from lancelet.expressions.evaluate import field_inside
from lancelet.format.system_columns import ROW_ID
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.clauses import clauses_of_both, merged
from lancelet.index.text.flat import FlatTexts
from lancelet.index.text.params import Params
from lancelet.index.text.query import NO_TEXTS, Statistics
from lancelet.runtime.attributes import cached_property
from lancelet.table.rows.addresses import fragments_of, row_addresses

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.execution.matching_plan import TextColumn
    from lancelet.execution.ranked_scan import Answer
    from lancelet.execution.table_reader import TableReader
    from lancelet.execution.text_indices import OpenTexts, TextIndex, TextPart
    from lancelet.index.text.clauses import Clauses
    from lancelet.index.text.flat import FlatExcerpt
    from lancelet.index.text.query import Query
    from lancelet.index.text.search import Keep, PartitionSearch

UNINDEXED_PARAMS: Final = Params(
    with_position=True,
    max_token_length=None,
    lower_case=False,
    stem=False,
    remove_stop_words=False,
    ascii_folding=False,
)
"""How texts become tokens where no index says: words as they are, as in pylance."""
_UNIT_ROWS: Final = 1 << 16
_Found = tuple[npt.NDArray[np.float32], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]
"""Scores, row ids, and which item of a list each is."""
_MOST_EDITS: Final = 100


@dataclass(frozen=True, slots=True)
class SearchedPartition:
    """A partition of a segment that is asked."""

    part: TextPart
    search: PartitionSearch


@dataclass(frozen=True, slots=True)
class Unit:
    """Some rows of a fragment that no index knows."""

    reader: FragmentReader
    rows: RowRange


class ItemKeys:
    """Numbers for items of lists, by which they go where others go by row ids."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def encode(self, ids: npt.NDArray[np.uint64], items: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
        """The numbers of items of some rows; of new ones in the order of rows and items."""
        pairs = list(zip(ids.tolist(), items.tolist(), strict=True))
        with self._lock:
            for pair in sorted(set(pairs)):
                self._numbers.setdefault(pair, len(self._numbers))
            return np.array([self._numbers[pair] for pair in pairs], np.uint64)

    def decode(self, keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """Row ids and items."""
        pairs = np.array(list(self._numbers), np.uint64).reshape(-1, 2)[keys.astype(np.int64)]
        return pairs[:, 0], pairs[:, 1].astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Documents:
    """Texts of a partition, or of rows that are not indexed."""

    ids: npt.NDArray[np.uint64]
    """The row of each; of those that do not count, anything."""
    lengths: npt.NDArray[np.uint32]
    keep: Keep | None
    """Which of them count; None: all."""
    terms: Mapping[bytes, tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]]
    """For terms that are asked for, in which of them they are, and how often."""

    def kept(self, docs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """Those that count."""
        return docs if self.keep is None else docs[self.keep[docs]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query of one column as terms, with what scores depend on besides a text: the same for all parts of the column."""

    clauses: Clauses
    """For texts that are indexed."""
    sought: Clauses
    """For those that are not."""
    known: Statistics
    """Of the index."""
    every: Statistics
    """Of all texts."""

    @property
    def terms(self) -> frozenset[bytes]:
        """All that occur."""
        return self.clauses.terms | self.sought.terms


@dataclass(frozen=True, slots=True)
class Contents:
    """All texts of a column, as some terms are in them."""

    parts: Sequence[Documents]
    statistics: Statistics


class ColumnSearch:
    """One column, as one search sees it."""

    def __init__(
        self,
        table: TableReader,
        column: TextColumn,
        fragments: Sequence[int] | None,
        allowed: AllowedRows,
        key: Hashable,
        *,
        indexed_only: bool,
        items: ItemKeys | None = None,
        segments: frozenset[str] | None = None,
    ) -> None:
        self.table = table
        self.column = column
        self.index: TextIndex | None = table.text_indices.choose(column, has_items=items is not None)
        self._items = items
        self._fragments = fragments
        self._allowed = allowed
        self._key = key
        self._indexed_only = indexed_only
        self._segments = segments

    # What is asked

    @cached_property
    def _live(self) -> AllowedRows:
        """All rows that are there, whether the filter wants them or not."""
        return AllowedRows(self.table, self._allowed.fragments)

    @cached_property
    def _open(self) -> list[tuple[TextPart, OpenTexts]]:
        parts = () if self.index is None else self.index.parts
        asked = (part for part in parts if self._segments is None or str(part.entry.uuid) in self._segments)
        return [(part, self.table.text_indices.open(part)) for part in asked]

    @cached_property
    def _first(self) -> OpenTexts | None:
        """What knows how texts become tokens."""
        return None if self.index is None else self.table.text_indices.open(self.index.parts[0])

    @cached_property
    def params(self) -> Params:
        """How texts become tokens."""
        return UNINDEXED_PARAMS if self._first is None else self._first.segment.params

    @cached_property
    def partitions(self) -> list[SearchedPartition]:
        """Those of all segments."""
        return [SearchedPartition(part, search) for part, held in self._open for search in held.partitions]

    @cached_property
    def unindexed(self) -> tuple[int, ...]:
        """The fragments whose texts are searched as they are."""
        if self._indexed_only:
            return ()
        ids = self.table.snapshot.manifest.fragments.ids.tolist()
        known = frozenset() if self.index is None else self.index.fragments
        return tuple(dict.fromkeys(n for n in (ids if self._fragments is None else self._fragments) if n not in known))

    @property
    def _path(self) -> tuple[str, ...]:
        """The names of all fields that lead to the column."""
        return tuple(field.name for field in self.column.chain(self.table.snapshot.manifest.schema))

    def agree(self, params: Params) -> None:
        """Have texts become tokens as elsewhere; an index that has others, or not all that is known of them, is not asked.

        This comes before anything is searched.
        """
        own = None if self._first is None else self._first.segment.params
        if own is not None and not (own.same_tokens(params) and own.with_position >= params.with_position):
            self.index = self._first = None
        self.params = params

    def words(self, text: str) -> list[tuple[bytes, int]]:
        """The terms of a text, and their places in it."""
        return Analyzer(self.params).query(text) if self._first is None else self._first.words(text)

    def near(self, term: bytes, edits: int, prefix: int, limit: int) -> list[bytes]:
        """Terms of the index that are nearly the same."""
        edits = min(edits, _MOST_EDITS)
        found = (one.search.partition.tokens.near(term, edits, prefix, limit) for one in self.partitions)
        return merged(([token for token, _ in some] for some in found), limit)

    def check_positions(self) -> None:
        """Raise where phrases cannot be found."""
        if self._first is not None and not self.params.with_position:
            raise InvalidInput(
                "position is not found but required for phrase queries, try recreating the index with position: "
                f"create_scalar_index('{self.column.name}', 'INVERTED', with_position=True)"
            )

    # What is found

    def find(self, query: Query, limit: int | None) -> Answer | None:
        """The best rows for a query of this column; None where it takes more than one search."""
        both = clauses_of_both(query, self, _WithUnindexed(self) if self.unindexed else self)
        if both is None:
            return None
        clauses, sought = both
        terms = clauses.terms | sought.terms
        excerpts = self._excerpts(terms)
        known = self._indexed_statistics(terms)
        every = sum((one.statistics() for one in excerpts), known)
        return self._answer(Asked(clauses, sought, known, every), excerpts, limit)

    def find_asked(self, asked: Asked, limit: int | None) -> Answer:
        """The best rows of the parts that are looked at here, for a query whose statistics are of all parts."""
        return self._answer(asked, self._excerpts(asked.terms), limit)

    def statistics(self, terms: Iterable[bytes]) -> tuple[Statistics, Statistics]:
        """Those of what is looked at here: of the index, and of texts that are not indexed."""
        wanted = tuple(terms)
        return self._indexed_statistics(wanted), sum((one.statistics() for one in self._excerpts(wanted)), NO_TEXTS)

    def counted_statistics(self, terms: Iterable[bytes]) -> Statistics:
        """Those of the texts that may be found, and of no others."""
        wanted = tuple(terms)
        total = sum((one.statistics() for one in self._excerpts(wanted)), NO_TEXTS)
        for one in self.partitions:
            keep = one.search.mask(self._key, partial(self._mask, one))
            total += one.search.statistics(wanted) if keep is None else one.search.statistics_of(wanted, keep)
        return total

    def _answer(self, asked: Asked, excerpts: Sequence[FlatExcerpt], limit: int | None) -> Answer:
        count = -1 if limit is None else limit
        # As in pylance: rows that are indexed go by the statistics of the index, items of lists by those of all.
        told = asked.known if self._items is None else asked.every
        answers = list(
            ordered_map(lambda one: self._find(one, asked.clauses, told, count), self.partitions, core_count() + 1)
        )
        for unit, one in zip(self._units if excerpts else (), excerpts, strict=True):
            answers.append(self._find_unindexed(unit, one, asked.sought, asked.every, count))
        self.table.cache.indices.trim()
        if self._items is None:
            return best([(scores, ids) for scores, ids, _ in answers], limit)
        # All at once, so that equal scores go by rows and items.
        scores = np.concatenate([np.empty(0, np.float32), *(scores for scores, _, _ in answers)])
        ids = np.concatenate([np.empty(0, np.uint64), *(ids for _, ids, _ in answers)])
        items = np.concatenate([np.empty(0, np.uint32), *(items for _, _, items in answers)])
        return best([(scores, self._items.encode(ids, items))], limit)

    def _indexed_statistics(self, terms: Iterable[bytes]) -> Statistics:
        total = NO_TEXTS
        for one in self.partitions:
            total += one.search.statistics(terms)
        return total

    def _find(self, one: SearchedPartition, clauses: Clauses, statistics: Statistics, limit: int) -> _Found:
        keep = one.search.mask(self._key, partial(self._mask, one))
        docs, scores = one.search.find(clauses, statistics, keep, limit)
        rows = one.search.rows[docs]
        where = self.table.text_indices.where
        if not where.names_ids(one.part.entry) and not where.keeps_names(one.part.entry):
            rows, _ = where.addresses(one.part.entry, rows)
        items = one.search.partition.documents.items
        return scores, rows, np.zeros(len(docs), np.uint32) if items is None else items[docs]

    def _mask(self, one: SearchedPartition) -> Keep | None:
        """Which documents count: those whose rows are there, allowed, and have this text."""
        where, entry, rows = self.table.text_indices.where, one.part.entry, one.search.rows
        gone = one.search.partition.head.deleted
        if self._allowed.rows is None and not gone and where.keeps_names(entry):
            here = frozenset(one.search.fragments.tolist())
            readers = self.table.readers(sorted(here & one.part.fragments & self._allowed.fragments))
            if here <= {reader.fragment.id for reader in readers if reader.fragment.deletion_file is None}:
                return None
        addresses, counted = where.addresses(entry, rows)
        if gone:
            counted &= ~np.isin(fragments_of(addresses), np.array(sorted(gone), np.uint64))
        outdated = self._outdated(one.part).marks.get(one.search.partition.number)
        if outdated is not None:
            counted &= ~outdated
        known = counted.copy()
        counted[known] = self._allowed.marks(addresses[known])
        return None if counted.all() else counted

    def _outdated(self, part: TextPart) -> Outdated:
        """The documents of a segment whose rows say something else now, which are kept for the next search."""
        indices = self.table.text_indices
        if not indices.where.names_ids(part.entry):
            return NO_OUTDATED

        def make() -> Outdated:
            segment = indices.open(part).segment
            return outdated_documents(self.table, indices.where, part.entry, self._path, segment)

        # Rows of a fragment have the same texts as long as it is there.
        held: Outdated = self.table.cache.indices.get(("outdated texts", part.entry.uuid, part.fragments), make)
        return held

    def contents(self, terms: Iterable[bytes]) -> Contents:
        """All its texts, as some terms are in them; statistics are of all that are there, wanted or not."""
        wanted = tuple(terms)
        parts, total = [], NO_TEXTS
        where = self.table.text_indices.where
        for one in self.partitions:
            total += one.search.statistics(wanted)
            ids = one.search.rows
            if not where.names_ids(one.part.entry) and not where.keeps_names(one.part.entry):
                ids, _ = where.addresses(one.part.entry, ids)
            keep = one.search.mask(self._key, partial(self._mask, one))
            parts.append(Documents(ids, one.search.partition.documents.lengths, keep, one.search.decode(wanted)))
        for unit in self._units:
            excerpt = self._excerpt(unit, wanted)
            total += replace(excerpt, keep=self._marks(unit, self._live) & (excerpt.lengths > 0)).statistics()
            ids = _row_ids(self.table, unit.reader, np.arange(unit.rows.start, unit.rows.stop, dtype=np.int64))
            decoded = {term: held.documents.decode() for term, held in excerpt.terms.items()}
            parts.append(Documents(ids, excerpt.lengths, excerpt.keep, decoded))
        return Contents(parts, total)

    # Texts that are not indexed

    @cached_property
    def _units(self) -> list[Unit]:
        return [
            Unit(reader, RowRange(start, min(start + _UNIT_ROWS, reader.physical_rows)))
            for reader in self.table.readers(self.unindexed)
            for start in range(0, reader.physical_rows, _UNIT_ROWS)
        ]

    def _texts(self, unit: Unit) -> FlatTexts:
        """The tokens of some rows, which are kept for the next search."""
        fragment, schema = unit.reader.fragment, self.table.snapshot.manifest.schema

        def make() -> FlatTexts:
            path = self._path
            (top,) = schema.project([path]).fields
            (column,) = unit.reader.read([top], unit.rows)
            shown = show_column(top, column)
            texts = field_inside(shown.combine_chunks() if isinstance(shown, pa.ChunkedArray) else shown, path[1:])
            return FlatTexts.of(texts, Analyzer(self.params), by_item=self._items is not None)

        files = tuple(file.path for file in fragment.all_files)
        field = self.column.field(schema).id
        key = (
            self.table.snapshot.uri,
            fragment.id,
            files,
            field,
            unit.rows.start,
            self.params,
            self._items is not None,
        )
        texts: FlatTexts = self.table.cache.indices.get(key, make)
        return texts

    def _excerpt(self, unit: Unit, terms: Iterable[bytes]) -> FlatExcerpt:
        texts = self._texts(unit)
        keep = self._marks(unit, self._allowed)
        return texts.excerpt(terms, keep if texts.rows is None else keep[texts.rows])

    def _marks(self, unit: Unit, rows: AllowedRows) -> Keep:
        places = np.arange(unit.rows.start, unit.rows.stop, dtype=np.int64)
        return rows.marks(row_addresses(unit.reader.fragment.id, places))

    def _excerpts(self, terms: Iterable[bytes]) -> list[FlatExcerpt]:
        """What a search for some terms needs of the texts that are not indexed."""
        if not self.unindexed:
            return []
        return list(ordered_map(lambda unit: self._excerpt(unit, terms), self._units, core_count() + 1))

    def _find_unindexed(
        self, unit: Unit, one: FlatExcerpt, clauses: Clauses, statistics: Statistics, limit: int
    ) -> _Found:
        docs, scores = one.find(clauses, statistics, limit)
        rows = docs if one.rows is None else one.rows[docs]
        ids = _row_ids(self.table, unit.reader, rows.astype(np.int64) + unit.rows.start)
        return scores, ids, np.zeros(len(docs), np.uint32) if one.items is None else one.items[docs]

    def near_unindexed(self, term: bytes, edits: int, prefix: int) -> list[list[bytes]]:
        """Terms of texts that are not indexed, for each unit of them."""
        edits = min(edits, _MOST_EDITS)
        return [self._texts(unit).near(term, edits, prefix) for unit in self._units]


@dataclass(frozen=True, slots=True)
class _WithUnindexed:
    """The words of a column, with those of its texts that are not indexed."""

    column: ColumnSearch

    def words(self, text: str) -> list[tuple[bytes, int]]:
        return self.column.words(text)

    def near(self, term: bytes, edits: int, prefix: int, limit: int) -> list[bytes]:
        indexed = self.column.near(term, edits, prefix, limit)
        return merged([indexed, *self.column.near_unindexed(term, edits, prefix)], limit)


def best(answers: Sequence[Answer], limit: int | None) -> Answer:
    """The best rows of several answers; of equal ones those with the lower ids."""
    if len(answers) == 1:
        ((scores, ids),) = answers
    else:
        scores = np.concatenate([np.empty(0, np.float32), *(scores for scores, _ in answers)])
        ids = np.concatenate([np.empty(0, np.uint64), *(ids for _, ids in answers)])
    order = np.lexsort((ids, -scores))[:limit]
    return scores[order], ids[order]


def _row_ids(table: TableReader, reader: FragmentReader, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    if not table.snapshot.manifest.has_stable_row_ids:
        return row_addresses(reader.fragment.id, offsets)
    # Rows are read in ascending order.
    order = np.argsort(offsets, kind="stable")
    ids = np.empty(len(offsets), np.uint64)
    ids[order] = numpy_array(reader.system_column(ROW_ID, RowIndices(offsets[order])))
    return ids

"""Searching the texts of all levels as those of one table.

::

    levels ──► words that are nearly the same, where a query asks for such ──┐
    levels ──► how many texts count, how long they are, how many have each word ──┴─► statistics of all
    levels, statistics ──► the best rows of each level, with scores that can be compared

Scores are those that a table would give which had only the rows that count, with an index on all of them; without an index on
the base table, those of a table without one. Every level makes the tokens that the base table makes. A run whose own index makes
others, or has none, is searched by its texts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lancelet.execution.combined_fields import agree, find_combined, words_of
from lancelet.execution.matching import MatchingScan
from lancelet.execution.text_column import Asked, ColumnSearch
from lancelet.index.text.clauses import clauses_of, merged
from lancelet.index.text.query import NO_TEXTS, CombinedFields, Query, Statistics, leaves

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.ranked_scan import Answer
    from lancelet.execution.table_reader import TableReader
    from lancelet.index.text.params import Params

_ALL: Final = sys.maxsize


class LevelTexts:
    """A search for texts in several tables, of which the base table is the last, each with the rows that count."""

    def __init__(self, levels: Sequence[tuple[TableReader, ScanPlan]]) -> None:
        self._scans = [_LevelMatching(table, plan, self) for table, plan in levels]
        self._whole = [_LevelMatching(table, replace(plan, filter=None), self) for table, plan in levels]
        self._base = MatchingScan(*levels[-1])
        self._base.check()
        for leaf in leaves(self._base.matching.query):
            if isinstance(leaf, CombinedFields):
                agree([self._base.column(name) for name in leaf.columns])
        self._asked: dict[tuple[str, Query], Asked | None] = {}
        self._combined: dict[CombinedFields, list[Statistics]] = {}

    def tables(self) -> list[pa.Table]:
        """What each level has, the best rows first."""
        return [scan.to_table() for scan in self._scans]

    def params(self, name: str) -> Params:
        """How texts of a column become tokens."""
        return self._base.column(name).params

    def words(self, name: str, text: str) -> list[tuple[bytes, int]]:
        """The terms of a text, and their places in it."""
        return self._base.column(name).words(text)

    def columns(self, name: str) -> list[ColumnSearch]:
        """A column in all levels, whatever the filter."""
        return [scan.column(name) for scan in self._whole]

    def asked(self, name: str, query: Query) -> Asked | None:
        """A query of one column, for all levels; None where it takes more than one search."""
        if (name, query) not in self._asked:
            clauses = clauses_of(query, _Words(self, name))
            if clauses is None:
                self._asked[name, query] = None
            else:
                # Texts that no index knows count if the filter wants them.
                scans = self._scans if self._base.column(name).index is None else self._whole
                total = _counted([scan.column(name) for scan in scans], clauses.terms)
                self._asked[name, query] = Asked(clauses, clauses, total, total)
        return self._asked[name, query]

    def combined(self, query: CombinedFields) -> list[Statistics]:
        """The statistics of columns that count as one text."""
        if query not in self._combined:
            words = words_of(query, [self._base.column(name) for name in query.columns])
            self._combined[query] = [_counted(self.columns(name), words) for name in query.columns]
        return self._combined[query]


class _LevelMatching(MatchingScan):
    """The search of one level, which goes by what is asked of all."""

    def __init__(self, table: TableReader, plan: ScanPlan, texts: LevelTexts) -> None:
        super().__init__(table, plan, find=self._find_column)
        self._texts = texts

    def column(self, name: str) -> ColumnSearch:
        known = name in self._columns
        found = super().column(name)
        if not known:
            found.agree(self._texts.params(name))
        return found

    def _find_column(self, name: str, query: Query, limit: int | None) -> Answer | None:
        asked = self._texts.asked(name, query)
        return None if asked is None else self.column(name).find_asked(asked, limit)

    def _find_combined(self, query: CombinedFields) -> Answer:
        return find_combined(query, [self.column(name) for name in query.columns], self._texts.combined(query))


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a column in all levels, without those that only rows have that do not count."""

    texts: LevelTexts
    column: str

    def words(self, text: str) -> list[tuple[bytes, int]]:
        return self.texts.words(self.column, text)

    def near(self, term: bytes, edits: int, prefix: int, limit: int) -> list[bytes]:
        columns = self.texts.columns(self.column)
        lists = [column.near(term, edits, prefix, _ALL) for column in columns]
        lists += [some for column in columns for some in column.near_unindexed(term, edits, prefix)]
        found = merged(lists, _ALL)
        having = _counted(columns, found).frequencies
        return [word for word in found if having.get(word)][:limit]


def _counted(columns: Iterable[ColumnSearch], terms: Iterable[bytes]) -> Statistics:
    wanted = sorted(terms)
    return sum((column.counted_statistics(wanted) for column in columns), NO_TEXTS)

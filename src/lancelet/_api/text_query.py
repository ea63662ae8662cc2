"""``full_text_query`` as users write it: a text, a text with columns, or a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from lancelet._naming.texts import check_text
from lancelet.errors import InvalidInput, InvalidType
from lancelet.execution.matching_plan import Matching, matching_of
from lancelet.index.text.query import CombinedFields, Match, MultiMatch, Query, leaves
from lancelet.query import FullTextQuery, VectorSearchQuery

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader


def is_text_query(value: object) -> TypeGuard[FullTextQuery]:
    """Whether something is a query for texts of :mod:`lancelet.query`."""
    return isinstance(value, FullTextQuery)


def is_vector_query(value: object) -> TypeGuard[VectorSearchQuery]:
    """Whether something is a search for vectors that filters one for texts."""
    return isinstance(value, VectorSearchQuery)


def check_text_query(query: object, columns: object) -> None:
    """Raise for what is no query at all."""
    if isinstance(query, FullTextQuery):
        return
    if not isinstance(query, str):
        raise InvalidType(
            f"full_text_query is a text, a dict of query and columns, or a query of lancelet.query, not {query!r}"
        )
    check_text(query, "full_text_query")
    if columns is None:
        return
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidType(f"the columns of full_text_query are a list of names, not {columns!r}")
    if not all(isinstance(name, str) for name in columns):
        raise InvalidType(f"the columns of full_text_query are a list of names, not {columns!r}")


def text_query(query: str | FullTextQuery, columns: Sequence[str] | None, indexed: Iterable[str]) -> Query:
    """The query for a table that has indices on some columns, which are searched where none are named."""
    if isinstance(query, FullTextQuery):
        return query.inner
    names = tuple(dict.fromkeys(indexed if columns is None else columns))
    if not names:
        raise InvalidInput(
            "Cannot perform full text search unless an INVERTED index has been created on at least one column: create "
            "one, or name the column in a MatchQuery"
        )
    matches = tuple(Match(query, name) for name in names)
    return matches[0] if len(matches) == 1 else MultiMatch(matches)


def text_matching(table: TableReader, query: str | FullTextQuery, columns: Sequence[str] | None) -> Matching:
    """A search of a table for texts, its columns found there."""
    named = columns is not None or not isinstance(query, str)
    asked = text_query(query, columns, () if named else table.text_indices.columns())
    found = matching_of(table.snapshot.manifest.schema, asked)
    has_items = {
        table.text_indices.has_items(found.column(name), None if isinstance(leaf, CombinedFields) else leaf.granularity)
        for leaf in leaves(found.query)
        for name in (leaf.columns if isinstance(leaf, CombinedFields) else (leaf.column,))
    }
    if True in has_items and (
        len(has_items) > 1 or any(isinstance(leaf, CombinedFields) for leaf in leaves(found.query))
    ):
        raise InvalidInput(
            "a query cannot combine rows with items of lists: ask for columns whose indices are of the same "
            "document_granularity, and for combined fields by rows"
        )
    return replace(found, has_items=True) if True in has_items else found

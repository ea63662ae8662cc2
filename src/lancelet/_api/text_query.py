"""``full_text_query`` as users write it: a text, a text with columns, or a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lancelet.errors import InvalidInput, InvalidType
from lancelet.index.text.query import Match, MultiMatch, Query
from lancelet.query import FullTextQuery


def is_text_query(value: object) -> bool:
    """Whether something is a query of :mod:`lancelet.query`."""
    return isinstance(value, FullTextQuery)


def check_text_query(query: object, columns: object) -> None:
    """Raise for what is no query at all."""
    if isinstance(query, FullTextQuery):
        return
    if not isinstance(query, str):
        raise InvalidType(
            f"full_text_query is a text, a dict of query and columns, or a query of lancelet.query, not {query!r}"
        )
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

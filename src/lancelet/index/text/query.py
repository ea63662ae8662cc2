"""What is asked of texts: queries as plain values, which can be pickled.

::

    Match(text, column)            any of its words, or all; also words that are nearly the same
    Phrase(text, column)           its words one after the other, with up to ``slop`` others between two of them
    CombinedFields(text, columns)  any of its words, or all, in columns that count as one text
    MultiMatch(queries)            the best of several, each of another column
    Boosting(positive, negative)   the score of one, less a share of that of the other
    Boolean(must, should, must_not)
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from lancelet.errors import InvalidInput

MAX_EXPANSIONS: Final = 50
NEGATIVE_BOOST: Final = 0.5
_MOST_FIELD_BOOST: Final = 1 << 20
_KEPT_WEIGHTS: Final = 4096


class FullTextOperator(enum.Enum):
    """Whether all words of a query have to be there, or any."""

    AND = "AND"
    OR = "OR"


class DocumentGranularity(str, enum.Enum):
    """What counts as one text: a row, or each element of a list."""

    ROW = "row"
    LIST_ELEMENT = "list_element"


class Occur(enum.Enum):
    """What a query is to a boolean one that it is part of."""

    SHOULD = "SHOULD"
    MUST = "MUST"
    MUST_NOT = "MUST_NOT"


@dataclass(frozen=True, slots=True)
class Match:
    """Words of a text."""

    text: str
    column: str
    boost: float = 1.0
    fuzziness: int = 0
    """How many characters a word may differ by."""
    max_expansions: int = MAX_EXPANSIONS
    """How many words are looked for at most, where they may differ; of all the words of the query together."""
    operator: FullTextOperator = FullTextOperator.OR
    prefix_length: int = 0
    """How many characters at the beginning of a word do not differ."""
    granularity: DocumentGranularity | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words of a text, in their order."""

    text: str
    column: str
    slop: int = 0
    granularity: DocumentGranularity | None = None


@dataclass(frozen=True, slots=True)
class CombinedFields:
    """Words of a text in several columns, which count as one."""

    text: str
    columns: tuple[str, ...]
    boosts: tuple[float, ...]
    operator: FullTextOperator = FullTextOperator.OR

    def check(self) -> None:
        """Raise when the columns make no sense."""
        if not self.columns:
            raise InvalidInput("Cannot create CombinedFieldsQuery with no columns; name at least one")
        for column in self.columns:
            if self.columns.count(column) > 1:
                raise InvalidInput(f"CombinedFieldsQuery columns must be unique, but '{column}' is duplicated")
        if len(self.boosts) != len(self.columns):
            raise InvalidInput(
                f"The number of boosts must match the number of columns: {len(self.boosts)} for {len(self.columns)}"
            )
        for column, boost in zip(self.columns, self.boosts, strict=True):
            if not 1 <= boost <= _MOST_FIELD_BOOST:
                raise InvalidInput(
                    f"combined_fields boost for column '{column}' must be a finite value in "
                    f"[1, {_MOST_FIELD_BOOST}], got {boost}"
                )


@dataclass(frozen=True, slots=True)
class MultiMatch:
    """The best of several matches."""

    queries: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Boosting:
    """Rows of one query; those that another one finds too count less."""

    positive: Query
    negative: Query
    negative_boost: float = NEGATIVE_BOOST


@dataclass(frozen=True, slots=True)
class Boolean:
    """All of some queries, any of others if there are none of these, and none of the last."""

    must: tuple[Query, ...] = ()
    should: tuple[Query, ...] = ()
    must_not: tuple[Query, ...] = ()


Query: TypeAlias = Match | Phrase | CombinedFields | MultiMatch | Boosting | Boolean
Leaf: TypeAlias = Match | Phrase | CombinedFields


def leaves(query: Query) -> Iterator[Leaf]:
    """The queries that words are looked for by."""
    match query:
        case MultiMatch(queries):
            yield from queries
        case Boosting(positive, negative):
            yield from leaves(positive)
            yield from leaves(negative)
        case Boolean(must, should, must_not):
            for part in (*must, *should, *must_not):
                yield from leaves(part)
        case _:
            yield query


def columns_asked(query: Query) -> tuple[str, ...]:
    """The columns that a query looks into, each once."""
    names: dict[str, None] = {}
    for leaf in leaves(query):
        names.update(dict.fromkeys(leaf.columns if isinstance(leaf, CombinedFields) else (leaf.column,)))
    return tuple(names)


def with_columns(query: Query, names: dict[str, str]) -> Query:
    """The same query with other names for its columns."""
    match query:
        case Match() | Phrase():
            return replace(query, column=names[query.column])
        case CombinedFields():
            return replace(query, columns=tuple(names[name] for name in query.columns))
        case MultiMatch(queries):
            return MultiMatch(tuple(replace(part, column=names[part.column]) for part in queries))
        case Boosting(positive, negative, share):
            return Boosting(with_columns(positive, names), with_columns(negative, names), share)
        case Boolean(must, should, must_not):
            parts = [tuple(with_columns(part, names) for part in group) for group in (must, should, must_not)]
            return Boolean(*parts)


def check_query(query: Query) -> None:
    """Raise when a query makes no sense, whatever the table."""
    match query:
        case Match(boost=boost):
            _check_boost("MatchQuery", boost)
        case CombinedFields():
            query.check()
        case MultiMatch(queries):
            for one in queries:
                check_query(one)
        case Boosting(positive, negative, share):
            _check_boost("BoostQuery negative", share)
            check_query(positive)
            check_query(negative)
        case Boolean(must, should, must_not):
            if not must and not should:
                if not must_not:
                    raise InvalidInput("FTS query must contain at least one leaf query; the boolean query is empty")
                raise InvalidInput(
                    "boolean query must have at least one should/must query: what must not be there is taken "
                    "from what others find"
                )
            for part in (*must, *should, *must_not):
                check_query(part)


def _check_boost(what: str, boost: float) -> None:
    if not (math.isfinite(boost) and boost >= 0):
        raise InvalidInput(f"{what} boost must be finite and non-negative, got {boost}")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What scores depend on besides a document itself, over all documents that count (spec indices.md 10.8)."""

    documents: int
    tokens: float
    """Of all documents; no whole number where columns count more than once."""
    frequencies: Mapping[bytes, int]
    """In how many documents a term is; of the terms that are asked for."""

    @property
    def mean(self) -> float:
        """Tokens of a document."""
        return _mean(self.documents, self.tokens)

    def weight(self, term: bytes) -> float:
        """How much a term tells."""
        return _weight(self.documents, self.frequencies.get(term, 0))

    def __add__(self, other: Statistics) -> Statistics:
        if not self.documents and not self.frequencies:
            return other
        frequencies = dict(self.frequencies)
        for term, count in other.frequencies.items():
            frequencies[term] = frequencies.get(term, 0) + count
        return Statistics(self.documents + other.documents, self.tokens + other.tokens, frequencies)


@lru_cache(_KEPT_WEIGHTS)
def _mean(documents: int, tokens: float) -> float:
    return float(np.float32(tokens) / np.float32(documents)) if documents else 1.0


@lru_cache(_KEPT_WEIGHTS)
def _weight(documents: int, having: int) -> float:
    count, half = np.float32(having), np.float32(0.5)
    return float(np.log((np.float32(documents) - count + half) / (count + half) + np.float32(1)))


NO_TEXTS: Final = Statistics(0, 0, {})

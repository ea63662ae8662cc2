"""Queries for full-text search, and searches that filter others, under pylance's names.

Examples
--------
>>> MatchQuery("lazy dog", "text") & PhraseQuery("quick fox", "title", slop=1)
BooleanQuery([(Occur.MUST, MatchQuery('lazy dog', 'text')), (Occur.MUST, PhraseQuery('quick fox', 'title', slop=1))])
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar, Literal

from lancelet._naming.texts import check_text
from lancelet.errors import InvalidInput, InvalidOption, InvalidType
from lancelet.index.text.query import (
    MAX_EXPANSIONS,
    NEGATIVE_BOOST,
    Boolean,
    Boosting,
    CombinedFields,
    DocumentGranularity,
    FullTextOperator,
    Match,
    MultiMatch,
    Occur,
    Phrase,
    Query,
)

__all__ = [
    "BooleanQuery",
    "BoostQuery",
    "CombinedFieldsQuery",
    "DocumentGranularity",
    "FullTextOperator",
    "FullTextQuery",
    "FullTextQueryType",
    "MatchQuery",
    "MinHashQuery",
    "MultiMatchQuery",
    "Occur",
    "PhraseQuery",
    "VectorSearchQuery",
]

_MOST = 2**32 - 1


class FullTextQueryType(Enum):
    """The kinds of queries."""

    MATCH = "match"
    MATCH_PHRASE = "match_phrase"
    BOOST = "boost"
    MULTI_MATCH = "multi_match"
    COMBINED_FIELDS = "combined_fields"
    BOOLEAN = "boolean"


class FullTextQuery(abc.ABC):
    """A query; ``&`` and ``|`` make one of two.

    Equal queries are equal, and can be keys of dicts.
    """

    _type: ClassVar[FullTextQueryType]
    _inner: Query

    @abc.abstractmethod
    def __init__(self) -> None:
        """Queries are made by their kinds."""

    @property
    def inner(self) -> Query:
        """The query as a plain value."""
        return self._inner

    def query_type(self) -> FullTextQueryType:
        """Which kind it is."""
        return self._type

    def __and__(self, other: FullTextQuery) -> FullTextQuery:
        return BooleanQuery([(Occur.MUST, self), (Occur.MUST, other)])

    def __or__(self, other: FullTextQuery) -> FullTextQuery:
        return BooleanQuery([(Occur.SHOULD, self), (Occur.SHOULD, other)])

    def __eq__(self, other: object) -> bool:
        return self._inner == other._inner if isinstance(other, FullTextQuery) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._inner)

    def __repr__(self) -> str:
        return _shown(self._inner)


class MatchQuery(FullTextQuery):
    """Rows with any of the words of a text in a column, or with all of them.

    Parameters
    ----------
    query
        The words, made of a text as those of the column were.
    column
        The column, or the path of one inside structs.
    boost
        What scores are multiplied by.
    fuzziness
        How many characters (inserted, removed or replaced) a word may differ by; None is 0, as in pylance.
    max_expansions
        How many words are looked for at most, where they may differ: the first ones in the order of their bytes, for one
        word of the query after the other.
    operator
        Whether all words have to be there.
    prefix_length
        How many characters at the beginning of a word do not differ.
    document_granularity
        Whether a row is one text, or each element of a list; by default as the column is indexed, else rows.

    Examples
    --------
    >>> MatchQuery("lazy dog", "text", operator=FullTextOperator.AND)
    MatchQuery('lazy dog', 'text', operator=FullTextOperator.AND)
    """

    _type = FullTextQueryType.MATCH

    def __init__(
        self,
        query: str,
        column: str,
        *,
        boost: float = 1.0,
        fuzziness: int | None = 0,
        max_expansions: int = MAX_EXPANSIONS,
        operator: FullTextOperator = FullTextOperator.OR,
        prefix_length: int = 0,
        document_granularity: DocumentGranularity | None = None,
    ) -> None:
        self._inner = Match(
            _text("query", query),
            _text("column", column),
            _real("boost", boost),
            0 if fuzziness is None else _count("fuzziness", fuzziness),
            _count("max_expansions", max_expansions),
            _member("operator", operator, FullTextOperator),
            _count("prefix_length", prefix_length),
            _granularity(document_granularity),
        )


class PhraseQuery(FullTextQuery):
    """Rows with the words of a text one after the other.

    Parameters
    ----------
    query
        The phrase. Words that the column's index leaves out count as places.
    column
        The column, whose index has to have positions.
    slop
        How many more places there may be between two words of the phrase than in the phrase itself.
    document_granularity
        Whether a row is one text, or each element of a list; by default as the column is indexed, else rows.

    Examples
    --------
    >>> PhraseQuery("quick fox", "text", slop=2)
    PhraseQuery('quick fox', 'text', slop=2)
    """

    _type = FullTextQueryType.MATCH_PHRASE

    def __init__(
        self,
        query: str,
        column: str,
        *,
        slop: int = 0,
        document_granularity: DocumentGranularity | None = None,
    ) -> None:
        self._inner = Phrase(
            _text("query", query), _text("column", column), _count("slop", slop), _granularity(document_granularity)
        )


class BoostQuery(FullTextQuery):
    """Rows of one query; those that another one finds too have their score lowered.

    Parameters
    ----------
    positive
        What is looked for.
    negative
        What counts against a row.
    negative_boost
        Which share of the negative score is taken from the positive one.

    Examples
    --------
    >>> BoostQuery(MatchQuery("apple", "text"), MatchQuery("pie", "text"))
    BoostQuery(MatchQuery('apple', 'text'), MatchQuery('pie', 'text'))
    """

    _type = FullTextQueryType.BOOST

    def __init__(
        self, positive: FullTextQuery, negative: FullTextQuery, *, negative_boost: float = NEGATIVE_BOOST
    ) -> None:
        self._inner = Boosting(
            _query("positive", positive), _query("negative", negative), _real("negative_boost", negative_boost)
        )


class MultiMatchQuery(FullTextQuery):
    """Rows with words of a text in one of several columns; the best column counts.

    Parameters
    ----------
    query
        The words.
    columns
        Where they may be.
    boosts
        What the scores of each column are multiplied by.
    operator
        Whether all words have to be there, in the same column.

    Examples
    --------
    >>> MultiMatchQuery("apple", ["title", "text"], boosts=[2, 1])
    MultiMatchQuery('apple', ['title', 'text'], boosts=[2.0, 1.0])
    """

    _type = FullTextQueryType.MULTI_MATCH

    def __init__(
        self,
        query: str,
        columns: list[str],
        *,
        boosts: list[float] | None = None,
        operator: FullTextOperator = FullTextOperator.OR,
    ) -> None:
        text, names = _text("query", query), _names(columns)
        if not names:
            raise InvalidInput("Cannot create MultiMatchQuery with no columns; name at least one")
        factors = _boosts(boosts, names)
        if len(factors) != len(names):
            raise InvalidInput(
                f"The number of boosts must match the number of queries: {len(factors)} for {len(names)} columns"
            )
        how = _member("operator", operator, FullTextOperator)
        self._inner = MultiMatch(
            tuple(Match(text, name, boost, operator=how) for name, boost in zip(names, factors, strict=True))
        )


class CombinedFieldsQuery(FullTextQuery):
    """Rows with words of a text in several columns, which count as one text (BM25F).

    Parameters
    ----------
    query
        The words.
    columns
        Where they may be; columns of one index configuration, one of which has an index.
    boosts
        How often each column counts, from 1 on.
    operator
        Whether all words have to be there, in any of the columns.

    Examples
    --------
    >>> CombinedFieldsQuery("ada lovelace", ["first", "last"])
    CombinedFieldsQuery('ada lovelace', ['first', 'last'])
    """

    _type = FullTextQueryType.COMBINED_FIELDS

    def __init__(
        self,
        query: str,
        columns: list[str],
        *,
        boosts: list[float] | None = None,
        operator: FullTextOperator = FullTextOperator.OR,
    ) -> None:
        names = _names(columns)
        inner = CombinedFields(
            _text("query", query), names, _boosts(boosts, names), _member("operator", operator, FullTextOperator)
        )
        inner.check()
        self._inner = inner


class BooleanQuery(FullTextQuery):
    """Several queries together.

    Parameters
    ----------
    queries
        Pairs of :class:`Occur` and a query. Every one that must match adds its score, and so does every one that should
        and does; where none must, at least one that should has to. Rows of those that must not match are left out.

    Examples
    --------
    >>> BooleanQuery([(Occur.MUST, MatchQuery("apple", "text")), (Occur.MUST_NOT, MatchQuery("pie", "text"))])
    BooleanQuery([(Occur.MUST, MatchQuery('apple', 'text')), (Occur.MUST_NOT, MatchQuery('pie', 'text'))])
    """

    _type = FullTextQueryType.BOOLEAN

    def __init__(self, queries: list[tuple[Occur, FullTextQuery]]) -> None:
        groups: dict[Occur, list[Query]] = {occur: [] for occur in Occur}
        for occur, query in _pairs(queries):
            groups[_member("occur", occur, Occur)].append(_query("a part of a boolean query", query))
        self._inner = Boolean(tuple(groups[Occur.MUST]), tuple(groups[Occur.SHOULD]), tuple(groups[Occur.MUST_NOT]))


@dataclass
class MinHashQuery:
    """A search for texts that are nearly the same, by an index of the kind MINHASHLSH."""

    text: str
    column: str


class VectorSearchQuery:
    """A search for vectors as the filter of a full-text search; the arguments are those of ``nearest``.

    With ``prefilter`` texts are searched in the ``k`` nearest rows, the best score first. Without, the result is the ``k`` nearest of
    the rows whose texts match, the nearest first, and ``_distance`` may be asked for.

    Examples
    --------
    >>> import lancelet
    >>> import pyarrow as pa
    >>> rows = {"id": [1, 2, 3], "text": ["sea salt", "sea sand", "salt"], "v": [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]}
    >>> schema = pa.schema({"id": pa.int64(), "text": pa.string(), "v": pa.list_(pa.float32(), 2)})
    >>> dataset = lancelet.write_dataset(pa.table(rows, schema), "memory://docs/vector_search_query")
    >>> near = VectorSearchQuery("v", [2.0, 2.0], k=1)
    >>> search = {"full_text_query": MatchQuery("sea", "text"), "filter": near}
    >>> dataset.to_table(["id", "_score"], **search)["id"].to_pylist()
    [2]
    >>> dataset.to_table(["id", "_score"], prefilter=True, **search)["id"].to_pylist()
    []
    """

    def __init__(
        self,
        column: str,
        q: Any,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: Literal["fast", "normal", "accurate"] = "normal",
        search_effort: float | None = None,
    ) -> None:
        self._inner: dict[str, Any] = {
            "column": column,
            "q": q,
            "k": k,
            "metric": metric,
            "nprobes": nprobes,
            "minimum_nprobes": minimum_nprobes,
            "maximum_nprobes": maximum_nprobes,
            "refine_factor": refine_factor,
            "use_index": use_index,
            "ef": ef,
            "query_parallelism": query_parallelism,
            "approx_mode": approx_mode,
            "search_effort": search_effort,
        }

    def inner(self) -> dict[str, Any]:
        """The arguments, by name."""
        return dict(self._inner)


def _text(name: str, value: object) -> str:
    return check_text(value, name)


def _real(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise InvalidType(f"{name} is a number, not {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidType(f"{name} is a number, not {value!r}") from None


def _count(name: str, value: Any) -> int:
    try:
        number = value.__index__()
    except AttributeError:
        raise InvalidType(f"{name} is a whole number, not {value!r}") from None
    if not 0 <= number <= _MOST:
        raise InvalidOption(f"{name} is a number from 0 to {_MOST}, got {number}")
    return int(number)


def _member(name: str, value: object, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        known = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise InvalidType(f"{name} is one of {known}, not {value!r}")
    return value


def _granularity(value: object) -> DocumentGranularity | None:
    return None if value is None else _member("document_granularity", value, DocumentGranularity)


def _query(name: str, value: object) -> Query:
    if not isinstance(value, FullTextQuery):
        raise InvalidType(f"{name} is a query, such as MatchQuery, not {value!r}")
    return value.inner


def _pairs(queries: object) -> list[tuple[Any, Any]]:
    if isinstance(queries, (str, FullTextQuery)) or not isinstance(queries, Iterable):
        raise InvalidType(f"queries is a list of pairs of Occur and a query, not {queries!r}")
    pairs = list(queries)
    for pair in pairs:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise InvalidType(f"queries is a list of pairs of Occur and a query; one of them is {pair!r}")
    return pairs


def _names(columns: object) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidType(f"columns is a list of names, not {columns!r}")
    return tuple(_text("a column", name) for name in columns)


def _boosts(boosts: object, names: tuple[str, ...]) -> tuple[float, ...]:
    if boosts is None:
        return (1.0,) * len(names)
    if isinstance(boosts, str) or not isinstance(boosts, Sequence):
        raise InvalidType(f"boosts is a list of numbers, not {boosts!r}")
    return tuple(_real("a boost", boost) for boost in boosts)


_SHOWN = {"granularity": "document_granularity"}


def _shown(query: Query) -> str:
    """As it is written, without what is as usual."""
    match query:
        case Match(text, column) | Phrase(text, column):
            name = "MatchQuery" if isinstance(query, Match) else "PhraseQuery"
            more = [
                f"{_SHOWN.get(field.name, field.name)}={getattr(query, field.name)!s}"
                for field in fields(query)[2:]
                if getattr(query, field.name) != field.default
            ]
            return f"{name}({', '.join([repr(text), repr(column), *more])})"
        case MultiMatch(queries):
            return _shown_columns(
                "MultiMatchQuery",
                queries[0].text,
                [part.column for part in queries],
                [part.boost for part in queries],
                queries[0].operator,
            )
        case CombinedFields(text, columns, boosts, operator):
            return _shown_columns("CombinedFieldsQuery", text, list(columns), list(boosts), operator)
        case Boosting(positive, negative, share):
            more = [] if share == NEGATIVE_BOOST else [f"negative_boost={share}"]
            return f"BoostQuery({', '.join([_shown(positive), _shown(negative), *more])})"
        case Boolean(must, should, must_not):
            pairs = [
                f"({occur}, {_shown(part)})"
                for occur, parts in ((Occur.MUST, must), (Occur.SHOULD, should), (Occur.MUST_NOT, must_not))
                for part in parts
            ]
            return f"BooleanQuery([{', '.join(pairs)}])"


def _shown_columns(name: str, text: str, columns: list[str], boosts: list[float], operator: FullTextOperator) -> str:
    parts = [repr(text), repr(columns)]
    if any(boost != 1 for boost in boosts):
        parts.append(f"boosts={boosts!r}")
    if operator is not FullTextOperator.OR:
        parts.append(f"operator={operator}")
    return f"{name}({', '.join(parts)})"

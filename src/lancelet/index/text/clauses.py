"""A query of one column as terms: which have to be in a document, which may be, and which must not.

::

    Match, any word      one group of terms, of which a document has at least one
    Match, all words     a group for each word: it alone, or all that are near it
    Phrase               a group for each word, and where they have to be
    Boolean              groups of all that must match; terms of what should add to the score; terms of what must not
    Boosting             terms of the negative query add a negative score

What cannot be said so is put together of the answers to its parts (:mod:`lancelet.execution.matching`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lancelet.index.text.query import Boolean, Boosting, FullTextOperator, Match, MultiMatch, Phrase, Query

Weights = dict[bytes, float]
"""Terms, and what their scores are multiplied by."""


class Vocabulary(Protocol):
    """The words of a column."""

    def words(self, text: str) -> Sequence[tuple[bytes, int]]:
        """The terms of a text, and their places in it."""

    def near(self, term: bytes, edits: int, prefix: int, limit: int) -> Sequence[bytes]:
        """The first terms in order within so many edits that share so many characters at the beginning."""


@dataclass(frozen=True, slots=True)
class Order:
    """Terms that follow each other."""

    terms: tuple[bytes, ...]
    offsets: tuple[int, ...]
    slop: int


@dataclass(frozen=True, slots=True)
class Clauses:
    """What documents are found by, and what their scores are the sum of."""

    groups: tuple[Weights, ...]
    """A document has at least one term of each; without any, nothing is found."""
    optional: Weights = field(default_factory=dict)
    excluded: frozenset[bytes] = frozenset()
    orders: tuple[Order, ...] = ()

    @property
    def terms(self) -> frozenset[bytes]:
        """All that occur."""
        return frozenset().union(*self.groups, self.optional, self.excluded)

    @property
    def is_group(self) -> bool:
        """Whether it is one group of terms and nothing else."""
        return len(self.groups) == 1 and not self.optional and not self.excluded and not self.orders


NOTHING = Clauses(({},))
"""No document is found."""


def clauses_of(query: Query, vocabulary: Vocabulary) -> Clauses | None:
    """A query of one column; None where it takes more than clauses."""
    match query:
        case Match():
            return _match(query, vocabulary)
        case Phrase():
            return _phrase(query, vocabulary)
        case MultiMatch(queries):
            return _match(queries[0], vocabulary) if len(queries) == 1 else None
        case Boosting(positive, negative, share):
            found, against = clauses_of(positive, vocabulary), clauses_of(negative, vocabulary)
            if found is None or against is None or not against.is_group:
                return None
            lowered = _sum(found.optional, *({term: -share * w for term, w in g.items()} for g in against.groups))
            return Clauses(found.groups, lowered, found.excluded, found.orders)
        case Boolean(must, should, must_not):
            return _boolean(must, should, must_not, lambda part: clauses_of(part, vocabulary))
    return None


def clauses_of_both(query: Query, indexed: Vocabulary, every: Vocabulary) -> tuple[Clauses, Clauses] | None:
    """A query of a column of which an index knows some words: for texts of the index, and for those that it does not know.

    None where either takes more than clauses: words that are nearly the same, and so what is asked, depend on those that
    there are.
    """
    known = clauses_of(query, indexed)
    sought = known if every is indexed else clauses_of(query, every)
    return None if known is None or sought is None else (known, sought)


def _match(query: Match, vocabulary: Vocabulary) -> Clauses:
    words = [term for term, _ in vocabulary.words(query.text)]
    if not words:
        return NOTHING
    groups: list[tuple[bytes, ...]] = []
    left = query.max_expansions
    for term in words:
        near: Sequence[bytes] = (term,)
        if query.fuzziness:
            near = vocabulary.near(term, query.fuzziness, query.prefix_length, left)
            left -= len(near)
        groups.append(tuple(near))
    if query.operator is FullTextOperator.OR:
        return Clauses((_sum(*({term: query.boost} for group in groups for term in group)),))
    # A word that is asked for twice counts twice, and has to be there once.
    once: dict[tuple[bytes, ...], Weights] = {}
    for group in groups:
        weights = dict.fromkeys(group, query.boost)
        once[group] = _sum(once[group], weights) if group in once else weights
    return Clauses(tuple(once.values()))


def _phrase(query: Phrase, vocabulary: Vocabulary) -> Clauses:
    words = vocabulary.words(query.text)
    if not words:
        return NOTHING
    weights = _sum(*({term: 1.0} for term, _ in words))
    first = words[0][1]
    order = Order(tuple(term for term, _ in words), tuple(place - first for _, place in words), query.slop)
    groups = tuple({term: weight} for term, weight in weights.items())
    return Clauses(groups, orders=(order,) if len(words) > 1 else ())


def _boolean(
    must: Sequence[Query],
    should: Sequence[Query],
    must_not: Sequence[Query],
    clauses: Callable[[Query], Clauses | None],
) -> Clauses | None:
    required = [clauses(part) for part in must]
    wanted = [clauses(part) for part in should]
    unwanted = [clauses(part) for part in must_not]
    if not required and len(wanted) == 1:
        required, wanted = wanted, []
    if any(part is None or not part.is_group for part in (*wanted, *unwanted)):
        return None
    optional = _sum(*(group for part in wanted if part is not None for group in part.groups))
    excluded = frozenset(term for part in unwanted if part is not None for group in part.groups for term in group)
    if not required:
        return Clauses((optional,), excluded=excluded)
    whole = [part for part in required if part is not None]
    if len(whole) < len(required):
        return None
    groups = tuple(group for part in whole for group in part.groups)
    if any(part.orders for part in whole) and any(len(group) > 1 for group in groups):
        return None
    return Clauses(
        groups,
        _sum(optional, *(part.optional for part in whole)),
        excluded.union(*(part.excluded for part in whole)),
        tuple(order for part in whole for order in part.orders),
    )


def _sum(*parts: Weights) -> Weights:
    total: Weights = {}
    for part in parts:
        for term, weight in part.items():
            total[term] = total.get(term, 0.0) + weight
    return total


def merged(lists: Iterable[Sequence[bytes]], limit: int) -> list[bytes]:
    """The first terms in order of several lists."""
    return sorted(set().union(*lists))[:limit]

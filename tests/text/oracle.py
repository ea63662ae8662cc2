"""Queries answered by looking at every text, word by word: what a search has to find, and its scores (BM25).

Words are what stands between spaces. Of texts that an index knows and texts that it does not, the first are scored by
the statistics of their own, the others by those of both together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from lancelet.index.text.query import (
    Boolean,
    Boosting,
    FullTextOperator,
    Match,
    MultiMatch,
    Phrase,
    Query,
)

Scores = dict[int, float]
_ONE = np.float32(1)


class Texts:
    """The texts of a column by their rows; ``new`` are rows that no index knows, and ``gone`` rows that are deleted."""

    def __init__(
        self, texts: Mapping[int, str | None], new: frozenset[int] = frozenset(), gone: frozenset[int] = frozenset()
    ) -> None:
        self.texts, self.new, self.gone = texts, new, gone

    def __repr__(self) -> str:
        return f"<texts of {len(self.texts)} rows>"

    def answer(self, query: Query) -> Scores:
        """All rows that a query of this column finds."""
        return answer({"": self}, query, lambda name: "")

    def leaf(self, query: Match | Phrase) -> Scores:
        documents = {row: text.split() for row, text in self.texts.items() if text and text.split()}
        old = {row: words for row, words in documents.items() if row not in self.new}
        live = {row: words for row, words in documents.items() if row in self.new and row not in self.gone}
        found = _leaf(query, old, old, _Counts(old))
        found |= _leaf(query, live, {**old, **live}, _Counts({**old, **live}))
        return {row: score for row, score in found.items() if row not in self.gone}


class _Counts:
    def __init__(self, documents: Mapping[int, Sequence[str]]) -> None:
        self.number = len(documents)
        self.mean = np.float32(sum(map(len, documents.values()))) / np.float32(max(self.number, 1))
        self.having = Counter(word for words in documents.values() for word in set(words))

    def score(self, word: str, words: Sequence[str]) -> float:
        often, having = np.float32(words.count(word)), np.float32(self.having[word])
        half, norm = np.float32(0.5), np.float32(0.25) + np.float32(0.75) * np.float32(len(words)) / self.mean
        weight = np.log((np.float32(self.number) - having + half) / (having + half) + _ONE)
        return float(weight * (np.float32(2.2) * often / (often + np.float32(1.2) * norm)))


def distance(one: str, other: str) -> int:
    """How many characters are inserted, removed or replaced."""
    row = list(range(len(other) + 1))
    for number, mark in enumerate(one, start=1):
        corner, row[0] = row[0], number
        for place, sign in enumerate(other, start=1):
            corner, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, corner + (mark != sign))
    return row[-1]


def _groups(query: Match, vocabulary: Mapping[int, Sequence[str]]) -> list[list[str]]:
    words = query.text.split()
    if not query.fuzziness:
        return [[word] for word in words]
    known = sorted({word for some in vocabulary.values() for word in some}, key=str.encode)
    groups: list[list[str]] = []
    left = query.max_expansions
    for word in words:
        prefix = word[: query.prefix_length]
        near = [one for one in known if one.startswith(prefix) and distance(word, one) <= query.fuzziness]
        groups.append(near[:left])
        left -= len(groups[-1])
    return groups


def _leaf(
    query: Match | Phrase,
    documents: Mapping[int, Sequence[str]],
    vocabulary: Mapping[int, Sequence[str]],
    counts: _Counts,
) -> Scores:
    found: Scores = {}
    if isinstance(query, Phrase):
        words = query.text.split()
        for row, text in documents.items():
            if words and _follow(words, text, query.slop):
                found[row] = sum(counts.score(word, text) for word in words)
        return found
    groups = _groups(query, vocabulary)
    for row, text in documents.items():
        hits = [[word for word in group if word in text] for group in groups]
        if any(hits) and (query.operator is FullTextOperator.OR or all(hits)):
            found[row] = query.boost * sum(counts.score(word, text) for some in hits for word in some)
    return found


def _follow(words: Sequence[str], text: Sequence[str], slop: int) -> bool:
    places = [[at - number for at, one in enumerate(text) if one == word] for number, word in enumerate(words)]
    return any(
        all(0 <= after - before <= slop for before, after in zip(chosen, chosen[1:], strict=False))
        for chosen in product(*places)
    )


def answer(columns: Mapping[str, Texts], query: Query, named: Callable[[str], str] = str) -> Scores:
    """All rows that a query finds, and their scores."""
    match query:
        case Match() | Phrase():
            return columns[named(query.column)].leaf(query)
        case MultiMatch(queries):
            parts = [answer(columns, part, named) for part in queries]
            return {row: max(part[row] for part in parts if row in part) for row in set().union(*parts)}
        case Boosting(positive, negative, share):
            lower = answer(columns, negative, named)
            return {row: score - share * lower.get(row, 0) for row, score in answer(columns, positive, named).items()}
        case Boolean(must, should, must_not):
            required, wanted, barred = (
                [answer(columns, part, named) for part in some] for some in (must, should, must_not)
            )
            rows = set.intersection(*map(set, required)) if required else set().union(*wanted)
            rows -= set().union(*barred)
            return {row: sum(part.get(row, 0) for part in (*required, *wanted)) for row in rows}
    raise AssertionError(query)

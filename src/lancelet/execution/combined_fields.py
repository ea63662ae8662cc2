"""Words in several columns that count as one text (BM25F).

A row has of a word what its columns have together, each as often as its boost says, and so for lengths. A word is as
rare as in the column that it is most common in; the mean length is that of all columns together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.errors import InvalidInput
from lancelet.index.text.query import FullTextOperator, Statistics

if TYPE_CHECKING:
    from lancelet.execution.ranked_scan import Answer
    from lancelet.execution.text_column import ColumnSearch, Contents
    from lancelet.index.text.query import CombinedFields

Ids = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.float32]


def find_combined(
    query: CombinedFields, columns: Sequence[ColumnSearch], told: Sequence[Statistics] | None = None
) -> Answer:
    """All rows that match, and their scores.

    ``told`` are the statistics of the columns, where they are not those of what is looked at here; the columns agree on
    tokens then.
    """
    if told is None:
        agree(columns)
    words = words_of(query, columns)
    read = [column.contents(words) for column in columns]
    statistics = _together(told or [one.statistics for one in read], query.boosts)
    ids = np.unique(np.concatenate([np.empty(0, np.uint64), *(_matching(one, words) for one in read)]))
    norm = np.full(len(ids), 0.3, np.float32)
    slope = np.float32(0.9 / statistics.mean)
    for one, boost in zip(read, query.boosts, strict=True):
        norm += slope * np.float32(boost) * _lengths(one, ids)
    scores = np.zeros(len(ids), np.float32)
    everywhere = np.ones(len(ids), np.bool_)
    for term in words:
        often = np.zeros(len(ids), np.float32)
        for one, boost in zip(read, query.boosts, strict=True):
            often += np.float32(boost) * _frequencies(one, term, ids)
        scores += np.float32(statistics.weight(term)) * (np.float32(2.2) * often / (often + norm))
        everywhere &= often > 0
    if query.operator is FullTextOperator.AND:
        return scores[everywhere], ids[everywhere]
    return scores, ids


def words_of(query: CombinedFields, columns: Sequence[ColumnSearch]) -> tuple[bytes, ...]:
    """What is looked for in columns that agree on tokens; a word that is asked for twice counts once, as in pylance."""
    return tuple(dict.fromkeys(term for term, _ in columns[0].words(query.text)))


def agree(columns: Sequence[ColumnSearch]) -> None:
    """Have all columns make the same tokens; raises where they cannot."""
    names = [column.column.name for column in columns]
    indexed = [column for column in columns if column.index is not None]
    if not indexed:
        raise InvalidInput(f"combined_fields requires an inverted index on at least one of {names}; create one")
    for column in indexed[1:]:
        if not column.params.same_tokens(indexed[0].params):
            raise InvalidInput(
                f"combined_fields requires all columns to share a tokenizer configuration, but those of "
                f"'{indexed[0].column.name}' and '{column.column.name}' differ; use MultiMatchQuery"
            )
    for column in columns:
        if column.index is None:
            column.params = indexed[0].params


def _together(parts: Sequence[Statistics], boosts: Sequence[float]) -> Statistics:
    documents = max(part.documents for part in parts)
    tokens = sum(boost * part.tokens for part, boost in zip(parts, boosts, strict=True))
    terms = {term for part in parts for term in part.frequencies}
    frequencies = {term: max(part.frequencies.get(term, 0) for part in parts) for term in terms}
    return Statistics(documents, tokens, frequencies)


def _matching(one: Contents, words: Sequence[bytes]) -> Ids:
    found = [part.ids[part.kept(part.terms[term][0])] for part in one.parts for term in words if term in part.terms]
    return np.concatenate([np.empty(0, np.uint64), *found])


def _lengths(one: Contents, ids: Ids) -> Reals:
    """How many tokens rows have in a column."""
    total = np.zeros(len(ids), np.float32)
    for part in one.parts:
        docs = part.kept(np.arange(len(part.ids), dtype=np.uint32))
        _put(total, ids, part.ids[docs], part.lengths[docs])
    return total


def _frequencies(one: Contents, term: bytes, ids: Ids) -> Reals:
    """How often rows have a term in a column."""
    total = np.zeros(len(ids), np.float32)
    for part in one.parts:
        if term in part.terms:
            docs, freqs = part.terms[term]
            keep = slice(None) if part.keep is None else part.keep[docs]
            _put(total, ids, part.ids[docs[keep]], freqs[keep])
    return total


def _put(total: Reals, ids: Ids, some: Ids, values: npt.NDArray[np.uint32]) -> None:
    """Write values of some rows to their places in all of them; rows that are not there are left out."""
    if not len(ids) or not len(some):
        return
    at = np.minimum(np.searchsorted(ids, some), len(ids) - 1)
    here = ids[at] == some
    total[at[here]] = values[here]

"""One order out of two: rows that a search for texts found, and rows that a search for vectors found.

::

    rrf       the sum over both answers of 1 / (rank + k), ranks from 0; a row that an answer has not adds nothing
    linear    weight x closeness + (1 - weight) x fit

Closeness and fit are distances and scores brought between 0, the worst row of their answer, and 1, its best one; where all are
equal, all are 1, and a row that an answer has not is 0. What is asked alone has the whole weight. Sums are those of doubles,
shown as floats; of rows with equal ones those with the lower row ids come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lancelet.execution.ranked_scan import Answer

RANK_CONSTANT: Final = 60.0
VECTOR_WEIGHT: Final = 0.7

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ids = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ReciprocalRank:
    """Ranks count, and how far rows are apart does not."""

    constant: float = RANK_CONSTANT
    """The larger, the less the first places stand out."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Scores and distances count."""

    weight: float = VECTOR_WEIGHT
    """The share of vectors; that of texts is the rest."""


Fusion: TypeAlias = ReciprocalRank | Linear


@dataclass(frozen=True, slots=True)
class Fused:
    """Rows of both answers, the best first."""

    ids: Ids
    relevance: Floats
    scores: Floats
    """NaN where a row has none."""
    distances: Floats
    """NaN where a row has none."""

    def cut(self, which: slice) -> Fused:
        """Some of them."""
        return Fused(self.ids[which], self.relevance[which], self.scores[which], self.distances[which])


def fuse(fusion: Fusion, texts: Answer | None, vectors: Answer | None) -> Fused:
    """Both answers in one, each of them the best first and with every row once; None: that one was not asked."""
    answers = [(answer, descending) for answer, descending in ((texts, True), (vectors, False)) if answer is not None]
    ids = np.unique(np.concatenate([np.empty(0, np.uint64), *(rows for (_, rows), _ in answers)]))
    total = np.zeros(len(ids), np.float64)
    for (marks, rows), descending in answers:
        total[np.searchsorted(ids, rows)] += _worth(fusion, marks, descending, alone=len(answers) == 1)
    relevance = total.astype(np.float32)
    order = np.lexsort((ids, -relevance))
    columns = [_beside(ids, answer)[order] for answer in (texts, vectors)]
    return Fused(ids[order], relevance[order], *columns)


def _worth(fusion: Fusion, marks: Floats, descending: bool, *, alone: bool) -> Doubles:
    """What an answer adds to each of its rows."""
    if isinstance(fusion, ReciprocalRank):
        return 1 / (np.arange(len(marks), dtype=np.float64) + fusion.constant)
    share = 1.0 if alone else 1 - fusion.weight if descending else fusion.weight
    return share * _brought_to_one(marks if descending else -marks)


def _brought_to_one(marks: Floats) -> Doubles:
    """Marks of which more is better, as numbers from 0 to 1; the infinite ones are as the last finite ones."""
    values = marks.astype(np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite) or finite.min() == finite.max():
        return np.ones(len(values))
    worst, best = finite.min(), finite.max()
    brought: Doubles = (np.clip(values, worst, best) - worst) / (best - worst)
    return brought


def _beside(ids: Ids, answer: Answer | None) -> Floats:
    """The marks of an answer beside all rows."""
    found = np.full(len(ids), np.nan, np.float32)
    if answer is not None:
        marks, rows = answer
        found[np.searchsorted(ids, rows)] = marks
    return found

"""Two answers in one, beside a fusion that anybody can follow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.execution.fusion import Fusion, Linear, ReciprocalRank, fuse
from lancelet.execution.ranked_scan import Answer

MARKS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-1e6, 1e6, width=32, allow_nan=False),
    st.sampled_from([math.inf, -math.inf]),
)
FUSIONS = st.one_of(
    st.floats(0.5, 1000).map(ReciprocalRank), st.floats(0, 1, allow_nan=False).map(Linear), st.just(ReciprocalRank())
)


@st.composite
def answers(draw: st.DrawFn, descending: bool) -> Answer | None:
    """Rows that a search found, the best first."""
    rows = draw(st.none() | st.dictionaries(st.integers(0, 12) | st.just(2**64 - 1), MARKS, max_size=10))
    if rows is None:
        return None
    ordered = sorted(rows.items(), key=lambda row: (-row[1] if descending else row[1], row[0]))
    return np.array([m for _, m in ordered], np.float32), np.array([n for n, _ in ordered], np.uint64)


def by_hand(fusion: Fusion, texts: Answer | None, vectors: Answer | None) -> list[tuple[int, float]]:
    """Rows and their relevance, one by one."""
    total: dict[int, float] = {}
    for answer, descending, other in ((texts, True, vectors), (vectors, False, texts)):
        if answer is None:
            continue
        marks = [float(mark) if descending else -float(mark) for mark in answer[0]]
        finite = [mark for mark in marks if math.isfinite(mark)]
        for rank, (mark, row) in enumerate(zip(marks, answer[1].tolist(), strict=True)):
            if isinstance(fusion, ReciprocalRank):
                worth = 1 / (rank + fusion.constant)
            else:
                share = 1.0 if other is None else (1 - fusion.weight if descending else fusion.weight)
                worst, best = (min(finite), max(finite)) if finite else (0.0, 0.0)
                near = 1.0 if worst == best else (min(max(mark, worst), best) - worst) / (best - worst)
                worth = share * near
            total[row] = total.get(row, 0.0) + worth
    shown = [(row, float(np.float32(worth))) for row, worth in total.items()]
    return sorted(shown, key=lambda row: (-row[1], row[0]))


@settings(max_examples=examples(150), deadline=None)
@given(FUSIONS, answers(descending=True), answers(descending=False))
def test_rows_come_in_the_order_of_their_sums(fusion: Fusion, texts: Answer | None, vectors: Answer | None) -> None:
    fused = fuse(fusion, texts, vectors)
    assert list(zip(fused.ids.tolist(), fused.relevance.tolist(), strict=True)) == by_hand(fusion, texts, vectors)
    for answer, column in ((texts, fused.scores), (vectors, fused.distances)):
        known = {} if answer is None else dict(zip(answer[1].tolist(), answer[0].tolist(), strict=True))
        shown = dict(zip(fused.ids.tolist(), column.tolist(), strict=True))
        assert {row: mark for row, mark in shown.items() if not math.isnan(mark)} == known


def test_a_row_of_both_answers_is_better_than_the_first_of_one() -> None:
    texts = np.array([9, 8, 7], np.float32), np.array([1, 2, 3], np.uint64)
    vectors = np.array([0, 1, 2], np.float32), np.array([4, 5, 3], np.uint64)
    fused = fuse(ReciprocalRank(), texts, vectors)
    assert fused.ids.tolist() == [3, 1, 4, 2, 5]
    assert fused.relevance[0] == pytest.approx(2 / 62)


def test_the_whole_weight_of_a_side_leaves_the_order_of_that_side() -> None:
    texts = np.array([9, 8], np.float32), np.array([1, 2], np.uint64)
    vectors = np.array([0, 1, 2], np.float32), np.array([2, 1, 3], np.uint64)
    assert fuse(Linear(1.0), texts, vectors).ids.tolist() == [2, 1, 3]
    assert fuse(Linear(0.0), texts, vectors).ids.tolist()[0] == 1

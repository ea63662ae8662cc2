"""Graphs of near neighbours: what is in them, and what a walk finds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.index.vector import hnsw
from lancelet.index.vector.graph import Growth, Lists, Points

START, END = -3.0, 4.5


def points_and_distances(
    form: str, metric: str, rows: int, d: int, seed: int = 0
) -> tuple[Points, npt.NDArray[Any], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Points, a query in their form, the distances to it, and those between any two."""
    random = np.random.default_rng(seed)
    if form == "bits":
        vectors = random.integers(0, 256, (rows + 1, d)).astype(np.uint8)
        bits = np.unpackbits(vectors, axis=1).astype(np.float64)
        return Points.flat(vectors[:rows], metric), vectors[rows], *apart("l2", bits)
    if form == "scalar":
        codes = random.integers(0, 256, (rows + 1, d)).astype(np.uint8)
        exact = codes * ((END - START) / 255) + START
        points = Points.scalar(codes[:rows], START, END, metric)
        asked = points.query(exact[rows].astype(np.float32) if metric == "dot" else codes[rows])
        return points, asked, *apart(metric, exact)
    if form.startswith("product"):
        words = 16 if form == "product of 4 bits" else 256
        book = random.standard_normal((2 * d, words, 3)).astype(np.float32)
        codes = random.integers(0, words, (rows + 1, 2 * d)).astype(np.uint8)
        exact = np.concatenate([book[j][codes[:, j]] for j in range(2 * d)], axis=1).astype(np.float64)
        points = Points.product(codes[:rows], book, metric, 1.0 if metric == "dot" else 0.0)
        parts = exact[rows].reshape(2 * d, 1, 3)
        table = -(parts * book).sum(2) if metric == "dot" else ((parts - book) ** 2).sum(2)
        return points, points.query(table.astype(np.float32)), *apart(metric, exact)
    vectors = random.standard_normal((rows + 1, d)).astype(form)
    if metric == "cosine":
        vectors = (vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)).astype(form)
    points = Points.flat(vectors[:rows], metric)
    return points, points.query(vectors[rows]), *apart(metric, vectors.astype(np.float64))


def apart(metric: str, exact: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Distances of the last vector to all others, and of the others to each other."""
    products = exact @ exact.T
    squares = np.diag(products)
    found = squares[:, None] + squares - 2 * products if metric == "l2" else 1 - products
    return found[-1, :-1], found[:-1, :-1]


FORMS = [
    *((form, metric) for form in ("float16", "float32", "float64") for metric in ("l2", "cosine", "dot")),
    *((form, metric) for form in ("scalar", "product", "product of 4 bits") for metric in ("l2", "dot")),
    ("bits", "hamming"),
]


def check_distances() -> None:
    for form, metric in FORMS:
        for d in (1, 5, 16, 33, 70):
            points, query, to_query, between = points_and_distances(form, metric, 70, d)
            ids = np.random.default_rng(d).permutation(70).astype(np.uint32)
            close = {"rtol": 2e-5, "atol": 2e-3 if form == "float16" and metric == "cosine" else 2e-5 * d}
            for some in (ids, ids[:1], ids[:0], ids[5:8]):
                np.testing.assert_allclose(points.distances(query, some), to_query[some], **close, err_msg=form)
                np.testing.assert_allclose(points.between(3, some), between[3, some], **close, err_msg=form)


def test_distances_by_number_are_those_of_numpy() -> None:
    check_distances()


@pytest.mark.parametrize("level", ["0", "1"])
def test_distances_are_the_same_on_every_processor(level: str) -> None:
    code = "import test_graph; test_graph.check_distances()"
    folder = Path(__file__).parent
    search = os.pathsep.join([str(folder.parent), *sys.path])
    environment = {**os.environ, "LANCELET_SIMD": level, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": search}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=folder)


def test_points_that_make_no_sense_are_refused() -> None:
    floats, codes = np.zeros((4, 8), np.float32), np.zeros((4, 8), np.uint8)
    book = np.zeros((8, 256, 2), np.float32)
    for refused in (
        lambda: Points.flat(codes, "l2"),
        lambda: Points.flat(floats, "hamming"),
        lambda: Points.flat(floats.T, "l2"),
        lambda: Points.scalar(floats, 0, 1, "l2"),
        lambda: Points.product(codes, book[:7], "l2"),
        lambda: Points.product(codes, book[:, :100].copy(), "l2"),
        lambda: Points.product(codes + np.uint8(16), book[:, :16].copy(), "l2"),
        lambda: Points.flat(floats, "l2").distances(np.zeros(7, np.float32), np.zeros(1, np.uint32)),
        lambda: Points.flat(floats, "l2").distances(np.zeros(8), np.zeros(1, np.uint32)),
    ):
        with pytest.raises(ValueError):
            refused()
    with pytest.raises(IndexError):
        Points.flat(floats, "l2").distances(np.zeros(8, np.float32), np.array([4], np.uint32))


# Graphs


def grow(points: Points, m: int = 8, ef: int = 40, levels: int = 5, seed: int = 1, parts: int = 1) -> dict[str, Any]:
    heights = hnsw._heights(len(points), m, levels, seed)
    order = np.argsort(-heights.astype(int), kind="stable").astype(np.uint32)
    upper = hnsw._upper(heights)
    growth = Growth(points, heights, order, upper, m, ef, 3)
    hnsw._grow(growth, heights, order, parts)
    offsets, values, marks, above_offsets, above, above_marks = growth.lists()
    return {
        "lists": Lists(offsets, values, heights, upper, above_offsets, above, int(order[0])),
        "base": [(values[a:b], marks[a:b]) for a, b in zip(offsets[:-1], offsets[1:], strict=True)],
        "above": [(above[a:b], above_marks[a:b]) for a, b in zip(above_offsets[:-1], above_offsets[1:], strict=True)],
        "heights": heights,
        "entry": int(order[0]),
    }


def rows_above(heights: npt.NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    for node, height in enumerate(heights.tolist()):
        for level in range(1, height + 1):
            yield node, level


def check_graph(graph: dict[str, Any], points: Points, m: int) -> None:
    count, heights = len(points), graph["heights"]
    for node, (neighbours, marks) in enumerate(graph["base"]):
        assert len(neighbours) <= 2 * m
        assert len(set(neighbours.tolist())) == len(neighbours)
        assert node not in neighbours
        np.testing.assert_array_equal(marks, points.between(node, neighbours))
    for (node, level), (neighbours, marks) in zip(rows_above(heights), graph["above"], strict=True):
        assert len(neighbours) <= m
        assert len(set(neighbours.tolist())) == len(neighbours)
        assert node not in neighbours
        assert (heights[neighbours] >= level).all()
        np.testing.assert_array_equal(marks, points.between(node, neighbours))
    reached, waiting = {graph["entry"]}, [graph["entry"]]
    while waiting:
        fresh = set(graph["base"][waiting.pop()][0].tolist()) - reached
        reached |= fresh
        waiting += fresh
    assert len(reached) == count


@st.composite
def small_sets(draw: st.DrawFn) -> npt.NDArray[np.float32]:
    """Few vectors, often the same ones."""
    count, d = draw(st.integers(1, 90)), draw(st.integers(1, 4))
    kinds = draw(st.integers(1, 1000))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    values = random.integers(-4, 5, (kinds, d)).astype(np.float32)
    return values[random.integers(0, kinds, count)]


@settings(max_examples=examples(30), deadline=None)
@given(small_sets(), st.sampled_from(["l2", "dot"]), st.integers(4, 9), st.integers(0, 3))
def test_a_walk_that_keeps_all_in_mind_finds_all(
    vectors: npt.NDArray[np.float32], metric: str, m: int, seed: int
) -> None:
    points = Points.flat(vectors, metric)
    graph = grow(points, m=m, ef=2 * m, seed=seed)
    check_graph(graph, points, m)
    query = vectors[0] + np.float32(0.25)
    expected = points.distances(query, np.arange(len(vectors), dtype=np.uint32))
    marks, nodes, compared = graph["lists"].search(points, query, len(vectors))
    assert sorted(nodes.tolist()) == list(range(len(vectors)))
    assert marks.tolist() == sorted(expected.tolist())
    assert compared >= len(vectors)


@settings(max_examples=examples(30), deadline=None)
@given(small_sets(), st.integers(0, 1000), st.floats(0, 1), st.none() | st.floats(0, 40, width=32))
def test_rows_that_are_not_kept_are_passed_through(
    vectors: npt.NDArray[np.float32], seed: int, share: float, lower: float | None
) -> None:
    points = Points.flat(vectors, "l2")
    graph = grow(points, m=4, ef=8)
    keep = np.random.default_rng(seed).random(len(vectors)) < share
    expected = points.distances(vectors[0], np.arange(len(vectors), dtype=np.uint32))
    wanted = keep if lower is None else keep & (expected >= lower)
    marks, nodes, _ = graph["lists"].search(points, vectors[0], len(vectors), keep, lower)
    assert sorted(nodes.tolist()) == np.flatnonzero(wanted).tolist()
    assert marks.tolist() == sorted(expected[wanted].tolist())


@pytest.mark.parametrize("copies", [1, 40, 700])
def test_heaps_of_equal_vectors_do_not_cut_the_others_off(copies: int) -> None:
    random = np.random.default_rng(copies)
    vectors = np.repeat(random.standard_normal((1400 // copies, 6)).astype(np.float32), copies, axis=0)
    points = Points.flat(vectors, "l2")
    graph = grow(points, m=5)
    check_graph(graph, points, 5)
    marks, nodes, _ = graph["lists"].search(points, vectors[-1], 30)
    assert marks[: min(copies, 30)].tolist() == [0] * min(copies, 30)
    assert len(nodes) == 30


@pytest.mark.parametrize(("form", "metric"), FORMS)
def test_every_form_of_vectors_has_graphs(form: str, metric: str) -> None:
    points, query, to_query, _ = points_and_distances(form, metric, 600, 4)
    graph = grow(points)
    check_graph(graph, points, 8)
    marks, nodes, compared = graph["lists"].search(points, query, 40)
    np.testing.assert_array_equal(marks, points.distances(query, nodes))
    assert compared < 600
    nearest = np.sort(points.distances(query, np.arange(600, dtype=np.uint32)))[:10]
    assert np.isin(nearest, marks).mean() >= 0.9
    np.testing.assert_allclose(marks[:5], to_query[nodes[:5]], rtol=1e-3, atol=2e-3)


def test_a_graph_does_not_depend_on_the_number_of_threads() -> None:
    points, *_ = points_and_distances("float32", "l2", 1500, 12)
    alone, together = (grow(points, parts=parts) for parts in (1, 3))
    for level in ("base", "above"):
        for (one, _), (other, _) in zip(alone[level], together[level], strict=True):
            assert one.tolist() == other.tolist()


def test_another_seed_gives_other_levels() -> None:
    first, again, other = (hnsw._heights(5000, 20, 7, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert 0.04 < (first > 0).mean() < 0.06
    assert hnsw._heights(5000, 20, 1, 1).max() == 0


def test_lists_that_lead_out_of_the_graph_are_refused() -> None:
    heights, upper = np.array([1, 0, 1], np.uint8), np.array([0, 1, 1], np.uint32)
    base = (np.array([0, 2, 3, 4], np.int32), np.array([1, 2, 0, 0], np.uint32))
    above = (np.array([0, 1, 2], np.int32), np.array([2, 0], np.uint32))
    Lists(*base, heights, upper, *above, 0)
    u32, i32 = np.uint32, np.int32
    for refused in (
        (*base, heights, upper, *above, 3),
        (base[0], np.array([1, 3, 0, 0], u32), heights, upper, *above, 0),
        (np.array([0, 3, 2, 4], i32), base[1], heights, upper, *above, 0),
        (np.array([-1, 2, 3, 4], i32), base[1], heights, upper, *above, 0),
        (np.array([0, 2, 3, 5], i32), base[1], heights, upper, *above, 0),
        (np.array([0, 2, 4], i32), base[1], heights, upper, *above, 0),
        (*base, heights, upper, above[0], np.array([2, 1], u32), 0),
        (*base, heights, upper, above[0], np.array([2, 9], u32), 0),
        (*base, heights, np.array([0, 1, 2], u32), *above, 0),
        (*base, heights[:2], upper, *above, 0),
        (base[0][:1], base[1], heights[:0], upper[:0], *above, 0),
    ):
        with pytest.raises(ValueError):
            Lists(*refused)

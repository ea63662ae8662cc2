"""Distances of stored vectors to queries: those of arithmetic with doubles, whatever the processor can do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancelet.index.vector.blocks import Block, Blocks
from lancelet.index.vector.distances import Queries
from lancelet.index.vector.top import Top
from vector.brute import TYPES

FLOATS = ("float16", "float32", "float64")


def as_bytes(vectors: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(vectors).view(np.uint8).reshape(len(vectors), -1)


def with_doubles(queries: npt.NDArray[Any], vectors: npt.NDArray[Any], metric: str) -> npt.NDArray[np.float64]:
    if metric == "hamming":
        return np.unpackbits(queries[:, None] ^ vectors[None], axis=2).sum(axis=2).astype(np.float64)
    q, v = queries.astype(np.float64), vectors.astype(np.float64)
    with np.errstate(all="ignore"):
        if metric == "l2":
            return ((q[:, None] - v[None]) ** 2).sum(axis=2)
        if metric == "dot":
            return 1 - q @ v.T
        found: npt.NDArray[np.float64] = 1 - (q @ v.T) / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(v, axis=1)
        return found


def check_all_forms() -> None:
    rng = np.random.default_rng(7)
    for d in (1, 2, 7, 8, 15, 16, 17, 33, 100, 128):
        for name in FLOATS:
            vectors, queries = rng.normal(size=(71, d)).astype(name), rng.normal(size=(6, d)).astype(name)
            for metric in ("l2", "dot", "cosine"):
                found = Queries(queries, name, metric).distances(as_bytes(vectors))
                np.testing.assert_allclose(found, with_doubles(queries, vectors, metric), rtol=3e-6, atol=3e-6)
        narrow = (rng.normal(size=(71, d)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        wide = (narrow.astype(np.uint32) << 16).view(np.float32)
        found = Queries(wide[:5], "bfloat16", "l2").distances(as_bytes(narrow))
        np.testing.assert_allclose(found, with_doubles(wide[:5], wide, "l2"), rtol=3e-6, atol=3e-6)
        bits = rng.integers(0, 256, (71, d)).astype(np.uint8)
        assert (Queries(bits[:5], "uint8", "hamming").distances(bits) == with_doubles(bits[:5], bits, "hamming")).all()


def test_distances_are_those_of_doubles() -> None:
    check_all_forms()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_of_the_processor_gives_the_same(level: int) -> None:
    code = "from test_distances import check_all_forms; check_all_forms()"
    environment = {**os.environ, "LANCELET_SIMD": str(level), "OPENBLAS_NUM_THREADS": "1"}
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": path}, check=True)


@pytest.mark.parametrize("name", FLOATS)
def test_halves_and_extremes_are_read_as_what_they_are(name: str) -> None:
    info = np.finfo(name)
    values = np.array([0, -0.0, info.tiny, info.smallest_subnormal, info.max, -info.max, np.inf, -np.inf, np.nan], name)
    vectors = np.stack([np.full(33, value, name) for value in values])
    queries = np.ones((1, 33), name)
    for metric in ("l2", "dot", "cosine"):
        with np.errstate(all="ignore"):
            scaled = vectors / (np.abs(vectors).max(axis=1, keepdims=True) if metric == "cosine" else 1)
            expected = with_doubles(queries, scaled, metric).astype(np.float32)
        found = Queries(queries, name, metric).distances(as_bytes(vectors))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_rows_that_are_not_kept_are_not_compared() -> None:
    rng = np.random.default_rng(3)
    vectors, queries = rng.normal(size=(5000, 24)).astype(np.float32), rng.normal(size=(3, 24)).astype(np.float32)
    keep, rows = rng.random(5000) < 0.3, rng.permutation(5000).astype(np.uint64)
    exact = with_doubles(queries, vectors, "l2")
    for numbers in (None, rows):
        tops = [Top(20) for _ in queries]
        assert Queries(queries, "float32", "l2").scan(as_bytes(vectors), tops, 7, numbers, keep) == keep.sum()
        for which, top in enumerate(tops):
            nearest = [i for i in np.argsort(exact[which]) if keep[i]][:20]
            assert top.sorted()[1].tolist() == [7 + i if numbers is None else int(rows[i]) for i in nearest]


def test_a_group_is_as_near_as_its_nearest_vectors_are_to_each_query() -> None:
    rng = np.random.default_rng(5)
    vectors, queries = rng.normal(size=(700, 9)).astype(np.float64), rng.normal(size=(4, 9))
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 12, 100))])
    ends = np.minimum(ends, 700).astype(np.int64)
    valid, keep = rng.random(700) < 0.9, rng.random(100) < 0.8
    exact = with_doubles(queries, vectors, "cosine")
    expected = {}
    for group in range(100):
        members = [i for i in range(ends[group], ends[group + 1]) if valid[i]]
        if keep[group] and members:
            expected[group] = exact[:, members].min(axis=1).sum()
    top = Top(1000)
    Queries(queries, "float64", "cosine").scan_groups(as_bytes(vectors), ends, top, 0, None, keep, valid)
    marks, rows = top.sorted()
    assert set(rows.tolist()) == set(expected)
    np.testing.assert_allclose(marks, [expected[row] for row in rows.tolist()], rtol=1e-6)


def test_sizes_that_do_not_fit_are_refused() -> None:
    queries = Queries(np.zeros((1, 4), np.float32), "float32", "l2")
    vectors = np.zeros((3, 16), np.uint8)
    with pytest.raises(ValueError, match="bytes"):
        queries.scan(np.zeros((3, 15), np.uint8), [Top(1)])
    with pytest.raises(ValueError, match="for each row"):
        queries.scan(vectors, [Top(1)], 0, np.zeros(2, np.uint64))
    with pytest.raises(ValueError, match="for each row"):
        queries.scan(vectors, [Top(1)], 0, None, np.ones(4, np.bool_))
    with pytest.raises(ValueError, match="each query"):
        queries.scan(vectors, [Top(1), Top(1)])
    for ends in ([0, 4], [0, 2, 1], [-1, 2]):
        with pytest.raises(ValueError, match="groups"):
            queries.scan_groups(vectors, np.array(ends, np.int64), Top(1))
    with pytest.raises(ValueError, match="not compared"):
        Queries(np.zeros((1, 4)), "uint8", "l2")


@pytest.mark.parametrize(("element", "metric"), [*TYPES, ("float32", "far")])
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 5, 64, 65, 300]), min_size=1, max_size=6),
    d=st.sampled_from([1, 8, 24, 64, 100, 128]),
    count=st.integers(1, 9),
    queries=st.integers(1, 9),
    seed=st.integers(0, 1000),
)
def test_queries_of_groups_find_what_each_finds_alone(
    element: str, metric: str, sizes: list[int], d: int, count: int, queries: int, seed: int
) -> None:
    """One after the other or side by side; ``far``: in clusters, of which most are too far by their first numbers."""
    rng = np.random.default_rng(seed)
    metric, is_far = ("l2", True) if metric == "far" else (metric, False)

    def drawn(n: int) -> npt.NDArray[Any]:
        if element == "uint8":
            return rng.integers(0, 256, (n, d)).astype(np.uint8)
        return (rng.normal(size=(n, d)) + (rng.integers(0, 4, (n, 1)) * 20 if is_far else 0)).astype(element)

    vectors, asked = [drawn(n) for n in sizes], drawn(queries)
    vectors[0][0] = np.inf if element != "uint8" else 0
    rows = np.split(rng.permutation(sum(sizes)).astype(np.uint64), np.cumsum(sizes)[:-1])
    masks = [rng.random(n) < 0.6 if rng.random() < 0.4 else None for n in sizes]
    groups = [np.flatnonzero(rng.random(queries) < 0.8) for _ in sizes]
    ends = np.cumsum([0, *map(len, groups)])
    blocks = Blocks([Block(*each) for each in zip(rows, ([one] for one in vectors), strict=True)], masks)
    together, alone = ([Top(count) for _ in range(queries)] for _ in range(2))
    Queries(asked, element, metric).scan_grouped(blocks, ends, np.concatenate(groups), together)
    for query, top in enumerate(alone):
        for number, group in enumerate(groups):
            if query in group:
                data = vectors[number].view(np.uint8).reshape(sizes[number], -1)
                Queries(asked[query][None], element, metric).scan(data, [top], 0, rows[number], masks[number])
    for one, other in zip(together, alone, strict=True):
        assert [found.tolist() for found in one.sorted()] == [found.tolist() for found in other.sorted()]

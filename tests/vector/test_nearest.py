"""The nearest centroids: those that a product of matrices tells, at every level of the processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancelet.index.vector.nearest import Centroids, nearest


def check(rows: int, count: int, width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((rows, width)).astype(np.float32)
    centroids = random.standard_normal((count, width)).astype(np.float32)
    halves = (centroids.astype(np.float64) ** 2).sum(axis=1) / 2
    found, marks = nearest(vectors, Centroids(centroids, halves.astype(np.float32)))
    exact = halves - vectors.astype(np.float64) @ centroids.astype(np.float64).T
    np.testing.assert_allclose(marks, exact.min(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(exact[np.arange(rows), found], exact.min(axis=1), rtol=1e-4, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(1, 100), st.integers(1, 40), st.integers(0, 1000))
def test_the_nearest_is_found(rows: int, count: int, width: int, seed: int) -> None:
    check(rows, count, width, seed)


def test_of_equally_near_ones_the_first_counts() -> None:
    centroids = np.tile(np.array([[1, 0], [0, 1]], np.float32), (40, 1))
    found, _ = nearest(np.array([[0, 1], [1, 0], [0, 0]], np.float32), Centroids(centroids, 0.5))
    assert found.tolist() == [1, 0, 0]


def test_vectors_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers"):
        nearest(np.zeros((3, 4), np.float32), Centroids(np.zeros((2, 5), np.float32), 0.0))


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_every_level_gives_the_same(level: str) -> None:
    script = "from vector.test_nearest import check; [check(n, 3 * n + 1, 2 * n + 1, n) for n in range(1, 30, 4)]"
    folder = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "LANCELET_SIMD": level, "PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)

"""Scalar-quantised codes: every form of the kernels gives the sums that numpy gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancelet.index.vector import sq_scan
from lancelet.index.vector.blocks import Block, Blocks
from lancelet.index.vector.sq_scan import SqQueries, SqQuery
from lancelet.index.vector.top import Top

SIZES = [0, 1, 3, 31, 64, 65, 130]
START, END = -1.5, 2.25


@pytest.fixture(autouse=True, params=[0, 1, 2, 3])
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    before = sq_scan.use_level(request.param)
    yield
    sq_scan.use_level(before)


def squares(query: npt.NDArray[np.uint8], codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """In the steps of the reference: whole numbers, then floats."""
    sums = ((codes.astype(np.int64) - query.astype(np.int64)) ** 2).sum(1)
    scale = (np.float32(END) - np.float32(START)) / np.float32(255)
    return sums.astype(np.float32) * (scale * scale)


@pytest.mark.parametrize("d", [1, 7, 16, 33, 64, 100, 40_000])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_squared_differences_are_exact(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    codes = rng.integers(0, 256, (n, d)).astype(np.uint8)
    codes[0], query = 255, rng.integers(0, 2, d).astype(np.uint8)
    assert SqQuery(query, START, END).distances(codes.reshape(-1)).tolist() == squares(query, codes).tolist()


@pytest.mark.parametrize("d", [1, 7, 16, 33, 100, 1536])
@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_products_are_those_of_decoded_values(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    codes = rng.integers(0, 256, (n, d)).astype(np.uint8)
    query = rng.normal(size=d)
    expected = 1 - (codes * ((END - START) / 255) + START) @ query.astype(np.float32).astype(np.float64)
    found = SqQuery(query.astype(np.float32), START, END).distances(codes.reshape(-1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * (1 + np.abs(query).sum() * 4))


@pytest.mark.parametrize("floats", [False, True])
@settings(max_examples=25)
@given(
    n=st.sampled_from(SIZES),
    d=st.integers(1, 40),
    count=st.integers(1, 30),
    seed=st.integers(0, 1000),
    narrow=st.booleans(),
    masked=st.booleans(),
    named=st.booleans(),
)
def test_a_scan_finds_what_a_sort_finds(
    floats: bool, n: int, d: int, count: int, seed: int, narrow: bool, masked: bool, named: bool
) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3 if narrow else 256, (n, d)).astype(np.uint8)
    query = SqQuery(rng.normal(size=d) if floats else rng.integers(0, 256, d).astype(np.uint8), START, END)
    rows = rng.permutation(n).astype(np.uint64) if named else np.arange(n, dtype=np.uint64) + 9
    keep = rng.random(n) < 0.4 if masked else np.ones(n, bool)
    marks = query.distances(codes.reshape(-1))[keep]
    order = np.lexsort((rows[keep], marks))[:count]
    top = Top(count)
    query.scan(codes.reshape(-1), top, rows if named else None, keep if masked else None, 9)
    found, which = top.sorted()
    assert found.tolist() == marks[order].tolist()
    assert which.tolist() == rows[keep][order].tolist()


@pytest.mark.parametrize("floats", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 5, 63, 64, 65, 200]), min_size=1, max_size=4),
    d=st.one_of(st.integers(1, 130), st.just(9000)),
    count=st.integers(1, 12),
    queries=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_queries_together_find_what_each_finds_alone(
    floats: bool, sizes: list[int], d: int, count: int, queries: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, rng.choice([3, 256]), (n, d)).astype(np.uint8) for n in sizes]
    rows = np.split(rng.permutation(sum(sizes)).astype(np.uint64), np.cumsum(sizes)[:-1])
    masks = [rng.random(n) < 0.6 if rng.random() < 0.5 else None for n in sizes]
    asked = rng.normal(size=(queries, d)).astype(np.float32) if floats else rng.integers(0, 256, (queries, d), np.uint8)
    groups = [np.flatnonzero(rng.random(queries) < 0.7) for _ in sizes]
    ends = np.cumsum([0, *map(len, groups)])
    tops, alone = ([Top(count, upper=1e9) for _ in range(queries)] for _ in range(2))
    blocks = Blocks([Block(*each) for each in zip(rows, ([one] for one in codes), strict=True)], masks)
    SqQueries(asked, START, END).scan_grouped(blocks, ends, np.concatenate(groups), tops)
    for number, group in enumerate(groups):
        for query in group.tolist():
            SqQuery(asked[query], START, END).scan(codes[number].reshape(-1), alone[query], rows[number], masks[number])
    for together, one in zip(tops, alone, strict=True):
        assert [found.tolist() for found in together.sorted()] == [found.tolist() for found in one.sorted()]


def test_groups_that_do_not_fit_are_refused() -> None:
    queries = SqQueries(np.zeros((2, 4), np.uint8), START, END)
    blocks = Blocks([Block(np.arange(3, dtype=np.uint64), [np.zeros((3, 4), np.uint8)])])
    tops = [Top(1), Top(1)]
    with pytest.raises(ValueError, match="each query has a list"):
        queries.scan_grouped(blocks, np.array([0, 1]), np.array([0]), tops[:1])
    for ends, which in (([0, 2], [0]), ([0], []), ([1, 1], [0]), ([0, 1, 1], [0])):
        with pytest.raises(ValueError, match="each block has its queries"):
            queries.scan_grouped(blocks, np.array(ends), np.array(which, np.int64), tops)
    for wrong in (2, -1):
        with pytest.raises(ValueError, match="there is no query"):
            queries.scan_grouped(blocks, np.array([0, 1]), np.array([wrong]), tops)
    narrow = Blocks([Block(np.arange(3, dtype=np.uint64), [np.zeros((3, 3), np.uint8)])])
    with pytest.raises(ValueError, match="bytes for 3 entries of 4 bytes"):
        queries.scan_grouped(narrow, np.array([0, 1]), np.array([0]), tops)
    with pytest.raises(ValueError, match="rows of a matrix"):
        SqQueries(np.zeros(4, np.uint8), START, END)


def test_sizes_that_do_not_fit_are_refused() -> None:
    query = SqQuery(np.zeros(4, np.uint8), START, END)
    with pytest.raises(ValueError, match="41 bytes of codes are no rows of 4 bytes"):
        query.distances(np.zeros(41, np.uint8))
    with pytest.raises(ValueError, match="9 row numbers for 10 rows"):
        query.scan(np.zeros(40, np.uint8), Top(1), np.zeros(9, np.uint64))
    with pytest.raises(ValueError, match="a mask of 11 rows for 10 rows"):
        query.scan(np.zeros(40, np.uint8), Top(1), None, np.zeros(11, bool))
    with pytest.raises(ValueError, match="at least one value"):
        SqQuery(np.zeros(0, np.uint8), START, END)

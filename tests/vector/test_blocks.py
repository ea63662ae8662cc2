"""Several partitions in one call of a kernel: the same rows and distances as one partition after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.index.vector import pq_scan, rabit, sq_scan
from lancelet.index.vector.blocks import Block, Blocks
from lancelet.index.vector.distances import Queries, Ranker
from lancelet.index.vector.flat import KIND as FLAT
from lancelet.index.vector.metric import Metric
from lancelet.index.vector.pq import KIND as PQ
from lancelet.index.vector.query import Quantizer, VectorQuery
from lancelet.index.vector.rq import KIND as RQ
from lancelet.index.vector.sq import KIND as SQ
from lancelet.index.vector.top import Top

D = 64
METRICS = (Metric.L2, Metric.DOT)
LEVELS = (pq_scan, sq_scan, rabit)


def trained(
    kind: Any, metric: Metric, vectors: npt.NDArray[np.float32], centroids: npt.NDArray[np.float32]
) -> Quantizer:
    told = {"num_sub_vectors": 8, "num_bits": 8 if kind is PQ else None, "sample_rate": 1}
    options = {**told, "max_iters": 2, **kind.check(told, metric, np.dtype(np.float32), D)}
    partitions = np.zeros(len(vectors), np.uint32)
    quantizer: Quantizer = kind.train(vectors, partitions, centroids, metric, options, 1)
    return quantizer


def drawn(seed: int, sizes: list[int]) -> tuple[npt.NDArray[np.float32], list[npt.NDArray[np.float32]]]:
    """Centroids, and the vectors around each."""
    rng = np.random.default_rng(seed)
    centroids = rng.standard_normal((len(sizes), D), dtype=np.float32)
    spread = np.float32(rng.choice([0.05, 1.0]))
    return centroids, [
        c + spread * rng.standard_normal((n, D), dtype=np.float32) for c, n in zip(centroids, sizes, strict=True)
    ]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", [FLAT, PQ, SQ, RQ], ids=["FLAT", "PQ", "SQ", "RQ"])
@settings(max_examples=examples(12))
@given(
    seed=st.integers(0, 1 << 20),
    sizes=st.lists(st.integers(0, 150), min_size=1, max_size=5),
    count=st.integers(1, 20),
    masked=st.sets(st.integers(0, 4)),
    upper=st.none() | st.floats(0, 200, width=32),
    level=st.integers(0, 3),
)
def test_blocks_are_scanned_as_their_partitions_one_by_one(
    kind: Any,
    metric: Metric,
    seed: int,
    sizes: list[int],
    count: int,
    masked: set[int],
    upper: float | None,
    level: int,
) -> None:
    centroids, groups = drawn(seed, sizes)
    rng = np.random.default_rng(seed)
    everything = np.concatenate([*groups, rng.standard_normal((300, D), dtype=np.float32)])
    quantizer = trained(kind, metric, everything, centroids)
    rows = np.split(rng.permutation(10 * sum(sizes))[: sum(sizes)].astype(np.uint64), np.cumsum(sizes)[:-1])
    stored = [
        quantizer.lay_out(quantizer.encode(vectors, np.full(len(vectors), at, np.uint32), centroids))
        for at, vectors in enumerate(groups)
    ]
    masks = [rng.random(size) < 0.5 if at in masked else None for at, size in enumerate(sizes)]
    query = VectorQuery(rng.standard_normal(D).astype(np.float32), count)
    before = [module.use_level(level) for module in LEVELS]
    try:
        prepared = quantizer.prepare(query, metric)
        one_by_one, together = Top(count, None, upper), Top(count, None, upper)
        for at, size in enumerate(sizes):
            if size:
                prepared.scan(stored[at], rows[at], centroids[at], one_by_one, masks[at])
        blocks = [Block(rows[at], quantizer.as_scanned(stored[at])) for at in range(len(sizes))]
        prepared.scan_blocks(Blocks(blocks, masks), centroids, together)
    finally:
        for module, usual in zip(LEVELS, before, strict=True):
            module.use_level(usual)
    for found, expected in zip(together.sorted(), one_by_one.sorted(), strict=True):
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("element", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dimension", [1, 63, 64, 100, 260])
def test_vectors_that_are_far_by_their_first_numbers_are_the_far_ones(dimension: int, element: str) -> None:
    """Whatever is passed over without a look at all of it would not have been among the nearest."""
    rng = np.random.default_rng(dimension)
    near = rng.standard_normal((1, dimension)) + 0.1 * rng.standard_normal((40, dimension))
    far = rng.standard_normal((700, dimension)) * rng.choice([0.5, 3], (700, 1))
    far[7, 0], far[8, 0], far[9, 0] = np.nan, np.inf, np.inf
    with np.errstate(over="ignore"):
        vectors = rng.permutation(np.concatenate([far, near, near])).astype(element)
    rows = np.arange(len(vectors), dtype=np.uint64)[::-1].copy()
    queries = Queries(near[:1], element, "l2")
    for count in (1, 10, 100, 2000):
        top, expected = Top(count), Top(count)
        queries.scan_blocks(
            Blocks([Block(rows[at : at + 200], [vectors[at : at + 200]]) for at in range(0, 780, 200)]), top
        )
        expected.add(queries.distances(vectors.view(np.uint8))[0], rows)
        for found, wanted in zip(top.sorted(), expected.sorted(), strict=True):
            assert found.tolist() == wanted.tolist()
        keep = np.arange(len(vectors)) % 3 > 0
        for first, numbers in ((5, None), (0, rows)):
            alone, kept = Top(count), Top(count)
            known = np.arange(first, first + len(vectors), dtype=np.uint64) if numbers is None else numbers
            assert queries.scan(vectors.view(np.uint8), [alone], first, numbers, keep) == keep.sum()
            kept.add(queries.distances(vectors[keep].view(np.uint8))[0], known[keep])
            for found, wanted in zip(alone.sorted(), kept.sorted(), strict=True):
                assert found.tolist() == wanted.tolist()


@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 1 << 20),
    sizes=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    asked=st.lists(st.sets(st.integers(0, 13)), min_size=5, max_size=5),
    metric=st.sampled_from(["l2", "dot", "cosine"]),
)
def test_each_query_looks_at_the_blocks_that_are_its(
    seed: int, sizes: list[int], asked: list[set[int]], metric: str
) -> None:
    _, groups = drawn(seed, sizes)
    rng = np.random.default_rng(seed)
    queries = rng.standard_normal((14, D), dtype=np.float32)
    rows = np.split(np.arange(sum(sizes), dtype=np.uint64), np.cumsum(sizes)[:-1])
    lists = [sorted(asked[at]) for at in range(len(sizes))]
    ends = np.cumsum([0, *map(len, lists)])
    tops, expected = [Top(5) for _ in queries], [Top(5) for _ in queries]
    held = Queries(queries, "float32", metric)
    blocks = Blocks([Block(r, [v]) for r, v in zip(rows, groups, strict=True)])
    held.scan_grouped(blocks, ends, np.array([q for own in lists for q in own], np.int64), tops)
    for own, numbers, vectors in zip(lists, rows, groups, strict=True):
        marks = held.distances(vectors.view(np.uint8))
        for number in own:
            expected[number].add(marks[number], numbers)
    for found, wanted in zip(tops, expected, strict=True):
        np.testing.assert_allclose(found.sorted()[0], wanted.sorted()[0], rtol=1e-5, atol=1e-5)
        assert found.sorted()[1].tolist() == wanted.sorted()[1].tolist()


@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_vectors_are_ranked_by_distance_then_number(metric: str) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.integers(-1, 2, (500, 4)).astype(np.float32)
    order, marks = Ranker(vectors, "float32", metric).rank(vectors[0])
    all_marks = Queries(vectors[:1], "float32", metric).distances(vectors.view(np.uint8))[0]
    assert order.tolist() == np.argsort(all_marks, kind="stable").tolist()
    assert marks.tolist() == all_marks[order].tolist()


def test_vectors_of_all_types_are_ranked_and_no_number_comes_last() -> None:
    rng = np.random.default_rng(4)
    for dtype in (np.float16, np.float32, np.float64):
        vectors = rng.standard_normal((70, 33)).astype(dtype)
        vectors[5] = np.nan
        order, marks = Ranker(vectors, np.dtype(dtype).name, "l2").rank(vectors[3])
        assert (order[0], order[-1], sorted(order.tolist())) == (3, 5, list(range(70)))
        assert marks[0] == 0
        assert (np.diff(marks[:-1]) >= 0).all()
        assert np.isnan(marks[-1])
    bits = rng.integers(0, 256, (9, 4)).astype(np.uint8)
    assert Ranker(bits, "uint8", "hamming").rank(bits[7])[0][0] == 7
    assert [len(part) for part in Ranker(bits[:0], "uint8", "hamming").rank(bits[7])] == [0, 0]


def test_vectors_are_compared_wherever_they_lie() -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((300, 24)).astype(np.float32)
    data = np.frombuffer(b"abc" + vectors.tobytes() + b"d", np.uint8)
    chosen = rng.permutation(300)[:170]
    found, wanted = Top(20), Top(20)
    queries = Queries(vectors[:1], "float32", "l2")
    queries.scan_at(data, 3 + chosen * queries.width, found, chosen.astype(np.uint64))
    wanted.add(queries.distances(vectors[chosen].view(np.uint8))[0], chosen.astype(np.uint64))
    for one, other in zip(found.sorted(), wanted.sorted(), strict=True):
        assert one.tolist() == other.tolist()


def refused(act: Callable[[], object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        act()


def test_sizes_that_do_not_fit_are_refused_before_anything_is_read() -> None:
    rows, codes = np.arange(3, dtype=np.uint64), np.zeros((3, 8), np.uint8)
    block = Block(rows, [codes])
    refused(lambda: Block(rows, [codes[:2]]), "2 entries for 3 rows")
    refused(lambda: Block(rows, [codes] * 9), "9 columns")
    refused(lambda: Blocks([block], []), "0 masks for 1 blocks")
    refused(lambda: Blocks([block], [np.ones(2, np.bool_)]), "a mask of 2 rows for 3 rows")
    words = np.zeros((4, 2, 256), np.float32)
    query = np.zeros((1, 8), np.float32)
    refused(
        lambda: pq_scan.scan_blocks(query, words, False, True, Blocks([block]), Top(1)), "24 bytes for 3 entries of 4"
    )
    refused(
        lambda: pq_scan.scan_blocks(query[:, :7].copy(), words, False, True, Blocks([block]), Top(1)), "7 dimensions"
    )
    refused(
        lambda: pq_scan.scan_blocks(np.zeros((3, 8), np.float32), words, False, True, Blocks([block]), Top(1)),
        "3 queries for 1 blocks",
    )
    refused(
        lambda: sq_scan.SqQuery(np.zeros(7, np.uint8), 0, 1).scan_blocks(Blocks([block]), Top(1)), "entries of 7 bytes"
    )
    signs = rabit.RabitQuery(np.zeros(64, np.float32), 0)
    lines = np.zeros((1, 3), np.float32)
    refused(lambda: signs.scan_blocks(Blocks([block]), lines, False, Top(1)), "column 1 has 0 bytes")
    refused(lambda: signs.scan_blocks(Blocks([block]), lines[:0], False, Top(1)), "for 1 blocks")
    flat = Queries(np.zeros((2, 2), np.float32), "float32", "l2")
    tops = [Top(1), Top(1)]
    refused(lambda: flat.scan_blocks(Blocks([block]), Top(1)), "2 queries for one list")
    refused(lambda: flat.scan_grouped(Blocks([block]), np.array([0, 2]), np.array([0, 2]), tops), "no query 2")
    refused(lambda: flat.scan_grouped(Blocks([block]), np.array([0, 1]), np.array([0, 1]), tops), "its queries")
    narrow = Queries(np.zeros((1, 3), np.float32), "float32", "l2")
    places = np.array([0, 13])
    refused(lambda: narrow.scan_at(codes.reshape(-1), places, Top(1), rows[:2]), "12 bytes at 13 of 24 bytes")
    refused(lambda: narrow.scan_at(codes.reshape(-1), places - 1, Top(1), rows[:2]), "at -1 of")
    refused(lambda: narrow.scan_at(codes.reshape(-1), places, Top(1), rows), "a number for each row")
    refused(lambda: flat.scan_at(codes.reshape(-1), places, Top(1), rows[:2]), "2 queries for one list")
    refused(lambda: Ranker(np.zeros((2, 3)), "float32", "l2"), "are not of float32")
    refused(lambda: Ranker(np.zeros((2, 3)), "float64", "cosine"), "not ranked by cosine")
    refused(lambda: Ranker(np.zeros((2, 3)), "float64", "l2").rank(np.zeros(4)), "4 numbers")
    refused(lambda: narrow.scan_blocks(Blocks([block]), Top(1)), "entries of 12 bytes")
    with pytest.raises(IndexError):
        Blocks([block])[1]

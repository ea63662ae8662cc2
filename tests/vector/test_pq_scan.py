"""Product-quantised codes: every form of the kernels gives the sums that numpy gives, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancelet.index.vector import pq_scan
from lancelet.index.vector.top import Top

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint8]
SIZES = [0, 1, 31, 32, 63, 64, 65, 130, 700]


@pytest.fixture(autouse=True, params=[0, 1, 2, 3])
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    before = pq_scan.use_level(request.param)
    yield
    pq_scan.use_level(before)


def random_codes(rng: np.random.Generator, n: int, m: int, bits: int) -> tuple[Codes, Codes]:
    """The codes of rows, one a column, and as they are stored row by row."""
    codes = rng.integers(0, 1 << bits, (n, m)).astype(np.uint8)
    return codes, codes if bits == 8 else codes[:, ::2] | codes[:, 1::2] << 4


def stored(codes: Codes, transposed: bool) -> Codes:
    return np.ascontiguousarray(codes.T if transposed else codes).reshape(-1)


def sums(table: Floats, codes: Codes, bits: int) -> Floats:
    """In the order in which the reference adds."""
    found = np.zeros(len(codes), np.float32)
    entries = [table[j, codes[:, j]] for j in range(table.shape[0])]
    if bits == 4:
        entries = [first + second for first, second in zip(entries[::2], entries[1::2], strict=True)]
    for entry in entries:
        found += entry
    return found


def nearest(marks: Floats, rows: npt.NDArray[np.uint64], count: int) -> list[tuple[float, int]]:
    order = np.lexsort((rows, marks))[:count]
    return list(zip(marks[order].tolist(), rows[order].tolist(), strict=True))


def answer(top: Top) -> list[tuple[float, int]]:
    marks, rows = top.sorted()
    return list(zip(marks.tolist(), rows.tolist(), strict=True))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_all_distances_are_the_sums_of_table_entries(n: int, transposed: bool, bits: int) -> None:
    rng = np.random.default_rng(n)
    for m in (2, 6, 34) if bits == 4 else (1, 7, 32):
        table = rng.normal(size=(m, 1 << bits)).astype(np.float32)
        codes, packed = random_codes(rng, n, m, bits)
        found = pq_scan.distances(table, stored(packed, transposed), transposed, -3.0)
        assert found.tolist() == (sums(table, codes, bits) - np.float32(3)).tolist()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("transposed", [False, True])
@settings(max_examples=25)
@given(
    n=st.sampled_from(SIZES),
    m=st.integers(1, 20),
    count=st.integers(1, 40),
    seed=st.integers(0, 1000),
    ties=st.booleans(),
    masked=st.booleans(),
    named=st.booleans(),
    offset=st.sampled_from([0.0, -19.0, 1000.0]),
)
def test_a_scan_finds_what_a_sort_finds(
    transposed: bool,
    bits: int,
    n: int,
    m: int,
    count: int,
    seed: int,
    ties: bool,
    masked: bool,
    named: bool,
    offset: float,
) -> None:
    rng = np.random.default_rng(seed)
    m *= 2 if bits == 4 else 1
    table = rng.normal(size=(m, 1 << bits)).astype(np.float32)
    if ties:
        table = np.round(table)
    codes, packed = random_codes(rng, n, m, bits)
    rows = rng.permutation(n).astype(np.uint64) if named else np.arange(n, dtype=np.uint64) + 77
    keep = rng.random(n) < 0.4 if masked else np.ones(n, bool)
    marks = sums(table, codes, bits) + np.float32(offset)
    expected = nearest(marks[keep], rows[keep], count)
    top = Top(count)
    pq_scan.scan(
        table,
        stored(packed, transposed),
        transposed,
        top,
        rows if named else None,
        keep if masked else None,
        77,
        offset,
    )
    assert answer(top) == expected


@pytest.mark.parametrize("bits", [4, 8])
def test_partitions_scanned_one_after_the_other_fill_one_answer(bits: int) -> None:
    rng = np.random.default_rng(3)
    m, everything, names = 16, [], []
    top = Top(10)
    for part in range(12):
        table = (rng.normal(size=(m, 1 << bits)) ** 2 * rng.uniform(0.5, 4)).astype(np.float32)
        codes, packed = random_codes(rng, 1000, m, bits)
        pq_scan.scan(table, stored(packed, True), True, top, first=part * 1000)
        everything.append(sums(table, codes, bits))
        names.append(np.arange(part * 1000, part * 1000 + 1000, dtype=np.uint64))
    assert answer(top) == nearest(np.concatenate(everything), np.concatenate(names), 10)


@pytest.mark.parametrize("bits", [4, 8])
def test_a_range_of_distances_is_searched_for_its_nearest_rows(bits: int) -> None:
    rng = np.random.default_rng(4)
    table = rng.random((8, 1 << bits), np.float32)
    codes, packed = random_codes(rng, 3000, 8, bits)
    marks = sums(table, codes, bits)
    inside = (marks >= 3) & (marks < np.float32(3.2))
    top = Top(20, 3.0, np.float32(3.2))
    pq_scan.scan(table, stored(packed, True), True, top)
    assert answer(top) == nearest(marks[inside], np.arange(3000, dtype=np.uint64)[inside], 20)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 3e38, 0.0])
@pytest.mark.parametrize("bits", [4, 8])
def test_tables_of_odd_numbers_are_added_up_as_they_are(bits: int, odd: float) -> None:
    rng = np.random.default_rng(5)
    table = rng.random((4, 1 << bits), np.float32)
    table[:2, 3:9] = odd
    if odd == 0:
        table[:] = 0
    codes, packed = random_codes(rng, 500, 4, bits)
    with np.errstate(over="ignore", invalid="ignore"):
        marks = sums(table, codes, bits)
    real = ~np.isnan(marks)
    top = Top(5)
    pq_scan.scan(table, stored(packed, True), True, top)
    assert answer(top) == nearest(marks[real], np.arange(500, dtype=np.uint64)[real], 5)


def test_many_sub_vectors_do_not_overflow_the_bounds() -> None:
    rng = np.random.default_rng(6)
    table = rng.random((600, 256), np.float32)
    codes, packed = random_codes(rng, 400, 600, 8)
    top = Top(5)
    pq_scan.scan(table, stored(packed, True), True, top)
    assert answer(top) == nearest(sums(table, codes, 8), np.arange(400, dtype=np.uint64), 5)


@pytest.mark.parametrize("count", [16, 256])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 12, 16, 24, 40])
def test_tables_hold_squared_differences_or_products(width: int, count: int) -> None:
    rng = np.random.default_rng(width)
    words = rng.normal(size=(4, width, count)).astype(np.float32)
    query = rng.normal(size=4 * width).astype(np.float32)
    parts = query.reshape(4, width, 1).astype(np.float64)
    np.testing.assert_allclose(
        pq_scan.distance_table(query, words, False), ((parts - words) ** 2).sum(1), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose(
        pq_scan.distance_table(query, words, True), 1 - (parts * words).sum(1), rtol=1e-6, atol=2e-6
    )


def test_tables_are_the_same_to_the_bit_at_every_level() -> None:
    rng = np.random.default_rng(1)
    for width in (3, 8, 16, 20):
        words = rng.normal(size=(2, width, 256)).astype(np.float32)
        query = rng.normal(size=2 * width).astype(np.float32)
        for dot in (False, True):
            here = pq_scan.distance_table(query, words, dot)
            level = pq_scan.use_level(0)
            assert here.tolist() == pq_scan.distance_table(query, words, dot).tolist()
            pq_scan.use_level(level)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("n", [0, 1, 3, 64, 65, 200])
def test_codes_are_the_nearest_codewords(n: int, bits: int) -> None:
    rng = np.random.default_rng(n)
    for m, width in ((2, 1), (6, 5), (4, 8)):
        words = rng.normal(size=(m, width, 1 << bits)).astype(np.float32)
        words[0, :, 7] = words[0, :, 2]
        vectors = rng.normal(size=(n, m * width)).astype(np.float32)
        vectors[: n // 3, :width] = words[0, :, 7]
        parts = vectors.reshape(n, m, width, 1).astype(np.float64)
        expected = ((parts - words[None].astype(np.float64)) ** 2).sum(2).argmin(2).astype(np.uint8)
        if bits == 4:
            expected = expected[:, ::2] | expected[:, 1::2] << 4
        assert pq_scan.encode(vectors, words).tolist() == expected.tolist()


def test_sizes_that_do_not_fit_are_refused() -> None:
    table = np.zeros((4, 256), np.float32)
    codes = np.zeros(40, np.uint8)
    with pytest.raises(ValueError, match="41 bytes of codes are no rows of 4 bytes"):
        pq_scan.scan(table, np.zeros(41, np.uint8), True, Top(1))
    with pytest.raises(ValueError, match="9 row numbers for 10 rows"):
        pq_scan.scan(table, codes, True, Top(1), np.zeros(9, np.uint64))
    with pytest.raises(ValueError, match="a mask of 11 rows for 10 rows"):
        pq_scan.scan(table, codes, True, Top(1), None, np.zeros(11, bool))
    with pytest.raises(ValueError, match="16 or 256 are expected"):
        pq_scan.distances(np.zeros((4, 255), np.float32), codes, True)
    with pytest.raises(ValueError, match="an even number is expected"):
        pq_scan.distances(np.zeros((3, 16), np.float32), codes, True)
    with pytest.raises(ValueError, match="a query of 7 dimensions"):
        pq_scan.distance_table(np.zeros(7, np.float32), np.zeros((2, 4, 16), np.float32), False)
    with pytest.raises(ValueError, match="vectors of 9 dimensions"):
        pq_scan.encode(np.zeros((1, 9), np.float32), np.zeros((2, 4, 16), np.float32))

"""RaBitQ: rotations, layouts and scans, every form of the kernels beside plain numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lancelet.index.vector import rabit, rq_layout
from lancelet.index.vector.rabit import RabitQuery
from lancelet.index.vector.top import Top

SIZES = [0, 1, 31, 32, 33, 63, 64, 65, 200]


@pytest.fixture(params=[0, 1, 2, 3])
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    before = rabit.use_level(request.param)
    yield
    rabit.use_level(before)


def hadamard(size: int) -> npt.NDArray[np.float64]:
    found = np.ones((1, 1))
    while len(found) < size:
        found = np.block([[found, found], [found, -found]])
    return found / np.sqrt(size)


def turned(rows: npt.NDArray, flips: npt.NDArray) -> npt.NDArray[np.float64]:
    """The fast rotation, as the specification tells it."""
    found, d = rows.astype(np.float64), rows.shape[1]
    power = 1 << d.bit_length() - 1
    for turn in range(4):
        found = found * flips[turn]
        part = slice(d - power, d) if turn % 2 else slice(0, power)
        found[:, part] = found[:, part] @ hadamard(power)
        if power != d:
            left, right = found[:, : d // 2].copy(), found[:, d // 2 :].copy()
            found[:, : d // 2], found[:, d // 2 :] = left + right, left - right
    return found if power == d else found / 4


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("d", [8, 16, 24, 64, 104, 200])
@pytest.mark.parametrize("n", [0, 1, 15, 17])
def test_the_fast_rotation_is_the_one_of_the_specification(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(n, d)).astype(np.float32)
    flips = rng.choice([-1, 1], (4, d)).astype(np.float32)
    found = rows.copy()
    rabit.rotate(found, flips)
    np.testing.assert_allclose(found, turned(rows, flips), atol=2e-5)
    np.testing.assert_allclose((found**2).sum(1), (rows**2).sum(1), rtol=1e-5)


@settings(max_examples=30)
@given(count=st.integers(0, 100), width=st.integers(1, 9), seed=st.integers(0, 99))
def test_signs_are_packed_as_drawn_and_come_back(count: int, width: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 256, (count, width)).astype(np.uint8)
    packed = rq_layout.pack_signs(codes)
    assert rq_layout.unpack_signs(packed).tolist() == codes.tolist()
    flat, order = packed.reshape(-1), [row for pair in zip(range(8), range(8, 16), strict=True) for row in pair]
    for batch in range(count // 32):
        rows = codes[batch * 32 : batch * 32 + 32]
        for j in range(width):
            piece = flat[(batch * width + j) * 32 :][:32]
            for t, row in enumerate(order):
                assert piece[t] == rows[row, j] & 15 | (rows[row + 16, j] & 15) << 4
                assert piece[16 + t] == rows[row, j] >> 4 | (rows[row + 16, j] >> 4) << 4
    rest = count % 32
    assert flat[len(flat) - rest * width :].tolist() == codes[count - rest :].T.reshape(-1).tolist()


def number_at(block: npt.NDArray, bits: int, place: int) -> int:
    """One number of a block of 64, read bit by bit out of the drawing."""
    k, b = place // 16, place % 16
    top = int(block[-8 + b % 8]) >> 2 * k + b // 8 & 1
    if bits == 1:
        return int(block[place // 8]) >> place % 8 & 1
    if bits in (2, 3):
        return int(block[b]) >> 2 * k & 3 | (top << 2 if bits == 3 else 0)
    if bits == 4:
        return int(block[8 * k + b % 8]) >> (4 if b >= 8 else 0) & 15
    if bits == 5:
        return int(block[16 * (k // 2) + b]) >> 4 * (k % 2) & 15 | top << 4
    if bits in (6, 7):
        low = int(block[16 * k + b]) & 63 if k < 3 else sum((int(block[16 * i + b]) >> 6) << 2 * i for i in range(3))
        return low | (top << 6 if bits == 7 else 0)
    return int(block[place])


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("d", [8, 64, 104])
def test_extra_codes_are_packed_as_drawn_and_come_back(d: int, bits: int) -> None:
    codes = np.random.default_rng(d).integers(0, 1 << bits, (5, d)).astype(np.uint8)
    packed = rq_layout.pack_extra(codes, bits)
    assert packed.shape == (5, rq_layout.extra_width(d, bits))
    assert rq_layout.unpack_extra(packed, bits, d).tolist() == codes.tolist()
    blocks = packed.reshape(5, -1, 8 * bits)
    for row in range(5):
        assert [number_at(blocks[row, i // 64], bits, i % 64) for i in range(d)] == codes[row].tolist()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", range(1, 9))
def test_extra_codes_point_where_the_vectors_do(bits: int) -> None:
    rng = np.random.default_rng(bits)
    rows = rng.normal(size=(40, 72)).astype(np.float32)
    rows[0], rows[1, 1:], rows[2] = 0, 0, 1e-3
    codes = rabit.extra_codes(rows, bits)
    assert codes.max() < 1 << bits
    numbers = np.where(np.signbit(rows), codes.astype(int) ^ (1 << bits) - 1, codes)
    size = np.abs(rows[2:]).astype(np.float64)
    found = cosine(numbers[2:] + 0.5, size)
    # Little is lost to the best of many scales.
    scales = np.geomspace(0.02, 1.5, 300)[:, None, None] * (1 << bits) / size.std(1)[:, None].clip(1e-4)
    best = cosine(np.minimum(np.floor(scales * size), (1 << bits) - 1) + 0.5, size).max(0)
    assert ((1 - found) <= 1.2 * (1 - best) + 1e-6).all()
    assert (1 - found).mean() <= 1.01 * (1 - best).mean() + 1e-6


def cosine(one: npt.NDArray, other: npt.NDArray) -> npt.NDArray:
    return (one * other).sum(-1) / np.sqrt((one**2).sum(-1) * (other**2).sum(-1))


def partition(rng: np.random.Generator, n: int, d: int, bits: int) -> tuple[npt.NDArray, list]:
    """Whole codes as numbers, and a partition as it is stored."""
    signs = rng.integers(0, 2, (n, d)).astype(np.uint8)
    extra = rng.integers(0, 1 << bits, (n, d)).astype(np.uint8)
    add, scale = rng.normal(size=n).astype(np.float32), -rng.random(n, np.float32)
    packed = rq_layout.pack_signs(np.packbits(signs, axis=1, bitorder="little")).reshape(-1)
    whole = signs * float(1 << bits) + extra - ((1 << bits) - 0.5)
    return whole, [packed, add, scale, rq_layout.pack_extra(extra, bits).reshape(-1) if bits else None]


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", range(9))
@pytest.mark.parametrize("d", [8, 64, 136])
def test_distances_are_those_of_the_formula(d: int, bits: int) -> None:
    rng = np.random.default_rng(d + bits)
    query = rng.normal(size=d).astype(np.float32)
    for n in SIZES:
        whole, stored = partition(rng, n, d, bits)
        found = RabitQuery(query, bits).distances(*stored, 1.5, 7.0)
        expected = 1.5 * stored[1] + stored[2] * (whole @ query) + 7
        np.testing.assert_allclose(found, expected, rtol=0, atol=4e-6 * (1 << bits) * np.abs(query).sum() + 1e-5)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", range(9))
@settings(max_examples=12)
@given(
    n=st.sampled_from(SIZES),
    d=st.sampled_from([8, 40, 64, 72, 200]),
    count=st.integers(1, 40),
    seed=st.integers(0, 1000),
    positive=st.booleans(),
    masked=st.booleans(),
    named=st.booleans(),
)
def test_a_scan_finds_what_a_sort_finds(
    bits: int, n: int, d: int, count: int, seed: int, positive: bool, masked: bool, named: bool
) -> None:
    rng = np.random.default_rng(seed)
    _, stored = partition(rng, n, d, bits)
    if positive:
        stored[2] = np.abs(stored[2])
    query = RabitQuery(rng.normal(size=d).astype(np.float32), bits)
    rows = rng.permutation(n).astype(np.uint64) if named else np.arange(n, dtype=np.uint64) + 9
    keep = rng.random(n) < 0.4 if masked else np.ones(n, bool)
    marks = query.distances(*stored, 1.5, 7.0)[keep]
    order = np.lexsort((rows[keep], marks))[:count]
    top = Top(count)
    query.scan(*stored, 1.5, 7.0, top, rows if named else None, keep if masked else None, 9)
    found, which = top.sorted()
    assert found.tolist() == marks[order].tolist()
    assert which.tolist() == rows[keep][order].tolist()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bits", [1, 4, 7])
def test_rows_are_left_out_by_their_signs_only_beyond_the_reach_of_errors(bits: int) -> None:
    rng = np.random.default_rng(bits)
    _, stored = partition(rng, 1000, 64, bits)
    query = rng.normal(size=64).astype(np.float32)
    whole, signs = RabitQuery(query, bits), RabitQuery(query, 0)
    # Factors for signs that estimate the distance of whole codes, and how far each of them is off.
    marks, scale = whole.distances(*stored, 1.0, 3.0), rng.normal(size=1000).astype(np.float32)
    off = (rng.normal(size=1000) * marks.std()).astype(np.float32)
    add = marks + off - signs.distances(stored[0], np.zeros(1000, np.float32), scale, None, 1.0, 0.0) - 3
    for reach, exact in ((1.001, True), (0.0, False)):
        top = Top(20)
        whole.scan(*stored, 1.0, 3.0, top, None, None, 0, add, scale, np.maximum(off, 1e-3), reach)
        assert (top.sorted()[0].tolist() == np.sort(marks)[:20].tolist()) is exact


@pytest.mark.usefixtures("level")
def test_numbers_that_are_none_are_not_near_anything() -> None:
    rng = np.random.default_rng(1)
    _, stored = partition(rng, 100, 16, 4)
    stored[1][:50], stored[2][50:60] = np.nan, np.inf
    query = RabitQuery(rng.normal(size=16).astype(np.float32), 4)
    marks = query.distances(*stored, 1.0, 0.0)
    top = Top(5)
    query.scan(*stored, 1.0, 0.0, top)
    assert top.sorted()[0].tolist() == np.sort(marks[~np.isnan(marks)])[:5].tolist()


@pytest.mark.usefixtures("level")
def test_sizes_that_do_not_fit_are_refused() -> None:
    query = RabitQuery(np.ones(16, np.float32), 4)
    _, (signs, add, scale, extra) = partition(np.random.default_rng(0), 10, 16, 4)
    with pytest.raises(ValueError, match="21 bytes of signs are no rows of 2 bytes"):
        query.distances(np.zeros(21, np.uint8), add, scale, extra, 1, 0)
    with pytest.raises(ValueError, match="9 and 10 factors for 10 rows"):
        query.distances(signs, add[:9], scale, extra, 1, 0)
    with pytest.raises(ValueError, match="319 bytes of extra codes for 10 rows of 32 bytes"):
        query.scan(signs, add, scale, extra[:-1], 1, 0, Top(1))
    with pytest.raises(ValueError, match="0 bytes of extra codes"):
        query.scan(signs, add, scale, None, 1, 0, Top(1))
    with pytest.raises(ValueError, match="9 row numbers for 10 rows"):
        query.scan(signs, add, scale, extra, 1, 0, Top(1), np.zeros(9, np.uint64))
    with pytest.raises(ValueError, match="a mask of 11 rows"):
        query.scan(signs, add, scale, extra, 1, 0, Top(1), None, np.zeros(11, bool))
    for wrong in ((add[:9], scale, add), (None, scale, add), (add, scale[1:], add), (add, scale, add[:3])):
        with pytest.raises(ValueError, match="not those of 10 rows"):
            query.scan(signs, add, scale, extra, 1, 0, Top(1), None, None, 0, *wrong, 1.0)
    with pytest.raises(ValueError, match="extra bits"):
        RabitQuery(np.ones(16, np.float32), 9)
    with pytest.raises(ValueError, match="four rounds of 16 signs"):
        rabit.rotate(np.ones((2, 16), np.float32), np.ones((3, 16), np.float32))
    with pytest.raises(ValueError, match="1 to 8 extra bits"):
        rabit.extra_codes(np.ones((2, 16), np.float32), 0)

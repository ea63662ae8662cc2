"""Roaring bitmaps: all container kinds, and nothing but our errors for bad bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancelet.errors import CorruptFile
from lancelet.table.rows.roaring import decode_roaring

SETS = st.lists(
    st.one_of(
        st.integers(0, 2**32 - 1).map(lambda value: (value, value + 1)),
        st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 70_000)).map(lambda pair: (pair[0], sum(pair))),
        st.tuples(st.integers(0, 2**20), st.integers(1, 200_000)).map(lambda pair: (pair[0], sum(pair))),
    ),
    max_size=8,
)


@given(SETS, st.booleans(), st.integers(1, 7))
def test_every_container_kind(ranges: list[tuple[int, int]], runs: bool, step: int) -> None:
    bitmap = BitMap()
    for start, stop in ranges:
        bitmap |= BitMap(range(start, min(stop, 2**32), step))
    if runs:
        bitmap.run_optimize()
    values = decode_roaring(bitmap.serialize(), "file", "place")
    assert values.dtype == np.uint32
    assert np.array_equal(values, np.array(bitmap.to_array(), np.uint32))


def test_the_empty_set() -> None:
    assert len(decode_roaring(bytes.fromhex("3a30000000000000"), "file", "place")) == 0


@given(SETS, st.booleans(), st.randoms(use_true_random=False))
def test_changed_bytes_give_values_or_corruption(
    ranges: list[tuple[int, int]], runs: bool, random: st.random_module
) -> None:
    bitmap = BitMap()
    for start, stop in ranges:
        bitmap |= BitMap(range(start, min(stop, 2**32), 3))
    if runs:
        bitmap.run_optimize()
    data = bytearray(bitmap.serialize())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    cut = random.randrange(len(data) + 1) if random.random() < 0.3 else len(data)
    try:
        values = decode_roaring(bytes(data[:cut]), "file", "place")
    except CorruptFile:
        return
    assert np.all(np.diff(values.astype(np.int64)) > 0)


@pytest.mark.parametrize(
    "data, reason",
    [
        ("", "ends after 0 bytes"),
        ("00000000", "starts with 0"),
        ("3a300000ffffffff", "claims 4294967295 containers"),
        ("3a300000010000000000ff0f", "ends after"),
        ("3a30000000000000ff", "1 bytes too many"),
        ("3a300000010000000000010010000000" + "0500" + "0500", "ascending"),
        ("3b300000" + "01" + "00000100" + "0100" + "ffff0100", "does not hold 2"),
    ],
)
def test_reasons(data: str, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        decode_roaring(bytes.fromhex(data), "file", "place")


def test_a_limit_stops_large_sets_before_they_are_built() -> None:
    bitmap = BitMap(range(2**26))
    bitmap.run_optimize()
    data = bitmap.serialize()
    assert len(data) < 20_000
    with pytest.raises(CorruptFile, match="at most 100 are possible"):
        decode_roaring(data, "file", "place", limit=100)

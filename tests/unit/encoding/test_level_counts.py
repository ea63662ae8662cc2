"""Counts of levels beside numpy's, also where there are more than are counted at once."""

from __future__ import annotations

import numpy as np
import pytest

from lancelet.encoding.kernels import levels

SIZES = (0, 1, 7, 32_767, 32_768, 32_769, 100_003)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("most", [1, 3, 65_535])
def test_levels_are_counted_as_by_numpy(size: int, most: int) -> None:
    rng = np.random.default_rng(size + most)
    defs = rng.integers(0, most, size, np.uint16, endpoint=True)
    for limit in {0, 1, most // 2, most}:
        count = int((defs <= limit).sum())
        assert levels.count_visible(defs, limit) == count
        for slots in {limit, most}:
            assert levels.count_slots(defs, limit, slots) == ((defs <= slots).sum(), (defs <= slots).sum() - count)
        at = np.sort(rng.integers(0, size + 10, 50))
        out = np.empty(len(at), np.int64)
        levels.visible_before(defs, limit, at, out)
        assert out.tolist() == [int((defs[:place] <= limit).sum()) for place in at]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("most", [1, 2, 9])
def test_starts_are_found_as_by_numpy(size: int, most: int) -> None:
    rng = np.random.default_rng(size * most)
    reps = rng.integers(0, most, size, np.uint16, endpoint=True)
    places = np.flatnonzero(reps == most).tolist()
    numbers = {0, 1, len(places) // 2, max(len(places) - 1, 0), len(places), len(places) + 5}
    for first in numbers:
        for second in numbers:
            expected = [places[number] if number < len(places) else size for number in (first, second)]
            assert levels.find_starts(reps, most, first, second) == (len(places), *expected)


@pytest.mark.parametrize("table", [[0, 1, 2, 3], [0, 2, 1, 7], [5]])
def test_levels_are_renumbered_unless_one_has_no_place(table: list[int]) -> None:
    defs = np.random.default_rng(1).integers(0, 4, 1000, np.uint16)
    known = defs.copy()
    fits = levels.renumber(defs, np.array(table, np.uint16))
    assert fits == (len(table) == 4)
    assert defs.tolist() == ([table[level] for level in known] if fits else known.tolist())

"""What is left of a wide product of parameters where only a share of it is run."""

from __future__ import annotations

import itertools
import math

import pytest

from drawing import sample, spread

CELLS = [
    {"kind": kind, "version": version, "stable": stable}
    for kind, version, stable in itertools.product("abcdefg", ("2.0", "2.1", "2.2"), (False, True))
]


def met(name: str, kept: set[int]) -> set[object]:
    return {CELLS[place][name] for place in kept}


@pytest.mark.parametrize("count", [11, 20.5, len(CELLS), math.inf])
def test_every_value_of_every_parameter_is_met(count: float) -> None:
    kept = sample(CELLS, count, "name")
    for name in CELLS[0]:
        assert met(name, kept) == {cell[name] for cell in CELLS}
    assert len(kept) == math.ceil(min(count, len(CELLS)))


def test_where_there_is_no_room_for_every_value() -> None:
    kept = sample(CELLS, 5, "name")
    assert len(kept) == 5
    assert met("stable", kept) == {False, True}
    assert len(met("version", kept)) == 3


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_share_meets_every_value_even_so(share: float) -> None:
    kept = spread(CELLS, share, "name")
    assert met("kind", kept) == set("abcdefg")
    assert len(kept) >= share * len(CELLS)


def test_the_same_name_keeps_the_same_cells() -> None:
    """Each of several processes chooses for itself."""
    assert sample(CELLS, 13, "name") == sample(CELLS, 13, "name")
    assert sample(CELLS, 13, "name") != sample(CELLS, 13, "another")


def test_values_that_cannot_be_told_apart_by_name_count_by_identity() -> None:
    one, other = {}, {}
    assert spread([{"options": one}, {"options": other}, {"options": one}], 0, 1) in ({0, 1}, {1, 2})

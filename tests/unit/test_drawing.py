"""What is left of a wide product of parameters where only a share of it is run."""

from __future__ import annotations

import itertools
import math

import pytest

from drawing import sample

CELLS = [
    {"kind": kind, "version": version, "stable": stable}
    for kind, version, stable in itertools.product("abcdefg", ("2.0", "2.1", "2.2"), (False, True))
]


@pytest.mark.parametrize("count", [0, 12, 20.5, len(CELLS), math.inf])
def test_every_value_of_every_parameter_is_met(count: float) -> None:
    kept = sample(CELLS, count, "name")
    for name in CELLS[0]:
        assert {CELLS[place][name] for place in kept} == {cell[name] for cell in CELLS}
    if count:
        assert len(kept) == math.ceil(min(count, len(CELLS)))


def test_the_same_name_keeps_the_same_cells() -> None:
    """Each of several processes chooses for itself."""
    assert sample(CELLS, 13, "name") == sample(CELLS, 13, "name")
    assert sample(CELLS, 13, "name") != sample(CELLS, 13, "another")


def test_values_that_cannot_be_told_apart_by_name_count_by_identity() -> None:
    one, other = {}, {}
    assert sample([{"options": one}, {"options": other}, {"options": one}], 0, 1) in ({0, 1}, {1, 2})

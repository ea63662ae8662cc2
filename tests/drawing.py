"""How much tests draw at random, and from which seed: ``make soak`` draws more than ``make test``, and anew each time.

``LANCELET_DRAWS`` says how many times as many examples a property is tried with, ``LANCELET_SEED`` where tests that
count their own seeds begin. ``make soak`` sets both, and hypothesis's own seed, from its ``SEED``. With neither, properties
are tried with the same examples each time, so that what ``make test`` says of a commit is no matter of luck.

A test with parameters that are a wide product is marked ``spread(share)``: ``make test`` runs so large a share of its
cells, among which every value of every parameter is met, and ``make soak`` the others. Where cells are dear and much alike,
``spread(share, each=False)`` leaves some values to the soak too. Of any test ``make soak`` runs at
most ``LANCELET_CELLS``, drawn from the seed in the same way: every soak meets others.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Hashable, Mapping, Sequence

DRAWS = float(os.environ.get("LANCELET_DRAWS", "1"))
SEED = int(os.environ.get("LANCELET_SEED", "0"))
CELLS = float(os.environ.get("LANCELET_CELLS", "inf"))
ANEW = bool({"LANCELET_DRAWS", "LANCELET_SEED"} & os.environ.keys())
"""Whether hypothesis draws other examples each time."""
_APART = 1_000_000


def examples(count: int) -> int:
    """How many examples of a property to draw where ``make test`` draws ``count``."""
    return max(round(count * DRAWS), 1)


def seeds(first: int, end: int) -> range:
    """A range of seeds; every ``LANCELET_SEED`` has its own."""
    return range(first + SEED * _APART, end + SEED * _APART)


Cells = Sequence[Mapping[str, object]]
"""The parameters of each."""


def sample(cells: Cells, count: float, salt: object) -> set[int]:
    """Places of so many ``cells``, drawn from ``salt``.

    Every value of a parameter is in one of them, if there is room for so many; some more are kept where they must.
    """
    values = _values(cells)
    order = random.Random(repr(salt)).sample(range(len(cells)), len(cells))
    seen: set[tuple[str, Hashable]] = set()
    found = set()
    for place in order:
        met = {(name, _key(value)) for name, value in cells[place].items() if len(values[name]) <= count}
        if not met <= seen:
            found.add(place)
            seen |= met
    missing = math.ceil(min(count, len(cells))) - len(found)
    return found.union([place for place in order if place not in found][: max(missing, 0)])


def spread(cells: Cells, share: float, salt: object, *, each: bool = True) -> set[int]:
    """Places of so large a share of ``cells``, or of more where not ``each`` value of a parameter would be met."""
    widest = max(len(met) for met in _values(cells).values()) if each else 1
    return sample(cells, max(share * len(cells), widest), salt)


def _values(cells: Cells) -> dict[str, set[Hashable]]:
    return {name: {_key(cell[name]) for cell in cells} for name in cells[0]}


def _key(value: object) -> Hashable:
    return value if isinstance(value, (str, int, float, tuple, type(None))) else id(value)

"""How much tests draw at random, and from which seed: ``make soak`` draws more than ``make test``, and anew each time.

``LANCELET_DRAWS`` says how many times as many examples a property is tried with, ``LANCELET_SEED`` where tests that
count their own seeds begin. ``make soak`` sets both, and hypothesis's own seed, from its ``SEED``.
"""

from __future__ import annotations

import os

DRAWS = float(os.environ.get("LANCELET_DRAWS", "1"))
SEED = int(os.environ.get("LANCELET_SEED", "0"))
_APART = 1_000_000


def examples(count: int) -> int:
    """How many examples of a property to draw where ``make test`` draws ``count``."""
    return max(round(count * DRAWS), 1)


def seeds(first: int, end: int) -> range:
    """A range of seeds; every ``LANCELET_SEED`` has its own."""
    return range(first + SEED * _APART, end + SEED * _APART)

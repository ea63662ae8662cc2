"""How long, and how often, a change is tried again when somebody else was there first.

::

    what                                       retries by default    seconds
    a commit of what was made before           20                    1800
    deleting, updating and merging rows        10                    30
    building files: columns, indices,          as often as it takes  1800
    compaction
    any of these on Spark                      as often as it takes  3600

The numbers of retries are those of pylance's signatures. Where a caller leaves them, nobody chose them: only the time
counts then.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

COMMIT_RETRIES = 20
CHANGE_RETRIES = 10

COMMIT_SECONDS = 1800.0
CHANGE_SECONDS = 30.0
BUILD_SECONDS = 1800.0
SPARK_SECONDS = 3600.0

PUTS = 5
"""How often a version that nobody else can take is put before we give up."""
READS = 5
"""How often a version is read back after a put without an answer."""
READ_PAUSE = 0.1

_MOST_SLOTS = 8


class Patience:
    """The time that a change may take; it begins when this is made."""

    __slots__ = ("_until",)

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until


@dataclass(frozen=True, slots=True)
class Pace:
    """Time and chance, as a commit sees them; simulations bring their own."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    chance: random.Random = field(default_factory=random.SystemRandom)

    def back_off(self, attempt: int, unit: float) -> None:
        """Wait a random number of slots, each as long as an attempt takes; more slots the more attempts failed."""
        slots = 2 ** min(attempt + 1, 6)
        self.sleep(self.chance.randrange(slots) * unit)

    def let_others(self, losses: int, unit: float) -> None:
        """Wait before the next attempt of a commit that lost a race; ``unit`` is what an attempt takes.

        Longer at first, so that many writers spread out; then shorter the more often it lost, so that none starves.
        """
        slots = min(2 ** (losses - 1), _MOST_SLOTS) if losses <= _MOST_SLOTS else _MOST_SLOTS / (losses - _MOST_SLOTS)
        self.sleep(self.chance.random() * slots * unit)

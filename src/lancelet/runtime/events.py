"""What happens inside, told to whoever listens: tables opened, versions committed, scans run, indices opened.

Listeners are called in a thread of their own, in the order in which things happened, so that what they do holds nothing up.
Without listeners nothing is made of an event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lancelet.runtime.threads import Pool

TABLES: Final = "lance::dataset_events"
RUNS: Final = "lance::execution"
READS: Final = "lance::io_events"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    target: str
    args: dict[str, str]
    ended: int
    """Nanoseconds since 1970."""
    took: int = 0
    """Nanoseconds; 0 for what has no length."""


Listener = Callable[[Event], None]
_listeners: list[Listener] = []
_pool: Final = Pool("lancelet-events", 1)


def is_heard() -> bool:
    """Whether anybody listens."""
    return bool(_listeners)


def listen(listener: Listener) -> None:
    """Have a function called with every event from now on."""
    _listeners.append(listener)


def tell(target: str, took: int = 0, **args: object) -> None:
    """Say that something happened; what is told about it are texts."""
    if _listeners:
        event = Event(target, {name: str(value) for name, value in args.items()}, time.time_ns(), took)
        for listener in _listeners:
            _pool.submit(listener, event)


def wait_until_heard() -> None:
    """Wait until the listeners have heard everything so far."""
    _pool.submit(bool).result()

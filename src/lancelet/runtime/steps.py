"""How far long work has come, told to whoever watches it; without watchers nothing is counted.

Work says what it counts (``rows written``), how much more of it there is to come, and how much of it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol


class Watcher(Protocol):
    """What is told."""

    def expect(self, what: str, amount: int) -> None:
        """So much more is to be done."""

    def step(self, what: str, amount: int) -> None:
        """So much more is done."""


ROWS_WRITTEN: Final = "rows written"
ROWS_FILLED: Final = "rows with new columns"
_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Have work inside of the block tell a watcher."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def is_watched() -> bool:
    """Whether anybody is told."""
    return bool(_watchers)


def expect(what: str, amount: int) -> None:
    """There is so much more to do."""
    for watcher in _watchers:
        watcher.expect(what, amount)


def step(what: str, amount: int) -> None:
    """So much more is done."""
    for watcher in _watchers:
        watcher.step(what, amount)

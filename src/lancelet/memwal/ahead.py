"""Requests of one kind, several of which go at once where the store is remote and they are many."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from lancelet.runtime.threads import Pool

if TYPE_CHECKING:
    from lancelet.store import Store

T = TypeVar("T")
R = TypeVar("R")

_ALONE: Final = 8
"""So many come one after the other: mostly there are no more, and nobody may want what lies behind the first that is missing."""
_AT_ONCE: Final = 16


class Ahead:
    """Threads for such requests. Work that asks for other ones needs threads of its own."""

    __slots__ = ("_pool",)

    def __init__(self, name: str) -> None:
        self._pool = Pool(name, _AT_ONCE)

    def each(self, store: Store, items: Iterable[T], ask: Callable[[T], R]) -> Iterator[R]:
        """The answers for all items, in their order."""
        left = iter(items)
        for item in left if store.is_local else itertools.islice(left, _ALONE):
            yield ask(item)
        while tasks := [self._pool.submit(ask, item) for item in itertools.islice(left, _AT_ONCE)]:
            try:
                for task in tasks:
                    yield task.result()
            finally:
                for task in tasks:
                    task.cancel()

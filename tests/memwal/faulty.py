"""A store on which one request goes wrong, or before which others are faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FaultyStore:
    """Another store, but for what comes after the next file that is created under a prefix."""

    def __init__(self, store: Any, prefix: str, then: Callable[[], None]) -> None:
        self._store, self._prefix, self._then = store, prefix, then
        self._armed = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        done: bool = self._store.put_if_absent(path, data)
        if self._armed and path.startswith(self._prefix):
            self._armed = False
            self._then()
        return done


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail

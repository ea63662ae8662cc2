"""Operations of a namespace: counted, and asked with a model or with a dict, as Lance's own clients ask."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Counts:
    """How often each operation was asked for, where that is wanted."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, operation: str) -> None:
        """Count an operation."""
        if self._wanted:
            with self._lock:
                self._counts[operation] += 1

    def told(self) -> dict[str, int]:
        """All of them."""
        with self._lock:
            return dict(self._counts)

    def clear(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self._counts.clear()


class Counting(Protocol):
    """What keeps count of its operations."""

    def note(self, operation: str) -> None: ...


def operation(model: Any, *, answers_in_kind: bool = False) -> Callable[[F], F]:
    """An operation whose request is a ``model``; it takes the model's fields as a dict too.

    One that ``answers_in_kind`` is answered with a dict when it is asked with one.
    """

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def asked(self: Counting, request: Any, *rest: Any) -> Any:
            self.note(method.__name__)
            if not isinstance(request, Mapping):
                return method(self, request, *rest)
            response = method(self, model.from_dict(dict(request)), *rest)
            return response.to_dict() if answers_in_kind else response

        return cast("F", asked)

    return decorate

"""What users see of an error that is raised in a Python process of Spark's: what was wrong, in a sentence.

Spark shows them the whole traceback, so there should be little of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from lancelet.errors import LanceletError

T = TypeVar("T")
P = ParamSpec("P")


def in_a_sentence(method: Callable[P, T]) -> Callable[P, T]:
    """Users see what was wrong, not the way by which we found out."""

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except LanceletError as error:
            raise error.with_traceback(None) from None

    return called

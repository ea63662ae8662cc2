"""Functions that take the same keywords: a typed dict names them once, for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from lancelet.errors import InvalidType

F = TypeVar("F", bound=Callable[..., Any])


def takes(
    options: type,
    names: Iterable[str] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    others: bool = False,
) -> Callable[[F], F]:
    """Have a function that takes a typed dict as keywords show them one by one, in ``help()`` and to editors.

    ``names`` are those that it takes, all by default. ``others`` leaves the ``**`` at the end: it takes more than these,
    or these are more than pylance's function of this name takes.

    Examples
    --------
    >>> from typing import TypedDict
    >>> Paint = TypedDict("Paint", {"color": str, "shine": bool}, total=False)
    >>> @takes(Paint, defaults={"color": "blue"})
    ... def paint(thing, **options): ...
    >>> str(inspect.signature(paint))
    "(thing, *, color: str = 'blue', shine: bool = None)"
    """
    wanted = options.__annotations__ if names is None else {name: options.__annotations__[name] for name in names}

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        given = list(signature.parameters.values())
        rest = [one for one in given if one.kind is one.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=(defaults or {}).get(name),
                annotation=getattr(kind, "__forward_arg__", kind),
            )
            for name, kind in wanted.items()
        ]
        own = [one for one in given if one not in rest]
        function.__dict__["__signature__"] = signature.replace(parameters=[*own, *keywords, *(rest if others else ())])
        return function

    return shown


def refuse_unknown(call: str, options: Mapping[str, Any], known: type) -> None:
    """Raise for a keyword that a typed dict does not have."""
    for name in options:
        if name not in known.__annotations__:
            raise InvalidType(f"{call}() got an unexpected keyword argument {name!r}")

"""Functions that take the same keywords: a typed dict names them once, for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from lancelet.errors import InvalidType

F = TypeVar("F", bound=Callable[..., Any])


def takes(
    options: type,
    names: Iterable[str] | None = None,
    *,
    positions: Iterable[str] = (),
    defaults: Mapping[str, object] | None = None,
    others: bool = False,
) -> Callable[[F], F]:
    """Have a function that takes a typed dict as keywords show them one by one, in ``help()`` and to editors.

    ``names`` are those that it takes, all by default. ``positions`` can be given by position too, after the function's
    own parameters; it gets them as ``*``, and finds their names by :func:`by_name`. ``others`` leaves the ``**`` at the
    end: it takes more than these, or these are more than pylance's function of this name takes.

    Examples
    --------
    >>> from typing import TypedDict
    >>> Paint = TypedDict("Paint", {"color": str, "shine": bool}, total=False)
    >>> @takes(Paint, defaults={"color": "blue"})
    ... def paint(thing, **options): ...
    >>> str(inspect.signature(paint))
    "(thing, *, color: str = 'blue', shine: bool = None)"
    """
    placed = tuple(positions)
    wanted = options.__annotations__ if names is None else {name: options.__annotations__[name] for name in names}

    def parameter(name: str, kind: inspect._ParameterKind) -> inspect.Parameter:
        annotation = wanted[name]
        annotation = getattr(annotation, "__forward_arg__", annotation)
        return inspect.Parameter(name, kind, default=(defaults or {}).get(name), annotation=annotation)

    def show(function: F) -> F:
        signature = inspect.signature(function)
        own = list(signature.parameters.values())
        parameters = [
            *(one for one in own if one.kind is one.POSITIONAL_OR_KEYWORD),
            *(parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in placed),
            *(one for one in own if one.kind is one.KEYWORD_ONLY),
            *(parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in wanted if name not in placed),
            *(one for one in own if one.kind is one.VAR_KEYWORD and others),
        ]
        function.__dict__["__signature__"] = signature.replace(parameters=parameters)
        return function

    return show


def by_name(
    call: str, positions: Sequence[str], values: Sequence[object], options: Mapping[str, object]
) -> dict[str, Any]:
    """Options with those that were given by position among them.

    Examples
    --------
    >>> by_name("paint", ("color", "shine"), ["blue"], {"shine": True})
    {'color': 'blue', 'shine': True}
    """
    if len(values) > len(positions):
        raise InvalidType(f"{call}() got {len(values) - len(positions)} positional arguments too many")
    placed = dict(zip(positions, values, strict=False))
    for name in placed:
        if name in options:
            raise InvalidType(f"{call}() got multiple values for argument {name!r}")
    return {**placed, **options}


def refuse_unknown(call: str, options: Mapping[str, object], known: type) -> None:
    """Raise for a keyword that a typed dict does not have."""
    for name in options:
        if name not in known.__annotations__:
            raise InvalidType(f"{call}() got an unexpected keyword argument {name!r}")


def refuse_former(name: str, value: object, instead: str) -> None:
    """Raise when an argument is used that pylance had once: engines that were written for it still hand over None.

    Examples
    --------
    >>> refuse_former("lock", None, "a store")
    >>> refuse_former("lock", 3, "a store")
    Traceback (most recent call last):
    ...
    lancelet.errors.InvalidType: lock is no longer taken; give a store
    """
    if value is not None:
        raise InvalidType(f"{name} is no longer taken; give {instead}")

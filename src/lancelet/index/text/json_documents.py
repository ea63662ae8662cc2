"""JSON documents as texts: each value stands with the path to it and its type (spec indices.md 10.7).

::

    {"reef": {"name": "Great Barrier"}, "depths": [3, 40], "open": true, "closed": null}

    reef.name,str,great   reef.name,str,barrier   depths,number,3   depths,number,40   open,bool,true   closed,null,null

Values of arrays stand under the path of the array, whatever their number. A text is cut and filtered by itself; all else is
one token, numbers as pylance reads and writes them. Positions count the tokens that are left. A query names what it looks for in the same
way: ``path,type,value``, several of them with ``;`` between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lancelet.errors import InvalidInput, UnfitData

TEXT_TYPE: Final = "str"
_TYPES: Final = (TEXT_TYPE, "number", "bool", "null")
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_SURELY_WHOLE: Final = 18
"""Digits of numbers that are in that range without a look."""
_LARGEST_POWER: Final = 308
_LAST_PLAIN: Final = -5
"""The power of ten of the smallest numbers that are written without an exponent; Python has one more."""


class _Number(str):
    """A number as it stands in a token."""

    __slots__ = ()


def _whole(literal: str) -> _Number:
    return (
        _fraction(literal) if len(literal) > _SURELY_WHOLE and not _LEAST <= int(literal) <= _MOST else _Number(literal)
    )


def _fraction(literal: str) -> _Number:
    """A number that is no whole one, nearly: pylance reads it from its text again, in two roundings instead of one."""
    mantissa, _, exponent = literal.lower().partition("e")
    before, _, after = mantissa.lstrip("-").partition(".")
    power = int(exponent or 0) - len(after)
    value = float(int(before + after))
    if power < -_LARGEST_POWER:
        value /= 10.0**_LARGEST_POWER
        power += _LARGEST_POWER
    value = value * float(f"1e{power}") if power >= 0 else value / float(f"1e{-power}")
    return _Number(("-" if literal.startswith("-") else "") + _printed(value))


def _printed(value: float) -> str:
    """A number without a sign, in as few digits as tell it from others."""
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    if int(exponent) == _LAST_PLAIN:
        return "0.0000" + mantissa.replace(".", "")
    return f"{mantissa}e{'+' if int(exponent) > 0 else ''}{int(exponent)}"


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, in their order."""

    __slots__ = ()


@dataclass(slots=True)
class Leaves:
    """The values of documents, in their order."""

    documents: list[int] = field(default_factory=list)
    """Of which document each is."""
    texts: list[str | None] = field(default_factory=list)
    """What is to be cut into tokens; None for values of other types."""
    terms: list[bytes] = field(default_factory=list)
    """What stands before the tokens of a text; of other values the token."""

    def add(self, document: int, path: str, kind: str, value: str) -> None:
        text = value if kind == TEXT_TYPE else None
        self.documents.append(document)
        self.texts.append(text)
        self.terms.append(f"{path},{kind},{value if text is None else ''}".encode())


def read_documents(documents: Iterable[str | None]) -> Leaves:
    """The values of JSON documents; None has none."""
    leaves = Leaves()
    for number, document in enumerate(documents):
        if document is not None:
            for path, kind, value in _values(document):
                leaves.add(number, path, kind, value)
    return leaves


def read_query(text: str) -> Leaves:
    """What a query looks for.

    Raises
    ------
    InvalidInput
        Something does not name a path, a type and a value.
    """
    leaves = Leaves()
    for part in text.split(";"):
        named = part.split(",", 2)
        if len(named) != 3:
            raise InvalidInput(
                f"{part!r} in a query on JSON documents is not of the form path,type,value, as in 'title,str,reef'; "
                "several of these have ; between"
            )
        if named[1] not in _TYPES:
            raise InvalidInput(f"unknown type {named[1]!r} in {part!r}; known are {', '.join(_TYPES)}")
        leaves.add(0, *named)
    return leaves


def _values(document: str) -> Iterator[tuple[str, str, str]]:
    """Paths, types and values, in the order of the document."""
    try:
        root = json.loads(document, parse_float=_fraction, parse_int=_whole, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        raise UnfitData(f"a document that is to be indexed is no JSON: {document[:100]!r}") from None
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, _Pairs):
            waiting += [(f"{path}.{name}" if path else name, member) for name, member in reversed(value)]
        elif isinstance(value, list):
            waiting += [(path, item) for item in reversed(value)]
        elif isinstance(value, _Number):
            yield path, "number", value
        elif isinstance(value, str):
            yield path, TEXT_TYPE, value
        elif value is None:
            yield path, "null", "null"
        else:
            yield path, "bool", "true" if value else "false"

"""Texts that users give and tables keep: what UTF-8 can hold."""

from __future__ import annotations

import re

from lancelet.errors import InvalidInput, InvalidType

_HALF = re.compile("[\ud800-\udfff]")


def check_text(text: object, what: str) -> str:
    """Refuse what is no text, or holds half of a surrogate pair, which no file can.

    Examples
    --------
    >>> check_text("é", "a name")
    'é'
    """
    if not isinstance(text, str):
        raise InvalidType(f"{what} is a text, not {text!r}")
    if at := half_character(text):
        raise InvalidInput(
            f"{what} is {text[:40]!r}, which UTF-8 cannot hold: character {at} is half of a surrogate pair"
        )
    return text


def half_character(text: str) -> int:
    """Which character is half of a surrogate pair, which is none: counted from 1, and 0 where there is none.

    Examples
    --------
    >>> half_character("é")
    0
    """
    found = _HALF.search(text)
    return 0 if found is None else found.start() + 1

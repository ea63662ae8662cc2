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
    if found := _HALF.search(text):
        raise InvalidInput(
            f"{what} is {text[:40]!r}, which UTF-8 cannot hold: character {found.start() + 1} is half of a surrogate pair"
        )
    return text

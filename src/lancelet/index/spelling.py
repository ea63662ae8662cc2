"""Characters spelled in ASCII, the way pylance spells them.

A character is decomposed (NFKD) and freed of all that is not ASCII; letters that have no decomposition, like ø, have a
spelling of their own here. Of which nothing is left stays as it is.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_SPELLED: Final = {
    "ß": "ss", "æ": "ae", "ð": "d", "ø": "o", "þ": "th", "đ": "d", "ħ": "h", "ı": "i", "ĸ": "k", "ł": "l",
    "ŋ": "n", "œ": "oe", "ŧ": "t", "ẞ": "SS", "Æ": "AE", "Ð": "D", "Ø": "O", "Þ": "TH", "Đ": "D", "Ħ": "H", "Ł": "L",
    "Ŋ": "N", "Œ": "OE", "Ŧ": "T",
}  # fmt: skip
_NEWER: Final = {
    "\ua7f1": "S", "\ua7f2": "C", "\ua7f3": "F", "\ua7f4": "Q", "\U00010783": "ae", "\U00010795": "h",
    "\U000107a2": "o", "\U000107a5": "q",
    **{chr(0x1CCD6 + i): chr(ord("A") + i) for i in range(26)},
    **{chr(0x1CCF0 + i): str(i) for i in range(10)},
}  # fmt: skip
"""Characters of Unicode 14 to 17, which the tables of an older Python do not know."""


def spell(char: str) -> str:
    """What a character becomes; itself, when nothing is left of it.

    >>> spell("é"), spell("ẞ"), spell("½"), spell("ж")
    ('e', 'SS', '12', 'ж')
    """
    if char.isascii():
        return char
    if char in _NEWER:
        return _NEWER[char]
    parts = unicodedata.normalize("NFKD", char)
    return "".join(part if part.isascii() else _SPELLED.get(part, "") for part in parts) or char


def has_spelling(char: str) -> bool:
    """Whether a character may become another one; false is sure."""
    return char in _SPELLED or char in _NEWER or bool(unicodedata.decomposition(char))


class _Spellings(dict[int, str]):
    """Filled as characters are met, for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        found = self[code] = spell(chr(code))
        return found


_SPELLINGS: Final = _Spellings()


def fold(text: str) -> str:
    """A text with each character spelled in ASCII, where that is possible."""
    return text if text.isascii() else text.translate(_SPELLINGS)

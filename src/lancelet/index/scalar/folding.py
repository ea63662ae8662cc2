"""Texts reduced to ASCII letters and digits, the way pylance prepares them for trigrams.

Each character is lower-cased and spelled in ASCII. A character of which nothing is left stays
and separates its neighbours, like punctuation does. Characters that decompose into capitals keep these.

Other releases folded other characters, or folded them otherwise. A search therefore relies on the
characters alone on which all agree: see :func:`certain_runs`.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from lancelet.index.spelling import has_spelling, spell

SEPARATOR: Final = 0x80
"""In the place of the code of a letter: anything else."""
LIMIT: Final = 0x20000
"""Characters from here on are all separators."""
LONGEST: Final = 5
"""Of what a character becomes."""

_SURROGATES: Final = range(0xD800, 0xE000)
_AGREED: Final = "ßæðøþđħıłŋœŧÆÐØÞĐĦŁŊŒŦ"
_AGREED_RANGES: Final = (
    range(0xC0, 0x130),
    range(0x131, 0x149),
    range(0x14A, 0x17F),
    range(0x218, 0x21C),
    range(0x1EA0, 0x1EFA),
)


def code_of(char: str) -> int:
    """The number of a letter or digit in a trigram; capitals get what eight bits leave of theirs."""
    if not (char.isascii() and char.isalnum()):
        return SEPARATOR
    return ord(char) - ord("0") + 1 if char.isdigit() else (ord(char) - ord("a") + 11) & 0xFF


def fold(char: str) -> str:
    """What a character becomes; itself, when nothing is left of it."""
    return "".join(map(spell, char.lower()))


@cache
def folding_table() -> npt.NDArray[np.uint64]:
    """For each character, from the lowest byte up: how many codes it becomes, then these; 0 for a mere separator."""
    table = np.zeros(LIMIT, np.uint64)
    for code in range(LIMIT):
        char = chr(code)
        # Most characters need no more than this look.
        if code in _SURROGATES or not (char.isascii() or char.lower() != char or has_spelling(char)):
            continue
        codes = [code_of(part) for part in fold(char)]
        if codes != [SEPARATOR]:
            assert len(codes) <= LONGEST
            table[code] = int.from_bytes(bytes([len(codes), *codes]), "little")
    return table


def certain_runs(text: str) -> list[str]:
    """Runs of letters and digits that every release finds in a text that holds this one."""
    agreed = _agreed()
    kept = "".join(char.lower() if char.isascii() else agreed.get(char, " ") for char in text)
    return "".join(char if char.isascii() and char.isalnum() else " " for char in kept).split()


@cache
def _agreed() -> dict[str, str]:
    """Letters of which the base is an ASCII letter by Unicode's canonical decomposition, and a few more."""
    found = {}
    for code in (code for codes in _AGREED_RANGES for code in codes):
        char = chr(code)
        if char in _AGREED or unicodedata.normalize("NFD", char)[0].isascii():
            found[char] = fold(char)
    return found

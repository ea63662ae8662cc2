"""Regular expressions in Rust's syntax, matched by RE2 in time linear in the text.

pylance's engine is Rust's ``regex``, pyarrow's is RE2. Both match in linear time
and share nearly all of their syntax; a pattern is rewritten where they differ::

    \\d \\w \\s          Unicode classes in Rust, ASCII in RE2: written out as classes
    (...)             every group gets a name, which pyarrow's kernels ask for
    x flag            blanks and comments are taken out
    \\u{e9} \\u00e9     written as \\x{e9}
    \\b \\B             ASCII in RE2; a text in which that could matter is refused
    [a&&b] [a[b]]     sets of classes, which RE2 lacks: refused

What Rust refuses (back references, look-around, octal escapes, a ``{`` that counts nothing) is refused here too.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lancelet.errors import InvalidInput
from lancelet.runtime import compute as pc

__all__ = ["Regex", "compile_regex"]

_SPACE = r"\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_NO_SPACE = (
    r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}"
    r"\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}"
)
_CIRCLED = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_JOINERS = ((0x200C, 0x200D),)
_WORD = r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}" + "".join(
    f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in _CIRCLED + _JOINERS
)
_CLASSES = {"d": r"\p{Nd}", "w": _WORD, "s": _SPACE}
_FLAGS = "imsxUR"
_COUNT = re.compile(r"\{\d+(?:,\d*)?\}")
_OPENING = re.compile(r"\(\?(?:P?<([A-Za-z_][\w.\[\]]*)>|([A-Za-z]*)(-[A-Za-z]+)?([:)]))")
_CODE_POINT = re.compile(r"\\(?:x\{([0-9A-Fa-f]+)\}|u\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U(\w{8}))")
_PROPERTY = re.compile(r"\\[pP](?:\{[^}]*\}|[A-Z])")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_ESCAPE = re.compile(r"\$(?:\{([^}]*)\}|([0-9A-Za-z_]+)|(\$))|\\(\d+)|(\\)")


@dataclass(frozen=True, slots=True)
class Regex:
    """A pattern that RE2 takes."""

    source: str
    """As it was written."""
    re2: str
    groups: tuple[str | None, ...]
    """The name of each group, or None; in ``re2`` they are ``g1``, ``g2``, ..."""
    at_words: bool
    """Whether it looks at the borders of words."""

    def check(self, texts: pa.Array) -> None:
        """Refuse texts for which RE2 and Rust see other borders of words."""
        if self.at_words and pc.any(_has_wide_letter(texts), min_count=0).as_py():
            raise InvalidInput(
                f"the regular expression {self.source!r} asks for borders of words (\\b), which are known between"
                r" ASCII characters only; spell them out, as in (^|\W)word(\W|$)"
            )

    def replacement(self, text: str) -> str:
        """What RE2 puts in for ``text``, in which $1, ${name} and \\1 stand for groups."""
        pieces: list[str] = []
        at = 0
        for match in _ESCAPE.finditer(text):
            pieces.append(text[at : match.start()])
            at = match.end()
            name = next((group for group in match.group(1, 2, 4) if group is not None), None)
            pieces.append("$" if match[3] else "\\\\" if match[5] else self._group(name or "", match[0]))
        return "".join([*pieces, text[at:]])

    def _group(self, name: str, written: str) -> str:
        if not name:
            return written
        number = int(name) if name.isdigit() else self.groups.index(name) + 1 if name in self.groups else None
        if number is None or number > len(self.groups):
            return ""  # a group that the pattern has not is empty
        if number > 9:
            raise InvalidInput(f"a replacement can refer to the groups 1 to 9, not to {written}")
        return f"\\{number}"


def _has_wide_letter(texts: pa.Array) -> pa.Array:
    """Whether a text has a word character beyond ASCII."""
    plain = pc.replace_substring_regex(texts, pattern=r"[\x00-\x7f]+", replacement="")
    return pc.match_substring_regex(plain, pattern=f"[{_WORD}]")


@lru_cache(maxsize=1000)
def compile_regex(pattern: str, flags: str = "") -> Regex:
    """The pattern as RE2 takes it."""
    unknown = set(flags) - set(_FLAGS)
    if unknown:
        raise InvalidInput(f"unknown regular expression flag {min(unknown)!r}; the flags are g i m s U x")
    if "R" in flags:
        raise InvalidInput("the regular expression flag R (lines end in CR LF) is not supported")
    regex = _Rewriting(pattern, "x" in flags).regex("".join(flag for flag in "imsU" if flag in flags))
    try:
        pc.match_substring_regex(pa.array([""]), pattern=regex.re2)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ").partition("\n")[0]
        raise _refused(pattern, reason) from error
    return regex


def _refused(pattern: str, reason: str) -> InvalidInput:
    return InvalidInput(f"{pattern!r} is not a regular expression: {reason}")


class _Rewriting:
    """One walk over a pattern."""

    def __init__(self, pattern: str, verbose: bool) -> None:
        self._pattern = pattern
        self._verbose = verbose
        self._at = 0
        self._groups: list[str | None] = []
        self._at_words = False

    def regex(self, flags: str) -> Regex:
        prefix = f"(?{flags})" if flags else ""
        pieces: list[str] = []
        while self._at < len(self._pattern):
            pieces.append(self._piece())
        return Regex(self._pattern, prefix + "".join(pieces), tuple(self._groups), self._at_words)

    def _take(self, text: str) -> str:
        self._at += len(text)
        return text

    def _piece(self) -> str:
        char = self._pattern[self._at]
        if char == "\\":
            return self._escape(inside=False)
        if char == "[":
            return self._class()
        if char == "(":
            return self._opening()
        if char == "{":
            count = _COUNT.match(self._pattern, self._at)
            if count is None:
                raise _refused(self._pattern, "a { that stands for itself is written \\{")
            return self._take(count[0])
        if self._verbose and (char.isspace() or char == "#"):
            end = self._pattern.find("\n", self._at) if char == "#" else self._at
            self._at = len(self._pattern) if end < 0 else end + 1
            return ""
        return self._take(char)

    def _opening(self) -> str:
        match = _OPENING.match(self._pattern, self._at)
        if match is None:
            if self._pattern.startswith("(?", self._at):
                raise _refused(self._pattern, f"{self._pattern[self._at : self._at + 4]!r} opens no group")
            self._at += 1
            return self._group(None)
        self._take(match[0])
        if match[1] is not None:
            return self._group(match[1])
        on, off = match[2], match[3] or ""
        if "x" in on + off and match[4] == ":":
            raise _refused(self._pattern, "the flag x goes for a whole pattern here")
        self._verbose = (self._verbose or "x" in on) and "x" not in off
        on, off = on.replace("x", ""), off.replace("x", "").rstrip("-")
        return f"(?{on}{off}{match[4]}" if on or off or match[4] == ":" else ""

    def _group(self, name: str | None) -> str:
        self._groups.append(name)
        return f"(?P<g{len(self._groups)}>"

    def _escape(self, inside: bool) -> str:
        """An escape, also ``inside`` a class."""
        point = _CODE_POINT.match(self._pattern, self._at)
        if point is not None:
            self._take(point[0])
            return f"\\x{{{next(digits for digits in point.groups() if digits)}}}"
        known = _PROPERTY.match(self._pattern, self._at)
        if known is not None:
            return self._take(known[0])
        char = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if char.lower() in _CLASSES and char:
            return _set(char, inside)
        if char in "bB" and char and not inside:
            self._at_words = True
            return "\\" + char
        if char and (char in "aftnrv" or (char in "Az" and not inside)):
            return "\\" + char
        if not char or not char.isascii() or char.isalnum() or char in "<>":
            raise _refused(self._pattern, f"there is no escape \\{char}")
        return "\\" + char if char != "_" else char

    def _class(self) -> str:
        pieces = [self._take("[")]
        if self._pattern.startswith("^", self._at):
            pieces.append(self._take("^"))
        if self._pattern.startswith("]", self._at):
            self._take("]")
            pieces.append("\\]")
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            posix = _POSIX.match(self._pattern, self._at)
            if posix is not None:
                pieces.append(self._take(posix[0]))
            elif char == "\\":
                pieces.append(self._escape(inside=True))
            elif char == "[" or self._pattern[self._at : self._at + 2] in ("&&", "--", "~~"):
                raise _refused(self._pattern, "classes inside of classes are not supported; write one class")
            elif self._verbose and char.isspace():
                self._at += 1
            else:
                pieces.append(self._take(char))
                if char == "]":
                    break
        return "".join(pieces)


def _set(char: str, inside: bool) -> str:
    """One of the classes \\d \\w \\s \\D \\W \\S."""
    if char.islower():
        return _CLASSES[char] if inside else f"[{_CLASSES[char]}]"
    if not inside:
        return f"[^{_CLASSES[char.lower()]}]"
    return {"D": r"\P{Nd}", "S": _NO_SPACE}.get(char) or _no_word()


@lru_cache(maxsize=1)
def _no_word() -> str:
    """All characters that are no word characters, as ranges."""
    words = {"L", "M", "Nd", "Nl", "Pc"}
    ranges: list[str] = []
    start: int | None = None
    for code in range(sys.maxunicode + 2):
        is_word = code > sys.maxunicode or not words.isdisjoint(
            (category := unicodedata.category(chr(code)), category[0])
        )
        is_word = is_word or any(low <= code <= high for low, high in _CIRCLED + _JOINERS)
        if is_word and start is not None:
            ranges.append(f"\\x{{{start:x}}}-\\x{{{code - 1:x}}}")
            start = None
        elif not is_word and start is None:
            start = code
    return "".join(ranges)

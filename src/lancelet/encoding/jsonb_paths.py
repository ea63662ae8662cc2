"""Paths into JSON values: the text that users write, as a program for the kernel jsonb_select.pyx.

::

    path        $ steps | name steps | steps            `a.b` is `$.a.b`
    step        .name | :name | ."any name" | ["any name"] | .* | [*] | .** | .**{1} | .**{1 to 2} | .**{1 to last}
                [0] | [last] | [last - 1] | [0, 2 to last] | ?(test)
    test        operand == operand (!= <> < <= > >= starts with) | exists(path) | test && test | test || test | (test)
    operand     $ steps | @ steps | null | true | false | 1 | 0.5 | "text"

A whole path may be a test too, and is then true or false. A name without quotes ends at a space and at most signs.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

import numpy as np

from lancelet.encoding.kernels import jsonb
from lancelet.encoding.rows import Bytes, Indices
from lancelet.errors import InvalidInput, NotSupported

_END, _FIELD, _KEY, _MEMBERS, _ELEMENTS, _ALL, _ELEMENT, _FILTER = range(8)
_AND, _OR, _EXISTS, _COMPARE, _PATH, _CONSTANT = range(8, 14)
_OPERATORS: Final = {"==": 0, "!=": 1, "<>": 1, "<=": 3, "<": 2, ">=": 5, ">": 4, "starts with": 6}
_WORDS: Final = {"null": 0, "true": 4, "false": 3}
_STRING: Final = 1
_NUMBER: Final = 2
_DEEPEST: Final = 1 << 30
_MOST: Final = 2**31 - 1
_NAME: Final = re.compile(r"(?:\\u\{....\}|\\u....|\\.|[^ ,.:{}\[\]()?@$|<>!=+\-*/%\"'\\])+", re.DOTALL)
_QUOTED: Final = re.compile(r'"((?:\\u\{....\}|\\u....|\\.|[^"\\])+)"', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\u\{([0-9A-Fa-f]{4})\}")
_LITERAL: Final = re.compile(r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?")
_LAST: Final = re.compile(r"(?i:last)(?:[ \t\r\n]*([+-])[ \t\r\n]*(\d+))?")
_WHOLE: Final = re.compile(r"[+-]?\d+")
_TO: Final = re.compile(r"[ \t\r\n]*(?i:to)[ \t\r\n]*")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_ARITHMETIC: Final = tuple("+-*/%")
_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path that can be followed."""

    text: str
    code: Indices
    names: Bytes
    is_single: bool
    """Whether it leads to one value at most."""
    is_test: bool
    """Whether it is a test, whose truth is the value."""
    keys: tuple[str, ...] | None
    """The names of the members that it goes down by, if that is all that it does."""


@lru_cache(256)
def parse_path(text: str) -> JsonPath:
    """Read a path.

    Raises
    ------
    InvalidInput
        It is not one.

    Examples
    --------
    >>> parse_path("$.a.b").keys
    ('a', 'b')
    """
    return _Reader(text).whole()


@lru_cache(256)
def key_path(key: str) -> JsonPath:
    """The way to one member of an object, or, where the key is a number, to one element of an array."""
    name = key.encode()
    number = int(key) if re.fullmatch(r"\+?[0-9]{1,18}", key) else -1
    code = np.array([_KEY, 0, len(name), number, _END], np.int64)
    return JsonPath(key, code, np.frombuffer(name, np.uint8), True, False, (key,))


@dataclass(frozen=True, slots=True)
class _Step:
    """A step: its words, with a test in place of the last one for a filter."""

    words: tuple[int, ...]
    name: str | None = None
    test: _Test | None = None


@dataclass(frozen=True, slots=True)
class _Test:
    """A node of a test."""

    words: tuple[int, ...]
    parts: tuple[_Test | tuple[_Step, ...], ...] = ()
    """What the words after these refer to."""
    constant: bytes | None = None


class _Reader:
    """Reads one path from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def fail(self, what: str) -> NoReturn:
        raise InvalidInput(
            f'{self.text!r} is not a JSON path: {what} at character {self.at}; paths look like $.name[0]."other name"'
        )

    def matches(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def takes(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def spaces(self) -> None:
        self.matches(_SPACE)

    def whole(self) -> JsonPath:
        self.spaces()
        start = self.at
        test = self._test_at_start()
        if test is None:
            self.at = start
            steps = self._steps_at_start()
        self.spaces()
        if self.at < len(self.text):
            self.fail(f"{self.text[self.at]!r} is not expected")
        writer = _Writer()
        if test is not None:
            writer.test(test)
            return writer.path(self.text, False, True, None)
        writer.steps(steps)
        single = all(step.words[0] in (_FIELD, _ELEMENT) and _is_one(step.words) for step in steps)
        names = tuple(step.name for step in steps if step.name is not None)
        plain = len(names) == len(steps)
        return writer.path(self.text, single, False, names if plain else None)

    def _test_at_start(self) -> _Test | None:
        """The path as a test, if it begins like one."""
        if self.text[self.at : self.at + 1] in ("+", "-"):
            self._refuse_arithmetic()
        try:
            return self._test(root=True)
        except InvalidInput:
            return None

    def _refuse_arithmetic(self) -> NoReturn:
        raise NotSupported(
            f"arithmetic in JSON paths is not supported ({self.text!r}); compute in the expression instead"
        )

    def _steps_at_start(self) -> tuple[_Step, ...]:
        if self.takes("$"):
            return self._steps(filters=True)
        self.spaces()
        first = self._name()
        self.spaces()
        rest = self._steps(filters=True)
        return rest if first is None else (_field(first), *rest)

    def _name(self) -> str | None:
        found = self.matches(_NAME)
        return None if found is None else self._unescaped(found[0])

    def _quoted(self) -> str | None:
        found = self.matches(_QUOTED)
        return None if found is None else self._unescaped(found[1])

    def _unescaped(self, raw: str) -> str:
        if "\\" not in raw:
            return raw
        escaped = _ESCAPE.sub(r"\\u\1", raw)
        # Only backslashes are read; signs that JSON has no room for in a text are allowed here.
        safe = re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in escaped))
        try:
            text = str(json.loads(f'"{safe}"'))
            text.encode()
        except ValueError:
            self.fail("an escape that means nothing")
        return text

    def _steps(self, *, filters: bool) -> tuple[_Step, ...]:
        steps: list[_Step] = []
        while True:
            start = self.at
            self.spaces()
            step = self._step(filters)
            if step is None:
                self.at = start
                self.spaces()
                return tuple(steps)
            steps.append(step)

    def _step(self, filters: bool) -> _Step | None:
        start = self.at
        if self.takes(".**"):
            low, high = self._levels()
            return _Step((_ALL, low, high))
        if self.takes(".*"):
            return _Step((_MEMBERS,))
        if self.takes(".") or self.takes(":"):
            name = self._quoted()
            if name is None:
                name = self._name()
            if name is None:
                self.fail("a name is expected")
            return _field(name)
        if self.takes("["):
            return self._bracket()
        if filters and self.takes("?"):
            self.spaces()
            if not self.takes("("):
                self.fail("'(' is expected")
            self.spaces()
            test = self._test(root=False)
            self.spaces()
            if not self.takes(")"):
                self.fail("')' is expected")
            return _Step((_FILTER,), test=test)
        self.at = start
        return None

    def _levels(self) -> tuple[int, int]:
        if not self.takes("{"):
            return 0, _DEEPEST
        self.spaces()
        low = self._level()
        high = low
        if self.matches(_TO):
            high = _DEEPEST if self.matches(re.compile("(?i:last)")) else self._level()
        self.spaces()
        if not self.takes("}"):
            self.fail("'}' is expected")
        return low, high

    def _level(self) -> int:
        found = self.matches(re.compile(r"\d+"))
        if found is None or int(found[0]) > 255:
            self.fail("a level, from 0 to 255, is expected")
        return int(found[0])

    def _bracket(self) -> _Step:
        self.spaces()
        if self.takes("*"):
            step = _Step((_ELEMENTS,))
        elif (name := self._quoted()) is not None:
            step = _field(name)
        else:
            words: list[int] = []
            count = 0
            while True:
                self.spaces()
                low = self._index()
                words += (*low, *(self._index() if self.matches(_TO) else low))
                count += 1
                self.spaces()
                if not self.takes(","):
                    break
            step = _Step((_ELEMENT, count, *words))
        self.spaces()
        if not self.takes("]"):
            self.fail("']' is expected")
        return step

    def _index(self) -> tuple[int, int]:
        if (whole := self.matches(_WHOLE)) is not None:
            number, from_end = int(whole[0]), 0
        elif (last := self.matches(_LAST)) is not None:
            number, from_end = int(f"{last[1]}{last[2]}") if last[1] else 0, 1
        else:
            self.fail("a number, 'last' or a name in quotes is expected")
        if not -_MOST <= number <= _MOST:
            self.fail("the number is too large")
        return number, from_end

    def _test(self, *, root: bool) -> _Test:
        self.depth += 1
        if self.depth > _DEPTH:
            self.fail("it is nested too deeply")
        test = self._conjunction(root)
        while self._sees("||"):
            test = _Test((_OR,), (test, self._conjunction(root)))
        self.depth -= 1
        return test

    def _conjunction(self, root: bool) -> _Test:
        test = self._condition(root)
        while self._sees("&&"):
            test = _Test((_AND,), (test, self._condition(root)))
        return test

    def _sees(self, sign: str) -> bool:
        start = self.at
        self.spaces()
        if self.takes(sign):
            self.spaces()
            return True
        self.at = start
        return False

    def _condition(self, root: bool) -> _Test:
        start = self.at
        if self.takes("("):
            self.spaces()
            test = self._test(root=root)
            self.spaces()
            if not self.takes(")"):
                self.fail("')' is expected")
            return test
        if self.takes("exists"):
            self.spaces()
            if self.takes("("):
                self.spaces()
                current = self._origin(allow_current=True)
                if current is None:
                    self.fail("'$' or '@' is expected")
                steps = self._steps(filters=True)
                if not self.takes(")"):
                    self.fail("')' is expected")
                return _Test((_EXISTS, current), (steps,))
            self.at = start
        left = self._operand(root)
        self.spaces()
        operator = next((name for name in _OPERATORS if self.takes(name)), None)
        if operator is None:
            if self.text[self.at : self.at + 1] in _ARITHMETIC:
                self._refuse_arithmetic()
            self.fail("a comparison is expected")
        self.spaces()
        return _Test((_COMPARE, _OPERATORS[operator]), (left, self._operand(root)))

    def _origin(self, *, allow_current: bool) -> int | None:
        if self.takes("$"):
            return 0
        return 1 if allow_current and self.takes("@") else None

    def _operand(self, root: bool) -> _Test:
        self.spaces()
        current = self._origin(allow_current=not root)
        if current is not None:
            return _Test((_PATH, current), (self._steps(filters=False),))
        for word, kind in _WORDS.items():
            if self.takes(word):
                return _Test((_CONSTANT, kind), constant=b"")
        if (number := self.matches(_LITERAL)) is not None:
            return _Test((_CONSTANT, _NUMBER), constant=_stored_number(number[0]))
        text = self._quoted()
        if text is None:
            self.fail("a value or a path is expected")
        return _Test((_CONSTANT, _STRING), constant=text.encode())


class _Writer:
    """Puts a path into words."""

    def __init__(self) -> None:
        self.code: list[int] = []
        self.names = bytearray()

    def path(self, text: str, is_single: bool, is_test: bool, keys: tuple[str, ...] | None) -> JsonPath:
        names = np.frombuffer(bytes(self.names), np.uint8)
        return JsonPath(text, np.array(self.code, np.int64), names, is_single, is_test, keys)

    def steps(self, steps: tuple[_Step, ...]) -> int:
        first = len(self.code)
        open_: list[tuple[int, _Test]] = []
        for step in steps:
            self.code += step.words
            if step.name is not None:
                self.code += self._text(step.name.encode())
            if step.test is not None:
                open_.append((len(self.code), step.test))
                self.code.append(0)
        self.code.append(_END)
        for place, test in open_:
            self.code[place] = self.test(test)
        return first

    def test(self, test: _Test) -> int:
        first = len(self.code)
        self.code += test.words
        if test.constant is not None:
            self.code += self._text(test.constant)
        place = len(self.code)
        self.code += [0] * len(test.parts)
        for number, part in enumerate(test.parts):
            self.code[place + number] = self.test(part) if isinstance(part, _Test) else self.steps(part)
        return first

    def _text(self, text: bytes) -> tuple[int, int]:
        self.names += text
        return len(self.names) - len(text), len(text)


def _field(name: str) -> _Step:
    return _Step((_FIELD,), name)


def _is_one(words: tuple[int, ...]) -> bool:
    """Whether a step leads to one value: a member, or one element by its number."""
    return words[0] == _FIELD or (words[1] == 1 and words[2:4] == words[4:6])


def _stored_number(text: str) -> bytes:
    """A number as JSONB has it."""
    if re.fullmatch(r"[+-]?\d+", text) and -(2**63) <= int(text) < 2**64:
        digits = str(int(text)).encode()
        whole = jsonb.from_text(np.frombuffer(digits, np.uint8), 0, len(digits))
        return whole[8:]
    return b"\x60" + struct.pack(">d", float(text))

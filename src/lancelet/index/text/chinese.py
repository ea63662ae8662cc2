"""Chinese words by a dictionary, as pylance's base tokenizer ``jieba`` cuts them.

::

    text ── runs of ideographs, letters and digits ── the rest: a token for each character
                │
                words of the dictionary that begin at each character, and the most likely way through them
                │
                neighbouring characters that make no word: words by a hidden Markov model
                │
                words of three characters or more: the words of two and three inside of them come before

Positions are those of characters, as in pylance. The dictionary is where pylance looks for it, in the folder of language models
(``LANCE_LANGUAGE_MODEL_HOME``), else that of the package ``jieba``, which has the numbers of the model too.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile, InvalidInput, MissingFile, MissingPackage, NotSupported, UnfitData
from lancelet.index.text.splitting import DROPPED
from lancelet.index.text.terms import Terms

_HOME: Final = "LANCE_LANGUAGE_MODEL_HOME"
_DEFAULT: Final = "default"
_IDEOGRAPHS: Final = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\U0002ceb0-\U0002ebef\U0002f800-\U0002fa1f"
)
_RUNS: Final = re.compile(rf"([{_IDEOGRAPHS}a-zA-Z0-9+#&._%\-]+)")
_OUTSIDE: Final = re.compile(r"\r\n|.", re.DOTALL)
_MODELLED: Final = re.compile("([\u4e00-\u9fd5]+)")
_LETTERS: Final = re.compile(r"([a-zA-Z0-9]+(?:.[0-9]+)?%?)")
_STATES: Final = "BMES"
"""Of a character: at the beginning, in the middle or at the end of a word, or one by itself."""
_BEFORE: Final = {"B": "ES", "M": "MB", "S": "SE", "E": "BM"}
_NEVER: Final = -3.14e100
_NAME: Final = re.compile(r"[\w-][\w.-]*")


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Words and how often they are; what words begin with is there too, with 0."""

    words: Mapping[str, int]
    total: float
    """The logarithm of how many there are in all."""

    def tokens(self, text: str) -> Iterator[tuple[str, int]]:
        """The tokens of a text, and at which character they begin."""
        place = 0
        for word in self._cut(text):
            for size in (2, 3):
                if len(word) > size:
                    for at in range(len(word) - size + 1):
                        if self.words.get(word[at : at + size]):
                            yield word[at : at + size], place + at
            yield word, place
            place += len(word)

    def _cut(self, text: str) -> Iterator[str]:
        for number, part in enumerate(_RUNS.split(text)):
            yield from self._cut_run(part) if number % 2 else _OUTSIDE.findall(part)

    def _cut_run(self, run: str) -> Iterator[str]:
        """Words of the dictionary, the most likely ones together."""
        ends = self._ends(run)
        first = None
        at = 0
        while at < len(run):
            end = ends[at]
            if end == at + 1:
                first = at if first is None else first
            else:
                if first is not None:
                    yield from self._cut_others(run[first:at])
                    first = None
                yield run[at:end]
            at = end
        if first is not None:
            yield from self._cut_others(run[first:])

    def _ends(self, run: str) -> list[int]:
        """Where the word that begins at each character ends."""
        words, size = self.words, len(run)
        scores, ends = [0.0] * (size + 1), [0] * size
        for at in range(size - 1, -1, -1):
            best: tuple[float, int] | None = None
            for end in range(at + 1, size + 1):
                often = words.get(run[at:end])
                if often is None:
                    break
                if often and (best is None or (math.log(often) - self.total + scores[end], end) > best):
                    best = math.log(often) - self.total + scores[end], end
            scores[at], ends[at] = best or (scores[at + 1] - self.total, at + 1)
        return ends

    def _cut_others(self, run: str) -> Iterator[str]:
        """Characters of which none is part of a longer word."""
        if len(run) == 1 or self.words.get(run):
            yield from run
            return
        for number, part in enumerate(_MODELLED.split(run)):
            if number % 2:
                yield from _modelled(part)
            else:
                yield from (piece for piece in _LETTERS.split(part) if piece)


def _modelled(run: str) -> Iterator[str]:
    """Words by the most likely states of characters."""
    starts, steps, signs = _model()
    scores = [{state: starts[state] + signs[state].get(run[0], _NEVER) for state in _STATES}]
    before: list[dict[str, str]] = []
    for character in run[1:]:
        now, origin = {}, {}
        for state in _STATES:
            sign = signs[state].get(character, _NEVER)
            now[state], origin[state] = max(
                (scores[-1][last] + steps[last].get(state, _NEVER) + sign, last) for last in _BEFORE[state]
            )
        scores.append(now)
        before.append(origin)
    state = max("ES", key=lambda one: (scores[-1][one], one))
    states = [state]
    for origin in reversed(before):
        states.append(origin[states[-1]])
    begin = 0
    for at, state in enumerate(reversed(states)):
        if state in "ES":
            yield run[begin : at + 1]
            begin = at + 1
    if begin < len(run):
        yield run[begin:]


class ChineseSplitter:
    """Cuts texts by a dictionary; used as a :class:`~lancelet.index.text.splitting.Splitter` is."""

    def __init__(self, dictionary: Dictionary, limit: int | None) -> None:
        self._dictionary = dictionary
        self._limit = limit
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._found: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def nbytes(self) -> int:
        return sum(map(len, self._texts)) + 200 * len(self._texts)

    def texts(self, first: int, all_of_them: bool) -> list[str]:
        """Raw tokens from a number on; without those of ASCII alone, unless all are wanted."""
        return [text for text in self._texts[first:] if all_of_them or not text.isascii()]

    def intern(
        self,
        first: int,
        finished: list[str | None],
        all_of_them: bool,
        terms: Terms,
        numbers: npt.NDArray[np.uint32],
    ) -> None:
        """Put the numbers of terms where those of raw tokens from a number on are told."""
        left = iter(finished)
        for number, text in enumerate(self._texts[first:], first):
            term = next(left) if all_of_them or not text.isascii() else text
            numbers[number] = DROPPED if term is None else terms.intern(term.encode())

    def split(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        valid: npt.NDArray[np.uint8],
        lists: npt.NDArray[np.int64],
    ) -> None:
        """Cut texts, in place of those before."""
        assert not len(lists), "lists are joined to texts"
        self._found = []
        bounds = offsets.tolist()
        for number in range(len(bounds) - 1):
            if len(valid) and not valid[number]:
                continue
            raw = data[bounds[number] : bounds[number + 1]].tobytes()
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                raise UnfitData(f"a text that is to be indexed is no UTF-8: {raw[:100]!r}") from None
            self._found += ((number, self._intern(token), place) for token, place in self._dictionary.tokens(text))

    def _intern(self, token: str) -> int:
        found = self._numbers.get(token)
        if found is None:
            found = self._numbers[token] = len(self._texts)
            self._texts.append(token)
        return found

    def notes(self) -> npt.NDArray[np.uint32]:
        """Document, raw token and position of each token that was cut last."""
        limit = self._limit
        short = [one for one in self._found if limit is None or len(self._texts[one[1]].encode()) < limit]
        return np.array(short, np.uint32).reshape(-1, 3)

    def resolve(
        self, terms: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Documents, terms and positions of what was cut last; ``terms`` has the term of each raw token."""
        documents, raw, places = self.notes().T
        found = terms[raw]
        kept = found != DROPPED
        return documents[kept], found[kept], places[kept]


def open_dictionary(base_tokenizer: str) -> Dictionary:
    """The dictionary of a base tokenizer.

    Raises
    ------
    MissingPackage, MissingFile
        The package with the model, or the dictionary, is not there.
    """
    folder = _package()
    name = base_tokenizer.partition("/")[2] or _DEFAULT
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{base_tokenizer!r} is no base tokenizer: 'jieba/' goes before the name of a dictionary")
    own = language_model_home() / "jieba" / name
    if own.is_dir():
        return _read(own / _main(own / "config.json"))
    if name != _DEFAULT:
        raise MissingFile(str(own), f"the dictionary of the base tokenizer {base_tokenizer!r} is read from there")
    return _read(folder / "dict.txt")


def _main(config: Path) -> str:
    """The file with the words, as the dictionary's own settings name it."""
    if not config.exists():
        return "dict.txt"
    try:
        told: Any = json.loads(config.read_text("utf-8"))
    except ValueError as error:
        raise CorruptFile(str(config), f"is no JSON: {error}") from None
    if not isinstance(told, dict) or not isinstance(told.get("main") or "", str):
        raise CorruptFile(str(config), 'is no object with the name of a file as "main"')
    if told.get("users"):
        raise NotSupported(
            f"{config} names more dictionaries as 'users', which are not read here: put their words in one"
        )
    return told.get("main") or "dict.txt"


def language_model_home() -> Path:
    """Where language models are, as pylance has it."""
    told = os.environ.get(_HOME)
    if told:
        return Path(told)
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "lance" / "language_models"


def _read(path: Path) -> Dictionary:
    try:
        state = path.stat()
    except FileNotFoundError:
        raise MissingFile(
            str(path), "it is the dictionary of the base tokenizer jieba: words, and how often they are"
        ) from None
    return _read_words(path, state.st_mtime_ns)


@lru_cache(2)
def _read_words(path: Path, _changed: int) -> Dictionary:
    words: dict[str, int] = {}
    total = 0
    with path.open(encoding="utf-8") as lines:
        try:
            for line in lines:
                word, often, *_ = [*line.split(), "", ""]
                if word:
                    words[word] = int(often)
                    total += words[word]
        except ValueError as error:
            raise CorruptFile(str(path), f"is no list of words and how often they are: {error}") from None
    for word in list(words):
        for end in range(1, len(word)):
            words.setdefault(word[:end], 0)
    if total <= 0:
        raise CorruptFile(str(path), "has no words")
    return Dictionary(words, math.log(total))


def _package() -> Path:
    spec = importlib.util.find_spec("jieba")
    if spec is None or spec.origin is None:
        raise MissingPackage(
            "cutting texts by the base tokenizer jieba needs the package jieba: pip install 'lancelet[jieba]'"
        )
    return Path(spec.origin).parent


@cache
def _model() -> tuple[Mapping[str, float], Mapping[str, Mapping[str, float]], Mapping[str, Mapping[str, float]]]:
    """The package's own numbers, without what importing it does: it sets up a logger and a cache."""

    def read(name: str) -> Any:
        spec = importlib.util.spec_from_file_location(f"_jieba_{name}", _package() / "finalseg" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.P

    return read("prob_start"), read("prob_trans"), read("prob_emit")

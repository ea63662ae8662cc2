"""Words reduced to their stems, by the Snowball project's algorithms of release 3.1.

Which release it is matters: an index holds stems, and a query must find the same ones. Releases differ in a word in a hundred and more
for Dutch, English, Finnish, French, German, Italian, Romanian, Spanish and the Scandinavian languages. Two packages hold the same algorithms:
``snowballstemmer``, which is Python, and ``PyStemmer``, which is compiled and used when its release is the same.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Final

from lancelet.errors import MissingPackage

_RELEASE: Final = "3.1."
_REMEMBERED: Final = 0


Stemmer = Callable[[list[str]], list[str]]


def open_stemmer(language: str) -> Stemmer:
    """A function that makes stems of words in small letters. Each thread needs its own.

    >>> open_stemmer("English")(["swimming", "tides"])
    ['swim', 'tide']
    """
    return open_compiled(language) if _has_compiled() else open_written(language)


def open_compiled(language: str) -> Stemmer:
    """A stemmer of PyStemmer."""
    stemmer = importlib.import_module("Stemmer").Stemmer(language.lower())
    # Each word is asked for once.
    stemmer.maxCacheSize = _REMEMBERED
    stem: Stemmer = stemmer.stemWords
    return stem


def open_written(language: str) -> Stemmer:
    """A stemmer of snowballstemmer."""
    try:
        module = importlib.import_module(f"snowballstemmer.{language.lower()}_stemmer")
    except ImportError:
        raise MissingPackage(
            f"stems of {language} words need the package snowballstemmer: pip install 'snowballstemmer>=3.1,<3.2', "
            "or index without stem"
        ) from None
    stem: Stemmer = getattr(module, f"{language}Stemmer")().stemWords
    return stem


@cache
def _has_compiled() -> bool:
    try:
        module = importlib.import_module("Stemmer")
    except ImportError:
        return False
    return str(module.version()).startswith(_RELEASE)

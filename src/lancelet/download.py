"""Dictionaries for the tokenizers of texts, brought to where they are looked for.

::

    python -m lancelet.download jieba

``jieba/default`` needs none of this where the package jieba is installed (``pip install 'lancelet[jieba]'``), which has the
same words. Everything here can be done by hand: a dictionary is a file in a folder below :data:`LANGUAGE_MODEL_HOME`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from lancelet.errors import CorruptFile, InvalidInput, NotSupported, StorageError
from lancelet.index.text.chinese import language_model_home

__all__ = ["LANGUAGE_MODEL_HOME", "download_jieba", "download_lindera", "main"]

LANGUAGE_MODEL_HOME: Final = str(language_model_home())
"""The folder of all dictionaries: ``LANCE_LANGUAGE_MODEL_HOME``, or one of the user's own."""

_JIEBA: Final = "https://github.com/messense/jieba-rs/raw/refs/heads/main/src/data/dict.txt"
_SECONDS: Final = 60
_LARGEST: Final = 256 << 20


def download_jieba(*, source: str = _JIEBA) -> None:
    """Fetch the dictionary of the base tokenizer ``jieba/default``, in place of the one that is there.

    Parameters
    ----------
    source
        The address of a list of words, each with how often it is; by default the one that pylance takes.

    Raises
    ------
    StorageError
        It cannot be fetched; the text says where a file that was got in another way belongs.
    """
    if not source.startswith(("https://", "http://")):
        raise InvalidInput(f"source is an address, https://..., not {source!r}")
    target = language_model_home() / "jieba" / "default" / "dict.txt"
    try:
        with urlopen(source, timeout=_SECONDS) as answer:  # noqa: S310 - the scheme was looked at
            words = answer.read(_LARGEST + 1)
    except (URLError, OSError) as error:
        raise StorageError(
            source, f"cannot be fetched ({error}); get it in another way, and put it at {target}"
        ) from None
    _check(source, words)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Nobody meets half of a dictionary.
    file, name = tempfile.mkstemp(dir=target.parent)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(words)
        Path(name).replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def download_lindera(lm: str) -> None:
    """Refuse: the tokenizers ``lindera/...`` are not known here.

    Raises
    ------
    NotSupported
        Always; for Japanese and Korean there are ``icu`` and ``ngram``.
    """
    raise NotSupported(
        f"the dictionary {lm!r} of lindera would be of no use here: for Japanese and Korean choose the base tokenizer 'icu' "
        "(pip install 'lancelet[icu]') or 'ngram'"
    )


def main() -> None:
    """Fetch what the command line names."""
    parser = argparse.ArgumentParser(prog="lancelet.download", description="Dictionaries for the tokenizers of texts.")
    parser.add_argument("tokenizer", choices=["jieba", "lindera"])
    parser.add_argument("-l", "--languagemodel")
    told = parser.parse_args()
    print(f"LANCE_LANGUAGE_MODEL_HOME={LANGUAGE_MODEL_HOME}")  # noqa: T201 - it is a program
    try:
        if told.tokenizer == "jieba":
            download_jieba()
        else:
            download_lindera(told.languagemodel)
    except (StorageError, CorruptFile, NotSupported) as error:
        parser.exit(1, f"error: {error}\n")


def _check(source: str, words: bytes) -> None:
    """Raise unless these are words and numbers."""
    first = words[: words.find(b"\n") + 1].split()
    if len(words) > _LARGEST or len(first) < 2 or not first[1].isdigit():
        raise CorruptFile(source, "is no list of words and how often they are")


if __name__ == "__main__":
    main()

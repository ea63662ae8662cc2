"""``tokenize`` shows what pylance's does, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

import lance
import pytest

import lancelet

TEXTS = (
    "",
    "the and",
    "the Cats and Dogs",
    "Hello the running Wörlds-fooBar 12",
    "ÉCOLE naïve ﬁne",
    "parseHTTPResponse2 = snake_case->other::thing != 0x1F",
    "x" * 39 + " " + "y" * 40 + " " + "z" * 41,
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"stem": False, "remove_stop_words": False, "lower_case": False, "ascii_folding": False},
    {"max_token_length": None},
    {"max_token_length": 5},
    {"language": "German", "stem": True},
    {"custom_stop_words": ["cats", "hello"]},
    {"base_tokenizer": "whitespace"},
    {"base_tokenizer": "raw"},
    {"base_tokenizer": "ngram"},
    {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 4, "prefix_only": True},
    {"analyzer": "text"},
    {"analyzer": "code"},
    {"analyzer": "code", "split_identifiers": True, "index_operators": True, "preserve_original": False},
    {"analyzer": "code", "split_on_numerics": False},
)
REFUSED: tuple[tuple[Any, dict[str, Any]], ...] = (
    ("a", {"base_tokenizer": "none"}),
    ("a", {"language": "Klingon"}),
    ("a", {"analyzer": "prose"}),
    ("a", {"analyzer": "text", "split_identifiers": True}),
    ("a", {"base_tokenizer": "ngram", "min_ngram_length": 4, "max_ngram_length": 2}),
    (b"a", {}),
    (None, {}),
    ("a", {"stem": "yes"}),
    ("a", {"max_token_length": "long"}),
    ("a", {"max_token_length": -1}),
    ("a", {"custom_stop_words": "the"}),
    ("a", {"unheard": 1}),
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tokens_are_pylance_s(options: dict[str, Any]) -> None:
    for text in TEXTS:
        ours, theirs = lancelet.tokenize(text, **options), lance.tokenize(text, **options)
        assert [(token.text, token.position) for token in ours] == [(token.text, token.position) for token in theirs]
        assert [repr(token) for token in ours] == [repr(token) for token in theirs]


@pytest.mark.parametrize(("text", "options"), REFUSED, ids=str)
def test_what_pylance_refuses_is_refused(text: Any, options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)) as theirs:
        lance.tokenize(text, **options)
    with pytest.raises(theirs.type):
        lancelet.tokenize(text, **options)

"""Tokens of texts, against pylance's own."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancelet.errors import NotSupported
from lancelet.index.text import splitting
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.characters import CHARACTERS
from lancelet.index.text.params import Params
from lancelet.index.text.splitting import Splitter
from lancelet.index.text.terms import Terms

PLAIN = {"stem": False, "remove_stop_words": False, "ascii_folding": False, "max_token_length": None}
UNICODE = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def expected(text: str, **options: object) -> list[tuple[str, int]]:
    return [(token.text, token.position) for token in lance.tokenize(text, **options)]


def found(text: str, **options: object) -> list[tuple[str, int]]:
    """As pylance counts positions: from the first token that is left."""
    tokens = Analyzer(Params(**options)).query(text)
    return [(term.decode(), position - tokens[0][1]) for term, position in tokens]


@pytest.mark.parametrize("base", ["simple", "whitespace", "raw"])
@pytest.mark.parametrize("lower", [False, True])
def test_every_character_of_unicode_is_split_and_lowered_as_pylance_does(base, lower):
    for text in (UNICODE, "aΣ".join(UNICODE[:0x800])):
        assert found(text, base_tokenizer=base, lower_case=lower, **PLAIN) == expected(
            text, base_tokenizer=base, lower_case=lower, **PLAIN
        )


def test_a_capital_sigma_at_the_end_of_a_word_is_like_any_other():
    assert found("ΟΔΥΣΣΕΥΣ ΣΑΣ İstanbul", **PLAIN) == [("οδυσσευσ", 0), ("σασ", 1), ("i̇stanbul", 2)]


def test_tokens_of_as_many_bytes_as_the_limit_are_left_out_and_take_up_a_position():
    text = "abc abcd é éé xyz"
    for base in ("simple", "whitespace", "ngram", "raw"):
        options = {**PLAIN, "base_tokenizer": base, "max_token_length": 4}
        assert found(text, **options) == expected(text, **options)


@pytest.mark.parametrize("base", ["simple", "whitespace", "code"])
def test_words_are_the_same_wherever_in_a_text_they_lie(base):
    random = np.random.default_rng(4)
    letters = np.array(list("abcXYZ019_éß海"))
    shares = np.array([0.16] * 6 + [0.01] * 4)
    for with_others in (False, True):
        chosen, weights = (letters, np.append(shares, [0] * 3)) if with_others else (letters[:10], shares)
        if with_others:
            weights[-3:] = 0.02
        words = [
            "".join(random.choice(chosen, size, p=weights / weights.sum()))
            for size in np.minimum(random.geometric(0.15, 2000), 80)
        ]
        text = "".join(word + mark for word, mark in zip(words, random.choice(list(" .,\n\u2003"), 2000), strict=True))
        for start in (0, 1, 63, 64):
            options = {**PLAIN, "base_tokenizer": base, "lower_case": True}
            assert found(text[start:], **options) == expected(text[start:], **options)


def test_documents_terms_and_positions_of_a_batch():
    analyzer = Analyzer(Params(**PLAIN))
    texts = pa.array(["skipped", "Kelp, kelp", None, "", "tide Kelp"]).slice(1)
    tokens = analyzer.analyze(texts)
    assert tokens.document.tolist() == [0, 0, 3, 3]
    assert [analyzer.terms.text(term) for term in tokens.term] == [b"kelp", b"kelp", b"tide", b"kelp"]
    assert tokens.position.tolist() == [0, 1, 0, 1]
    assert len(analyzer.terms) == 2


def test_tokenizers_with_dictionaries_of_pylances_own_are_refused_by_name():
    with pytest.raises(NotSupported, match="'lindera/ipadic'.*'icu'"):
        Analyzer(Params(base_tokenizer="lindera/ipadic"))


@pytest.mark.parametrize("kind", [splitting.SIMPLE, splitting.CODE, splitting.ICU])
def test_bytes_beyond_the_last_character_are_no_word(kind):
    """What lies in memory behind the table of characters says that they are one."""
    table = np.ones(2 * CHARACTERS, np.uint8)
    table[:CHARACTERS] = 0
    words = table[:CHARACTERS]
    splitter = Splitter(kind, words, parts=True, numbers=True, segments=words, marks=words)
    for first, second in ((0xF4, 0x90), (0xF4, 0xBF), (0xF5, 0x80)):
        text = bytes([first, second, 0x80, 0x80])
        nothing = np.empty(0, np.uint8)
        splitter.split(np.frombuffer(text, np.uint8), np.array([0, 4]), nothing, nothing.astype(np.int64))
        assert len(splitter) == 0


def test_filters_tell_what_becomes_of_each_token():
    splitter = Splitter(splitting.SIMPLE, np.ones(CHARACTERS, np.uint8))
    nothing = np.empty(0, np.uint8)
    splitter.split(np.frombuffer(b"reef", np.uint8), np.array([0, 4]), nothing, nothing.astype(np.int64))
    with pytest.raises(ValueError, match="each raw token"):
        splitter.intern(0, [], True, Terms(), np.empty(1, np.uint32))

"""Tokens of texts, against pylance's own."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from lancelet.errors import NotSupported
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.params import Params

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

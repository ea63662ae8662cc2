"""Stems, stop words and folding, against pylance's own."""

from __future__ import annotations

import itertools
import threading

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import SEED, examples
from lancelet.index.text import stemming
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.params import LANGUAGES, Params
from lancelet.index.text.stop_words import stop_words
from text.samples import LANGUAGES as TEXTS
from text.samples import SCRIPTS, hard_words

NOTHING = {
    "lower_case": False,
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
}
EVERYTHING = " ".join([*SCRIPTS.values(), *TEXTS.values()])


def expected(text: str, **options: object) -> list[tuple[str, int]]:
    return [(token.text, token.position) for token in lance.tokenize(text, **options)]


def found(text: str, **options: object) -> list[tuple[str, int]]:
    """As pylance counts positions: from the first token that is left."""
    tokens = Analyzer(Params(**options)).query(text)
    return [(term.decode(), position - tokens[0][1]) for term, position in tokens]


def check(text: str, **options: object) -> None:
    assert found(text, **options) == expected(text, **options)


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_of_every_script_have_pylances_tokens_in_every_language(language):
    for base in ("simple", "whitespace"):
        check(EVERYTHING, language=language, base_tokenizer=base)


@pytest.mark.parametrize("language", LANGUAGES)
def test_hard_words_have_pylances_stems(language):
    text = " ".join(hard_words(language, examples(500), SEED))
    check(text, **{**NOTHING, "stem": True, "language": language, "base_tokenizer": "whitespace"})


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_stemmer_written_in_python_has_the_stems_of_the_compiled_one(language):
    words = hard_words(language, examples(100), SEED)
    compiled, written = stemming.open_compiled(language), stemming.open_written(language)
    assert written(words) == compiled(words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_exactly_pylances_stop_words_are_removed(language):
    of_all = sorted(set().union(*map(stop_words, LANGUAGES)) | {word.upper() for word in stop_words(language)})
    check(
        " ".join(of_all), **{**NOTHING, "remove_stop_words": True, "language": language, "base_tokenizer": "whitespace"}
    )


def test_custom_stop_words_take_the_place_of_those_of_the_language():
    for words in (("Reef", "kelp", "run", "cafe"), ()):
        options = {"remove_stop_words": True, "custom_stop_words": words, "stem": True}
        given_words = {**options, "custom_stop_words": list(words)}
        text = "the Reef of kelp running past the café, cafe KELP"
        assert found(text, **options) == expected(text, **given_words)


@pytest.mark.parametrize("end", [0x4000, pytest.param(0x110000, marks=pytest.mark.soak)])
def test_every_character_of_unicode_is_folded_as_pylance_does(end):
    # Above, only these are letters and digits of ASCII in another dress.
    others = [*range(0xA640, 0xAC00), *range(0xF900, 0xFFFF), *range(0x10780, 0x107C0), *range(0x1CCD0, 0x1CCFA)]
    others += [*range(0x1D400, 0x1D800), *range(0x1E030, 0x1E070), *range(0x1F100, 0x1F200), *range(0x1FBF0, 0x1FBFA)]
    codes = [code for code in range(end) if not 0xD800 <= code < 0xE000] + others
    text = " ".join(map(chr, codes))
    check(text, **{**NOTHING, "ascii_folding": True, "base_tokenizer": "whitespace"})


@pytest.mark.parametrize("switches", list(itertools.product([False, True], repeat=4)))
def test_filters_go_together_in_pylances_order(switches):
    names = ("lower_case", "stem", "remove_stop_words", "ascii_folding")
    options = {**NOTHING, **dict(zip(names, switches, strict=True))}
    for language in ("English", "German", "Turkish"):
        check(EVERYTHING + " theirs Very ÖFTER été", language=language, **options)


@given(text=st.text(max_size=60), base=st.sampled_from(["simple", "whitespace", "raw", "ngram"]), data=st.data())
@settings(max_examples=examples(80), deadline=None)
def test_any_text_has_pylances_tokens(text, base, data):
    options = {
        "base_tokenizer": base,
        "language": data.draw(st.sampled_from(LANGUAGES)),
        "max_token_length": data.draw(st.sampled_from([None, 40, 8, 2])),
        "min_ngram_length": data.draw(st.integers(1, 3)),
        "max_ngram_length": data.draw(st.integers(3, 5)),
        "prefix_only": data.draw(st.booleans()),
        **{name: data.draw(st.booleans()) for name in ("lower_case", "stem", "remove_stop_words", "ascii_folding")},
    }
    check(text, **options)


def test_threads_share_terms_and_find_the_same_tokens():
    analyzer = Analyzer(Params(language="French"))
    texts = pa.array([*SCRIPTS.values(), *TEXTS.values()] * 20)
    alone = Analyzer(Params(language="French"))
    answers: list[list[tuple[int, bytes, int]]] = []

    def read(of: Analyzer) -> list[tuple[int, bytes, int]]:
        tokens = of.analyze(texts)
        return [(d, of.terms.text(t), p) for d, t, p in zip(tokens.document, tokens.term, tokens.position, strict=True)]

    threads = [threading.Thread(target=lambda: answers.append(read(analyzer))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [read(alone)] * 4
    assert len(analyzer.terms) == len(alone.terms)

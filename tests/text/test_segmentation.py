"""ICU's words, with and without spaces between them, against pylance's own."""

from __future__ import annotations

import random
from functools import cache

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import SEED, examples
from lancelet.errors import MissingPackage
from lancelet.index.text import dictionaries, params
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.dictionaries import read_words
from lancelet.index.text.params import Params
from lancelet.index.text.stop_words import stop_words, stop_words_of_all
from text.samples import LANGUAGES, SCRIPTS

PLAIN = {
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
    "lower_case": False,
}
words_of = cache(read_words)
DICTIONARIES = ("thai", "lao", "khmer", "burmese", "cj")
MIXED = "ab1カא_'\".,:;- \r\n\u0301\u200d\u00ad\U0001f1e6\u2764\u3031\U0001f469²\u24c2\u0660\u066b\u3000\u2019é시中々〇かไทย\u1950"


def found(text: str, **options: object) -> list[tuple[str, int]]:
    tokens = Analyzer(Params(**options)).query(text)
    return [(term.decode(), position - tokens[0][1]) for term, position in tokens]


def check(text: str, **options: object) -> None:
    assert found(text, **options) == [(token.text, token.position) for token in lance.tokenize(text, **options)]


@pytest.mark.parametrize("base", ["icu", "icu/split"])
@pytest.mark.parametrize("text", [*SCRIPTS.values(), *LANGUAGES.values()], ids=[*SCRIPTS, *LANGUAGES])
def test_texts_of_every_script(text, base):
    check(text, base_tokenizer=base, **PLAIN)
    check(text, base_tokenizer=base)


@pytest.mark.parametrize("pattern", ["%sa", "a%sa", "1%s1", "カ%sカ", "א%sא", "%s\u0301a", "_%s_", "ก%sก", "中%s中"])
@pytest.mark.parametrize("end", [0x3400, pytest.param(0x110000, marks=pytest.mark.soak)])
@pytest.mark.spread(0.5, each=False)
def test_every_character_of_unicode(pattern, end):
    text = "\n".join(pattern.replace("%s", chr(code)) for code in range(end) if not 0xD800 <= code < 0xE000)
    check(text, base_tokenizer="icu", **PLAIN)


@given(
    text=st.text(st.sampled_from(MIXED) | st.characters(codec="utf-8"), max_size=30),
    base=st.sampled_from(["icu", "icu/split"]),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_text(text, base):
    check(text, base_tokenizer=base, **PLAIN)


@pytest.mark.parametrize("name", DICTIONARIES)
def test_texts_put_together_of_the_words_of_a_dictionary(name):
    draw = random.Random(SEED)
    words = words_of(name)
    for _ in range(examples(150)):
        chosen = draw.choices(words, k=draw.randint(1, 7))
        check(
            "".join(word if draw.random() < 0.8 else draw.choice(word) for word in chosen),
            base_tokenizer="icu",
            **PLAIN,
        )


def test_a_whole_text_of_several_languages_without_spaces():
    draw = random.Random(SEED)
    words = [word for name in DICTIONARIES for word in draw.choices(words_of(name), k=60)]
    draw.shuffle(words)
    check("".join(words), base_tokenizer="icu", **PLAIN)


@pytest.mark.parametrize("language", ["English", "Tamil"])
def test_stop_words_are_those_of_all_languages_whatever_the_language(language):
    of_any = sorted(stop_words_of_all().union(*map(stop_words, params.LANGUAGES)))
    options = {**PLAIN, "remove_stop_words": True, "language": language}
    for base in ("icu", "icu/split"):
        check("reef\n" + "\n".join(of_any), base_tokenizer=base, **options)
    text = "the und 的 reef"
    assert found(text, base_tokenizer="icu", custom_stop_words=("reef",)) == [("the", 0), ("und", 1), ("的", 2)]
    assert [
        token.text for token in lance.tokenize(text, base_tokenizer="icu", custom_stop_words=["reef"])
    ] == text.split()[:3]


def test_what_is_missing_for_a_text_without_spaces_is_told_in_a_sentence(monkeypatch):
    monkeypatch.setattr(dictionaries, "PACKAGE", "a-package-that-nobody-has")
    with pytest.raises(MissingPackage, match=r"a-package-that-nobody-has.*pip install 'lancelet\[icu\]'"):
        dictionaries.read_words("thai")

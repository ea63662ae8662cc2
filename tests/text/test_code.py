"""Source code: identifiers, their parts and operators, against pylance's own."""

from __future__ import annotations

import itertools

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.index.text.analyzer import Analyzer
from lancelet.index.text.params import Params
from text.samples import SCRIPTS

FLAGS = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
NAMES = (
    "parseHTTPResponse2 foo_bar__baz _x __init__ x2y 0xFF fooBARBaz HTML5Parser ABC123def i18n éCole ΑΒγδ ǅabc ªB Ⅻa "
    "snake_case_ A_B aB_c9_D STRASSEß x٣y 你2好B ⓐⓑⒶ a1B2c3"
)
OPERATORS = "a+=b->c; x<<=>>>=2 !==y <=>z ?.q ??= ...*/ //= ^|&&=|>~ :\0 +\0=\0"


def check(text: str, **options: object) -> None:
    tokens = Analyzer(Params(format_version=3, base_tokenizer="code", **options)).query(text)
    found = [(term.decode(), position - tokens[0][1]) for term, position in tokens]
    expected = [(token.text, token.position) for token in lance.tokenize(text, base_tokenizer="code", **options)]
    assert found == expected


def options(switches: tuple[bool, ...]) -> dict[str, object]:
    return {**dict(zip(FLAGS, switches, strict=True)), "stem": False, "remove_stop_words": False}


@pytest.mark.parametrize("switches", list(itertools.product([False, True], repeat=len(FLAGS))))
def test_identifiers_and_operators_are_pylances(switches):
    for text in (NAMES, OPERATORS, " ".join(SCRIPTS.values())):
        for lower in (False, True):
            check(text, **options(switches), lower_case=lower)


@pytest.mark.parametrize("numbers", [False, True])
def test_every_letter_is_as_large_as_pylance_has_it(numbers):
    letters = [chr(code) for code in range(0x1F200) if not 0xD800 <= code < 0xE000 and not 0x3400 <= code < 0xA000]
    text = " ".join(f"b{char}C{char}" for char in letters)
    check(text, **options((True, numbers, False, False)), lower_case=False, ascii_folding=False)


@given(
    text=st.text(st.one_of(st.sampled_from("aBCd_12 éÉ-<=>&|"), st.characters(codec="utf-8")), max_size=40),
    switches=st.tuples(*[st.booleans()] * len(FLAGS)),
    limit=st.sampled_from([None, 40, 4]),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_text_as_code_has_pylances_tokens(text, switches, limit):
    check(text, **options(switches), max_token_length=limit)

"""Regular expressions: Rust's syntax on RE2, linear in the text wherever the pattern comes from."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawing import examples
from lancelet.errors import InvalidInput
from lancelet.expressions.evaluate import evaluate
from lancelet.expressions.regex import compile_regex
from lancelet.expressions.sql import parse_expression

BATCH = pa.record_batch({"s": ["a" * 20_000 + "b", "ba", None], "p": ["^(a+)+$", "a", "a"], "q": ["b", "(", "x"]})
CALLS = [
    "regexp_like({})",
    "regexp_match({})",
    "regexp_replace({}, '-')",
    "regexp_count({})",
    "regexp_instr({})",
]


def values(text: str) -> list[object]:
    return evaluate(parse_expression(text, BATCH.schema), BATCH).to_pylist()


@pytest.mark.parametrize("call", CALLS)
def test_a_pattern_that_makes_others_backtrack_is_matched_in_linear_time(call: str):
    # A matcher that backtracks would take longer than the universe has existed.
    nothing = values(call.format("s, p"))
    assert values(call.format("s, '^(a+)+$'"))[:1] == nothing[:1]


@pytest.mark.parametrize("call", CALLS)
def test_a_pattern_that_is_none_is_shown_in_the_error(call: str):
    for pattern in ("q", "'('"):
        with pytest.raises(InvalidInput, match=r"'\(' is not a regular expression"):
            values(call.format(f"s, {pattern}"))


def test_a_literal_pattern_is_refused_before_there_are_rows():
    with pytest.raises(InvalidInput, match="not a regular expression"):
        parse_expression("regexp_like(s, '[')", BATCH.schema)


@pytest.mark.parametrize(
    "pattern", ["(?=a)", r"(a)\1", "a{", r"\Qa\E", "[a&&b]", "[a[b]]", r"\012", r"\C", "(?x:a)", "\\"]
)
def test_what_the_two_engines_see_differently_is_refused(pattern: str):
    with pytest.raises(InvalidInput, match="not a regular expression"):
        compile_regex(pattern)


def test_borders_of_words_are_refused_where_letters_are_not_ascii():
    texts = pa.record_batch({"s": ["a b", "été"]})
    expr = parse_expression(r"regexp_like(s, '\bb')", texts.schema)
    assert evaluate(expr, texts.slice(0, 1)).to_pylist() == [True]
    with pytest.raises(InvalidInput, match="borders of words"):
        evaluate(expr, texts)


PIECES = st.sampled_from(
    ["a", "b", "é", ".", r"\w", r"\s", r"\d", "[ab]", "[^a]", "(a|b)", "a?", "b*", "(?:ab)+", "^", "$"]
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(PIECES, max_size=5).map("".join), st.lists(st.text("abé 1\n", max_size=6), min_size=1, max_size=4))
def test_simple_patterns_match_what_python_matches(pattern: str, texts: list[str]):
    batch = pa.record_batch({"s": texts, "p": [pattern] * len(texts)})
    expr = parse_expression("regexp_like(s, p)", batch.schema)
    wanted = [re.search(pattern.replace("$", r"\Z"), text) is not None for text in texts]
    assert evaluate(expr, batch).to_pylist() == wanted

"""The names of ``lance.query``: same arguments, and errors that say what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance.query
import pyarrow as pa
import pytest

import lancelet.query
from lancelet.errors import InvalidInput, InvalidOption, InvalidType
from lancelet.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    DocumentGranularity,
    FullTextOperator,
    FullTextQuery,
    FullTextQueryType,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)

WORD = MatchQuery("a", "b")
SHOWN = [
    "MatchQuery('a', 'b')",
    "MatchQuery('a', 'b', boost=2.0, fuzziness=1, max_expansions=3, operator=FullTextOperator.AND, prefix_length=2)",
    "MatchQuery('a', 'b', document_granularity=DocumentGranularity.LIST_ELEMENT)",
    "PhraseQuery('a b', 'c', slop=2)",
    "BoostQuery(MatchQuery('a', 'b'), PhraseQuery('c', 'd'), negative_boost=0.25)",
    "MultiMatchQuery('a', ['b', 'c'], boosts=[1.0, 2.0], operator=FullTextOperator.AND)",
    "CombinedFieldsQuery('a', ['b', 'c'])",
    "BooleanQuery([(Occur.MUST, MatchQuery('a', 'b')), (Occur.MUST_NOT, MatchQuery('c', 'b'))])",
]


@pytest.mark.parametrize("text", SHOWN)
def test_a_query_shows_how_it_is_written(text: str) -> None:
    query = eval(text)
    assert repr(query) == text
    assert query == eval(text)
    assert hash(query) == hash(eval(text))
    assert query != PhraseQuery("another", "one")
    assert pickle.loads(pickle.dumps(query)) == query


def test_enumerations_have_pylances_members() -> None:
    for name in ("Occur", "FullTextOperator", "FullTextQueryType", "DocumentGranularity"):
        theirs, ours = getattr(lance.query, name), getattr(lancelet.query, name)
        assert {member.name: member.value for member in ours} == {member.name: member.value for member in theirs}


def test_queries_tell_their_kind() -> None:
    kinds = [
        WORD,
        PhraseQuery("a", "b"),
        BoostQuery(WORD, WORD),
        MultiMatchQuery("a", ["b"]),
        CombinedFieldsQuery("a", ["b"]),
        BooleanQuery([]),
    ]
    assert [query.query_type() for query in kinds] == list(FullTextQueryType)


def test_and_and_or_make_boolean_queries() -> None:
    other = PhraseQuery("c d", "b")
    assert WORD & other == BooleanQuery([(Occur.MUST, WORD), (Occur.MUST, other)])
    assert WORD | other == BooleanQuery([(Occur.SHOULD, WORD), (Occur.SHOULD, other)])


def test_no_fuzziness_is_none_of_it() -> None:
    assert MatchQuery("a", "b", fuzziness=None) == WORD


BAD: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda m: m.MatchQuery(1, "a"), InvalidType, "query is a text, not 1"),
    (lambda m: m.MatchQuery("a", None), InvalidType, "column is a text, not None"),
    (lambda m: m.MatchQuery("a", "b", boost="x"), InvalidType, "boost is a number, not 'x'"),
    (
        lambda m: m.MatchQuery("a", "b", fuzziness=-1),
        InvalidOption,
        "fuzziness is a number from 0 to 4294967295, got -1",
    ),
    (lambda m: m.MatchQuery("a", "b", max_expansions=-1), InvalidOption, "max_expansions is a number from 0"),
    (lambda m: m.PhraseQuery("a", "b", slop=2**32), InvalidOption, "slop is a number from 0 to 4294967295"),
    (lambda m: m.PhraseQuery("a", "b", slop=1.5), InvalidType, "slop is a whole number, not 1.5"),
    (lambda m: m.MultiMatchQuery("a", []), InvalidInput, "MultiMatchQuery with no columns"),
    (lambda m: m.MultiMatchQuery("a", "bc"), InvalidType, "columns is a list of names, not 'bc'"),
    (lambda m: m.MultiMatchQuery("a", ["b"], boosts=[1, 2]), InvalidInput, "The number of boosts must match"),
    (lambda m: m.CombinedFieldsQuery("a", []), InvalidInput, "CombinedFieldsQuery with no columns"),
    (lambda m: m.CombinedFieldsQuery("a", ["b", "b"]), InvalidInput, "'b' is duplicated"),
    (
        lambda m: m.CombinedFieldsQuery("a", ["b"], boosts=[0.5]),
        InvalidInput,
        r"must be a finite value in \[1, 1048576\]",
    ),
    (lambda m: m.BooleanQuery([m.MatchQuery("a", "b")]), InvalidType, "one of them is MatchQuery"),
    (lambda m: m.FullTextQuery(), TypeError, "abstract"),
]


@pytest.mark.parametrize(("make", "error", "text"), BAD, ids=[text for *_, text in BAD])
def test_bad_arguments_are_refused_as_pylance_does(
    make: Callable[[Any], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as ours:
        make(lancelet.query)
    with pytest.raises((TypeError, ValueError, OverflowError)) as theirs:
        make(lance.query)
    assert isinstance(ours.value, theirs.type)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: MatchQuery("a", "b", operator="AND"),
            "operator is one of FullTextOperator.AND, FullTextOperator.OR, not 'AND'",
        ),
        (lambda: MatchQuery("a", "b", document_granularity="row"), "document_granularity is one of"),
        (lambda: BoostQuery("a", WORD), "positive is a query, such as MatchQuery, not 'a'"),
        (lambda: BooleanQuery([("MUST", WORD)]), "occur is one of Occur.SHOULD"),
        (lambda: BooleanQuery(WORD), "queries is a list of pairs"),
        (lambda: WORD & 3, "a part of a boolean query is a query, such as MatchQuery, not 3"),
    ],
)
def test_what_pylance_finds_no_words_for_is_a_wrong_type(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidType, match=text):
        make()


def test_enumerations_are_texts_where_pylances_are() -> None:
    assert DocumentGranularity.ROW == "row"
    assert isinstance(WORD, FullTextQuery)
    assert FullTextOperator("AND") is FullTextOperator.AND


def test_half_a_character_is_refused_in_a_sentence(tmp_path: Path) -> None:
    dataset = lancelet.write_dataset(pa.table({"text": ["kelp"]}), tmp_path / "t")
    searches: list[Callable[[], object]] = [
        lambda: MatchQuery("kelp \udc00", "text"),
        lambda: dataset.to_table(full_text_query="kelp \udc00"),
        lambda: dataset.search(text="kelp \udc00"),
    ]
    for search in searches:
        with pytest.raises(InvalidInput, match="character 6 is half of a surrogate pair"):
            search()

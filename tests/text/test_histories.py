"""Searches stay right while a table lives on: with our own indices, deletes, updates, appends, compaction and merged segments."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest
from tests.text.oracle import Texts
from tests.text.test_matching import PLAIN, WORDS, assert_same, ranked, sentences

import lancelet
import lancelet.query
from lancelet.errors import InvalidInput
from lancelet.query import BooleanQuery, MatchQuery, Occur, PhraseQuery

QUERIES = [
    MatchQuery("w1 w2 w9", "text"),
    MatchQuery("w0 w3", "text", operator=lancelet.query.FullTextOperator.AND),
    PhraseQuery("w0 w1", "text", slop=1),
    BooleanQuery([(Occur.MUST, MatchQuery("w1", "text")), (Occur.MUST_NOT, MatchQuery("w0", "text"))]),
]


def theirs(query: Any) -> Any:
    """The same query in pylance's words."""
    return eval(repr(query), vars(lance.query))


def check(dataset: lancelet.LanceDataset, *, is_fresh: bool) -> None:
    """Both find the same, and where all rows are indexed and none was deleted since, what brute force finds."""
    rows = dataset.to_table(["id", "text"])
    texts = Texts(dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)))
    other = lance.dataset(dataset.uri)
    for query in QUERIES:
        for options in ({}, {"limit": 5}):
            found = ranked(dataset, query, **options)
            assert_same(ranked(other, theirs(query), **options), found)
            expected = texts.answer(query.inner)
            if is_fresh and not options:
                assert set(found[0]) == set(expected)
                np.testing.assert_allclose(found[1], sorted(expected.values(), reverse=True), rtol=1e-5)
            elif not options:
                assert set(found[0]) == set(expected)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_searches_follow_a_table(tmp_path: Path, stable: bool) -> None:
    draw = random.Random(9)
    uri = tmp_path / "table"

    def rows(first: int, count: int) -> pa.Table:
        return pa.table({"id": range(first, first + count), "text": sentences(draw, count, 12)})

    dataset = lancelet.write_dataset(rows(0, 400), uri, max_rows_per_file=150, enable_stable_row_ids=stable)
    dataset.create_scalar_index("text", "INVERTED", **PLAIN)
    check(dataset, is_fresh=True)
    dataset = lancelet.write_dataset(rows(400, 100), uri, mode="append")
    check(dataset, is_fresh=False)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    check(dataset, is_fresh=True)
    dataset.update({"text": "'w0 w1 again'"}, where="id % 40 = 7")
    dataset.delete("id % 11 = 5")
    check(dataset, is_fresh=False)
    dataset.optimize.compact_files()
    check(dataset, is_fresh=False)
    dataset.optimize.optimize_indices(num_indices_to_merge=10)
    dataset = lancelet.write_dataset(rows(500, 30), uri, mode="append")
    check(dataset, is_fresh=False)


def test_a_search_of_an_unindexed_column_is_that_of_an_index_once_it_has_one(tmp_path: Path) -> None:
    table = pa.table({"id": range(300), "text": sentences(random.Random(2), 300, 12)})
    dataset = lancelet.write_dataset(table, tmp_path / "table", max_rows_per_file=100)
    before = [ranked(dataset, query) for query in QUERIES]
    dataset.create_scalar_index("text", "INVERTED", **PLAIN)
    for query, expected in zip(QUERIES, before, strict=True):
        assert_same(expected, ranked(dataset, query))


def test_tokens_of_unindexed_texts_are_kept_in_the_session(tmp_path: Path) -> None:
    table = pa.table({"id": range(50), "text": sentences(random.Random(2), 50, 12)})
    lancelet.write_dataset(table, tmp_path / "table")
    session = lancelet.Session()
    dataset = lancelet.dataset(tmp_path / "table", session=session)
    first = ranked(dataset, QUERIES[0])
    kept = dataset.table.cache.indices
    misses = kept.misses
    assert len(kept) == 1
    assert ranked(dataset, QUERIES[0])[0] == first[0]
    # Another version has other rows, of the same texts.
    dataset.delete("id = 3")
    everything = MatchQuery(" ".join(WORDS), "text")
    assert 3 not in ranked(lancelet.dataset(tmp_path / "table", session=session), everything)[0]
    assert kept.misses == misses


def test_a_session_that_may_keep_nothing_finds_the_same(tmp_path: Path) -> None:
    table = pa.table({"id": range(200), "text": sentences(random.Random(4), 200, 12)})
    dataset = lancelet.write_dataset(table.slice(0, 120), tmp_path / "table")
    dataset.create_scalar_index("text", "INVERTED", **PLAIN)
    lancelet.write_dataset(table.slice(120), tmp_path / "table", mode="append")
    poor = lancelet.dataset(tmp_path / "table", session=lancelet.Session(index_cache_size_bytes=0))
    for query in [*QUERIES, MatchQuery("w1 x2", "text", fuzziness=1)]:
        assert ranked(poor, query)[0] == ranked(lancelet.dataset(tmp_path / "table"), query)[0]
    assert len(poor.table.cache.indices) == 0


def test_json_documents_are_searched_by_path(tmp_path: Path) -> None:
    documents = ['{"a":"w1 w2","n":3,"o":{"p":"w3 deep"}}', '{"a":"w1","b":true}', '{"a":["w1","w2"],"n":4}', None]
    field = pa.field("j", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
    schema = pa.schema([pa.field("id", pa.int64()), field])

    def rows(first: int) -> pa.Table:
        return pa.table([pa.array(range(first, first + 4)), pa.array(documents, pa.string())], schema=schema)

    other = lance.write_dataset(rows(0), tmp_path / "table")
    other.create_scalar_index("j", "INVERTED", **{**PLAIN, "max_token_length": 40})
    other = lance.write_dataset(rows(4), tmp_path / "table", mode="append")
    ours = lancelet.dataset(tmp_path / "table")
    for text in ("a,str,w1", "o.p,str,deep", "n,number,3", "b,bool,true", "a,str,w1 w2"):
        assert_same(ranked(other, lance.query.MatchQuery(text, "j")), ranked(ours, MatchQuery(text, "j")))
    phrase = "a,str,w1 w2"
    assert_same(ranked(other, lance.query.PhraseQuery(phrase, "j")), ranked(ours, PhraseQuery(phrase, "j")))


def items_of(dataset: Any, query: Any, **options: Any) -> tuple[list[tuple[int, int]], Any]:
    found = dataset.to_table(columns=["id", "_score"], full_text_query=query, **options)
    pairs = zip(found["id"].to_pylist(), found["_doc_index"].to_pylist(), strict=True)
    return [(row, item) for row, (item,) in pairs], found["_score"].to_numpy()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_items_of_lists_are_texts_of_their_own_where_the_index_says_so(tmp_path: Path, stable: bool) -> None:
    draw = random.Random(6)
    lists = [None if number % 17 == 3 else sentences(draw, number % 4, 6) for number in range(300)]
    table = pa.table({"id": range(300), "l": pa.array(lists, pa.list_(pa.string()))})
    other = lance.write_dataset(table.slice(0, 200), tmp_path / "table", enable_stable_row_ids=stable)
    whole = lance.query.DocumentGranularity.LIST_ELEMENT
    other.create_scalar_index("l", "INVERTED", document_granularity=whole, **PLAIN)
    other = lance.write_dataset(table.slice(200), tmp_path / "table", mode="append")
    other.delete("id % 13 = 2")
    ours = lancelet.dataset(tmp_path / "table")
    queries = [
        MatchQuery("w1 w2", "l"),
        MatchQuery("w0 w1", "l", operator=lancelet.query.FullTextOperator.AND),
        PhraseQuery("w0 w1", "l"),
        BooleanQuery([(Occur.MUST, MatchQuery("w1", "l")), (Occur.MUST, MatchQuery("w0", "l"))]),
        BooleanQuery([(Occur.SHOULD, PhraseQuery("w0 w1", "l")), (Occur.SHOULD, MatchQuery("w2", "l"))]),
    ]
    for query in queries:
        for options in ({}, {"limit": 7}, {"filter": "id < 250", "prefilter": True}):
            expected, found = items_of(other, theirs(query), **options), items_of(ours, query, **options)
            np.testing.assert_allclose(found[1], np.sort(expected[1])[::-1], rtol=1e-6)
            if "limit" not in options:
                assert sorted(found[0]) == sorted(expected[0])
    asked = {"full_text_query": MatchQuery("w1", "l"), "limit": 1}
    expected_schema = other.to_table(
        full_text_query=lance.query.MatchQuery("w1", "l"), limit=1, with_row_id=True
    ).schema
    assert ours.to_table(**asked, with_row_id=True).schema == expected_schema
    for granularity in lancelet.query.DocumentGranularity:
        query = MatchQuery("w1", "l", document_granularity=granularity)
        if granularity == "list_element":
            assert items_of(ours, query)[0] == items_of(ours, MatchQuery("w1", "l"))[0]
        else:
            with pytest.raises(InvalidInput, match="requested row document granularity"):
                ours.to_table(full_text_query=query)


def test_items_of_lists_are_searched_without_an_index(tmp_path: Path) -> None:
    table = pa.table({"id": range(3), "l": [["a b", "c"], ["b", None, "a"], None], "s": ["a", "b", "c"]})
    other = lance.write_dataset(table, tmp_path / "table")
    ours = lancelet.dataset(tmp_path / "table")
    names = (lance.query, other), (lancelet.query, ours)
    expected, found = (
        items_of(
            dataset,
            library.MatchQuery("a b", "l", document_granularity=library.DocumentGranularity.LIST_ELEMENT),  # type: ignore[attr-defined]
        )
        for library, dataset in names
    )
    assert dict(zip(*expected, strict=True)) == pytest.approx(dict(zip(*found, strict=True)))
    whole = lancelet.query.DocumentGranularity.LIST_ELEMENT
    with pytest.raises(InvalidInput, match="column 's' has no lists"):
        ours.to_table(full_text_query=MatchQuery("a", "s", document_granularity=whole))
    mixed = MatchQuery("a", "l", document_granularity=whole) | MatchQuery("a", "s")
    with pytest.raises(InvalidInput, match="cannot combine rows with items of lists"):
        ours.to_table(full_text_query=mixed)

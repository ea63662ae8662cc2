"""Searches for texts find what pylance finds, with its scores, on the files that it writes; and what brute force finds.

The words of these tables stand between spaces, so that the oracle cuts them as both do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text.oracle import Texts, answer

import lancelet
import lancelet.query
from drawing import examples
from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from lancelet.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    FullTextOperator,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)

PLAIN: dict[str, Any] = {
    "stem": False,
    "remove_stop_words": False,
    "ascii_folding": False,
    "max_token_length": None,
    "with_position": True,
}
ROWS = 900
"""Of which the last 200 are not indexed, and every seventh is deleted."""
OLD, GONE = 700, frozenset(row for row in range(ROWS) if row % 7 == 3)
Scores = npt.NDArray[np.float32]
WORDS = [f"w{number}" for number in range(40)]


def sentences(draw: random.Random, count: int, longest: int) -> list[str | None]:
    weights = [1 / (1 + number) for number in range(len(WORDS))]
    return [
        None if draw.random() < 0.05 else " ".join(draw.choices(WORDS, weights, k=draw.randint(0, longest)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    draw = random.Random(5)
    return pa.table(
        {
            "id": range(ROWS),
            "text": sentences(draw, ROWS, 30),
            "title": pa.array(sentences(draw, ROWS, 4), pa.large_string()),
            "nothing": sentences(draw, ROWS, 9),
        }
    )


@pytest.fixture(scope="module", params=[(128, 1), (256, 3)], ids=["blocks of 128, format 1", "blocks of 256"])
def other_place(request: pytest.FixtureRequest, table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(table, str(tmp_path_factory.mktemp("other") / "table"), *request.param)


@pytest.fixture(scope="module")
def place(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(table, str(tmp_path_factory.mktemp("matching") / "table"), 128, 2)


def build(table: pa.Table, uri: str, block: int, version: int) -> str:
    """As pylance writes it: an index of two segments, or of two partitions."""
    dataset = lance.write_dataset(table.slice(0, 400), uri, max_rows_per_file=300)
    for column in ("text", "title"):
        dataset.create_scalar_index(column, "INVERTED", block_size=block, format_version=version, **PLAIN)
    dataset = lance.write_dataset(table.slice(400, OLD - 400), uri, mode="append")
    dataset.optimize.optimize_indices(num_indices_to_merge=0 if block == 128 else None)
    dataset = lance.write_dataset(table.slice(OLD), uri, mode="append")
    dataset.delete("id % 7 = 3")
    return uri


@pytest.fixture(scope="module")
def columns(table: pa.Table) -> dict[str, Texts]:
    new = frozenset(range(OLD, ROWS))
    texts = {name: dict(enumerate(table[name].to_pylist())) for name in ("text", "title", "nothing")}
    return {
        "text": Texts(texts["text"], new, GONE),
        "title": Texts(texts["title"], new, GONE),
        "nothing": Texts(texts["nothing"], frozenset(range(ROWS)), GONE),
    }


def queries(names: Any) -> Iterator[Any]:
    """Of every kind, in the words of either package."""
    match, phrase, boolean, occur = names.MatchQuery, names.PhraseQuery, names.BooleanQuery, names.Occur
    every = names.FullTextOperator.AND
    yield "w1"
    yield "w1 w2 w30"
    yield {"query": "w1 w20", "columns": ["text"]}
    yield {"query": "w3", "columns": ["text", "nothing"]}
    yield match("w1 w2 w3", "text")
    yield match("w39", "text")
    yield match("w1 w2 w9", "text", operator=every)
    yield match("w1 w1 w2", "text", boost=2.5)
    yield match("w1 w1 w2", "text", operator=every)
    yield match("W1", "nothing")
    yield match("w2", "nothing", operator=every)
    yield match("zz", "text")
    yield match("zz w1", "text", operator=every)
    yield match("", "text")
    yield phrase("w1 w2", "text")
    yield phrase("w1 w2", "text", slop=3)
    yield phrase("w1 w2 w0", "text")
    yield phrase("w1 w1", "nothing")
    yield phrase("w2", "title")
    yield names.BoostQuery(match("w1", "text"), match("w2", "text"), negative_boost=0.3)
    yield names.BoostQuery(match("w1", "text"), match("w2", "title"))
    yield names.MultiMatchQuery("w1 w20", ["text", "title"], boosts=[1, 2])
    yield names.MultiMatchQuery("w1 w2", ["text", "title"], operator=every)
    yield names.CombinedFieldsQuery("w1 w20", ["text", "title"])
    yield names.CombinedFieldsQuery("w1 w2 w1", ["text", "title"], boosts=[1.5, 3], operator=every)
    yield boolean(
        [
            (occur.MUST, match("w1 w4", "text")),
            (occur.SHOULD, match("w2", "text")),
            (occur.MUST_NOT, match("w3", "text")),
        ]
    )
    yield boolean(
        [(occur.MUST, match("w1", "text")), (occur.MUST, match("w4", "text")), (occur.MUST_NOT, match("w30", "text"))]
    )
    yield boolean(
        [
            (occur.MUST, match("w1", "text")),
            (occur.SHOULD, match("w2", "title")),
            (occur.MUST_NOT, match("w3", "title")),
        ]
    )
    yield match("w1", "text") | match("w20", "title")
    yield phrase("w1 w2", "text") | match("w20", "text")
    yield phrase("w1 w2", "text") & match("w10 w12", "text")
    yield match("w1", "text") & (match("w2", "text") | match("w3", "text"))


QUERIES = list(zip(queries(lance.query), queries(lancelet.query), strict=True))
OPTIONS: list[dict[str, Any]] = [
    {},
    {"limit": 10},
    {"limit": 7, "offset": 3},
    {"limit": 10, "filter": "id % 5 = 1"},
    {"limit": 10, "filter": "id % 5 = 1", "prefilter": True},
    {"filter": "id > 300 and id < 800", "prefilter": True},
    {"filter": "_score > 1.5"},
    {"fast_search": True, "limit": 50},
]


def ranked(dataset: Any, query: Any, **options: Any) -> tuple[list[int], Scores]:
    found = dataset.to_table(columns=["id", "_score"], full_text_query=query, **options)
    return found["id"].to_pylist(), found["_score"].to_numpy()


def assert_same(
    theirs: tuple[list[int], Scores], ours: tuple[list[int], Scores], *, is_cut: bool = False, close: float = 1e-6
) -> None:
    """The same scores in the same order, and the same rows but for those that share the last score, or the first one."""
    assert (np.diff(ours[1]) <= 0).all()
    scores = np.sort(theirs[1])[::-1]
    np.testing.assert_allclose(ours[1], scores, rtol=close, atol=close)
    last = scores[-1] + 10 * close if len(scores) else 0
    first = scores[0] - 10 * close if len(scores) and is_cut else np.inf
    better = [{row for row, score in zip(*part, strict=True) if last < score < first} for part in (theirs, ours)]
    assert better[0] == better[1]


@pytest.mark.spread(0.4)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_kind_of_query_finds_what_pylance_finds(place: str, options: dict[str, Any]) -> None:
    compare_with_pylance(place, options)


@pytest.mark.parametrize("options", OPTIONS[:2], ids=str)
def test_every_kind_of_query_finds_what_pylance_finds_in_other_files(other_place: str, options: dict[str, Any]) -> None:
    compare_with_pylance(other_place, options)


def compare_with_pylance(place: str, options: dict[str, Any]) -> None:
    theirs, ours = lance.dataset(place), lancelet.dataset(place)
    for their_query, our_query in QUERIES:
        expected, found = ranked(theirs, their_query, **options), ranked(ours, our_query, **options)
        assert_same(expected, found, is_cut="offset" in options)


@pytest.mark.parametrize("options", [{}, {"limit": 10}], ids=str)
def test_every_kind_of_query_finds_what_brute_force_finds(
    place: str, columns: dict[str, Texts], options: dict[str, Any]
) -> None:
    dataset = lancelet.dataset(place)
    for _, query in QUERIES:
        if isinstance(query, (str, dict, CombinedFieldsQuery)):
            continue
        check_by_brute_force(dataset, columns, query, **options)


def check_by_brute_force(dataset: Any, columns: dict[str, Texts], query: Any, **options: Any) -> None:
    expected = answer(columns, query.inner)
    order = sorted(expected, key=lambda row: (-expected[row], row))[: options.get("limit")]
    scores = np.array([expected[row] for row in order], np.float32)
    # What is left of scores that are taken from each other is as exact as these were.
    assert_same((order, scores), ranked(dataset, query, **options), close=1e-4)


def words(most: int) -> st.SearchStrategy[str]:
    return st.lists(
        st.sampled_from(["w0", "w1", "w2", "w3", "w5", "w11", "w12", "w30", "w39", "zz"]), max_size=most
    ).map(" ".join)


@st.composite
def leaf_queries(draw: st.DrawFn) -> Any:
    column = draw(st.sampled_from(["text", "text", "text", "title", "nothing"]))
    if draw(st.integers(0, 3)) == 0:
        return PhraseQuery(draw(words(4)), column, slop=draw(st.integers(0, 4)))
    return MatchQuery(
        draw(words(4)),
        column,
        boost=draw(st.sampled_from([1.0, 0.5, 3.0])),
        operator=draw(st.sampled_from(list(FullTextOperator))),
        fuzziness=draw(st.sampled_from([0, 0, 0, 1, 2])),
        prefix_length=draw(st.integers(0, 3)),
        max_expansions=draw(st.sampled_from([50, 1, 3, 10])),
    )


def nested(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.lists(st.tuples(st.sampled_from(list(Occur)), parts), min_size=1, max_size=4)
    return st.one_of(
        pairs.filter(lambda some: any(occur is not Occur.MUST_NOT for occur, _ in some)).map(BooleanQuery),
        st.builds(BoostQuery, parts, parts, negative_boost=st.sampled_from([0.5, 0.0, 2.0])),
    )


@given(query=st.recursive(leaf_queries(), nested, max_leaves=6), limit=st.sampled_from([None, 1, 5, 40]))
@settings(max_examples=examples(20), deadline=None)
def test_any_query_finds_what_brute_force_finds(
    small: tuple[str, dict[str, Texts]], query: Any, limit: int | None
) -> None:
    uri, texts = small
    check_by_brute_force(lancelet.dataset(uri), texts, query, **({} if limit is None else {"limit": limit}))


@pytest.mark.parametrize("column", ["text", "nothing"])
def test_words_that_only_unindexed_texts_have_change_what_a_query_takes(
    small: tuple[str, dict[str, Texts]], column: str
) -> None:
    """All words of a text, each or one like it: one search where an index knows none of them, several where others do."""
    uri, texts = small
    against = MatchQuery("w0x w1x", column, fuzziness=1, operator=FullTextOperator.AND)
    for query in (
        BoostQuery(MatchQuery("w2", column), against),
        BooleanQuery([(Occur.MUST, MatchQuery("w0", column)), (Occur.MUST_NOT, against)]),
    ):
        check_by_brute_force(lancelet.dataset(uri), texts, query)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Texts]]:
    """A table of few rows, of which some are not indexed and some are deleted."""
    draw = random.Random(11)
    rows = pa.table({"id": range(240), **{name: sentences(draw, 240, 14) for name in ("text", "title", "nothing")}})
    uri = str(tmp_path_factory.mktemp("small") / "table")
    dataset = lance.write_dataset(rows.slice(0, 170), uri)
    for column in ("text", "title"):
        dataset.create_scalar_index(column, "INVERTED", **PLAIN)
    lance.write_dataset(rows.slice(170), uri, mode="append").delete("id % 9 = 4")
    gone = frozenset(range(4, 240, 9))
    texts = {name: dict(enumerate(rows[name].to_pylist())) for name in ("text", "title", "nothing")}
    return uri, {
        name: Texts(texts[name], frozenset(range(0 if name == "nothing" else 170, 240)), gone) for name in texts
    }


def test_words_that_are_nearly_the_same_are_found_as_pylance_finds_them(place: str) -> None:
    """On indexed rows: on others pylance finds only words as they are, and we find what an index of all would."""
    theirs, ours = lance.dataset(place), lancelet.dataset(place)
    for text in ("w1", "w3 w5", "x1 w12", "w"):
        for fuzziness in (None, 1, 2, 3):
            for more in ({}, {"max_expansions": 7}, {"prefix_length": 1}, {"prefix_length": 3, "max_expansions": 2}):
                options = {"fuzziness": fuzziness, **more}
                expected = ranked(theirs, lance.query.MatchQuery(text, "text", **options), fast_search=True)
                assert_same(expected, ranked(ours, MatchQuery(text, "text", **options), fast_search=True))


def test_a_phrase_with_gaps_finds_what_pylance_finds_without_an_index(place: str, columns: dict[str, Texts]) -> None:
    """With an index pylance passes over some rows when there are three words or more; without one it does not."""
    theirs, ours = lance.dataset(place), lancelet.dataset(place)
    for text in ("w0 w1 w2", "w0 w1 w0", "w2 w0 w1 w0"):
        for slop in (1, 2, 4):
            expected = ranked(theirs, lance.query.PhraseQuery(text, "nothing", slop=slop))
            assert_same(expected, ranked(ours, PhraseQuery(text, "nothing", slop=slop)))
            assert set(ranked(theirs, lance.query.PhraseQuery(text, "text", slop=slop))[0]) <= set(
                ranked(ours, PhraseQuery(text, "text", slop=slop))[0]
            )


def test_results_have_pylances_columns(place: str) -> None:
    theirs, ours = lance.dataset(place), lancelet.dataset(place)
    shapes: list[dict[str, Any]] = [
        {},
        {"columns": ["id"]},
        {"columns": ["_score", "id"]},
        {"columns": ["_rowid", "_score"]},
        {"columns": []},
        {"columns": {"twice": "_score * 2", "id": "id"}},
        {"columns": ["id"], "with_row_id": True, "with_row_address": True},
        {"columns": ["id"], "disable_scoring_autoprojection": True},
    ]
    for shape in shapes:
        expected = theirs.to_table(full_text_query=lance.query.MatchQuery("w39", "text"), limit=1, **shape)
        found = ours.to_table(full_text_query=MatchQuery("w39", "text"), limit=1, **shape)
        assert found.schema.names == expected.schema.names, shape
        assert found.schema.types == expected.schema.types, shape
        assert found.num_rows == expected.num_rows, shape


def test_a_search_is_counted_batched_and_ordered(place: str) -> None:
    dataset = lancelet.dataset(place)
    query = MatchQuery("w1", "text")
    rows, scores = ranked(dataset, query)
    scanner = dataset.scanner(columns=["id", "_score"], full_text_query=query, batch_size=50)
    assert scanner.count_rows() == len(rows) == sum(batch.num_rows for batch in scanner.to_batches())
    assert dataset.to_table(["id"], full_text_query=query, order_by="id")["id"].to_pylist() == sorted(rows)
    assert ranked(dataset, query, limit=0)[0] == []
    best = lancelet.ColumnOrdering("_score", ascending=True)
    assert ranked(dataset, query, order_by=[best])[1].tolist() == sorted(scores.tolist())


def test_only_some_fragments_are_searched(place: str) -> None:
    dataset = lancelet.dataset(place)
    fragments = dataset.get_fragments()
    everything = dict(zip(*ranked(dataset, MatchQuery("w1", "text")), strict=True))
    for some in ([fragments[0]], [fragments[-1], fragments[0]]):
        wanted = {row for fragment in some for row in fragment.to_table(["id"])["id"].to_pylist()}
        found = dataset.scanner(
            columns=["id", "_score"], full_text_query=MatchQuery("w1", "text"), fragments=some
        ).to_table()
        assert set(found["id"].to_pylist()) == wanted & everything.keys()


def test_a_plan_tells_where_texts_are_looked_up(place: str) -> None:
    dataset = lancelet.dataset(place)
    query = MatchQuery("w1", "text") & MatchQuery("w2", "nothing")
    plan = dataset.scanner(
        columns=["id", "_score"], full_text_query=query, limit=3, filter="id > 5", prefilter=True
    ).explain_plan()
    for line in (
        "Limit: offset=0, limit=3",
        "TakeRows: columns=[id]",
        "best=3",
        "TextIndexQuery: INVERTED text_idx, column=text, fragments=3, segments=2",
        "FlatMatch: column=text, fragments=1, not indexed",
        "FlatMatch: column=nothing, fragments=4, not indexed",
        "Filter: id > 5",
    ):
        assert line in plan
    fast = dataset.scanner(full_text_query="w1", fast_search=True, filter="id > 5")
    assert "FlatMatch" not in fast.explain_plan(verbose=True)
    assert f"rows={fast.count_rows()}" in fast.analyze_plan()


BAD: list[tuple[Any, type[Exception], str]] = [
    ("w1", InvalidInput, "unless an INVERTED index has been created on at least one column: create one, or name"),
    ({"query": "w1", "columns": []}, InvalidInput, "unless an INVERTED index has been created"),
    (MatchQuery("w1", "id"), InvalidInput, "FTS field 'id' must resolve to Utf8.*name a column of texts"),
    (MatchQuery("w1", "none"), UnknownColumn, "none"),
    (MatchQuery("w1", "s", boost=-1), InvalidInput, "boost must be finite and non-negative, got -1.0"),
    (MatchQuery("w1", "s", boost=float("nan")), InvalidInput, "boost must be finite and non-negative, got nan"),
    (BooleanQuery([]), InvalidInput, "at least one leaf query"),
    (BooleanQuery([(Occur.MUST_NOT, MatchQuery("a", "s"))]), InvalidInput, "at least one should/must query"),
    (CombinedFieldsQuery("a", ["s"]), InvalidInput, "requires an inverted index on at least one of"),
    ({"query": "w1", "columns": "s"}, InvalidType, "a list of names, not 's'"),
    ({"query": "w1", "column": "s"}, TypeError, "unexpected keyword argument 'column'"),
    ({"columns": ["s"]}, InvalidType, "has no 'query'"),
    ({"query": 3}, InvalidType, "is a text, a dict of query and columns, or a query"),
    (3, InvalidType, "is a text, a dict of query and columns, or a query"),
]


@pytest.mark.parametrize(("query", "error", "text"), BAD, ids=[f"{query!r}" for query, *_ in BAD])
def test_queries_that_make_no_sense_are_refused(query: Any, error: type[Exception], text: str) -> None:
    dataset = lancelet.write_dataset({"id": [1], "s": ["w1"]}, "memory://matching/bad", mode="overwrite")
    with pytest.raises(error, match=text):
        dataset.to_table(full_text_query=query)


def test_a_phrase_needs_positions(tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"text": ["a b"]}), tmp_path / "table")
    dataset.create_scalar_index("text", "INVERTED", with_position=False)
    advice = r"position is not found.*create_scalar_index\('text', 'INVERTED', with_position=True\)"
    for query in (PhraseQuery("a b", "text"), MatchQuery("a", "text") & PhraseQuery("b", "text")):
        with pytest.raises(InvalidInput, match=advice):
            lancelet.dataset(tmp_path / "table").to_table(full_text_query=query)
    assert lancelet.dataset(tmp_path / "table").to_table(full_text_query=MatchQuery("b", "text")).num_rows == 1


def test_a_search_goes_with_no_other(place: str) -> None:
    dataset = lancelet.dataset(place)
    with pytest.raises(InvalidInput, match="Cannot include deleted rows in an FTS search"):
        dataset.to_table(full_text_query="w1", include_deleted_rows=True, with_row_id=True)
    with pytest.raises(InvalidInput, match="Query filter can only be used with vector search"):
        dataset.scanner(filter=MatchQuery("w1", "text"))
    with pytest.raises(InvalidInput, match="without limit and offset"):
        dataset.scanner(full_text_query="w1", limit=3).count_rows()


def nested_rows(rows: int, wrap: Callable[[str | None], Any]) -> list[Any]:
    return [wrap(text) for text in sentences(random.Random(3), rows, 9)]


def test_texts_inside_structs_and_in_lists_are_searched(tmp_path: Path) -> None:
    parts = nested_rows(200, lambda text: [] if text is None else [text[:5], None, text[5:]])
    inner = nested_rows(200, lambda text: {"t": text})
    table = pa.table({"id": range(200), "l": pa.array(parts, pa.list_(pa.string())), "s": inner})
    dataset = lance.write_dataset(table.slice(0, 120), tmp_path / "table")
    dataset.create_scalar_index("l", "INVERTED", **PLAIN)
    dataset.create_scalar_index("s.t", "INVERTED", **PLAIN)
    dataset = lance.write_dataset(table.slice(120), tmp_path / "table", mode="append")
    ours = lancelet.dataset(tmp_path / "table")
    for column in ("l", "s.t"):
        for text in ("w1", "w0 w2 w3"):
            expected = ranked(dataset, lance.query.MatchQuery(text, column))
            assert_same(expected, ranked(ours, MatchQuery(text, column)))
        phrase = ranked(dataset, lance.query.PhraseQuery("w0 w1", column))
        assert_same(phrase, ranked(ours, PhraseQuery("w0 w1", column)))
    assert_same(ranked(dataset, "w1"), ranked(ours, "w1"))
    assert ranked(ours, MultiMatchQuery("w1", ["l", "s.t"]))[0] == ranked(ours, "w1")[0]

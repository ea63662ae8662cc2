"""The nearest of the rows whose texts match a query, and of the nearest rows those that do: as pylance answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.query
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import VectorSearchQuery

import lancelet
import lancelet.query
from lancelet.errors import InvalidInput, InvalidType
from vector.samples import column, vectors

ROWS = 400
WORDS = ["sea", "land", "sand", "salt", "kelp", "reef", "wave", "tide"]
QUERY = vectors("f32", 1, seed=21)[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two fragments, of which the indices know one; some rows are deleted, some texts null."""
    random = np.random.default_rng(3)
    texts: list[str | None] = [" ".join(random.choice(WORDS, random.integers(1, 6))) for _ in range(ROWS)]
    texts[5] = texts[17] = None
    table = pa.table({"id": np.arange(ROWS), "text": texts, "v": column(vectors("f32", ROWS))})
    uri = str(tmp_path_factory.mktemp("texts") / "t")
    dataset = lance.write_dataset(table.slice(0, 300), uri)
    dataset.create_index("v", "IVF_FLAT", num_partitions=3)
    dataset.create_scalar_index("text", "INVERTED", with_position=True)
    lance.write_dataset(table.slice(300), uri, mode="append")
    lance.dataset(uri).delete("id % 11 = 4")
    return uri


def queries(module: Any) -> list[Any]:
    kinds = module.query
    sea, kelp = kinds.MatchQuery("sea", "text"), kinds.MatchQuery("kelp reef", "text")
    return [
        sea,
        kelp,
        kinds.MatchQuery("nothing", "text"),
        kinds.MatchQuery("sea tide", "text", operator=kinds.FullTextOperator.AND),
        kinds.PhraseQuery("sea land", "text"),
        kinds.BooleanQuery([(kinds.Occur.MUST, sea), (kinds.Occur.MUST_NOT, kelp)]),
    ]


def answer(module: Any, uri: str, text: Any, **options: Any) -> list[tuple[Any, ...]]:
    nearest = {"column": "v", "q": QUERY, "k": 9, "nprobes": 3, **options.pop("nearest", {})}
    columns = ["id", "_distance"]
    found = module.dataset(uri).to_table(columns=columns, nearest=nearest, filter=text, **options)
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("use_index", [True, False])
@pytest.mark.parametrize("at", range(6))
def test_the_nearest_of_rows_that_match(place: str, at: int, use_index: bool) -> None:
    options = {"prefilter": True, "nearest": {"use_index": use_index}}
    ours, theirs = (answer(module, place, queries(module)[at], **options) for module in (lancelet, lance))
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    np.testing.assert_allclose([row[1] for row in ours], [row[1] for row in theirs], rtol=1e-6)
    assert bool(ours) == (at != 2)


def test_rows_that_match_of_the_nearest(place: str) -> None:
    for at in range(3):
        ours, theirs = (answer(module, place, queries(module)[at], nearest={"k": 60}) for module in (lancelet, lance))
        assert [row[0] for row in ours] == [row[0] for row in theirs]
    # pylance looks at single words only; what is found is told by the searches themselves.
    for text in queries(lancelet)[3:]:
        dataset = lancelet.dataset(place)
        matching = dataset.to_table(columns=["id"], full_text_query=text, limit=ROWS)["id"].to_pylist()
        every = answer(lancelet, place, None, nearest={"k": 60})
        assert answer(lancelet, place, text, nearest={"k": 60}) == [row for row in every if row[0] in matching]


@pytest.mark.parametrize("prefilter", [True, False])
def test_a_filter_of_both_kinds_and_several_queries(place: str, prefilter: bool) -> None:
    many = vectors("f32", 3, seed=22)
    found = []
    for module in (lancelet, lance):
        both = {"expr_filter": "id % 3 > 0", "search_filter": module.query.MatchQuery("sea", "text")}
        found.append(answer(module, place, both, prefilter=prefilter, nearest={"q": many, "k": 40}))
    assert [row[:2] for row in found[0]] == [row[:2] for row in found[1]]
    assert {row[0] for row in found[0]} == {0, 1, 2}
    (scanner,) = [
        lancelet.dataset(place).scanner(nearest={"column": "v", "q": QUERY, "k": 40}, filter=both, prefilter=prefilter)
        for both in [{"expr_filter": "id % 3 > 0", "search_filter": lancelet.query.MatchQuery("sea", "text")}]
    ]
    assert scanner.count_rows() == scanner.to_table().num_rows
    assert "Match: Match(" in scanner.explain_plan() or "TextIndexQuery: INVERTED" in scanner.explain_plan()


def test_texts_without_an_index(tmp_path: Path) -> None:
    table = pa.table({"id": np.arange(50), "text": ["sea" if at % 4 else "land" for at in range(50)]})
    table = table.append_column("v", column(vectors("f32", 50)))
    lancelet.write_dataset(table, tmp_path)
    for prefilter in (True, False):
        ours, theirs = (
            answer(module, str(tmp_path), module.query.MatchQuery("land", "text"), prefilter=prefilter)
            for module in (lancelet, lance)
        )
        assert [row[0] for row in ours] == [row[0] for row in theirs]


def test_a_query_is_no_filter_of_other_scans(place: str) -> None:
    dataset, text = lancelet.dataset(place), lancelet.query.MatchQuery("sea", "text")
    for options in ({}, {"full_text_query": "tide"}):
        with pytest.raises(InvalidInput, match="Query filter can only be used with vector search"):
            dataset.to_table(filter=text, **options)
    with pytest.raises(InvalidType, match=r"a filter is an SQL text, .* not 5"):
        dataset.to_table(filter=5)
    with pytest.raises(InvalidInput, match="both nearest and full text search"):
        dataset.to_table(full_text_query=text, nearest={"column": "v", "q": QUERY})


def near(module: Any, **options: Any) -> Any:
    kind = VectorSearchQuery if module is lance else lancelet.query.VectorSearchQuery
    return kind("v", QUERY, **{"k": 60, "nprobes": 3, **options})


def texts(module: Any, uri: str, text: Any, **options: Any) -> pa.Table:
    return module.dataset(uri).to_table(columns=["id", "_score"], full_text_query=text, **options)


@pytest.mark.parametrize("use_index", [True, False])
@pytest.mark.parametrize("at", range(6))
def test_texts_are_searched_in_the_nearest_rows(place: str, at: int, use_index: bool) -> None:
    ours, theirs = (
        texts(module, place, queries(module)[at], filter=near(module, use_index=use_index), prefilter=True)
        for module in (lancelet, lance)
    )
    # pylance gives some kinds of queries by score, others by distance, with scores of their own.
    assert sorted(ours["id"].to_pylist()) == sorted(theirs["id"].to_pylist())
    nearest = {"column": "v", "q": QUERY, "k": 60, "nprobes": 3, "use_index": use_index}
    rows = lancelet.dataset(place).to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
    condition = f"id in ({', '.join(map(str, rows))})"
    assert ours.equals(texts(lancelet, place, queries(lancelet)[at], filter=condition, prefilter=True))


@pytest.mark.parametrize("at", range(6))
def test_of_the_rows_whose_texts_match_the_nearest(place: str, at: int) -> None:
    options = {"columns": ["id", "_score", "_distance"]}
    for narrowed in ({}, {"limit": 30}):
        ours, theirs = (
            module.dataset(place)
            .to_table(full_text_query=queries(module)[at], filter=near(module, k=9), **options, **narrowed)
            .to_pydict()
            for module in (lancelet, lance)
        )
        if not narrowed:
            assert ours["id"] == theirs["id"]
            np.testing.assert_allclose(ours["_score"], theirs["_score"], rtol=1e-5)
            np.testing.assert_allclose(ours["_distance"], theirs["_distance"], rtol=1e-5)
        best = texts(lancelet, place, queries(lancelet)[at], **narrowed)["id"].to_pylist()
        every = lancelet.dataset(place).to_table(
            columns=["id", "_distance"], nearest={"column": "v", "q": QUERY, "k": ROWS, "use_index": False}
        )["id"]
        assert ours["id"] == [row for row in every.to_pylist() if row in best][:9]


@pytest.mark.parametrize("prefilter", [True, False])
def test_a_condition_goes_with_the_nearest_rows(place: str, prefilter: bool) -> None:
    found = []
    for module in (lancelet, lance):
        both = {"expr_filter": "id % 2 = 0", "search_filter": near(module)}
        answer = texts(module, place, queries(module)[0], filter=both, prefilter=prefilter)
        found.append(sorted(answer["id"].to_pylist()))
    assert found[0] == found[1] != []


def test_a_vector_search_as_filter_is_explained_and_refused(place: str) -> None:
    dataset, sea = lancelet.dataset(place), lancelet.query.MatchQuery("sea", "text")
    for prefilter in (True, False):
        plan = dataset.scanner(["id"], full_text_query=sea, filter=near(lancelet), prefilter=prefilter).explain_plan()
        assert ("VectorIndexQuery" in plan) == prefilter
        assert plan.index("Match") < plan.index("Nearest") or not prefilter
    with pytest.raises(InvalidInput, match="can only be the filter of a full text search"):
        dataset.to_table(filter=near(lancelet))
    with pytest.raises(InvalidInput, match="one query vector"):
        dataset.to_table(
            full_text_query=sea, filter=lancelet.query.VectorSearchQuery("v", np.stack([QUERY, QUERY]), k=3)
        )
    with pytest.raises(InvalidInput, match="Nearest-K must be > 0"):
        dataset.to_table(full_text_query=sea, filter=near(lancelet, k=0))
    with pytest.raises(InvalidInput, match="search for the vector beside the text"):
        dataset.search("sea", filter=near(lancelet))

"""Texts and vectors searched together: each side as it is searched alone, both made one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput, InvalidType, UnknownColumn
from lancelet.query import BooleanQuery, MatchQuery, Occur, PhraseQuery
from text.corpus import documents

ROWS, DIMENSION = 600, 8
MARKS = ["_distance", "_score", "_relevance_score"]


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lancelet.LanceDataset:
    """An index on both columns; then rows that no index knows, and rows that are gone."""
    rng = np.random.default_rng(3)
    texts = documents(ROWS, seed=5)

    def part(first: int, last: int) -> pa.Table:
        vectors = pa.array(rng.normal(size=(last - first, DIMENSION)).tolist(), pa.list_(pa.float32(), DIMENSION))
        rows = {"id": range(first, last), "text": pa.array(texts[first:last], pa.string()), "vector": vectors}
        return pa.table({**rows, "struct": [{"a": number} for number in range(first, last)]})

    uri = str(tmp_path_factory.mktemp("hybrid") / "t.lance")
    found = lancelet.write_dataset(part(0, 450), uri, max_rows_per_file=200)
    found.create_scalar_index("text", "INVERTED", with_position=True)
    found.create_index("vector", "IVF_FLAT", num_partitions=4)
    found.insert(part(450, ROWS))
    found.delete("id % 17 = 3")
    return found


def query(seed: int) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(size=DIMENSION).tolist()
    return values


def by_hand(ds: lancelet.LanceDataset, text: Any, vector: Any, k: int, most: int, **options: Any) -> list[Any]:
    """Row ids and reciprocal ranks, out of two searches of their own."""
    asked: dict[str, Any] = {"prefilter": True, "with_row_id": True, "columns": [], **options}
    scores = ds.to_table(full_text_query=text, limit=most, **asked)["_rowid"].to_pylist()
    near = ds.to_table(nearest={"column": "vector", "q": vector, "k": most}, **asked)["_rowid"].to_pylist()
    total: dict[int, float] = {}
    for rows in (scores, near):
        for rank, row in enumerate(rows):
            total[row] = total.get(row, 0.0) + 1 / (60 + rank)
    shown = [(row, float(np.float32(worth))) for row, worth in total.items()]
    return sorted(shown, key=lambda row: (-row[1], row[0]))[:k]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("w1 w5", None),
        (MatchQuery("w3 w9", "text"), "id < 500"),
        (PhraseQuery("w0 w1", "text"), "struct.a > 100"),
        (BooleanQuery([(Occur.MUST, MatchQuery("w2", "text")), (Occur.MUST_NOT, MatchQuery("w0", "text"))]), None),
        ("nowhere", None),
        ("w1", "id < 0"),
    ],
    ids=str,
)
def test_both_sides_are_those_of_searches_of_their_own(ds: lancelet.LanceDataset, text: Any, condition: Any) -> None:
    for k, candidates in ((5, None), (20, 30), (10, 3)):
        found = ds.search(text, query(k), k=k, filter=condition, candidates=candidates, with_row_id=True)
        most = max(k, 5 * k if candidates is None else candidates)
        expected = by_hand(ds, text, query(k), k, most, filter=condition)
        assert list(zip(found["_rowid"].to_pylist(), found["_relevance_score"].to_pylist(), strict=True)) == expected
        ids = ds.to_table(["id"], with_row_id=True)
        names = dict(zip(ids["_rowid"].to_pylist(), ids["id"].to_pylist(), strict=True))
        assert found["id"].to_pylist() == [names[row] for row, _ in expected]


def test_scores_and_distances_are_there_where_they_are_known(ds: lancelet.LanceDataset) -> None:
    found = ds.search("w7", query(1), k=40)
    assert found.column_names == ["id", "text", "vector", "struct", *MARKS]
    for row in found.to_pylist():
        assert (row["_score"] is not None) or (row["_distance"] is not None)
        if row["_score"] is not None:
            assert "w7" in row["text"].split()
        if row["_distance"] is not None:
            apart = np.array(row["vector"], np.float32) - np.array(query(1), np.float32)
            assert row["_distance"] == pytest.approx(float(apart @ apart), rel=1e-5)
    assert found["_score"].null_count
    assert found["_distance"].null_count
    assert not found.schema.field("_relevance_score").nullable


def test_one_side_alone_is_in_its_own_order(ds: lancelet.LanceDataset) -> None:
    texts = ds.search("w1 w2", k=7, columns=["id"])
    assert texts.column_names == ["id", "_score", "_relevance_score"]
    assert texts.select(["id", "_score"]) == ds.to_table(["id", "_score"], full_text_query="w1 w2", limit=7)
    vectors = ds.search(vector=query(2), k=7, columns={"number": "id + 1"}, fusion="linear")
    assert vectors.column_names == ["number", "_distance", "_relevance_score"]
    alone = ds.to_table(["_distance"], nearest={"column": "vector", "q": query(2), "k": 7})
    assert vectors["_distance"] == alone["_distance"]
    assert vectors["_relevance_score"][0].as_py() == 1.0


def test_pages_of_a_search_are_parts_of_one(ds: lancelet.LanceDataset) -> None:
    whole = ds.search("w1 w2", query(3), k=20, candidates=50, columns=["id"], fusion="linear", weight=0.4)
    pages = [
        ds.search("w1 w2", query(3), k=10, offset=at, candidates=50, columns=["id"], fusion="linear", weight=0.4)
        for at in (0, 10)
    ]
    assert pa.concat_tables(pages) == whole


def test_columns_of_the_search_stand_where_they_are_asked_for(ds: lancelet.LanceDataset) -> None:
    found = ds.search("w1", query(4), columns=["_score", "id", "_relevance_score"], with_row_id=True)
    assert found.column_names == ["_score", "id", "_relevance_score", "_distance", "_rowid"]
    assert ds.search("w1", query(4), columns=[], k=3).column_names == MARKS


def test_options_of_vectors_are_those_of_nearest(ds: lancelet.LanceDataset) -> None:
    found = ds.search("w1", query(5), k=50, metric="cosine", use_index=False, columns=["id"], filter="id < 60")
    nearest = {"column": "vector", "q": query(5), "k": 250, "metric": "cosine", "use_index": False}
    alone = ds.to_table(["id", "_distance"], nearest=nearest, filter="id < 60", prefilter=True)
    expected = dict(zip(alone["id"].to_pylist(), alone["_distance"].to_pylist(), strict=True))
    assert dict(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True)).items() <= expected.items()


def test_rows_that_no_index_knows_are_left_out_on_demand(ds: lancelet.LanceDataset) -> None:
    assert max(ds.search("w1", query(6), k=100, columns=["id"])["id"].to_pylist()) >= 450
    assert max(ds.search("w1", query(6), k=100, columns=["id"], fast_search=True)["id"].to_pylist()) < 450


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, InvalidInput, "text=, vector=, or both"),
        ({"text": "w1", "vector": [1.0]}, InvalidInput, "Query vector size 1 does not match"),
        ({"text": "w1", "vector": [query(1), query(2)]}, InvalidInput, "one query vector"),
        ({"text": 5}, InvalidType, "a query of lancelet.query, not 5"),
        ({"text": "w1", "text_columns": ["id"]}, InvalidInput, "name a column of texts"),
        ({"text": "w1", "text_columns": ["nope"]}, UnknownColumn, "nope"),
        ({"vector": query(1), "text_columns": ["text"]}, InvalidInput, "give text=, or leave it out"),
        ({"text": "w1", "vector_column": "vector"}, InvalidInput, "give vector=, or leave it out"),
        ({"text": "w1", "nprobes": 3}, InvalidInput, "nprobes is about a query vector"),
        ({"text": "w1", "nproves": 3}, InvalidType, "unexpected keyword argument 'nproves'"),
        ({"vector": query(1), "vector_column": "text"}, InvalidType, "must be a vector"),
        ({"text": "w1", "fusion": "best"}, InvalidInput, "'rrf' .* or 'linear'"),
        ({"text": "w1", "rrf_k": 0}, InvalidInput, "rrf_k is a number above 0"),
        ({"text": "w1", "fusion": "linear", "weight": 2}, InvalidInput, "weight is the share of vectors"),
        ({"text": "w1", "fusion": "linear", "weight": "much"}, InvalidType, "weight is a number"),
        ({"text": "w1", "k": 0}, InvalidInput, "k is at least 1"),
        ({"text": "w1", "k": 1.5}, InvalidType, "k is a whole number"),
        ({"text": "w1", "offset": -1}, InvalidInput, "offset is at least 0"),
        ({"text": "w1", "candidates": 0}, InvalidInput, "candidates is at least 1"),
        ({"text": "w1", "columns": ["_distance"]}, InvalidInput, "only in searches with vector="),
        ({"text": "w1", "filter": "nope = 1"}, InvalidInput, "nope"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    ds: lancelet.LanceDataset, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ds.search(**arguments)


def test_without_an_index_the_columns_of_the_text_are_named() -> None:
    vectors = pa.array([[0.0, 1.0], [1.0, 0.0]], pa.list_(pa.float32(), 2))
    rows = pa.table({"text": ["a b", "b c"], "v": vectors, "w": vectors})
    plain = lancelet.write_dataset(rows, "memory://hybrid/plain")
    with pytest.raises(InvalidInput, match="INVERTED"):
        plain.search("b")
    with pytest.raises(InvalidInput, match="several columns have vectors: v, w; name the one"):
        plain.search(vector=[0, 1])
    found = plain.search("c", [0, 1], text_columns=["text"], vector_column="w", columns=["text"])
    assert found["text"].to_pylist() == ["b c", "a b"]

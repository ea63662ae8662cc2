"""Texts on Spark: indices that tasks build, and searches whose scores are those of one process to the last bit."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

import lancelet
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
from lancelet.spark import LanceTable, register_functions
from lancelet.spark.table import indices
from text.corpus import PLAIN, documents

ROWS, DIMENSION = 400, 4


def rows(first: int, last: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    vectors = pa.array(rng.normal(size=(last - first, DIMENSION)).tolist(), pa.list_(pa.float32(), DIMENSION))
    texts, titles = documents(last - first, seed=seed), documents(last - first, 20, seed + 1, 5)
    return pa.table(
        {
            "id": pa.array(range(first, last), pa.int64()),
            "text": pa.array(texts, pa.string()),
            "title": pa.array(titles, pa.string()),
            "vector": vectors,
        }
    )


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tasks for a few kilobytes of texts."""
    monkeypatch.setattr(indices, "_HEAVY_BYTES", 1_000)


@pytest.mark.usefixtures("small_parts")
def test_an_index_that_tasks_build_has_the_scores_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    ours, alone = str(tmp_path / "spark.lance"), str(tmp_path / "alone.lance")
    lancelet.write_dataset(rows(0, ROWS, 1), ours, max_rows_per_file=60)
    shutil.copytree(ours, alone)
    LanceTable.forPath(spark, ours).createIndex("text", "INVERTED", with_position=True, **PLAIN)
    lancelet.dataset(alone).create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    (index,) = lancelet.dataset(ours).describe_indices()
    assert len(index.segments) > 1
    assert index.num_rows_indexed == ROWS
    for query in (
        MatchQuery("w0 w7 κύμα", "text"),
        PhraseQuery("w0 w1", "text"),
        MatchQuery("w3x", "text", fuzziness=1),
    ):
        columns = ["id", "_score"]
        tables = [lancelet.dataset(uri).to_table(columns, full_text_query=query) for uri in (ours, alone)]
        assert tables[0].num_rows
        assert tables[0] == tables[1]
    theirs = lance.dataset(ours).to_table(["id", "_score"], full_text_query=lance.query.MatchQuery("w0 w7", "text"))
    found = lancelet.dataset(ours).to_table(["id", "_score"], full_text_query=MatchQuery("w0 w7", "text"))
    assert dict(zip(*found.to_pydict().values(), strict=True)) == pytest.approx(
        dict(zip(*theirs.to_pydict().values(), strict=True)), rel=1e-6
    )


@pytest.mark.usefixtures("small_parts")
def test_items_of_lists_are_indexed_and_searched_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    ours, alone = str(tmp_path / "spark.lance"), str(tmp_path / "alone.lance")
    texts = documents(900, seed=5)
    lists = [None if row % 19 == 4 else texts[3 * row : 3 * row + row % 4] for row in range(300)]
    structs = [None if one is None else [{"t": text} for text in one] for one in lists]
    table = pa.table({"id": range(300), "l": pa.array(lists, pa.list_(pa.string())), "s": pa.array(structs)})
    lancelet.write_dataset(table.slice(0, 240), ours, max_rows_per_file=60)
    shutil.copytree(ours, alone)
    options = {**PLAIN, "with_position": True, "document_granularity": "list_element"}
    for column in ("l", "s.t"):
        LanceTable.forPath(spark, ours).createIndex(column, "INVERTED", **options)
        lancelet.dataset(alone).create_scalar_index(column, "INVERTED", **options)
    for place in (ours, alone):
        lancelet.dataset(place).insert(table.slice(240))
        lancelet.dataset(place).delete("id % 13 = 2")
    assert all(len(index.segments) > 1 for index in lancelet.dataset(ours).describe_indices())
    for query in (
        MatchQuery("w0 w7 κύμα", "l"),
        PhraseQuery("w0 w1", "s.t"),
        BooleanQuery([(Occur.SHOULD, PhraseQuery("w0 w1", "l")), (Occur.SHOULD, MatchQuery("w2 w3", "l"))]),
    ):
        found = LanceTable.forPath(spark, ours).search(text=query, k=40, columns=["id"]).toArrow()
        expected = lancelet.dataset(ours).to_table(["id", "_score"], full_text_query=query, limit=40)
        assert expected.num_rows > 3
        assert found.select(expected.column_names).to_pydict() == expected.to_pydict()
        other = lancelet.dataset(alone).to_table(["id", "_score"], full_text_query=query, limit=40)
        assert other["_score"] == expected["_score"]


def test_options_and_mistakes_of_an_index(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lancelet.write_dataset(rows(0, 20, 2), uri)
    held = LanceTable.forPath(spark, uri)
    with pytest.raises(InvalidInput, match="nolang"):
        held.createIndex("text", "INVERTED", language="nolang")
    with pytest.raises(InvalidInput, match="id"):
        held.createIndex("id", "FTS")
    assert not held.indices()
    held.createIndex("text", "FTS", stem=False, lower_case=False, name="words")
    assert lancelet.dataset(uri).to_table(full_text_query="w0").num_rows
    lancelet.write_dataset(rows(20, 40, 3), uri, mode="append")
    held.optimizeIndices()
    (index,) = held.indices()
    assert (index.name, index.num_rows_indexed) == ("words", 40)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Indices of several segments; rows that none knows, rows that are gone, and such that came back with another text."""
    place = str(tmp_path_factory.mktemp("texts") / "t.lance")
    ds = lancelet.write_dataset(rows(0, 250, 11), place, max_rows_per_file=90)
    ds.create_scalar_index("text", "INVERTED", with_position=True, **PLAIN)
    ds.insert(rows(250, 320, 12))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.create_scalar_index("title", "INVERTED", **PLAIN)
    ds.create_index("vector", "IVF_FLAT", num_partitions=3)
    ds.insert(rows(320, ROWS, 13))
    ds.delete("id % 11 = 4")
    ds.update({"text": "'w0 w1 mended again'"}, "id % 50 = 7")
    return place


QUERIES: list[Any] = [
    "w0 w3",
    MatchQuery("w1 w2", "text", operator=FullTextOperator.AND),
    MatchQuery("w1x w22", "text", fuzziness=1, max_expansions=7),
    PhraseQuery("w0 w1", "text", slop=1),
    MultiMatchQuery("w0 w9", ["text", "title"], boosts=[1.0, 2.0]),
    BooleanQuery([(Occur.MUST, MatchQuery("w0", "text")), (Occur.MUST_NOT, MatchQuery("w1", "title"))]),
    BoostQuery(MatchQuery("w0", "text"), MatchQuery("w1", "title"), negative_boost=0.25),
    CombinedFieldsQuery("w0 w5", ["text", "title"]),
    BoostQuery(MatchQuery("w0", "text"), MatchQuery("mendex agai", "text", fuzziness=1, operator=FullTextOperator.AND)),
]


@pytest.mark.parametrize("number", range(len(QUERIES)))
@pytest.mark.spread(0.5, each=False)
def test_scores_are_those_of_one_process_bit_for_bit(spark: SparkSession, uri: str, number: int) -> None:
    query = QUERIES[number]
    condition = (None, "id > 60")[number % 2]
    found = LanceTable.forPath(spark, uri).search(text=query, k=40, filter=condition, columns=["id"]).toArrow()
    expected = lancelet.dataset(uri).to_table(
        ["id", "_score"], full_text_query=query, limit=40, filter=condition, prefilter=True
    )
    assert expected.num_rows
    assert found.to_pydict() == expected.to_pydict()


def test_a_filter_may_come_after_the_search(spark: SparkSession, uri: str) -> None:
    held = LanceTable.forPath(spark, uri)
    found = held.search(text="w0", k=30, filter="id < 100", prefilter=False, columns={"n": "id * 2"}, with_row_id=True)
    expected = lancelet.dataset(uri).to_table(
        {"n": "id * 2", "_score": "_score"}, full_text_query="w0", limit=30, filter="id < 100", with_row_id=True
    )
    assert found.columns == ["n", "_score", "_rowid"]
    assert found.toArrow().to_pydict() == expected.to_pydict()
    assert not held.search(text="nowhere").collect()


@pytest.mark.parametrize("fusion", ["rrf", "linear"])
def test_texts_and_vectors_together_are_those_of_one_process(spark: SparkSession, uri: str, fusion: str) -> None:
    vector = [0.3, -0.2, 0.9, 0.1]
    asked: dict[str, Any] = {"k": 12, "filter": "id % 3 = 0", "columns": ["ID", "text"], "fusion": fusion}
    found = LanceTable.forPath(spark, uri).search(text="w1 w4", vector=vector, with_row_id=True, **asked)
    expected = lancelet.dataset(uri).search(
        "w1 w4", vector, vector_column="vector", with_row_id=True, **{**asked, "columns": ["id", "text"]}
    )
    assert found.columns == ["id", "text", "_distance", "_score", "_relevance_score", "_rowid"]
    assert found.toArrow().to_pydict() == expected.to_pydict()
    whole = LanceTable.forPath(spark, uri).search(
        vector, text=CombinedFieldsQuery("w0 w5", ["text", "title"]), k=5, columns=["id"], fusion=fusion
    )
    alone = lancelet.dataset(uri).search(
        CombinedFieldsQuery("w0 w5", ["text", "title"]), vector, k=5, columns=["id"], fusion=fusion
    )
    assert whole.toArrow().to_pydict() == alone.to_pydict()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, InvalidInput, "a query vector, text=, or both"),
        ({"query": "w0"}, InvalidInput, "name it: text='w0'"),
        ({"text": 3}, InvalidType, "not 3"),
        ({"text": "w0", "text_columns": ["nope"]}, UnknownColumn, "nope"),
        ({"text": "w0", "text_columns": ["id"]}, InvalidInput, "name a column of texts"),
        ({"text": PhraseQuery("w0 w1", "title")}, InvalidInput, "with_position=True"),
        ({"text": "w0", "nprobes": 2}, InvalidInput, "give vector=, or leave it out"),
        ({"text": "w0", "filter": "nope > 1"}, InvalidInput, "nope"),
        ({"vector": [1, 2, 3, 4], "text_columns": ["text"]}, InvalidInput, "give text=, or leave it out"),
        ({"query": [1, 2, 3, 4], "vector": [1, 2, 3, 4]}, InvalidInput, "two names of one thing"),
        ({"text": "w0", "vector": [1, 2, 3, 4], "prefilter": False}, InvalidInput, "leave prefilter out"),
        ({"text": "w0", "vector": [1, 2, 3, 4], "fusion": "sum"}, InvalidInput, "'rrf'"),
    ],
)
def test_what_makes_no_sense_is_refused_on_the_driver(
    spark: SparkSession, uri: str, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        LanceTable.forPath(spark, uri).search(**arguments)


def test_functions_of_sql_give_what_one_process_gives(spark: SparkSession, uri: str) -> None:
    register_functions(spark)
    ds = lancelet.dataset(uri)
    found = spark.sql(f"SELECT id, _score FROM SEARCH('{uri}', 'w0 w3', 6)").toArrow()
    assert found.to_pydict() == ds.to_table(["id", "_score"], full_text_query="w0 w3", limit=6).to_pydict()
    found = spark.sql(
        f"SELECT * FROM search(table => '{uri}', search_query => 'w2', search_columns => array('TITLE'), "
        "columns => array('id'), filter => 'id > 20', offset => 2, limit => 5, with_row_id => true)"
    ).toArrow()
    asked = {"query": "w2", "columns": ["title"]}
    rows = ds.to_table(["id", "_score"], "id > 20", 5, 2, full_text_query=asked, prefilter=True, with_row_id=True)
    assert found.to_pydict() == rows.to_pydict()
    vector = "array(0.3, -0.2, 0.9, 0.1)"
    found = spark.sql(f"SELECT * FROM HYBRID_SEARCH('{uri}', {vector}, 'w1 w4', 4)").drop("vector").toArrow()
    alone = ds.search("w1 w4", [0.3, -0.2, 0.9, 0.1], k=4, columns=["id", "text", "title"])
    assert found.to_pydict() == alone.to_pydict()
    found = spark.sql(
        "SELECT q.t, f.id FROM VALUES ('w1', array(0.3, -0.2, 0.9, 0.1)), ('w5', null) AS q(t, v), LATERAL "
        f"HYBRID_SEARCH(table => '{uri}', query => q.t, query_vector => q.v, k => 3, rrf_k => 10, num_candidates => 7) f"
    ).toArrow()
    alone = ds.search("w1", [0.3, -0.2, 0.9, 0.1], k=3, rrf_k=10, candidates=7, columns=["id"])
    assert found["t"].to_pylist() == ["w1"] * 3
    assert found["id"] == alone["id"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("SEARCH('{uri}')", "SEARCH needs query"),
        ("SEARCH('{uri}', 5)", "query of SEARCH is a text, not int"),
        ("SEARCH('{uri}', CAST(null AS STRING))", "query of SEARCH is null"),
        ("SEARCH(table => '{uri}', query => 'w0', nprobes => 3)", "SEARCH has no argument 'nprobes'"),
        ("SEARCH(table => '{uri}', query => 'w0', search_columns => array('id'))", "name a column of texts"),
        ("HYBRID_SEARCH('{uri}', array(1, 2), 'w0')", "Query vector size 2"),
        ("HYBRID_SEARCH(table => '{uri}', query => 'w0', query_vector => array(1, 2, 3, 4), fusion => 'x')", "'rrf'"),
        ("SEARCH('/nowhere/t.lance', 'w0')", "SEARCH takes the path of a table"),
    ],
)
def test_calls_that_make_no_sense_are_refused_in_a_sentence(
    spark: SparkSession, uri: str, call: str, words: str
) -> None:
    register_functions(spark)
    with pytest.raises((AnalysisException, IllegalArgumentException), match=re.escape(words)):
        spark.sql(f"SELECT * FROM {call.format(uri=uri)}")

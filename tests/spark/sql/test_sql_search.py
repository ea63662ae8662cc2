"""Searches in SQL, of tables by their names: what one process finds, and pylance."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.query import BooleanQuery, FullTextOperator, MatchQuery, MultiMatchQuery, Occur, PhraseQuery

DIMENSION = 4
WORDS = ("cat", "dog", "sun", "sea", "red", "blue", "tall")
VECTOR = [0.3, -0.2, 0.9, 0.1]
QUERY = f"array({', '.join(map(str, VECTOR))})"


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    texts = [f"{WORDS[number % 7]} {WORDS[number % 5]} number{number}" for number in numbers]
    titles = [None if number % 9 == 0 else f"{WORDS[number % 4]} {WORDS[number % 3]}" for number in numbers]
    vectors = np.random.default_rng(first).standard_normal((count, DIMENSION)).astype(np.float32)
    columns = {"id": numbers, "n": numbers % 100, "text": texts, "title": titles}
    return pa.table({**columns, "v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIMENSION)})


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two versions and a branch; an index on texts that does not know the last rows, some of which are gone."""
    place = str(tmp_path_factory.mktemp("found") / "made.lance")
    ds = lancelet.write_dataset(rows(0, 300), place, max_rows_per_file=120)
    ds.create_scalar_index("text", "INVERTED", with_position=True)
    ds.tags.create("first", ds.version)
    ds.insert(rows(300, 60))
    ds.delete("id % 13 = 5")
    ds.create_branch("trial").insert(rows(1000, 20))
    return place


@pytest.fixture
def table(sql, path: str) -> lancelet.LanceDataset:
    sql(f"CREATE TABLE {{ns}}.t USING lance LOCATION '{path}'")
    return lancelet.dataset(path)


def test_functions_take_names_of_tables(sql, spark, space, table):
    near = table.to_table(["id", "_distance"], nearest={"column": "v", "q": VECTOR, "k": 4})
    expected = list(zip(*near.to_pydict().values(), strict=True))
    assert sql(f"SELECT id, _distance FROM VECTOR_SEARCH('{{ns}}.t', {QUERY}, 4) ORDER BY _distance") == expected
    theirs = lance.dataset(table.uri).to_table(["id"], nearest={"column": "v", "q": VECTOR, "k": 4})
    assert theirs["id"].to_pylist() == [row[0] for row in expected]
    given = f"table => TABLE({{ns}}.t), query_vector => {QUERY}, k => 4, columns => array('id')"
    assert sql(f"SELECT * FROM vector_search({given}) ORDER BY _distance") == expected
    texts = table.to_table(["id", "_score"], full_text_query="cat dog", limit=5)
    found = sql("SELECT id, _score FROM SEARCH('{ns}.t', 'cat dog', 5)")
    assert found == list(zip(*texts.to_pydict().values(), strict=True))
    both = table.search("cat", VECTOR, k=3, columns=["id"])
    found = sql(f"SELECT id, _distance, _score, _relevance_score FROM HYBRID_SEARCH('{{ns}}.t', {QUERY}, 'cat', 3)")
    assert found == list(zip(*both.to_pydict().values(), strict=True))
    spark.sql(f"USE {space}")
    try:
        assert len(sql(f"SELECT * FROM VECTOR_SEARCH('t', {QUERY}, 2)")) == 2
    finally:
        spark.sql("USE spark_catalog.default")


def test_functions_take_versions_tags_and_branches(sql, space, table):
    def ids(arguments: str) -> set[int]:
        return {row[0] for row in sql(f"SELECT id FROM SEARCH({arguments}, query => 'cat', k => 1000)")}

    assert max(ids("table => '{ns}.t'")) > 300
    assert max(ids("table => '{ns}.t', version => 2")) < 300
    assert ids("table => '{ns}.t', version => 'first'") == ids("table => '{ns}.t.tag_first'")
    assert max(ids("table => '{ns}.t', version => 'trial'")) > 1000
    assert ids("table => '{ns}.t.branch_trial'") == ids("table => '{ns}.t', version => 'trial'")
    moment = (table.versions()[1]["timestamp"] + timedelta(microseconds=1)).astimezone().isoformat()
    assert ids(f"table => '{{ns}}.t', timestamp => '{moment}'") == ids("table => '{ns}.t', version => 2")


def test_what_is_found_is_joined(sql, table):
    found = sql(
        f"SELECT t.id, t.title, f._distance FROM {{ns}}.t t JOIN VECTOR_SEARCH('{{ns}}.t', {QUERY}, 3) f ON t.id = f.id "
        "ORDER BY f._distance"
    )
    near = table.to_table(["id", "title", "_distance"], nearest={"column": "v", "q": VECTOR, "k": 3})
    assert found == list(zip(*near.to_pydict().values(), strict=True))
    found = sql(
        "SELECT q.id, f.id FROM {ns}.t q, LATERAL VECTOR_SEARCH(table => '{ns}.t', query_vector => q.v, k => 1) f "
        "WHERE q.id IN (7, 8) ORDER BY q.id"
    )
    assert found == [(7, 7), (8, 8)]


def test_mistakes_of_searches(sql, refused, space, table):
    assert refused("SELECT * FROM SEARCH('{ns}.nope', 'cat')").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    sql("CREATE OR REPLACE TEMPORARY VIEW not_lance AS SELECT 1 AS id")
    for call, words in (
        ("SEARCH('{ns}.t', 'cat', 'x')", "k of SEARCH is a whole number"),
        ("SEARCH(table => '{ns}.t', query => 'cat', nope => 1)", "no argument 'nope'"),
        ("SEARCH(table => '{ns}.t', query => 'cat', version => 'nope')", "no tag and no branch 'nope'"),
        ("SEARCH(table => '{ns}.t', query => 'cat', version => 1, timestamp => '2020-01-01')", "both choose a version"),
        ("SEARCH('{ns}.t.history', 'cat')", "is not a Lance table"),
        ("SEARCH(TABLE(not_lance), 'cat')", "a Lance table here, by its name"),
        (f"VECTOR_SEARCH('{{ns}}.t', {QUERY}, 0)", "Nearest-K must be > 0"),
        ("VECTOR_SEARCH('{ns}.t', array(1, 2), 3)", "does not match index column size"),
    ):
        assert words in str(refused(f"SELECT * FROM {call}"))


def test_secrets_of_a_store_are_not_in_plans(spark, space, table):
    spark.conf.set(f"spark.sql.catalog.{space.name}s", "io.lancelet.spark.catalog.LanceCatalog")
    spark.conf.set(f"spark.sql.catalog.{space.name}s.root", str(space.root))
    spark.conf.set(f"spark.sql.catalog.{space.name}s.storage.secret_access_key", "hidden-word")
    text = spark.sql(f"EXPLAIN EXTENDED SELECT * FROM SEARCH('{space.name}s.ns.t', 'cat')").collect()[0][0]
    assert "SEARCH" in text
    assert "hidden-word" not in text


MATCHES = {
    "lance_match(text, 'cat dog')": MatchQuery("cat dog", "text"),
    "LANCE_MATCH(text, 'cat dog', 'operator=and, boost=2')": MatchQuery(
        "cat dog", "text", operator=FullTextOperator.AND, boost=2.0
    ),
    "lance_match(text, 'tal sunn', 'fuzziness=1,prefix_length=1,max_expansions=9')": MatchQuery(
        "tal sunn", "text", fuzziness=1, prefix_length=1, max_expansions=9
    ),
    "lance_match_phrase(text, 'dog sun')": PhraseQuery("dog sun", "text"),
    "lance_match_phrase(text, 'blue number33', 1)": PhraseQuery("blue number33", "text", slop=1),
    "lance_match(title, 'sun')": MatchQuery("sun", "title"),
    "lance_multi_match('sun', text, title)": MultiMatchQuery("sun", ["text", "title"]),
    "lance_multi_match('cat', 'operator=AND', text, title)": BooleanQuery(
        [(Occur.MUST, MatchQuery("cat", "text")), (Occur.MUST, MatchQuery("cat", "title"))]
    ),
}


@pytest.mark.parametrize("number", range(len(MATCHES)))
def test_texts_match_in_where(sql, table, number):
    condition, query = list(MATCHES.items())[number]
    expected = table.to_table(["id", "_score"], full_text_query=query, filter="n > 20", prefilter=True)
    assert expected.num_rows
    found = sql(f"SELECT id, _score FROM {{ns}}.t WHERE {condition} AND n > 20 ORDER BY _score DESC, id")
    wanted = sorted(zip(*expected.to_pydict().values(), strict=True), key=lambda row: (-row[1], row[0]))
    assert found == wanted


def test_texts_match_anywhere_in_a_condition(sql, spark, space, table):
    ids = {
        word: set(table.to_table(["id"], full_text_query=MatchQuery(word, "text"))["id"].to_pylist())
        for word in ("cat", "dog")
    }
    all_ids = set(table.to_table(["id"])["id"].to_pylist())
    small = set(table.to_table(["id"], filter="id < 20")["id"].to_pylist())

    def found(condition: str) -> set[int]:
        return {row[0] for row in sql(f"SELECT id FROM {{ns}}.t WHERE {condition}")}

    cat, dog = "lance_match(text, 'cat')", "{c}.lance_match(text, 'dog')"
    assert found(f"{cat} OR id < 20") == ids["cat"] | small
    assert found(f"NOT {cat}") == all_ids - ids["cat"]
    assert found(f"{cat} AND {dog}") == ids["cat"] & ids["dog"]
    assert found(f"{cat} AND NOT {dog} AND id < 200") == {one for one in ids["cat"] - ids["dog"] if one < 200}
    assert found("lance_match(text, 'nowhere')") == set()
    assert found("lance_match(text, 'nowhere') OR id = 3") == {3}
    assert sql(f"SELECT count(*) FROM {{ns}}.t WHERE {cat}") == [(len(ids["cat"]),)]
    assert len(found(f"{cat} AND text LIKE '%number1%'")) < len(ids["cat"])
    frame = spark.read.format("lance").load(table.uri).where("lance_match(text, 'cat')").select("id")
    assert {row[0] for row in frame.collect()} == ids["cat"]
    (plan,) = sql(f"EXPLAIN SELECT id FROM {{ns}}.t WHERE {cat} LIMIT 3")[0]
    assert "pushed=[(lance_match(text, 'cat')) = 1]" in plan
    assert "Filter" not in plan.replace("RuntimeFilters", "")
    joined = sql("SELECT count(*) FROM {ns}.t a JOIN {ns}.t b ON a.id = b.id WHERE lance_match(a.text, 'cat')")
    assert joined == [(len(ids["cat"]),)]


def test_rows_that_match_are_counted_beside_other_conditions(sql, tmp_path, path):
    copy = str(tmp_path / "copy.lance")
    shutil.copytree(path, copy)
    lancelet.dataset(copy).create_scalar_index("n", "BITMAP")
    sql(f"CREATE TABLE {{ns}}.mine USING lance LOCATION '{copy}'")
    for condition in ("lance_match(text, 'cat') AND n = 7", "NOT lance_match(text, 'cat') AND n = 7"):
        found = sql(f"SELECT id FROM {{ns}}.mine WHERE {condition}")
        assert found
        assert sql(f"SELECT count(*) FROM {{ns}}.mine WHERE {condition}") == [(len(found),)]


def test_scores_are_a_column_that_is_hidden(sql, refused, table):
    assert ("_score",) not in sql("SHOW COLUMNS IN {ns}.t")
    assert len(sql("SELECT * FROM {ns}.t LIMIT 1")[0]) == 5
    best = sql("SELECT id, _score FROM {ns}.t WHERE lance_match(text, 'cat sun') ORDER BY _score DESC LIMIT 3")
    expected = table.to_table(["_score"], full_text_query=MatchQuery("cat sun", "text"), limit=3)
    assert [score for _, score in best] == expected["_score"].to_pylist()
    for query in ("{ns}.t", "{ns}.t WHERE lance_match(text, 'a') OR id = 1"):
        assert "goes with one condition" in str(refused(f"SELECT id, _score FROM {query}"))


def test_rows_that_match_are_deleted_and_updated(sql, path, tmp_path: Path):
    copy = str(tmp_path / "copy.lance")
    shutil.copytree(path, copy)
    sql(f"CREATE TABLE {{ns}}.mine USING lance LOCATION '{copy}'")
    before = lancelet.dataset(copy)
    cats = before.to_table(["id"], full_text_query=MatchQuery("cat", "text"))["id"].to_pylist()
    sql("UPDATE {ns}.mine SET n = -1 WHERE lance_match(text, 'dog') AND id < 50")
    dogs = before.to_table(["id"], full_text_query=MatchQuery("dog", "text"), filter="id < 50", prefilter=True)
    now = lancelet.dataset(copy)
    assert sorted(now.to_table(["id"], filter="n = -1")["id"].to_pylist()) == sorted(dogs["id"].to_pylist())
    sql("DELETE FROM {ns}.mine WHERE lance_match(text, 'cat')")
    left = set(lancelet.dataset(copy).to_table(["id"])["id"].to_pylist())
    assert left == set(before.to_table(["id"])["id"].to_pylist()) - set(cats)


def test_conditions_on_texts_that_nobody_can_answer_are_refused(sql, spark, refused, table):
    spark.read.format("lance").option("filter", "id < 50").load(table.uri).createOrReplaceTempView(
        "chosen_by_an_option"
    )
    for query in (
        "SELECT lance_match(text, 'cat') FROM {ns}.t",
        "SELECT id FROM {ns}.t WHERE lance_match(upper(text), 'cat')",
        "SELECT id FROM {ns}.t WHERE lance_match(text, 'cat') OR n + 1 = 5",
        "SELECT 1 FROM VALUES ('cat') AS x(text) WHERE lance_match(text, 'cat')",
        "SELECT id FROM chosen_by_an_option WHERE lance_match(text, 'cat')",
    ):
        assert "answered by the index of a Lance table" in str(refused(query)), query
    for call, words in (
        ("lance_match(text, 'cat', 'nope=1')", "no option 'nope'"),
        ("lance_match(text, 'cat', 'fuzziness=x')", "a whole number, not 'x'"),
        ("lance_match(text, 'cat', 'AND')", "is written lance_match"),
        ("lance_match(text, title)", "with names of columns and constants"),
        ("lance_match_phrase(text, 'cat', 'x')", "is written lance_match_phrase"),
        ("lance_multi_match('cat', 'dog')", "is answered by the index"),
        ("lance_match(id, 'cat')", "name a column of texts"),
    ):
        assert words in str(refused(f"SELECT id FROM {{ns}}.t WHERE {call}")), call
    assert "needs a column and a text" in str(refused("SELECT id FROM {ns}.t WHERE lance_match(text)"))

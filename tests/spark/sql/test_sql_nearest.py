"""Rows by their distance: ORDER BY ... LIMIT and joins become searches, whose answers are those that Spark computes alone."""

from __future__ import annotations

import shutil

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet

DIMENSION = 8
RANDOM = np.random.default_rng(3)
QUERY = RANDOM.standard_normal(DIMENSION).astype(np.float32)
ARRAY = f"array({', '.join(f'{number}f' for number in QUERY.tolist())})"
ORDERS = {
    "l2": f"vector_l2_distance(v, {ARRAY})",
    "cosine": f"vector_cosine_similarity({ARRAY}, v) DESC",
    "dot": f"vector_inner_product(v, {ARRAY}) DESC",
}
OFF = ("spark.lance.knn.orderByDistance.enabled", "spark.lance.knn.indexedNearestByJoin.enabled")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments; in the last one rows without a vector."""
    place = str(tmp_path_factory.mktemp("near") / "made.lance")
    vectors = RANDOM.standard_normal((360, DIMENSION)).astype(np.float32)
    missing = np.arange(360) % 60 == 59
    column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIMENSION, mask=pa.array(missing))
    rows = pa.table({"id": range(360), "n": np.arange(360) % 50, "s": [f"row {n}" for n in range(360)], "v": column})
    lancelet.write_dataset(rows, place, max_rows_per_file=120).create_scalar_index("n", "BTREE")
    return place


@pytest.fixture
def table(sql, path: str) -> lancelet.LanceDataset:
    sql(f"CREATE TABLE {{ns}}.t USING lance LOCATION '{path}'")
    return lancelet.dataset(path)


@pytest.fixture
def alone(spark, sql):
    """Answers that Spark computes without a search."""

    def run(text: str) -> list[tuple]:
        for setting in OFF:
            spark.conf.set(setting, "false")
        try:
            return sql(text)
        finally:
            for setting in OFF:
                spark.conf.unset(setting)

    return run


def is_search(sql, text: str) -> bool:
    (plan,) = sql(f"EXPLAIN {text}")[0]
    return "nearest=" in plan or "MapInArrow nearest(" in plan


@pytest.mark.parametrize("metric", ORDERS)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM {{ns}}.t WHERE v IS NOT NULL ORDER BY {order} LIMIT 5",
        "SELECT id, s FROM {{ns}}.t WHERE n > 20 AND n <> 30 ORDER BY {order} NULLS LAST, id LIMIT 4",
        "SELECT id FROM {{ns}}.t ORDER BY {order}, id LIMIT 9",
        "SELECT id FROM {{ns}}.t WHERE n = 9 ORDER BY {order}, id LIMIT 300",
    ],
)
@pytest.mark.spread(0.5, each=False)
def test_the_first_by_distance_are_found_by_a_search(sql, alone, table, metric, query):
    text = query.format(order=ORDERS[metric])
    assert is_search(sql, text)
    expected = alone(text)
    assert expected
    assert sql(text) == expected


@pytest.fixture
def odd(sql, tmp_path) -> None:
    """A table with vectors that are far, not there, or no numbers, each three times."""
    nan, inf = float("nan"), float("inf")
    vectors = [
        [1, 0],
        [0, 1],
        [nan, 0],
        [inf, 0],
        [-inf, 0],
        [0, 0],
        None,
        [1, None],
        [3e38, 3e38],
        [1e-30, 0],
        [-1, -1],
    ] * 3
    rows = pa.table({"id": range(len(vectors)), "v": pa.array(vectors, pa.list_(pa.float32(), 2))})
    lancelet.write_dataset(rows, tmp_path / "odd.lance", max_rows_per_file=20)
    sql(f"CREATE TABLE {{ns}}.odd USING lance LOCATION '{tmp_path / 'odd.lance'}'")


@pytest.mark.parametrize("limit", [2, pytest.param(7, marks=pytest.mark.soak), 20])
@pytest.mark.parametrize("nulls", ["FIRST", "LAST"])
def test_vectors_that_are_not_compared_have_their_place_in_the_order(sql, alone, odd, nulls, limit):
    for number, key in enumerate(
        ("vector_l2_distance(v, {})", "vector_cosine_similarity(v, {}) DESC", "vector_inner_product({}, v) DESC")
    ):
        order = key.format(("array(1f, 0f)", "array(0f, 0f)", "array(-1f, 3e38f)")[(number + limit) % 3])
        text = f"SELECT id FROM {{ns}}.odd ORDER BY {order} NULLS {nulls}, id DESC LIMIT {limit}"
        assert is_search(sql, text), text
        assert sql(text) == alone(text), text


def test_vectors_that_lack_an_element_are_null_to_spark_though_the_column_is_not(sql, alone, odd):
    text = "SELECT id FROM {ns}.odd WHERE v IS NOT NULL ORDER BY vector_l2_distance(v, array(1f, 0f)), id LIMIT 5"
    assert is_search(sql, text)
    assert sql(text) == alone(text)


def test_among_rows_of_one_distance_other_keys_decide(sql, alone, tmp_path):
    vectors = np.tile(np.eye(DIMENSION, dtype=np.float32), (40, 1))
    column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIMENSION)
    rows = pa.table({"id": range(320), "n": np.arange(320) * 7919 % 320, "v": column})
    ds = lancelet.write_dataset(rows, tmp_path / "even.lance")
    sql(f"CREATE TABLE {{ns}}.even USING lance LOCATION '{tmp_path / 'even.lance'}'")
    text = f"SELECT id FROM {{ns}}.even WHERE v IS NOT NULL ORDER BY {ORDERS['l2']}, n LIMIT 5"
    assert is_search(sql, text)
    expected = alone(text)
    assert sql(text) == expected
    ds.create_index("v", "IVF_FLAT", num_partitions=2, metric="l2")
    assert sql(text) == expected


def test_they_are_those_of_pylance(sql, table):
    found = sql(f"SELECT id, vector_l2_distance(v, {ARRAY}) AS d FROM {{ns}}.t WHERE v IS NOT NULL ORDER BY d LIMIT 5")
    theirs = lance.dataset(table.uri).to_table(["id", "_distance"], nearest={"column": "v", "q": QUERY, "k": 5})
    assert [number for number, _ in found] == theirs["id"].to_pylist()
    assert [distance**2 for _, distance in found] == pytest.approx(theirs["_distance"].to_pylist(), rel=1e-5)


def test_what_is_no_search_is_left_to_spark(sql, alone, table):
    for text in (
        f"SELECT id FROM {{ns}}.t WHERE v IS NOT NULL ORDER BY vector_l2_distance(v, {ARRAY}) DESC LIMIT 5",
        f"SELECT id FROM {{ns}}.t WHERE n + 1 > 20 AND v IS NOT NULL ORDER BY vector_l2_distance(v, {ARRAY}) LIMIT 5",
        f"SELECT id FROM {{ns}}.t WHERE v IS NOT NULL ORDER BY id, vector_l2_distance(v, {ARRAY}) LIMIT 5",
        f"SELECT id FROM {{ns}}.t WHERE v IS NOT NULL ORDER BY vector_l2_distance(v, {ARRAY}) + n LIMIT 5",
        f"SELECT max(id) FROM {{ns}}.t WHERE v IS NOT NULL GROUP BY n ORDER BY min(vector_l2_distance(v, {ARRAY})) LIMIT 3",
    ):
        assert not is_search(sql, text), text
        assert sql(text) == alone(text), text


def test_joins_by_distance_ask_the_table(sql, alone, spark, table):
    spark.createDataFrame(
        [(1, "a", QUERY.tolist()), (2, None, (QUERY * -1).tolist()), (3, "c", None)],
        "id int, name string, at array<float>",
    ).createOrReplaceTempView("asked")
    for join, right, by in (
        ("JOIN", "{ns}.t", "DISTANCE vector_l2_distance(q.at, t.v)"),
        (
            "LEFT OUTER JOIN",
            "(SELECT * FROM {ns}.t WHERE n BETWEEN 10 AND 30)",
            "SIMILARITY vector_cosine_similarity(t.v, q.at)",
        ),
        (
            "INNER JOIN",
            "(SELECT id, v FROM {ns}.t WHERE n > 2 AND n < 12)",
            "SIMILARITY vector_inner_product(q.at, t.v)",
        ),
    ):
        text = f"SELECT q.id, q.name, t.id FROM asked q {join} {right} t APPROX NEAREST 3 BY {by} ORDER BY q.id, t.id"
        assert is_search(sql, text), text
        expected = alone(text)
        assert len(expected) >= 6
        assert sql(text) == expected
        assert not is_search(sql, text.replace("APPROX", "EXACT"))
    for right in (
        "(SELECT id, v FROM {ns}.t WHERE n + 1 > 3)",
        "(SELECT id, v, count(*) AS c FROM {ns}.t GROUP BY id, v)",
    ):
        text = (
            f"SELECT q.id, t.id FROM asked q JOIN {right} t APPROX NEAREST 2 BY DISTANCE vector_l2_distance(q.at, t.v)"
        )
        assert not is_search(sql, text)


def test_hidden_columns_are_named_before_they_are_joined(sql, refused, alone, table):
    text = f"SELECT t._rowid FROM (SELECT {ARRAY} AS at) q JOIN {{}} t APPROX NEAREST 2 BY DISTANCE vector_l2_distance(q.at, t.v)"
    assert "JOIN (SELECT id, v, _rowid FROM t)" in str(refused(text.replace("{}", "{ns}.t")))
    found = sql(text.replace("{}", "(SELECT v, _rowid FROM {ns}.t)"))
    order = f"WHERE v IS NOT NULL ORDER BY vector_l2_distance(v, {ARRAY}) LIMIT 2"
    assert sorted(found) == sorted(sql(f"SELECT _rowid FROM {{ns}}.t {order}"))


def test_rows_that_no_task_of_pythons_takes_are_joined_by_spark(sql, alone, table):
    asked = f"(SELECT {ARRAY} AS at, INTERVAL '1-2' YEAR TO MONTH AS long)"
    text = f"SELECT string(q.long), t.id FROM {asked} q JOIN {{ns}}.t t APPROX NEAREST 2 BY DISTANCE vector_l2_distance(q.at, t.v)"
    assert not is_search(sql, text)
    assert sorted(sql(text)) == sorted(alone(text))


def test_an_index_is_asked_and_settings_say_how(sql, alone, spark, tmp_path, path):
    copy = str(tmp_path / "indexed.lance")
    shutil.copytree(path, copy)
    ds = lancelet.dataset(copy)
    ds.create_index("v", "IVF_FLAT", num_partitions=4, metric="l2")
    sql(f"CREATE TABLE {{ns}}.indexed USING lance LOCATION '{copy}'")
    text = f"SELECT id FROM {{ns}}.indexed WHERE v IS NOT NULL ORDER BY vector_l2_distance(v, {ARRAY}) LIMIT 6"

    def expected(**options) -> list[tuple[int]]:
        nearest = {"column": "v", "q": QUERY, "k": 6, **options}
        return [(number,) for number in ds.to_table(["id"], nearest=nearest)["id"].to_pylist()]

    for settings, options in (
        ({"nprobes": "1"}, {"nprobes": 1}),
        ({"nprobes": "4", "refineFactor": "2"}, {"nprobes": 4, "refine_factor": 2}),
        ({"useIndex": "false"}, {"use_index": False}),
    ):
        for name, value in settings.items():
            spark.conf.set(f"spark.lance.knn.{name}", value)
        try:
            assert sql(text) == expected(**options)
        finally:
            for name in settings:
                spark.conf.unset(f"spark.lance.knn.{name}")
    assert expected(use_index=False) == alone(text)
    spark.conf.set("spark.lance.knn.nprobes", "many")
    try:
        with pytest.raises(Exception, match="a number above 0, not 'many'"):
            sql(text)
    finally:
        spark.conf.unset("spark.lance.knn.nprobes")

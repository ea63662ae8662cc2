"""What Spark's planner knows of tables, and what it leaves to them: each shown by the plan, and by the answer."""

from __future__ import annotations

import random
import shutil
from datetime import date, timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, functions
from pyspark.sql.types import StructType

import lancelet
from lancelet.spark import bridge
from lancelet.spark.source import LanceDataSource
from spark.sessions import MODE
from spark.sql.random_queries import Tables, make_condition, make_query

ROWS = 6000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("planned") / "made.lance")
    numbers = np.arange(ROWS)
    floats = np.where(numbers % 7 == 0, np.nan, numbers % 100 / 8)
    floats[numbers % 11 == 0] = -0.0
    columns = {
        "id": numbers,
        "n": pa.array([None if n % 97 == 0 else int(n * 7919 % 1000) for n in numbers.tolist()], pa.int32()),
        "x": pa.array(floats, mask=numbers % 50 == 3),
        "s": [f"text {n * 31 % 500}" for n in numbers.tolist()],
        "day": [date(2020, 1, 1) + timedelta(days=n % 400) for n in numbers.tolist()],
        "wide": [f"{n} " * 20 for n in numbers.tolist()],
    }
    ds = lancelet.write_dataset(pa.table(columns), place, max_rows_per_file=1500)
    ds.create_scalar_index("id", "BTREE")
    ds.create_scalar_index("n", "BITMAP")
    ds.create_scalar_index("day", "ZONEMAP")
    return place


@pytest.fixture
def table(sql, path: str) -> lance.LanceDataset:
    sql(f"CREATE TABLE {{ns}}.t USING lance LOCATION '{path}'")
    return lance.dataset(path)


def explained(sql, text: str) -> str:
    return sql(f"EXPLAIN {text}")[0][0]


@pytest.mark.parametrize(
    "order",
    [
        "n, id",
        "n DESC NULLS FIRST, id DESC",
        "x, id",
        "x DESC, n DESC NULLS LAST, id",
        "s, day DESC, id",
        "day NULLS LAST, id",
    ],
)
def test_the_first_rows_in_an_order_are_chosen_by_tasks(sql, spark, path, table, order):
    text = f"SELECT id, wide FROM {{ns}}.t WHERE id > 20 ORDER BY {order} LIMIT 7"
    assert "order=[" in explained(sql, text)
    frame = spark.createDataFrame(table.to_table(filter="id > 20"))
    assert sql(text) == [tuple(row) for row in frame.orderBy(*_keys(order)).limit(7).select("id", "wide").collect()]


def _keys(order: str) -> list[Column]:
    return [_key(text) for text in order.split(", ")]


def _key(text: str) -> Column:
    name, *words = text.split()
    way = "desc" if "DESC" in words else "asc"
    nulls = "_nulls_first" if "FIRST" in words else "_nulls_last" if "LAST" in words else ""
    made: Column = getattr(functions.col(name), f"{way}{nulls}")()
    return made


def test_orders_that_tasks_do_not_have_are_sparks(sql, table):
    for key in ("n + 1", "upper(s)"):
        assert "order=[" not in explained(sql, f"SELECT id FROM {{ns}}.t ORDER BY {key} LIMIT 3")
    assert "order=[" not in explained(sql, "SELECT id FROM {ns}.t ORDER BY n LIMIT 100000")


def test_limits_and_offsets_are_exact_without_a_condition(sql, table):
    plan = explained(sql, "SELECT id FROM {ns}.t LIMIT 5 OFFSET 2998")
    assert "limit=3003 offset=2998" in plan
    assert "GlobalLimit" not in plan
    assert sql("SELECT id FROM {ns}.t LIMIT 5 OFFSET 2998") == [(n,) for n in range(2998, 3003)]
    assert sql("SELECT count(*) FROM (SELECT id FROM {ns}.t LIMIT 4000)") == [(4000,)]
    assert sql(f"SELECT count(*) FROM (SELECT id FROM {{ns}}.t LIMIT 10 OFFSET {ROWS - 4})") == [(4,)]
    assert len(sql("SELECT id FROM {ns}.t WHERE n > 500 LIMIT 5 OFFSET 3")) == 5
    assert sql("SELECT count(*) FROM (SELECT id FROM {ns}.t WHERE x = 1 LIMIT 4000)") == [(table.count_rows("x = 1"),)]
    assert "offset=" not in explained(sql, "SELECT id FROM {ns}.t WHERE n > 500 LIMIT 5 OFFSET 3")


def test_samples_are_drawn_by_tasks(sql, table):
    text = "SELECT id FROM {ns}.t TABLESAMPLE (10 PERCENT) REPEATABLE (42)"
    plan = explained(sql, text)
    assert "sample=0.0,0.1,42" in plan
    assert "Sample" not in plan
    found = sql(text)
    assert 0.07 * ROWS < len(found) < 0.13 * ROWS
    assert sql(text) == found
    assert len(set(found)) == len(found)
    other = sql(text.replace("42", "43"))
    assert len(set(other) & set(found)) < len(found) / 3
    some = sql(text + " WHERE n > 500")
    assert {row[0] for row in some} == {row[0] for row in found} & set(
        table.to_table(["id"], filter="n > 500")["id"].to_pylist()
    )
    assert sql(f"SELECT count(*) FROM ({text})") == [(len(found),)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 40))])
def test_queries_by_chance_have_the_answers_that_spark_has_over_parquet(spark, tmp_path: Path, seed: int, request):
    is_wide = request.node.get_closest_marker("soak") is not None
    chance = random.Random(seed)
    settings = {
        "spark.sql.session.timeZone": chance.choice(("UTC", "America/New_York", "Asia/Kolkata")),
        "spark.sql.autoBroadcastJoinThreshold": chance.choice(("10485760", "-1", "3000")),
        "spark.sql.cbo.enabled": chance.choice(("true", "false")),
        # Not in the order of its operands, a condition would fail over one table and not over another.
        "spark.sql.ansi.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        tables = Tables.make(spark, chance, tmp_path)
        for _ in range(4 if is_wide else 1):
            assert not list(tables.differing_conditions([make_condition(chance) for _ in range(20)]))
        for _ in range(40 if is_wide else 6):
            assert tables.difference(make_query(chance)) is None
    finally:
        for name, old in before.items():
            spark.conf.set(name, old)


def test_conditions_that_spark_makes_a_null_part_of(sql, tmp_path: Path):
    numbers = [1.5, None, float("nan"), -2.0]
    lancelet.write_dataset(pa.table({"id": range(4), "f": pa.array(numbers, pa.float32())}), tmp_path / "t.lance")
    for condition, expected in (
        ("(f <= double('nan')) <=> true", [0, 2, 3]),
        ("(f <= double('nan')) <=> NULL", [1]),
        ("NOT ((f <= double('nan')) <=> true)", [1]),
        ("((f > 1 AND CAST(NULL AS BOOLEAN)) <=> false)", [3]),
        ("((f > 1 OR CAST(NULL AS BOOLEAN)) <=> true) OR id = 1", [0, 1, 2]),
    ):
        for place in (f"lance.`{tmp_path / 't.lance'}`", "VALUES_OF_SPARK"):
            if place == "VALUES_OF_SPARK":
                place = "VALUES (0, 1.5F), (1, NULL), (2, float('nan')), (3, -2F) AS t(id, f)"
            found = sql(f"SELECT id FROM {place} WHERE {condition} ORDER BY id")
            assert [row[0] for row in found] == expected, (condition, place)


def test_an_order_over_a_sample_is_one_of_its_rows(sql, table):
    text = "SELECT id FROM {ns}.t TABLESAMPLE (10 PERCENT) REPEATABLE (42)"
    last = sorted(sql(text), reverse=True)[:3]
    assert sql(f"{text} ORDER BY id DESC LIMIT 3") == last


def test_times_with_fewer_digits_than_sparks_are_compared_as_they_are(sql, tmp_path: Path):
    ticks = [-2, -1, 0, 1, None]
    columns = {"ms": pa.array(ticks, pa.timestamp("ms", "UTC")), "s": pa.array(ticks, pa.timestamp("s"))}
    lancelet.write_dataset(pa.table({"id": range(5), **columns}), tmp_path / "t.lance")
    sql(f"CREATE TABLE {{ns}}.times USING lance LOCATION '{tmp_path / 't.lance'}'")
    for name, kind, before in (("ms", "TIMESTAMP", "59.9985"), ("s", "TIMESTAMP_NTZ", "58.5")):
        between = f"{kind}'1969-12-31 23:59:{before}'"
        same = f"{kind}'1970-01-01 00:00:00'"
        for condition, expected in (
            (f"{name} < {between}", [0]),
            (f"{name} >= {between}", [1, 2, 3]),
            (f"{name} = {between}", []),
            (f"{name} <> {between}", [0, 1, 2, 3]),
            (f"NOT {name} <=> {between}", [0, 1, 2, 3, 4]),
            (f"{name} IN ({between}, {same})", [2]),
            (f"{name} NOT IN ({between}, {same})", [0, 1, 3]),
        ):
            text = f"SELECT id FROM {{ns}}.times WHERE {condition}"
            assert "pushed=[]" not in explained(sql, text)
            assert [row[0] for row in sql(text)] == expected, condition


def test_counts_ends_and_nothing_else_come_from_indices(sql, spark, path, tmp_path: Path, table):
    def is_told(text: str) -> bool:
        plan = explained(sql, text)
        return "LocalTableScan" in plan and "BatchScan" not in plan

    days = table.to_table(["day"])["day"].to_pylist()
    assert is_told("SELECT min(day), max(day), count(*) FROM {ns}.t")
    assert sql("SELECT min(day), max(day), count(*) FROM {ns}.t") == [(min(days), max(days), ROWS)]
    for condition in ("id = 77", "id IN (5, 6, 70000)", "n = 500", "n IN (1, 2) AND id < 3000"):
        text = f"SELECT count(*) FROM {{ns}}.t WHERE {condition}"
        assert is_told(text), condition
        assert sql(text) == [(table.count_rows(condition),)]
    for text in (
        "SELECT min(n) FROM {ns}.t",
        "SELECT min(day) FROM {ns}.t WHERE n > 3",
        "SELECT count(*) FROM {ns}.t WHERE day = DATE'2020-02-01'",
        "SELECT count(*) FROM {ns}.t WHERE x > 1",
        "SELECT min(day) FROM {ns}.t GROUP BY n",
        "SELECT sum(id) FROM {ns}.t",
    ):
        assert not is_told(text), text
    assert sql("SELECT min(day) FROM {ns}.t WHERE n > 3") == [
        (min(table.to_table(["day"], filter="n > 3")["day"].to_pylist()),)
    ]
    copy = str(tmp_path / "copy.lance")
    shutil.copytree(path, copy)
    lancelet.dataset(copy).delete(f"day = date '{min(days)}'")
    sql(f"CREATE TABLE {{ns}}.less USING lance LOCATION '{copy}'")
    assert not is_told("SELECT min(day) FROM {ns}.less")
    assert sql("SELECT min(day) FROM {ns}.less") == [(min(days) + timedelta(days=1),)]
    assert sql("SELECT count(*) FROM {ns}.less WHERE n = 500") == [(lance.dataset(copy).count_rows("n = 500"),)]
    lancelet.dataset(copy).insert(table.to_table(limit=1))
    assert not is_told("SELECT max(day) FROM {ns}.less")


@pytest.mark.skipif(MODE.startswith("connect"), reason="plans of Spark Connect have no statistics to look at")
def test_sizes_follow_columns_and_conditions(spark, space, table):
    def size(text: str) -> int:
        plan = spark.sql(text.replace("{ns}", str(space)))._jdf.queryExecution().optimizedPlan()
        return int(str(plan.stats().sizeInBytes()))

    whole, narrow = size("SELECT * FROM {ns}.t"), size("SELECT id FROM {ns}.t")
    assert 5 * narrow < whole
    assert size("SELECT id FROM {ns}.t WHERE id = 5") < narrow / 100
    assert size("SELECT id FROM {ns}.t WHERE id < 60") < narrow / 10
    assert size("SELECT id FROM {ns}.t WHERE x > 1") >= narrow
    assert size("SELECT id FROM {ns}.t LIMIT 10") < narrow / 100
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        plan = spark.sql(f"SELECT day FROM {space}.t")._jdf.queryExecution().optimizedPlan()
        assert int(str(plan.stats().rowCount().get())) == ROWS
        assert "2020" in str(plan.stats().attributeStats()) or "18262" in str(plan.stats().attributeStats())
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


def test_ends_of_all_times_go_with_the_cost_based_optimizer(sql, spark, tmp_path: Path):
    seconds = np.arange(100) * 86_400
    kinds = {"day": pa.date32(), "at": pa.timestamp("us", "UTC"), "ntz": pa.timestamp("us")}
    times = pa.array(seconds, pa.timestamp("s"))
    rows = pa.table({"id": range(100), **{name: times.cast(kind) for name, kind in kinds.items()}})
    ds = lancelet.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=40)
    for name in kinds:
        ds.create_scalar_index(name, "ZONEMAP")
    sql(f"CREATE TABLE {{ns}}.times USING lance LOCATION '{tmp_path / 't.lance'}'")
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        for name, literal in (("day", "DATE"), ("at", "TIMESTAMP"), ("ntz", "TIMESTAMP_NTZ")):
            # With an expression in it, the condition is Spark's own, whose share it estimates.
            condition = f"{name} = {literal}'1970-01-03' OR upper(string(id)) = '99'"
            others = "SELECT id FROM {ns}.times WHERE id > 1"
            assert sql(f"SELECT id FROM {{ns}}.times WHERE id IN ({others}) AND ({condition}) ORDER BY id") == [
                (2,),
                (99,),
            ]
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


def test_small_sides_are_broadcast_and_tell_the_other_what_they_have(sql, spark, table):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "20000")
    spark.range(50).selectExpr("id * 3 AS k", "id AS x").createOrReplaceTempView("keys_of_others")
    try:
        text = "SELECT a.id, b.s FROM {ns}.t a JOIN {ns}.t b ON a.id = b.id WHERE b.n = 500"
        assert "BroadcastHashJoin" in explained(sql, text)
        expected = table.to_table(["id", "s"], filter="n = 500").to_pydict()
        assert sorted(sql(text)) == sorted(zip(*expected.values(), strict=True))
        text = "SELECT a.id FROM {ns}.t a JOIN keys_of_others k ON a.id = k.k WHERE k.x IN (4, 7, 49)"
        assert "dynamicpruning" in explained(sql, text)
        assert sorted(sql(text)) == [(12,), (21,), (147,)]
        assert "dynamicpruning" not in explained(sql, text.replace("a.id = k.k", "a.s = string(k.k)"))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_what_stands_twice_in_a_query_is_read_once(sql, spark, table):
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        text = "SELECT count(*) FROM {ns}.t a JOIN {ns}.t b ON a.s = b.s WHERE a.n < 5 AND b.n < 5"
        assert "ReusedExchange" in explained(sql, text)
        texts = table.to_table(["s"], filter="n < 5")["s"].to_pylist()
        assert sql(text) == [(sum(texts.count(one) for one in texts),)]
        assert "ReusedExchange" not in explained(sql, text.replace("b.n < 5", "b.n < 6"))
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_what_a_join_tells_prunes_fragments_and_rows(path):
    """The plan of the scan, as Spark asks for it with the values of the other side."""
    told = '["and", ["in", ["col", "id"], [["lit", "long", "3"], ["lit", "long", "4700"]]]]'
    source = LanceDataSource({"path": path, bridge.RUNTIME: told})
    schema = source.schema()
    before = LanceDataSource({"path": path}).reader(StructType([schema["id"]]))
    splits = source.reader(StructType([schema["id"]])).partitions()
    assert sorted({number for split in splits for number, _, _ in split.value.pieces}) == [0, 3]
    # Spark keeps the reader that it had, and gives it the new splits.
    rows = [row["id"] for split in splits for batch in before.read(split) for row in batch.to_pylist()]
    assert sorted(rows) == [3, 4700]

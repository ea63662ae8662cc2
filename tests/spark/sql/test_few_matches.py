"""MERGE from a small source into a large table: the few rows that it can match are found first, and the rows are the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.spark import LanceTable

ROWS = 600
BOTH = "WHEN MATCHED THEN UPDATE SET s = c.s WHEN NOT MATCHED THEN INSERT (k, s) VALUES (c.k, c.s)"
VALUES = "(SELECT * FROM VALUES (NULL, 'n'), (60L, 'a'), (9999L, 'b') AS v(k, s)) AS c"
SMALL = {"spark.sql.autoBroadcastJoinThreshold": "3000"}
NEVER = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Keys are null, missing, or stand twice; some rows are deleted."""
    place = str(tmp_path_factory.mktemp("few") / "t.lance")
    keys = [None if n % 50 == 7 else n // 2 if n % 40 < 2 else n for n in range(ROWS)]
    columns = {
        "k": pa.array(keys, pa.int64()),
        "u": [f"key {n}" for n in range(ROWS)],
        "x": pa.array([n / 4 for n in range(ROWS)], pa.float64()),
        "s": ["old"] * ROWS,
    }
    ds = lance.write_dataset(pa.table(columns), place, max_rows_per_file=200, enable_stable_row_ids=True)
    ds.delete("k IN (33, 34, 35)")
    return place


@pytest.fixture
def merged(spark, original: str, tmp_path: Path, space) -> Iterator:
    """Runs a merge on a copy of the table; tells its plan, and the rows then."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    copies = iter(range(100))

    def run(text: str, settings: dict[str, str] = SMALL) -> tuple[str, list]:
        place = str(tmp_path / f"{next(copies)}.lance")
        shutil.copytree(original, place)
        for name, value in settings.items():
            spark.conf.set(name, value)
        statement = f"MERGE INTO {space.name}.`{place}` AS t USING {text}"
        plan = spark.sql(f"EXPLAIN {statement}").collect()[0][0]
        spark.sql(statement).collect()
        assert lancelet.dataset(place).verify().ok
        return plan, rows(place)

    yield run
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


def rows(place: str) -> list:
    """As pylance reads them; ids of new rows follow the order in which they are written."""
    found = lance.dataset(place).scanner(with_row_id=True).to_table()
    ids = [min(ROWS, number) for number in found.column("_rowid").to_pylist()]
    return sorted(zip(ids, *(found.column(name).to_pylist() for name in "kuxs"), strict=True), key=repr)


SOURCES = {
    "equal keys": f"(SELECT id * 30 AS k, 'new' AS s FROM range(40)) AS c ON t.k = c.k {BOTH}",
    "turned, computed": f"(SELECT id * 30 AS k, 'new' AS s FROM range(40)) AS c ON c.k + 1 = t.k * 2 {BOTH}",
    "null keys": f"{VALUES} ON t.k = c.k {BOTH}",
    "null is a key": f"{VALUES} ON t.k <=> c.k {BOTH}",
    "more than equality": f"(SELECT id * 30 AS k, 'new' AS s FROM range(40)) AS c ON t.k = c.k AND t.x < c.k / 5 {BOTH}",
    "several keys": (
        "(SELECT id * 30 AS k, concat('key ', id * 30) AS u, 'new' AS s FROM range(40)) AS c ON t.k = c.k AND t.u = c.u "
        + BOTH
    ),
    "deleted and gone": (
        "(SELECT id AS k, 'new' AS s FROM range(30, 40)) AS c ON t.k = c.k WHEN MATCHED AND c.k > 36 THEN DELETE "
        "WHEN NOT MATCHED AND c.k > 33 THEN INSERT (k, s) VALUES (c.k, c.s)"
    ),
    "no rows": f"(SELECT id AS k, 'new' AS s FROM range(5) WHERE id > 9) AS c ON t.k = c.k {BOTH}",
    "counted": f"(SELECT id % 7 AS k, CAST(count(*) AS STRING) AS s FROM range(90) GROUP BY 1) AS c ON t.k = c.k {BOTH}",
    "joined": (
        "(SELECT a.id AS k, 'new' AS s FROM range(58, 62) a JOIN range(60, 64) b ON a.id = b.id UNION ALL SELECT 9L, 'z') AS c "
        f"ON t.k = c.k {BOTH}"
    ),
    "only new rows": (
        "(SELECT id * 30 AS k, 'new' AS s FROM range(40)) AS c ON t.k = c.k "
        "WHEN NOT MATCHED THEN INSERT (k, s) VALUES (c.k, c.s)"
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_rows_are_those_that_a_whole_join_gives(merged, name: str):
    plan, found = merged(SOURCES[name])
    if name != "no rows":
        assert "LeftSemi" in plan
        assert "BroadcastExchange" in plan
    whole, expected = merged(SOURCES[name], NEVER)
    assert "LeftSemi" not in whole
    assert found == expected


def test_rows_are_those_of_pylance_and_of_a_data_frame(merged, spark, original, tmp_path: Path):
    plan, found = merged(SOURCES["equal keys"])
    assert "LeftSemi" in plan
    keys = [30 * n for n in range(40)]
    theirs, frames = str(tmp_path / "theirs.lance"), str(tmp_path / "frames.lance")
    for place in (theirs, frames):
        shutil.copytree(original, place)
    new = pa.table({"k": keys, "s": ["new"] * 40})
    merge = lance.dataset(theirs).merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(new)
    assert found == rows(theirs)
    source = spark.sql("SELECT id * 30 AS k, 'new' AS s FROM range(40)").alias("c")
    change = LanceTable.forPath(spark, frames).alias("t").merge(source, "t.k = c.k").whenMatchedUpdate(set={"s": "c.s"})
    change.whenNotMatchedInsert(values={"k": "c.k", "s": "c.s"}).execute()
    assert found == rows(frames)


def test_a_source_of_the_table_itself(merged, sql, original, space):
    text = f"(SELECT k + 1 AS k, 'more' AS s FROM {space.name}.`{original}` WHERE k > 560) AS c ON t.k = c.k {BOTH}"
    plan, found = merged(text, {"spark.sql.autoBroadcastJoinThreshold": "10000"})
    assert "LeftSemi" in plan
    assert found == merged(text, NEVER)[1]


def test_a_row_that_is_matched_twice(merged):
    twice = f"(SELECT 60L AS k, string(id) AS s FROM range(2)) AS c ON t.k = c.k {BOTH}"
    for settings in (SMALL, NEVER):
        with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
            merged(twice, settings)


UNSTEADY = {
    "chance": "(SELECT CAST(rand() * 9 AS BIGINT) AS k, 'new' AS s FROM range(1)) AS c ON t.k = c.k",
    "any rows": "(SELECT id AS k, 'new' AS s FROM range(1000) LIMIT 3) AS c ON t.k = c.k",
    "ties": (
        "(SELECT k, 'new' AS s FROM (SELECT id AS k, row_number() OVER (PARTITION BY id % 3 ORDER BY id % 2) AS r "
        "FROM range(20)) WHERE r = 1) AS c ON t.k = c.k"
    ),
    "sums": "(SELECT CAST(sum(id / 3D) AS BIGINT) AS k, 'new' AS s FROM range(20) GROUP BY id % 3) AS c ON t.k = c.k",
    "subquery": "(SELECT id AS k, 'new' AS s FROM range(20) WHERE id > (SELECT min(id) FROM range(3))) AS c ON t.k = c.k",
    "code of users": "(SELECT few_matches_udf(id) AS k, 'new' AS s FROM range(3)) AS c ON t.k = c.k",
    "no equality": "(SELECT 5L AS k, 'new' AS s) AS c ON t.k < c.k",
    "floating point": "(SELECT id AS k, double(id) AS x, 'new' AS s FROM range(3)) AS c ON t.x = c.x",
    "large": "(SELECT id AS k, 'new' AS s FROM range(3000)) AS c ON t.k = c.k",
}


@pytest.mark.parametrize("name", UNSTEADY)
def test_what_may_be_other_rows_the_second_time_is_asked_once(merged, spark, name: str):
    spark.udf.register("few_matches_udf", lambda number: number, "bigint")
    assert "LeftSemi" not in merged(f"{UNSTEADY[name]} {BOTH}")[0]


def test_rows_that_only_the_table_has_need_all_of_them(merged):
    text = f"(SELECT id * 30 AS k, 'new' AS s FROM range(40)) AS c ON t.k = c.k {BOTH}"
    every = f"{text} WHEN NOT MATCHED BY SOURCE AND t.k > 500 THEN DELETE"
    plan, found = merged(every)
    assert "LeftSemi" not in plan
    assert found == merged(every, NEVER)[1]


def test_a_small_table_is_joined_at_once(merged):
    large = {"spark.sql.autoBroadcastJoinThreshold": "10000000"}
    assert "LeftSemi" not in merged(SOURCES["equal keys"], large)[0]

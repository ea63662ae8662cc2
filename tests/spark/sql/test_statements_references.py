"""Branches, tags, clones and procedures in SQL, checked with pylance on the same table."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import lance
import pytest

import lancelet


@pytest.fixture
def table(sql, space):
    path = str(space.root.parent / "made.lance")
    for number in range(3):
        lancelet.write_dataset({"id": [2 * number, 2 * number + 1]}, path, mode="append" if number else "create")
    sql(f"CREATE TABLE {{ns}}.t USING lance LOCATION '{path}'")
    return lambda: lance.dataset(path)


def test_branches(sql, refused, table):
    assert sql("ALTER TABLE {ns}.t CREATE BRANCH `a-b`") == [("a-b",)]
    assert sql("ALTER TABLE {ns}.t CREATE BRANCH old AS OF VERSION 1") == [("old",)]
    sql("INSERT INTO {ns}.t.branch_old VALUES (10)")
    sql("ALTER TABLE {ns}.t CREATE BRANCH older AS OF BRANCH old VERSION 1;")
    sql("ALTER TABLE {ns}.t CREATE BRANCH newer AS OF BRANCH old")
    shown = {row[0]: row[1:3] for row in sql("SHOW BRANCHES IN {ns}.t")}
    assert shown == {"a-b": (None, 3), "old": (None, 1), "older": ("old", 1), "newer": ("old", 2)}
    assert shown.keys() == table().branches.list().keys()
    assert [sql(f"SELECT count(*) FROM {{ns}}.t.`branch_{name}`") for name in ("a-b", "old", "older", "newer")] == [
        [(6,)],
        [(3,)],
        [(2,)],
        [(3,)],
    ]
    assert sql("OPTIMIZE {ns}.t.branch_newer")[0][0] == 2
    assert (len(sql("DESCRIBE HISTORY {ns}.t")), table().version) == (3, 3)
    assert sql("ALTER TABLE {ns}.t CREATE BRANCH IF NOT EXISTS old") == [("old",)]
    assert "already exists" in str(refused("ALTER TABLE {ns}.t CREATE BRANCH old"))
    for reference in ("VERSION 77", "BRANCH nope", "TAG nope"):
        refused(f"ALTER TABLE {{ns}}.t CREATE BRANCH x AS OF {reference}")
    assert "x" not in table().branches.list()
    assert sql("ALTER TABLE {ns}.t DROP BRANCH older") == [("older",)]
    assert sql("ALTER TABLE {ns}.t DROP BRANCH IF EXISTS older") == [("older",)]
    assert "older" in str(refused("ALTER TABLE {ns}.t DROP BRANCH older"))
    assert sql("SELECT name FROM {ns}.t.refs WHERE type = 'BRANCH' ORDER BY 1") == [
        ("a-b",), ("main",), ("newer",), ("old",)
    ]  # fmt: skip


def test_tags(sql, refused, table):
    sql("ALTER TABLE {ns}.t CREATE TAG first AS OF VERSION 1")
    sql("ALTER TABLE {ns}.t CREATE TAG now")
    sql("ALTER TABLE {ns}.t CREATE TAG early VERSION AS OF 2")
    sql("ALTER TABLE {ns}.t CREATE TAG again AS OF TAG first")
    assert {name: tag["version"] for name, tag in table().tags.list().items()} == {
        "again": 1, "early": 2, "first": 1, "now": 3
    }  # fmt: skip
    assert [(row[0], row[1], row[2]) for row in sql("SHOW TAGS FROM {ns}.t")] == [
        ("again", None, 1), ("early", None, 2), ("first", None, 1), ("now", None, 3)
    ]  # fmt: skip
    assert (
        sql("SELECT count(*) FROM {ns}.t.tag_first")
        == sql("SELECT count(*) FROM {ns}.t VERSION AS OF 'first'")
        == [(2,)]
    )
    sql("ALTER TABLE {ns}.t CREATE OR REPLACE TAG now AS OF VERSION 2")
    assert table().tags.list()["now"]["version"] == 2
    assert "stays what it is" in str(refused("OPTIMIZE {ns}.t.tag_first"))
    assert "already exists" in str(refused("ALTER TABLE {ns}.t CREATE TAG now"))
    sql("ALTER TABLE {ns}.t CREATE TAG IF NOT EXISTS now")
    sql("ALTER TABLE {ns}.t DROP TAG now")
    sql("ALTER TABLE {ns}.t DROP TAG IF EXISTS now")
    assert "now" in str(refused("ALTER TABLE {ns}.t DROP TAG now"))
    assert refused("ALTER TABLE {ns}.t CREATE TAG x AS OF 3").getCondition() == "PARSE_SYNTAX_ERROR"


def test_clones(sql, refused, space, table):
    before = table().to_table().to_pylist()
    sql("CREATE TABLE {ns}.s SHALLOW CLONE {ns}.t")
    sql("CREATE TABLE IF NOT EXISTS {ns}.d DEEP CLONE {ns}.t VERSION AS OF 2")
    sql("CREATE TABLE IF NOT EXISTS {ns}.d CLONE {ns}.t")
    assert (space.pylance("s").to_table().to_pylist(), space.pylance("d").count_rows()) == (before, 4)
    assert table().to_table().to_pylist() == before
    sql(f"CREATE TABLE {{ns}}.p CLONE lance.`{table().uri}` TIMESTAMP AS OF current_timestamp()")
    assert sql("SELECT count(*) FROM {ns}.p") == [(6,)]
    assert refused("CREATE TABLE {ns}.s CLONE {ns}.t").getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    missing = refused("CREATE TABLE {ns}.x CLONE {ns}.nope")
    assert missing.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert ".nope" in missing.getMessage()
    assert "PURGE" in str(refused("CREATE OR REPLACE TABLE {ns}.s CLONE {ns}.t"))
    assert refused("SELECT * FROM {ns}.x").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_procedures(spark, sql, refused, space, table):
    names = {row[-1] for row in sql("SHOW PROCEDURES IN {c}.system")}
    assert {"optimize", "create_index", "rollback_to_version"} <= names
    assert sql("CALL {c}.system.create_tag('ns.t', 'one', 1)") == [("one",)]
    sql("CALL {c}.system.rollback_to_version(table => '{ns}.t', version => '2')")
    assert table().count_rows() == 4
    assert sql("CALL {c}.system.compact(table => 'ns.t', options => map('batch_size', '10'))")[0][0] == 2
    sql("CALL {c}.system.expire_snapshots(table => 'ns.t', retain_last => 3)")
    assert sql("CALL {c}.system.history('ns.t', 1)")[0][0] == table().version
    before = spark.catalog.currentCatalog()
    try:
        sql("USE {ns}")
        assert sql("CALL system.detail('t')")[0][0] == "lance"
        assert sql("DESCRIBE DETAIL t")[0][0] == "lance"
    finally:
        spark.catalog.setCurrentCatalog(before)
    assert refused("CALL {c}.system.nope('ns.t')").getCondition() == "FAILED_TO_LOAD_ROUTINE"
    assert refused("CALL {c}.system.optimize('ns.nope')").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_the_primary_key(sql, refused, space):
    sql("CREATE TABLE {ns}.k (a INT NOT NULL, b INT)")
    assert "nullable" in str(refused("ALTER TABLE {ns}.k SET UNENFORCED PRIMARY KEY (b)"))
    sql("ALTER TABLE {ns}.k SET UNENFORCED PRIMARY KEY (a)")
    key = space.pylance("k").schema.field("a").metadata
    assert key[b"lance-schema:unenforced-primary-key:position"] == b"1"
    assert "already has" in str(refused("ALTER TABLE {ns}.k SET UNENFORCED PRIMARY KEY (a)"))
    sql("CREATE TABLE {ns}.inner (a INT NOT NULL, s STRUCT<a: INT NOT NULL> NOT NULL)")
    assert sql("ALTER TABLE {ns}.inner SET UNENFORCED PRIMARY KEY (`s`.a, `a`)") == [(["s.a", "a"],)]
    sql("CREATE TABLE {ns}.copy LIKE {ns}.inner")
    for name in ("inner", "copy"):
        assert "PRIMARY KEY (s.a, a)" in str(sql(f"DESCRIBE EXTENDED {{ns}}.{name}"))
        schema = space.pylance(name).lance_schema
        assert [field.name() for field in schema.fields() if field.is_unenforced_primary_key()] == ["a"]


def test_columns_from_a_query(spark, sql, refused, table):
    rows = "SELECT _rowaddr, _fragid, id * 10 AS ten, concat('t', id) AS t FROM {ns}.t WHERE id <> 3"
    sql(f"CREATE OR REPLACE TEMPORARY VIEW filling AS {rows}")
    assert sql("ALTER TABLE {ns}.t ADD COLUMNS ten, t FROM filling") == [(5,)]
    assert table().to_table(columns=["id", "ten", "t"]).to_pylist()[2:4] == [
        {"id": 2, "ten": 20, "t": "t2"},
        {"id": 3, "ten": None, "t": None},
    ]
    before = table().to_table(with_row_address=True)
    inline = "(SELECT _rowaddr, -1L AS ten FROM {ns}.t WHERE id = 3)"
    assert sql(f"ALTER TABLE {{ns}}.t UPDATE COLUMNS ten FROM {inline}") == [(1,)]
    after = table().to_table(with_row_address=True)
    assert after.column("ten").to_pylist() == [0, 10, 20, -1, 40, 50]
    assert after.drop_columns("ten").equals(before.drop_columns("ten"))
    version = table().version
    assert "already" in str(refused("ALTER TABLE {ns}.t ADD COLUMNS ten FROM filling"))
    assert "nope" in str(refused("ALTER TABLE {ns}.t UPDATE COLUMNS nope FROM filling"))
    assert "nowhere" in str(refused("ALTER TABLE {ns}.t ADD COLUMNS more FROM nowhere"))
    assert "unique" in str(
        refused(
            "ALTER TABLE {ns}.t UPDATE COLUMNS ten FROM (SELECT _rowaddr, 1L AS ten FROM {ns}.t CROSS JOIN range(2))"
        )
    )
    failing = "(SELECT _rowaddr, raise_error('broken') AS more FROM {ns}.t)"
    assert "broken" in str(refused(f"ALTER TABLE {{ns}}.t ADD COLUMNS more FROM {failing}"))
    assert table().version == version
    assert list(Path(table().uri).parent.glob("*.backfill/*/*")) == []


def test_columns_from_a_query_are_cast_as_spark_inserts(spark, sql, refused, space):
    sql("CREATE TABLE {ns}.c (id INT, t TIMESTAMP, n TIMESTAMP_NTZ, address SMALLINT)")
    sql("INSERT INTO {ns}.c VALUES (1, NULL, NULL, NULL), (2, NULL, NULL, NULL)")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        days = "SELECT _rowaddr, DATE'2024-07-01' AS t, TIMESTAMP'2024-07-01 12:00:00' AS n, 7L AS address FROM {ns}.c"
        assert sql(f"ALTER TABLE {{ns}}.c UPDATE COLUMNS t, n, address FROM ({days} WHERE id = 1)") == [(1,)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    stored = space.pylance("c").to_table().slice(0, 1).to_pylist()[0]
    assert stored["t"] == datetime(2024, 6, 30, 22, tzinfo=timezone.utc)
    assert stored["n"] == datetime(2024, 7, 1, 12)
    assert stored["address"] == 7
    text = refused("ALTER TABLE {ns}.c UPDATE COLUMNS id FROM (SELECT _rowaddr, '5' AS id FROM {ns}.c)")
    assert "CANNOT_SAFELY_CAST" in str(text)
    wide = refused("ALTER TABLE {ns}.c UPDATE COLUMNS address FROM (SELECT _rowaddr, 70000 AS address FROM {ns}.c)")
    assert "overflow" in str(wide).lower()


def test_columns_for_rows_that_are_not_there_any_more(sql, refused, table):
    sql("CREATE OR REPLACE TEMPORARY VIEW old AS SELECT _rowaddr, 0 AS more, 0 AS id FROM {ns}.t VERSION AS OF 2")
    sql("DELETE FROM {ns}.t WHERE id = 1")
    version = table().version
    assert "deleted or moved" in str(refused("ALTER TABLE {ns}.t ADD COLUMNS more FROM old"))
    assert "deleted or moved" in str(refused("ALTER TABLE {ns}.t UPDATE COLUMNS id FROM old"))
    assert table().version == version

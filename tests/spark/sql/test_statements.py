"""Statements that Spark does not have: what they tell and do, checked with pylance on the same table."""

from __future__ import annotations

from datetime import timedelta

import lance
import pyarrow as pa
import pytest

import lancelet


@pytest.fixture
def table(sql, space):
    path = str(space.root.parent / "made.lance")
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("s", pa.string())])
    for number in range(3):
        rows = pa.table({"id": [2 * number, 2 * number + 1], "s": [f"a{number}", "b"]}, schema)
        lancelet.write_dataset(rows, path, mode="append" if number else "create")
    lancelet.dataset(path).update_config({"k": "v"})
    sql(f"CREATE TABLE {{ns}}.t USING lance LOCATION '{path}'")
    return lambda: lance.dataset(path)


def test_history_and_detail(spark, sql, space, table):
    rows = sql("DESCRIBE HISTORY {ns}.t")
    assert [row[0] for row in rows] == [entry["version"] for entry in table().versions()][::-1] == [4, 3, 2, 1]
    assert rows[0][2] == "UpdateConfig"
    times = [row[1].replace(microsecond=0) for row in rows]
    assert times == [entry["timestamp"].replace(microsecond=0) for entry in table().versions()][::-1]
    assert [row[0] for row in sql("desc history {ns}.`t` limit 2;")] == [4, 3]
    shown = spark.sql(f"DESCRIBE DETAIL {space}.t").collect()[0].asDict()
    assert (shown["format"], shown["version"], shown["numRows"]) == ("lance", 4, table().count_rows())
    assert (shown["location"], shown["config"]) == (table().uri, {"k": "v"})


def test_tables_about_a_table(sql, refused, space, table):
    files = [file for fragment in table().get_fragments() for file in fragment.data_files()]
    assert sorted(sql("SELECT path, size_bytes FROM {ns}.t.files")) == sorted(
        (file.path, file.file_size_bytes) for file in files
    )
    assert sql("SELECT fragment_id, num_rows, num_deleted_rows FROM {ns}.t.fragments ORDER BY 1") == [
        (number, 2, 0) for number in range(3)
    ]
    assert sql("SELECT count(*), max(version) FROM {ns}.t.history") == [(4, 4)]
    assert sql("SELECT version FROM {ns}.t.versions WHERE num_fragments > 1 ORDER BY 1") == [(2,), (3,), (4,)]
    assert sql("SELECT operation FROM {ns}.t.transactions ORDER BY version DESC LIMIT 1") == [("update_config",)]
    assert sql("SELECT * FROM {ns}.t.config") == [("k", "v")]
    assert sql("SELECT path, nullable FROM {ns}.t.schema_fields ORDER BY id") == [("id", False), ("s", True)]
    assert sql("SELECT * FROM {ns}.t.refs") == [("main", "BRANCH", None, 4)]
    assert sql("SELECT * FROM {ns}.t.indices") == []
    assert sql("SELECT count(*) FROM {ns}.t.files VERSION AS OF 2") == [(2,)]
    assert sql(f"SELECT count(*) FROM {{c}}.`{table().uri}`.files") == [(3,)]
    assert refused("SELECT * FROM {ns}.nope.files").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert refused("SELECT * FROM {ns}.t.nope").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    # A table of that name is the one that is meant.
    sql("CREATE NAMESPACE {ns}.inner")
    sql("CREATE TABLE {ns}.inner.files (mine INT)")
    assert sql("SHOW COLUMNS IN {ns}.inner.files") == [("mine",)]


def test_optimize(sql, refused, space, table):
    before = table().to_table().to_pylist()
    assert sql("OPTIMIZE {ns}.t WITH (target_rows_per_fragment = 100, num_threads = 1)") == [(3, 1, 3, 1)]
    assert len(table().get_fragments()) == 1
    assert table().to_table().to_pylist() == before
    version = table().version
    assert sql("optimize {ns}.t -- nothing is left to do") == [(0, 0, 0, 0)]
    assert sql("/* a /* nested */ comment */ OPTIMIZE {ns}.t WITH ();") == [(0, 0, 0, 0)]
    assert table().version == version
    table().delete("id = 0")
    options = "materialize_deletions = true, Materialize_Deletions_Threshold = 0"
    assert sql(f"OPTIMIZE {{ns}}.t WITH ({options})")[0][:2] == (1, 1)
    assert table().count_rows() == 5
    assert "nope" in str(refused("OPTIMIZE {ns}.t WITH (nope = 1)"))
    assert "twice" in str(refused("OPTIMIZE {ns}.t WITH (batch_size = 1, BATCH_SIZE = 2)"))
    assert refused("OPTIMIZE {ns}.nope").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert refused("OPTIMIZE {ns}.t WITH batch_size = 1").getCondition() == "PARSE_SYNTAX_ERROR"
    sql("CREATE TABLE {ns}.empty (id INT)")
    assert sql("OPTIMIZE {ns}.empty") == [(0, 0, 0, 0)]


def test_optimize_of_fragments_with_some_rows(sql, refused, space):
    sql("CREATE TABLE {ns}.t (id BIGINT, s STRING) TBLPROPERTIES ('enable_stable_row_ids' = 'true')")
    for first in range(0, 80, 10):
        sql(
            f"INSERT INTO {{ns}}.t SELECT /*+ COALESCE(1) */ id, concat('it''s ', id) FROM range({first}, {first + 10})"
        )
    before = space.pylance("t").to_table().to_pylist()

    def numbers() -> list[int]:
        return sorted(fragment.fragment_id for fragment in space.pylance("t").get_fragments())

    assert sql("OPTIMIZE {ns}.t WHERE id > 900") == [(0, 0, 0, 0)]
    assert space.pylance("t").version == 9
    condition = "s IN ('it''s 21', \"it's 35\") OR (id = 3 AND upper(s) LIKE 'IT%') -- of 0, 2 and 3\n"
    assert sql(f"OPTIMIZE {{ns}}.t WHERE {condition} WITH (target_rows_per_fragment = 100)") == [(2, 1, 2, 1)]
    assert numbers() == [0, 1, 4, 5, 6, 7, 8]
    assert sql("CALL {c}.system.optimize(table => 'ns.t', where => '_fragid IN (5, 6) -- two')") == [(2, 1, 2, 1)]
    assert numbers() == [0, 1, 4, 7, 8, 9]
    assert space.pylance("t").to_table().sort_by("id").to_pylist() == before
    assert "nope" in str(refused("OPTIMIZE {ns}.t WHERE nope = 1"))
    for text in (
        "OPTIMIZE {ns}.t WHERE",
        "OPTIMIZE {ns}.t ZORDER BY (id)",
        "OPTIMIZE {ns}.t WHERE id = 1 ZORDER BY (id)",
    ):
        assert refused(text).getCondition() == "PARSE_SYNTAX_ERROR", text
    # What is said instead of ZORDER BY.
    sql("INSERT OVERWRITE {ns}.t SELECT * FROM {ns}.t ORDER BY s DESC")
    assert space.pylance("t").to_table().to_pylist() == sorted(before, key=lambda row: row["s"], reverse=True)


def test_vacuum(sql, refused, space, table):
    sql("OPTIMIZE {ns}.t")
    newest = table().version
    (told,) = sql("VACUUM {ns}.t RETAIN 0 HOURS DRY RUN")
    assert told[1] == newest - 1
    assert len(table().versions()) == newest
    assert sql("VACUUM {ns}.t") == [(0, 0)]
    assert sql("VACUUM {ns}.t WITH (before_version = 3)")[0][1] == 2
    assert sql("VACUUM {ns}.t RETAIN 0 HOURS WITH (retain_versions = 2)")[0][1] == newest - 4
    assert sql("VACUUM {ns}.t WITH (older_than = '0 days')")[0][1] == 1
    assert [entry["version"] for entry in table().versions()] == [newest]
    assert table().count_rows() == 6
    assert "no option nope" in str(refused("VACUUM {ns}.t WITH (nope = 1)"))
    assert "say the same" in str(refused("VACUUM {ns}.t RETAIN 1 HOURS WITH (older_than = '1d')"))
    assert "7d" in str(refused("VACUUM {ns}.t WITH (older_than = 'long')"))
    assert refused("VACUUM {ns}.t RETAIN 1 YEARS").getCondition() == "PARSE_SYNTAX_ERROR"


def test_restore(sql, refused, space, table):
    first = table().versions()[0]["timestamp"]
    sql("RESTORE TABLE {ns}.t TO VERSION AS OF 2")
    assert (table().version, table().count_rows()) == (5, 4)
    removed = sql("RESTORE {ns}.t TO VERSION AS OF 1")
    assert removed[0][1:4] == (1, 1, 0)
    assert (table().version, table().count_rows()) == (6, 2)
    table().tags.create("full", 4)
    sql("RESTORE {ns}.t TO VERSION AS OF 'full'")
    assert table().count_rows() == 6
    moment = (first + timedelta(microseconds=1)).astimezone().isoformat()
    sql(f"RESTORE {{ns}}.t TO TIMESTAMP AS OF '{moment}'")
    assert table().count_rows() == 2
    sql("RESTORE {ns}.t TO TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY")
    assert "99" in str(refused("RESTORE {ns}.t TO VERSION AS OF 99"))
    assert "nope" in str(refused("RESTORE {ns}.t TO VERSION AS OF 'nope'"))
    assert refused("RESTORE {ns}.t TO 3").getCondition() == "PARSE_SYNTAX_ERROR"


def test_what_spark_has_cached_is_of_the_newest_version_after_a_statement(sql, table):
    sql("CACHE TABLE {ns}.t")
    try:
        assert "InMemory" in sql("EXPLAIN SELECT * FROM {ns}.t")[0][0]
        for statement in (
            "ALTER TABLE {ns}.t UPDATE COLUMNS s FROM (SELECT _rowaddr, 'new' AS s FROM {ns}.t WHERE id = 2)",
            "RESTORE TABLE {ns}.t TO VERSION AS OF 2",
            "ALTER TABLE {ns}.t ADD COLUMNS more FROM (SELECT _rowaddr, id + 1 AS more FROM {ns}.t)",
            "ALTER TABLE {ns}.t ADD COLUMN other INT DEFAULT 7",
            "OPTIMIZE {ns}.t",
        ):
            sql(statement)
            now = table().to_table()
            assert sorted(sql("SELECT * FROM {ns}.t")) == sorted(zip(*now.to_pydict().values(), strict=True)), statement
    finally:
        sql("UNCACHE TABLE IF EXISTS {ns}.t")


def test_a_procedure_that_is_not_there_is_told_with_those_that_are(refused, space, table):
    missing = refused("CALL {c}.system.nope('t')")
    assert missing.getCondition() == "FAILED_TO_LOAD_ROUTINE"
    assert "there is no procedure nope; there are add_columns, " in str(missing)
    for name in ("fast_forward", "remove_orphan_files"):
        assert f"there is no procedure {name}: " in str(refused(f"CALL {{c}}.system.{name}('t')"))
    assert f"CALL {space.name}.system.optimize(...)" in str(refused("CALL {c}.other.optimize('t')"))


def test_statements_of_spark_parse_as_before(spark, sql, refused, space, table):
    spark.range(3).createOrReplaceTempView("history")
    assert sql("DESCRIBE history id")[0][1] == "id"
    for text in (
        "SHOW TABLES IN {ns}; ",
        "-- a comment\nSELECT id /* OPTIMIZE */ FROM {ns}.t WHERE s = 'OPTIMIZE t; -- no comment'",
        "ALTER TABLE {ns}.t SET TBLPROPERTIES ('a' = 'b')",
        "CREATE TABLE {ns}.`odd name` (`select` INT)",
        "ALTER TABLE {ns}.`odd name` ADD COLUMNS (more INT)",
        "ALTER TABLE {ns}.`odd name` ADD COLUMN index INT, branch INT",
        "ALTER TABLE {ns}.`odd name` DROP COLUMN more",
        "ALTER TABLE {ns}.`odd name` DROP COLUMNS (index, branch)",
        "SELECT 'it''s', \"a\"",
        "DESCRIBE TABLE {ns}.t",
        "SHOW CREATE TABLE {ns}.t",
    ):
        sql(text)
    assert spark.sql(f"SELECT id FROM {space}.t WHERE id = :x", args={"x": 3}).collect()[0][0] == 3
    version = table().version
    assert "lance columns=[id] pushed=" in sql("EXPLAIN SELECT id FROM {ns}.t WHERE id = 3")[0][0]
    assert "Call" in sql("EXPLAIN OPTIMIZE {ns}.t")[0][0]
    assert "AppendData" in sql("EXPLAIN FORMATTED UPDATE {ns}.t SET s = 'x'")[0][0]
    assert "put small and worn fragments together" in str(sql("DESCRIBE PROCEDURE {c}.system.optimize"))
    assert sql("DESCRIBE QUERY SELECT id FROM {ns}.t") == [("id", "int", None)]
    assert table().version == version
    for text in (
        "OPTIMIZE",
        "VACUUM nowhere.t",
        "OPTIMIZE parquet_table",
        "SHOW TAGS IN a.b",
        "ALTER TABLE t CREATE TAG x",
    ):
        assert refused(text).getCondition() == "PARSE_SYNTAX_ERROR"


def test_texts_are_what_spark_reads(spark, sql, refused, table):
    table().tags.create("v1", 1)
    sql(r"ALTER TABLE {ns}.t CREATE BRANCH b AS OF TAG '\u0076\061'")
    assert table().branches.list()["b"]["parent_version"] == 1
    assert refused("OPTIMIZE {ns}.t WITH (a = 'b)").getCondition() == "PARSE_SYNTAX_ERROR"
    settings = "spark.sql.parser.escapedStringLiterals", "spark.sql.ansi.enforceReservedKeywords"
    try:
        for setting in settings:
            # Clients of Connect warn of old settings where they set them.
            sql(f"SET {setting} = true")
        assert r"\u0076" in str(refused(r"ALTER TABLE {ns}.t CREATE BRANCH c AS OF TAG '\u0076\061'"))
        assert sql("OPTIMIZE {ns}.t WITH (target_rows_per_fragment = '100')")[0][0] == 3
    finally:
        for setting in settings:
            sql(f"RESET {setting}")

"""Tables by SQL: made, described, filled, replaced, emptied, renamed, dropped; pylance sees the same."""

from __future__ import annotations

import re

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from spark.sql.conftest import add_catalog


def test_an_empty_table_is_version_one_and_the_first_insert_two(sql, refused, space):
    sql(
        "CREATE TABLE {ns}.t (id BIGINT NOT NULL COMMENT 'the key', s STRING, v ARRAY<FLOAT>) USING lance "
        "COMMENT 'people' TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2', 'team' = 'blue')"
    )
    theirs = space.pylance("t")
    assert (theirs.version, theirs.count_rows(), theirs.config()) == (1, 0, {"team": "blue"})
    assert theirs.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert not theirs.schema.field("id").nullable
    assert theirs.schema.field("id").metadata[b"comment"] == b"the key"
    assert refused("CREATE TABLE {ns}.t (id INT)").getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    sql("CREATE TABLE IF NOT EXISTS {ns}.t (id INT)")
    assert refused("CREATE TABLE {c}.nope.t (id INT)").getCondition() == "SCHEMA_NOT_FOUND"
    sql("INSERT INTO {ns}.t VALUES (1, 'a', array(1, 2)), (2, 'b', NULL)")
    theirs = space.pylance("t")
    rows = {"id": [1, 2], "s": ["a", "b"], "v": [[1.0, 2.0], None]}
    assert (theirs.version, theirs.to_table().to_pydict()) == (2, rows)
    assert sql("SELECT * FROM {ns}.t ORDER BY id") == [(1, "a", [1.0, 2.0]), (2, "b", None)]
    error = refused("INSERT INTO {ns}.t VALUES (3, 'c', array(1, 2, 3))")
    assert str(error).startswith("column 'v': a vector has 3 values")
    assert refused("INSERT INTO {ns}.t VALUES (NULL, 'c', NULL)").getCondition() == "NOT_NULL_ASSERT_VIOLATION"
    assert space.pylance("t").version == 2


def test_what_is_told_of_a_table(sql, refused, space):
    sql(
        "CREATE TABLE {ns}.t (id BIGINT NOT NULL COMMENT 'the key', s STRING, v ARRAY<FLOAT>, b BINARY, u SMALLINT) "
        "COMMENT 'people' TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2', 'v.arrow.float16' = 'true', 'team' = 'blue', "
        "'s.arrow.large_var_char' = 'true', 's.lance.compression' = 'zstd', 'b.lance.encoding' = 'blob', "
        "'u.lance.type' = 'uint8', 'enable_stable_row_ids' = 'true')"
    )
    shown = {row[0]: row[1:] for row in sql("DESCRIBE TABLE EXTENDED {ns}.t")}
    assert shown["id"] == ("bigint", "the key")
    assert shown["Comment"][0] == "people"
    assert shown["Location"][0] == space.location("t").removeprefix("file://")
    assert shown["Provider"][0] == "lance"
    assert {"_rowid", "_rowaddr", "_fragid", "_row_created_at_version", "_row_last_updated_at_version"} <= set(shown)
    assert sql("DESCRIBE {ns}.t id")[0] == ("col_name", "id")
    properties = dict(sql("SHOW TBLPROPERTIES {ns}.t"))
    assert properties == {
        "team": "blue",
        "v.arrow.fixed-size-list.size": "2",
        "v.arrow.float16": "true",
        "s.arrow.large_var_char": "true",
        "s.lance.compression": "zstd",
        "b.lance.encoding": "blob",
        "u.lance.type": "uint8",
        "enable_stable_row_ids": "true",
        "file_format_version": "2.2",
    }
    assert "does not have property" in sql("SHOW TBLPROPERTIES {ns}.t ('nope')")[0][1]
    assert sql("SHOW COLUMNS IN {ns}.t") == [("id",), ("s",), ("v",), ("b",), ("u",)]
    assert "ns" in str(sql("SHOW TABLE EXTENDED IN {ns} LIKE 't'"))
    # What SHOW CREATE TABLE says makes the same table.
    ((text,),) = sql("SHOW CREATE TABLE {ns}.t")
    before = space.pylance("t")
    sql(text.replace(f"{space}.t", f"{space}.again"))
    after = space.pylance("again")
    assert after.schema.equals(before.schema, check_metadata=True)
    assert (after.config(), after.has_stable_row_ids) == (before.config(), True)


@pytest.mark.parametrize(
    ("property", "words"),
    [
        ("'s.lance.compression' = 'gzip'", "invalid compression scheme"),
        ("'s.lance.structural-encoding' = 'x'", "invalid structural-encoding"),
        ("'s.lance.rle-threshold' = '2'", "above 0 and at most 1"),
        ("'s.lance.bss' = 'maybe'", "off, on or auto"),
        ("'s.arrow.fixed-size-list.size' = '4'", "is to be"),
        ("'s.arrow.fixed-size-list.size' = '0'", "a number above 0"),
        ("'nope.lance.compression' = 'zstd'", "about the column 'nope'"),
        ("'file_format_version' = '9.9'", "there is no file version"),
        ("'enable_stable_row_ids' = 'x'", "true or false"),
    ],
)
def test_properties_that_make_no_sense(refused, sql, property, words):  # noqa: A002
    assert words in str(refused(f"CREATE TABLE {{ns}}.t (s STRING) TBLPROPERTIES ({property})"))
    assert sql("SHOW TABLES IN {ns}") == []


def test_what_a_lance_table_has_not(refused, sql):
    for parts in ("PARTITIONED BY (id)", "CLUSTERED BY (id) INTO 2 BUCKETS"):
        assert "no partitions" in str(refused(f"CREATE TABLE {{ns}}.t (id INT) {parts}"))
    assert "USING lance" in str(refused("CREATE TABLE {ns}.t (id INT) USING orc"))
    assert "no constraint but a primary key" in str(refused("CREATE TABLE {ns}.t (id INT, CHECK (id > 0))"))
    assert sql("SHOW TABLES IN {ns}") == []
    sql("CREATE TABLE {ns}.t (id INT)")
    assert "index the columns instead" in str(refused("ALTER TABLE {ns}.t CLUSTER BY (id)"))


def test_a_query_makes_a_table_at_once_or_not_at_all(sql, refused, space):
    sql("CREATE TABLE {ns}.t TBLPROPERTIES ('k' = 'v') AS SELECT id, CAST(id AS STRING) AS s FROM range(3)")
    theirs = space.pylance("t")
    assert (theirs.version, theirs.config()) == (1, {"k": "v"})
    assert theirs.to_table().sort_by("id").to_pydict() == {"id": [0, 1, 2], "s": ["0", "1", "2"]}
    refused("CREATE TABLE {ns}.u AS SELECT raise_error('no') AS x")
    assert sql("SHOW TABLES IN {ns}") == [("ns", "t", False)]
    assert len(list(space.root.glob("*_ns$*"))) == 1
    assert refused("CREATE TABLE {ns}.t AS SELECT 1").getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"


def test_a_replaced_table_keeps_its_history_and_a_failed_query_changes_nothing(sql, refused, space):
    sql("CREATE OR REPLACE TABLE {ns}.t AS SELECT 1 AS a")
    place = space.location("t")
    sql("CREATE OR REPLACE TABLE {ns}.t AS SELECT 'x' AS b, 2 AS c")
    assert sql("SELECT * FROM {ns}.t") == [("x", 2)]
    assert sql("SELECT * FROM {ns}.t VERSION AS OF 1") == [(1,)]
    refused("REPLACE TABLE {ns}.t AS SELECT raise_error('no') AS x")
    refused("CREATE OR REPLACE TABLE {ns}.t AS SELECT raise_error('no') AS x")
    assert space.pylance("t").to_table().to_pydict() == {"b": ["x"], "c": [2]}
    sql("REPLACE TABLE {ns}.t (d INT) TBLPROPERTIES ('k' = 'v')")
    theirs = space.pylance("t")
    assert (theirs.uri, theirs.version, theirs.schema.names, theirs.count_rows()) == (place, 3, ["d"], 0)
    assert theirs.config()["k"] == "v"
    assert refused("REPLACE TABLE {ns}.nope AS SELECT 1").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_rows_are_inserted_by_place_by_name_and_in_place_of_all_others(sql, space, spark, refused):
    sql("CREATE TABLE {ns}.t (id INT, s STRING, u SMALLINT) TBLPROPERTIES ('u.lance.type' = 'uint8')")
    sql("INSERT INTO {ns}.t VALUES (1, 'a', 1)")
    sql("INSERT INTO {ns}.t (s, id) VALUES ('b', 2)")
    sql("INSERT INTO {ns}.t BY NAME SELECT 3 AS u, 'c' AS s, 3 AS id")
    spark.sql("SELECT 4 AS id, 'd' AS s, 4S AS u").writeTo(f"{space}.t").append()
    spark.sql("SELECT 5 AS id, 'e' AS s, 5S AS u").write.insertInto(f"{space}.t")
    spark.sql("SELECT 6 AS id, 'f' AS s, 6S AS u").write.mode("append").saveAsTable(f"{space}.t")
    expected = {"id": [1, 2, 3, 4, 5, 6], "s": list("abcdef"), "u": [1, None, 3, 4, 5, 6]}
    assert space.pylance("t").to_table().sort_by("id").to_pydict() == expected
    condition = refused("INSERT INTO {ns}.t VALUES (1)").getCondition()
    assert condition == "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"
    schema = space.pylance("t").schema
    sql("INSERT OVERWRITE {ns}.t VALUES (9, 'z', 9)")
    theirs = space.pylance("t")
    assert theirs.to_table().to_pydict() == {"id": [9], "s": ["z"], "u": [9]}
    assert theirs.schema == schema
    spark.sql("SELECT 8 AS id, 'y' AS s, 8S AS u").writeTo(f"{space}.t").overwritePartitions()
    assert sql("SELECT * FROM {ns}.t") == [(8, "y", 8)]


def test_data_frames_make_tables(spark, sql, space):
    frame = spark.sql("SELECT 1 AS id, array(1F, 2F) AS v")
    frame.writeTo(f"{space}.a").using("lance").tableProperty("v.arrow.fixed-size-list.size", "2").create()
    frame.write.saveAsTable(f"{space}.b")
    frame.write.mode("overwrite").saveAsTable(f"{space}.b")
    frame.write.mode("ignore").saveAsTable(f"{space}.b")
    frame.writeTo(f"{space}.c").createOrReplace()
    assert space.pylance("a").schema.field("v").type == pa.list_(pa.float32(), 2)
    assert [space.pylance(name).count_rows() for name in "abc"] == [1, 1, 1]
    assert space.pylance("b").version == 2
    frame.writeTo(f"{space}.c").replace()
    assert space.pylance("c").version == 2
    for wrong, words in (("maxRowPerFile", "there is no option"), ("saveMode", "saveMode is one of")):
        with pytest.raises(PySparkException) as caught:
            frame.writeTo(f"{space}.c").option(wrong, "x").append()
        assert str(caught.value).startswith(words)


def test_streams_by_name(spark, sql, space, tmp_path):
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    for round_ in (1, 2):
        rows = spark.readStream.table(f"{space}.t").writeStream.option("checkpointLocation", str(tmp_path / "kept"))
        rows = rows.option("streamingQueryId", "as the other connector wants it")
        rows.trigger(availableNow=True).toTable(f"{space}.out").awaitTermination()
        found = space.pylance("out").to_table().sort_by("id").to_pydict()
        assert found == {"id": list(range(1, round_ + 1))}
        sql("INSERT INTO {ns}.t VALUES (2)")


def test_spark_catalog(spark, sql, space):
    """The programs that ask ``spark.catalog``."""
    sql("CREATE TABLE {ns}.t (id BIGINT COMMENT 'the key') COMMENT 'people'")
    catalog, name = spark.catalog, f"{space}.t"
    assert [table.name for table in catalog.listTables(str(space))] == ["t"]
    table = catalog.getTable(name)
    assert (table.name, table.namespace, table.description, table.isTemporary) == ("t", ["ns"], "people", False)
    assert [(column.name, column.description) for column in catalog.listColumns(name)] == [("id", "the key")]
    assert (catalog.tableExists(name), catalog.tableExists(f"{space}.nope")) == (True, False)
    assert (catalog.databaseExists(str(space)), catalog.databaseExists(f"{space.name}.nope")) == (True, False)
    assert catalog.getDatabase(str(space)).name == "ns"
    assert space.name in [one.name for one in catalog.listCatalogs()]
    catalog.cacheTable(name)
    assert catalog.isCached(name)
    catalog.uncacheTable(name)
    catalog.refreshTable(name)
    catalog.createTable(f"{space}.made", schema=spark.table(name).schema, source="lance")
    assert space.pylance("made").schema.names == ["id"]


def test_blobs_go_in_as_bytes(sql, space):
    sql("CREATE TABLE {ns}.t (id INT, b BINARY) TBLPROPERTIES ('b.lance.encoding' = 'blob')")
    sql("INSERT INTO {ns}.t VALUES (1, X'0102'), (2, NULL)")
    assert sql("SELECT id, b.size FROM {ns}.t ORDER BY id")[0] == (1, 2)
    assert space.pylance("t").take_blobs("b", indices=[0])[0].read() == b"\x01\x02"
    rows = sql("SELECT * FROM {ns}.t WITH ('blobHandling' = 'all_binary') ORDER BY id")
    assert rows == [(1, bytearray(b"\x01\x02")), (2, None)]
    sql("CREATE TABLE {ns}.copy LIKE {ns}.t")
    sql("INSERT INTO {ns}.copy SELECT * FROM {ns}.t WITH ('blob_mode' = 'binary')")
    assert space.pylance("copy").take_blobs("b", indices=[0])[0].read() == b"\x01\x02"


def test_an_old_version_is_read_by_number_tag_and_time(sql, refused, space):
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    sql("INSERT INTO {ns}.t VALUES (2)")
    dataset = space.pylance("t")
    dataset.tags.create("first", 1)
    dataset.create_branch("side", 1)
    moment = dataset.versions()[0]["timestamp"]
    for version in ("VERSION AS OF 1", "FOR VERSION AS OF '1'", "VERSION AS OF 'first'", f"TIMESTAMP AS OF '{moment}'"):
        assert sql(f"SELECT * FROM {{ns}}.t {version}") == [(1,)], version
    assert sql("SELECT count(*) FROM {ns}.t TIMESTAMP AS OF current_timestamp()") == [(2,)]
    assert sql("SELECT * FROM {ns}.t.branch_side") == [(1,)]
    assert sql("SELECT * FROM {ns}.t.tag_first") == [(1,)]
    assert sql("SELECT * FROM {ns}.t VERSION AS OF 'side'") == [(1,)]
    assert "nope" in str(refused("SELECT * FROM {ns}.t VERSION AS OF 'nope'"))
    assert "99" in str(refused("SELECT * FROM {ns}.t VERSION AS OF 99"))
    sql("INSERT INTO {ns}.t.branch_side VALUES (3)")
    assert sql("SELECT * FROM {ns}.t.branch_side ORDER BY id") == [(1,), (3,)]
    refused("INSERT INTO {ns}.t.tag_first VALUES (3)")
    assert space.pylance("t").count_rows() == 2


def test_options_choose_a_version(spark, sql, refused, space):
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    sql("INSERT INTO {ns}.t VALUES (2)")
    assert spark.read.option("version", 1).table(f"{space}.t").count() == 1
    assert sql("SELECT * FROM {ns}.t WITH ('version' = '1')") == [(1,)]
    sql("ALTER TABLE {ns}.t ADD COLUMN more INT")
    assert spark.read.option("version", 1).table(f"{space}.t").columns == ["id"]
    space.pylance("t").create_branch("side", 1)
    sql("INSERT INTO {ns}.t WITH ('branch' = 'side') VALUES (7)")
    assert sorted(sql("SELECT * FROM {ns}.t WITH ('branch' = 'side')")) == [(1,), (7,)]
    assert space.pylance("t").count_rows() == 2
    assert "chosen once" in str(refused("SELECT * FROM {ns}.t VERSION AS OF 1 WITH ('version' = '1')"))


def test_columns_that_every_table_has(sql, space):
    sql("CREATE TABLE {ns}.t (id INT) TBLPROPERTIES ('enable_stable_row_ids' = 'true')")
    sql("INSERT INTO {ns}.t SELECT /*+ COALESCE(1) */ id FROM range(2)")
    sql("INSERT INTO {ns}.t VALUES (2)")
    columns = "_rowid, _rowaddr, _fragid, _row_created_at_version, _row_last_updated_at_version"
    found = sql(f"SELECT id, {columns} FROM {{ns}}.t ORDER BY id")
    assert found == [(0, 0, 0, 0, 2, 2), (1, 1, 1, 0, 2, 2), (2, 2, 1 << 32, 1, 3, 3)]
    assert sql("SELECT * FROM {ns}.t WHERE _rowaddr = 4294967296") == [(2,)]
    assert sql("SELECT _fragid, count(*) FROM {ns}.t GROUP BY 1 ORDER BY 1") == [(0, 2), (1, 1)]


def test_a_table_is_emptied_renamed_and_dropped(sql, refused, space):
    sql("CREATE TABLE {ns}.t TBLPROPERTIES ('k' = 'v') AS SELECT 1 AS id")
    sql("TRUNCATE TABLE {ns}.t")
    theirs = space.pylance("t")
    assert (theirs.count_rows(), theirs.config(), theirs.version) == (0, {"k": "v"}, 2)
    sql("INSERT INTO {ns}.t VALUES (5)")
    sql("ALTER TABLE {ns}.t RENAME TO {ns}.u")
    assert sql("SELECT * FROM {ns}.u") == [(5,)]
    sql("ALTER TABLE {ns}.u RENAME TO v")
    sql("CREATE NAMESPACE {c}.other")
    sql("ALTER TABLE {ns}.v RENAME TO other.w")
    assert sql("SELECT * FROM {c}.other.w") == [(5,)]
    assert refused("ALTER TABLE {ns}.t RENAME TO {ns}.u").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    sql("CREATE TABLE {ns}.t (id INT)")
    taken = refused("ALTER TABLE {ns}.t RENAME TO other.w")
    assert taken.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    assert "other.w" in str(taken).replace("`", "")
    assert "nowhere" in str(refused("ALTER TABLE {ns}.t RENAME TO nowhere.w"))
    place = space.location("t")
    sql("DROP TABLE {ns}.t")
    assert refused("DROP TABLE {ns}.t").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    sql("DROP TABLE IF EXISTS {ns}.t")
    # The files stay, unless PURGE is said.
    assert lance.dataset(place).version == 1
    sql("CREATE TABLE {ns}.t (id INT)")
    place = space.location("t")
    sql("DROP TABLE {ns}.t PURGE")
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(place)


def test_a_location_is_given_a_name_or_made(sql, refused, space, tmp_path):
    place = str(tmp_path / "elsewhere" / "a.lance")
    sql(f"CREATE TABLE {{ns}}.a (id INT) LOCATION '{place}'")
    sql("INSERT INTO {ns}.a VALUES (1)")
    assert lance.dataset(place).to_table().to_pydict() == {"id": [1]}
    sql(f"CREATE TABLE {{ns}}.b LOCATION '{place}'")
    assert sql("SELECT * FROM {ns}.b") == [(1,)]
    assert "leave the columns out" in str(refused(f"CREATE TABLE {{ns}}.c (x INT) LOCATION '{place}'"))
    assert "leave the query out" in str(refused(f"CREATE TABLE {{ns}}.c LOCATION '{place}' AS SELECT 1 AS id"))
    other = str(tmp_path / "elsewhere" / "d.lance")
    refused(f"CREATE TABLE {{ns}}.d LOCATION '{other}' AS SELECT raise_error('no') AS x")
    sql(f"CREATE TABLE {{ns}}.d LOCATION '{other}' AS SELECT 4 AS id")
    assert lance.dataset(other).version == 1
    assert [row[1] for row in sql("SHOW TABLES IN {ns}")] == ["a", "b", "d"]
    assert f"LOCATION '{place}'" in sql("SHOW CREATE TABLE {ns}.b")[0][0]
    sql("ALTER TABLE {ns}.b RENAME TO e")
    sql("DROP TABLE {ns}.a")
    assert sql("SELECT * FROM {ns}.e") == [(1,)]
    # A table that was dropped, in the catalog's own folder, is brought back.
    sql("CREATE TABLE {ns}.kept AS SELECT 7 AS id")
    own = space.location("kept").removeprefix("file://")
    sql("DROP TABLE {ns}.kept")
    sql(f"CREATE TABLE {{ns}}.kept LOCATION '{own}'")
    assert space.pylance("kept").count_rows() == 1
    sql("DROP TABLE {ns}.d PURGE")
    assert not (tmp_path / "elsewhere" / "d.lance").exists()


def test_rows_take_the_place_of_those_with_a_condition(spark, sql, refused, space):
    sql("CREATE TABLE {ns}.t AS SELECT /*+ COALESCE(1) */ id, CAST(id AS STRING) AS s FROM range(4)")
    sql("INSERT INTO {ns}.t SELECT /*+ COALESCE(1) */ id + 4, 'x' FROM range(2)")
    version = space.pylance("t").version
    sql("INSERT INTO {ns}.t REPLACE WHERE id >= 3 VALUES (9, 'new'), (10, 'new')")
    theirs = space.pylance("t")
    assert theirs.to_table().sort_by("id").to_pydict()["id"] == [0, 1, 2, 9, 10]
    assert (theirs.version, theirs.read_transaction(theirs.version).operation.__class__.__name__) == (
        version + 1,
        "Update",
    )
    spark.sql("SELECT 11L AS id, 'y' AS s").writeTo(f"{space}.t").overwrite(F.expr("s = 'new' AND id < 10"))
    assert sorted(row[0] for row in sql("SELECT id FROM {ns}.t")) == [0, 1, 2, 10, 11]
    sql("INSERT INTO {ns}.t REPLACE WHERE id > 100 VALUES (12, 'z')")
    assert sql("SELECT count(*) FROM {ns}.t") == [(6,)]
    sql("REPLACE {ns}.t WHERE id = CAST('12' AS INT) /* AS */ AS SELECT 13L AS id, 'AS' AS s")
    assert sql("SELECT id, s FROM {ns}.t WHERE id > 11") == [(13, "AS")]
    assert refused("REPLACE {ns}.t WHERE id = 1").getCondition() == "PARSE_SYNTAX_ERROR"
    refused("INSERT INTO {ns}.t REPLACE WHERE id < 2 SELECT 1L, raise_error('no')")
    assert "WHERE" in str(refused("INSERT INTO {ns}.t REPLACE WHERE id % 2 = 0 VALUES (1, 'z')")).upper()
    assert sql("SELECT count(*) FROM {ns}.t") == [(6,)]
    spark.sql("SELECT 1L AS id, 'y' AS s").writeTo(f"{space}.t").overwrite(F.lit(True))
    assert sql("SELECT * FROM {ns}.t") == [(1, "y")]


def test_new_columns_come_with_rows_that_have_them(spark, sql, refused, space):
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    refused("INSERT INTO {ns}.t BY NAME SELECT 2 AS id, 'b' AS s")
    sql("INSERT WITH SCHEMA EVOLUTION INTO {ns}.t BY NAME SELECT 2 AS id, 'b' AS s")
    assert space.pylance("t").to_table().sort_by("id").to_pydict() == {"id": [1, 2], "s": [None, "b"]}
    spark.sql("SELECT 3 AS id, 'c' AS s, 1.5D AS d").writeTo(f"{space}.t").option("mergeSchema", "true").append()
    theirs = space.pylance("t")
    assert theirs.schema.field("d").type == pa.float64()
    assert sql("SELECT * FROM {ns}.t WHERE id = 3") == [(3, "c", 1.5)]


def test_a_table_like_another(sql, space):
    sql(
        "CREATE TABLE {ns}.t (id INT NOT NULL COMMENT 'c', v ARRAY<FLOAT>, PRIMARY KEY (id) NOT ENFORCED) COMMENT 'all' "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2', 'k' = 'v', 'enable_stable_row_ids' = 'true')"
    )
    sql("CREATE TABLE {ns}.u LIKE {ns}.t")
    sql("CREATE TABLE {ns}.w LIKE {ns}.t TBLPROPERTIES ('k' = 'w')")
    mine, theirs = space.pylance("t"), space.pylance("u")
    assert theirs.schema.equals(mine.schema, check_metadata=True)
    assert (theirs.config(), theirs.has_stable_row_ids, theirs.count_rows()) == ({"k": "v"}, True, 0)
    assert space.pylance("w").config() == {"k": "w"}


def test_options_by_the_names_of_the_other_connector(spark, sql, refused, space):
    sql("CREATE TABLE {ns}.t (id BIGINT)")
    sql(
        "INSERT INTO {ns}.t WITH ('max_row_per_file' = '2', 'queue_depth' = '4') SELECT /*+ COALESCE(1) */ id FROM range(6)"
    )
    assert [fragment.count_rows() for fragment in space.pylance("t").get_fragments()] == [2, 2, 2]
    assert spark.read.option("batch_size", 1).option("block_size", 4096).table(f"{space}.t").count() == 6
    assert "VECTOR_SEARCH" in str(refused("SELECT sum(id) FROM {ns}.t WITH ('nearest' = '{}')"))
    name = add_catalog(spark, space.root, max_row_per_file="3", batch_size="2")
    sql(f"CREATE TABLE {name}.ns.u AS SELECT /*+ COALESCE(1) */ id FROM range(6)")
    assert [fragment.count_rows() for fragment in space.pylance("u").get_fragments()] == [3, 3]
    assert sql(f"SELECT sum(id) FROM {name}.ns.u") == [(15,)]


def test_a_write_gives_texts_and_bytes_wide_offsets(spark, sql, space):
    frame = spark.sql(
        "SELECT 1 AS id, 'a' AS s, X'00' AS b, named_struct('t', 'x', 'l', array('p', NULL)) AS n, map('k', X'01') AS m"
    )
    frame.writeTo(f"{space}.t").option("use_large_var_types", "true").create()
    frame.write.format("lance").option("useLargeVarTypes", "TRUE").mode("append").save(f"{space.root}/by_path.lance")
    expected = {
        "id": "int32",
        "s": "large_string",
        "b": "large_binary",
        "n": "struct<t: large_string, l: list<item: large_string>>",
        "m": "map<large_string, large_binary>",
    }
    for table in (space.pylance("t"), lance.dataset(f"{space.root}/by_path.lance")):
        assert {field.name: re.sub(" not null| \\('m'\\)", "", str(field.type)) for field in table.schema} == expected
        assert table.to_table().drop_columns(["b", "m"]).to_pylist() == [
            {"id": 1, "s": "a", "n": {"t": "x", "l": ["p", None]}}
        ]
    assert sql("SELECT s, hex(b), n.l, hex(m['k']) FROM {ns}.t") == [("a", "00", ["p", None], "01")]
    # Columns that are there stay as they are; those that come with rows are new.
    spark.sql("SELECT 'a' AS s").writeTo(f"{space}.u").create()
    more = spark.sql("SELECT 'b' AS s, 'c' AS more").write.format("lance").option("use_large_var_types", "true")
    more.option("mergeSchema", "true").mode("append").save(space.location("u"))
    assert space.pylance("u").schema.types == [pa.string(), pa.large_string()]
    sql("INSERT OVERWRITE {ns}.u WITH ('use_large_var_types' = 'true') VALUES ('d', 'e')")
    assert space.pylance("u").schema.types == [pa.string(), pa.large_string()]
    assert space.pylance("u").to_table().to_pylist() == [{"s": "d", "more": "e"}]


def test_a_table_gives_new_texts_and_bytes_wide_offsets(spark, sql, refused, space):
    wide = "TBLPROPERTIES ('use_large_var_types' = 'true', 'kept.lance.type' = 'string')"
    sql(f"CREATE TABLE {{ns}}.t (id INT, s STRING, n STRUCT<b: BINARY>, kept STRING) {wide}")
    sql(f"CREATE TABLE {{ns}}.filled {wide} AS SELECT 1 AS id, 'a' AS s, named_struct('b', X'00') AS n, 'k' AS kept")
    for name in ("t", "filled"):
        theirs = space.pylance(name)
        types = [pa.int32(), pa.large_string(), pa.struct([("b", pa.large_binary())]), pa.string()]
        assert [str(one) for one in theirs.schema.types] == [str(one) for one in types]
        assert theirs.config() == {"use_large_var_types": "true"}
        assert theirs.version == 1
    sql("INSERT INTO {ns}.t SELECT * FROM {ns}.filled")
    sql("ALTER TABLE {ns}.t ADD COLUMNS (more STRING, n.s STRING)")
    sql("ALTER TABLE {ns}.t ADD COLUMN city STRING DEFAULT 'here'")
    spark.sql("SELECT 2 AS id, 'x' AS last").writeTo(f"{space}.t").option("mergeSchema", "true").append()
    schema = space.pylance("t").schema
    assert {schema.field(name).type for name in ("more", "city", "last")} == {pa.large_string()}
    assert schema.field("n").type.field("s").type == pa.large_string()
    assert sql("SELECT id, s, n.b, kept, more, city, last FROM {ns}.t ORDER BY id") == [
        (1, "a", b"\0", "k", None, "here", None),
        (2, None, None, None, None, "here", "x"),
    ]
    # A write may say otherwise, and the table may, from then on.
    narrow = spark.sql("SELECT 3 AS id, 'y' AS narrow").write.format("lance").option("mergeSchema", "true")
    narrow.option("use_large_var_types", "false").mode("append").save(space.location("t"))
    sql("CREATE TABLE {ns}.like LIKE {ns}.filled")
    assert space.pylance("like").schema.equals(space.pylance("filled").schema)
    sql("ALTER TABLE {ns}.like UNSET TBLPROPERTIES ('use_large_var_types')")
    sql("ALTER TABLE {ns}.like ADD COLUMN narrow STRING")
    for name in ("t", "like"):
        assert space.pylance(name).schema.field("narrow").type == pa.string()
    assert "true or false" in str(refused("ALTER TABLE {ns}.t SET TBLPROPERTIES ('use_large_var_types' = 'yes')"))
    assert "true or false" in str(
        refused("CREATE TABLE {ns}.u (s STRING) TBLPROPERTIES ('use_large_var_types' = 'yes')")
    )
    # A catalog may want it for all its tables.
    name = add_catalog(spark, space.root, use_large_var_types="true")
    sql(f"CREATE TABLE {name}.ns.u (s STRING)")
    assert space.pylance("u").schema.types == [pa.large_string()]


def test_what_a_changed_table_shows_makes_it_again(sql, space):
    sql(
        "CREATE TABLE {ns}.t (id BIGINT NOT NULL, s STRING DEFAULT 'a', p STRUCT<a: STRING, b: INT>, m MAP<STRING, STRING>, "
        "v ARRAY<FLOAT>, PRIMARY KEY (id) NOT ENFORCED) COMMENT 'it''s' TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
    )
    for change in (
        "ALTER COLUMN s COMMENT 'text'",
        "ALTER COLUMN s SET DEFAULT 'b'",
        "ADD COLUMNS (z STRING COMMENT 'new', p.c STRING)",
        "RENAME COLUMN z TO y",
        "ALTER COLUMN p.b TYPE BIGINT",
        "ALTER COLUMN y AFTER id",
        "SET TBLPROPERTIES ('s.lance.compression' = 'zstd', 'team' = 'red')",
    ):
        sql(f"ALTER TABLE {{ns}}.t {change}")
    ((text,),) = sql("SHOW CREATE TABLE {ns}.t")
    sql(text.replace(f"{space}.t", f"{space}.again"))
    before, after = space.pylance("t"), space.pylance("again")
    assert after.schema.equals(before.schema)
    for field in before.schema:
        kept = {**(field.metadata or {}), **({b"EXISTS_DEFAULT": b"'b'"} if field.name == "s" else {})}
        assert after.schema.field(field.name).metadata == (kept or None), field.name
    assert after.config() == before.config()
    assert sql("SHOW CREATE TABLE {ns}.again") == [(text.replace(f"{space}.t", f"{space}.again"),)]
    # Spark writes the collation out, of its own tables, too: the text means the same where another one is the default.
    assert "y STRING COLLATE UTF8_BINARY COMMENT 'new'" in text


def test_a_table_without_rows_is_made_or_replaced(sql, space):
    for columns in ("id INT", "id INT, n STRING"):
        sql(f"CREATE OR REPLACE TABLE {{ns}}.fresh ({columns})")
        assert [name for (name,) in sql("SHOW COLUMNS IN {ns}.fresh")] == space.pylance("fresh").schema.names
        assert sql("SELECT * FROM {ns}.fresh") == []
        sql("INSERT INTO {ns}.fresh (id) VALUES (1)")
    assert space.pylance("fresh").schema.names == ["id", "n"]

"""ALTER TABLE: each statement is one commit, and pylance sees what it did."""

from __future__ import annotations

import pyarrow as pa
import pytest


@pytest.fixture
def table(sql, space):
    sql(
        "CREATE TABLE {ns}.t (id INT NOT NULL, s STRING, n STRUCT<x: INT, y: STRUCT<z: STRING>>) "
        "TBLPROPERTIES ('k' = 'v')"
    )
    sql("INSERT INTO {ns}.t SELECT 1, 'a', named_struct('x', 1, 'y', named_struct('z', 'q'))")
    return lambda: space.pylance("t")


def test_properties_and_comments(sql, refused, table):
    sql(
        "ALTER TABLE {ns}.t SET TBLPROPERTIES ('k' = 'w', 'l' = 'm', 'comment' = 'ours', 's.lance.compression' = 'zstd')"
    )
    assert (table().version, table().config()) == (3, {"k": "w", "l": "m"})
    assert table().schema.field("s").metadata[b"lance-encoding:compression"] == b"zstd"
    sql("ALTER TABLE {ns}.t UNSET TBLPROPERTIES ('l', 'nope')")
    sql("COMMENT ON TABLE {ns}.t IS 'theirs'")
    sql("ALTER TABLE {ns}.t ALTER COLUMN s COMMENT 'a text'")
    sql("ALTER TABLE {ns}.t ALTER COLUMN n.x COMMENT 'inside'")
    shown = {row[0]: row[1:] for row in sql("DESCRIBE TABLE EXTENDED {ns}.t")}
    assert (shown["Comment"][0], shown["s"][1]) == ("theirs", "a text")
    assert table().schema.field("n").type.field("x").metadata[b"comment"] == b"inside"
    sql("INSERT INTO {ns}.t (id) VALUES (2)")
    assert (table().config(), table().count_rows()) == ({"k": "w"}, 2)
    assert "when a table is made" in str(
        refused("ALTER TABLE {ns}.t SET TBLPROPERTIES ('enable_stable_row_ids' = 'true')")
    )
    assert refused("ALTER TABLE {ns}.nope SET TBLPROPERTIES ('a' = 'b')").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_columns_are_added_without_a_file(sql, refused, table):
    files = len(table().get_fragments()[0].data_files())
    sql("ALTER TABLE {ns}.t ADD COLUMNS (b BIGINT COMMENT 'new', v ARRAY<FLOAT>)")
    sql("ALTER TABLE {ns}.t ADD COLUMN n.y.w DOUBLE")
    assert (table().version, len(table().get_fragments()[0].data_files())) == (4, files)
    assert table().schema.field("b").metadata[b"comment"] == b"new"
    row = {"id": 1, "s": "a", "n": {"x": 1, "y": {"z": "q", "w": None}}, "b": None, "v": None}
    assert table().to_table().to_pylist() == [row]
    sql("INSERT INTO {ns}.t SELECT 2, 'b', named_struct('x', 2, 'y', named_struct('z', 'r', 'w', 2.5D)), 7, array(1F)")
    assert sql("SELECT b, n.y.w FROM {ns}.t ORDER BY id") == [(None, None), (7, 2.5)]
    assert "FIELD_ALREADY_EXISTS" in refused("ALTER TABLE {ns}.t ADD COLUMN s INT").getCondition()
    assert "comes last" in str(refused("ALTER TABLE {ns}.t ADD COLUMN f INT FIRST"))
    sql("ALTER TABLE {ns}.t SET TBLPROPERTIES ('e.arrow.fixed-size-list.size' = '3')")
    sql("ALTER TABLE {ns}.t ADD COLUMN e ARRAY<FLOAT>")
    assert table().schema.field("e").type == pa.list_(pa.float32(), 3)


def test_columns_go_and_get_other_names_types_and_places(sql, refused, table):
    sql("ALTER TABLE {ns}.t RENAME COLUMN s TO text")
    sql("ALTER TABLE {ns}.t RENAME COLUMN n.x TO ex")
    sql("ALTER TABLE {ns}.t ALTER COLUMN id TYPE BIGINT")
    sql("ALTER TABLE {ns}.t ALTER COLUMN id DROP NOT NULL")
    sql("ALTER TABLE {ns}.t ALTER COLUMN text FIRST")
    sql("ALTER TABLE {ns}.t ALTER COLUMN id AFTER n")
    schema = table().schema
    assert (table().version, schema.names) == (8, ["text", "n", "id"])
    assert (schema.field("id").type, schema.field("id").nullable) == (pa.int64(), True)
    assert table().to_table().to_pylist() == [{"text": "a", "n": {"ex": 1, "y": {"z": "q"}}, "id": 1}]
    sql("ALTER TABLE {ns}.t DROP COLUMNS (n.y, id)")
    sql("ALTER TABLE {ns}.t DROP COLUMN IF EXISTS nope")
    assert (table().version, sql("SELECT * FROM {ns}.t")[0][0]) == (9, "a")
    sql("INSERT INTO {ns}.t SELECT 'b', NULL")
    # Spark itself does not let a column become stricter.
    assert "non-nullable" in str(refused("ALTER TABLE {ns}.t ALTER COLUMN n SET NOT NULL"))
    assert "COLUMN" in refused("ALTER TABLE {ns}.t DROP COLUMN nope").getCondition()
    assert refused("ALTER TABLE {ns}.t ALTER COLUMN text TYPE INT").getCondition() == "NOT_SUPPORTED_CHANGE_COLUMN"


def test_defaults(sql, refused, table):
    sql("CREATE TABLE {ns}.d (id INT, c INT DEFAULT 5, s STRING DEFAULT 'x')")
    sql("INSERT INTO {ns}.d (id) VALUES (1)")
    sql("INSERT INTO {ns}.d VALUES (2, DEFAULT, 'y')")
    assert sql("SELECT * FROM {ns}.d ORDER BY id") == [(1, 5, "x"), (2, 5, "y")]
    sql("ALTER TABLE {ns}.d ALTER COLUMN c SET DEFAULT 6")
    sql("ALTER TABLE {ns}.d ALTER COLUMN s DROP DEFAULT")
    sql("INSERT INTO {ns}.d (id) VALUES (3)")
    assert sql("SELECT * FROM {ns}.d WHERE id = 3") == [(3, 6, None)]
    sql("ALTER TABLE {ns}.t ADD COLUMN (d DATE DEFAULT DATE'2020-01-02', w STRING DEFAULT 'w', f DOUBLE)")
    assert str(sql("SELECT d, w, f FROM {ns}.t")[0][0]) == "2020-01-02"
    sql("INSERT INTO {ns}.t (id) VALUES (2)")
    assert [row["w"] for row in table().to_table().to_pylist()] == ["w", "w"]


def test_the_primary_key_is_declared_once(sql, refused, space, table):
    for columns, words in (("nope", "nope"), ("s", "nullable"), ("n", "fields of its own"), ("id, id", "")):
        refused_key = refused(f"ALTER TABLE {{ns}}.t ADD CONSTRAINT pk PRIMARY KEY ({columns}) NOT ENFORCED")
        assert words in str(refused_key)
    assert table().version == 2
    sql("ALTER TABLE {ns}.t ADD CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED")
    key = table().schema.field("id").metadata
    assert key[b"lance-schema:unenforced-primary-key:position"] == b"1"
    assert "already has" in str(refused("ALTER TABLE {ns}.t ADD CONSTRAINT pk2 PRIMARY KEY (id) NOT ENFORCED"))
    sql("CREATE TABLE {ns}.k (a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (b, a) NOT ENFORCED)")
    positions = {
        field.name: field.metadata[b"lance-schema:unenforced-primary-key:position"]
        for field in space.pylance("k").schema
    }
    assert positions == {"a": b"2", "b": b"1"}
    assert "PRIMARY KEY (b, a)" in str(sql("DESCRIBE EXTENDED {ns}.k"))

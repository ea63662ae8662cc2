"""Namespaces of the catalog, and how tables are called."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

import lancelet
from lancelet.namespace import RestAdapter
from lancelet.spark.session import CATALOG
from spark.sql.conftest import add_catalog


def test_namespaces_are_made_listed_described_changed_and_dropped(sql, refused, space):
    sql("CREATE NAMESPACE {c}.a COMMENT 'first' WITH PROPERTIES ('k' = 'v')")
    sql("CREATE NAMESPACE {c}.a.b")
    sql("CREATE NAMESPACE IF NOT EXISTS {c}.a")
    assert refused("CREATE NAMESPACE {c}.a").getCondition() == "SCHEMA_ALREADY_EXISTS"
    assert sql("SHOW NAMESPACES IN {c}") == [("a",), ("ns",)]
    assert sql("SHOW NAMESPACES IN {c}.a") == [("a.b",)]
    assert sql("SHOW NAMESPACES IN {c} LIKE 'n*'") == [("ns",)]
    assert refused("SHOW NAMESPACES IN {c}.nope").getCondition() == "SCHEMA_NOT_FOUND"
    sql("ALTER NAMESPACE {c}.a SET PROPERTIES ('k' = 'w', 'l' = 'm')")
    sql("COMMENT ON NAMESPACE {c}.a IS 'second'")
    shown = dict(sql("DESCRIBE NAMESPACE EXTENDED {c}.a"))
    assert (shown["Comment"], shown["Properties"]) == ("second", "((k,w), (l,m))")
    for said in ("ALTER NAMESPACE {c}.a SET LOCATION '/x'", "CREATE NAMESPACE {c}.elsewhere LOCATION '/x'"):
        assert "a namespace has no LOCATION" in str(refused(said))
    assert list(lancelet.connect(space.root).namespaces()) == ["a", "ns"]
    assert refused("DESCRIBE NAMESPACE {c}.nope").getCondition() == "SCHEMA_NOT_FOUND"
    assert refused("DROP NAMESPACE {c}.a").getCondition() == "SCHEMA_NOT_EMPTY"
    sql("CREATE TABLE {c}.a.t (id INT)")
    sql("DROP NAMESPACE {c}.a CASCADE")
    assert refused("DROP NAMESPACE {c}.a").getCondition() == "SCHEMA_NOT_FOUND"
    sql("DROP NAMESPACE IF EXISTS {c}.a")
    assert sql("SHOW NAMESPACES IN {c}") == [("ns",)]


def test_a_catalog_that_all_names_are_of(spark, sql, space):
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    other = spark.newSession()
    other.conf.set("spark.sql.defaultCatalog", space.name)
    for key, value in {"": CATALOG, ".impl": "dir", ".root": str(space.root)}.items():
        other.conf.set(f"spark.sql.catalog.{space.name}{key}", value)
    assert [tuple(row) for row in other.sql("SELECT * FROM ns.t").collect()] == [(1,)]
    other.sql("CREATE TABLE ns.u USING lance AS SELECT * FROM ns.t")
    assert space.pylance("u").to_table().to_pydict() == {"id": [1]}


def test_names_without_catalog_and_namespace(spark, sql, space):
    sql("CREATE TABLE {ns}.t AS SELECT 1 AS id")
    before = spark.catalog.currentCatalog()
    try:
        sql("USE {c}")
        assert sql("SELECT * FROM ns.t") == [(1,)]
        sql("USE {ns}")
        assert sql("SELECT * FROM t") == [(1,)]
        assert spark.table("t").count() == 1
        assert spark.catalog.tableExists("t")
        assert not spark.catalog.tableExists("nope")
        assert [table.name for table in spark.catalog.listTables()] == ["t"]
        assert [column.name for column in spark.catalog.listColumns("t")] == ["id"]
        assert (space.name,) in sql("SHOW CATALOGS")
    finally:
        spark.catalog.setCurrentCatalog(before)


def test_one_level(spark, sql, tmp_path):
    """The tables of the root are in the namespace ``default``, which is always there."""
    name = add_catalog(spark, tmp_path / "flat", single_level_ns="true")
    assert sql(f"SHOW NAMESPACES IN {name}") == [("default",)]
    sql(f"CREATE TABLE {name}.default.t AS SELECT 7 AS id")
    assert sql(f"SELECT * FROM {name}.default.t") == [(7,)]
    assert sql(f"SHOW TABLES IN {name}.default") == [("default", "t", False)]
    assert list(lancelet.connect(tmp_path / "flat").tables()) == ["t"]


def test_a_parent_comes_before_every_name(spark, sql, space):
    name = add_catalog(spark, space.root, parent="ns")
    sql(f"CREATE NAMESPACE {name}.inner")
    sql(f"CREATE TABLE {name}.inner.t AS SELECT 7 AS id")
    assert sql("SELECT * FROM {ns}.inner.t") == [(7,)]
    assert sql(f"SHOW NAMESPACES IN {name}") == [("inner",)]


def test_names_of_the_other_connector(spark, sql, space):
    for kind in ("org.lance.spark.LanceNamespaceSparkCatalog", "com.lancedb.lance.spark.LanceNamespaceSparkCatalog"):
        name = add_catalog(spark, space.root, kind)
        assert sql(f"SHOW NAMESPACES IN {name}") == [("ns",)]


def test_catalogs_that_are_not_there(spark, refused, tmp_path):
    for impl, words in (("rest", "the property 'uri'"), ("nowhere.Namespace", "there is no namespace of the kind")):
        name = add_catalog(spark, tmp_path, impl=impl)
        assert words in str(refused(f"SHOW NAMESPACES IN {name}"))


def test_tables_by_their_paths(sql, refused, spark, space, tmp_path):
    path = str(tmp_path / "by path.lance")
    lancelet.write_dataset({"id": [1, 2]}, path)
    assert sql(f"SELECT count(*) FROM {{c}}.`{path}`") == [(2,)]
    # The catalog that `configure` adds knows paths only.
    assert sql(f"SELECT count(*) FROM lance.`{path}`") == [(2,)]
    sql(f"INSERT INTO lance.`{path}` VALUES (3)")
    assert lancelet.dataset(path).count_rows() == 3
    assert refused(f"SELECT * FROM {{c}}.`{path}.not`").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    for text in ("SELECT * FROM {t}", "SELECT 1 WHERE EXISTS (SELECT * FROM {t} VERSION AS OF 2)", "DELETE FROM {t}"):
        error = refused(text.format(t=f"lance.`{path}.not`"))
        assert (error.getCondition(), "there is no Lance table" in str(error)) == ("PATH_NOT_FOUND", True)
    sql(f"DROP TABLE IF EXISTS lance.`{path}.not`")
    assert "knows tables by their paths only" in str(refused("SHOW TABLES IN lance"))
    other = str(tmp_path / "other.lance")
    sql(f"CREATE TABLE lance.`{other}` AS SELECT 5 AS n")
    assert lancelet.dataset(other).to_table().to_pydict() == {"n": [5]}
    sql(f"DROP TABLE lance.`{other}`")
    assert not (tmp_path / "other.lance").exists()


def test_a_catalog_behind_a_server(spark, tmp_path):
    """Names are the server's; rows are written and read where it says that tables are."""
    token = "a-token-of-ours"
    with RestAdapter("dir", {"root": tmp_path}, port=0, token=token) as server:
        options = {"uri": server.uri, "headers.Authorization": f"Bearer {token}"}
        name = add_catalog(spark, tmp_path, impl="rest", **options)
        for statement in (
            f"CREATE NAMESPACE {name}.shop",
            f"CREATE TABLE {name}.shop.orders (id BIGINT, what STRING)",
            f"INSERT INTO {name}.shop.orders VALUES (1, 'apple'), (2, 'pear')",
            f"UPDATE {name}.shop.orders SET what = 'plum' WHERE id = 2",
            f"CREATE TABLE {name}.shop.more (id BIGINT)",
            f"DROP TABLE {name}.shop.more",
        ):
            spark.sql(statement).collect()
        assert spark.table(f"{name}.shop.orders").orderBy("id").collect() == [(1, "apple"), (2, "plum")]
        assert [row[1] for row in spark.sql(f"SHOW TABLES IN {name}.shop").collect()] == ["orders"]
        folder = lancelet.connect(tmp_path)
        assert list(folder.tables("shop")) == ["orders"]
        assert folder.open("shop.orders").count_rows("what = 'plum'") == 1
        stranger = add_catalog(spark, tmp_path, impl="rest", uri=server.uri)
        with pytest.raises(PySparkException, match="token is missing or wrong"):
            spark.sql(f"SHOW NAMESPACES IN {stranger}").collect()

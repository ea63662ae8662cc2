"""Spark's own catalog with Lance tables in it, which can do what they can in a catalog of ours."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import PySparkException

from spark.sessions import MODE

pytestmark = pytest.mark.skipif(MODE.startswith("connect"), reason="the settings of a Connect server are its own")


@pytest.fixture
def run(spark, tmp_path):
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "io.lancelet.spark.catalog.LanceSessionCatalog")
    session.sql(f"CREATE DATABASE lances LOCATION '{tmp_path}'")
    session.sql("USE lances")
    yield lambda text: [tuple(row) for row in session.sql(text).collect()]
    session.sql("DROP DATABASE lances CASCADE")


def test_lance_tables_beside_others(run, tmp_path):
    run("CREATE TABLE p USING parquet AS SELECT 1 AS a")
    run(
        "CREATE TABLE t (id INT COMMENT 'key', v ARRAY<FLOAT>) USING lance TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
    )
    assert run("SELECT * FROM t") == []
    run("INSERT INTO t VALUES (1, array(1, 2))")
    run("ALTER TABLE t ADD COLUMN z STRING")
    run("INSERT INTO t VALUES (2, NULL, 'z')")
    assert run("SELECT id, z, _rowaddr FROM t ORDER BY id") == [(1, None, 0), (2, "z", 1 << 32)]
    assert run("SELECT id FROM t VERSION AS OF 2") == [(1,)]
    assert lance.dataset(str(tmp_path / "t")).schema.names == ["id", "v", "z"]
    run("CREATE TABLE u USING lance AS SELECT 5 AS n")
    run("TRUNCATE TABLE u")
    assert [row[1] for row in run("SHOW TABLES")] == ["p", "t", "u"]
    with pytest.raises(PySparkException, match="no"):
        run("CREATE TABLE bad USING lance AS SELECT raise_error('no') AS n")
    with pytest.raises(PySparkException, match="above 0"):
        run("CREATE TABLE bad (v ARRAY<FLOAT>) USING lance TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '0')")
    assert [row[1] for row in run("SHOW TABLES")] == ["p", "t", "u"]
    run("ALTER TABLE p ADD COLUMN b INT")
    assert run("SELECT * FROM p") == [(1, None)]
    assert run("OPTIMIZE t")[0][0] == 2
    assert run("DESCRIBE HISTORY spark_catalog.lances.t LIMIT 1")[0][2] == "Rewrite"
    with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
        run("OPTIMIZE p")
    run("DROP TABLE t")
    assert [row[1] for row in run("SHOW TABLES")] == ["p", "u"]

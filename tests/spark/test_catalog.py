"""Tables with a name in Spark's own catalog: each way to make one ends in a table that can be read, or in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lancelet
from lancelet.spark import LanceTable
from spark.conftest import data_files
from spark.sessions import MODE
from spark.test_mistakes import sentence

pytestmark = pytest.mark.skipif(
    MODE.endswith("plain"), reason="without the bridge Spark does not tell where the tables of its catalog are"
)


@pytest.fixture
def name(spark) -> Iterator[str]:
    """A name that is free again afterwards."""
    yield "people"
    spark.sql("DROP TABLE IF EXISTS people").collect()


@pytest.fixture
def table(uri: str) -> str:
    lancelet.write_dataset({"id": [1, 2], "s": ["a", "b"]}, uri)
    return uri


def rows(spark, name: str) -> list[tuple]:
    return sorted(map(tuple, spark.table(name).collect()))


@pytest.mark.parametrize("where", ["LOCATION '{}'", "OPTIONS (path '{}', batchSize 10)"])
def test_a_table_that_is_there_gets_a_name(spark, name, table, where):
    spark.sql(f"CREATE TABLE {name} USING lance {where.format(table)}").collect()
    assert rows(spark, name) == [(1, "a"), (2, "b")]
    assert spark.table(name).where("id = 2").count() == 1
    spark.sql(f"INSERT INTO {name} VALUES (3, 'c')").collect()
    spark.sql("SELECT 4L AS id, 'd' AS s").write.insertInto(name)
    spark.sql("SELECT 5L AS id, 'e' AS s").write.format("lance").mode("append").saveAsTable(name)
    assert lancelet.dataset(table).count_rows() == len(rows(spark, name)) == 5
    LanceTable.forPath(spark, table).addColumns({"n": "id + 1"})
    assert spark.table(name).columns == ["id", "s", "n"]
    shown = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
    assert (shown["Type"], shown["Provider"]) == ("EXTERNAL", "lance")
    spark.sql(f"INSERT OVERWRITE {name} SELECT 9L, 'z', 1L").collect()
    assert rows(spark, name) == [(9, "z", 1)]
    spark.sql(f"DROP TABLE {name}").collect()
    assert lancelet.dataset(table).count_rows() == 1


def test_tables_that_the_name_makes(spark, name, uri, tmp_path):
    frame = spark.sql("SELECT 1L AS id, 'a' AS s")
    makers = [
        lambda: spark.sql(f"CREATE TABLE {name} USING lance LOCATION '{uri}1' AS SELECT 1L AS id, 'a' AS s").collect(),
        lambda: frame.write.format("lance").option("path", f"{uri} 2").saveAsTable(name),
        lambda: frame.write.format("lance").saveAsTable(name),
        lambda: frame.writeTo(name).using("lance").create(),
        lambda: [
            spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING) USING lance").collect(),
            spark.sql(f"INSERT INTO {name} VALUES (1, 'a')").collect(),
        ],
    ]
    for make in makers:
        make()
        assert rows(spark, name) == [(1, "a")]
        spark.sql(f"DROP TABLE {name}").collect()
    assert sorted(path.name for path in tmp_path.iterdir()) == [Path(f"{uri} 2").name, Path(f"{uri}1").name]


def test_a_table_that_spark_keeps_can_be_replaced(spark, name):
    spark.range(3).write.format("lance").saveAsTable(name)
    spark.range(1).write.format("lance").mode("overwrite").saveAsTable(name)
    assert rows(spark, name) == [(0,)]


def test_what_is_refused_leaves_no_name_and_no_rows(spark, name, table):
    files = data_files(table)

    def refused(text: str) -> str:
        said = sentence(lambda: spark.sql(text.format(name=name, path=table)).collect())
        assert not spark.catalog.tableExists(name)
        return said

    # Spark would add the rows to what is there.
    for columns in ("(id BIGINT) USING lance LOCATION '{path}'", "USING lance LOCATION '{path}' AS SELECT 1L AS id"):
        assert "already; to give it a name, leave columns and query out" in refused(f"CREATE TABLE {{name}} {columns}")
    assert "the path of the table is missing" in refused("CREATE TABLE {name} USING lance")
    for parts in ("PARTITIONED BY (id)", "CLUSTER BY (id)", "CLUSTERED BY (id) INTO 2 BUCKETS"):
        said = refused(f"CREATE TABLE {{name}} (id BIGINT) USING lance {parts}")
        assert "a Lance table has no partitions, clusters or buckets" in said
    frame = spark.range(1)
    for write in (frame.write.partitionBy("id"), frame.write.clusterBy("id")):
        said = sentence(lambda write=write: write.format("lance").mode("append").save(table))
        assert "a Lance table has no partitions, clusters or buckets" in said
    assert data_files(table) == files


def test_a_name_without_rows_and_one_that_was_altered(spark, name, uri):
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING lance LOCATION '{uri}'").collect()
    assert "was not found" in sentence(lambda: spark.table(name).count())
    spark.sql(f"INSERT INTO {name} VALUES (1)").collect()
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (more INT)").collect()
    assert "column 'more' is not in the table" in sentence(lambda: spark.table(name).count())
    spark.sql(f"ALTER TABLE {name} DROP COLUMN more").collect()
    assert rows(spark, name) == [(1,)]

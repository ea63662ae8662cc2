"""Tables by their names in a namespace, for reads, writes, streams and LanceTable."""

from __future__ import annotations

from pathlib import Path

import lance.namespace
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lancelet
from lancelet.errors import TableNotFound
from lancelet.spark import LanceTable
from spark.conftest import SOURCES, Shares


@pytest.fixture
def root(tmp_path: Path) -> str:
    lancelet.connect(tmp_path / "spaces").create_namespace("sales")
    return str(tmp_path / "spaces")


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.soak)], ids=SOURCES)
def test_written_and_read(spark: SparkSession, root: str, first: int) -> None:
    """Whichever makes the table, the other writes into it too."""
    rows = spark.range(10).withColumnRenamed("id", "k")
    made, other = SOURCES[first], SOURCES[1 - first]
    for source in (made, other):
        rows.write.format(source).mode("append").option("namespace", root).save("sales.orders")
    rows.write.format(other).mode("append").option("namespace", root).save("top")
    for source in SOURCES:
        found = spark.read.format(source).option("namespace", root).load("sales.orders")
        assert sorted(row.k for row in found.filter("k < 2").collect()) == [0, 0, 1, 1]
    space = lancelet.connect(root)
    assert (list(space.tables("sales")), list(space.tables())) == (["orders"], ["top"])
    theirs = lance.namespace.DirectoryNamespace(root=root)
    opened = lance.dataset(namespace_client=theirs, table_id=["sales", "orders"])
    assert opened.count_rows() == 20


def test_changed(spark: SparkSession, root: str) -> None:
    lancelet.connect(root).create("sales.orders", {"k": [1, 2, 3]})
    table = LanceTable.forName(spark, "sales.orders", root)
    assert table.delete("k = 2") == {"num_deleted_rows": 1}
    assert lancelet.connect(root).open("sales.orders").to_table().to_pydict() == {"k": [1, 3]}


def test_streamed(spark: SparkSession, root: str, tmp_path: Path) -> None:
    lancelet.connect(root).create("sales.from", {"k": [1, 2, 3]})
    query = (
        spark.readStream.format("lance")
        .option("namespace", root)
        .load("sales.from")
        .writeStream.format("lance")
        .option("namespace", root)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start("sales.to")
    )
    query.awaitTermination()
    assert lancelet.connect(root).open("sales.to").count_rows() == 3


def test_refused(spark: SparkSession, sources: Shares, root: str) -> None:
    def read(source: str) -> None:
        spark.read.format(source).option("namespace", root).load("sales.orders").count()

    def write(source: str, name: str) -> None:
        spark.range(3).write.format(source).mode("append").option("namespace", root).save(name)

    refused = (
        (read, "orders"),
        (lambda source: write(source, "nowhere.orders"), "nowhere"),
    )
    for (act, words), source in sources(refused):
        with pytest.raises(PySparkException, match=words):
            act(source)
    with pytest.raises(TableNotFound, match="orders"):
        LanceTable.forName(spark, "sales.orders", root)
    lancelet.connect(root).create("sales.orders", {"k": [1]})
    for _, source in sources(range(2)):
        with pytest.raises(PySparkException, match="id"):
            write(source, "sales.orders")
    assert list(lancelet.connect(root).tables("sales")) == ["orders"]


def test_a_failed_write_leaves_no_name(spark: SparkSession, root: str) -> None:
    rows = spark.range(3).selectExpr("if(id = 2, raise_error('no'), id) as k")
    with pytest.raises(PySparkException):
        rows.write.format("lance").mode("append").option("namespace", root).save("sales.orders")
    assert list(lancelet.connect(root).tables("sales")) == []

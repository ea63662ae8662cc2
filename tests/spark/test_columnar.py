"""Whole columns handed to Spark: the same answers as row by row, whatever the types."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import numpy as np
import psutil
import pyarrow as pa
import pytest

import lancelet
from conformance.grid import FAMILIES
from lancelet.testing import assert_identical, random_array
from spark.sessions import MODE

SETTING = "spark.lancelet.columnar"
KINDS = [
    kind.type
    for family, kinds in FAMILIES.items()
    if family not in ("extensions", "blobs")
    for kind in kinds
    if kind.type not in (pa.string_view(), pa.binary_view())
]
ROWS = 700

pytestmark = pytest.mark.skipif(MODE.endswith("plain"), reason="columns come through the bridge")


@pytest.fixture
def rows_too(spark):
    """Asks twice: for columns, and for rows."""

    def ask(question):
        spark.conf.unset(SETTING)
        columns = question()
        spark.conf.set(SETTING, "false")
        try:
            return columns, question()
        finally:
            spark.conf.unset(SETTING)

    return ask


def readable(kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Within the years that Spark knows."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date64(kind):
        few = 10**6 * 86_400_000 if pa.types.is_date64(kind) else 10**9
        counts = values.view(pa.int64())
        step = 86_400_000 if pa.types.is_date64(kind) else 1
        plain = counts.fill_null(0).to_numpy() % few // step * step
        return pa.array(plain, pa.int64(), mask=counts.is_null().to_numpy(False)).view(kind)
    return values


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A column of each type, without nulls, with some, and with nothing but nulls; some rows are deleted."""
    columns = {"id": pa.array(np.arange(ROWS))}
    for number, kind in enumerate(KINDS):
        if "timestamp" in str(kind) and pa.types.is_nested(kind):
            continue
        for nulls in ("none", "some", "all"):
            columns[f"c{number}_{nulls}"] = readable(kind, random_array(kind, ROWS, number, nulls=nulls))
    uri = str(tmp_path_factory.mktemp("columnar") / "t.lance")
    ds = lancelet.write_dataset(pa.table(columns), uri, max_rows_per_file=300, data_storage_version="2.2")
    ds.delete("id % 11 = 3")
    return uri


def test_every_type(spark, table, rows_too):
    frame = spark.read.format("lance").option("batchSize", "64").load(table)
    columns, rows = rows_too(lambda: frame.toArrow().sort_by("id"))
    assert columns.num_rows == len([n for n in range(ROWS) if n % 11 != 3])
    assert_identical(columns, rows)


def test_columns_are_read_as_columns(spark, table, rows_too, capfd):
    frame = spark.read.format("lance").load(table).select("id")
    columns, rows = rows_too(lambda: "ColumnarToRow" in explained(frame, capfd))
    assert (columns, rows) == (True, False)


def explained(frame, capture) -> str:
    capture.readouterr()
    # A new plan each time.
    frame.select("id").explain()
    return capture.readouterr().out


QUESTIONS = {
    "few rows of many": lambda df: df.limit(5),
    "no columns": lambda df: df.where("id % 2 = 0").groupBy().count(),
    "texts that outlive their batch": lambda df: df.groupBy("s").agg({"b": "max", "x": "sum"}),
    "sorted": lambda df: df.orderBy("s", "id").limit(50),
    "joined": lambda df: df.join(df.select("id", "s").withColumnRenamed("s", "t"), "id"),
    "unions": lambda df: df.select("id").union(df.select("x")).distinct(),
    "nothing": lambda df: df.where("id < 0"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(spark, uri, rows_too, name):
    drawn = np.random.default_rng(1)
    data = pa.table(
        {
            "id": np.arange(5000),
            "x": drawn.integers(0, 100, 5000),
            "s": pa.array([None if n % 13 == 0 else f"text {n % 97}" * (n % 3) for n in range(5000)]),
            "b": pa.array([bytes([n % 251]) * (n % 5) for n in range(5000)]),
            "st": pa.array([{"a": n, "l": [n] * (n % 4)} for n in range(5000)]),
        }
    )
    lancelet.write_dataset(data, uri, max_rows_per_file=2000)
    frame = QUESTIONS[name](spark.read.format("lance").option("batchSize", "100").load(uri))
    columns, rows = rows_too(lambda: frame.toArrow())
    if name == "few rows of many":
        assert columns.num_rows == rows.num_rows == 5
        return
    keys = [(field.name, "ascending") for field in columns.schema if not pa.types.is_nested(field.type)]
    assert_identical(columns.sort_by(keys).combine_chunks(), rows.sort_by(keys).combine_chunks())


def test_decimals_of_few_and_many_digits(spark, uri):
    digits = ("0", "1", "-1", "9" * 18, "-" + "9" * 18)
    few = [*(Decimal(text).scaleb(-2) for text in digits), None]
    many = [*(Decimal(f"{text}9").scaleb(-2) for text in digits), None]
    columns = {"few": pa.array(few, pa.decimal128(18, 2)), "many": pa.array(many, pa.decimal128(19, 2))}
    columns["l"] = pa.array([few, few[::-1], [], None, few[:1], [None]], pa.list_(pa.decimal128(18, 2)))
    columns["st"] = pa.array([{"d": value} for value in few], pa.struct({"d": pa.decimal128(18, 2)}))
    table = pa.table({"id": range(6), **columns})
    lancelet.write_dataset(table, uri)
    frame = spark.read.format("lance").load(uri).orderBy("id")
    assert [row.asDict(recursive=True) for row in frame.collect()] == table.to_pylist()
    total = frame.where("id > 0").selectExpr("sum(few)", "sum(many)", "count(few)").first()
    assert tuple(total) == (sum(few[1:5]), sum(many[1:5]), 4)


def python_workers() -> set[int]:
    """Processes of Spark's that run tasks."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "pyspark.worker" in process.cmdline():
                found.add(process.pid)
    return found


@pytest.mark.skipif(MODE != "local", reason="workers are looked for below this process")
def test_workers_outlive_a_limit(spark, table):
    """Spark kills a worker whose answer nobody reads to its end, and the next one takes long to start."""
    frame = spark.read.format("lance").load(table).select("id")
    frame.toArrow()
    before = python_workers()
    for _ in range(3):
        assert frame.limit(5).toArrow().num_rows == 5
        assert len(frame.where("id > 20").take(7)) == 7
        assert python_workers() <= before

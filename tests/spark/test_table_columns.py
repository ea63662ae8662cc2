"""LanceTable.addColumns: new files for new columns and nothing else, whoever else is at work and whatever breaks off."""

from __future__ import annotations

import sys
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F  # noqa: N812

import lancelet
from lancelet.errors import InvalidChange, InvalidInput, InvalidType, UnfitData, UnknownColumn
from lancelet.spark import LanceTable
from lancelet.testing import assert_identical
from spark.conftest import data_files

ROWS, FILES = 500, 10
# Workers cannot import the tests: functions travel as they are.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def write(uri: str, *, stable: bool = False) -> str:
    numbers = np.arange(ROWS)
    data = pa.table({"id": pa.array(numbers), "name": pa.array([f"n{n}" for n in numbers.tolist()])})
    lance.write_dataset(data, uri, max_rows_per_file=ROWS // FILES, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("id % 7 = 3 OR id = 499")
    return uri


@pytest.fixture
def table(uri: str) -> str:
    return write(uri)


def assert_same(ours: str, single: str) -> None:
    for library in (lance, lancelet):
        assert_identical(library.dataset(ours).to_table(), library.dataset(single).to_table())
    left, right = (lance.dataset(uri) for uri in (ours, single))
    assert [len(f.metadata.files) for f in left.get_fragments()] == [
        len(f.metadata.files) for f in right.get_fragments()
    ]
    assert lancelet.dataset(ours).verify(deep=True).ok


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(
        {"twice": pc.multiply(batch["id"], 2), "text": pc.binary_join_element_wise("<", batch["name"], "")}
    )


def test_expressions(spark, table, tmp_path):
    t = LanceTable.forPath(spark, table)
    before = data_files(table)
    t.addColumns({"twice": "id * 2", "text": F.concat(F.lit("<"), "name")})
    single = write(str(tmp_path / "single.lance"))
    lancelet.dataset(single).add_columns(doubled)
    assert_same(table, single)
    assert before < data_files(table)
    assert lance.dataset(table).version == 3
    assert len(data_files(table)) == 2 * FILES


def test_function(spark, table, tmp_path):
    LanceTable.forPath(spark, table).addColumns(doubled, readColumns=["id", "name"], batchSize=33)
    single = write(str(tmp_path / "single.lance"))
    lancelet.dataset(single).add_columns(doubled)
    assert_same(table, single)


def test_pandas_udf_and_vectors(spark, table):
    @F.pandas_udf("array<float>")
    def embed(ids: pd.Series) -> pd.Series:
        return ids.map(lambda number: [float(number), 0.5])

    t = LanceTable.forPath(spark, table)
    t.addColumns({"Emb": embed("id")}, types={"Emb": "fixed_size_list:float:2"})
    ds = lance.dataset(table)
    assert ds.schema.field("Emb").type == pa.list_(pa.float32(), 2)
    assert ds.to_table()["Emb"].to_pylist() == [[n, 0.5] for n in ds.to_table()["id"].to_pylist()]
    with pytest.raises(UnfitData, match="a vector has 2 values where the table has 3"):
        t.addColumns({"wrong": "Emb"}, types={"wrong": "fixed_size_list:float:3"})


@pytest.mark.parametrize("stable", [False, True])
def test_data_frame(spark, uri, stable):
    write(uri, stable=stable)
    t = LanceTable.forPath(spark, uri)
    other = spark.range(0, 400).select("id", (F.col("id") % 10).cast("int").alias("score"))
    t.addColumns(other, on="id")
    ids = lancelet.dataset(uri).to_table(columns=["id"], with_row_id=True).to_pylist()
    by_row = spark.createDataFrame([(row["_rowid"], f"r{row['id']}") for row in ids], "_rowid bigint, label string")
    t.addColumns(by_row, on=["_rowid"])
    for library in (lance, lancelet):
        for row in library.dataset(uri).to_table().to_pylist():
            assert row["score"] == (row["id"] % 10 if row["id"] < 400 else None)
            assert row["label"] == f"r{row['id']}"
    assert lance.dataset(uri).schema.field("score").type == pa.int32()
    files = data_files(uri)
    with pytest.raises(InvalidChange, match="exactly one row for each row of fragment .* keys unique"):
        t.addColumns(other.union(other).withColumnRenamed("score", "again"), on="id")
    assert data_files(uri) == files


def test_rows_that_come_meanwhile(spark, table):
    """The function itself appends to the table: the job has begun then, and has not been committed."""

    def appends(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 0 in batch["id"].to_pylist() and lancelet.dataset(table).version == 2 and batch.num_rows > 1:
            more = {"id": pa.array([1000, 1001]), "name": ["a", "b"]}
            lancelet.write_dataset(more, table, mode="append")
            lancelet.dataset(table).delete("id = 100")
        return doubled(batch)

    LanceTable.forPath(spark, table).addColumns(appends)
    ds = lance.dataset(table)
    assert ds.version == 5
    assert ds.to_table(filter="id >= 1000")["twice"].to_pylist() == [2000, 2002]
    assert pc.all(pc.equal(ds.to_table()["twice"], pc.multiply(ds.to_table()["id"], 2))).as_py()
    assert ds.count_rows("id = 100") == 0
    assert len(data_files(table)) == 2 * (FILES + 1)


@pytest.mark.parametrize("given", [True, False])
def test_a_run_that_was_broken_off(spark, table, tmp_path, given):
    healed, calls = tmp_path / "healed", tmp_path / "calls"
    calls.mkdir()
    folder = tmp_path / "notes"
    if given:
        folder.mkdir()
        (folder / "mine.txt").write_text("not a note")

    def breaks(batch: pa.RecordBatch) -> pa.RecordBatch:
        first = batch["id"][0].as_py()
        if batch.num_rows > 1:
            with (calls / str(first)).open("a") as log:
                log.write("x")
        if first >= 400 and not healed.exists():
            raise ValueError("out of luck")
        return doubled(batch)

    t = LanceTable.forPath(spark, table)
    place = str(folder) if given else True
    with pytest.raises(InvalidChange, match="out of luck"):
        t.addColumns(breaks, checkpoint=place)
    assert lance.dataset(table).version == 2
    assert len(data_files(table)) == FILES + 8
    healed.touch()
    t.addColumns(breaks, checkpoint=place)
    assert sorted(len(path.read_text()) for path in calls.iterdir()) == [1] * 8 + [2] * 2
    assert len(data_files(table)) == 2 * FILES
    assert pc.all(
        pc.equal(lance.dataset(table).to_table()["twice"], pc.multiply(lance.dataset(table).to_table()["id"], 2))
    )
    assert not Path(f"{table}.backfill").exists()
    assert not given or [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_notes_that_no_longer_fit(spark, table, tmp_path):
    folder = tmp_path / "notes"

    def breaks(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > 1 and batch["id"][0].as_py() >= 450:
            raise ValueError("out of luck")
        return doubled(batch)

    t = LanceTable.forPath(spark, table)
    with pytest.raises(InvalidChange):
        t.addColumns(breaks, checkpoint=str(folder))
    # Others change the values that the notes were made of, and take the field ids.
    lancelet.dataset(table).add_columns({"other": "id"})
    lancelet.dataset(table).optimize.compact_files(target_rows_per_fragment=100)
    t.addColumns(doubled, checkpoint=str(folder))
    assert pc.all(
        pc.equal(lance.dataset(table).to_table()["twice"], pc.multiply(lance.dataset(table).to_table()["id"], 2))
    )
    (folder / "0.json").write_text("[]")
    lancelet.write_dataset({"id": [1], "name": ["a"]}, table, mode="overwrite")
    number = lance.dataset(table).get_fragments()[0].fragment_id
    (folder / f"{number}.json").write_text("[]")
    with pytest.raises(InvalidInput, match="is no note of a backfill"):
        t.addColumns(doubled, checkpoint=str(folder))


def test_wrong_columns(spark, table):
    t = LanceTable.forPath(spark, table)
    other = spark.range(3).withColumn("n", F.lit(1))
    files = data_files(table)

    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows > 1 and batch["id"][0].as_py() > 300:
            raise ValueError("out of luck")
        return doubled(batch)

    for columns, options, kind, message in (
        ({"name": "'x'"}, {}, InvalidChange, "name already exists"),
        ({"n": "idd"}, {}, InvalidInput, "idd"),
        ({"n": 5}, {}, InvalidType, "the expression of 'n' is a text or a column"),
        ({}, {}, InvalidInput, "there are no columns to add"),
        ({"n": "make_ym_interval(1, 2)"}, {}, UnfitData, "Lance has no type"),
        ({"n": "id"}, {"types": {"m": "int32"}}, InvalidInput, "options name the columns m"),
        (other, {}, InvalidInput, "name its columns with on="),
        (other, {"on": "key"}, UnknownColumn, "'key' is not in the table"),
        (other, {"on": "name"}, UnknownColumn, "'name' is not in the data frame"),
        (other.select("id"), {"on": "id"}, InvalidInput, "no column but the key"),
        (5, {}, InvalidType, "a dict of expressions, a data frame or a function"),
        (fails, {}, InvalidChange, "out of luck"),
    ):
        with pytest.raises(kind, match=message):
            t.addColumns(columns, **options)
    assert (lance.dataset(table).version, data_files(table)) == (2, files)


def test_checkpoints_of_functions_are_for_one_process(spark, table, tmp_path):
    function = lancelet.batch_udf(checkpoint_file=str(tmp_path / "c.sqlite"))(doubled)
    with pytest.raises(InvalidInput, match="give addColumns a checkpoint"):
        LanceTable.forPath(spark, table).addColumns(function)

"""Writing tables with Spark: pylance reads what was written, and nothing is left of what failed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as st

import lancelet
from lancelet.file.checksums import check_file
from lancelet.spark.writer import commit_write, make_writer, plan_write, write_rows
from lancelet.store import open_store
from lancelet.testing import assert_identical
from spark.conftest import data_files, sorted_rows

OTHER_JOBS = 100
EVERY = (
    "id bigint, b boolean, i1 tinyint, i2 smallint, i4 int, f float, d double, dec decimal(20, 4), s string, "
    "bin binary, day date, tz timestamp, ntz timestamp_ntz, span interval day to second, a array<int>, "
    "aa array<array<string>>, m map<string, int>, st struct<x: int, y: struct<z: array<double>>>, "
    "sa array<struct<k: string, v: bigint>>"
)


def every_row(i: int) -> tuple:
    now = dt.datetime(2021, 5, 6, 7, 8, 9, 10 + i)
    return (
        i, i % 2 == 0, i, -i, i * 1000, i / 8, -i / 8, Decimal(i) / 16, f"Ω{i}", bytes([i, 0]), dt.date(2021, 1, 1 + i),
        now.replace(tzinfo=dt.timezone.utc), now, dt.timedelta(days=i, microseconds=3), [i, None], [["a"], None, []],
        {"k": i, "n": None}, (i, ([1.0, None],)), [(f"k{i}", i), None],
    )  # fmt: skip


def save(frame: object, uri: str, mode: str = "append", source: str = "lance", **options: object) -> None:
    frame.write.format(source).mode(mode).options(**options).save(uri)


@pytest.mark.parametrize("stored", ["2.2", "2.1"])
def test_every_spark_type(spark, uri, stored):
    schema = st.StructType.fromDDL(EVERY) if hasattr(st.StructType, "fromDDL") else EVERY
    rows = [every_row(i) for i in range(1, 20)] + [(99, *[None] * (len(every_row(1)) - 1))]
    frame = spark.createDataFrame(rows, schema)
    if stored == "2.1":
        frame = frame.drop("m")
    save(frame, uri, dataStorageVersion=stored)
    again = spark.read.format("lance").load(uri)
    assert again.schema == frame.schema
    assert sorted(map(repr, again.collect())) == sorted(map(repr, frame.collect()))
    pylance, ours = lance.dataset(uri).to_table(), lancelet.dataset(uri).to_table()
    assert_identical(sorted_rows(ours), sorted_rows(pylance))
    held = {row["id"]: row for row in pylance.to_pylist()}
    assert (held[3]["s"], held[3]["st"]["y"]["z"], held[99]["a"]) == ("Ω3", [1.0, None], None)


def test_append_overwrite_and_their_like(spark, uri, source):
    frame = spark.range(5).withColumnRenamed("id", "n")
    save(frame, uri, source=source)
    save(frame, uri, source=source, commitMessage="more")
    ds = lance.dataset(uri)
    assert (ds.version, ds.count_rows()) == (2, 10)
    assert ds.read_transaction(2).transaction_properties == {"__lance_commit_message": "more"}
    save(frame, uri, source=source, saveMode="ignore")
    with pytest.raises(Exception, match="Dataset already exists"):
        save(frame, uri, source=source, saveMode="errorifexists")
    with pytest.raises(Exception, match="Append|append"):
        frame.write.format(source).save(uri)
    assert lance.dataset(uri).version == 2
    save(frame, uri, "overwrite", source=source, enableStableRowIds="true")
    assert (lance.dataset(uri).version, lance.dataset(uri).count_rows()) == (3, 5)
    save(spark.createDataFrame([("x",)], "t string"), uri, "overwrite", source=source)
    assert lance.dataset(uri).to_table().to_pylist() == [{"t": "x"}]
    with pytest.raises(Exception, match="saveMode is one of"):
        save(frame, uri, source=source, saveMode="upsert")


def test_how_files_are_made(spark, uri):
    frame = spark.range(0, 100, 1, 2)
    save(frame, uri, maxRowsPerFile=15, enableStableRowIds="true", dataStorageVersion="2.1")
    ds = lance.dataset(uri)
    assert sorted(f.count_rows() for f in ds.get_fragments()) == [5, 5, 15, 15, 15, 15, 15, 15]
    assert ds.data_storage_version == "2.1"
    assert ds.has_stable_row_ids
    small = f"{uri}2"
    save(frame.repartition(1), small, maxBytesPerFile=1)
    assert len(lance.dataset(small).get_fragments()) >= 1


def test_checksums(spark, uri):
    frame = spark.range(100)
    save(frame, uri, checksums="true")
    save(frame, uri)
    store = open_store(uri)
    files = [entry.path for entry in store.list_objects("data")]
    assert len(files) > 1
    assert all(check_file(store.open(path)) for path in files)


def test_vectors(spark, uri):
    frame = spark.createDataFrame([(1, [1.0, 2.0]), (2, None)], "id bigint, Emb array<float>")
    save(frame, uri, **{"vector.Emb": 2})
    assert lance.dataset(uri).schema.field("Emb").type == pa.list_(pa.float32(), 2)
    save(frame, uri)
    assert lance.dataset(uri).count_rows("Emb is null") == 2
    with pytest.raises(Exception, match="a vector has 3 values where the table has 2"):
        save(spark.createDataFrame([(3, [1.0, 2.0, 3.0])], "id bigint, Emb array<float>"), uri)
    copy = f"{uri}2"
    save(spark.read.format("lance").load(uri), copy)
    assert lance.dataset(copy).schema.field("Emb").type == pa.list_(pa.float32(), 2)


def test_columns_of_other_types_are_kept_on_append(spark, uri):
    kinds = {
        "u": pa.uint8(), "u64": pa.uint64(), "h": pa.float16(), "ls": pa.large_string(), "fb": pa.binary(2),
        "ns": pa.timestamp("ns", "Europe/Paris"), "t": pa.time32("ms"), "dict": pa.dictionary(pa.int8(), pa.string()),
        "d256": pa.decimal256(50, 2), "ll": pa.large_list(pa.uint16()), "date": pa.date64(),
    }  # fmt: skip
    values = {
        "u": 255, "u64": 2**64 - 1, "h": 1.5, "ls": "x", "fb": b"ab", "ns": 10**18, "t": 5000, "dict": "k",
        "d256": Decimal("1.25"), "ll": [1, None], "date": dt.date(2020, 1, 2),
    }  # fmt: skip
    one = pa.table({name: pa.array([values[name], None], kind) for name, kind in kinds.items()})
    lance.write_dataset(one, uri)
    save(spark.read.format("lance").load(uri), uri)
    ds = lance.dataset(uri)
    assert ds.schema.types == list(kinds.values())
    assert_identical(ds.to_table(limit=2, offset=2).combine_chunks(), ds.to_table(limit=2).combine_chunks())
    with pytest.raises(Exception, match="column 'u' has a value that does not fit into uint8"):
        save(spark.createDataFrame([(256,)], "u smallint"), uri)
    assert lance.dataset(uri).version == 2


def test_blobs_and_json(spark, uri):
    frame = spark.createDataFrame([(1, b"x" * 100, '{"a": [1]}'), (2, None, None)], "id bigint, b binary, j string")
    save(frame.coalesce(1), uri, **{"type.b": "blob", "type.j": "json"})
    save(frame.coalesce(1), uri)
    ds = lance.dataset(uri)
    assert [f.read() for f in ds.take_blobs("b", indices=[0, 2])] == [b"x" * 100] * 2
    assert "json" in str(ds.schema.field("j").type)
    with pytest.raises(Exception, match="holds descriptors of blobs"):
        save(spark.read.format("lance").load(uri), f"{uri}2")
    save(spark.read.format("lance").option("blobHandling", "all_binary").load(uri), f"{uri}3", **{"type.b": "blob"})
    assert lance.dataset(f"{uri}3").count_rows() == 4


def test_wrong_columns_are_refused_before_any_task_runs(spark, uri, tmp_path):
    save(spark.createDataFrame([(1, "x")], "a int, b string"), uri)
    before = data_files(uri)
    ran_here = tmp_path / "ran"

    def counted(batches):
        ran_here.touch()
        yield from batches

    wrong = spark.createDataFrame([("1", 2.0, 3)], "a string, b double, c int")
    ran = wrong.mapInArrow(counted, wrong.schema)
    with pytest.raises(Exception, match="the columns of the data do not fit") as caught:
        save(ran, uri)
    for flaw in ("`c` is not in the table", "`a` is int32 in the table, string in the data"):
        assert flaw in str(caught.value)
    assert not ran_here.exists()
    assert data_files(uri) == before


def test_new_columns(spark, uri):
    save(spark.createDataFrame([(1, ("x",))], "a int, s struct<p: string>"), uri)
    wider = spark.createDataFrame([(2, ("y", 7), [1.0, 2.0])], "a int, s struct<p: string, q: int>, v array<float>")
    with pytest.raises(Exception, match="`v` is not in the table"):
        save(wider, uri)
    save(wider, uri, mergeSchema="true", **{"vector.v": 2})
    ds = lance.dataset(uri)
    assert ds.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert ds.to_table().to_pylist() == [
        {"a": 1, "s": {"p": "x", "q": None}, "v": None},
        {"a": 2, "s": {"p": "y", "q": 7}, "v": [1.0, 2.0]},
    ]
    save(spark.createDataFrame([(3,)], "a int"), uri, mergeSchema="true")
    assert lance.dataset(uri).count_rows() == 3
    assert len(lance.dataset(uri).versions()) == 4


def test_a_column_that_somebody_adds_meanwhile(uri):
    lancelet.write_dataset({"a": [1]}, uri)
    schema = st.StructType().add("a", st.LongType()).add("b", st.StringType())
    job = plan_write(schema, {"path": uri, "mergeschema": "true"}, "append")
    written = write_rows(job, [pa.record_batch({"a": [2], "b": ["x"]})])
    lance.dataset(uri).add_columns({"b": "a + 1"})
    with pytest.raises(OSError, match="the columns of the table changed since version 1"):
        commit_write(job, written)
    assert lance.dataset(uri).count_rows() == 1
    assert not data_files(uri) & {file.path for fragment in written for file in fragment.files}


def test_a_failed_task_leaves_nothing(spark, uri, source):
    save(spark.range(3).withColumnRenamed("id", "n"), uri)
    before = data_files(uri)

    def breaks(batches):
        for batch in batches:
            yield batch
            if batch.column(0)[0].as_py() >= 50:
                raise RuntimeError("no more")

    frame = spark.range(0, 100, 1, 4).withColumnRenamed("id", "n").mapInArrow(breaks, "n bigint")
    with pytest.raises(Exception, match="no more"):
        save(frame, uri, source=source)
    # Other tasks of the job that were under way end, and remove their files, a little after it.
    others = 0
    while data_files(uri) != before and others < OTHER_JOBS:
        others += spark.range(1).mapInArrow(lambda batches: batches, "id bigint").count()
    assert data_files(uri) == before
    assert lance.dataset(uri).version == 1


def writer(uri: str, **options: str) -> object:
    return make_writer(st.StructType().add("n", st.LongType()), {"path": uri, **options}, overwrite=False)


def batches(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"n": pa.array(numbers, pa.int64())})]


def test_twins_of_a_task_count_once(uri):
    """Speculation and retries: Spark commits the messages of one attempt for each task."""
    lancelet.write_dataset(pa.table({"n": pa.array([0], pa.int64())}), uri)
    mine = writer(uri)
    first, twin, second = mine.write(iter(batches(1, 2))), mine.write(iter(batches(1, 2))), mine.write(iter(batches(3)))
    mine.commit([twin, second])
    ds = lance.dataset(uri)
    assert sorted(ds.to_table()["n"].to_pylist()) == [0, 1, 2, 3]
    referred = {file.path for fragment in ds.get_fragments() for file in fragment.data_files()}
    assert data_files(uri) == {
        Path(path).name for path in map(str, (f.path if hasattr(f, "path") else f for f in referred))
    }
    assert {f.path for fragment in first.fragments for f in fragment.files}.isdisjoint(data_files(uri))


def test_nulls_where_none_are_allowed(uri):
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    lancelet.write_dataset(pa.table({"s": pa.array([{"x": 1}], inner)}), uri)
    before = data_files(uri)
    schema = st.StructType().add("s", st.StructType().add("x", st.LongType()))
    job = plan_write(schema, {"path": uri}, "append")
    with pytest.raises(ValueError, match="non-nullable but contains null"):
        write_rows(job, [pa.record_batch({"s": pa.array([{"x": None}])})])
    assert data_files(uri) == before


def test_aborts_remove_only_their_own_files(uri):
    lancelet.write_dataset(pa.table({"n": pa.array([0], pa.int64())}), uri)
    before = data_files(uri)
    one, other = writer(uri), writer(uri)
    kept = other.write(iter(batches(5)))
    one.abort([one.write(iter(batches(1))), None])
    assert data_files(uri) == before | {f.path for fragment in kept.fragments for f in fragment.files}
    message = other.write(iter(batches(6)))
    other.abort([kept, message])
    assert len(data_files(uri)) == 3, "all tasks succeeded: the commit failed, and may yet have taken place"


def test_two_writers_create_the_table(uri):
    one, other = writer(uri), writer(uri)
    messages = one.write(iter(batches(1))), other.write(iter(batches(2)))
    one.commit([messages[0]])
    other.commit([messages[1]])
    assert sorted(lance.dataset(uri).to_table()["n"].to_pylist()) == [1, 2]


def test_nothing_to_write(spark, uri):
    save(spark.range(5).filter("id > 10"), uri)
    assert lance.dataset(uri).count_rows() == 0
    assert lance.dataset(uri).schema.names == ["id"]


def test_large_writes_keep_within_memory(spark, uri):
    """A worker holds pages, never a file's worth of rows."""
    import resource

    def measured(rows):
        rng = np.random.default_rng(0)
        for _ in range(40):
            yield pa.record_batch({"v": pa.array(list(rng.random((2000, 256), np.float32)))})

    frame = spark.range(1).repartition(1).mapInArrow(measured, "v array<float>")
    save(frame, uri, **{"vector.v": 256})
    assert lance.dataset(uri).count_rows() == 80_000
    peak = spark.range(1).mapInArrow(
        lambda _: iter([pa.record_batch({"kb": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]})]), "kb bigint"
    )
    assert peak.collect()[0].kb < 600 * 1024

"""Reading tables with Spark, with the bridge and without it."""

from __future__ import annotations

import datetime as dt
import json

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from conformance.grid import FAMILIES
from lancelet.spark import doctor
from lancelet.spark.arrays import conformed_batches
from lancelet.spark.types import arrow_schema
from lancelet.testing import difference, random_array
from spark.conftest import sorted_rows
from spark.sessions import MODE


def expected(table: pa.Table, frame: object) -> pa.Table:
    """What a data frame has to hold, made from the table without Spark."""
    schema = arrow_schema(frame.schema)
    return pa.Table.from_batches(list(conformed_batches(table.combine_chunks().to_batches(), schema)))


def assert_same(actual: pa.Table, wanted: pa.Table) -> None:
    assert actual.column_names == wanted.column_names
    actual, wanted = sorted_rows(actual), sorted_rows(wanted)
    for name in wanted.column_names:
        left, right = (t[name].combine_chunks() for t in (actual, wanted))
        left, right = (c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in (left, right))
        found = difference(conformed(left, right.type), right, name)
        assert found is None, found


def conformed(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    from lancelet.spark.arrays import conform

    return conform(array, dtype)


@pytest.fixture(scope="module")
def versions(tmp_path_factory) -> str:
    """A table with a history: three versions, a tag, a branch, deleted rows."""
    uri = str(tmp_path_factory.mktemp("read") / "t.lance")
    rows = pa.table({"id": range(100), "s": [f"s{i}" for i in range(100)], "x": np.arange(100) / 4})
    lance.write_dataset(rows, uri, max_rows_per_file=40)
    ds = lance.dataset(uri)
    ds.delete("id % 10 = 3")
    ds.tags.create("thinned", 2)
    lance.write_dataset(pa.table({"id": [100], "s": ["new"], "x": [0.0]}), uri, mode="append")
    branch = lance.dataset(uri).create_branch("side")
    lance.write_dataset(pa.table({"id": [101], "s": ["side"], "x": [0.0]}), branch.uri, mode="append")
    return uri


def read(spark: object, source: str, uri: str, **options: object) -> object:
    return spark.read.format(source).options(**options).load(uri)


def ids(frame: object) -> list[int]:
    return sorted(frame.toArrow()["id"].to_pylist())


def test_versions_tags_and_branches(spark, source, versions):
    newest = lancelet.dataset(versions)
    assert ids(read(spark, source, versions)) == sorted(newest.to_table()["id"].to_pylist())
    assert ids(read(spark, source, versions, version=1)) == list(range(100))
    thinned = [i for i in range(100) if i % 10 != 3]
    assert ids(read(spark, source, versions, tag="thinned")) == thinned
    assert 101 in ids(read(spark, source, versions, branch="side"))
    moment = newest.versions()[1]["timestamp"] + dt.timedelta(microseconds=1)
    assert ids(read(spark, source, versions, asOf=moment.isoformat())) in (thinned, list(range(100)))


def test_columns_filters_limits_and_row_ids(spark, source, versions):
    ds = lancelet.dataset(versions)
    frame = read(
        spark, source, versions, columns="s, id", filter="x < 3 and s like 's1%'", rowId="true", rowAddress="true"
    )
    wanted = ds.to_table(columns=["s", "id"], filter="x < 3 and s like 's1%'", with_row_id=True, with_row_address=True)
    assert frame.columns == ["s", "id", "_rowid", "_rowaddr"]
    assert_same(frame.toArrow(), expected(wanted, frame))
    assert ids(read(spark, source, versions, limit=45)) == ds.to_table(limit=45)["id"].to_pylist()
    assert len(ids(read(spark, source, versions, limit=7, filter="id > 50"))) == 7
    few = read(spark, source, versions, limit=5).filter("id >= 4")
    assert ids(few) == [4, 5], "the option limits what is read, before Spark filters"
    assert ids(read(spark, source, versions, splitBytes=1, batchSize=3)) == sorted(ds.to_table()["id"].to_pylist())
    assert few.count() == 2


def test_a_schema_given_by_the_user_projects(spark, source, versions):
    frame = spark.read.format(source).schema("x double, id bigint").load(versions)
    assert frame.toArrow().column_names == ["x", "id"]
    assert frame.select("id").filter("id > 95").count() == 5


def test_a_read_stays_with_its_version(spark, source, uri):
    lancelet.write_dataset({"id": [1, 2]}, uri)
    # Over Spark Connect a data frame is a text that is understood anew each time: there the version is named.
    frame = read(spark, source, uri, **({"version": "1"} if MODE.startswith("connect") else {}))
    lancelet.write_dataset({"id": [3]}, uri, mode="append")
    assert ids(frame) == [1, 2]
    lancelet.write_dataset({"other": ["x"]}, uri, mode="overwrite")
    assert frame.count() == 2


def test_empty_tables(spark, source, uri):
    lancelet.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    frame = read(spark, source, uri)
    assert (frame.count(), frame.toArrow().num_rows) == (0, 0)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("blobs", "extensions")])
def test_every_type(spark, family, uri):
    """pylance writes, Spark reads; the bridge only changes what is asked for, so one of the two will do."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(50))}
    for number, kind in enumerate(FAMILIES[family]):
        if "some" not in kind.nulls or kind.type in (pa.string_view(), pa.binary_view()):
            continue
        values = random_array(kind.type, 50, number, nulls="some")
        if getattr(kind.type, "unit", "") in ("s", "ms") and not pa.types.is_time(kind.type):
            numbers = values.view(pa.int64()).to_pandas() % 10**10
            values = pa.array(numbers, pa.int64(), from_pandas=True).view(kind.type)
        if "timestamp" in str(kind.type) and pa.types.is_nested(kind.type):
            continue
        columns[kind.name] = values
    lance.write_dataset(pa.table(columns), uri, data_storage_version="2.2")
    frame = read(spark, "lance", uri, batchSize=7)
    table = pa.concat_tables([f.to_table() for f in lancelet.dataset(uri).get_fragments()])
    assert_same(frame.toArrow(), expected(table, frame))


def test_json_blobs_and_extensions(spark, source, uri):
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob, pa.field("j", pa.json_()), pa.field("u", pa.uuid())])
    rows = pa.table(
        [
            pa.array([1, 2]),
            pa.array([b"x" * 9, None], pa.large_binary()),
            pa.array(['{"a": 1}', None]).cast(pa.string()),
            pa.array([b"0" * 16, None], pa.binary(16)),
        ],
        schema=pa.schema(
            [schema.field(0), blob, pa.field("j", pa.string(), metadata=_json()), pa.field("u", pa.binary(16))]
        ),
    )
    lancelet.write_dataset(rows, uri)
    got = read(spark, source, uri).orderBy("id").collect()
    assert got[0].b.size == 9
    assert json.loads(got[0].j) == {"a": 1}
    assert (bytes(got[0].u), got[1].u) == (b"0" * 16, None)
    whole = read(spark, source, uri, blobHandling="all_binary").orderBy("id").collect()
    assert [row.b and bytes(row.b) for row in whole] == [b"x" * 9, None]


def _json() -> dict[str, str]:
    return {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""}


def test_object_stores(spark, source, bucket):
    uri = f"{bucket.uri}/t.lance"
    lancelet.write_dataset({"id": [1, 2, 3]}, uri, storage_options=bucket.options)
    options = {f"storage.{key}": value for key, value in bucket.options.items()}
    assert ids(spark.read.format(source).options(**options).load(uri)) == [1, 2, 3]
    frame = spark.range(3, 6)
    frame.write.format(source).mode("append").options(**options).save(uri)
    assert lancelet.dataset(uri, storage_options=bucket.options).count_rows() == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"version": 77}, "version 77 of .* was not found"),
        ({"tag": "none"}, "none"),
        ({"columns": "idd"}, "did you mean 'id'"),
        ({"filter": "idd > 3"}, "did you mean 'id'"),
        ({"filter": "id >"}, "cannot parse"),
        ({"splitBytes": "many"}, "number of bytes"),
        ({"nope": "1"}, "there is no option 'nope'"),
    ],
)
def test_mistakes_get_a_sentence(spark, source, versions, options, words):
    with pytest.raises(Exception, match=words):
        read(spark, source, versions, **options).collect()


def test_a_missing_table(spark, source, tmp_path):
    with pytest.raises(Exception, match="was not found: it has no _versions"):
        _ = read(spark, source, str(tmp_path / "none")).schema


def test_views_in_sql(spark, source, versions):
    spark.sql(f"create or replace temporary view seen using {source} options (path '{versions}', version '1')")
    assert spark.sql("select count(*), max(s) from seen where id < 50").collect()[0] == (50, "s9")


def test_the_doctor_finds_nothing_wrong(spark):
    found = doctor(spark)
    assert found.problems == ()
    assert "bridge: loaded" in str(found)


def test_the_doctor_names_a_wrong_python():
    from lancelet.spark.checkup import _blind, _differences, _missing

    assert "which does not run" in next(_blind("/none/python3"))
    assert "which has no lancelet" in next(_blind("/bin/false"))

    driver = {"python": "3.11.7", "executable": "/a/python", "lancelet": "yes", "pyspark_lance": "yes"}
    worker = {"python": "3.9.1", "executable": "/b/python", "lancelet": "", "pyspark_lance": ""}
    assert "set spark.pyspark.python to /a/python" in next(_differences(driver, worker))
    assert "/b/python, has no lancelet" in next(_missing(worker))

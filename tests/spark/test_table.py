"""LanceTable: what a Spark job does to a table is what one process does, and pylance agrees."""

from __future__ import annotations

import pickle
import shutil
import threading
from datetime import timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import lancelet
from lancelet.errors import (
    InvalidInput,
    InvalidType,
    MergeRefused,
    NotSupported,
    TableExists,
    TableNotFound,
    UnfitData,
    UnknownColumn,
    VersionNotFound,
)
from lancelet.spark import LanceTable
from lancelet.testing import assert_identical
from spark.conftest import data_files, sorted_rows

ROWS, FILES = 2000, 50


def example(rows: int = ROWS, start: int = 0) -> pa.Table:
    """Columns that Spark cannot carry without loss are among them."""
    numbers = np.arange(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if n % 11 == 0 else f"n{n}" for n in numbers.tolist()]),
            "x": pa.array(numbers / 4, pa.float32()),
            "small": pa.array(numbers % 100, pa.uint8()),
            "exact": pa.array(numbers * 1001, pa.timestamp("ns")),
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2 * rows), pa.float32()), 2),
        }
    )


def made(uri: str, *, stable: bool = False, deleted: bool = True) -> str:
    lance.write_dataset(example(), uri, max_rows_per_file=ROWS // FILES, enable_stable_row_ids=stable)
    if deleted:
        lance.dataset(uri).delete("id % 7 = 3")
    return uri


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, str]:
    folder = tmp_path_factory.mktemp("originals")
    return {stable: made(str(folder / f"{stable}.lance"), stable=stable) for stable in (False, True)}


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def pair(request: pytest.FixtureRequest, originals: dict[bool, str], tmp_path: Path) -> tuple[str, str]:
    """A table for Spark, and the same for one process."""
    places = str(tmp_path / "spark.lance"), str(tmp_path / "single.lance")
    for place in places:
        shutil.copytree(originals[request.param], place)
    return places


@pytest.fixture
def table(originals: dict[bool, str], uri: str) -> str:
    shutil.copytree(originals[False], uri)
    return uri


def assert_same(ours: str, single: str, key: str = "id") -> None:
    """The same rows, with the same ids where those are stable, for both libraries."""
    for library in (lance, lancelet):
        left, right = library.dataset(ours), library.dataset(single)
        stable = left.has_stable_row_ids
        found, wanted = (sorted_rows(ds.to_table(with_row_id=stable), key) for ds in (left, right))
        if stable:
            assert _row_ids(found) == _row_ids(wanted)
            found, wanted = found.drop_columns("_rowid"), wanted.drop_columns("_rowid")
        assert_identical(found, wanted)
    assert lancelet.dataset(ours).verify(deep=True).ok


def _row_ids(table: pa.Table) -> tuple[list[int | None], list[int]]:
    """The ids of rows that were there before; those of new rows go by the order in which they were written."""
    ids = table["_rowid"].to_pylist()
    return [number if number < ROWS else None for number in ids], sorted(number for number in ids if number >= ROWS)


def frame(spark, data: pa.Table):
    if "small" in data.schema.names:
        data = data.set_column(data.schema.get_field_index("small"), "small", data["small"].cast(pa.int16()))
    return spark.createDataFrame(data)


# Reading and versions


def test_open_and_read(spark, table):
    t = LanceTable.forPath(spark, table)
    assert LanceTable.isLanceTable(spark, table)
    assert not LanceTable.isLanceTable(spark, f"{table}-not")
    assert t.toDF().count() == lance.dataset(table).count_rows()
    assert t.alias("a").toDF().filter("a.id < 5").select("a.id").count() == 4
    assert repr(t) == f"LanceTable({table!r})"
    with pytest.raises(TableNotFound, match="was not found"):
        LanceTable.forPath(spark, f"{table}-not")
    with pytest.raises(InvalidType, match="the path of a table is a text"):
        LanceTable.forPath(spark, 5)


def test_versions(spark, table):
    t = LanceTable.forPath(spark, table)
    before = lance.dataset(table).to_table()
    moment = lance.dataset(table).versions()[-1]["timestamp"]
    lancelet.dataset(table).delete("id > 10")
    assert t.version() == 3
    rows = t.history().collect()
    assert [(row.version, row.operation, row.numRows) for row in rows] == [
        (3, "Delete", 9), (2, "Delete", before.num_rows), (1, "Overwrite", ROWS),
    ]  # fmt: skip
    assert [row.version for row in t.history(1).collect()] == [3]
    (detail,) = t.detail().collect()
    assert (detail.format, detail.version, detail.numRows, detail.numFragments) == ("lance", 3, 9, 1)
    assert (detail.numDeletedRows, detail.stableRowIds, detail.numFiles) == (31, False, 1)
    t.restoreToVersion(2)
    assert_identical(lance.dataset(table).to_table(), before)
    t.restoreToVersion(3)
    t.restoreToTimestamp(moment.astimezone() + timedelta(microseconds=1))
    assert (t.version(), t.toDF().count()) == (6, before.num_rows)
    with pytest.raises(VersionNotFound):
        t.restoreToVersion(99)
    with pytest.raises(InvalidInput, match="limit is a number"):
        t.history(0)


def test_tags_branches_and_clones(spark, table, tmp_path):
    t = LanceTable.forPath(spark, table)
    t.createTag("first", 1)
    assert t.tags()["first"]["version"] == 1
    t.updateTag("first")
    assert t.tags()["first"]["version"] == 2
    branch = t.createBranch("try", 1)
    assert branch.delete("id < 1000") == {"num_deleted_rows": 1000}
    assert (branch.toDF().count(), list(t.branches())) == (1000, ["try"])
    assert LanceTable.forPath(spark, table, branch="try").version() == branch.version()
    assert lance.dataset(table).checkout_version(("try", None)).count_rows() == 1000
    copy = t.clone(str(tmp_path / "deep.lance"), isShallow=False, version="first")
    light = t.clone(str(tmp_path / "light.lance"))
    for shallow in (True, False):
        with pytest.raises(TableExists):
            t.clone(str(tmp_path / "light.lance"), isShallow=shallow)
    assert light.update("id = 1", {"name": "'changed'"}) == {"num_rows_updated": 1}
    for clone in (copy, light):
        assert clone.toDF().count() == t.toDF().count()
    assert lance.dataset(str(tmp_path / "light.lance")).count_rows("name = 'changed'") == 1
    assert lance.dataset(table).count_rows("name = 'changed'") == 0
    t.deleteTag("first")
    t.deleteBranch("try")
    assert (t.tags(), t.branches()) == ({}, {})


def test_vacuum(spark, table):
    t = LanceTable.forPath(spark, table)
    lancelet.dataset(table).optimize.compact_files()
    shown = t.vacuum(0, dryRun=True)
    assert shown.stats.old_versions == 3
    assert t.version() == 4
    assert t.vacuum().old_versions == 0
    t.createTag("kept", 1)
    assert t.vacuum(retentionHours=0).old_versions == 2
    assert len(data_files(table)) == FILES + 1
    with pytest.raises(InvalidInput, match="retentionHours"):
        t.vacuum(-1)


# Rows


def test_delete(spark, pair):
    ours, single = pair
    t = LanceTable.forPath(spark, ours)
    condition = "id % 3 = 1 OR name IS NULL"
    done = t.delete(condition)
    assert done == lancelet.dataset(single).delete(condition)
    assert_same(ours, single)
    assert lance.dataset(ours).read_transaction(3).operation.predicate == condition
    assert t.alias("t").delete((F.col("t.id") < 80) & F.col("_rowaddr").isNotNull()) == lancelet.dataset(single).delete(
        "id < 80"
    )
    assert_same(ours, single)
    assert t.delete("id < 0") == {"num_deleted_rows": 0}
    left = lance.dataset(ours).count_rows()
    assert t.delete() == {"num_deleted_rows": left}
    assert lance.dataset(ours).count_rows() == 0
    assert data_files(ours) == data_files(single)


def test_update(spark, pair):
    ours, single = pair
    t = LanceTable.forPath(spark, ours)
    done = t.update("id % 5 = 0", {"x": "x * 2", "name": F.concat(F.lit("m"), F.col("id").cast("string"))})
    assert done == lancelet.dataset(single).update(
        {"x": "x * 2", "name": "concat('m', cast(id as string))"}, "id % 5 = 0"
    )
    assert_same(ours, single)
    assert t.updateExpr(None, {"small": "7"})["num_rows_updated"] == lance.dataset(ours).count_rows()
    lancelet.dataset(single).update({"small": "7"})
    assert_same(ours, single)
    held = {file.path for fragment in lance.dataset(ours).get_fragments() for file in fragment.metadata.files}
    assert held <= data_files(ours)


@pytest.mark.parametrize(
    "condition, values, kind, message",
    [
        (None, {"nme": "'x'"}, UnknownColumn, "did you mean 'name'"),
        ("nme = 1", {"name": "'x'"}, InvalidInput, "nme"),
        ("id = = 1", {"name": "'x'"}, InvalidInput, "(?i)syntax error at or near '='"),
        ("id", {"name": "'x'"}, InvalidInput, "(?i)boolean"),
        ("", {"name": "'x'"}, InvalidInput, "is empty"),
        (5, {"name": "'x'"}, InvalidType, "a text or a column"),
        (None, {"x": "'text'"}, UnfitData, "column 'x' is float, but its new value is string; cast"),
        (None, {"x": 5}, InvalidType, "the new value of 'x' is a text or a column"),
        (None, {}, InvalidInput, "there are no new values"),
        (None, None, InvalidInput, "needs set="),
        (None, {"small": "id"}, UnfitData, "does not fit into uint8"),
        (None, {"small": "id * 100"}, Exception, "cannot hold the value"),
        (None, {"vec": "array(cast(id as float))"}, UnfitData, "a vector has 1 values where the table has 2"),
    ],
)
def test_wrong_updates(spark, table, condition, values, kind, message):
    files = data_files(table)
    with pytest.raises(kind, match=message):
        LanceTable.forPath(spark, table).update(condition, values)
    assert lance.dataset(table).version == 2
    assert data_files(table) == files


def test_values_into_columns_without_nulls(spark, uri):
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("s", pa.struct([("a", pa.int32())]))])
    lance.write_dataset(pa.table({"id": [1, 2], "s": [{"a": 1}, None]}, schema=schema), uri)
    t = LanceTable.forPath(spark, uri)
    with pytest.raises(Exception, match="(?i)null"):
        t.update(set={"id": "nullif(id, 1)"})
    with pytest.raises(InvalidInput, match="'s.a' is a field of a struct"):
        t.update(set={"s.a": "1"})
    with pytest.raises(UnfitData, match="without a value for 'id'"):
        t.merge(spark.range(1), "target.id = source.id").whenNotMatchedInsert(values={"s": "null"}).execute()
    t.update("id = 2", {"s": "named_struct('a', 5)"})
    assert sorted(lance.dataset(uri).to_table()["s"].to_pylist(), key=str) == [{"a": 1}, {"a": 5}]
    assert len(data_files(uri)) == 2


def test_an_error_in_the_middle_of_much_input(spark, uri):
    lance.write_dataset(pa.table({"id": np.arange(300_000), "u": pa.array(np.zeros(300_000), pa.uint8())}), uri)
    t = LanceTable.forPath(spark, uri)
    for _ in range(2):
        with pytest.raises(UnfitData, match="does not fit into uint8"):
            t.update(set={"u": "id % 300"})
    assert t.update("id < 100", {"u": "id"}) == {"num_rows_updated": 100}
    assert len(data_files(uri)) == 2


# Merge


def late(start: int = 1900, stop: int = 2100) -> pa.Table:
    return example(stop - start, start).set_column(1, "name", pa.array(["late"] * (stop - start)))


def test_upsert(spark, pair):
    ours, single = pair
    source = late().drop_columns(["exact", "vec"])
    t = LanceTable.forPath(spark, ours)
    done = (
        t.alias("t")
        .merge(frame(spark, source).alias("s"), "t.id = s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
    again = lancelet.dataset(single).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert done == again.execute(source)
    assert_same(ours, single)
    assert lance.dataset(ours).version == 3


def test_all_clauses(spark, pair):
    ours, single = pair
    source = pa.table({"key": pa.array(range(1000, 3000, 2)), "v": pa.array([f"v{n}" for n in range(1000)])})
    t = LanceTable.forPath(spark, ours).alias("t")
    done = (
        t.merge(frame(spark, source).alias("s"), F.col("t.id") == F.col("s.key"))
        .whenMatchedDelete("t.id % 10 = 0")
        .whenMatchedUpdate("t.id % 10 = 2", {"name": "s.v", "x": "t.x + 1"})
        .whenMatchedUpdate(set={"small": F.lit(1)})
        .whenNotMatchedInsert("s.key < 2500", {"id": "s.key", "name": "s.v"})
        .whenNotMatchedInsert(values={"id": "key", "small": "2", "vec": "array(1f, 2f)"})
        .whenNotMatchedBySourceUpdate("id < 100", {"name": "concat('old', id)"})
        .whenNotMatchedBySourceDelete("id < 200")
        .execute()
    )
    before = sorted_rows(lance.dataset(single).to_table()).to_pylist()
    values = dict(zip(source["key"].to_pylist(), source["v"].to_pylist(), strict=True))
    wanted, counts = [], {"num_inserted_rows": 0, "num_updated_rows": 0, "num_deleted_rows": 0}
    for row in before:
        n = row["id"]
        if (n in values and n % 10 == 0) or (n not in values and 100 <= n < 200):
            counts["num_deleted_rows"] += 1
            continue
        if n in values and n % 10 == 2:
            row |= {"name": values[n], "x": row["x"] + 1}
        elif n in values:
            row |= {"small": 1}
        elif n < 100:
            row |= {"name": f"old{n}"}
        counts["num_updated_rows"] += n in values or n < 100
        wanted.append(row)
    known = {row["id"] for row in before}
    for n, text in values.items():
        if n not in known:
            empty = dict.fromkeys(before[0])
            more = {"name": text} if n < 2500 else {"small": 2, "vec": [1.0, 2.0]}
            wanted.append(empty | {"id": n} | more)
            counts["num_inserted_rows"] += 1
    wanted.sort(key=lambda row: row["id"])
    for library in (lance, lancelet):
        assert sorted_rows(library.dataset(ours).to_table()).to_pylist() == wanted
    assert done == counts
    if lance.dataset(ours).has_stable_row_ids:
        ids = lance.dataset(ours).to_table(columns=["id"], with_row_id=True, filter=f"id < {ROWS}").to_pylist()
        old = {row["id"]: row["_rowid"] for row in lance.dataset(single).to_table(["id"], with_row_id=True).to_pylist()}
        assert all(old[row["id"]] == row["_rowid"] for row in ids if row["id"] in old)
    assert lancelet.dataset(ours).verify(deep=True).ok


def test_ids_in_a_column(spark, uri):
    """With spilled lineage, rows that moved and rows that are new are in fragments of their own."""
    made(uri, stable=True)
    lancelet.dataset(uri).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "16"})
    old = {row["id"]: row["_rowid"] for row in lancelet.dataset(uri).to_table(["id"], with_row_id=True).to_pylist()}
    source = frame(spark, late(1001, 2100).select(["id", "name"])).alias("s")
    t = LanceTable.forPath(spark, uri)
    t.merge(source, "target.id = s.id").whenMatchedUpdateAll("s.id % 3 = 0").whenNotMatchedInsertAll().execute()
    found = lancelet.dataset(uri).to_table(["id"], with_row_id=True).to_pylist()
    assert len(found) == len({row["_rowid"] for row in found}) == len(old) + 100 + 143
    assert all(old[row["id"]] == row["_rowid"] for row in found if row["id"] in old)
    assert lancelet.dataset(uri).count_rows("name = 'late'") == 243 + sum(n % 3 == 0 for n in old if n > 1000)


def test_names_without_aliases(spark, table):
    source = spark.createDataFrame([(1, "new")], "id bigint, name string")
    t = LanceTable.forPath(spark, table)
    merge = t.merge(source, "target.id = source.id").whenMatchedUpdate("source.name = 'new'", {"name": "source.name"})
    assert merge.execute()["num_updated_rows"] == 1
    assert lance.dataset(table).count_rows("id = 1 and name = 'new'") == 1


def test_source_from_the_same_table(spark, table):
    t = LanceTable.forPath(spark, table)
    source = t.toDF().filter("id < 10").withColumn("name", F.lit("self"))
    done = t.merge(source, "target.id = source.id").whenMatchedUpdateAll().execute()
    assert done["num_updated_rows"] == lance.dataset(table).count_rows("name = 'self'") == 9


def test_several_rows_for_one(spark, table):
    t = LanceTable.forPath(spark, table)
    files = data_files(table)
    twice = spark.createDataFrame([(5, "a"), (5, "b"), (6, "c")], "id bigint, name string")
    merge = t.merge(twice.alias("s"), "target.id = s.id")
    with pytest.raises(MergeRefused, match="several rows of the source match one row of the table \\(id = 5, name"):
        merge.whenMatchedUpdateAll().execute()
    with pytest.raises(MergeRefused, match="several rows"):
        merge.whenMatchedDelete("s.name < 'c'").execute()
    assert (lance.dataset(table).version, data_files(table)) == (2, files)
    # One of them is chosen, or it does not matter.
    assert merge.whenMatchedUpdateAll("s.name <> 'b'").execute()["num_updated_rows"] == 2
    assert merge.whenMatchedDelete().execute()["num_deleted_rows"] == 2
    assert lance.dataset(table).count_rows("id in (5, 6)") == 0


def test_wrong_merges(spark, table):
    t = LanceTable.forPath(spark, table)
    source = spark.createDataFrame([(1, "new")], "id bigint, nam string").alias("s")
    merge = t.merge(source, "target.id = s.id")
    for builder, kind, message in (
        (merge, InvalidInput, "would not change the table"),
        (merge.whenMatchedUpdateAll(), UnknownColumn, "'nam' is not in the table"),
        (merge.whenMatchedUpdate(set={"nme": "s.nam"}), UnknownColumn, "did you mean 'name'"),
        (merge.whenMatchedUpdate(set={"name": "s.nme"}), InvalidInput, "nme"),
        (merge.whenMatchedUpdate(set={"id": "s.nam"}), UnfitData, "column 'id' is bigint, but its new value is string"),
        (merge.whenMatchedDelete().whenMatchedDelete("s.id = 1"), InvalidInput, "or put it last"),
        (t.merge(source, "target.idd = s.id").whenMatchedDelete(), InvalidInput, "idd"),
        (t.merge(source, "").whenMatchedDelete(), InvalidInput, "is empty"),
    ):
        with pytest.raises(kind, match=message):
            builder.execute()
    with pytest.raises(InvalidInput, match="needs set="):
        merge.whenMatchedUpdate("s.id = 1")
    with pytest.raises(InvalidType, match="a Spark data frame"):
        t.merge(late(), "target.id = s.id")
    assert lance.dataset(table).version == 2


def test_a_job_that_fails_leaves_no_files(spark, table):
    files = data_files(table)
    t = LanceTable.forPath(spark, table)
    with pytest.raises(Exception, match="(?i)divi"):
        t.update(set={"x": "1 / (id - 1500)"})
    assert (lance.dataset(table).version, data_files(table)) == (2, files)


def test_a_table_without_rows(spark, uri):
    lance.write_dataset(example(0), uri)
    t = LanceTable.forPath(spark, uri)
    assert t.delete("id > 0") == {"num_deleted_rows": 0}
    assert t.update(set={"x": "1"}) == {"num_rows_updated": 0}
    assert t.optimize().executeCompaction().fragments_removed == 0
    t.addColumns({"twice": "id * 2"})
    source = spark.createDataFrame([(1, 2), (None, 3)], "id bigint, twice bigint")
    done = t.merge(source, "target.id = source.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert done == {"num_inserted_rows": 2, "num_updated_rows": 0, "num_deleted_rows": 0}
    assert sorted(lance.dataset(uri).to_table()["twice"].to_pylist()) == [2, 3]


# Others at work


def test_two_merges_and_an_append(spark, table):
    """All start from the same version; rows of both merges are in the same fragments."""
    t = LanceTable.forPath(spark, table)
    errors = []

    def merge(rows: pa.Table) -> None:
        try:
            source = frame(spark, rows.select(["id", "name"])).alias("s")
            t.merge(source, "target.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        except Exception as error:
            errors.append(error)

    evens, odds = (
        late(0, 200).filter(pa.compute.equal(pa.compute.bit_wise_and(late(0, 200)["id"], 1), n)) for n in (0, 1)
    )
    threads = [threading.Thread(target=merge, args=[rows]) for rows in (evens, odds)]
    for thread in threads:
        thread.start()
    lancelet.write_dataset(example(10, 5000), table, mode="append")
    for thread in threads:
        thread.join()
    assert not errors
    ds = lance.dataset(table)
    assert ds.version == 5
    assert ds.count_rows("name = 'late'") == 200
    found = ds.to_table(["id"])["id"].to_pylist()
    assert len(found) == len(set(found))
    assert ds.count_rows("id >= 5000") == 10


def test_rows_that_others_change_meanwhile(spark, table):
    """The source itself updates the table: the merge has begun then, and is done again on the new values."""

    def meanwhile(batches):
        ds = lancelet.dataset(table)
        if ds.version == 2:
            ds.update({"x": "1000.0"}, "id < 20")
        yield from batches

    source = spark.range(0, 40, 1, 1).mapInArrow(meanwhile, "id bigint").alias("s")
    t = LanceTable.forPath(spark, table)
    done = t.merge(source, "target.id = s.id").whenMatchedUpdate(set={"x": "target.x + 1"}).execute()
    ds = lance.dataset(table)
    assert ds.version == 4
    assert done["num_updated_rows"] == ds.count_rows("id < 40")
    assert ds.count_rows("x = 1001") == ds.count_rows("id < 20") > 0
    held = {
        file.path
        for version in (1, 3, 4)
        for fragment in lance.dataset(table, version=version).get_fragments()
        for file in fragment.metadata.files
    }
    assert data_files(table) == held


def test_keys_of_new_rows_are_told(spark, uri):
    """In a table with a primary key, two merges that insert the same key do not both insert it."""
    key = pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    lance.write_dataset(pa.table({"id": [1], "n": ["a"]}, schema=pa.schema([key, ("n", pa.string())])), uri)
    t = LanceTable.forPath(spark, uri)
    source = spark.createDataFrame([(1, "b"), (2, "c")], "id bigint, n string")
    t.merge(source, "target.id = source.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    old = lancelet.dataset(uri, version=1)
    again = old.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    assert again.execute({"id": [2], "n": ["d"]})["num_updated_rows"] == 1
    assert lance.dataset(uri).to_table().sort_by("id").to_pylist() == [{"id": 1, "n": "b"}, {"id": 2, "n": "d"}]


# Files


def test_compaction(spark, pair):
    ours, single = pair
    t = LanceTable.forPath(spark, ours)
    done = t.optimize().executeCompaction(target_rows_per_fragment=500)
    assert done == lancelet.dataset(single).optimize.compact_files(target_rows_per_fragment=500)
    for library in (lance, lancelet):
        left, right = (library.dataset(uri).to_table(with_row_id=True) for uri in pair)
        assert_identical(left, right)
    assert lancelet.dataset(ours).verify(deep=True).ok
    assert t.optimize().executeCompaction(target_rows_per_fragment=500).fragments_removed == 0


def test_compaction_where(spark, table):
    t = LanceTable.forPath(spark, table)
    before = lance.dataset(table).to_table()
    done = t.optimize().where("id < 120").executeCompaction()
    assert (done.fragments_removed, done.fragments_added) == (3, 1)
    assert_identical(sorted_rows(lance.dataset(table).to_table()), sorted_rows(before))
    with pytest.raises(InvalidInput, match="Invalid compaction option: rows"):
        t.optimize().executeCompaction(rows=5)
    with pytest.raises(InvalidInput, match="idd"):
        t.optimize().where("idd < 5").executeCompaction()


# Blobs and other types that stay where they are


def test_blobs_and_json_are_kept(spark, uri):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            ("j", pa.json_()),
        ]
    )
    rows = {"id": [1, 2, 3], "b": [b"one", None, b"three"], "j": ['{"a":1}', None, "[1]"]}
    lance.write_dataset(pa.table(rows, schema=schema), uri, data_storage_version="2.1")
    t = LanceTable.forPath(spark, uri)
    t.update("id <> 2", {"id": "id + 10"})
    t.merge(
        spark.createDataFrame([(2, b"two", "{}"), (4, b"four", None)], "id bigint, b binary, j string").alias("s"),
        "target.id = s.id",
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = lance.dataset(uri).scanner(blob_handling="all_binary").to_table().sort_by("id")
    assert found["b"].to_pylist() == [b"two", b"four", b"one", b"three"]
    assert found["j"].to_pylist() == ["{}", None, '{"a":1}', "[1]"]


def test_what_goes_between_processes_is_small(table):
    from lancelet.maintenance.compaction.options import CompactionSettings
    from lancelet.spark.options import TableRef
    from lancelet.spark.table.compaction import RewriteTask
    from lancelet.spark.table.rows import RowAction, RowJob, RowStep, change_rows
    from lancelet.spark.table.values import stored_columns

    place = TableRef(table, {}, 2)
    values = stored_columns(lancelet.dataset(table).table.snapshot.manifest.schema)
    job = RowJob(place, (RowStep(RowAction.DELETE), RowStep(RowAction.UPDATE, tuple(values.names))), values)
    task = RewriteTask(place, tuple(range(FILES)), CompactionSettings())
    assert max(len(pickle.dumps(value)) for value in (job, task)) < 4096
    addresses = pa.array((np.arange(100_000) % FILES << 32) + np.arange(100_000) // FILES)
    done = change_rows(job, [pa.record_batch({"step": pa.array(np.zeros(100_000, np.int32)), "address": addresses})])
    assert len(pickle.dumps(done)) < 32_000
    assert (done.deleted, done.twice) == (100_000, None)


def test_a_column_that_hides_addresses(spark, uri):
    lance.write_dataset(pa.table({"a": [1]}), uri).alter_columns({"path": "a", "name": "_rowaddr"})
    with pytest.raises(NotSupported, match="hides the addresses"):
        LanceTable.forPath(spark, uri).delete("_rowaddr = 1")


def test_drop_columns(spark, table):
    t = LanceTable.forPath(spark, table)
    t.dropColumns("vec", "exact")
    assert t.toDF().columns == ["id", "name", "x", "small"]
    with pytest.raises(UnknownColumn, match="nope"):
        t.dropColumns("nope")

"""Names of columns as users of Spark write them: in another case, in backticks, with dots."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput, UnknownColumn
from lancelet.spark import LanceTable
from spark.conftest import SOURCES, sorted_rows
from spark.sessions import MODE
from spark.test_mistakes import sentence

INNER = pa.struct([("A", pa.int64()), ("b.c", pa.int64())])


@pytest.fixture
def table(uri: str) -> str:
    schema = pa.schema([pa.field("Key", pa.int64(), nullable=False), ("V", pa.string()), ("St", INNER)])
    rows = {"Key": [1, 2], "V": ["a", "b"], "St": [{"A": 1, "b.c": 2}] * 2}
    lancelet.write_dataset(pa.table(rows, schema), uri)
    return uri


@pytest.fixture
def case_sensitive(spark) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.set("spark.sql.caseSensitive", "false")


def kept(uri: str) -> list[dict]:
    return sorted_rows(lancelet.dataset(uri).to_table(), "Key").to_pylist()


def test_appends_in_any_case(spark, source, table):
    more = spark.sql("SELECT named_struct('a', 4L, 'B.C', 5L) AS ST, 3L AS key, 'c' AS v")
    more.write.format(source).mode("append").save(table)
    assert kept(table)[2] == {"Key": 3, "V": "c", "St": {"A": 4, "b.c": 5}}
    twice = spark.sql("SELECT 4L AS key, 5L AS other").withColumnRenamed("other", "KEY")
    said = sentence(lambda: twice.write.format(source).mode("append").save(table))
    assert "the columns 'key' and 'KEY' of the data frame are one in the table, 'Key'" in said
    assert lancelet.dataset(table).version == 2


def test_changes_in_any_case_and_in_backticks(spark, table):
    mine = LanceTable.forPath(spark, table)
    assert mine.update("`KEY` = 1", {"`v`": "upper(`v`)"}) == {"num_rows_updated": 1}
    source = spark.sql("SELECT 2L AS KEY, 'm' AS v UNION ALL SELECT 9L, 'n'").alias("s")
    merge = mine.alias("t").merge(source, "t.`key` = s.`key`")
    done = merge.whenMatchedUpdateAll().whenNotMatchedInsert(values={"`key`": "s.key", "v": "s.`V`"}).execute()
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (1, 1)
    assert [(row["Key"], row["V"]) for row in kept(table)] == [(1, "A"), (2, "m"), (9, "n")]
    assert mine.delete("St.`b.c` = 2 AND `key` = 1") == {"num_deleted_rows": 1}
    mine.addColumns(spark.sql("SELECT 2L AS KEY, 5 AS Extra"), on="`key`")
    mine.dropColumns("`EXTRA`")
    assert lancelet.dataset(table).schema.names == ["Key", "V", "St"]
    with pytest.raises(InvalidInput, match="the column 'V' gets several new values"):
        mine.update(None, {"v": "'x'", "V": "'y'"})
    with pytest.raises(
        UnknownColumn, match="column 'more' is not in the table, but in the source of the merge; leave it"
    ):
        mine.merge(source.selectExpr("*", "1 AS more"), "target.key = source.key").whenMatchedUpdateAll().execute()


@pytest.mark.usefixtures("case_sensitive")
def test_sessions_that_distinguish_case(spark, table):
    with pytest.raises(UnknownColumn, match="did you mean 'V'"):
        LanceTable.forPath(spark, table).update(None, {"v": "'x'"})
    if not MODE.endswith("plain"):
        other = spark.sql("SELECT 3L AS key")
        said = sentence(lambda: other.write.format("lance").mode("append").save(table))
        assert "`key` is not in the table" in said


def test_dots(spark, source, table, uri):
    read = spark.read.format(source).load(table)
    assert read.where("St.`b.c` = 2").select("St.`b.c`", "`Key`").count() == 2
    read.write.format(source).mode("append").save(f"{uri}2")
    assert kept(f"{uri}2") == kept(table)
    said = sentence(lambda: spark.sql("SELECT 1 AS `a.b`").write.format(source).mode("append").save(f"{uri}3"))
    assert "the column 'a.b' has a dot in its name" in said
    assert 'df.withColumnRenamed("a.b", "a_b")' in said


def test_a_schema_that_is_given(spark, sources, table):
    def given(schema: str, source: str):
        return spark.read.format(source).schema(schema).load(table)

    flaws = {
        "nope INT": "column 'nope' is not in the table, but in the schema that was given for it",
        "Key STRING": "column 'Key' is bigint in the table, not string as the given schema says; leave the schema out",
        "Key INT": "column 'Key' is bigint in the table, not int",
        "St STRUCT<A: BIGINT, z: INT>": "column 'St' has no field 'z' in the table; it has: A, b.c",
    }
    for (schema, flaw), source in sources(flaws.items()):
        assert flaw in sentence(given(schema, source).count)
        assert flaw in sentence(given(schema, source).collect)
    reads = (
        (lambda source: given("v STRING, KEY BIGINT", source).where("KEY > 1").collect(), [("b", 2)]),
        (lambda source: given("St STRUCT<A: BIGINT>", source).collect(), [((1,),), ((1,),)]),
        (lambda source: given("V STRING", source).count(), 2),
    )
    for (read, expected), source in sources(reads):
        assert read(source) == expected
    lancelet.write_dataset(
        {"n": pa.array([1], pa.int32()), "f": pa.array([0.5], pa.float32())}, table, mode="overwrite"
    )
    for source in SOURCES:
        assert given("n BIGINT, f DOUBLE", source).collect() == [(1, 0.5)]

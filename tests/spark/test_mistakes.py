"""What a new user gets wrong, and the sentence that he reads."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
import venv

import pyarrow as pa
import pytest

import lancelet
from lancelet.errors import InvalidInput, TableNotFound, UnfitData, VersionNotFound
from lancelet.spark import LanceTable
from spark.conftest import SOURCES, data_files
from spark.sessions import MODE

MOST_LETTERS = 1500
"""Beyond, nobody reads."""


@pytest.fixture
def table(uri: str) -> str:
    """A table whose first version was cleaned up."""
    lancelet.write_dataset({"id": [1, 2], "s": ["a", "b"]}, uri)
    lancelet.write_dataset({"id": [3], "s": ["c"]}, uri, mode="append")
    lancelet.dataset(uri).cleanup_old_versions(dt.timedelta(0))
    return uri


def sentence(call) -> str:
    """The text of the error, which must be short."""
    with pytest.raises(Exception) as caught:
        call()
    text = str(caught.value).partition("JVM stacktrace:")[0]
    assert len(text) < MOST_LETTERS, text
    return re.sub(r"\s+", " ", text)


def test_reads(spark, source, table, tmp_path):
    reader = spark.read.format(source)
    assert "was not found: it has no _versions/" in sentence(lambda: reader.load(str(tmp_path / "none")).count())
    assert "the path of the table is missing" in sentence(lambda: spark.read.format(source).load().count())
    cleaned = sentence(lambda: spark.read.format(source).option("version", 1).load(table).count())
    assert "it has been cleaned up, with its files; the table has 1 version(s), from 2 to 2" in cleaned
    to_come = sentence(lambda: spark.read.format(source).option("version", 99).load(table).count())
    assert "it was never written" in to_come


def test_writes(spark, source, table):
    files = data_files(table)
    rows = spark.range(2).selectExpr("id", "'x' as s")

    def save(frame, mode="append", **options):
        return lambda: frame.write.format(source).mode(mode).options(**options).save(table)

    wrong = sentence(save(rows.selectExpr("cast(id as string) as id", "1 as more")))
    assert "`more` is not in the table" in wrong
    assert "`id` is int64 in the table, string in the data" in wrong
    # Spark Connect knows the first by this name only.
    for mode in ("error", "ignore"):
        assert 'Please use either the "Append" or "Overwrite" mode instead' in sentence(save(rows, mode))
    assert "saveMode is one of append, overwrite, errorifexists" in sentence(save(rows, saveMode="upsert"))
    assert "already exists" in sentence(save(rows, saveMode="errorifexists"))
    assert (lancelet.dataset(table).version, data_files(table)) == (2, files)


def test_values_that_no_column_takes(spark, sources, uri):
    """The driver says what was wrong, without a worker's traceback; nothing stays behind."""
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("v", pa.list_(pa.float32(), 2)), ("u", pa.uint8())]
    )
    lancelet.write_dataset(pa.table({"id": [1], "v": [[1.0, 2.0]], "u": [1]}, schema), uri)
    files = data_files(uri)
    flaws = {
        "CAST(NULL AS BIGINT) AS id": "Column 'id' is declared as non-nullable but contains null",
        "id, array(float(1)) AS v": "a vector has 1 values where the table has 2 in each",
        "id, 256S AS u": "column 'u' has a value that does not fit into uint8",
    }
    for (row, flaw), source in sources(flaws.items()):
        said = sentence(
            lambda row=row, source=source: (
                spark.range(9).selectExpr(*_parts(row)).write.format(source).mode("append").save(uri)
            )
        )
        assert flaw in said
        assert is_short(said, source), said
    assert (lancelet.dataset(uri).version, data_files(uri)) == (1, files)
    with pytest.raises(UnfitData, match="Column 'id' is declared as non-nullable but contains null"):
        LanceTable.forPath(spark, uri).update(None, {"id": "NULL"})


def is_short(said: str, source: str) -> bool:
    """Whether there is no traceback; Spark Connect tells that of the process that plans, where the bridge does not ask."""
    return said.count("File ") <= 1 or (MODE.startswith("connect") and source == SOURCES[1])


def _parts(row: str) -> list[str]:
    first, _, rest = row.partition(", ")
    return [first, rest] if rest else [first]


def test_types_that_no_table_has(spark, sources, uri):
    flaws = {
        "'x' COLLATE UTF8_LCASE": "column 'c' has the collation UTF8_LCASE, which a Lance table does not keep; take it off",
        "array(named_struct('q', 'x' COLLATE UNICODE))": "column 'c' has the collation UNICODE",
        "INTERVAL 1 MONTH": "column 'c' is interval month, for which Lance has no type; cast it",
        "parse_json('{}')": "column 'c' is variant, for which Lance has no type",
        "1 AS c, 2": "the data frame has several columns 'c'; rename them, or select one of them",
        "named_struct('a', 1, 'a', 2)": "field 'c' has two children of one name",
    }
    for (column, flaw), source in sources(flaws.items()):
        writer = spark.sql(f"SELECT {column} AS c").write.format(source).mode("append")
        assert flaw in sentence(lambda writer=writer: writer.save(uri))
    assert not LanceTable.isLanceTable(spark, uri)
    # The table's own column has no collation to lose.
    for text, source in sources(("'a'", "'b' COLLATE UTF8_LCASE", "CAST('c' AS VARCHAR(3))")):
        spark.sql(f"SELECT {text} AS c").write.format(source).mode("append").save(uri)
    assert sorted(set(lancelet.dataset(uri).to_table()["c"].to_pylist())) == ["a", "b", "c"]


def test_options(spark, sources, table, tmp_path):
    flaws = (
        ({"version": "x"}, "option version is a whole number above 0, not 'x'"),
        ({"version": "2", "tag": "x"}, "the options version and tag all choose a version"),
        ({"tag": "nope"}, "tag nope does not exist"),
        ({"asOf": "yesterday"}, "'yesterday' is not a time"),
        ({"columns": "nope"}, "column 'nope' is not in the schema"),
        ({"filter": "nope = 1"}, "nope"),
        ({"filter": "id >"}, "id >"),
        ({"mergeSchema": "true"}, "there is no option 'mergeschema' for reading"),
    )
    for (options, flaw), source in sources(flaws):
        reader = spark.read.format(source).options(**options)
        said = sentence(lambda reader=reader: reader.load(table).collect())
        assert flaw in said
        assert is_short(said, source), said
    frame = spark.range(1)
    flaws = (
        ({"dataStorageVersion": "9"}, "there is no file version 9"),
        ({"maxRowPerFile": "1"}, "there is no option 'maxrowperfile' for writing"),
        ({"vector.id": "4"}, "column 'id' is to be fixed_size_list:float:4, but the data frame has bigint there"),
        ({"vector.q": "4"}, "options name the columns q, which the data frame has not"),
    )
    for (options, flaw), source in sources(flaws):
        writer = frame.write.format(source).mode("append").options(**options)
        assert flaw in sentence(lambda writer=writer: writer.save(str(tmp_path / "new")))


def test_tables(spark, table, tmp_path):
    with pytest.raises(TableNotFound, match="was not found: it has no _versions/"):
        LanceTable.forPath(spark, str(tmp_path / "none"))
    mine = LanceTable.forPath(spark, table)
    with pytest.raises(VersionNotFound, match="it has been cleaned up"):
        mine.restoreToVersion(1)
    with pytest.raises(InvalidInput, match=r"the condition 'nope > 3': .*`nope` cannot be resolved"):
        mine.delete("nope > 3")
    with pytest.raises(InvalidInput, match="the condition 'id >': Syntax error"):
        mine.delete("id >")
    assert mine.version() == 2


WRONG_PYTHON = """
import sys, warnings
warnings.simplefilter("ignore")
from lancelet.errors import NotSupported
from lancelet.spark import LanceTable, doctor, local_session

spark = local_session(1, bridge=sys.argv[2] == "bridge", settings={"spark.log.level": "OFF"})
table = LanceTable.forPath(spark, sys.argv[1])
for change in (lambda: table.delete("id = 1"), lambda: table.addColumns(lambda batch: batch.select(["id"]).rename_columns(["n"]))):
    try:
        change()
    except NotSupported as error:
        print(error)
print(doctor(spark))
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.parametrize("bridge", ["bridge", "plain"])
def test_a_python_without_lancelet(table, tmp_path, bridge):
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    done = subprocess.run(
        [sys.executable, "-c", WRONG_PYTHON, table, bridge],
        env={**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Spark does not find the data source 'lance'" in done.stdout
    assert "the workers' Python has no lancelet; lancelet.spark.doctor(spark) tells" in done.stdout
    assert f"problem: the workers' Python, {python}, has no lancelet; install it there" in done.stdout
    assert f"problem: Spark looks for data sources with {python}, which has no lancelet" in done.stdout

"""``dataset.sql``: answers as pylance's, filters read with indices, mistakes told in a sentence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import lance
import pyarrow as pa
import pytest

import lancelet
from lancelet.testing import assert_identical

QUERIES = (
    "SELECT * FROM dataset",
    "SELECT k, s FROM dataset WHERE k > 5 AND s LIKE 'b%'",
    "SELECT sum(k) AS total, s FROM dataset GROUP BY s ORDER BY s",
    "SELECT avg(f) AS mean, count(*) AS many, count(f) AS there FROM dataset WHERE f IS NOT NULL",
    "SELECT k FROM dataset ORDER BY k DESC LIMIT 3 OFFSET 1",
    "SELECT d.n['x'] AS x, d.k FROM dataset d WHERE d.n['x'] % 2 = 0",
    "SELECT a.k FROM dataset a JOIN dataset b ON a.k = b.k + 1 WHERE b.s = 'a1' ORDER BY a.k",
    "SELECT DISTINCT s FROM dataset ORDER BY s",
    "SELECT k, rank() OVER (PARTITION BY s ORDER BY k) AS place FROM dataset ORDER BY k",
    "WITH few AS (SELECT k FROM dataset WHERE k < 4) SELECT max(k) AS last FROM few",
    "SELECT k FROM dataset WHERE f = 1.5 OR f IS NULL ORDER BY k",
    'SELECT "Upper" FROM dataset WHERE "Upper" IN (1, 3)',
    "SELECT 1 AS one",
    "SELECT count(*) AS none FROM dataset WHERE k > 1000",
)


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "t"
    rows = range(40)
    table = pa.table(
        {
            "k": pa.array(rows, pa.int64()),
            "s": [f"{'abc'[row % 3]}{row % 4}" for row in rows],
            "f": pa.array([None if row % 5 == 0 else row / 2 for row in rows], pa.float64()),
            "n": [{"x": row} for row in rows],
            "Upper": pa.array(rows, pa.int32()),
        }
    )
    dataset = lance.write_dataset(table, path, max_rows_per_file=15)
    dataset.create_scalar_index("k", "BTREE")
    dataset.delete("k = 7")
    return path


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_pylance_s(where: Path, query: str) -> None:
    ours = lancelet.dataset(where).sql(query).build().to_stream_reader().read_all()
    theirs = lance.dataset(where).sql(query).build().to_stream_reader().read_all()
    if "ORDER BY" not in query and ours.num_rows > 1:
        ours, theirs = (table.sort_by([(table.column_names[0], "ascending")]) for table in (ours, theirs))
    assert_identical(ours, theirs)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM dataset WHERE k < 9 ORDER BY k",
        "SELECT _rowid, k FROM dataset WHERE k < 9 ORDER BY k",
        "SELECT * FROM dataset WHERE k < 9 ORDER BY k",
        "SELECT sum(k) AS total FROM dataset",
        "SELECT s, count(*) AS many FROM dataset GROUP BY s ORDER BY s",
        "SELECT k FROM Dataset WHERE k < 9 ORDER BY k",
        "WITH dataset AS (SELECT 1 AS k) SELECT k FROM dataset",
    ],
)
def test_rows_bring_their_ids(where: Path, query: str) -> None:
    """pylance reads both columns of rows, and adds them to what selects rows."""

    def run(library: Any) -> pa.Table:
        built = library.dataset(where).sql(query).with_row_id().with_row_addr().build()
        return built.to_stream_reader().read_all()

    assert_identical(run(lancelet), run(lance))


def test_a_query_can_be_shaped_and_run_again(where: Path) -> None:
    query = lancelet.dataset(where).sql("SELECT k FROM kelp").table_name("kelp").batch_size(4).build()
    for _ in range(2):
        batches = query.to_batch_records()
        assert sum(len(batch) for batch in batches) == 39
        assert max(len(batch) for batch in batches) <= 4
    builder = lancelet.dataset(where).sql("SELECT * FROM dataset").with_row_id().with_row_id(False)
    assert "_rowid" not in builder.build().to_stream_reader().schema.names


def test_filters_reach_the_index(where: Path) -> None:
    dataset = lancelet.dataset(where)
    plan = dataset.sql("EXPLAIN SELECT s FROM dataset WHERE k = 3").build().to_batch_records()
    assert "DatasetExec" in str(plan[0].to_pydict()) or "filter" in str(plan[0].to_pydict()).lower()
    dataset.io_stats_incremental()
    dataset.sql("SELECT s FROM dataset WHERE k = 3").build().to_batch_records()
    few = dataset.io_stats_incremental().read_bytes
    assert few < sum(file.stat().st_size for file in (where / "data").iterdir())


def test_blobs_are_bytes_or_where_they_are(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table({"b": pa.array([b"kelp", b""], pa.large_binary())}, pa.schema([field]))
    for library in (lance, lancelet):
        library.write_dataset(table, tmp_path / library.__name__)
    for how in (None, "all_binary", "all_descriptions"):
        found = []
        for library in (lance, lancelet):
            builder = library.dataset(tmp_path / "lance").sql("SELECT b FROM dataset")
            built = (builder if how is None else builder.blob_handling(how)).build()
            found.append(built.to_stream_reader().read_all().to_pylist())
        assert found[0] == found[1]
    with pytest.raises(ValueError, match="all_binary"):
        lancelet.dataset(tmp_path / "lance").sql("SELECT b FROM dataset").blob_handling("some")


@pytest.mark.parametrize(
    "query",
    ["selec", "SELECT nope FROM dataset", "SELECT * FROM other", "DELETE FROM dataset", "SELECT 1; SELECT 2", ""],
)
def test_mistakes_are_refused_as_pylance_refuses_them(where: Path, query: str) -> None:
    with pytest.raises(ValueError, match="."):
        lance.dataset(where).sql(query).build().to_batch_records()
    with pytest.raises(ValueError, match="in the query"):
        lancelet.dataset(where).sql(query).build()


def test_what_is_no_query_is_refused(where: Path) -> None:
    with pytest.raises(ValueError, match="in the query"):
        lancelet.dataset(where).sql("CREATE TABLE x AS SELECT 1").build()
    with pytest.raises(TypeError, match="text in SQL"):
        lancelet.dataset(where).sql(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query", ["SELECT k / 0 FROM dataset", "SELECT CAST(s AS INT) FROM dataset", "SELECT CAST('x' AS INT) FROM dataset"]
)
def test_a_query_that_fails_while_it_runs_says_so(where: Path, query: str) -> None:
    with pytest.raises(lancelet.errors.InvalidInput, match="in the query"):
        lancelet.dataset(where).sql(query).build().to_batch_records()


def test_names_and_sizes_that_make_no_sense_are_refused(where: Path) -> None:
    query = lancelet.dataset(where).sql("SELECT 1")
    with pytest.raises(ValueError, match="above 0"):
        query.batch_size(0)
    with pytest.raises(ValueError, match="in the query"):
        query.table_name("kelp.forest").build()


CONDITIONS = (
    "f > 1", "f = 'NaN'::double", "f < 'NaN'::double", "NOT (f > 1)", "f != 1.5", "f = -0.0", "f >= 0.0", "f NOT IN (1.5, NULL)",
    "f BETWEEN 0 AND 'NaN'::double", "i IN (1, NULL)", "i NOT IN (1, NULL)", "i + 1 > 3", "i > 1.5", "s LIKE 'a%'",
    "s NOT LIKE 'a%'", "s LIKE '_%'", "b", "b IS NOT TRUE", "ts > '2020-06-01'::timestamp", "dec > 1.105", "dec IN (1.10, 3.33)",
    "st['x'] > 3", "i IS DISTINCT FROM 1", "i = 1 OR f > 2", "coalesce(i, 0) = 0", "i = 1 AND NULL",
)  # fmt: skip


def test_filters_find_what_engines_find_in_memory(tmp_path: Path) -> None:
    """An engine that hands a filter down does not look at the rows again."""
    nan, inf = float("nan"), float("inf")
    table = pa.table(
        {
            "n": range(6),
            "i": [1, 2, None, 4, -5, 0],
            "f": [1.5, nan, None, inf, -0.0, 0.0],
            "s": ["a", "B", None, "a%b", "", "ä"],
            "b": [True, False, None, True, False, None],
            "ts": pa.array([1577836800, -1, None, 1609459200, 0, 1], pa.timestamp("s")).cast(pa.timestamp("us")),
            "dec": pa.array([1.1, -2.0, None, 0.0, 3.33, 1.11], pa.float64()).cast(pa.decimal128(10, 2)),
            "st": [{"x": 1}, {"x": None}, None, {"x": 4}, {"x": 5}, {"x": 6}],
        }
    )
    stored = lancelet.write_dataset(table, tmp_path / "t", max_rows_per_file=2)
    context, connection = datafusion.SessionContext(), duckdb.connect()
    context.register_record_batches("memory", [table.to_batches()])
    connection.register("table_in_memory", table)
    connection.execute("CREATE TABLE memory AS SELECT * FROM table_in_memory")
    connection.register("stored", stored)
    for condition in CONDITIONS:
        query = f"SELECT n FROM {{}} WHERE {condition} ORDER BY n"
        rows = stored.sql(query.format("dataset")).build().to_stream_reader().read_all()["n"].to_pylist()
        assert rows == context.sql(query.format("memory")).to_pydict().get("n", []), condition
        found = [connection.execute(query.format(name)).fetchall() for name in ("stored", "memory")]
        assert found[0] == found[1], condition
    connection.close()


def test_duckdb_answers_where_datafusion_is_not_installed(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = lancelet.dataset(where)
    sql = "SELECT sum(k) AS total, s FROM dataset GROUP BY s ORDER BY s"
    expected = dataset.sql(sql).build().to_stream_reader().read_all().to_pylist()
    monkeypatch.setitem(sys.modules, "datafusion", None)
    assert dataset.sql(sql).build().to_stream_reader().read_all().to_pylist() == expected
    for wrong in (
        "SELEC 1",
        "SELECT nope FROM dataset",
        "SELECT * FROM 'rows.csv'",
        "SELECT CAST(s AS INT) FROM dataset",
    ):
        with pytest.raises(ValueError, match="in the query"):
            dataset.sql(wrong).build().to_batch_records()
    for change in ("CREATE TABLE t AS SELECT 1", "SET threads = 1", "COPY (SELECT 1) TO 'rows.csv'", ""):
        with pytest.raises(ValueError, match="query"):
            dataset.sql(change).build()
    with pytest.raises(ImportError, match=r"lancelet\[sql\]"):
        dataset.sql(sql).with_row_id().build()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"lancelet\[sql\]"):
        dataset.sql(sql).build()

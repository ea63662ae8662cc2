"""DELETE, UPDATE and MERGE: the rows that pylance or LanceTable would leave, in one version, and what is not named as it was."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancelet
from lancelet.spark import LanceTable
from spark.conftest import data_files

ROWS = 36
NANOSECONDS = pa.timestamp("ns")
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("s", pa.string()),
        ("n", pa.struct([("a", pa.int32()), ("t", NANOSECONDS)])),
        ("p", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("v", pa.list_(pa.float32(), 2)),
        ("ts", NANOSECONDS),
        ("u", pa.uint64()),
        ("h", pa.float16()),
        ("j", pa.json_()),
        ("tags", pa.list_(pa.string())),
        pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
    ]
)


def rows_of(ids: range) -> pa.Table:
    """Rows with values that Spark cannot hold as they are."""

    def column(make: Callable[[int], Any], dtype: pa.DataType, modulus: int) -> pa.Array:
        return pa.array([None if number % modulus == 0 else make(number) for number in ids], dtype)

    moments = {number: np.datetime64(10**18 + number, "ns") for number in ids}
    values = [
        pa.array(ids, pa.int64()),
        column(lambda i: f"s{i}", pa.string(), 5),
        pa.StructArray.from_arrays(
            [column(int, pa.int32(), 7), column(moments.get, NANOSECONDS, 8)], fields=list(COLUMNS.field("n").type)
        ),
        column(lambda i: {"a": i, "b": f"b{i}"}, COLUMNS.field("p").type, 6),
        column(lambda i: [i, -i], COLUMNS.field("v").type, 4),
        column(moments.get, NANOSECONDS, 9),
        column(lambda i: 2**64 - i, pa.uint64(), 5),
        column(lambda i: np.float16(i / 3), pa.float16(), 5),
        pa.ExtensionArray.from_storage(pa.json_(), column(lambda i: f'{{"k":{i}.50}}', pa.string(), 3)),
        column(lambda i: [str(i), None], pa.list_(pa.string()), 4),
        column(lambda i: bytes([i]) * 3, pa.large_binary(), 5),
    ]
    return pa.Table.from_arrays(values, schema=COLUMNS)


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of several fragments, some of whose rows are deleted, with an index."""
    place = str(tmp_path_factory.mktemp("original") / "t.lance")
    ds = lance.write_dataset(
        rows_of(range(ROWS)),
        place,
        max_rows_per_file=5,
        enable_stable_row_ids=request.param,
        data_storage_version="2.1",
    )
    ds.create_scalar_index("id", "BTREE")
    ds.delete("id IN (3, 17, 30, 31, 32, 33, 34)")
    return place


ONE_TABLE = pytest.mark.parametrize("original", [True], indirect=True, ids=["stable"])


@dataclass
class Pair:
    """A table for SQL, and the same for another way."""

    sql: str
    other: str
    name: str
    """Of the first, in SQL."""

    def assert_same(self) -> None:
        """The same rows to both libraries, the same ids, in one more version."""
        for library in (lance, lancelet):
            ours, theirs = library.dataset(self.sql), library.dataset(self.other)
            stable = ours.has_stable_row_ids
            assert found(ours, stable) == found(theirs, stable)
        assert ours.version == theirs.version
        assert lancelet.dataset(self.sql).verify(deep=True).ok
        # By the index, too.
        ds = lance.dataset(self.sql)
        assert ds.count_rows("id = 6") == lance.dataset(self.other).count_rows("id = 6")


def found(ds: Any, with_ids: bool) -> list[dict[str, Any]]:
    rows = ds.scanner(with_row_id=True, blob_handling="all_binary").to_table().sort_by("id").to_pylist()
    for row in rows:
        # New rows get their ids in the order in which they are written.
        if not with_ids or row["_rowid"] >= ROWS:
            del row["_rowid"]
    return rows


@pytest.fixture
def pair(original: str, tmp_path: Path, space) -> Pair:
    ours, theirs = str(tmp_path / "sql.lance"), str(tmp_path / "other.lance")
    for place in (ours, theirs):
        shutil.copytree(original, place)
    return Pair(ours, theirs, f"{space.name}.`{ours}`")


@ONE_TABLE
@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("id = 2 * 3 OR s IS NULL", "id = 6 OR s IS NULL"),
        ("id IN (SELECT id + 1 FROM range(4)) AND s LIKE 's%'", "id IN (1, 2, 4)"),
        ("p.a > 20", "p.a > 20"),
    ],
)
def test_delete(pair, sql, condition, same):
    sql(f"DELETE FROM {pair.name} AS t WHERE {condition}")
    lance.dataset(pair.other).delete(same)
    pair.assert_same()


def test_update_leaves_what_it_does_not_assign_as_it_is_stored(pair, sql, spark):
    sql(f"UPDATE {pair.name} SET s = upper(concat(s, '!')), u = 7 WHERE id % 2 = 0")
    lance.dataset(pair.other).update({"s": "upper(s || '!')", "u": "7"}, "id % 2 = 0")
    sql(f"UPDATE {pair.name} SET p.a = id * 2 WHERE id > 10 AND p IS NOT NULL")
    values = {"p": "named_struct('a', CAST(id * 2 AS INT), 'b', p.b)"}
    LanceTable.forPath(spark, pair.other).update("id > 10 AND p IS NOT NULL", values)
    pair.assert_same()


def test_merge_with_every_clause(pair, sql, spark):
    sql(
        "CREATE TEMPORARY VIEW changes AS SELECT id, concat('new', id) AS s, array(CAST(id AS FLOAT), 1F) AS v, "
        "CAST(X'0102' AS BINARY) AS b FROM range(20, 44)"
    )
    source = spark.table("changes")
    sql(
        f"MERGE INTO {pair.name} AS t USING changes AS c ON t.id = c.id "
        "WHEN MATCHED AND t.id = 21 THEN DELETE WHEN MATCHED AND t.id < 26 THEN UPDATE SET t.b = c.b, t.s = 'x' "
        "WHEN MATCHED THEN UPDATE SET v = c.v "
        "WHEN NOT MATCHED AND c.id = 40 THEN INSERT (id, s) VALUES (c.id, 'forty') "
        "WHEN NOT MATCHED AND c.id < 43 THEN INSERT (id, v, b) VALUES (c.id, c.v, c.b) "
        "WHEN NOT MATCHED BY SOURCE AND t.id < 3 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND t.id < 9 THEN UPDATE SET s = concat(t.s, '?')"
    )
    merge = LanceTable.forPath(spark, pair.other).alias("t").merge(source.alias("c"), "t.id = c.id")
    merge = merge.whenMatchedDelete("t.id = 21").whenMatchedUpdate("t.id < 26", {"b": "c.b", "s": "'x'"})
    merge = merge.whenMatchedUpdate(set={"v": "c.v"})
    merge = merge.whenNotMatchedInsert("c.id = 40", {"id": "c.id", "s": "'forty'"})
    merge = merge.whenNotMatchedInsert("c.id < 43", {"id": "c.id", "v": "c.v", "b": "c.b"})
    merge = merge.whenNotMatchedBySourceDelete("t.id < 3")
    merge.whenNotMatchedBySourceUpdate("t.id < 9", {"s": "concat(t.s, '?')"}).execute()
    sql("DROP VIEW changes")
    pair.assert_same()


def test_merge_of_all_columns_and_of_new_ones(sql, space):
    sql("CREATE TABLE {ns}.t TBLPROPERTIES ('enable_stable_row_ids' = 'true') AS SELECT id, 'a' AS s FROM range(3)")
    before = {row[0]: row[1] for row in sql("SELECT id, _rowid FROM {ns}.t")}
    sql(
        "MERGE INTO {ns}.t USING (SELECT 'b' AS s, id FROM range(2, 4)) AS u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    sql(
        "MERGE WITH SCHEMA EVOLUTION INTO {ns}.t USING (SELECT id, 'c' AS s, 1 AS more FROM range(3, 5)) AS u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [(0, "a", None), (1, "a", None), (2, "b", None), (3, "c", 1), (4, "c", 1)]
    assert sql("SELECT id, s, more FROM {ns}.t ORDER BY id") == expected
    assert before.items() <= {row[0]: row[1] for row in sql("SELECT id, _rowid FROM {ns}.t")}.items()


def test_rows_are_named_by_their_ids_and_addresses(sql, space):
    sql("CREATE TABLE {ns}.t AS SELECT /*+ COALESCE(1) */ id, 0 AS n FROM range(6)")
    sql("DELETE FROM {ns}.t WHERE _rowaddr = 1")
    sql("UPDATE {ns}.t SET n = 1 WHERE _rowid = 2")
    sql("MERGE INTO {ns}.t USING (SELECT 3L AS place) u ON t._rowaddr = u.place WHEN MATCHED THEN UPDATE SET n = 2")
    assert sql("SELECT id, n FROM {ns}.t ORDER BY id") == [(0, 0), (2, 1), (3, 2), (4, 0), (5, 0)]
    assert space.pylance("t").version == 4


def test_a_cached_table_is_read_anew(sql):
    sql("CREATE TABLE {ns}.t AS SELECT id, 0 AS n FROM range(3)")
    sql("CACHE TABLE {ns}.t")
    sql("UPDATE {ns}.t SET n = 1 WHERE id = 1")
    assert sql("SELECT sum(n) FROM {ns}.t") == [(1,)]
    sql("UNCACHE TABLE {ns}.t")


@ONE_TABLE
def test_a_row_that_is_matched_twice(pair, sql, refused):
    before = lance.dataset(pair.sql).version, data_files(pair.sql)
    source = "(SELECT 1L AS id, id AS k FROM range(2)) AS c ON t.id = c.id"
    error = refused(f"MERGE INTO {pair.name} AS t USING {source} WHEN MATCHED THEN UPDATE SET s = CAST(c.k AS STRING)")
    assert "MERGE_CARDINALITY_VIOLATION" in str(error)
    assert (lance.dataset(pair.sql).version, data_files(pair.sql)) == before
    # It does not matter to a row that goes.
    sql(f"MERGE INTO {pair.name} AS t USING {source} WHEN MATCHED THEN DELETE")
    assert lance.dataset(pair.sql).count_rows("id = 1") == 0


REFUSED = {
    "UPDATE {t} SET nope = 1": "nope",
    "UPDATE {t} SET id = NULL WHERE id = 4": "NULL",
    "UPDATE {t} SET p = 3": "p",
    "UPDATE {t} SET v = array(1F, 2F, 3F) WHERE id > 6": "a vector has 3 values",
    "UPDATE {t} SET s = raise_error('stop') WHERE id = 35": "stop",
    "UPDATE {t} SET n.a = 1 WHERE id = 4": "'n.t' (timestamp:ns:-) would go through Spark",
    "DELETE FROM {t} WHERE nope = 1": "nope",
    "MERGE INTO {t} t USING (SELECT 99 AS id) c ON t.id = c.id WHEN NOT MATCHED THEN INSERT (s) VALUES ('a')": "for 'id'",
}


@ONE_TABLE
def test_what_is_refused_changes_nothing(pair, refused):
    before = lance.dataset(pair.sql).version, data_files(pair.sql)
    for statement, words in REFUSED.items():
        assert words in str(refused(statement.format(t=pair.name))), statement
    assert (lance.dataset(pair.sql).version, data_files(pair.sql)) == before


def test_branches_are_changed_and_tags_are_not(sql, refused, space):
    sql("CREATE TABLE {ns}.t AS SELECT id, 0 AS n FROM range(4)")
    dataset = space.pylance("t")
    dataset.tags.create("first", 1)
    dataset.create_branch("side", 1)
    sql("DELETE FROM {ns}.t.branch_side WHERE id = 1")
    sql("UPDATE {ns}.t.branch_side SET n = 1 WHERE id = 2")
    assert sql("SELECT * FROM {ns}.t.branch_side ORDER BY id") == [(0, 0), (2, 1), (3, 0)]
    sql("DELETE FROM {ns}.t.branch_side")
    assert sql("SELECT count(*) FROM {ns}.t.branch_side") == [(0,)]
    for statement in ("UPDATE {tag} SET n = 1", "DELETE FROM {tag} WHERE id = 1", "DELETE FROM {tag}"):
        assert "as it was once" in str(refused(statement.replace("{tag}", "{ns}.t.tag_first")))
    assert sql("SELECT sum(n), count(*) FROM {ns}.t") == [(0, 4)]


def test_rows_that_others_change_meanwhile(sql, spark, space):
    """The statement itself changes the table: it has begun then, and is made again on the new values."""
    sql("CREATE TABLE {ns}.t AS SELECT /*+ COALESCE(1) */ id, 0 AS n FROM range(40)")
    place = space.location("t")

    def meanwhile(batches):
        ds = lancelet.dataset(place)
        if ds.version == 1:
            ds.update({"n": "1000"}, "id < 20")
            ds.insert(pa.table({"id": [100], "n": pa.array([5], pa.int32())}))
        yield from batches

    spark.range(0, 30, 1, 1).mapInArrow(meanwhile, "id bigint").createOrReplaceTempView("meanwhile")
    sql("MERGE INTO {ns}.t USING meanwhile AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + 1")
    ds = lance.dataset(place)
    assert ds.version == 4
    assert sorted(ds.to_table()["n"].to_pylist()) == [0] * 10 + [1] * 10 + [5] + [1001] * 20


def test_two_sessions_change_rows_at_the_same_time(spark, uri):
    """On fifty fragments: each change counts once, whichever comes first, also where both change the same rows."""
    rows = pa.table({"id": pa.array(range(200), pa.int64()), "n": pa.array([0] * 200, pa.int32())})
    lance.write_dataset(rows, uri, max_rows_per_file=4, enable_stable_row_ids=True)
    assert len(lance.dataset(uri).get_fragments()) == 50
    errors = []

    def change(session, step):
        try:
            for _ in range(2):
                session.sql(f"UPDATE lance.`{uri}` SET n = n + 1 WHERE id % {step} = 0").collect()
            session.sql(f"DELETE FROM lance.`{uri}` WHERE id = {200 - step}").collect()
        except BaseException as error:
            errors.append(error)

    writers = [threading.Thread(target=change, args=(spark.newSession(), step)) for step in (2, 3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not errors, errors
    found = lance.dataset(uri).scanner(with_row_id=True).to_table().sort_by("id").to_pydict()
    kept = [number for number in range(200) if number not in (197, 198)]
    expected = [2 * (number % 2 == 0) + 2 * (number % 3 == 0) for number in kept]
    assert (found["id"], found["n"], found["_rowid"]) == (kept, expected, kept)


def test_a_subquery_over_the_table_is_of_the_same_version(sql, refused, spark, space):
    """What a subquery found in an old version does not decide on rows of a newer one: the conflict is told."""
    sql("CREATE TABLE {ns}.t AS SELECT /*+ COALESCE(1) */ id, 0 AS n FROM range(4)")
    place = space.location("t")

    def meanwhile(batches):
        if lancelet.dataset(place).version == 1:
            lancelet.dataset(place).update({"n": "1000"}, "id < 2")
        yield from batches

    spark.range(0, 4, 1, 1).mapInArrow(meanwhile, "id bigint").createOrReplaceTempView("meanwhile")
    most = "(SELECT max(n) FROM {ns}.t)"
    error = refused(f"UPDATE {{ns}}.t SET n = -1 WHERE id IN (SELECT id FROM meanwhile) AND n <= {most}")
    assert "RetryableCommitConflict" in str(error)
    assert sorted(lance.dataset(place).to_table()["n"].to_pylist()) == [0, 0, 1000, 1000]


def test_keys_of_new_rows_are_told(sql, spark, space):
    """In a table with a primary key, two merges that insert the same key do not both insert it."""
    sql("CREATE TABLE {ns}.t (id BIGINT NOT NULL, n INT, PRIMARY KEY (id) NOT ENFORCED)")
    sql("INSERT INTO {ns}.t VALUES (1, 1)")
    place = space.location("t")

    def meanwhile(batches):
        ds = lancelet.dataset(place)
        if ds.version == 2:
            new = pa.table({"id": [2], "n": pa.array([7], pa.int32())}, schema=ds.schema)
            ds.merge_insert("id").when_not_matched_insert_all().execute(new)
        yield from batches

    spark.range(1, 4, 1, 1).mapInArrow(meanwhile, "id bigint").createOrReplaceTempView("meanwhile")
    sql("MERGE INTO {ns}.t USING meanwhile AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 9)")
    assert sql("SELECT id, n FROM {ns}.t ORDER BY id") == [(1, 1), (2, 7), (3, 9)]


KILLED = """
import os, signal, sys
import pyarrow as pa
from lancelet.spark import local_session

spark = local_session(1, memory="512m", settings={"spark.log.level": "OFF"})
driver = (spark.sparkContext._gateway.proc.pid, os.getpid())

def kill(batches):
    for batch in batches:
        yield batch
        if 35 in batch.column(0).to_pylist():
            for process in driver:
                os.kill(process, signal.SIGKILL)

spark.range(0, 40, 1, 1).mapInArrow(kill, "id bigint").createOrReplaceTempView("s")
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
spark.sql(f"MERGE INTO lance.`{sys.argv[1]}` t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = 'x' "
          "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
"""


@pytest.mark.soak
@ONE_TABLE
def test_a_statement_that_is_killed_leaves_the_table_as_it_was(pair):
    done = subprocess.run([sys.executable, "-c", KILLED, pair.sql], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    pair.assert_same()
    lancelet.dataset(pair.sql).cleanup_old_versions(timedelta(0), delete_unverified=True)
    held = {file.path for fragment in lance.dataset(pair.sql).get_fragments() for file in fragment.metadata.files}
    assert data_files(pair.sql) == held


def test_a_column_that_hides_addresses(refused, space, tmp_path):
    place = str(tmp_path / "hiding.lance")
    ds = lance.write_dataset(pa.table({"id": [1, 2], "x": [1, 2]}), place)
    ds.alter_columns({"path": "x", "name": "_rowaddr"})
    error = refused(f"UPDATE {space.name}.`{place}` SET id = 3")
    assert "hides the addresses" in str(error)

"""Compaction and backfill: what tasks wrote in vain goes, and rows that are in order stay where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

import lancelet
from lancelet.errors import LanceletError
from lancelet.execution.table_reader import TableReader
from lancelet.spark import LanceTable
from lancelet.spark.options import WHOLE_FRAGMENTS
from lancelet.spark.plan import ReadJob, plan_splits
from lancelet.spark.table.backfill import moves_rows
from lancelet.spark.table.compaction import RewriteTask, rewrite
from spark.conftest import data_files


def referenced(uri: str) -> set[str]:
    """Names of the data files of all versions."""
    newest = lancelet.dataset(uri)
    return {
        file.path
        for version in newest.versions()
        for fragment in lancelet.dataset(uri, version=version["version"]).get_fragments()
        for file in fragment.metadata.files
    }


@pytest.fixture
def table(uri):
    data = pa.table({"id": np.arange(1000), "s": [f"row {n}" for n in range(1000)]})
    lancelet.write_dataset(data, uri, max_rows_per_file=100).delete("id % 7 = 0")
    return uri


@pytest.fixture
def twins(monkeypatch):
    """Every task runs twice, as if Spark had not waited for the first; the second result counts."""
    import lancelet.spark.table.backfill as backfill
    import lancelet.spark.table.compaction as compaction

    def twice(run):
        def doubled(spark, work, tasks, note=None):
            def both(task):
                work(task)
                return work(task)

            return run(spark, both, tasks, note)

        return doubled

    for module in (backfill, compaction):
        monkeypatch.setattr(module, "run_tasks", twice(module.run_tasks))


def doubling(last: int = 1000):
    """A function that workers get by value; it fails at some row."""

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["id"][0].as_py() >= last:
            raise ValueError("no more")
        return pa.record_batch({"twice": pa.compute.multiply(batch["id"], 2)})

    return double


def test_files_of_other_attempts_are_removed(spark, table, twins):
    held = LanceTable.forPath(spark, table)
    held.addColumns(doubling())
    assert data_files(table) == referenced(table)
    held.optimize().executeCompaction()
    assert data_files(table) == referenced(table)
    found = lancelet.dataset(table).to_table()
    assert found["twice"].to_pylist() == [2 * n for n in range(1000) if n % 7]


def test_a_backfill_that_fails_leaves_no_files(spark, table, twins):
    before = data_files(table)
    with pytest.raises(Exception, match="no more"):
        LanceTable.forPath(spark, table).addColumns(doubling(500))
    assert data_files(table) == before


def test_noted_fragments_survive_a_failure(spark, table, twins, tmp_path):
    held, notes = LanceTable.forPath(spark, table), str(tmp_path / "notes")
    before = data_files(table)
    with pytest.raises(Exception, match="no more"):
        held.addColumns(doubling(500), checkpoint=notes)
    finished = len(list(Path(notes).glob("*.json")))
    assert finished
    assert len(data_files(table) - before) == finished
    held.addColumns(doubling(), checkpoint=notes)
    assert data_files(table) == referenced(table)
    assert lancelet.dataset(table).to_table(["twice"])["twice"].to_pylist() == [2 * n for n in range(1000) if n % 7]


def test_a_rewrite_names_its_files(table):
    snapshot = lancelet.dataset(table).table.snapshot
    from lancelet.maintenance.compaction.options import compaction_settings
    from lancelet.spark.attempts import new_stem, sweep
    from lancelet.spark.options import TableRef

    before, stem = data_files(table), new_stem()
    settings = compaction_settings({}, snapshot.manifest)
    rewrite(RewriteTask(TableRef(snapshot.uri, {}, snapshot.version), (0, 1), settings, stem))
    assert data_files(table) > before
    sweep(snapshot.store, stem)
    assert data_files(table) == before


# Rows in order


def test_fragments_are_not_cut(table):
    snapshot = lancelet.dataset(table).table.snapshot
    job = ReadJob(snapshot.uri, snapshot.version, columns=("id", "s"))
    splits = plan_splits(snapshot, job, split_bytes=1, whole_fragments=True)
    assert [split.pieces for split in splits] == [((number, 0, 100),) for number in range(10)]
    (one,) = plan_splits(snapshot, job, whole_fragments=True)
    assert len(one.pieces) == 10


def test_expressions_move_no_rows(spark, table):
    frame = spark.read.format("lance").option(WHOLE_FRAGMENTS, "true").option("rowAddress", "true").load(table)
    assert not moves_rows(frame.select("_rowaddr", F.expr("upper(s)")))
    assert not moves_rows(frame.select("_rowaddr", F.udf(lambda x: x + 1, "long")("id")))
    assert moves_rows(frame.select("_rowaddr", F.expr("row_number() over (order by s)")))


def test_expressions_over_one_row_and_over_many(spark, table):
    held = LanceTable.forPath(spark, table)
    held.addColumns({"upper": "upper(s)", "place": "row_number() over (order by id desc)"})
    held.addColumns({"next": "id + 1"})
    found = lancelet.dataset(table).to_table()
    ids = [n for n in range(1000) if n % 7]
    assert found["id"].to_pylist() == ids
    assert found["upper"].to_pylist() == [f"ROW {n}" for n in ids]
    assert found["next"].to_pylist() == [n + 1 for n in ids]
    assert found["place"].to_pylist() == list(range(len(ids), 0, -1))


def test_expressions_that_lose_rows_are_refused(spark, table):
    with pytest.raises(LanceletError):
        LanceTable.forPath(spark, table).addColumns({"x": "explode(array(1, 2))"})
    assert TableReader(lancelet.dataset(table).table.snapshot).snapshot.version == 2

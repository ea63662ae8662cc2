"""Executors that are killed in the middle of their work, on a cluster; Spark runs their tasks again elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import lance
import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyspark.cloudpickle import register_pickle_by_value

import lancelet
from lancelet.spark import LanceTable
from lancelet.spark.table import indices
from spark.conftest import data_files
from spark.sessions import MODE

pytestmark = pytest.mark.skipif(MODE != "cluster", reason="there is no executor to lose")
ROWS = 20_000
# Executors do not have the tests.
register_pickle_by_value(sys.modules[__name__])


def lost(mark: str) -> None:
    """Kill the executor that this task runs in, the first time."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    java = next(process for process in psutil.Process().parents() if process.name() == "java")
    java.kill()
    os._exit(1)


def dying(mark: str, partition: int = 1):
    """Hand batches on; in one partition the executor dies after the first."""

    def handed(batches):
        from pyspark import TaskContext

        for batch in batches:
            yield batch
            if TaskContext.get().partitionId() == partition:
                lost(mark)

    return handed


def held(uri: str) -> set[str]:
    """Data files of all versions."""
    versions = [lance.dataset(uri, version=entry["version"]) for entry in lance.dataset(uri).versions()]
    return {file.path for ds in versions for fragment in ds.get_fragments() for file in fragment.metadata.files}


def test_a_write(spark, uri, tmp_path):
    mark = tmp_path / "lost"
    frame = spark.range(0, ROWS, 1, 4).mapInArrow(dying(str(mark)), "id bigint")
    frame.write.format("lance").mode("append").option("maxRowsPerFile", 2000).save(uri)
    assert mark.exists()
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == list(range(ROWS))
    assert data_files(uri) == held(uri)


@pytest.fixture
def table(uri: str) -> str:
    lance.write_dataset(pa.table({"id": np.arange(ROWS), "x": np.arange(ROWS)}), uri, max_rows_per_file=ROWS // 5)
    return uri


def test_a_merge(spark, table, tmp_path):
    mark = tmp_path / "lost"
    source = spark.range(ROWS // 2, ROWS * 3 // 2, 1, 2).mapInArrow(dying(str(mark)), "id bigint").alias("s")
    merge = LanceTable.forPath(spark, table).merge(source, "target.id = s.id")
    done = merge.whenMatchedUpdate(set={"x": "-1"}).whenNotMatchedInsertAll().execute()
    assert mark.exists()
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (ROWS // 2, ROWS // 2)
    ds = lance.dataset(table)
    assert sorted(ds.to_table()["id"].to_pylist()) == list(range(ROWS * 3 // 2))
    assert ds.count_rows("x = -1") == ROWS // 2
    assert data_files(table) == held(table)


def test_a_backfill(spark, table, tmp_path):
    mark = str(tmp_path / "lost")

    def twice(batch):
        from pyspark import TaskContext

        if TaskContext.get() is not None:
            lost(mark)
        return pa.record_batch({"twice": pa.compute.multiply(batch["id"], 2)})

    LanceTable.forPath(spark, table).addColumns(twice)
    assert Path(mark).exists()
    found = lance.dataset(table).to_table(["id", "twice"])
    assert pa.compute.equal(found["twice"], pa.compute.multiply(found["id"], 2)).to_pylist() == [True] * ROWS
    assert data_files(table) == held(table)


def test_a_compaction(spark, table, tmp_path):
    """The executors die beside it: a job that loses them runs on the other cores."""
    mark = tmp_path / "lost"
    spark.range(0, 2, 1, 2).mapInArrow(dying(str(mark)), "id bigint").collect()
    LanceTable.forPath(spark, table).optimize().executeCompaction(target_rows_per_fragment=ROWS)
    ds = lance.dataset(table)
    assert (len(ds.get_fragments()), ds.count_rows()) == (1, ROWS)
    assert data_files(table) == held(table)


def test_an_index_on_vectors(spark, uri, tmp_path):
    """An executor dies while it encodes; the index is the one of a single process, and nothing is left of the task."""
    from lancelet.index.vector.kind import VectorKind

    class Dying(VectorKind):
        def write(self, sources, rows, out, options):
            from pyspark import TaskContext

            if TaskContext.get() is not None and TaskContext.get().partitionId() == 1:
                lost(mark)
            return VectorKind.write(self, sources, rows, out, options)

    mark = str(tmp_path / "lost")
    values = np.random.default_rng(5).standard_normal((2000, 8)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 8)
    places = [uri, f"{uri}.alone"]
    for place in places:
        lance.write_dataset(pa.table({"id": np.arange(2000), "vector": vectors}), place, max_rows_per_file=400)
    options = {"num_partitions": 4, "num_sub_vectors": 4}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indices, "_PART_BYTES", 400 * 32)
        patch.setattr(indices, "kind_named", lambda name: Dying())
        LanceTable.forPath(spark, uri).createIndex("vector", "IVF_PQ", **options)
    assert Path(mark).exists()
    lancelet.dataset(places[1]).create_index("vector", "IVF_PQ", **options)
    nearest = {"column": "vector", "q": values[:5], "nprobes": 2}
    found, expected = (lancelet.dataset(place).to_table(nearest=nearest) for place in places)
    assert found.equals(expected)
    (segment,) = lancelet.dataset(uri).describe_indices()[0].segments
    assert {path.parent.name for path in Path(uri, "_indices").rglob("*") if path.is_file()} == {segment.uuid}

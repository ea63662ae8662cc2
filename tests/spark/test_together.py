"""Two merges and an append by Spark at the same time, one merge held back until the others have committed."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.cloudpickle import register_pickle_by_value

from lancelet.spark import LanceTable
from spark.conftest import data_files

ROWS, APPENDED = 100, 10
# Executors do not have the tests.
register_pickle_by_value(sys.modules[__name__])


def held_back(gate: str, runs: str):
    """Count the runs; the first one waits until somebody has opened the gate and closed it again."""

    def handed(batches):
        first = not Path(runs).exists()
        with Path(runs).open("a") as note:
            note.write("run\n")
        if first:
            Path(gate).read_bytes()
        yield from batches

    return handed


def merge(spark, uri, source, value):
    found = LanceTable.forPath(spark, uri).merge(source.alias("s"), "target.id = s.id")
    found.whenMatchedUpdate(set={"x": str(value)}).whenNotMatchedInsert(
        values={"id": "s.id", "x": str(value)}
    ).execute()


@pytest.mark.parametrize(
    ("others", "runs"), [((5, 15), 2), ((10, 20), 1)], ids=["the same rows: again", "other rows: rebased"]
)
def test_a_merge_that_comes_late(spark, uri, tmp_path, others, runs):
    table = pa.table({"id": np.arange(ROWS), "x": np.arange(ROWS)})
    lance.write_dataset(table, uri, max_rows_per_file=ROWS // 2)
    gate, noted = tmp_path / "gate", tmp_path / "runs"
    os.mkfifo(gate)
    late = spark.range(0, 10, 1, 1).mapInArrow(held_back(str(gate), str(noted)), "id bigint")
    errors = []

    def come_late():
        try:
            merge(spark, uri, late, -1)
        except BaseException as error:
            errors.append(error)
            # Nobody else opens the gate then.
            os.close(os.open(gate, os.O_RDONLY | os.O_NONBLOCK))

    thread = threading.Thread(target=come_late)
    thread.start()
    with gate.open("wb"):
        if not errors:
            merge(spark, uri, spark.range(*others), -2)
            more = spark.range(ROWS, ROWS + APPENDED).selectExpr("id", "id as x")
            more.write.format("lance").mode("append").save(uri)
    thread.join()
    assert not errors
    ds = lance.dataset(uri)
    names = [ds.read_transaction(version).operation.__class__.__name__ for version in (2, 3, 4)]
    assert names == ["Update", "Append", "Update"]
    assert (ds.version, noted.read_text().count("run")) == (4, runs)
    found = ds.to_table().sort_by("id")
    wanted = np.arange(ROWS + APPENDED)
    wanted[others[0] : others[1]] = -2
    wanted[:10] = -1
    assert found["id"].to_pylist() == list(range(ROWS + APPENDED))
    assert found["x"].to_pylist() == wanted.tolist()
    held = {
        file.path
        for version in range(1, 5)
        for fragment in lance.dataset(uri, version=version).get_fragments()
        for file in fragment.metadata.files
    }
    assert data_files(uri) == held

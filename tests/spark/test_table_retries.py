"""Tasks of a table's change that Spark runs again, in a session that is allowed to; it needs a process of its own."""

from __future__ import annotations

import subprocess
import sys

import lance
import numpy as np
import pyarrow as pa
import pytest

from spark.conftest import data_files

PROGRAM = """
import sys
from pyspark import TaskContext
from lancelet.spark import LanceTable, local_session

uri, work = sys.argv[1:]
spark = local_session(2, settings={"spark.master": "local[2,3]", "spark.log.level": "OFF"})

def fails_once(batches):
    yield from batches
    if TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("first attempt")

def fills(batch):
    import pyarrow as pa
    if TaskContext.get() is not None and TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() % 2:
        import os
        os._exit(1)
    return pa.record_batch({"twice": pa.compute.multiply(batch["id"], 2)})

table = LanceTable.forPath(spark, uri)
if work == "merge":
    source = spark.range(500, 1500, 1, 4).repartition(2).mapInArrow(fails_once, "id bigint").alias("s")
    print(table.merge(source, "target.id = s.id").whenMatchedUpdate(set={"x": "-1"}).whenNotMatchedInsertAll().execute())
else:
    table.addColumns(fills)
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.parametrize("work", ["merge", "backfill"])
def test_rows_are_changed_once(uri, work):
    lance.write_dataset(pa.table({"id": np.arange(1000), "x": np.arange(1000)}), uri, max_rows_per_file=100)
    done = subprocess.run([sys.executable, "-c", PROGRAM, uri, work], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    ds = lance.dataset(uri)
    assert ds.version == 2
    found = ds.to_table().sort_by("id")
    if work == "merge":
        assert found["id"].to_pylist() == list(range(1500))
        assert ds.count_rows("x = -1") == 500
        # What the first attempts wrote is gone too.
        old = lance.dataset(uri, version=1)
        held = {file.path for d in (ds, old) for fragment in d.get_fragments() for file in fragment.metadata.files}
        assert data_files(uri) == held
    else:
        assert found["twice"].to_pylist() == list(range(0, 2000, 2))

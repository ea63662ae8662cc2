"""Tasks that Spark runs again, in a session that is allowed to; it needs a process of its own."""

from __future__ import annotations

import subprocess
import sys

import lance
import pytest

from spark.conftest import data_files

PROGRAM = """
import sys
from pyspark import TaskContext
from lancelet.spark import local_session

uri = sys.argv[1]
spark = local_session(2, settings={"spark.master": "local[2,3]", "spark.log.level": "OFF", **dict(arg.split("=") for arg in sys.argv[2:])})

def fails_once(batches):
    for batch in batches:
        yield batch
    if TaskContext.get().partitionId() % 2 == 0 and TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("first attempt")

def straggles_once(batches):
    import time
    yield from batches
    if TaskContext.get().partitionId() == 3 and TaskContext.get().attemptNumber() == 0:
        time.sleep(20)

frame = spark.range(0, 100_000, 1, 4)
work = straggles_once if "spark.speculation=true" in sys.argv else fails_once
frame.mapInArrow(work, "id bigint").write.format("lance").mode("append").option("maxRowsPerFile", 7000).save(uri)
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    "settings",
    [(), ("spark.speculation=true", "spark.speculation.interval=50ms", "spark.speculation.minTaskRuntime=50ms")],
    ids=["retried", "speculative"],
)
def test_rows_are_written_once(uri, settings):
    done = subprocess.run([sys.executable, "-c", PROGRAM, uri, *settings], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    ds = lance.dataset(uri)
    assert sorted(ds.to_table()["id"].to_pylist()) == list(range(100_000))
    held = {file.path for fragment in ds.get_fragments() for file in fragment.metadata.files}
    assert data_files(uri) == held

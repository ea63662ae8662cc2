"""What is done once in the processes that Spark keeps, and only there."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from lancelet.spark import configure
from lancelet.spark.daemon import MODULE, unpacked
from lancelet.spark.session import STARTUP
from lancelet.spark.workers import a_task, settle
from spark.sessions import MODE

FROZEN = """
import gc, importlib.util, sys
sys.modules["__main__"].__spec__ = importlib.util.find_spec({name!r})
from lancelet.spark.workers import a_task
with a_task():
    print(gc.get_freeze_count())
"""
FORKED = """
import os, random, sys
from lancelet.spark.daemon import prepare

prepare("pyspark.worker")
import numpy as np
import pyspark

print(pyspark.__file__, len([name for name in sys.path if name.endswith("pyspark.zip")]), flush=True)
np.random.seed(1)
random.seed(1)
for _ in range(2):
    child = os.fork()
    if not child:
        print(np.random.randint(1 << 60), random.getrandbits(60), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
HOME = Path(pyspark.__file__).parent
ZIP = HOME / "python" / "lib" / "pyspark.zip"


def frozen(name: str) -> int:
    """Objects that the collector passes over in a process that runs a module."""
    done = subprocess.run([sys.executable, "-c", FROZEN.format(name=name)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_imported_modules_are_not_looked_at_again():
    assert frozen("pyspark.daemon") > 1000
    assert frozen(MODULE) > 1000
    assert frozen("pyspark.worker") == frozen("json") < 1000


def test_programs_are_left_alone():
    before = gc.get_freeze_count()
    settle()
    with a_task():
        pass
    assert gc.get_freeze_count() == before


def test_the_folder_that_a_zip_was_packed_from(tmp_path: Path):
    distribution, elsewhere = tmp_path / "spark" / "python", tmp_path / "staging"
    for folder in (distribution / "lib", distribution / "pyspark", elsewhere):
        folder.mkdir(parents=True)
    (distribution / "pyspark" / "__init__.py").touch()
    assert unpacked(ZIP) == HOME.parent
    assert unpacked(distribution / "lib" / "pyspark.zip") == distribution
    assert unpacked(elsewhere / "pyspark.zip") is None
    assert unpacked(tmp_path / "python" / "lib" / "pyspark.zip") is None


def test_workers_are_forked_with_pyspark_unpacked_and_draw_numbers_of_their_own():
    environment = {**os.environ, "PYTHONPATH": str(ZIP), "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"}
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, env=environment)
    where, *drawn = done.stdout.splitlines()
    assert where == f"{HOME / '__init__.py'} 1"
    numbers = {number for line in drawn for number in line.split()}
    assert len(numbers) == 4


def test_what_runs_at_the_start_of_python_still_runs(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(STARTUP), str(tmp_path)))}
    program = "import sys; print('lancelet' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["mine", "False"]


@pytest.mark.parametrize(
    ("master", "daemon"),
    [("local[2]", MODULE), ("local-cluster[1,1,1024]", None), ("spark://host:7077", None), ("yarn", None)],
)
def test_executors_elsewhere_keep_their_own_daemon(master: str, daemon: str | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(master)
    assert configure(builder)._options.get("spark.python.daemon.module") == daemon
    builder = SparkSession.Builder().master(master).config("spark.python.daemon.module", "mine")
    assert configure(builder)._options["spark.python.daemon.module"] == "mine"


@pytest.mark.skipif(MODE == "cluster", reason="executors elsewhere have Spark's own daemon")
def test_tasks_run_in_forks_of_the_daemon(spark: SparkSession):
    def describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyspark

        for _ in batches:
            main = sys.modules["__main__"].__spec__
            told = [main and main.name, pyspark.__file__, "lancelet.spark.plan" in sys.modules]
            yield pa.record_batch({"told": [json.dumps(told)]})

    (row,) = spark.range(1).mapInArrow(describe, "told string").collect()
    assert json.loads(row.told) == [MODULE, str(HOME / "__init__.py"), True]

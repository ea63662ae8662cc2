"""What is done once in the processes that Spark keeps, and only there."""

from __future__ import annotations

import gc
import subprocess
import sys

from lancelet.spark.workers import a_task, settle

FROZEN = """
import gc, importlib.util, sys
sys.modules["__main__"].__spec__ = importlib.util.find_spec({name!r})
from lancelet.spark.workers import a_task
with a_task():
    print(gc.get_freeze_count())
"""


def frozen(name: str) -> int:
    """Objects that the collector passes over in a process that runs a module."""
    done = subprocess.run([sys.executable, "-c", FROZEN.format(name=name)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_imported_modules_are_not_looked_at_again():
    assert frozen("pyspark.daemon") > 1000
    assert frozen("pyspark.worker") == frozen("json") < 1000


def test_programs_are_left_alone():
    before = gc.get_freeze_count()
    settle()
    with a_task():
        pass
    assert gc.get_freeze_count() == before

"""A part of the tests once more: without the bridge, on a cluster of processes, and over Spark Connect.

``make cluster`` runs all of them on the last two.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark.sessions import MODE

HERE = Path(__file__).parent
TABLES = (
    "test_table.py::test_delete[addresses]",
    "test_table.py::test_upsert[stable]",
    "test_table_columns.py::test_expressions",
)
ALL_KINDS = (
    "test_read.py::test_the_doctor_finds_nothing_wrong",
    "test_write.py::test_append_overwrite_and_their_like[lance]",
    "test_write.py::test_a_failed_task_leaves_nothing[lance]",
    "test_mistakes.py::test_writes[lance]",
    "test_streams.py::test_from_table_to_table[lance]",
    "test_bridge.py::test_counts_and_limits",
    "test_table.py::test_compaction[addresses]",
    "test_table_columns.py::test_function",
)
CHOSEN = {
    "plain": (*TABLES, "test_table.py::test_all_clauses[addresses]"),
    "cluster": (*TABLES, *ALL_KINDS, "test_lost_executors.py::test_a_write"),
    "connect": (*TABLES, *ALL_KINDS),
}


@pytest.mark.skipif(MODE != "local", reason="this is elsewhere")
@pytest.mark.parametrize("mode", CHOSEN)
def test_the_same_elsewhere(mode):
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / name) for name in CHOSEN[mode])],
        cwd=HERE.parent.parent,
        env={**own, "LANCELET_SPARK": mode},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]

"""A few of the tests once more: on a cluster of processes, and over Spark Connect without the bridge.

``make cluster`` runs all of them on a cluster and over Connect, with the bridge.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spark.kept import kept
from spark.sessions import MODE

HERE = Path(__file__).parent
CHOSEN = {
    "cluster": ("test_lost_executors.py::test_a_write",),
    "connect-plain": ("test_table.py::test_upsert[stable]",),
}
MORE = {
    "cluster": ("test_read.py::test_the_doctor_finds_nothing_wrong", "test_table.py::test_upsert[stable]"),
    "connect-plain": (
        "test_write.py::test_append_overwrite_and_their_like[lance]",
        "test_streams.py::test_from_table_to_table[lance]",
    ),
}
pytestmark = pytest.mark.skipif(MODE != "local", reason="this is elsewhere")


@pytest.mark.parametrize("mode", [pytest.param("cluster", marks=pytest.mark.soak), "connect-plain"])
def test_the_same_elsewhere(mode):
    pass_there(mode, CHOSEN[mode])


@pytest.mark.soak
@pytest.mark.parametrize("mode", MORE)
def test_more_of_the_same_elsewhere(mode):
    pass_there(mode, MORE[mode])


def pass_there(mode, chosen):
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "SPARK_", "PYSPARK_"))}
    names = [str(HERE / name) for name in chosen]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(HERE.parents[1]),
        *names,
    ]
    with kept(command, {**own, "LANCELET_SPARK": mode}) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        assert process.wait() == 0, said[-6000:]


HOLDING = """
import os, sys
from spark.kept import kept
with kept(["sh", "-c", "echo $$; sleep 1000 & wait"], os.environ) as process:
    print(process.stdout.readline(), end="", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_what_a_killed_test_started_ends_with_it(number):
    command = [sys.executable, "-c", HOLDING]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    holder = subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with holder:
        assert holder.stdout is not None
        shell = psutil.Process(int(holder.stdout.readline()))
        started = [shell, *shell.children(recursive=True)]
        holder.send_signal(number)
    assert not psutil.wait_procs(started, timeout=60)[1]

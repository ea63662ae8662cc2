"""Where the Spark tests run: inside this process, there without the bridge, on a cluster of processes, or over Spark Connect.

``LANCELET_SPARK`` chooses: ``local``, ``cluster`` or ``connect``, or without the bridge ``plain`` or ``connect-plain``.
``make cluster`` runs all tests on a cluster and over Connect.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pyspark

from spark.kept import kept

MODE = os.environ.get("LANCELET_SPARK", "local")
MODES = ("local", "plain", "cluster", "connect", "connect-plain")
WORKERS = 2
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.log.level": "OFF",
}
# A cluster loses executors; elsewhere a task that fails would fail again.
TRIES = {mode: {"spark.task.maxFailures": "4" if mode == "cluster" else "1"} for mode in MODES}


@contextmanager
def started(mode: str, scratch: Path, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A session, stopped at the end together with everything that was started for it."""
    from pyspark.sql import SparkSession

    from lancelet.spark import configure

    if mode not in MODES:
        raise ValueError(f"LANCELET_SPARK is one of {', '.join(MODES)}, not {mode!r}")
    places = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    with ExitStack() as stack:
        builder = SparkSession.builder
        if mode.startswith("connect"):
            # A port that is free; the client asks the environment too.
            os.environ["SPARK_TESTING"] = "1"
            builder = builder.remote("local[2]")
        elif mode == "cluster":
            builder = builder.master(stack.enter_context(cluster(scratch)))
        else:
            builder = builder.master("local[2]")
        for key, value in {**SETTINGS, **places, **TRIES[mode], **(settings or {})}.items():
            builder = builder.config(key, value)
        with preloaded_workers():
            session = configure(builder, bridge=not mode.endswith("plain")).getOrCreate()
        stack.callback(session.stop)
        yield session


@contextmanager
def preloaded_workers() -> Iterator[None]:
    """The Java that is started meanwhile has Python daemons that have imported what their workers need, also those that the
    bridge does not start. Spark starts a worker anew whenever one has raised an error, which tests provoke all the time.
    """
    from lancelet.spark.session import STARTUP

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(STARTUP), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def cluster(scratch: Path) -> Iterator[str]:
    """A master and its workers, each a process on the loopback; the address of the master."""
    with ExitStack() as stack:
        master = stack.enter_context(_daemon("master.Master", r"Starting Spark master at (spark://\S+)"))
        for number in range(WORKERS):
            worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(scratch / f"worker{number}"), master)
            stack.enter_context(_daemon("worker.Worker", r"Successfully registered with master (\S+)", *worker))
        yield master


@contextmanager
def _daemon(name: str, sign: str, *arguments: str) -> Iterator[str]:
    """Start a process of Spark, and wait until it says that it is there; what it said."""
    home = Path(pyspark.__file__).parent
    where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *where, *arguments]
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with kept(command, env) as process:
        yield sign_of_life(process, sign)


def sign_of_life(process: subprocess.Popen[str], sign: str) -> str:
    """Wait until a process says something; what it said."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        found = re.search(sign, line)
        if found is not None:
            # The pipe must not fill up.
            threading.Thread(target=_drain, args=(process.stdout,), daemon=True).start()
            return found.group(1)
    raise RuntimeError(f"{process.args!r} did not start:\n{''.join(said)}")


def _drain(output: IO[str]) -> None:
    with output:
        for _ in output:
            pass

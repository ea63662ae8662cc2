"""Why Spark does not find the data source ``lance``, in words."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SET_PYTHON = (
    f"set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to {sys.executable} before the session starts, or let "
    "lancelet.spark.configure(builder) do it"
)
BRIDGE_CLASS = "io.lancelet.spark.LanceProvider"


@dataclass(frozen=True, slots=True)
class Findings:
    """What the doctor saw."""

    problems: tuple[str, ...]
    """Each with what to do about it; none, and all is well."""
    facts: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"problem: {problem}" for problem in self.problems] or ["all is well"]
        return "\n".join([*lines, *(f"  {fact}" for fact in self.facts)])


def doctor(spark: SparkSession) -> Findings:
    """Look at a session's driver and workers, and say what keeps them from using Lance tables.

    Spark reports a data source that its Python processes cannot import as one that does not exist; this tells the
    reason.

    Examples
    --------
    >>> from lancelet.spark import doctor, local_session
    >>> print(doctor(local_session()))  # doctest: +SKIP
    all is well
    """
    driver = _describe()
    workers = spark.range(2, numPartitions=2).mapInArrow(_describe_batches, "found string").collect()
    found = [json.loads(row.found) for row in workers]
    worker = found[0] if found else driver
    planner = _planner(spark)
    problems = [*_differences(driver, worker), *_missing(worker), *_blind(planner)]
    bridge = _has_bridge(spark)
    facts = [
        f"Spark {spark.version}, Python of the driver: {driver['python']} ({driver['executable']})",
        f"Python of the workers: {worker['python']} ({worker['executable']})",
        f"Python that looks for data sources: {planner or 'that of the server'}",
        f"bridge: {'loaded' if bridge else 'not loaded; lancelet.spark.configure(builder) adds it before the start'}",
    ]
    return Findings(tuple(problems), tuple(facts))


def _describe() -> dict[str, str]:
    return {
        "executable": sys.executable,
        "python": platform.python_version(),
        "lancelet": "yes" if find_spec("lancelet") else "",
        "pyspark_lance": "yes" if find_spec("pyspark_lance") else "",
    }


def _describe_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"found": pa.array([json.dumps(_describe())] * batch.num_rows, pa.string())})


def _differences(driver: dict[str, str], worker: dict[str, str]) -> Iterator[str]:
    if driver["python"].rpartition(".")[0] != worker["python"].rpartition(".")[0]:
        yield (
            f"the workers run Python {worker['python']}, the driver {driver['python']}; set spark.pyspark.python to "
            f"{driver['executable']} before the session starts"
        )


def _missing(worker: dict[str, str]) -> Iterator[str]:
    if not worker["lancelet"] or not worker["pyspark_lance"]:
        yield (
            f"the workers' Python, {worker['executable']}, has no lancelet; install it there with "
            "`pip install 'lancelet[spark]'`, or set spark.pyspark.python to a Python that has it"
        )


def _planner(spark: SparkSession) -> str | None:
    """The Python that Spark starts beside the driver to find and plan data sources; None over Spark Connect."""
    context = getattr(spark, "_jvm", None)
    if context is None:
        return None
    found = getattr(getattr(context.org.apache.spark.api.python, "PythonUtils$"), "MODULE$")
    return str(found.defaultPythonExec())


def _blind(planner: str | None) -> Iterator[str]:
    """Whether that Python sees the data source."""
    if planner is None or planner == sys.executable:
        return
    question = "import importlib.util as u, sys; sys.exit(u.find_spec('pyspark_lance') is None)"
    try:
        answer = subprocess.run([planner, "-c", question], check=False, timeout=60)  # noqa: S603 - as Spark runs it
    except OSError as error:
        yield f"Spark looks for data sources with {planner}, which does not run ({error}); {_SET_PYTHON}"
        return
    if answer.returncode:
        yield f"Spark looks for data sources with {planner}, which has no lancelet; {_SET_PYTHON}"


def _has_bridge(spark: SparkSession) -> bool:
    context = getattr(spark, "_jvm", None)
    if context is None:
        return False
    loader = context.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{BRIDGE_CLASS.replace('.', '/')}.class") is not None

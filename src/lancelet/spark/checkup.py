"""Why Spark does not find the data source ``lance``, in words."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SET_PYTHON = (
    f"set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to {sys.executable} before the session starts; "
    "lancelet.spark.configure(builder) does so where they are not set"
)
_LOAD_BRIDGE = (
    "lancelet.spark.configure(builder) adds it before the start, lancelet.spark.add_bridge(spark) to a session over Spark "
    "Connect"
)
BRIDGE_CLASS = "io.lancelet.spark.read.LanceProvider"


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
    >>> from lancelet.spark import doctor
    >>> doctor(spark).problems
    ()
    """
    driver = json.loads(_description()())
    worker, failure = _worker(spark)
    planner = _planner(spark)
    problems = [*(_blind_server(spark) if planner is None else _blind(planner))]
    if worker is None:
        problems.insert(0, f"the workers' Python runs no task: {failure}; {_SET_PYTHON}")
    else:
        problems = [*_differences(driver, worker), *_missing(worker), *problems]
    bridge = "loaded" if _has_bridge(spark) else f"not loaded; {_LOAD_BRIDGE}"
    facts = [
        f"Spark {spark.version}, Python of the driver: {driver['python']} ({driver['executable']})",
        "Python of the workers: " + (f"{worker['python']} ({worker['executable']})" if worker else "not known"),
        f"Python that looks for data sources: {planner or 'that of the server'}",
        f"bridge: {bridge}",
    ]
    return Findings(tuple(problems), tuple(facts))


def _description() -> Callable[..., str]:
    """What a Python says of itself. The function goes to the workers as it is: they may have no lancelet, and no pyarrow."""

    def describe(*_: object) -> str:
        import json
        import platform
        import sys
        from importlib.util import find_spec

        found = {name: "yes" if find_spec(name) else "" for name in ("lancelet", "pyspark_lance")}
        return json.dumps({"executable": sys.executable, "python": platform.python_version(), **found})

    return describe


def _worker(spark: SparkSession) -> tuple[dict[str, str] | None, str]:
    """The Python of a worker, or why it does not answer."""
    asked = F.udf(_description(), "string", useArrow=False)
    with _quiet():
        try:
            (row,) = spark.range(1).select(asked("id").alias("found")).collect()
        except (PySparkException, Py4JError) as error:
            return None, _last_words(error)
    return json.loads(row.found), ""


def _last_words(error: Exception) -> str:
    """The line of a long text that says what happened."""
    lines = [line.strip() for line in str(error).partition("JVM stacktrace:")[0].splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "...", "File ", "^"))]
    causes = [line for line in telling if re.match(r"[\w.]*(Error|Exception)\b|Caused by:", line)]
    return (causes or telling or [type(error).__name__])[-1]


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


def _blind_server(spark: SparkSession) -> Iterator[str]:
    """Whether the server of Spark Connect sees the data source: a read without a path fails in one way or the other."""
    with _quiet():
        try:
            _ = spark.read.format("lance").load().schema
        except PySparkException as error:
            if str(error.getCondition()).startswith("DATA_SOURCE_NOT_"):
                yield (
                    "the Python with which the server looks for data sources has no lancelet; install it there with "
                    "`pip install 'lancelet[spark]'` and start the server again"
                )


def _has_bridge(spark: SparkSession) -> bool:
    context = getattr(spark, "_jvm", None)
    if context is None:
        return _server_has_bridge(spark)
    loader = context.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{BRIDGE_CLASS.replace('.', '/')}.class") is not None


def _server_has_bridge(spark: SparkSession) -> bool:
    """Over Spark Connect: the server is asked for a method that no class has, and says whether it knows the class."""
    with _quiet():
        try:
            _ = spark.sql(f"SELECT java_method('{BRIDGE_CLASS}', 'none')").schema
        except AnalysisException as error:
            return error.getCondition() == "DATATYPE_MISMATCH.UNEXPECTED_STATIC_METHOD"
    return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Spark's client logs every error that it raises, expected or not."""
    # By Spark's own function: it is a logger of another kind.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)

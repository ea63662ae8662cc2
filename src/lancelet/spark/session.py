"""Setting a Spark session up."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lancelet.errors import MissingFile, MissingPackage, NotSupported
from lancelet.spark.daemon import MODULE
from lancelet.spark.java import find_java
from lancelet.spark.versions import check_spark

JAR = Path(__file__).parent / "jars" / "lancelet-bridge.jar"
CATALOG = "io.lancelet.spark.catalog.LanceCatalog"
EXTENSIONS = "io.lancelet.spark.sql.LanceExtensions"
_CATALOG_SETTING = "spark.sql.catalog.lance"
_DAEMON_SETTING = "spark.python.daemon.module"
_STARTUP_SETTING = "spark.lancelet.startup"
STARTUP = Path(__file__).parent / "startup"


def configure(
    builder: SparkSession.Builder, *, bridge: bool = True, root: str | Path | None = None
) -> SparkSession.Builder:
    """Add to a session's builder the SQL catalog ``lance``, what makes reads fast, and the Python that has lancelet.

    Parameters
    ----------
    builder
        Of a session that is not started yet: a running one takes no more jars. Nothing is changed for a server of Spark
        Connect that runs elsewhere: its Pythons need lancelet, and :func:`add_bridge` hands it the bridge.
    bridge
        Add the classes that let Spark push columns, conditions, limits and counts down, and the SQL catalog. Without
        them data frames work, but reads fetch all columns and all rows.
    root
        The folder whose tables have names in the catalog: ``lance.sales.orders``. Without it, the catalog knows tables by
        their paths: ``lance.`/data/orders.lance```.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> builder = configure(SparkSession.builder.appName("docs"))
    """
    check_spark()
    if str(builder._options.get("spark.remote", os.environ.get("SPARK_REMOTE", ""))).startswith("sc://"):
        # A server that runs has its settings already.
        return builder
    # Tasks go by the setting, planning by the environment that the Java process is started with.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    builder = builder.config("spark.pyspark.python", os.environ["PYSPARK_PYTHON"])
    if _runs_here(builder) and os.environ["PYSPARK_PYTHON"] == sys.executable:
        builder = _with_default(builder, _DAEMON_SETTING, MODULE)
    if not bridge:
        return builder
    builder = _with_entry(builder, "spark.jars", str(bridge_jar()))
    builder = _with_entry(builder, "spark.sql.extensions", EXTENSIONS)
    builder = _with_default(builder, _CATALOG_SETTING, CATALOG)
    builder = _with_default(builder, _STARTUP_SETTING, str(STARTUP))
    if root is not None:
        builder = builder.config(f"{_CATALOG_SETTING}.impl", "dir").config(f"{_CATALOG_SETTING}.root", str(root))
    return builder


def _runs_here(builder: SparkSession.Builder) -> bool:
    """Whether tasks run on this machine, with the Python that runs here; those of a cluster may have no lancelet."""
    master = str(builder._options.get("spark.remote") or builder._options.get("spark.master") or "")
    return master.startswith("local") and not master.startswith("local-cluster")


def _with_default(builder: SparkSession.Builder, setting: str, value: str) -> SparkSession.Builder:
    return builder if setting in builder._options else builder.config(setting, value)


def _with_entry(builder: SparkSession.Builder, setting: str, entry: str) -> SparkSession.Builder:
    """Add to a list that others may have begun."""
    entries = [one for one in str(builder._options.get(setting, "")).split(",") if one]
    return builder if entry in entries else builder.config(setting, ",".join([*entries, entry]))


def add_bridge(spark: SparkSession) -> None:
    """Hand the bridge to a session over Spark Connect; see :func:`configure`.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.builder.remote("sc://host:15002").getOrCreate()  # doctest: +SKIP
    >>> add_bridge(spark)  # doctest: +SKIP
    """
    if hasattr(spark, "_jvm"):
        raise NotSupported(
            "this session is not one of Spark Connect, and takes no more jars; call lancelet.spark.configure(builder) "
            "before it starts"
        )
    spark.addArtifacts(str(bridge_jar()))


def bridge_jar() -> Path:
    """Where the bridge is, for ``spark.jars`` of sessions that others start."""
    check_spark()
    if not JAR.exists():
        raise MissingFile(str(JAR), "the bridge is not built; run `make jar`, or configure with bridge=False")
    return JAR


def local_session(
    cores: int = 2, *, memory: str = "1g", bridge: bool = True, settings: dict[str, str] | None = None
) -> SparkSession:
    """A session of its own inside this process, for programs, demos and tests.

    Parameters
    ----------
    cores
        Tasks that run at once.
    memory
        Of the Java process.
    bridge
        See :func:`configure`.
    settings
        More settings of Spark, which win over those made here.

    Raises
    ------
    MissingPackage
        There is no Java that Spark could use.
    """
    builder = SparkSession.builder.master(f"local[{cores}]")
    own = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for key, value in (own | (settings or {})).items():
        builder = builder.config(key, value)
    from lancelet.spark.search.function import register_functions

    if SparkSession.getActiveSession() is None and (problem := find_java().problem) is not None:
        raise MissingPackage(problem)
    spark = configure(builder, bridge=bridge).getOrCreate()
    register_functions(spark)
    return spark

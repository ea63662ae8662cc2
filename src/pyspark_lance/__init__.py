"""Spark looks for packages named ``pyspark_*`` and registers their ``DefaultSource``: here, the format ``lance``."""

from lancelet.spark.source import LanceDataSource as DefaultSource

__all__ = ["DefaultSource"]

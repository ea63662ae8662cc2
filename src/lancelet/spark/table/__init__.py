"""Tables to change with Spark: ``lance_table`` holds what users call, the other modules one operation each."""

from lancelet.spark.table.lance_table import LanceTable

__all__ = ["LanceTable"]

"""Spark as the engine: the data source ``lance``, tables to change, and what helps to set a session up."""

from lancelet.spark.doctor import doctor
from lancelet.spark.session import configure, local_session
from lancelet.spark.table import LanceTable

__all__ = ["LanceTable", "configure", "doctor", "local_session"]

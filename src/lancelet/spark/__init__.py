"""Spark as the engine: the data source ``lance``, tables to change, and what helps to set a session up."""

from lancelet.spark.doctor import doctor
from lancelet.spark.search.function import register_functions
from lancelet.spark.session import add_bridge, configure, local_session
from lancelet.spark.table import LanceTable

__all__ = ["LanceTable", "add_bridge", "configure", "doctor", "local_session", "register_functions"]

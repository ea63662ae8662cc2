"""Spark as the engine: the data source ``lance``, and what helps to set a session up."""

from lancelet.spark.doctor import doctor
from lancelet.spark.session import configure, local_session

__all__ = ["configure", "doctor", "local_session"]

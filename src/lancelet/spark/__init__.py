"""Spark as the engine: the data source ``lance``, tables to change, and what helps to set a session up."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancelet.errors import MissingPackage

if TYPE_CHECKING:
    from lancelet.spark.checkup import doctor
    from lancelet.spark.search.function import register_functions
    from lancelet.spark.session import add_bridge, configure, local_session
    from lancelet.spark.table import LanceTable

__all__ = ["LanceTable", "add_bridge", "configure", "doctor", "local_session", "register_functions"]
# Spark starts Python processes that read or write a table and need none of these: each is imported when it is used.
_PLACES = {
    "LanceTable": "table",
    "add_bridge": "session",
    "configure": "session",
    "doctor": "checkup",
    "local_session": "session",
    "register_functions": "search.function",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_PLACES[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise MissingPackage("Spark as the engine needs the package pyspark: pip install 'lancelet[spark]'") from error
    return getattr(module, name)

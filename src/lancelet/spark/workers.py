"""The Python processes that Spark keeps, for tasks and for planning.

After everything that such a process did for Spark, Spark has the garbage collector look
at all that it holds, tens of thousands of objects of imported modules, and only then
takes the next task. Imported modules stay anyway, so they are taken out of its sight.
Memory that a task was done with, and that Arrow kept to use again, is given back: the next task
may be of another kind, and would need its own beside it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pyarrow as pa

_DAEMONS = ("pyspark.daemon", "lancelet.spark.daemon")


@cache
def settle() -> None:
    """Call this when the modules are imported; in a process that is not one of Spark's, nothing happens."""
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    if program is not None and program.name in _DAEMONS:
        # What is garbage by now would stay for good.
        gc.collect()
        gc.freeze()


@contextmanager
def a_task() -> Iterator[None]:
    """Around the work of a task."""
    settle()
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()

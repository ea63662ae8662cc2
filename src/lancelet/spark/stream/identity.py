"""Which query and batch a task of a stream works for: Spark tells it by local properties."""

from __future__ import annotations

from pyspark import TaskContext

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


def task_query() -> str | None:
    """The query, by the id that it keeps when it is started again; None outside of one."""
    return _property(_QUERY)


def task_batch() -> str | None:
    """The number of the batch."""
    return _property(_BATCH)


def task_attempt() -> int:
    """How often the task was tried before."""
    task = TaskContext.get()
    return 0 if task is None else task.attemptNumber()


def _property(name: str) -> str | None:
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(name)

"""Deep clones as a Spark job: tasks copy the files, the driver makes the new table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from lancelet.cloning.clone import Copy, deep_clone
from lancelet.spark.table.jobs import run_tasks
from lancelet.store.transfer import copy_object
from lancelet.table.commit.written import WrittenFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

_TASK_BYTES = 256 << 20
_TASK_FILES = 64
_UNKNOWN_BYTES = 1 << 20


def clone_deep(spark: SparkSession, source: Snapshot, target: Store) -> Snapshot:
    """Make a table with copies of all files of a version. An error leaves no files behind."""
    return deep_clone(source, target, partial(_copy_all, spark))


def _copy_all(spark: SparkSession, copies: Iterator[Copy], target: Store, files: WrittenFiles) -> None:
    tasks = list(_tasks(copies))
    for copy in (copy for task in tasks for copy in task):
        files.add(copy.target)
    run_tasks(spark, partial(_copy, target), tasks)


def _tasks(copies: Iterator[Copy]) -> Iterator[tuple[Copy, ...]]:
    """Files that are copied together."""
    held: list[Copy] = []
    size = 0
    for copy in copies:
        held.append(copy)
        size += _UNKNOWN_BYTES if copy.size is None else copy.size
        if size >= _TASK_BYTES or len(held) == _TASK_FILES:
            yield tuple(held)
            held, size = [], 0
    if held:
        yield tuple(held)


def _copy(target: Store, copies: tuple[Copy, ...]) -> int:
    for copy in copies:
        copy_object(copy.source.store, copy.source.path, target, copy.target, copy.size)
    return len(copies)

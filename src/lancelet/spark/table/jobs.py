"""Work on executors whose results come back as small values.

What a task returns is pickled into one row of a data frame. An error that would come
again however often the task is tried is a result too, and is raised on the driver
as it is; any other fails the task, and Spark tries it again. Of a task that ran twice,
Spark hands one result on.
"""

from __future__ import annotations

import pickle
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.errors import PythonException

from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile, InvalidInput, LanceletError, MissingFile, NotSupported
from lancelet.spark.workers import a_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")
R = TypeVar("R")

_LASTING = (InvalidInput, NotSupported, CorruptFile, MissingFile)
"""Errors that a second try does not mend."""
_RESULT = "result binary"
_MOST_TASKS = 512
"""Partitions of a job: neighbours share one when there is more to do."""


def run_over(
    frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], R | None], note: Callable[[R], object] | None = None
) -> list[R]:
    """Hand each partition of a data frame to ``work``; the results, in the order of the partitions.

    ``note`` is called with every result before the error of any other is raised.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rest = iter(batches)
        yield from _answers([partial(work, rest)])
        # Spark uses a worker again only when it has read all of its input.
        for _ in rest:
            pass

    return _collected(frame.mapInArrow(task, _RESULT), note)


def run_tasks(
    spark: SparkSession, work: Callable[[T], R], tasks: Sequence[T], note: Callable[[R], object] | None = None
) -> list[R]:
    """Do all tasks, which are small values; the results, in their order. For ``note`` see :func:`run_over`."""
    if not tasks:
        return []
    todo = tuple(tasks)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in numpy_array(batch.column(0)).tolist())
        return _answers(partial(work, todo[number]) for number in numbers)

    count = len(todo)
    return _collected(spark.range(0, count, 1, min(count, _MOST_TASKS)).mapInArrow(task, _RESULT), note)


def tasks_frame(
    spark: SparkSession, work: Callable[[T], Iterator[pa.RecordBatch]], tasks: Sequence[T], schema: StructType
) -> DataFrame:
    """The rows that tasks give, as a data frame."""
    todo = tuple(tasks)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in numpy_array(batch.column(0)).tolist()):
            with a_task():
                yield from work(todo[number])

    return spark.range(0, len(todo), 1, max(1, min(len(todo), _MOST_TASKS))).mapInArrow(task, schema)


def _answers(calls: Iterable[Callable[[], Any]]) -> Iterator[pa.RecordBatch]:
    for call in calls:
        try:
            with a_task():
                answer = call()
        except _LASTING as error:
            answer = error.with_traceback(None)
        if answer is not None:
            data = pickle.dumps(answer)
            buffers = [None, pa.py_buffer(struct.pack("<ii", 0, len(data))), pa.py_buffer(data)]
            yield pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.binary(), 1, buffers)], names=["result"])


def _collected(answers: DataFrame, note: Callable[[Any], object] | None) -> list[Any]:
    try:
        rows = answers.collect()
    except PythonException as error:
        if re.search(r"No module named '(lancelet|pyarrow)", str(error)) is None:
            raise
        raise NotSupported(
            "the workers' Python has no lancelet; lancelet.spark.doctor(spark) tells which one that is, and what to do"
        ) from None
    # Made by the tasks above, and by nobody else.
    found = [pickle.loads(bytes(row.result)) for row in rows]  # noqa: S301
    done = [answer for answer in found if not isinstance(answer, LanceletError)]
    if note is not None:
        for answer in done:
            note(answer)
    for answer in found:
        if isinstance(answer, LanceletError):
            raise answer
    return done

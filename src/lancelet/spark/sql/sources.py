"""Reads, planned for Java: the columns of a source, and what the tasks of a scan run.

Spark starts a process of its own for each of these questions, and hands it a pickled source; this process is there already,
and gives what Spark's would: a pickled function, and a pickled partition for each task.
"""

from __future__ import annotations

import pickle
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.types import StructType

from lancelet.spark.source import LanceDataSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceReader


class TaskFunction:
    """What a task calls with its partition, the only value of the only batch. It is pickled by name: no code travels."""

    def __init__(self, reader: DataSourceReader) -> None:
        self._reader = reader
        # By this Spark tells sources from functions of users, when somebody measures either.
        self.__module__ = "pyspark.sql.worker.plan_data_source_read"

    def __call__(self, given: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        (batch,) = given
        partition = pickle.loads(batch.column(0)[0].as_py())  # noqa: S301 - what plan_source made
        yield from self._reader.read(partition)


def describe_source(details: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a source, and what the bridge asked for beside them."""
    return {"columns": _source(details).schema().jsonValue()}


def plan_source(details: Mapping[str, Any]) -> dict[str, Any]:
    """What the tasks of a scan run, and what each of them is given."""
    columns = StructType.fromJson(details["columns"])
    reader = _source(details).reader(columns)
    partitions = reader.partitions() or [InputPartition(None)]
    return {
        "command": _text((TaskFunction(reader), columns)),
        "partitions": [_text(partition) for partition in partitions],
    }


def _source(details: Mapping[str, Any]) -> LanceDataSource:
    return LanceDataSource(CaseInsensitiveDict(details["options"]))


def _text(value: object) -> str:
    return b64encode(pickle.dumps(value)).decode()

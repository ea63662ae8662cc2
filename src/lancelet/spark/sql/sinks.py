"""Writes, planned and committed for Java: what :mod:`lancelet.spark.sql.sources` is for reads.

What is planned is a pickled writer, which Java keeps until the tasks have ended, and hands back with what they say.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lancelet.spark.source import LanceDataSource


class WriteFunction:
    """What a task calls with its rows; its message is the only value of the only batch. It is pickled by name: no code travels."""

    def __init__(self, writer: DataSourceArrowWriter, name: str) -> None:
        self._writer = writer
        self._name = name
        # By this Spark tells sources from functions of users, when somebody measures either.
        self.__module__ = "pyspark.sql.worker.write_into_data_source"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = pickle.dumps(self._writer.write(batches))
        yield pa.record_batch([pa.array([message], pa.binary())], names=[self._name])


def plan_sink(details: Mapping[str, Any]) -> dict[str, Any]:
    """What the tasks of a write run, and what commits their messages; a write that is refused has written nothing."""
    source = LanceDataSource(CaseInsensitiveDict(details["options"]))
    writer = source.writer(StructType.fromJson(details["columns"]), details["overwrites"])
    assert isinstance(writer, DataSourceArrowWriter)
    messages = StructType.fromJson(details["messages"])
    command = (WriteFunction(writer, messages.names[0]), messages)
    return {"command": _text(command), "writer": _text(writer)}


def commit_sink(details: Mapping[str, Any]) -> None:
    """Make what the tasks have written visible."""
    writer, messages = _told(details)
    writer.commit(messages)


def abort_sink(details: Mapping[str, Any]) -> None:
    """Take back what the tasks have written; those that failed say nothing."""
    writer, messages = _told(details)
    writer.abort(messages)


def _told(details: Mapping[str, Any]) -> tuple[DataSourceArrowWriter, list[WriterCommitMessage | None]]:
    texts = details["results"]
    return _value(details["writer"]), [None if text is None else _value(text) for text in texts]


def _text(value: object) -> str:
    return b64encode(pickle.dumps(value)).decode()


def _value(text: str) -> Any:
    return pickle.loads(b64decode(text))  # noqa: S301 - what plan_sink and its tasks made

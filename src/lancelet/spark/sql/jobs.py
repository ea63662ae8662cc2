"""Spark jobs for work that begins in this process, which has no session: Java has it, and runs them.

A procedure runs in a thread. When it needs a job, the answer to Java is the job; Java runs it, and hands the results over
with its next question, until the procedure has its rows::

    call_procedure      ->  {"job": 7, "command": function, "tasks": 12}
    continue_procedure  ->  {"records": [...]}       with the results of job 7

A job may be a query, too, whose rows Java writes as a Lance table: ``{"job": 8, "query": ..., "uri": ..., "options": {...}}``. Without
a place for them, its rows are texts, which are the results.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

from pyspark.cloudpickle import dumps
from pyspark.sql.types import BinaryType, StructField, StructType

from lancelet.errors import InvalidInput

_NUMBER_BITS = 62
"""Numbers of jobs are random: nobody takes a job of a process that ended for one of the next."""
_RUNNING: dict[int, Running] = {}
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_RESULT = StructType([StructField("result", BinaryType())])

Rows = Sequence[Sequence[Any]]


class JobFailed(Exception):
    """Java could not run a job; it knows why, and tells."""


@dataclass(slots=True)
class Running:
    """A procedure that has not ended."""

    said: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    heard: SimpleQueue[Any] = field(default_factory=SimpleQueue)

    def run(self, work: Callable[[Any], Rows]) -> None:
        try:
            self.said.put({"records": work(JobSession(self))})
        except BaseException as error:  # noqa: BLE001 - whoever asked waits for an answer
            self.said.put(error)

    def ask(self, job: Mapping[str, Any]) -> list[str]:
        """Let Java run a job; its results."""
        self.said.put({"job": secrets.randbits(_NUMBER_BITS), **job})
        results: list[str] | None = self.heard.get()
        if results is None:
            raise JobFailed("the job failed in Spark")
        return results

    def message(self) -> dict[str, Any]:
        """What is to be said to Java next."""
        said = self.said.get()
        if isinstance(said, BaseException):
            raise said
        if "job" in said:
            _RUNNING[said["job"]] = self
        message: dict[str, Any] = said
        return message


def start(work: Callable[[Any], Rows]) -> dict[str, Any]:
    """Begin; the first message."""
    running = Running()
    threading.Thread(target=running.run, args=(work,), daemon=True).start()
    return running.message()


def continue_procedure(details: Mapping[str, Any]) -> dict[str, Any]:
    """Hand the results of a job over; None: it failed."""
    running = _RUNNING.pop(details["job"], None)
    if running is None:
        raise InvalidInput(f"nobody here waits for the results of the job {details['job']}; run the statement again")
    running.heard.put(details["results"])
    return running.message()


@dataclass(frozen=True, slots=True)
class JobSession:
    """As much of a session as :func:`lancelet.spark.table.jobs.run_tasks` needs."""

    running: Running

    def range(self, start: int, stop: int, step: int, partitions: int) -> _Numbers:
        """Numbers from 0, which stand for tasks."""
        assert (start, step) == (0, 1)
        return _Numbers(self.running, stop, partitions)

    def texts(self, query: str) -> list[str]:
        """The rows of a query, each of which is a text."""
        return self.running.ask({"query": query})

    def save(
        self, query: str, uri: str, storage_options: Mapping[str, str], name: str, columns: StructType | None = None
    ) -> None:
        """Write the rows of a query as a table; with ``columns``, as Spark would insert them into a table ``name`` of these."""
        options = {f"storage.{key}": value for key, value in storage_options.items()}
        assigned = {} if columns is None else {"name": name, "columns": json.loads(columns.json())}
        self.running.ask({"query": query, "uri": uri, "options": options, **assigned})


@dataclass(frozen=True, slots=True)
class _Numbers:
    running: Running
    count: int
    partitions: int

    def mapInArrow(self, task: Callable[..., Any], _: str) -> _Job:  # noqa: N802 - Spark's name
        return _Job(self, task)


@dataclass(frozen=True, slots=True)
class _Job:
    numbers: _Numbers
    task: Callable[..., Any]

    def collect(self) -> list[Any]:
        """Let Java run the tasks."""
        command = b64encode(dumps((self.task, _RESULT))).decode()  # type: ignore[no-untyped-call]
        tasks = {"tasks": self.numbers.count, "partitions": self.numbers.partitions}
        results = self.numbers.running.ask({"command": command, "python_version": PYTHON_VERSION, **tasks})
        return [SimpleNamespace(result=b64decode(result)) for result in results]

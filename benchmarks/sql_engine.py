"""A Spark session in a process of its own, which runs what it is told and says what that took.

It imports nothing but pyspark and psutil, so that another Python with another Spark can run it: ``python sql_engine.py
'{"setting": "value", ...}'``. A question is a line of JSON, ``{"sql": "..."}``, ``{"each": ["...", ...]}`` (statements one after the
other, of which the mean is told) or ``{"python": "..."}`` (which leaves ``rows``); the answer is one, too, with seconds by the clock,
seconds of CPU of Java and all its workers, and the rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

import psutil

_PROCESS_CLOCK = 2
"""What ``clock_getcpuclockid`` adds to the number of a process."""
_USED: dict[tuple[int, float], float] = {}
"""By process: what it had used when it was seen last. Workers end, and what they have used goes with them."""


def worked() -> float:
    """Seconds of CPU that Java and its Python workers have used."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            _USED[process.pid, process.create_time()] = _used(process)
    return sum(_USED.values())


def _used(process: psutil.Process) -> float:
    """By Linux's clock of the process, which has nanoseconds; others count in ticks."""
    with suppress(OSError):
        return time.clock_gettime((~process.pid << 3) | _PROCESS_CLOCK)
    spent = process.cpu_times()
    return float(spent.user + spent.system)


def started(settings: dict[str, str]) -> Any:
    """A session on two cores."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answered(spark: Any, question: dict[str, Any]) -> dict[str, Any]:
    """Run it to its end."""
    known: dict[str, Any] = {"spark": spark, "rows": []}
    statements = question.get("each", [question["sql"]] if "sql" in question else [])
    working, begun = worked(), time.perf_counter()
    for statement in statements:
        known["rows"] = spark.sql(statement).collect()
    if "python" in question:
        exec(question["python"], known)
    count = max(1, len(statements))
    wall, cpu = (time.perf_counter() - begun) / count, (worked() - working) / count
    return {"wall": wall, "cpu": cpu, "rows": [[str(value) for value in row] for row in known["rows"]]}


def main() -> None:
    # Spark and its Java print what they like; answers have a pipe of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = started(json.loads(sys.argv[1]))
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        try:
            told = answered(spark, json.loads(line))
        except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
            told = {"error": str(error)}
        print(json.dumps(told), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""A Spark session in a process of its own, which runs what it is told and says what that took.

It imports nothing but pyspark and psutil, so that another Python with another Spark can run it: ``python sql_engine.py
'{"setting": "value", ...}'``. A question is a line of JSON, ``{"sql": "..."}`` or ``{"python": "..."}`` (which leaves ``rows``); the
answer is one, too, with seconds by the clock, seconds of CPU of Java and all its workers, and the rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

import psutil

_USED: dict[tuple[int, float], float] = {}
"""By process: what it had used when it was seen last. Workers end, and what they have used goes with them."""


def worked() -> float:
    """Seconds of CPU that Java and its Python workers have used."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            spent = process.cpu_times()
            _USED[process.pid, process.create_time()] = spent.user + spent.system
    return sum(_USED.values())


def started(settings: dict[str, str]) -> Any:
    """A session on two cores."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answered(spark: Any, question: dict[str, str]) -> dict[str, Any]:
    """Run it to its end."""
    known: dict[str, Any] = {"spark": spark, "rows": []}
    working, begun = worked(), time.perf_counter()
    if "sql" in question:
        known["rows"] = spark.sql(question["sql"]).collect()
    else:
        exec(question["python"], known)
    wall, cpu = time.perf_counter() - begun, worked() - working
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

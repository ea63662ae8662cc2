"""A program of its own, for the race tests: it forks processes that all change one namespace at the same time.

``python racing.py race '{"races": [{"properties": {...}, "names": [...], "ways": [...]}]}'`` runs one race after the other,
and prints what became of each process: a code, or -1.
``python racing.py kill '{"properties": {...}}'`` kills a process in the midst of its work.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import sys
from multiprocessing.synchronize import Barrier
from typing import Any

import lance_namespace as ln
import pyarrow as pa

from lancelet.namespace import DirectoryNamespace
from lancelet.store import open_store
from lancelet.table.manifest.versions import latest_version

FORK = multiprocessing.get_context("fork")
DONE = -1
CHANGES = 5
"""How many changes of the catalog a process makes before it is killed."""


def body() -> bytes:
    rows = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "s": ["x", "y", "z"]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def change(properties: dict[str, str], names: list[str], how: str, barrier: Barrier, outcomes: Any) -> None:
    space = DirectoryNamespace(**properties)
    barrier.wait()
    try:
        if how == "declare":
            space.declare_table(ln.DeclareTableRequest(id=names))
        elif how == "namespace":
            space.create_namespace(ln.CreateNamespaceRequest(id=names))
        elif how == "rename":
            space.rename_table(ln.RenameTableRequest(id=["old"], new_table_name=names[0]))
        else:
            space.create_table(ln.CreateTableRequest(id=names, mode=how), body())
    except ln.LanceNamespaceError as error:
        outcomes.put(int(error.code))
        return
    outcomes.put(DONE)


def race(properties: dict[str, str], names: list[str], ways: list[str]) -> list[int]:
    barrier, outcomes = FORK.Barrier(len(ways)), FORK.SimpleQueue()
    workers = [FORK.Process(target=change, args=(properties, names, how, barrier, outcomes)) for how in ways]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sorted(outcomes.get() for _ in workers)


def work(properties: dict[str, str]) -> None:
    """Make and drop tables until somebody kills this process."""
    space, number = DirectoryNamespace(**properties), 0
    while True:
        number += 1
        names = ["t"] if number % 2 else ["n", "t"]
        space.create_table(ln.CreateTableRequest(id=names, mode="overwrite"), body())
        space.drop_table(ln.DropTableRequest(id=names))


def kill(properties: dict[str, str]) -> None:
    store = open_store(properties["root"]).child("__manifest")
    reached = latest_version(store).version
    worker = FORK.Process(target=work, args=(properties,))
    worker.start()
    while latest_version(store).version < reached + CHANGES:
        assert worker.is_alive()
    os.kill(worker.pid or 0, signal.SIGKILL)
    worker.join()


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    print(json.dumps([race(**one) for one in given["races"]] if sys.argv[1] == "race" else kill(**given)))

"""Reads a damaged table in every way and reports what is neither an answer nor an error of lancelet's own.

Started by damage.py with jobs on standard input, a line each; no pylance in here. For every job this process forks, so
that each has one of its own and none waits for the imports. Prints ``FIND ...`` for a finding and ``DONE`` after each
damage, so that the parent knows which one a crash or a hang belongs to, and ``EXIT ...`` at the end of a job.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

import lancelet

# Found late by those who need them: here, once for all jobs.
import lancelet.execution.candidates
import lancelet.execution.indexed
import lancelet.execution.nearest
import lancelet.expressions.evaluate
import lancelet.expressions.sql
import lancelet.index.vector.build
import lancelet.index.vector.segment
import lancelet.inspect.versions
import lancelet.store.memory
from lancelet.errors import LanceletError
from lancelet.index.folder import IndexFolder, SegmentWriter
from lancelet.index.kind import NewRows
from lancelet.index.metadata import read_indices
from lancelet.index.registry import kind_of_entry
from lancelet.index.segments import Whereabouts, indexed_type
from lancelet.store import open_store
from lancelet.table.commit.written import WrittenFiles

SECONDS = 20
# Sound in memory, only senseless as text or as a time of day: another value, which a flipped bit may well give.
HARMLESS = ("UTF8", "utf8", "UTF-8", "range", "Date64", "date64", "does not fit in precision", "timestamp")


class TooSlow(BaseException):
    """One reading took longer than any reading of so small a table may."""


def _alarm(*_: object) -> None:
    raise TooSlow


def _sound(table: pa.Table) -> None:
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        if not any(word in str(error) for word in HARMLESS):
            raise


def _blobs(dataset: Any) -> None:
    if "blob" in dataset.schema.names:
        for blob in dataset.take_blobs("blob", indices=[0, 1, 2, 3]):
            if blob is not None:
                blob.readall()


def _ask(dataset: Any) -> None:
    """Filters that indices answer, on the columns that have one."""
    for index in dataset.describe_indices():
        column = index.field_names[0]
        dtype = dataset.schema.field(column).type
        if pa.types.is_fixed_size_list(dtype):
            _search(dataset, column, dtype)
            continue
        if pa.types.is_list(dtype):
            asked = ["array_has({}, 'b')", "array_has_all({}, ['a', 'b'])", "not array_has({}, 'a')"]
        elif pa.types.is_string(dtype):
            asked = ["{} = 'row 18'", "{} like 'row 1%'", "contains({}, 'row 2')", "{} in ('row 3', 'row 4', 'x', 'y')"]
        else:
            asked = ["{} = 17", "{} between 5 and 60", "{} in (1, 17, 99, 250)", "not ({} = 3)", "{} > 250"]
        for text in (*asked, "{} is null"):
            _sound(dataset.to_table(filter=text.format(column)))
            dataset.count_rows(text.format(column))


def _search(dataset: Any, column: str, dtype: pa.DataType) -> None:
    """Searches that a vector index answers: what they find are rows of the table, each once."""
    live = set(dataset.to_table([], with_row_id=True)["_rowid"].to_pylist())
    query = np.arange(dtype.list_size) % 7
    asked = {"column": column, "q": query.astype(dtype.value_type.to_pandas_dtype()), "k": 20, "nprobes": 9}
    for options in ({}, {"refine_factor": 3}, {"ef": 70, "distance_range": (0.5, 40.0)}, {"approx_mode": "fast"}):
        for condition in (None, "k % 3 > 0"):
            found = dataset.to_table(
                ["_distance"], nearest={**asked, **options}, filter=condition, prefilter=True, with_row_id=True
            )
            _sound(found)
            rows = found["_rowid"].to_pylist()
            assert len(rows) <= 20, f"{len(rows)} rows for k = 20"
            assert live.issuperset(rows), f"rows that are not there: {set(rows) - live}"
            assert len(set(rows)) == len(rows), f"rows twice: {sorted(rows)}"
            assert not np.isnan(found["_distance"].to_numpy()).any(), "distances that are no numbers"


def _carry(dataset: Any) -> None:
    """All entries of the segments, as an optimization or a compaction reads them."""
    store = open_store("memory://carried")
    where = Whereabouts(dataset._snapshot, lambda: dataset.table.row_id_index, dataset.table.physical_rows)
    for entry in read_indices(dataset._snapshot.manifest):
        kind = kind_of_entry(entry)
        dtype = indexed_type(dataset._snapshot, entry)
        options = kind.options(IndexFolder(dataset._snapshot, entry))
        out = SegmentWriter(store, uuid4(), "2.1", WrittenFiles(store))
        kind.write([where.source(entry, dtype)], NewRows(dtype), out, options)


def _is_indexed(where: Path | str) -> bool:
    """Whether there are indices to ask; a table that does not even open is left to the readings."""
    try:
        return bool(lancelet.dataset(where).describe_indices())
    except LanceletError:
        return False


def _readings(where: Path | str, columns: list[str] | None) -> dict[str, Callable[[], Any]]:
    """Every way to read a table; the rows in ``columns``, or in all."""

    def opened() -> Any:
        return lancelet.dataset(where)

    if _is_indexed(where):
        return {
            "ask": lambda: _ask(opened()),
            "carry": lambda: _carry(opened()),
            "statistics": lambda: [opened().stats.index_stats(index.name) for index in opened().describe_indices()],
            "verify": lambda: opened().verify(deep=True),
            "prewarm": lambda: [opened().prewarm_index(index.name) for index in opened().describe_indices()],
        }

    return {
        "scan": lambda: _sound(opened().to_table(columns)),
        "ids": lambda: _sound(opened().to_table(columns, with_row_id=True, with_row_address=True)),
        "take": lambda: _sound(opened().take([0, 40, 7, 7], columns)),
        "slice": lambda: _sound(opened().to_table(columns, offset=30, limit=25)),
        "filter": lambda: _sound(opened().to_table(columns, filter="k > 10 and k < 60")),
        "blobs": lambda: _blobs(opened()),
        "count": lambda: opened().count_rows(),
        "versions": lambda: opened().versions(),
    }


def _attempt(read: Callable[[], Any], *, intact: bool) -> str | None:
    signal.alarm(SECONDS)
    try:
        read()
    except LanceletError as error:
        return f"{type(error).__name__} though nothing is damaged: {error}" if intact else None
    except TooSlow:
        return f"more than {SECONDS} s\n{traceback.format_exc(limit=-8)}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-6)}"
    finally:
        signal.alarm(0)
    return None


def _in_memory(where: Path, number: int) -> str:
    """A copy in the memory store: its bytes come from the heap, where AddressSanitizer watches, not from a mapping."""
    uri = f"memory://damage{number}/t"
    store = open_store(uri)
    for path in where.rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(where)), path.read_bytes())
    return uri


def run(job: dict[str, Any]) -> None:
    if job["limit"]:
        resource.setrlimit(resource.RLIMIT_AS, (job["limit"], job["limit"]))
    signal.signal(signal.SIGALRM, _alarm)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "t"
        shutil.copytree(job["table"], where)
        victim = where / Path(job["victim"]).relative_to(job["table"])
        intact = victim.read_bytes()
        for number, entry in enumerate(job["damages"]):
            patch = entry["patch"]
            start = entry["at"]
            new = bytes.fromhex(patch or "")
            damaged = intact[:start] if patch is None else intact[:start] + new + intact[start + len(new) :]
            fresh = victim.with_name(victim.name + ".new")
            fresh.write_bytes(damaged)
            fresh.replace(victim)
            place = _in_memory(where, number) if job["in_memory"] else where
            for name, read in _readings(place, job["columns"]).items():
                problem = _attempt(read, intact=damaged == intact)
                if problem is not None:
                    print("FIND", json.dumps({"damage": entry, "reading": name, "problem": problem}), flush=True)
            print("DONE", flush=True)


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                run(json.loads(line))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                # Not by way of the interpreter's end, which would read on in the parent's input.
                sys.stderr.flush()
                os._exit(status)
        print("EXIT", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


main()

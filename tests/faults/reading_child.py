"""Reads a damaged table in every way and reports what is neither an answer nor an error of lancelet's own.

Started by damage.py with a job on standard input; no pylance in here. Prints
``FIND ...`` for a finding and ``DONE`` after each damage, so that the parent
knows which one a crash or a hang belongs to.
"""

from __future__ import annotations

import json
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancelet
from lancelet.errors import LanceletError
from lancelet.store import open_store

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


def _readings(where: Path | str) -> dict[str, Callable[[], Any]]:
    def opened() -> Any:
        return lancelet.dataset(where)

    return {
        "scan": lambda: _sound(opened().to_table()),
        "ids": lambda: _sound(opened().to_table(with_row_id=True, with_row_address=True)),
        "take": lambda: _sound(opened().take([0, 40, 7, 7])),
        "slice": lambda: _sound(opened().to_table(offset=30, limit=25)),
        "filter": lambda: _sound(opened().to_table(filter="k > 10 and k < 60")),
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


def main() -> None:
    job = json.load(sys.stdin)
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
            for name, read in _readings(place).items():
                problem = _attempt(read, intact=damaged == intact)
                if problem is not None:
                    print("FIND", json.dumps({"damage": entry, "reading": name, "problem": problem}), flush=True)
            print("DONE", flush=True)


main()

"""What a program has Lancelet do, as events or as a trace to look at.

Events have a target and arguments, both as pylance has them::

    lance::dataset_events   event=loading | committed, uri, version ...
    lance::io_events        type=open_scalar_index | open_vector_index | open_text_index, index_uuid, index_type
    lance::execution        type=plan_run, output_rows, iops, requests, bytes_read, indices_loaded ...
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lancelet.runtime.events import Event, listen, wait_until_heard

__all__ = ["TraceEvent", "capture_trace_events", "trace_to_chrome"]


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that happened.

    Attributes
    ----------
    target
        What kind of thing it is, for example ``lance::execution``.
    args
        What is known about it; all are texts.
    """

    target: str
    args: dict[str, str]


def capture_trace_events(callback: Callable[[TraceEvent], None]) -> None:
    """Have a function called with every event.

    It is called in a thread of its own, some time after the event: for reports, not for synchronization.

    Examples
    --------
    >>> import lancelet
    >>> from lancelet.runtime.events import wait_until_heard
    >>> seen = []
    >>> capture_trace_events(seen.append)
    >>> _ = lancelet.write_dataset({"id": [1, 2]}, "memory://docs/traced").to_table(filter="id > 1")
    >>> wait_until_heard()
    >>> [event.args["output_rows"] for event in seen if event.target == "lance::execution"]
    ['1']
    """

    def tell(event: Event) -> None:
        moment = datetime.fromtimestamp(event.ended // 10**9, timezone.utc)
        callback(TraceEvent(event.target, {**event.args, "timestamp": f"{moment:%Y-%m-%dT%H:%M:%SZ}"}))

    listen(tell)


def trace_to_chrome(*, file: str | None = None) -> None:
    """Write events to a file that ``chrome://tracing`` and Perfetto show.

    Parameters
    ----------
    file
        Where to; by default ``trace-{microseconds since 1970}.json`` in the current folder. It is whole when the process
        has ended. Processes that are forks of this one write nothing.
    """
    path = Path(file if file is not None else f"trace-{time.time_ns() // 1000}.json")
    # Nothing waits to be written that a fork of this process would write once more.
    stream = path.open("wb", buffering=0)
    stream.write(b"[\n")
    lock, is_open, process = threading.Lock(), True, os.getpid()

    def write(event: Event) -> None:
        if os.getpid() != process:
            return
        with lock:
            if is_open:
                stream.write(json.dumps(_shown(event)).encode() + b",\n")

    def finish() -> None:
        nonlocal is_open
        if os.getpid() != process:
            return
        wait_until_heard()
        with lock:
            is_open = False
            last = {"name": "end", "ph": "i", "ts": time.time_ns() / 1000, "pid": process, "s": "g"}
            stream.write(json.dumps(last).encode() + b"\n]\n")
            stream.close()

    listen(write)
    atexit.register(finish)


def _shown(event: Event) -> dict[str, Any]:
    """An event in the words of the file: a span, or a moment."""
    name = event.args.get("event") or event.args.get("type") or event.target
    shown = {"name": name, "cat": event.target, "args": event.args, "pid": os.getpid(), "tid": 0}
    if event.took:
        return {**shown, "ph": "X", "ts": (event.ended - event.took) / 1000, "dur": event.took / 1000}
    return {**shown, "ph": "i", "ts": event.ended / 1000, "s": "t"}

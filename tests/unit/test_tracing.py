"""Events of opening, committing, scanning and searching are told to listeners, and make a trace that browsers show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import lancelet
from lancelet.runtime import events
from lancelet.tracing import TraceEvent, capture_trace_events


def test_events_say_what_happened(tmp_path: Path) -> None:
    seen: list[TraceEvent] = []
    try:
        capture_trace_events(seen.append)
        dataset = lancelet.write_dataset(pa.table({"a": range(100)}), tmp_path / "t")
        dataset.create_scalar_index("a", "BTREE")
        told = []
        found = lancelet.dataset(tmp_path / "t").to_table(filter="a < 7", scan_stats_callback=told.append)
        events.wait_until_heard()
    finally:
        events._listeners.clear()
    assert found.num_rows == 7
    committed = [event.args for event in seen if event.args.get("event") == "committed"]
    assert [args["operation"] for args in committed] == ["Overwrite", "CreateIndex"]
    assert [args["committed_version"] for args in committed] == ["1", "2"]
    loading = [event.args for event in seen if event.args.get("event") == "loading"]
    assert loading[-1]["version"] == "2"
    assert any(event.args.get("type") == "open_scalar_index" for event in seen)
    run = [event.args for event in seen if event.target == "lance::execution"][-1]
    assert run["output_rows"] == "7"
    # The scan's own callback is called as well, with the same numbers.
    assert run["bytes_read"] == str(told[0].bytes_read)
    assert all(isinstance(value, str) for event in seen for value in event.args.values())


def test_nothing_is_made_of_events_that_nobody_hears(tmp_path: Path) -> None:
    assert not events.is_heard()
    assert lancelet.write_dataset({"a": [1]}, tmp_path / "t").to_table().num_rows == 1


def test_a_trace_is_whole_when_the_process_ends(tmp_path: Path) -> None:
    program = """
import os, sys, lancelet
from lancelet.tracing import trace_to_chrome
trace_to_chrome(file=sys.argv[1])
dataset = lancelet.write_dataset({"a": [1, 2]}, sys.argv[2])
child = os.fork()
dataset.to_table(filter="a > 1")
if child:
    os.waitpid(child, 0)
"""
    # A fork of the process, which ends first, leaves the file alone.
    trace = tmp_path / "trace.json"
    subprocess.run([sys.executable, "-c", program, trace, tmp_path / "t"], check=True, timeout=120)
    found = json.loads(trace.read_text())
    spans = [event for event in found if event["ph"] == "X"]
    assert [event["name"] for event in spans] == ["plan_run"]
    assert spans[0]["dur"] > 0
    assert {"committed", "plan_run", "end"} <= {event["name"] for event in found}

"""Measurements that need a process of their own: first use, and peak memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

FIRST_USE = """
import json, sys, time
started = time.perf_counter()
if sys.argv[1] == "Parquet":
    import pyarrow.dataset
    pyarrow.dataset.dataset(sys.argv[2]).head(1)
else:
    import importlib
    importlib.import_module({"pylance": "lance"}.get(sys.argv[1], sys.argv[1])).dataset(sys.argv[2]).take([0])
print(json.dumps(time.perf_counter() - started))
"""

PEAK = """
import importlib, json, sys
def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024
engine, path, what = sys.argv[1:]
if engine == "Parquet":
    import pyarrow as pa, pyarrow.dataset
    dataset = pyarrow.dataset.dataset(path)
else:
    dataset = importlib.import_module({"pylance": "lance"}.get(engine, engine)).dataset(path)
total = dataset.count_rows()
dataset.head(1)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts again from here
before = memory("VmRSS")
if what == "scan":
    for batch in dataset.to_batches():
        pass
else:
    dataset.take(list(range(0, total, max(total // 10_000, 1))))
print(json.dumps(memory("VmHWM") - before))
"""


def _child(script: str, *arguments: str) -> float:
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return float(json.loads(done.stdout))


def first_use(paths: dict[str, Path], repeats: int = 5) -> dict[str, float]:
    """Seconds from the import to the first row, in a new process each time, engines taking turns."""
    taken: dict[str, list[float]] = {engine: [] for engine in paths}
    for engine, path in paths.items():
        _child(FIRST_USE, engine, str(path))  # compiles what has no bytecode yet
    for _ in range(repeats):
        for engine, path in paths.items():
            taken[engine].append(_child(FIRST_USE, engine, str(path)))
    return {engine: statistics.median(seconds) for engine, seconds in taken.items()}


def peak_memory(paths: dict[str, Path], what: str) -> dict[str, float]:
    """Bytes by which a process grew, at most, while it did ``what`` (``scan`` or ``take``)."""
    return {engine: _child(PEAK, engine, str(path), what) for engine, path in paths.items()}

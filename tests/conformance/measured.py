"""How much memory a program needs: it runs in a process of its own, so that nothing else counts.

The program calls ``start()`` before what is measured, and ``done(rows)`` after it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MIB = 2**20

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")

_FRAME = """
import json

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024

def start():
    global before
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts again from here
    before = memory("VmRSS")

def done(rows):
    print(json.dumps({"rows": rows, "grown": memory("VmHWM") - before}))
"""


def measured(program: str, *arguments: object) -> tuple[int, int]:
    """The rows that the program tells of, and by how many bytes it had grown at its peak."""
    done = subprocess.run(
        [sys.executable, "-c", _FRAME + program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer["rows"], answer["grown"]

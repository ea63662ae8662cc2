"""Runs a program for as long as somebody holds the other end of our input; then ends it, and what it started.

    python kept.py <program> <argument> ...

However a test ends, its end of the pipe is closed: nothing that it started stays behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

_STOP_SECONDS = 20


@contextmanager
def kept(command: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A program that ends with this context, or with this process; its output is to be read."""
    process = subprocess.Popen(
        [sys.executable, __file__, *command],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Signals for the tests are not for it: the pipe tells it when to go.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def run(command: Sequence[str]) -> None:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def finish() -> None:
        code = process.wait()
        _signal_all(process.pid, signal.SIGKILL)
        os._exit(code % 256)

    waiting = threading.Thread(target=finish)
    waiting.start()
    while os.read(0, 1):
        pass
    _signal_all(process.pid, signal.SIGTERM)
    waiting.join(_STOP_SECONDS)
    _signal_all(process.pid, signal.SIGKILL)


def _signal_all(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    run(sys.argv[1:])

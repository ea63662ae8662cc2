"""Programs that tests run in processes of their own, forked from one that has imported both libraries and used neither.

    process = forked(SCRIPT, "an argument")     like subprocess.Popen([sys.executable, "-c", SCRIPT, "an argument"])

To import lancelet and pylance takes most of a second, which a test of eight writers would wait for eight times.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from contextlib import suppress
from functools import cache
from typing import IO


class Forked:
    """A process, its standard streams, and its status when it has ended."""

    def __init__(self, script: str, arguments: tuple[str, ...]) -> None:
        ends = [os.pipe() for _ in range(4)]
        (reads_in, writes_in), *outs = ends
        job = json.dumps([script, arguments]).encode()
        server = _server()
        theirs = [reads_in, *(write for _, write in outs)]
        socket.send_fds(server, [len(job).to_bytes(8, "little")], theirs)
        server.sendall(job)
        for end in theirs:
            os.close(end)
        self.stdin: IO[str] = os.fdopen(writes_in, "w")
        self.stdout, self.stderr, self._status = (os.fdopen(read) for read, _ in outs)
        self.pid = int(self._status.readline())

    def communicate(self) -> tuple[str, str]:
        """What it said until its end."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        said = self.stdout.read(), self.stderr.read()
        self.wait()
        return said

    def wait(self) -> int:
        """How it ended; who was killed could not say."""
        self.returncode = int(self._status.read() or -signal.SIGKILL)
        for stream in (self.stdout, self.stderr, self._status):
            stream.close()
        return self.returncode


def forked(script: str, *arguments: object) -> Forked:
    return Forked(script, tuple(map(str, arguments)))


@cache
def _server() -> socket.socket:
    """Our end of the pair over which the one that forks is asked; it is started with the first, and ends with us."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    # In the opposite order.
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _run(job: bytes, streams: list[int]) -> None:
    """In the child: what an interpreter does with a program, and its status at the end."""
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    script, arguments = json.loads(job)
    sys.argv = ["-c", *arguments]
    os.write(streams[3], f"{os.getpid()}\n".encode())
    code = 1
    try:
        exec(compile(script, "<forked>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(streams[3], str(code).encode())
        os._exit(code)


def _serve(number: int) -> None:
    for name in ("lance", "lancelet.execution.indexed", "lancelet.expressions.sql", "lancelet.writing.table"):
        importlib.import_module(name)
    # None of pylance's threads is there yet.
    warnings.filterwarnings("ignore", "lance is not fork-safe")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=number) as asked:
        while True:
            head, streams, _, _ = socket.recv_fds(asked, 8, 4)
            if not head:
                return
            size, job = int.from_bytes(head, "little"), b""
            while len(job) < size:
                job += asked.recv(size - len(job))
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _run(job, streams)
            for stream in streams:
                os.close(stream)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))

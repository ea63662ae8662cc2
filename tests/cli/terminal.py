"""Commands run as people run them: the program in a terminal of its own, its words and its exit code.

A process that has imported the program once waits for commands, and each is a fork of it with a new terminal::

    test ── {"words": [...], "keys": "y\\n"} ──> python terminal.py ── fork, pty ──> lancelet ...
         <── {"code": 0, "text": "..."} ────────
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

LOADED_LATE = ("datafusion", "pyarrow.csv", "pyarrow.dataset", "pyarrow.fs", "pyarrow.json", "pyarrow.parquet")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


@dataclass(frozen=True)
class Done:
    """What a command said, and how it ended."""

    code: int
    text: str
    raw: str
    """With what steers the terminal."""

    def json(self) -> Any:
        """The answer as JSON; a terminal also shows the bars that went before it."""
        lines = self.text.splitlines()
        first = next(number for number, line in enumerate(lines) if re.match(r"[\[{\d]", line))
        return json.loads("\n".join(lines[first:]))


class Terminal:
    """A terminal to type commands into."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, Path(__file__)], stdin=pipe, stdout=pipe, text=True)

    def __call__(self, *words: object, keys: str = "", after: str = "", width: int = 200) -> Done:
        """Type a command, and keys once the terminal shows ``after``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = {"words": [str(word) for word in words], "keys": keys, "after": after, "width": width}
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        found = json.loads(self._process.stdout.readline())
        return Done(found["code"], ESCAPES.sub("", found["text"]), found["text"])

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(timeout=60)


def _run(words: list[str], keys: str, after: str, width: int) -> tuple[int, str]:
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"COLUMNS": str(width), "LINES": "50", "TERM": "xterm"}
        sys.argv = ["lancelet", *words]
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
        code = 1
        try:
            from lancelet.cli.main import run

            run()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    text, typed = b"", False
    while True:
        if not typed and after.encode() in text:
            os.write(terminal, keys.encode())
            typed = True
        ready, _, _ = select.select([terminal], [], [], 120)
        try:
            more = os.read(terminal, 65536) if ready else b""
        except OSError:
            # What Linux says when the other end of a terminal is gone.
            more = b""
        if not more:
            break
        text += more
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace")


def main() -> None:
    """Wait for commands."""
    # Each fork has them already: what commands load only if they need it takes longer than the commands.
    for name in ("lancelet.cli.main", "lancelet.namespace", "lancelet._api.sql_query", *LOADED_LATE):
        import_module(name)

    for line in sys.stdin:
        told = json.loads(line)
        code, text = _run(told["words"], told["keys"], told["after"], told["width"])
        sys.stdout.write(json.dumps({"code": code, "text": text}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

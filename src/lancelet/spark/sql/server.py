"""The process that answers Java: ``python -m lancelet.spark.sql.server load_table ...``, with what it will be asked soon.

It lives as long as its input: when the Java process that started it ends, in whatever way, so does it. Questions are
answered side by side, each in a thread.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from lancelet.spark.daemon import import_unpacked
from lancelet.spark.sql.protocol import FAILED, OtherTableNotFound, handler, kind_of

_LENGTH = struct.Struct(">I")
_LONGEST = (1 << 31) - 1
_AT_ONCE = 8


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer questions until there are no more."""
    one_at_a_time = threading.Lock()

    def work(question: dict[str, Any]) -> None:
        text = answer_text(question)
        with one_at_a_time:
            answers.write(_LENGTH.pack(len(text)) + text)
            answers.flush()

    pool = ThreadPoolExecutor(_AT_ONCE)
    while len(head := questions.read(_LENGTH.size)) == _LENGTH.size:
        (length,) = _LENGTH.unpack(head)
        pool.submit(work, json.loads(questions.read(length)))


def answer_text(question: dict[str, Any]) -> bytes:
    """An answer that Java can read, whatever happens: it waits for one."""
    number = question["number"]
    try:
        text = json.dumps({"number": number, **answer(question)}, allow_nan=False).encode()
    except BaseException as error:  # noqa: BLE001 - whoever asked waits for an answer
        return json.dumps({"number": number, "kind": FAILED, "sentence": _way(error)}).encode()
    if len(text) > _LONGEST:
        sentence = f"the answer to '{question['ask']}' has {len(text)} bytes; a message has at most {_LONGEST}"
        return json.dumps({"number": number, "kind": FAILED, "sentence": sentence}).encode()
    return text


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """What is to be said to a question."""
    try:
        return {"answer": handler(question["ask"])(question["details"])}
    except Exception as error:  # noqa: BLE001 - whoever asked waits for an answer
        kind = kind_of(error)
        if kind is None:
            return {"kind": FAILED, "sentence": _way(error)}
        named = {"names": error.names} if isinstance(error, OtherTableNotFound) else {}
        return {"kind": kind, "error": type(error).__name__, "sentence": str(error), **named}


def _way(error: BaseException) -> str:
    """A mistake of ours, and where it was made."""
    return "".join(traceback.format_exception(error)).strip()


def _import_early(questions: Sequence[str]) -> None:
    """What answers need takes a second to import; whoever starts this process may not ask at once."""
    for question in questions:
        handler(question)


def main() -> None:
    # Ctrl-C is for the program that runs statements.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # What any library prints must not get between the answers.
    os.dup2(2, 1)
    import_unpacked()
    threading.Thread(target=_import_early, args=(sys.argv[1:],), daemon=True).start()
    serve(sys.stdin.buffer, answers)
    # Nobody is left to hear what threads still find out.
    os._exit(0)


if __name__ == "__main__":
    main()

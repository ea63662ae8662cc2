"""A real browser that tests look through and type into: Chromium without a window, over its debugging pipe.

::

    test ── {"id": 1, "method": "Input.dispatchKeyEvent", ...}\\0 ──> fd 3  chromium --headless --remote-debugging-pipe
         <── {"id": 1, "result": {...}}\\0 ────────────────────────── fd 4
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
_KEYS = {
    "Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " "), "Home": (36, ""), "End": (35, ""),
    "ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, ""),
}  # fmt: skip
_SHIFT = 8
_IDLE = "document.getElementById('main')?.getAttribute('aria-busy') === 'false'"
_PATIENCE = 60.0


class Browser:
    """One page. Every call is answered before the next."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        told = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--remote-debugging-pipe", *_QUIET)
        # Away from the numbers that they get there.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]
        self._process = os.posix_spawn(
            CHROMIUM,
            [CHROMIUM, *told, f"--user-data-dir={folder}", "about:blank"],
            os.environ,
            file_actions=[
                *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)),
                *((os.POSIX_SPAWN_DUP2, end, number) for end, number in zip(ends, (3, 4), strict=True)),
            ],
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        self._in, self._out = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb", buffering=0)
        self._left, self._count, self._session = b"", 0, None
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def open(self, address: str) -> None:
        """Go to a page, and wait until its view is drawn."""
        # First away from it: another view of the same page is not loaded anew.
        for place in ("about:blank", address):
            self._ask("Page.navigate", url=place)
            self.until(f"location.href === {json.dumps(place)}")
        self.wait()

    def wait(self) -> None:
        """Until the page has drawn what it was asked for."""
        self.until(_IDLE)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true, which the page sees to by itself."""
        end, pause = time.monotonic() + _PATIENCE, threading.Event()
        while not self.run(script):
            assert time.monotonic() < end, f"never: {script}; the page says: {self.text}"
            # A promise in the page would be lost with the page before it, so that the browser is asked again and again.
            pause.wait(0.01)

    def press(self, *names: str) -> None:
        """Press keys, one after the other; ``Shift+Tab`` is one."""
        for name in names:
            shift, _, plain = name.rpartition("+")
            code, text = _KEYS[plain]
            key = {"key": text if plain == "Space" else plain, "code": plain, "windowsVirtualKeyCode": code}
            about = {**key, "modifiers": _SHIFT if shift else 0}
            self._ask("Input.dispatchKeyEvent", type="keyDown", **({"text": text} if text else {}), **about)
            self._ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        """Write where the cursor is."""
        self._ask("Input.insertText", text=text)

    def resize(self, width: int, height: int) -> None:
        """Have the window another size."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, file: Path) -> None:
        """What a person would see."""
        file.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))

    @property
    def focus(self) -> str:
        """What has the cursor: its text, its label or its name."""
        return str(self.run(
            "(() => { const one = document.activeElement; "
            "return one.getAttribute('aria-label') || one.id || one.textContent.trim() || one.tagName; })()"
        ))  # fmt: skip

    @property
    def text(self) -> str:
        """All that the page says."""
        return str(self.run("document.body.innerText"))

    def close(self) -> None:
        """End it."""
        with suppress(BrokenPipeError, EOFError):
            self._session = None
            self._ask("Browser.close")
        self._out.close()
        self._in.close()
        os.waitpid(self._process, 0)

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._count += 1
        told = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            told["sessionId"] = self._session
        self._out.write(json.dumps(told).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._count:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _message(self) -> bytes:
        while b"\0" not in self._left:
            more = self._in.read1(1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        return message

"""The server behind the page: the standard library's, on the loopback address, reading only."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from lancelet._naming.plain_values import json_text
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput, LanceletError, printable
from lancelet.inspector.facts import FACTS, MAIN

_STATIC: Final[Mapping[str, tuple[str, str]]] = {
    "": ("index.html", "text/html; charset=utf-8"),
    "style.css": ("style.css", "text/css; charset=utf-8"),
    "inspector.js": ("inspector.js", "text/javascript; charset=utf-8"),
}
_HEADERS: Final = {
    # Only what this server sends, and pictures that are in the page itself.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_LOOPBACK: Final = "127.0.0.1"


class Inspector:
    """The page of one table.

    Parameters
    ----------
    table
        What it shows; other versions of it are opened as the page asks for them.
    follow
        Whether the page shows the newest version as others commit, or only the one that was opened.
    port
        Where it listens on the loopback address; 0: wherever there is room.

    Examples
    --------
    >>> import lancelet
    >>> from urllib.request import urlopen
    >>> from threading import Thread
    >>> inspector = Inspector(lancelet.write_dataset({"id": [1, 2]}, "memory://docs/inspected"))
    >>> Thread(target=inspector.serve, daemon=True).start()
    >>> b'"rows": 2' in urlopen(inspector.address + "facts/overview").read()
    True
    >>> inspector.close()
    """

    def __init__(self, table: LanceDataset, port: int = 0, *, follow: bool = True) -> None:
        self._table = table
        self.follows = follow
        self._token = secrets.token_urlsafe(24)
        handler = type("Handler", (_Handler,), {"inspector": self})
        self._server = _Server((_LOOPBACK, port), handler)
        self._lock, self._serving, self._closed = threading.Lock(), False, False

    @property
    def address(self) -> str:
        """What to open in a browser; whoever has it can read the table."""
        return f"http://{_LOOPBACK}:{self._server.server_address[1]}/{self._token}/"

    def serve(self) -> None:
        """Answer until :meth:`close`."""
        with self._lock:
            if self._closed:
                return
            self._serving = True
        self._server.serve_forever()

    def close(self) -> None:
        """Stop answering, or never begin."""
        with self._lock:
            self._closed = True
        if self._serving:
            self._server.shutdown()
        self._server.server_close()

    def table_at(self, version: str | None) -> LanceDataset:
        """The table at a version, ``3`` or ``BRANCH:3``; without one the newest, or the one that was opened if the page
        does not follow."""
        if version is None and not self.follows:
            return self._table
        branch = self._table.table.snapshot.manifest.branch
        if version is None:
            return self._table.checkout_version((branch, None))
        name, sign, number = version.rpartition(":")
        if not (number.isascii() and number.isdigit()):
            raise InvalidInput(f"a version is a number, or a branch and a number, not {version!r}")
        if sign:
            branch = None if name == MAIN else name
        return self._table.checkout_version((branch, int(number)))

    def allows(self, host: str, token: str) -> bool:
        """Whether a request is from the page: names that other sites give to this address are not taken."""
        port = self._server.server_address[1]
        known = secrets.compare_digest(token.encode(), self._token.encode())
        return host in (f"{_LOOPBACK}:{port}", f"localhost:{port}") and known


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves before it has its answer is nothing to tell; the rest is, in one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):
            sys.stderr.write(f"a request failed: {printable(str(error))}\n")


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    inspector: Inspector
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        token, _, rest = place.path.removeprefix("/").partition("/")
        if not self.inspector.allows(self.headers.get("Host", ""), token):
            self._send(HTTPStatus.FORBIDDEN, b"open the address that the command printed", "text/plain")
        elif rest in _STATIC:
            name, kind = _STATIC[rest]
            self._send(HTTPStatus.OK, files(__package__).joinpath("static").joinpath(name).read_bytes(), kind)
        elif rest.startswith("facts/") and rest.removeprefix("facts/") in FACTS:
            self._answer(rest.removeprefix("facts/"), dict(parse_qsl(place.query)))
        else:
            self._send(HTTPStatus.NOT_FOUND, b"there is nothing here", "text/plain")

    def _answer(self, name: str, words: dict[str, str]) -> None:
        try:
            found: Any = FACTS[name](self.inspector.table_at(words.get("version")), words)
            if name == "overview":
                found["follows"] = self.inspector.follows
            status = HTTPStatus.OK
        except (LanceletError, ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
            # Not only ours: values that Python does not have raise some of these.
            found, status = {"error": str(error) or type(error).__name__}, HTTPStatus.UNPROCESSABLE_ENTITY
        self._send(status, json_text(found).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: the address with its token would be in it."""

"""The sockets of a server: connections and their threads, bodies, deadlines and encryption.

A connection has a thread. What it may take:

==================  ==============================================================================
while idle          ``idle_seconds`` until the first byte of a request
a head              ``head_seconds`` from its first byte to its last, and 64 KiB a line
a body              ``head_seconds``, and a second more for each ``bytes_per_second`` that came;
                    ``rows_bytes`` of Arrow, ``json_bytes`` of JSON. Large ones lie in a temporary file
an answer           the same time, for what has been taken of it. Rows are sent as they are read, ``streams``
                    answers at once
all together        ``connections`` of them; ``at_once`` requests are worked on, others wait; their bodies
                    have ``kept_bytes``
==================  ==============================================================================

Python's own server waits for ever for whoever sends a byte now and then; here the clock runs over a whole part.
"""

from __future__ import annotations

import io
import mmap
import re
import socket
import socketserver
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import lance_namespace as ln

from lancelet.errors import InvalidInput, LanceletError
from lancelet.log import LOGGER, debug
from lancelet.namespace.rest.failures import TOO_LARGE, TOO_SLOW
from lancelet.namespace.rest.service import Answer, Refused, Service, refusal

_PIECE = 1 << 16
_SENT = 1 << 20
_IN_MEMORY = 4 << 20
_LINGER_BYTES, _LINGER_SECONDS = 64 << 20, 2.0
_POLL = 0.05
_QUEUE = 1024
_MOST_TRAILERS = 100
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")


@dataclass(frozen=True, slots=True)
class Limits:
    """What clients may take."""

    json_bytes: int = 16 << 20
    rows_bytes: int = 1 << 30
    kept_bytes: int = 4 << 30
    """For the bodies of all requests together."""
    connections: int = 1024
    at_once: int = 32
    streams: int = 128
    """Answers that are sent while they are made: each holds the rows that a scan reads ahead."""
    idle_seconds: float = 60.0
    head_seconds: float = 15.0
    bytes_per_second: int = 64 << 10
    stop_seconds: float = 10.0
    """How long a server that is stopped waits for requests that it works on."""

    def seconds(self, size: int) -> float:
        """How long so many bytes may be on their way."""
        return self.head_seconds + size / self.bytes_per_second


class Incoming(io.RawIOBase):
    """What a client sends, until a deadline."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = 0.0

    def allow(self, seconds: float, since: float | None = None) -> None:
        """Wait for bytes this long from now on, or since then, all together."""
        self._until = (time.monotonic() if since is None else since) + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the client is too slow")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Connection(BaseHTTPRequestHandler):
    """The requests of one connection, one after the other."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "lancelet"
    sys_version = ""
    busy = False
    """Whether a request is being worked on."""

    def setup(self) -> None:
        self.limits = self.server.limits
        self._has_unread = False
        self._kept_bytes = 0
        self.connection = self.request
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        if self.server.encryption is not None:
            self.connection.settimeout(self.limits.head_seconds)
            self.connection = _encrypted(self.connection, self.server.encryption)
        self._incoming = Incoming(self.connection)
        self.rfile = self._reader = io.BufferedReader(self._incoming, _PIECE)
        self.wfile = self._head = io.BytesIO()
        self.server.opened(self)

    def handle_one_request(self) -> None:
        self._incoming.allow(self.limits.idle_seconds)
        try:
            begun = bool(self._reader.peek(1))
        except TimeoutError:
            begun = False
        if not begun or self.server.stopping:
            self.close_connection = True
            return
        self._incoming.allow(self.limits.head_seconds)
        super().handle_one_request()

    def do_POST(self) -> None:
        """Answer a request."""
        with self.server.working(self):
            try:
                self._send(self._answer())
            finally:
                self.server.keep(-self._kept_bytes)
                self._kept_bytes = 0

    do_GET = do_POST  # noqa: N815 - the name that it is looked for by

    def _answer(self) -> Answer:
        try:
            question = self.server.service.question(self.command, self.path, self.headers)
            body = self._body(self.limits.rows_bytes if question.has_rows else self.limits.json_bytes)
        except Refused as refused:
            # Whether a body comes, and where the next request begins, nobody has looked.
            self.close_connection = self._has_unread = True
            return refused.answer
        with self.server.turns:
            return self.server.service.answer(question, body)

    def _keep(self, size: int) -> None:
        """Take room for a part of a body."""
        if not self.server.keep(size):
            raise Refused(ln.ServiceUnavailableError("there is no room for more bodies: come again later"))
        self._kept_bytes += size

    # Bodies

    def _body(self, limit: int) -> Any:
        lengths = self.headers.get_all("Content-Length", [])
        coding = self.headers.get("Transfer-Encoding")
        if coding is not None:
            if coding.strip().lower() != "chunked" or lengths:
                raise _invalid("a body comes in chunks or with its length, not otherwise nor in both ways")
        elif not lengths:
            return b""
        elif len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
            raise _invalid("Content-Length is one number")
        elif int(lengths[0]) > limit:
            raise _too_large(limit)
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            return _kept(self._timely(self._chunks(limit) if coding is not None else self._pieces(int(lengths[0]))))
        except TimeoutError:
            raise Refused(ln.ServiceUnavailableError("the body came too slowly"), TOO_SLOW) from None
        except EOFError:
            raise _invalid("the body ended before its end") from None

    def _timely(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Pieces that come soon enough."""
        begun, size = time.monotonic(), 0
        self._incoming.allow(self.limits.head_seconds, begun)
        for piece in pieces:
            size += len(piece)
            self._keep(len(piece))
            yield piece
            self._incoming.allow(self.limits.seconds(size), begun)

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self.rfile.read1(min(size, _PIECE))
            if not piece:
                raise EOFError
            size -= len(piece)
            yield piece

    def _chunks(self, limit: int) -> Iterator[bytes]:
        """A body in chunks: each has its size in front of it, the last one is empty, and headers may follow."""
        left = limit
        while True:
            match = _CHUNK_SIZE.fullmatch(self.rfile.readline(_PIECE))
            if match is None:
                raise _invalid("a chunk begins with its size")
            size = int(match[1], 16)
            left -= size
            if left < 0:
                raise _too_large(limit)
            yield from self._pieces(size)
            if not size:
                break
            if self.rfile.readline(_PIECE).strip():
                raise _invalid("a chunk is longer than its size")
        for _ in range(_MOST_TRAILERS):
            if not self.rfile.readline(_PIECE).strip():
                return
        raise _invalid("there are too many headers after the last chunk")

    def handle_expect_100(self) -> bool:
        """Those who ask first are told to go on once somebody wants their body."""
        return True

    # Answers

    def _send(self, answer: Answer) -> None:
        if self.server.stopping:
            self.close_connection = True
        if answer.rest is not None:
            self._stream(answer, answer.rest)
            return
        head = self._headers(answer, ("Content-Length", str(len(answer.body))))
        begun, body = time.monotonic(), memoryview(answer.body)
        self._push(head + bytes(body[:_PIECE]), begun, 0)
        for start in range(_PIECE, len(body), _SENT):
            self._push(body[start : start + _SENT], begun, start)

    def _headers(self, answer: Answer, *more: tuple[str, str]) -> bytes:
        self.send_response(answer.status)
        for name, value in (*answer.headers.items(), *more):
            self.send_header(name, value)
        if answer.content_type is not None:
            self.send_header("Content-Type", answer.content_type)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        head = self._head.getvalue()
        self._head.seek(0)
        self._head.truncate()
        return head

    def _stream(self, answer: Answer, rest: Generator[bytes, None, None]) -> None:
        """Send an answer as it is made; one that fails halfway ends without its last chunk, as clients can tell."""
        if not self.server.streams.acquire(blocking=False):
            self._send(refusal(ln.ServiceUnavailableError("there are too many answers on their way: come again later")))
            return
        try:
            with closing(rest):
                self._send_pieces(answer, rest)
        finally:
            self.server.streams.release()

    def _send_pieces(self, answer: Answer, rest: Iterator[bytes]) -> None:
        in_chunks = self.request_version != "HTTP/1.0"
        # Without chunks the end of an answer is the end of its connection.
        self.close_connection = self.close_connection or not in_chunks
        head = self._headers(answer, *((("Transfer-Encoding", "chunked"),) if in_chunks else ()))
        begun, sent = time.monotonic(), 0
        self._push(head, begun, 0)
        piece: bytes | None = answer.body
        while piece is not None:
            for start in range(0, len(piece), _SENT):
                part = memoryview(piece)[start : start + _SENT]
                self._push(b"".join((b"%x\r\n" % len(part), part, b"\r\n")) if in_chunks else part, begun, sent)
                sent += len(part)
            asked = time.monotonic()
            try:
                with self.server.turns:
                    piece = next(rest, None)
            except (LanceletError, ln.LanceNamespaceError, OSError) as error:
                LOGGER.warning("an answer to %s was broken off: %s", self.client_address[0], str(error))
                self.close_connection = True
                return
            # The clock is the client's: what we took ourselves does not count.
            begun += time.monotonic() - asked
        if in_chunks:
            self._push(b"0\r\n\r\n", begun, sent)

    def _push(self, piece: bytes | memoryview, begun: float, sent: int) -> None:
        # The timeout is for all of the piece.
        self.connection.settimeout(max(0.001, begun + self.limits.seconds(sent + len(piece)) - time.monotonic()))
        self.connection.sendall(piece)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is not HTTP at all, or no method that we have."""
        self.close_connection = self._has_unread = True
        kind = ln.UnsupportedOperationError if code == 501 else ln.InvalidInputError
        self._send(refusal(kind(f"the request cannot be read: {message or explain or code}"), code))

    def finish(self) -> None:
        """Let a client that still sends hear the answer: to hang up at once would take it away."""
        try:
            if self._has_unread:
                self.connection.shutdown(socket.SHUT_WR)
                self._incoming.allow(_LINGER_SECONDS)
                left = _LINGER_BYTES
                while left > 0 and (piece := self.rfile.read1(_PIECE)):
                    left -= len(piece)
        except OSError as error:
            debug("%s did not wait for the end: %s", self.client_address[0], str(error))
        finally:
            self.server.closed(self)
            self.connection.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has
        debug("%s " + format, self.client_address[0], *(str(arg) for arg in args))


class Server(socketserver.ThreadingMixIn, HTTPServer):
    """Listens, and gives each connection a thread."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = _QUEUE
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], service: Service, limits: Limits, encryption: ssl.SSLContext | None = None
    ) -> None:
        self.service, self.limits, self.encryption = service, limits, encryption
        self.turns = threading.BoundedSemaphore(limits.at_once)
        self.streams = threading.BoundedSemaphore(limits.streams)
        self.stopping = False
        self._room = threading.BoundedSemaphore(limits.connections)
        self._connections: set[Connection] = set()
        self._kept_bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        try:
            self.address_family = socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM)[0][0]
            super().__init__(address, Connection)
        except (OSError, OverflowError, UnicodeError) as error:
            raise InvalidInput(f"cannot listen at {address[0]}, port {address[1]}: {error}; choose another") from error

    def server_bind(self) -> None:
        """Without asking for the name of this machine, which can take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def start(self) -> None:
        """Serve on a thread of its own."""
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL,), name=f"lancelet-rest-{self.server_port}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections, and end those that there are; requests that are worked on are answered."""
        self.stopping = True
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self.server_close()
        with self._changed:
            for connection in self._connections:
                if not connection.busy:
                    _hang_up(connection.connection)
            self._changed.wait_for(lambda: not self._connections, self.limits.stop_seconds)
            for connection in self._connections:
                _hang_up(connection.connection)
            self._changed.wait_for(lambda: not self._connections, 1.0)

    # Connections

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a connection, if there is room for it."""
        if self._room.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._room.release()
                raise
            return
        debug("%s finds no room", client_address[0])
        error = refusal(ln.ServiceUnavailableError("there are too many connections: come again later"))
        with suppress(OSError):
            request.settimeout(0)
            if self.encryption is None:
                head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(error.body)}\r\nRetry-After: 1\r\n"
                request.sendall(
                    head.encode() + b"Content-Type: application/json\r\nConnection: close\r\n\r\n" + error.body
                )
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def opened(self, connection: Connection) -> None:
        """Remember a connection, to end it with the server."""
        with self._changed:
            self._connections.add(connection)
            if self.stopping:
                _hang_up(connection.connection)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()

    def keep(self, size: int) -> bool:
        """Take room for bytes of a body, if there is, or give it back."""
        with self._changed:
            if size > 0 and self._kept_bytes + size > self.limits.kept_bytes:
                return False
            self._kept_bytes += size
            return True

    def working(self, connection: Connection) -> _Working:
        """A context in which a connection is not ended by a server that stops."""
        return _Working(self._changed, connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is nobody's fault."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            debug("the connection of %s ended: %s", client_address[0], str(error))
        else:
            LOGGER.exception("the connection of %s failed", client_address[0])


class _Working:
    def __init__(self, changed: threading.Condition, connection: Connection) -> None:
        self._changed, self._connection = changed, connection

    def __enter__(self) -> None:
        with self._changed:
            self._connection.busy = True

    def __exit__(self, *failure: object) -> None:
        with self._changed:
            self._connection.busy = False


def _kept(pieces: Iterator[bytes]) -> Any:
    """A body, in memory or, if it is large, in a file without a name."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        size = 0
        for piece in pieces:
            file.write(piece)
            size += len(piece)
        if size > _IN_MEMORY:
            file.flush()
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        file.seek(0)
        return file.read()


def _encrypted(connection: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    wrapped = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    try:
        wrapped.do_handshake()
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _invalid(text: str) -> Refused:
    return Refused(ln.InvalidInputError(text))


def _too_large(limit: int) -> Refused:
    text = f"the body has more than {limit} bytes; send rows in several requests"
    return Refused(ln.InvalidInputError(text), TOO_LARGE)

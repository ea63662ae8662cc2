"""How requests of a client reach their server: connections that are kept, attempts, and what becomes of failures.

A request that changes nothing is sent again when the connection breaks, or when the server has no time; any other is sent
again only when it has not been sent at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import lance_namespace as ln
import urllib3

from lancelet.errors import InvalidInput

_SECONDS, _RETRIES = 600.0, 3
_BACKOFF = 0.05
_CONNECT_SECONDS = 10.0
_BUSY = frozenset([429, 503])
_POOLED = 16
_PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class Reach:
    """How a server is to be reached."""

    uri: str
    """Without a slash at its end."""
    timeout: float
    """Seconds that a server may be silent."""
    retries: int
    ca_cert: str | None
    """A file with the certificates that are trusted; None: those of the system."""
    cert: str | None
    """A file with the certificate that the client shows, if any."""
    key: str | None
    assert_hostname: bool

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Reach:
        """Read properties of a namespace."""
        uri = properties.get("uri", "").rstrip("/")
        if not uri.startswith(("http://", "https://")):
            raise InvalidInput(f"the property 'uri' is the address of a server, http://... or https://..., not {uri!r}")
        return cls(
            uri,
            _number(properties, "timeout", _SECONDS),
            int(_number(properties, "retries", _RETRIES)),
            properties.get("tls.ssl_ca_cert"),
            properties.get("tls.cert_file"),
            properties.get("tls.key_file"),
            properties.get("tls.assert_hostname", "true").lower() != "false",
        )


@dataclass(slots=True)
class Transport:
    """Connections to one server, for all threads of a process."""

    reach: Reach
    _pools: dict[int, urllib3.PoolManager] = field(default_factory=dict)
    """By process: a forked child has connections of its own."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def send(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], *, again: bool
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Send a request, ``again`` if that does no harm; returns status, body and headers of the answer."""
        answer = self._send(method, target, body, headers, again=again)
        return answer.status, answer.data, answer.headers

    def send_for_pieces(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, Generator[bytes, None, None]]:
        """Send a request that changes nothing; returns status and the body, piece by piece as it comes."""
        answer = self._send(method, target, body, headers, again=True, preload_content=False)
        return answer.status, self._pieces(answer)

    def _pieces(self, answer: urllib3.BaseHTTPResponse) -> Generator[bytes, None, None]:
        try:
            yield from answer.stream(_PIECE)
        except urllib3.exceptions.HTTPError as error:
            raise ln.ServiceUnavailableError(f"{self.reach.uri} broke its answer off: {error}") from error
        finally:
            # A connection with half of an answer in it is of no more use.
            answer.close()

    def _send(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], *, again: bool, **how: Any
    ) -> urllib3.BaseHTTPResponse:
        retries = self.reach.retries
        attempts = urllib3.Retry(
            total=retries,
            connect=retries,
            read=retries if again else 0,
            status=retries if again else 0,
            other=0,
            redirect=0,
            allowed_methods=None,
            status_forcelist=_BUSY if again else (),
            backoff_factor=_BACKOFF,
            raise_on_status=False,
            raise_on_redirect=False,
        )
        wait = urllib3.Timeout(connect=min(_CONNECT_SECONDS, self.reach.timeout), read=self.reach.timeout)
        try:
            return self._pool().request(
                method,
                f"{self.reach.uri}{target}",
                body=body,
                headers=dict(headers),
                retries=attempts,
                timeout=wait,
                **how,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ln.ServiceUnavailableError(_told(self.reach.uri, error, again=again)) from error

    def _pool(self) -> urllib3.PoolManager:
        with self._lock:
            found = self._pools.get(os.getpid())
            if found is None:
                found = self._pools[os.getpid()] = self._connect()
            return found

    def _connect(self) -> urllib3.PoolManager:
        options: dict[str, Any] = {"maxsize": _POOLED, "block": False}
        if self.reach.uri.startswith("https://"):
            options.update(
                cert_reqs="CERT_REQUIRED",
                ca_certs=self.reach.ca_cert,
                cert_file=self.reach.cert,
                key_file=self.reach.key,
                assert_hostname=None if self.reach.assert_hostname else False,
            )
        return urllib3.PoolManager(**options)


def _told(uri: str, error: urllib3.exceptions.HTTPError, *, again: bool) -> str:
    reason = getattr(error, "reason", None) or error
    if again or isinstance(reason, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)):
        return f"{uri} cannot be reached: {reason}"
    return f"{uri} did not answer, and nobody can say whether it did what it was asked for: {reason}"


def _number(properties: Mapping[str, str], name: str, default: float) -> float:
    text = properties.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InvalidInput(f"the property '{name}' is a number, not {text!r}")
    return value

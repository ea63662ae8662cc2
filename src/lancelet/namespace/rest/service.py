"""What a server does with a request, before anything is known of sockets: who may ask, what for, and the answer."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import lance_namespace as ln

from lancelet.errors import InvalidInput
from lancelet.log import LOGGER
from lancelet.namespace.errors import translated
from lancelet.namespace.rest.failures import NO_METHOD, error_body, status_of
from lancelet.namespace.rest.routes import ROWS, Route, matching
from lancelet.namespace.rest.wire import FILE_TYPE, JSON_TYPE, decode, encode_answer, path_parts

if TYPE_CHECKING:
    from email.message import Message

_LOCAL = "localhost"
_IN_PIECES = "_in_pieces"
"""How the methods of a namespace end that give rows piece by piece."""
_WHOLE = 1 << 20
"""Shorter answers are sent whole."""
Headers: TypeAlias = "Mapping[str, str] | Message[str, str]"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    rest: Generator[bytes, None, None] | None = None
    """What follows the body, piece by piece, where that is more than is held at once."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request whose body has not been read yet."""

    route: Route
    parts: tuple[str, ...]
    query: str

    @property
    def has_rows(self) -> bool:
        return self.route.body == ROWS


class Refused(Exception):
    """A request that is answered without a look at its body."""

    def __init__(self, error: ln.LanceNamespaceError, status: int | None = None, **headers: str) -> None:
        super().__init__(str(error))
        self.answer = refusal(error, status, **headers)


def refusal(error: ln.LanceNamespaceError, status: int | None = None, **headers: str) -> Answer:
    """The answer that tells of an error."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status or status_of(error), error_body(error), JSON_TYPE, named)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    if host.lower() == _LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Service:
    """A namespace that is asked over HTTP."""

    namespace: Any
    token: str | None = None
    """What clients have to know; None: whoever reaches the address may ask."""

    @classmethod
    def of(cls, namespace: Any, host: str, token: str | None) -> Service:
        """Check that a service may be had at an address."""
        if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
            raise InvalidInput("a token has at least 8 letters, digits or signs of ASCII, without spaces")
        if token is None and not is_loopback(host):
            raise InvalidInput(
                f"{host} can be reached from other machines, where everybody could change the tables: give a token, or "
                "serve at 127.0.0.1"
            )
        return cls(namespace, token)

    def question(self, method: str, target: str, headers: Headers) -> Question:
        """What is asked for, if one may ask; raises ``Refused``."""
        self._admit(headers)
        path, _, query = target.partition("?")
        parts = path_parts(path)
        routes = matching(parts)
        if not routes:
            raise Refused(ln.UnsupportedOperationError(f"there is nothing at {path}"), 404)
        for route in routes:
            if route.method == method:
                return Question(route, parts, query)
        allowed = ", ".join(route.method for route in routes)
        error = ln.UnsupportedOperationError(f"{path} is asked for with {allowed}, not with {method}")
        raise Refused(error, NO_METHOD, Allow=allowed)

    def answer(self, question: Question, body: Any) -> Answer:
        """Ask the namespace."""
        route = question.route
        try:
            with translated(route.operation):
                request, rows = decode(route, question.parts, question.query, body)
                if getattr(request, "storage_options", None):
                    raise ln.PermissionDeniedError("the storage options of this server are its own: send none")
                in_pieces = getattr(self.namespace, f"{route.operation}{_IN_PIECES}", None)
                if in_pieces is not None:
                    body, rest = _begun(in_pieces(request))
                    return Answer(route.status, body, FILE_TYPE, rest=rest)
                ask = getattr(self.namespace, route.operation)
                told, kind = encode_answer(route, ask(request) if rows is None else ask(request, rows))
        except ln.LanceNamespaceError as error:
            return refusal(error)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, one client hears of it and the others are served
            LOGGER.exception("%s failed", route.operation)
            return refusal(ln.InternalError(f"{route.operation} failed: {type(error).__name__}: {error}"))
        return Answer(route.status, told, kind)

    def _admit(self, headers: Headers) -> None:
        if self.token is None:
            # Pages of the web can have a browser ask loopback addresses, but neither hide where they come from nor
            # choose the address that their own name is resolved to by the time the browser says it.
            if headers.get("Origin") is not None:
                raise Refused(ln.PermissionDeniedError("pages of the web may not ask this server"))
            host = _host(headers.get("Host") or _LOCAL)
            if not is_loopback(host):
                raise Refused(ln.PermissionDeniedError(f"this server is not called {host}: ask it by its address"))
            return
        kind, _, given = headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            given = headers.get("x-api-key", "")
        if not hmac.compare_digest(given.strip().encode(errors="replace"), self.token.encode()):
            raise Refused(
                ln.UnauthenticatedError("the token is missing or wrong: send the header Authorization: Bearer TOKEN"),
                WWW_Authenticate="Bearer",
            )


def _begun(pieces: Generator[bytes, None, None]) -> tuple[bytes, Generator[bytes, None, None] | None]:
    """The beginning of an answer, and what follows it unless that is all. Whatever fails by then, the client is told."""
    first = []
    size = 0
    for piece in pieces:
        first.append(piece)
        size += len(piece)
        if size >= _WHOLE:
            return b"".join(first), pieces
    return b"".join(first), None


def _host(given: str) -> str:
    """The name in a header, without its port."""
    try:
        return urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return given

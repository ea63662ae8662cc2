"""The client of a REST namespace, under the interface that all namespaces have."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Generator, Mapping
from typing import Any

import lance_namespace as ln

from lancelet.errors import InvalidInput
from lancelet.namespace.context import DynamicContextProvider
from lancelet.namespace.names import DELIMITER
from lancelet.namespace.operations import Counts
from lancelet.namespace.rest.failures import error_of
from lancelet.namespace.rest.routes import ROUTES, Route
from lancelet.namespace.rest.transport import Reach, Transport
from lancelet.namespace.rest.wire import Sent, decode_answer, encode
from lancelet.store.limit import OPTION as LIMIT
from lancelet.store.limit import with_limit

_HEADERS = ("header.", "headers.")
_PROVIDER = "dynamic_context_provider."
_IN_KIND = ("batch_delete_table_versions", "create_table_version", "describe_table_version")
"""Operations that are answered with a dict when they are asked for with one, as Lance's own clients do."""


class RestNamespace(ln.LanceNamespace):
    """The namespace behind a server of the ``lance-namespace`` REST specification.

    Errors are those of ``lance_namespace``, each with its ``code``; a server that cannot be reached is
    ``ServiceUnavailableError``. Headers of an answer are its ``context``.

    Parameters
    ----------
    context_provider
        Tells headers for each operation (``headers.NAME``).
    properties
        ``uri``, the address of the server, is needed. ``token`` is sent as ``Authorization: Bearer``, ``header.NAME`` are
        other headers; ``delimiter`` (``$``) joins names; ``timeout`` (600) is in seconds, ``retries`` (3) is for
        connections that break; ``tls.ssl_ca_cert``, ``tls.cert_file``, ``tls.key_file`` and ``tls.assert_hostname``
        are for ``https``; ``allowed_prefixes`` is where its tables may refer to. Unknown ones are ignored.

    Examples
    --------
    >>> space = RestNamespace(uri="http://localhost:2333", token="a secret of ours")
    >>> space.namespace_id()
    'RestNamespace { endpoint: "http://localhost:2333", delimiter: "$" }'
    """

    def __init__(self, context_provider: DynamicContextProvider | None = None, **properties: Any) -> None:
        self._properties = {str(key): str(value) for key, value in properties.items()}
        self._provider = context_provider or _provider(self._properties)
        self._given_provider = context_provider
        self._delimiter = self._properties.get("delimiter", DELIMITER)
        if not self._delimiter:
            raise InvalidInput("the property 'delimiter' is empty, but joins names")
        self._headers = _headers(self._properties)
        if "token" in self._properties:
            self._headers["Authorization"] = f"Bearer {self._properties['token']}"
        _check_headers(self._headers)
        self._counts = Counts(wanted=self._properties.get("ops_metrics_enabled", "").lower() == "true")
        self._transport = Transport(Reach.of(self._properties))

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._given_provider, self._properties)

    def __repr__(self) -> str:
        return f"RestNamespace({self.namespace_id()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RestNamespace) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._properties.items())))

    def _identity(self) -> tuple[object, ...]:
        return self._properties, self._given_provider

    def namespace_id(self) -> str:
        uri = self._properties["uri"]
        return f'RestNamespace {{ endpoint: "{uri}", delimiter: "{self._delimiter}" }}'

    def limit_options(self) -> dict[str, str]:
        """The storage options that limit what tables may refer to, for those who open them by their locations."""
        limit = self._properties.get(LIMIT)
        return {} if limit is None else {LIMIT: with_limit(None, limit)[LIMIT]}

    def retrieve_ops_metrics(self) -> dict[str, int]:
        """How often each operation was asked for; nothing unless ``ops_metrics_enabled`` is ``true``."""
        return self._counts.told()

    def reset_ops_metrics(self) -> None:
        """Begin to count anew."""
        self._counts.clear()

    def create_empty_table(self, request: ln.CreateEmptyTableRequest) -> ln.CreateEmptyTableResponse:
        """Take the name of a table; the same as ``declare_table``, under its old name."""
        told = self.declare_table(ln.DeclareTableRequest(id=request.id, properties=request.properties))
        return ln.CreateEmptyTableResponse(location=told.location, properties=told.properties)

    def ask(self, route: Route, request: Any, data: bytes | None = None) -> Any:
        """Send a request, and wait for its answer."""
        in_kind = isinstance(request, Mapping)
        sent, headers = self._message(route, route.request.from_dict(dict(request)) if in_kind else request, data)
        status, body, told = self._transport.send(route.method, sent.target, sent.body, headers, again=route.reads)
        if not 200 <= status < 300:
            raise error_of(status, body, self._transport.reach.uri)
        answer = decode_answer(route, body, told)
        return answer.to_dict() if in_kind and route.operation in _IN_KIND else answer

    def query_table_in_pieces(self, request: ln.QueryTableRequest) -> Generator[bytes, None, None]:
        """What ``query_table`` answers, piece by piece, so that it need not fit into memory."""
        route = next(route for route in ROUTES if route.operation == "query_table")
        sent, headers = self._message(route, request, None)
        status, pieces = self._transport.send_for_pieces(route.method, sent.target, sent.body, headers)
        if not 200 <= status < 300:
            raise error_of(status, b"".join(pieces), self._transport.reach.uri)
        yield from pieces

    def _message(self, route: Route, asked: Any, data: bytes | None) -> tuple[Sent, dict[str, str]]:
        """A request as it is sent, and its headers."""
        self._counts.note(route.operation)
        sent = encode(route, asked, data, self._delimiter)
        headers = {**self._headers, **_headers(getattr(asked, "context", None) or {})}
        if self._provider is not None:
            named = self._delimiter.join(getattr(asked, "id", None) or ()) or self._delimiter
            info = {"operation": route.operation, "object_id": named if route.has_id else ""}
            headers.update(_headers(self._provider.provide_context(info)))
        if sent.content_type is not None:
            headers["Content-Type"] = sent.content_type
        _check_headers(headers)
        return sent, headers


def _restored(provider: DynamicContextProvider | None, properties: Mapping[str, str]) -> RestNamespace:
    return RestNamespace(provider, **properties)


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    """What is meant for the way, by the names that it has there."""
    return {key.partition(".")[2]: str(value) for key, value in given.items() if key.startswith(_HEADERS)}


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not name or not (name + value).isprintable() or not (name + value).isascii():
            raise InvalidInput(f"the header {name!r} is not one line of ASCII")


def _provider(properties: Mapping[str, str]) -> DynamicContextProvider | None:
    """The provider that properties name by its class."""
    given = {key.removeprefix(_PROVIDER): value for key, value in properties.items() if key.startswith(_PROVIDER)}
    path = given.pop("impl", None)
    if path is None:
        return None
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"there is no context provider {path!r}: {error}") from error
    provider: DynamicContextProvider = kind(**given)
    return provider


def _asking(route: Route) -> Callable[..., Any]:
    """The method of a namespace that asks for an operation."""

    @functools.wraps(getattr(ln.LanceNamespace, route.operation))
    def ask(self: RestNamespace, request: Any, *data: Any) -> Any:
        return self.ask(route, request, *data)

    return ask


# Each operation of the interface is asked for in the way that its route has.
for _one in ROUTES:
    setattr(RestNamespace, _one.operation, _asking(_one))

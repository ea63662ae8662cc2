"""Servers that a program or the command line starts."""

from __future__ import annotations

import os
import signal
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lance_namespace import connect as connect_any

from lancelet.errors import InvalidInput
from lancelet.log import LOGGER
from lancelet.namespace.directory import DirectoryNamespace
from lancelet.namespace.rest.client import RestNamespace
from lancelet.namespace.rest.http_server import Limits, Server
from lancelet.namespace.rest.service import Service, is_loopback
from lancelet.store.limit import OPTION as LIMIT

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet._api.session import Session

HOST, PORT = "127.0.0.1", 2333
"""Where servers are unless told otherwise; the port is the specification's."""


class RestAdapter:
    """A server for a namespace, as the ``lance-namespace`` REST specification has it.

    Clients of that specification in any language can use it. Tables are opened with ``allowed_prefixes`` set to nothing,
    unless the properties say otherwise: what lies outside of the root is not read.

    Parameters
    ----------
    namespace_client_impl
        ``dir``, ``rest`` (another server, which is passed on), or the class of a namespace with its module.
    namespace_client_properties
        Its properties, such as ``root``.
    session
        Caches that the tables share.
    host
        The address; ``127.0.0.1`` by default, which only this machine can reach. Others need a token.
    port
        2333 by default; 0 takes one that is free, which :attr:`port` tells.
    token
        What clients have to send as ``Authorization: Bearer TOKEN``.
    tls_cert, tls_key
        Files with the certificate and its key (PEM), for ``https``.
    limits
        What clients may take.

    Examples
    --------
    >>> from lancelet.namespace import RestAdapter, RestNamespace
    >>> from lance_namespace import CreateNamespaceRequest, ListNamespacesRequest
    >>> with RestAdapter("dir", {"root": "memory://docs/served"}, port=0) as server:
    ...     client = RestNamespace(uri=server.uri)
    ...     made = client.create_namespace(CreateNamespaceRequest(id=["sales"]))
    ...     client.list_namespaces(ListNamespacesRequest(id=[])).namespaces
    ['sales']
    """

    def __init__(
        self,
        namespace_client_impl: str,
        namespace_client_properties: Mapping[str, Any] | None = None,
        session: Session | None = None,
        host: str | None = None,
        port: int | None = None,
        *,
        token: str | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.namespace_client_impl = namespace_client_impl
        self.host = HOST if host is None else host
        self._asked_port = PORT if port is None else port
        self._limits = limits or Limits()
        self._encryption = _encryption(tls_cert, tls_key)
        namespace = _backend(namespace_client_impl, namespace_client_properties or {}, session)
        self._service = Service.of(namespace, self.host, token)
        self._server: Server | None = None
        if token is not None and self._encryption is None and not is_loopback(self.host):
            LOGGER.warning("tokens go to %s in the clear: give a certificate and its key", self.host)

    @property
    def port(self) -> int:
        """The port; 0 until the server is started."""
        return 0 if self._server is None else self._server.server_port

    @property
    def uri(self) -> str:
        """What clients are to be given."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._encryption is None else 'https'}://{host}:{self.port}"

    def start(self) -> None:
        """Serve in the background."""
        if self._server is not None:
            raise InvalidInput(f"the server is running already, at {self.uri}")
        self._server = Server((self.host, self._asked_port), self._service, self._limits, self._encryption)
        self._server.start()

    def stop(self) -> None:
        """End the server, after it has answered the requests that it works on."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> RestAdapter:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"RestAdapter(host='{self.host}', port={self.port})"


def serve(
    root: str | os.PathLike[str],
    host: str = HOST,
    port: int = PORT,
    *,
    token: str | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    ready: Callable[[str], object] | None = None,
    **properties: Any,
) -> None:
    """Serve the tables below a folder until the process is interrupted or told to end.

    Parameters
    ----------
    root
        A local path, or a URI such as ``s3://bucket/tables``.
    host, port, token, tls_cert, tls_key
        See :class:`RestAdapter`.
    storage_options
        Options of the object store.
    ready
        Called with the address once clients can come.
    properties
        See :class:`lancelet.namespace.DirectoryNamespace`.
    """
    given = {f"storage.{key}": value for key, value in (storage_options or {}).items()}
    settings = {"root": os.fspath(root), **given, **properties}
    adapter = RestAdapter("dir", settings, None, host, port, token=token, tls_cert=tls_cert, tls_key=tls_key)
    ended = threading.Event()
    before: Any = None
    if is_main := threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with adapter:
            if ready is not None:
                ready(adapter.uri)
            ended.wait()
    except KeyboardInterrupt:
        LOGGER.info("the server was interrupted")
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _backend(impl: str, properties: Mapping[str, Any], session: Session | None) -> Any:
    given = {str(key): value for key, value in properties.items()}
    if impl == "dir":
        return DirectoryNamespace(session, None, **{LIMIT: "", **given})
    if impl == "rest":
        return RestNamespace(None, **given)
    if "." not in impl:
        raise InvalidInput(f"there is no namespace of the kind {impl!r}: choose dir, rest or a class with its module")
    try:
        return connect_any(impl, given)
    except ValueError as error:
        raise InvalidInput(f"there is no namespace of the kind {impl!r}: {error}") from error


def _encryption(
    tls_cert: str | os.PathLike[str] | None, tls_key: str | os.PathLike[str] | None
) -> ssl.SSLContext | None:
    if tls_cert is None and tls_key is None:
        return None
    if tls_cert is None or tls_key is None:
        raise InvalidInput("tls_cert and tls_key are given together: a certificate and its key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls_cert, tls_key)
    except OSError as error:
        raise InvalidInput(f"the certificate {tls_cert} or its key {tls_key} cannot be used: {error}") from error
    return context

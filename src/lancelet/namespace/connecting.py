"""Connections for people, to folders and to servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lancelet.namespace_client.models import load_models

if TYPE_CHECKING:
    from lancelet._api.session import Session
    from lancelet.namespace.connection import Connection

_SERVERS = ("http://", "https://")


def connect(
    root: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    session: Session | None = None,
    **properties: Any,
) -> Connection:
    """Open the namespace in a folder, which need not be there yet, or the one behind a server.

    Parameters
    ----------
    root
        A local path, or a URI such as ``s3://bucket/tables``; the address of a server, ``http://...``; or ``"rest"``,
        with the address as ``uri``.
    storage_options
        Options of the object store.
    session
        Caches that the tables share.
    properties
        See :class:`lancelet.namespace.DirectoryNamespace`; for a server :class:`lancelet.namespace.RestNamespace`, such
        as ``token``.

    Examples
    --------
    >>> import lancelet
    >>> space = lancelet.connect("memory://docs/connected")
    >>> space.create_namespace("sales")
    >>> space.create("sales.orders", {"id": [1, 2]}).count_rows()
    2
    >>> list(space.tables("sales"))
    ['orders']
    >>> "sales.orders" in space
    True
    >>> lancelet.connect("rest", uri="http://localhost:2333", token="a secret of ours")
    RemoteConnection(RestNamespace { endpoint: "http://localhost:2333", delimiter: "$" })
    """
    # The function is there, and tells how to install it, also where the package of namespaces is not.
    load_models()
    from lancelet.namespace.connection import Connection
    from lancelet.namespace.directory import DirectoryNamespace
    from lancelet.namespace.remote import RemoteConnection
    from lancelet.namespace.rest.client import RestNamespace

    place = os.fspath(root)
    if place.startswith(_SERVERS):
        properties = {"uri": place, **properties}
    elif place != "rest" or "uri" not in properties:
        options = {f"storage.{key}": value for key, value in (storage_options or {}).items()}
        return Connection(DirectoryNamespace(session, root=place, **options, **properties))
    client = RestNamespace(properties.pop("context_provider", None), **properties)
    return RemoteConnection(client, storage_options=storage_options, session=session)

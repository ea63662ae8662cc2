"""Namespaces: names of tables, instead of their places. Needs the extra ``namespace``.

>>> import lancelet
>>> space = lancelet.connect("memory://docs/namespace")
>>> space.create("fruit", {"name": ["apple", "pear"]}).count_rows()
2
"""

from lancelet.errors import MissingPackage
from lancelet.namespace_client.models import PACKAGE

try:
    import lance_namespace
except ImportError as error:
    raise MissingPackage(PACKAGE) from error

from lancelet.namespace.connecting import connect
from lancelet.namespace.connection import Connection
from lancelet.namespace.context import DynamicContextProvider
from lancelet.namespace.directory import DirectoryNamespace
from lancelet.namespace.remote import RemoteConnection
from lancelet.namespace.rest.adapter import RestAdapter, serve
from lancelet.namespace.rest.client import RestNamespace

__all__ = [
    "Connection",
    "DirectoryNamespace",
    "DynamicContextProvider",
    "RemoteConnection",
    "RestAdapter",
    "RestNamespace",
    "connect",
    "serve",
]

del lance_namespace

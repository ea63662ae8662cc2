"""Namespaces: names of tables, instead of their places. Needs the extra ``namespace``.

>>> import lancelet
>>> space = lancelet.connect("memory://docs/namespace")
>>> space.create("fruit", {"name": ["apple", "pear"]}).count_rows()
2

The requests and answers of ``lance-namespace`` are found here too:

>>> lancelet.namespace.ListTablesRequest(id=["sales"]).id
['sales']
"""

from typing import TYPE_CHECKING, Any, Final

from lancelet._naming.lazy import lazy_names
from lancelet.namespace.connecting import connect
from lancelet.namespace_client.models import load_models

if TYPE_CHECKING:
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

_MODELS: Final = ("Request", "Response")
_later = lazy_names(
    __name__,
    {
        "lancelet.namespace.connection": ("Connection",),
        "lancelet.namespace.context": ("DynamicContextProvider",),
        "lancelet.namespace.directory": ("DirectoryNamespace",),
        "lancelet.namespace.remote": ("RemoteConnection",),
        "lancelet.namespace.rest.adapter": ("RestAdapter", "serve"),
        "lancelet.namespace.rest.client": ("RestNamespace",),
    },
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        # The sentence on how to install it, before a module of ours stumbles over it.
        load_models()
    elif name == "LanceNamespace" or name.endswith(_MODELS):
        models = load_models()
        if hasattr(models, name):
            return getattr(models, name)
    return _later(name)

"""Namespaces of a catalog: made, listed, described, changed, dropped.

The package of requests takes a second to import. A process that will be asked about names loads this module early, and the package
with it; others of this room import it where they need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_namespace import (
    CreateNamespaceRequest,
    DescribeNamespaceRequest,
    DropNamespaceRequest,
    ListNamespacesRequest,
)

from lancelet.errors import NotSupported
from lancelet.namespace import DirectoryNamespace
from lancelet.namespace.making import alter_namespace as alter
from lancelet.spark.sql.catalog import SINGLE, Catalog, open_catalog

_LOCATION = "location"
_NOTHING_IN_PARTICULAR: dict[str, str] = {}


def list_namespaces(details: Mapping[str, Any]) -> list[list[str]]:
    """Names of the namespaces directly in one."""
    catalog, names = open_catalog(details), list(details["namespace"])
    if catalog.client is None:
        return []
    ident = catalog.namespace_id(names)
    if catalog.single_level:
        return [] if names else [[SINGLE]]
    found: list[str] = []
    token = None
    while True:
        page = catalog.client.list_namespaces(ListNamespacesRequest(id=list(ident), page_token=token))
        found.extend(page.namespaces)
        token = page.page_token
        if not token:
            return [[*names, child] for child in found]


def load_namespace(details: Mapping[str, Any]) -> dict[str, str]:
    """Properties of a namespace."""
    catalog, ident = _namespace(details)
    if not ident or catalog.single_level:
        return _NOTHING_IN_PARTICULAR
    told = catalog.client.describe_namespace(DescribeNamespaceRequest(id=list(ident)))
    return dict(told.properties or {})


def create_namespace(details: Mapping[str, Any]) -> None:
    """Make a namespace."""
    catalog, ident = _namespace(details)
    _refuse_location(details)
    catalog.client.create_namespace(CreateNamespaceRequest(id=list(ident), properties=details["properties"] or None))


def alter_namespace(details: Mapping[str, Any]) -> None:
    """Change properties of a namespace."""
    catalog, ident = _namespace(details)
    _refuse_location(details)
    if not isinstance(catalog.client, DirectoryNamespace):
        raise NotSupported(f"the namespace behind the catalog {catalog.name} has no way to change properties")
    alter(catalog.client.root, ident, details["properties"], details["removed"])


def drop_namespace(details: Mapping[str, Any]) -> bool:
    """Remove a namespace; with what is in it, if asked for."""
    catalog, ident = _namespace(details)
    behavior = "Cascade" if details["cascade"] else "Restrict"
    catalog.client.drop_namespace(DropNamespaceRequest(id=list(ident), behavior=behavior))
    return True


def _refuse_location(details: Mapping[str, Any]) -> None:
    if _LOCATION in details["properties"]:
        raise NotSupported(
            "a namespace has no LOCATION: its tables are where the catalog has them; a table can be elsewhere, by CREATE TABLE ... "
            "LOCATION"
        )


def _namespace(details: Mapping[str, Any]) -> tuple[Catalog, tuple[str, ...]]:
    catalog = open_catalog(details)
    catalog.namespace()
    return catalog, catalog.namespace_id(details["namespace"])

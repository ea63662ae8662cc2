"""From a URI to a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lancelet.store.limit import Limit, noted
from lancelet.store.local import ConfinedStore, LocalStore
from lancelet.store.location import FILE, MEMORY, parse_location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet.store.base import Store
    from lancelet.store.location import Location


def open_store(uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> Store:
    """Open the folder at a path or URI.

    Parameters
    ----------
    uri
        A local path (``~`` and relative paths allowed), or ``file://``, ``memory://name/...``, ``s3://``,
        ``gs://``, ``az://``, ``abfss://``, ``s3+ddb://bucket/path?ddbTableName=name``.
    storage_options
        Options with the names of object_store, such as ``aws_access_key_id``, ``region``, ``endpoint``,
        ``allow_http``. Environment variables fill what is not given.

    Examples
    --------
    >>> store = open_store("memory://docs/table")
    >>> store.put("a/b.txt", b"hello")
    >>> [entry.path for entry in store.list_objects("a")]
    ['a/b.txt']
    """
    return open_at(parse_location(uri), storage_options or {})


def open_at(location: Location, storage_options: Mapping[str, str]) -> Store:
    """Open the folder at a location."""
    options = noted(storage_options, location)
    if location.kind == FILE:
        limit = Limit.of(options)
        return LocalStore(location.path, options) if limit is None else ConfinedStore(location.path, options)
    if location.kind == MEMORY:
        from lancelet.store.memory import MemoryStore

        return MemoryStore(location.root, location.path, options)
    if location.dynamodb is not None:
        options["manifest_store"] = f"dynamodb://{location.dynamodb}"
    # Object stores are only loaded by those who use them.
    from lancelet.store.remote import Address, RemoteStore

    return RemoteStore(Address(location.kind, location.root), location.path, options)


def open_like(store: Store, storage_options: Mapping[str, str], uri: str | None = None) -> Store:
    """Open the folder of a store again with other options, or another one that is seen from it.

    In memory the same name may stand for several tables: what one of them names is where that one is.
    """
    location = parse_location(store.uri if uri is None else uri)
    return like(store, location, storage_options)


def like(store: Store, location: Location, storage_options: Mapping[str, str]) -> Store:
    """Open a location that is seen from a store."""
    beside = getattr(store, "beside", None) if location.kind == MEMORY else None
    if beside is not None and location.root == parse_location(store.uri).root:
        opened: Store = beside(location.path, noted(storage_options, location))
        return opened
    return open_at(location, storage_options)

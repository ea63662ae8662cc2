"""From a URI to a store."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from lancelet.errors import InvalidInput
from lancelet.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet.store.base import Store

SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
KINDS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "adl": "az",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "memory": "memory",
}


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
    text = os.fspath(uri)
    options = dict(storage_options or {})
    match = SCHEME.match(text)
    if match is None:
        if not text:
            raise InvalidInput("the URI of a table is empty")
        return LocalStore(text, options)
    scheme = match.group(1).lower()
    parts = urlsplit(text)
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise InvalidInput(f"{text} names the host '{parts.netloc}'; local files are file:///path")
        return LocalStore(unquote(parts.path), options)
    if scheme == "s3+ddb":
        return _with_manifest_store(text, options)
    if scheme not in KINDS:
        raise InvalidInput(f"{text} has the unknown scheme '{scheme}'; known are file, {', '.join(KINDS)}")
    if scheme != "memory" and not parts.netloc:
        raise InvalidInput(f"{text} names no bucket")
    # Object stores are only loaded by those who use them.
    from lancelet.store.remote import Address, RemoteStore

    # Keys may hold '?' and '#', so the path is everything after the bucket.
    path = text[match.end() + len(parts.netloc) :]
    return RemoteStore(Address(KINDS[scheme], f"{scheme}://{parts.netloc}"), path, options)


def _with_manifest_store(text: str, options: dict[str, str]) -> Store:
    """``s3+ddb://bucket/path?ddbTableName=name``: the same as ``s3://`` with an option."""
    place, _, query = text.partition("?")
    names = parse_qs(query).get("ddbTableName", [])
    if len(names) != 1 or not names[0]:
        raise InvalidInput(f"{text} does not name its DynamoDB table; write s3+ddb://bucket/path?ddbTableName=name")
    return open_store(f"s3://{place.partition('://')[2]}", {**options, "manifest_store": f"dynamodb://{names[0]}"})

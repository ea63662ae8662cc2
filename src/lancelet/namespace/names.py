"""Identifiers, and the folders that tables are in (spec namespace.md 1).

An identifier is a list of names, the last of which is the table's or the child namespace's; the root is the empty
list. In the catalog its names are joined with ``$``, which therefore cannot be in a name. Names are read more
leniently than they are made: other writers do not reject what would be mistaken for two names.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from lance_namespace import InvalidInputError

DELIMITER = "$"
SUFFIX = ".lance"
CATALOG = "__manifest"
"""The folder of the catalog."""
_FORBIDDEN = (DELIMITER, "/", "\\", "\x00")
_HASH_BYTES = 4
_MAX_FOLDER = 255
# All that a URL's path holds as it is.
_PLAIN = "!$&'()*+,-./:;=@[]^_|~"

Identifier = tuple[str, ...]
Names: TypeAlias = "Sequence[str] | None"
"""An identifier as requests have it, before it is checked."""


def identifier(names: Any, what: str = "table") -> Identifier:
    """Check an identifier that something is looked up by."""
    if names is None:
        raise InvalidInputError(f"the id of the {what} is missing")
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"the id of a {what} is a list of names, not {names!r}")
    return tuple(names)


def table_identifier(names: Any) -> Identifier:
    """Check the identifier of a table, which is not the root."""
    found = identifier(names)
    if not found:
        raise InvalidInputError("the id of a table is empty: that is the root namespace")
    # A name becomes a part of a path.
    if any("/" in name or name in ("", ".", "..") for name in found):
        raise InvalidInputError(
            f"no table can have the id {list(found)}: names are not empty, '.' or '..', without '/'"
        )
    return found


def check_new(names: Identifier, what: str = "table") -> None:
    """Check the last name of something that is to be made."""
    name = names[-1]
    if name in ("", ".", ".."):
        raise InvalidInputError(f"a {what} cannot be named {name!r}")
    found = [mark for mark in _FORBIDDEN if mark in name]
    if found:
        raise InvalidInputError(
            f"a {what} cannot be named {name!r}: {found[0]!r} has another meaning"
            + (" (it joins the names of an identifier)" if found[0] == DELIMITER else "")
        )
    if name.endswith(SUFFIX) and what == "table":
        raise InvalidInputError(f"a table cannot be named {name!r}: {SUFFIX!r} is how folders of tables end")
    try:
        longest = len(name.encode()) if what == "namespace" else len(folder_name(names).encode())
    except UnicodeEncodeError:
        raise InvalidInputError(f"a {what} cannot be named {name!r}, which is no text that UTF-8 can hold") from None
    if longest > _MAX_FOLDER:
        raise InvalidInputError(f"the id of the {what} is too long: its folder's name would have {longest} bytes")


def object_id(names: Identifier) -> str:
    """How the catalog calls something.

    Examples
    --------
    >>> object_id(("ns", "sub", "t"))
    'ns$sub$t'
    """
    return DELIMITER.join(names)


def shown(names: Identifier) -> str:
    """An identifier in the text of an error."""
    return ".".join(names) or "the root namespace"


def shown_table(names: Names) -> str:
    """A table in the text of an error, by the id that a request has."""
    return f"table {shown(tuple(names or ()))}"


def folder_name(names: Identifier) -> str:
    """A folder for a new table, which no other table has: random digits spread folders over a store's partitions."""
    return f"{secrets.token_hex(_HASH_BYTES)}_{object_id(names)}"


def listed_folder(name: str) -> str:
    """The folder under which a table of the root is found by listing."""
    return f"{name}{SUFFIX}"


def check_location(location: str) -> str:
    """Check where a table is said to be: a path below the root."""
    if "://" in location:
        raise InvalidInputError(f"location {location!r} is a URI, but has to be a path below the root of the namespace")
    if location.startswith("/"):
        raise InvalidInputError(
            f"location {location!r} is absolute, but has to be a path below the root of the namespace"
        )
    parts = location.rstrip("/").split("/")
    if ".." in parts:
        raise InvalidInputError(f"location {location!r} leaves the root of the namespace")
    if parts[0] == CATALOG:
        raise InvalidInputError(f"location {location!r} is where the catalog of the namespace is")
    if "" in parts or "." in parts or "\x00" in location:
        raise InvalidInputError(f"location {location!r} is not the path of a folder below the root of the namespace")
    return location


def file_uri(path: str) -> str:
    """A local path as a URI.

    Examples
    --------
    >>> file_uri("/data/a b.lance")
    'file:///data/a%20b.lance'
    """
    return f"file://{quote(path, safe=_PLAIN)}"

"""Which table a command is about, and which version of it.

::

    TABLE                        a path, or a URI of a store: s3://bucket/kelp.lance
    ROOT#name                    a table of the namespace in ROOT: s3://bucket/tables#sales.orders
    http://host:2333#name        a table of the namespace behind a server; LANCELET_TOKEN is what it is shown
    --at 3 | NAME | BRANCH:3     a version, a tag, a branch or a version of it
    --as-of 2026-11-16T12:00     the newest version at a time
    --storage-option key=value   for the store; more than once
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lancelet._api.entry import dataset
from lancelet.dataset import LanceDataset
from lancelet.errors import InvalidInput, TableNotFound

if TYPE_CHECKING:
    from lancelet.namespace import Connection

Place = Annotated[
    str, typer.Argument(metavar="TABLE", help="A path or URI; ROOT#name for a table of the namespace in ROOT.")
]
At = Annotated[str | None, typer.Option("--at", metavar="VERSION", help="A version, a tag, BRANCH or BRANCH:VERSION.")]
AsOf = Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="The newest version at this time.")]
Options = Annotated[
    list[str] | None, typer.Option("--storage-option", "-o", metavar="KEY=VALUE", help="For the store; more than once.")
]
_MOST_NAMED: Final = 5
TOKEN: Final = "LANCELET_TOKEN"
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def storage_options(given: Sequence[str] | None) -> dict[str, str] | None:
    """Options of a store, of ``key=value``."""
    found = {}
    for one in given or ():
        key, sign, value = one.partition("=")
        if not sign or not key:
            raise InvalidInput(f"a storage option is KEY=VALUE, not {one!r}")
        found[key] = value
    return found or None


def in_namespace(place: str, options: Any = None) -> tuple[Connection, str] | None:
    """The namespace that a place is in, and its name there; None for paths, also those with ``#`` in them."""
    root, sign, name = place.partition("#")
    if not sign or Path(place).exists():
        return None
    from lancelet.namespace import connect

    token = os.environ.get(TOKEN) if root.startswith(("http://", "https://")) else None
    known: dict[str, Any] = {} if token is None else {"token": token}
    return connect(root, storage_options=storage_options(options), **known), name


def location(place: str, options: Any = None) -> str:
    """Where the table is that a command names, also if it cannot be opened."""
    return place if in_namespace(place, options) is None else str(open_table(place, options=options).uri)


def open_table(place: str, at: str | None = None, as_of: str | None = None, options: Any = None) -> LanceDataset:
    """The table that a command names."""
    if at is not None and as_of is not None:
        raise InvalidInput("--at and --as-of are two ways to name a version: give one of them")
    named = in_namespace(place, options)
    if named is not None:
        found = named[0].open(named[1])
    else:
        found = _opened(place, storage_options(options), as_of)
    if at is not None:
        return found.checkout_version(reference(found, at))
    if named is not None and as_of is not None:
        return dataset(found.uri, storage_options=storage_options(options), asof=as_of)
    return found


def _opened(place: str, options: dict[str, str] | None, as_of: str | None) -> LanceDataset:
    try:
        return dataset(place, storage_options=options, asof=as_of)
    except TableNotFound as error:
        if Path(place).is_file():
            told = "it is a file, and a table is a folder; lancelet import FILE TABLE makes a table of a file's rows"
            raise TableNotFound(error.uri, told) from None
        like = [] if "://" in place else _neighbours(Path(place))
        if like:
            raise TableNotFound(error.uri, f"{error.reason}; {_near(Path(place).name, like)}") from None
        raise


def _neighbours(path: Path) -> list[str]:
    """The tables beside a path."""
    try:
        return sorted(one.name for one in path.absolute().parent.iterdir() if (one / "_versions").is_dir())
    except OSError:
        return []


def _near(name: str, tables: list[str]) -> str:
    close = difflib.get_close_matches(name, tables, 3)
    return f"did you mean {' or '.join(close)}?" if close else f"tables there are {', '.join(tables[:_MOST_NAMED])}"


def reference(table: LanceDataset, text: str) -> Any:
    """A version as users write it: a number, a tag, a branch, or a branch and a number."""
    if _is_number(text):
        return int(text)
    if text == "main":
        return None, None
    branch, sign, number = text.rpartition(":")
    if sign:
        if not _is_number(number):
            raise InvalidInput(f"a version of a branch is BRANCH:NUMBER, not {text!r}")
        return (None if branch == "main" else branch), int(number)
    branches = table.branches.list()
    if text in branches:
        return text, None
    tags = table.tags.list()
    if text not in tags:
        known = [
            f"{kind} {', '.join(sorted(names))}" for kind, names in (("tags", tags), ("branches", branches)) if names
        ]
        told = f"; there are the {' and the '.join(known)}" if known else ""
        raise InvalidInput(f"{table.uri} has no tag or branch {text!r}{told}")
    return text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()

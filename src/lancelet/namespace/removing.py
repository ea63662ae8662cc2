"""Entries that go, or change their names.

A table is gone once its row is, or, where its folder is ``{name}.lance``, once listing passes over the folder; the
files go after that. A rename moves no file: the catalog has a new name for the folder, and listing passes over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from lance_namespace import (
    InvalidInputError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from lancelet.namespace.catalog import NAMESPACE, TABLE, Catalog, CatalogEntry
from lancelet.namespace.errors import translated
from lancelet.namespace.listing import hide, remove, reveal
from lancelet.namespace.names import (
    Identifier,
    Names,
    check_new,
    identifier,
    listed_folder,
    object_id,
    shown,
    table_identifier,
)
from lancelet.namespace.root import Found, Root, location_of, only_root


def drop_table(root: Root, names: Names) -> Found:
    """Remove a table and its files; also the files of one that was deregistered, and of a removal that was interrupted."""
    try:
        # A local folder is hidden by its removal, as a whole.
        found = _forgotten(root, names, hides=not root.store.is_local)
    except TableNotFoundError:
        hidden = _hidden(root, names)
        if hidden is None:
            raise
        found = hidden
    with translated(f"table {shown(found.id)}"):
        if _shared(root, found.folder):
            # Another name leads to the same files.
            return found
        remove(root.store, found.folder)
    return found


def _hidden(root: Root, names: Names) -> Found | None:
    """A table that listing passes over, and that has no other name."""
    ident = table_identifier(names)
    _, folder = root.seek(ident, root.catalog())
    if folder is None or not folder.hidden or _shared(root, listed_folder(ident[0])):
        return None
    return Found(ident, listed_folder(ident[0]), None)


def deregister_table(root: Root, names: Names) -> Found:
    """Forget a table; its files stay."""
    return _forgotten(root, names, hides=True)


def _forgotten(root: Root, names: Names, *, hides: bool) -> Found:
    """Have nobody find a table any more."""
    found = root.find(names)
    if hides and root.lists(found.id) and found.folder == listed_folder(found.id[0]):
        with translated(f"table {shown(found.id)}"):
            hide(root.store, found.folder)
    if root.manifest is not None and found.entry is not None:

        def edit(catalog: Catalog) -> pa.Table:
            if catalog.of_kind(object_id(found.id), TABLE) is None:
                raise TableNotFoundError(f"table {shown(found.id)} was removed by somebody else meanwhile")
            return catalog.without([object_id(found.id)])

        root.manifest.change(edit)
    return found


def _shared(root: Root, folder: str) -> bool:
    catalog = root.catalog()
    return catalog is not None and catalog.has_location(folder)


def rename_table(root: Root, names: Names, new_name: str, new_namespace: Any) -> None:
    """Give a table another name, in the same namespace or another one; no file is moved."""
    if root.manifest is None:
        raise UnsupportedOperationError(
            "without a catalog (manifest_enabled is false) a table's name is that of its folder"
        )
    found = root.find(names)
    target: Identifier = (
        *(found.id[:-1] if new_namespace is None else identifier(new_namespace, "namespace")),
        new_name,
    )
    check_new(target)
    if target == found.id:
        return
    old = object_id(found.id)

    def edit(catalog: Catalog) -> pa.Table:
        root.check_namespace(target[:-1], catalog)
        if catalog.find(object_id(target)) is not None or root.seek(target, catalog)[0] is not None:
            raise TableAlreadyExistsError(f"{shown(target)} is there already")
        entry = CatalogEntry(object_id(target), TABLE, found.folder, found.properties)
        if catalog.of_kind(old, TABLE) is None:
            if found.entry is not None:
                raise TableNotFoundError(f"table {shown(found.id)} was removed by somebody else meanwhile")
            return catalog.with_entries([entry])
        return catalog.with_changed(old, entry)

    root.manifest.change(edit)
    with translated(f"table {shown(target)}"):
        if root.settings.listing and found.folder == listed_folder(target[-1]) and len(target) == 1:
            reveal(root.store, found.folder)
        elif root.lists(found.id) and found.folder == listed_folder(found.id[0]):
            hide(root.store, found.folder)


def drop_namespace(root: Root, names: Names, mode: str | None, behavior: str | None) -> Mapping[str, str]:
    """Remove a namespace; returns its properties."""
    ident = identifier(names, "namespace")
    skips = _chosen("mode", mode, "fail", "skip") == "skip"
    cascades = _chosen("behavior", behavior, "restrict", "cascade") == "cascade"
    if not ident:
        raise InvalidInputError("the root namespace cannot be dropped")
    if root.manifest is None:
        raise only_root(ident)
    dropped: list[CatalogEntry] = []
    properties: Mapping[str, str] = {}

    def edit(catalog: Catalog) -> pa.Table | None:
        nonlocal dropped, properties
        entry = catalog.of_kind(object_id(ident), NAMESPACE)
        if entry is None:
            if skips:
                return None
            raise NamespaceNotFoundError(f"there is no namespace {shown(ident)}")
        dropped, properties = catalog.below(object_id(ident)), entry.properties
        if dropped and not cascades:
            raise NamespaceNotEmptyError(
                f"namespace {shown(ident)} has {len(dropped)} object(s) in it; drop them first, or with behavior='Cascade'"
            )
        return catalog.without([object_id(ident), *(child.object_id for child in dropped)])

    root.manifest.change(edit)
    for child in dropped:
        if child.kind == TABLE:
            with translated(f"table {child.object_id}"):
                folder = location_of(child)
                if not _shared(root, folder):
                    remove(root.store, folder)
    return properties


def _chosen(what: str, given: str | None, default: str, other: str) -> str:
    plain = default if given is None else given.replace("_", "").lower()
    if plain not in (default, other):
        raise InvalidInputError(f"{what} is {given!r}, but has to be {default.title()} or {other.title()}")
    return plain

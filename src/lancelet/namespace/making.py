"""New entries: namespaces, tables with rows, declared and registered ones.

What makes a table:

=====================  ============================================  ==================================
its folder             the step after which the table is there       whoever comes second
=====================  ============================================  ==================================
a random name          its row in the catalog                        removes the folder
``{name}.lance``       its first version, created only if absent     removes its data files
=====================  ============================================  ==================================

Before that step nothing is seen of it; the row of a table in ``{name}.lance`` follows, for readers that do not list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lance_namespace import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)

from lancelet.errors import CommitOutcomeUnknown, StorageError, TableExists
from lancelet.namespace.catalog import NAMESPACE, TABLE, Catalog, CatalogEntry
from lancelet.namespace.errors import translated
from lancelet.namespace.listing import is_written, look, remove, remove_hollow, reserve, reveal
from lancelet.namespace.names import (
    Identifier,
    Names,
    check_location,
    check_new,
    folder_name,
    identifier,
    listed_folder,
    object_id,
    shown,
    table_identifier,
)
from lancelet.namespace.root import Found, Root, location_of, only_root
from lancelet.store.limit import limit_options
from lancelet.table.registers.external import OPTION as MANIFEST_STORE
from lancelet.writing.options import WriteOptions, write_options
from lancelet.writing.table import Target, write_table

if TYPE_CHECKING:
    from lancelet.store import Store
    from lancelet.table.manifest.snapshot import Snapshot

CREATE, EXIST_OK, OVERWRITE = "create", "existok", "overwrite"
_MODES = {CREATE: "Create", EXIST_OK: "ExistOk", OVERWRITE: "Overwrite"}


def chosen_mode(mode: str | None, *known: str) -> str:
    """A mode as requests name it: ``ExistOk`` and ``exist_ok`` are the same."""
    plain = CREATE if mode is None else mode.replace("_", "").lower()
    if plain not in known:
        raise InvalidInputError(f"mode is {mode!r}, but has to be one of {', '.join(_MODES[name] for name in known)}")
    return plain


def create_namespace(root: Root, names: Names, mode: str | None, properties: Mapping[str, str]) -> Mapping[str, str]:
    """Add a namespace; returns its properties."""
    ident = identifier(names, "namespace")
    chosen = chosen_mode(mode, CREATE, EXIST_OK, OVERWRITE)
    if not ident:
        if chosen == EXIST_OK:
            return {}
        raise NamespaceAlreadyExistsError("the root namespace is always there")
    if root.manifest is None:
        raise only_root(ident)
    check_new(ident, "namespace")
    kept: Mapping[str, str] = properties

    def edit(catalog: Catalog) -> pa.Table | None:
        nonlocal kept
        root.check_namespace(ident[:-1], catalog)
        entry = catalog.find(object_id(ident))
        if entry is None:
            return catalog.with_entries([CatalogEntry(object_id(ident), NAMESPACE, None, properties)])
        if entry.kind != NAMESPACE:
            raise NamespaceAlreadyExistsError(f"{shown(ident)} is the name of a table")
        if chosen == CREATE:
            raise NamespaceAlreadyExistsError(f"namespace {shown(ident)} is there already")
        if chosen == EXIST_OK:
            kept = entry.properties
            return None
        below = catalog.below(object_id(ident))
        if below:
            raise NamespaceAlreadyExistsError(
                f"namespace {shown(ident)} has {len(below)} object(s) in it; drop it with behavior='Cascade' first"
            )
        return catalog.with_changed(object_id(ident), CatalogEntry(object_id(ident), NAMESPACE, None, properties))

    root.manifest.change(edit)
    return kept


def alter_namespace(
    root: Root, names: Names, properties: Mapping[str, str], removed: Iterable[str] = ()
) -> Mapping[str, str]:
    """Set and remove properties of a namespace; returns those that it has then."""
    ident = identifier(names, "namespace")
    if not ident:
        raise UnsupportedOperationError("the root namespace has no properties")
    if root.manifest is None:
        raise only_root(ident)
    kept: dict[str, str] = {}

    def edit(catalog: Catalog) -> pa.Table:
        root.check_namespace(ident, catalog)
        entry = catalog.of_kind(object_id(ident), NAMESPACE)
        assert entry is not None
        kept.clear()
        kept.update({**entry.properties, **properties})
        for key in removed:
            kept.pop(key, None)
        return catalog.with_changed(entry.object_id, replace(entry, properties=dict(kept)))

    root.manifest.change(edit)
    return kept


def create_table(
    root: Root,
    names: Names,
    data: Any,
    *,
    mode: str | None = None,
    properties: Mapping[str, str] | None = None,
    options: WriteOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[Found, Snapshot | None]:
    """Make a table of some rows; None instead of its version when one that is there is kept."""
    ident = _new_id(root, names, properties)
    chosen = chosen_mode(mode, CREATE, EXIST_OK, OVERWRITE)
    try:
        return _create_table(root, ident, data, chosen, properties, options or write_options("create"), storage_options)
    except TableAlreadyExistsError:
        # Somebody else was faster, and their table is as good as one that was there before.
        found = None if chosen != EXIST_OK else root.seek(ident, root.catalog())[0]
        if found is None:
            raise
        return found, None


def _create_table(
    root: Root,
    ident: Identifier,
    data: Any,
    chosen: str,
    properties: Mapping[str, str] | None,
    how: WriteOptions,
    storage_options: Mapping[str, str] | None,
) -> tuple[Found, Snapshot | None]:
    catalog = root.catalog()
    root.check_namespace(ident[:-1], catalog)
    found, _ = root.seek(ident, catalog)
    with translated(f"table {shown(ident)}"):
        if found is not None and is_written(root.store, found.folder):
            if chosen == CREATE:
                raise TableAlreadyExistsError(f"table {shown(ident)} is there already")
            if chosen == EXIST_OK:
                return _listed_in_catalog(root, found, None), None
            snapshot = write_table(data, None, _target(root, found.folder, storage_options), _overwriting(how))
            return _listed_in_catalog(root, found, properties), snapshot
        if found is not None:
            # Declared: its name and folder are there, its rows come now.
            with _emptied(root, found.folder):
                snapshot = _written(root, found.folder, ident, data, how, storage_options)
            return _listed_in_catalog(root, found, properties or None), snapshot
    _refuse_name(catalog, ident)
    folder = _free_folder(root, ident, catalog)
    entry = CatalogEntry(object_id(ident), TABLE, folder, properties or {})
    if folder == listed_folder(ident[-1]):
        with translated(f"table {shown(ident)}"), _emptied(root, folder):
            snapshot = _written(root, folder, ident, data, how, storage_options)
    else:
        with translated(f"table {shown(ident)}"), _removed(root, folder):
            snapshot = write_table(data, None, _target(root, folder, storage_options), how)
    with _removed(root, folder):
        add_table(root, ident, entry)
    return Found(ident, folder, None if root.manifest is None else entry), snapshot


def declare_table(root: Root, names: Names, properties: Mapping[str, str] | None, location: str | None) -> Found:
    """Take the name of a table, whose rows come later."""
    ident = _new_id(root, names, properties)
    catalog = root.catalog()
    root.check_namespace(ident[:-1], catalog)
    found, _ = root.seek(ident, catalog)
    if found is not None:
        raise TableAlreadyExistsError(f"table {shown(ident)} is there already")
    _refuse_name(catalog, ident)
    folder = _free_folder(root, ident, catalog)
    if location is not None and location.rstrip("/") not in (root.plain(folder), root.uri(folder)):
        raise InvalidInputError(
            f"table {shown(ident)} cannot be declared at {location}: it has to be at {root.uri(folder)}"
        )
    entry = CatalogEntry(object_id(ident), TABLE, folder, properties or {})
    with translated(f"table {shown(ident)}"):
        reserved = reserve(root.store, folder)
    if not reserved and folder == listed_folder(ident[-1]):
        raise TableAlreadyExistsError(f"table {shown(ident)} is there already")
    with _removed(root, folder):
        add_table(root, ident, entry)
    return Found(ident, folder, None if root.manifest is None else entry)


def register_table(root: Root, names: Names, location: str, mode: str | None, properties: Mapping[str, str]) -> Found:
    """Give a folder below the root the name of a table. Whether a table is in it is not looked at."""
    ident = _new_id(root, names, None)
    if root.manifest is None:
        raise UnsupportedOperationError("tables are registered in the catalog, but manifest_enabled is false")
    chosen = chosen_mode(mode, CREATE, OVERWRITE)
    folder = check_location(location).rstrip("/")
    entry = CatalogEntry(object_id(ident), TABLE, folder, properties)

    def edit(catalog: Catalog) -> pa.Table:
        root.check_namespace(ident[:-1], catalog)
        known = catalog.find(object_id(ident))
        if known is None:
            found, _ = root.seek(ident, catalog)
            if found is not None and found.folder != folder and chosen == CREATE:
                raise TableAlreadyExistsError(f"table {shown(ident)} is there already, in {found.folder}")
            return catalog.with_entries([entry])
        if known.kind != TABLE or chosen == CREATE:
            raise TableAlreadyExistsError(f"{known.kind} {shown(ident)} is there already")
        return catalog.with_changed(known.object_id, entry)

    root.manifest.change(edit)
    with translated(f"table {shown(ident)}"):
        reveal(root.store, folder)
    return Found(ident, folder, entry)


def add_table(root: Root, ident: Identifier, entry: CatalogEntry) -> None:
    """Add a table to the catalog, if there is one, unless another table has its name."""
    if root.manifest is None:
        return

    def edit(catalog: Catalog) -> pa.Table | None:
        root.check_namespace(ident[:-1], catalog)
        known = catalog.find(entry.object_id)
        if known is None:
            return catalog.with_entries([entry])
        same = known.kind == TABLE and location_of(known) == entry.location
        # A row may outlive its table, where the folder decides.
        if not same and (known.kind != TABLE or not root.lists(ident) or root.seek(ident, catalog)[0] is not None):
            raise TableAlreadyExistsError(f"{known.kind} {shown(ident)} is there already")
        return None if known == entry else catalog.with_changed(known.object_id, entry)

    root.manifest.change(edit)


def _new_id(root: Root, names: Names, properties: Mapping[str, str] | None) -> Identifier:
    ident = table_identifier(names)
    if root.manifest is None:
        if len(ident) > 1:
            raise only_root(ident[:-1])
        if properties:
            raise UnsupportedOperationError("properties of tables are in the catalog, but manifest_enabled is false")
    check_new(ident)
    return ident


def _refuse_name(catalog: Catalog | None, ident: Identifier) -> None:
    if catalog is not None and catalog.of_kind(object_id(ident), NAMESPACE) is not None:
        raise TableAlreadyExistsError(f"{shown(ident)} is the name of a namespace")


def _free_folder(root: Root, ident: Identifier, catalog: Catalog | None) -> str:
    """Where a new table goes."""
    listed = listed_folder(ident[-1])
    if not root.lists(ident):
        return folder_name(ident)
    with translated(f"table {shown(ident)}"):
        state = look(root.store, listed)
    # Files of a hidden folder may be on their way out.
    if not state.hidden and (catalog is None or listed not in catalog.claimed()):
        if state.written:
            # It was not when the name was looked for.
            raise TableAlreadyExistsError(f"table {shown(ident)} is there already")
        return listed
    if catalog is None:
        raise TableAlreadyExistsError(f"table {shown(ident)} was deregistered, but its files are still in {listed}")
    # The folder of this name has a table that was deregistered, or one that has another name now.
    return folder_name(ident)


def _target(root: Root, folder: str, storage_options: Mapping[str, str] | None) -> Target:
    store: Store = root.store.child(folder)
    if storage_options:
        # Clients choose neither what tables may refer to, nor a database file of this machine.
        limit = limit_options(store.options)
        given = {key: value for key, value in storage_options.items() if not (limit and key == MANIFEST_STORE)}
        return Target.of(root.plain(folder), {**store.options, **given, **limit})
    return Target.at(store)


def _written(
    root: Root,
    folder: str,
    ident: Identifier,
    data: Any,
    how: WriteOptions,
    storage_options: Mapping[str, str] | None,
) -> Snapshot:
    """The first version in a folder that others may choose as well."""
    try:
        return write_table(data, None, _target(root, folder, storage_options), how)
    except TableExists as error:
        raise TableAlreadyExistsError(f"table {shown(ident)} was made by somebody else meanwhile") from error


def _overwriting(how: WriteOptions) -> WriteOptions:
    return replace(how, mode="overwrite", initial_bases=())


def _listed_in_catalog(root: Root, found: Found, properties: Mapping[str, str] | None) -> Found:
    """A table that is there, with its row in the catalog and, unless None, these properties."""
    known = found.entry
    if root.manifest is None or (known is not None and (properties is None or properties == known.properties)):
        return found
    kept = (known.properties if known is not None else {}) if properties is None else properties
    entry = CatalogEntry(object_id(found.id), TABLE, found.folder, kept)
    add_table(root, found.id, entry)
    return Found(found.id, found.folder, entry)


@contextmanager
def _removed(root: Root, folder: str) -> Iterator[None]:
    """Remove a folder of ours when its table does not come about; not when nobody can say whether it did."""
    try:
        yield
    except BaseException as error:
        if not _unknown(error):
            with suppress(StorageError):
                remove(root.store, folder)
        raise


@contextmanager
def _emptied(root: Root, folder: str) -> Iterator[None]:
    """Remove what a failed write leaves of a folder that others may use too."""
    try:
        yield
    except BaseException:
        remove_hollow(root.store, folder)
        raise


def _unknown(error: BaseException) -> bool:
    return isinstance(error, CommitOutcomeUnknown) or isinstance(error.__cause__, CommitOutcomeUnknown)

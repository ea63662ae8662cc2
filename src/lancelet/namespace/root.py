"""A root folder with its two ways to find tables: the catalog, and listing (spec namespace.md 5.1).

In the root both are asked, the catalog first. A table of the root whose folder is ``{name}.lance`` is there for both,
so its folder decides: a row that outlived its folder is no table. Child namespaces are in the catalog only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from lance_namespace import NamespaceNotFoundError, TableNotFoundError, UnsupportedOperationError

from lancelet.execution.threads import ordered_map
from lancelet.namespace.catalog import NAMESPACE, TABLE, Catalog, CatalogEntry, ManifestTable
from lancelet.namespace.errors import translated
from lancelet.namespace.listing import TableFolder, is_written, listed_names, look
from lancelet.namespace.names import (
    Identifier,
    check_location,
    file_uri,
    listed_folder,
    object_id,
    shown,
    table_identifier,
)
from lancelet.store import Store, open_store
from lancelet.store.limit import with_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lancelet.namespace.settings import Settings

_FOLDERS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Found:
    """Where a table is."""

    id: Identifier
    folder: str
    """Relative to the root."""
    entry: CatalogEntry | None
    """Its row in the catalog, if it has one."""

    @property
    def properties(self) -> Mapping[str, str]:
        return {} if self.entry is None else self.entry.properties


@dataclass(frozen=True, slots=True)
class Root:
    """The root folder of a namespace."""

    settings: Settings
    store: Store
    manifest: ManifestTable | None
    """None where tables are found by listing only."""
    base: str = field(default="")
    """The root, as locations begin."""

    @classmethod
    def of(cls, settings: Settings) -> Root:
        with translated(settings.root):
            store = open_store(settings.root, with_limit(settings.storage, settings.allowed))
        manifest = ManifestTable(store, settings.retries, settings.indices) if settings.manifest else None
        has_place = "://" in settings.root or settings.root.startswith("/")
        return cls(settings, store, manifest, settings.root if has_place else store.uri)

    def catalog(self) -> Catalog | None:
        return None if self.manifest is None else self.manifest.read()

    def lists(self, ident: Identifier) -> bool:
        """Whether a table may be found by its folder."""
        return self.settings.listing and len(ident) == 1

    # Namespaces

    def check_namespace(self, ident: Identifier, catalog: Catalog | None) -> None:
        """Raise unless there is this namespace."""
        if not ident:
            return
        if catalog is None:
            raise only_root(ident)
        if catalog.of_kind(object_id(ident), NAMESPACE) is None:
            raise NamespaceNotFoundError(f"there is no namespace {shown(ident)}")

    def namespace_names(self, ident: Identifier) -> pa.Array:
        """Names of the namespaces directly in one, sorted."""
        catalog = self.catalog()
        if catalog is None:
            self.check_namespace(ident, None)
            return pa.array([], pa.string())
        names = catalog.names(object_id(ident), NAMESPACE)
        if not len(names):
            self._check_listed(ident, catalog)
        return names

    def _check_listed(self, ident: Identifier, catalog: Catalog) -> None:
        """Other writers make tables in namespaces that are not there; these can be listed, though they are not."""
        if not catalog.below(object_id(ident)):
            self.check_namespace(ident, catalog)

    # Tables

    def find(self, names: object) -> Found:
        """Where a table is; ``TableNotFoundError`` when it is nowhere."""
        ident = table_identifier(names)
        catalog = self.catalog()
        if catalog is None and len(ident) > 1:
            raise only_root(ident[:-1])
        found, folder = self.seek(ident, catalog)
        if found is not None:
            return found
        if folder is not None and folder.hidden:
            raise TableNotFoundError(
                f"table {shown(ident)} was deregistered; its files are still in {listed_folder(ident[0])}"
            )
        raise TableNotFoundError(f"there is no table {shown(ident)}")

    def seek(self, ident: Identifier, catalog: Catalog | None) -> tuple[Found | None, TableFolder | None]:
        """Where a table is, if it is anywhere, and what is in the folder that listing goes by, if it does."""
        entry = None if catalog is None else catalog.of_kind(object_id(ident), TABLE)
        if not self.lists(ident):
            return (None if entry is None else Found(ident, location_of(entry), entry)), None
        listed = listed_folder(ident[0])
        with translated(f"table {shown(ident)}"):
            folder = look(self.store, listed)
        if entry is not None and (location_of(entry) != listed or folder.is_table):
            return Found(ident, location_of(entry), entry), folder
        if folder.is_table and (catalog is None or listed not in catalog.claimed()):
            return Found(ident, listed, None), folder
        return None, folder

    def table_names(self, ident: Identifier, *, declared: bool = True) -> pa.Array:
        """Names of the tables directly in a namespace, sorted; those that are only declared too, if asked for."""
        catalog = self.catalog()
        if not ident and self.settings.listing:
            return self._root_names(catalog, declared=declared)
        if catalog is None:
            raise only_root(ident)
        names = catalog.names(object_id(ident), TABLE)
        if not len(names):
            self._check_listed(ident, catalog)
        return names if declared else self._written(ident, catalog, names)

    def _root_names(self, catalog: Catalog | None, *, declared: bool) -> pa.Array:
        """Names from both: those of the catalog that have other folders than listing goes by, and all that listing finds."""
        with translated(self.store.uri):
            found = listed_names(self.store, declared=declared)
            if catalog is not None:
                elsewhere, claimed = catalog.elsewhere(), catalog.claimed()
                found = [name for name in found if listed_folder(name) not in claimed]
                found += [name for name, at in elsewhere.items() if declared or is_written(self.store, at)]
        return pa.array(sorted(set(found), key=str.encode), pa.string())

    def _written(self, ident: Identifier, catalog: Catalog, names: pa.Array) -> pa.Array:
        """Without the tables that are only declared."""

        def written(entry: tuple[str, str | None]) -> bool:
            return is_written(self.store, checked_location(*entry))

        entries = zip(names.to_pylist(), catalog.locations(object_id(ident)).to_pylist(), strict=True)
        with translated(self.store.uri):
            mask = list(ordered_map(written, entries, 1 if self.store.is_local else _FOLDERS_AT_ONCE))
        return names.filter(pa.array(mask, pa.bool_()))

    # Locations

    def location(self, found: Found) -> str:
        """Where a table is, as lookups tell it."""
        if found.entry is not None and not (self.lists(found.id) and found.folder == listed_folder(found.id[0])):
            return self.uri(found.folder)
        if found.entry is not None and self.settings.migrating:
            return self.uri(found.folder)
        return self.plain(found.folder)

    def plain(self, folder: str) -> str:
        """A folder of the root, in the words in which the root was given."""
        return f"{self.base.rstrip('/')}/{folder}"

    def uri(self, folder: str) -> str:
        """A folder of the root as a URI."""
        return file_uri(self.store.join(folder)) if self.store.is_local else self.plain(folder)


def location_of(entry: CatalogEntry) -> str:
    """The folder that the catalog has for a table; never one outside the root."""
    return checked_location(entry.object_id, entry.location)


def checked_location(name: str, location: str | None) -> str:
    """See :func:`location_of`."""
    if not location:
        raise TableNotFoundError(f"table {name} has no location in the catalog")
    return check_location(location)


def only_root(ident: Identifier) -> UnsupportedOperationError:
    """Without a catalog there is no other namespace."""
    return UnsupportedOperationError(
        f"namespace {shown(ident)}: only the root namespace is there when manifest_enabled is false"
    )

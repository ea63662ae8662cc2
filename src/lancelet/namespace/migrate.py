"""From tables that are found by listing to tables that are in the catalog (spec namespace.md 7). Nothing is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_namespace import UnsupportedOperationError

from lancelet.namespace.catalog import TABLE, CatalogEntry
from lancelet.namespace.errors import translated
from lancelet.namespace.listing import listed_names
from lancelet.namespace.names import DELIMITER, listed_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.namespace.catalog import Catalog
    from lancelet.namespace.root import Root


def migrate(root: Root) -> list[str]:
    """Add all tables that only listing finds to the catalog, with one commit; returns their names.

    When no writer makes tables without the catalog any more, ``dir_listing_enabled`` can be false from then on. It
    may be repeated, and other clients may be at work meanwhile.
    """
    if root.manifest is None:
        raise UnsupportedOperationError("tables are migrated to the catalog, but manifest_enabled is false")
    with translated(root.store.uri):
        names = listed_names(root.store)
    added: list[str] = []

    def edit(catalog: Catalog) -> pa.Table | None:
        nonlocal added
        known, claimed = set(catalog.rows["object_id"].to_pylist()), catalog.claimed()
        usable = (name for name in names if DELIMITER not in name)
        added = [name for name in usable if name not in known and listed_folder(name) not in claimed]
        if not added:
            return None
        return catalog.with_entries([CatalogEntry(name, TABLE, listed_folder(name)) for name in added])

    root.manifest.change(edit)
    return added

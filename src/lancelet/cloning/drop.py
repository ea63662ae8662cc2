"""Removing a table with everything in its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, InvalidInput, MissingFile, NotSupported, TableNotFound
from lancelet.store.removal import remove_below
from lancelet.table.manifest.manifest import read_manifest
from lancelet.table.manifest.names import VERSIONS_DIR, parse_manifest_name
from lancelet.table.refs.read import branch_store, list_branches
from lancelet.table.registers.external import forget_versions

if TYPE_CHECKING:
    from lancelet.store import Store


def drop_table(store: Store, *, ignore_not_found: bool = False) -> None:
    """Remove a table, its tags and branches, and all else in its folder; files of other base paths stay.

    A folder in which no manifest can be read is refused: it may not be a table. The manifests go last, so that a
    removal that was interrupted can be repeated.
    """
    if not _is_table(store):
        if next(iter(store.list_objects()), None) is None:
            if ignore_not_found:
                return
            raise TableNotFound(store.uri)
        raise InvalidInput(
            f"Refusing to drop {store.uri}: no readable manifest is in its folder {VERSIONS_DIR}, so it is not the root "
            "of a table; remove it by other means if it is to go"
        )
    for branch in list_branches(store):
        forget_versions(branch_store(store, branch.name))
    forget_versions(store)
    remove_below(store, "", last=VERSIONS_DIR)


def _is_table(store: Store) -> bool:
    """Whether some version can be read."""
    for name in store.list_names(VERSIONS_DIR):
        if parse_manifest_name(name) is None:
            continue
        try:
            read_manifest(store, f"{VERSIONS_DIR}/{name}")
        except NotSupported:
            # Written by a later release: certainly a table.
            return True
        except (CorruptFile, MissingFile):
            continue
        return True
    return False

"""A table at one version: what the layers above hold on to.

Opening the newest version costs one listing and one read; a given version costs
one read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancelet.errors import CorruptFile, InvalidInput, MissingFile, TableNotFound
from lancelet.log import debug
from lancelet.runtime.events import TABLES, tell
from lancelet.store import Store, open_store
from lancelet.table.manifest.paths import Places
from lancelet.table.manifest.versions import read_as_of, read_latest, read_version
from lancelet.table.refs.read import branch_store, read_branch, read_tag, root_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lancelet.table.manifest.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table, picklable."""

    store: Store
    """The table's folder; below ``tree/`` for a branch."""
    manifest: Manifest
    places: Places

    @classmethod
    def of(cls, store: Store, manifest: Manifest) -> Snapshot:
        return cls(store, manifest, Places(store, manifest.base_paths, manifest.path))

    @property
    def uri(self) -> str:
        return self.store.uri

    @property
    def version(self) -> int:
        return self.manifest.version

    @property
    def root(self) -> Store:
        """The root table's folder, where tags and branches are."""
        return root_store(self.store, self.manifest.branch)

    def latest(self) -> Snapshot:
        """The newest version of the same branch."""
        return Snapshot.of(self.store, read_latest(self.store))

    def at(self, version: int | str | tuple[str | None, int | None] | None) -> Snapshot:
        """Another version of this table: a number on the same branch, a tag, or (branch, version)."""
        if isinstance(version, int):
            return Snapshot.of(self.store, read_version(self.store, version))
        return _open_at(self.root, version)


def open_snapshot(
    uri: str | os.PathLike[str] | Store,
    version: int | str | tuple[str | None, int | None] | None = None,
    *,
    asof: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Snapshot:
    """Open a table.

    Parameters
    ----------
    uri
        Path or URI of the table's folder, or the store of it.
    version
        A version number, a tag, or a pair of branch and version (each may be None: the main branch, the newest
        version). The newest version by default.
    asof
        The newest version committed before this time; ignored when ``version`` is given.
    storage_options
        See :func:`lancelet.store.open_store`.
    """
    store = open_store(uri, storage_options) if isinstance(uri, (str, os.PathLike)) else uri
    if version is None and asof is not None:
        snapshot = Snapshot.of(store, read_as_of(store, asof))
    elif isinstance(version, str):
        # Tags belong to the root table, which may not be this one: a branch can be opened by its folder.
        snapshot = _open_at(_root_for_tags(store), version)
    else:
        snapshot = _open_at(store, version)
    debug("opened version %d of %s", snapshot.version, snapshot.uri)
    tell(TABLES, event="loading", uri=snapshot.uri, target_ref=version, version=snapshot.version, status="success")
    return snapshot


def _open_at(store: Store, version: int | str | tuple[str | None, int | None] | None) -> Snapshot:
    match version:
        case None:
            return Snapshot.of(store, read_latest(store))
        case bool():
            raise InvalidInput(f"a version is a number, a tag or a pair of branch and version, not {version!r}")
        case int():
            return Snapshot.of(store, read_version(store, version))
        case str():
            tag = read_tag(store, version)
            return _on_branch(store, tag.branch, tag.version)
        case (str() | None as branch, int() | None as number):
            return _on_branch(store, branch, number)
    raise InvalidInput(f"a version is a number, a tag or a pair of branch and version, not {version!r}")


def _on_branch(root: Store, branch: str | None, version: int | None) -> Snapshot:
    store = branch_store(root, branch)
    try:
        return _open_at(store, version)
    except (TableNotFound, MissingFile):
        if store is not root:
            # Says that there is no such branch, when that is the reason.
            read_branch(root, branch or "")
            raise CorruptFile(store.uri, f"branch {branch} is listed, but its versions are gone") from None
        raise


def _root_for_tags(store: Store) -> Store:
    """The root table of a folder, seen from its path alone: ``<root>/tree/<branch>`` or the root itself."""
    if "/tree/" not in store.uri:
        return store
    return root_store(store, read_latest(store).branch)

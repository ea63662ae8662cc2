"""Branches and clones of a table under the storage options that the new table is to have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lancelet.cloning.clone import deep_clone, shallow_clone
from lancelet.store import open_store
from lancelet.store.limit import elsewhere, limit_options
from lancelet.store.options import own_options, with_base_params
from lancelet.store.uri import open_like
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.refs.read import Reference, check_reference
from lancelet.table.refs.write import create_branch

if TYPE_CHECKING:
    from lancelet.store import Store


def branch_off(
    snapshot: Snapshot, name: str, reference: Reference | None, storage_options: Mapping[str, str] | None
) -> Snapshot:
    """The first version of a new branch."""
    if storage_options is not None:
        options = {**storage_options, **limit_options(snapshot.store.options)}
        snapshot = Snapshot.of(open_like(snapshot.store, options), snapshot.manifest)
    return create_branch(snapshot, name, None if reference is None else check_reference(reference))


def clone_shallow(
    snapshot: Snapshot,
    path: str | os.PathLike[str],
    reference: Reference | None,
    storage_options: Mapping[str, str] | None,
) -> Snapshot:
    """A new table that reads the files of a version where they are, with the options that this table has for them."""
    source = _at_reference(snapshot, reference)
    target = _open_target(snapshot, path, storage_options)
    own = {source.root.uri: own_options(source.store.options)}
    return shallow_clone(source, open_like(target, with_base_params(target.options, own)))


def clone_deep(
    snapshot: Snapshot,
    path: str | os.PathLike[str],
    reference: Reference | None,
    storage_options: Mapping[str, str] | None,
) -> Snapshot:
    """A new table with copies of the files of a version."""
    target = _open_target(snapshot, path, storage_options)
    return deep_clone(_at_reference(snapshot, reference), target)


def _at_reference(snapshot: Snapshot, reference: Reference | None) -> Snapshot:
    return snapshot if reference is None else snapshot.at(check_reference(reference))


def _open_target(snapshot: Snapshot, path: str | os.PathLike[str], storage_options: Mapping[str, str] | None) -> Store:
    """The folder of a new table, which may refer to what this table may."""
    own = elsewhere(snapshot.store.options)
    return open_store(path, own if storage_options is None else {**storage_options, **limit_options(own)})

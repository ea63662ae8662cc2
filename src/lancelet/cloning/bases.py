"""Base paths of a table that is there: adding some, and following one that was moved (spec table-format.md 8.5).

Where a base path is stands in the manifest alone, so a base whose files were
copied elsewhere is followed by a commit that writes nothing but a manifest. The
transaction is an ``UpdateBases`` with the id of the base and its new path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lancelet.cloning.clone import files_of
from lancelet.errors import InvalidBase, MissingFile
from lancelet.table.commit import operations as ops
from lancelet.table.commit.run import commit
from lancelet.table.manifest.paths import Places
from lancelet.writing.bases import check_bases, find_base

if TYPE_CHECKING:
    from lancelet.table.manifest.manifest import BasePath
    from lancelet.table.manifest.snapshot import Snapshot


def add_bases(snapshot: Snapshot, bases: Sequence[BasePath], properties: Mapping[str, str] | None = None) -> Snapshot:
    """Commit further places that files may be in; those with the id 0 get free ones."""
    checked = check_bases(bases)
    for base in checked:
        snapshot.places.check_external(base.path, f"the base path '{base.name or base.path}'")
    return commit(snapshot, ops.UpdateBases(checked), properties=properties)


def move_base(
    snapshot: Snapshot,
    base: str | int,
    path: str,
    *,
    check: bool = True,
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """Commit that a base path is at another place now, to which its files have been copied.

    Versions before this one still look for them at the old place. ``check`` makes sure that every file which the
    version refers to is there, with its size.
    """
    bases = snapshot.manifest.base_paths
    if isinstance(base, int):
        if base not in bases:
            raise InvalidBase(f"{snapshot.uri} has no base path with the id {base}, but {sorted(bases)}")
        old = bases[base]
    else:
        old = find_base(base, bases.values(), snapshot.uri)
    (moved,) = check_bases([replace(old, path=path)])
    snapshot.places.check_external(moved.path, f"the base path '{moved.name or moved.path}'")
    if check:
        _check_files(snapshot, moved)
    return commit(snapshot, ops.UpdateBases((moved,), moves=True), properties=properties)


def _check_files(snapshot: Snapshot, moved: BasePath) -> None:
    """Look for the files of a base at its new place: one listing, whatever their number."""
    places = Places(snapshot.store, {moved.id: moved}, snapshot.manifest.path, named=frozenset([moved.id]))
    store = places.data_folder(moved.id).store
    wanted = {copy.source.path: copy for copy in files_of(snapshot) if copy.base_id == moved.id}
    if not wanted:
        return
    sizes = {entry.path: entry.size for entry in store.list_objects() if entry.path in wanted}
    for path, copy in wanted.items():
        if path not in sizes:
            raise MissingFile(store.join(path), f"{snapshot.uri} has it in the base path that is to be moved there")
        if copy.size is not None and copy.size != sizes[path]:
            raise InvalidBase(
                f"{store.join(path)} has {sizes[path]} bytes, but {copy.size} are recorded for it; copy the files of "
                "the base path again"
            )

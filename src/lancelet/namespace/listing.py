"""Tables that are found by listing: folders ``{name}.lance`` of the root (spec namespace.md 2).

==========================  ====================================================================
in a table's folder         means
==========================  ====================================================================
a version                   a table
``.lance-reserved``         declared: the name is taken, rows may come
``.lance-deregistered``     hidden, whatever else is there
none of them                nothing: what an interrupted write left, or not a table
==========================  ====================================================================
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lancelet.errors import StorageError, TableNotFound, UncertainPut
from lancelet.execution.threads import ordered_map
from lancelet.namespace.names import SUFFIX, listed_folder
from lancelet.table.manifest.names import VERSIONS_DIR
from lancelet.table.manifest.versions import latest_version
from lancelet.table.registers.external import forget_versions

if TYPE_CHECKING:
    from lancelet.store import Store

RESERVED = ".lance-reserved"
DEREGISTERED = ".lance-deregistered"
_MARK = b"reserved"
_FOLDERS_AT_ONCE = 16
_PATHS_AT_ONCE = 1000
_DROPPED_BYTES = 8


@dataclass(frozen=True, slots=True)
class TableFolder:
    """What is in a folder that may be a table's."""

    written: bool
    """Has a version."""
    reserved: bool = False
    hidden: bool = False

    @property
    def is_table(self) -> bool:
        return (self.written or self.reserved) and not self.hidden

    @property
    def is_only_declared(self) -> bool:
        return self.reserved and not self.written


def look(root: Store, folder: str) -> TableFolder:
    """Find out what is in a folder: two listings."""
    names = set(root.list_names(folder))
    return TableFolder(is_written(root, folder), RESERVED in names, DEREGISTERED in names)


def is_written(root: Store, folder: str) -> bool:
    """Whether a folder has a version of a table."""
    try:
        latest_version(root.child(folder))
    except TableNotFound:
        return False
    return True


def listed_names(root: Store, *, declared: bool = True) -> list[str]:
    """Names of the tables that are in folders of the root; those that are only declared too, if asked for."""
    names = [name.removesuffix(SUFFIX) for name in root.list_folders() if name.endswith(SUFFIX) and name != SUFFIX]

    def found(name: str) -> bool:
        folder = look(root, listed_folder(name))
        return folder.is_table and (declared or folder.written)

    are_tables = ordered_map(found, names, 1 if root.is_local else _FOLDERS_AT_ONCE)
    return [name for name, is_table in zip(names, are_tables, strict=True) if is_table]


def reserve(root: Store, folder: str) -> bool:
    """Take a folder for a table that has no rows yet; False when somebody has."""
    path = f"{folder}/{RESERVED}"
    try:
        return root.put_if_absent(path, _MARK)
    except UncertainPut:
        # Nobody can say whose it is then, so it counts as somebody else's if it is there.
        return root.put_if_absent(path, _MARK)


def hide(root: Store, folder: str) -> None:
    """Have listings pass over a folder."""
    root.put(f"{folder}/{DEREGISTERED}", _MARK)


def reveal(root: Store, folder: str) -> None:
    """Have listings find a folder again."""
    root.delete(f"{folder}/{DEREGISTERED}")


def remove(root: Store, folder: str) -> None:
    """Remove a table's folder. At no moment is there half a table in it, and nobody begins a new one meanwhile.

    A local folder gets another name first, at once. Elsewhere the versions go first; a marker, if there is one, last.
    """
    forget_versions(root.child(folder))
    if root.is_local:
        gone = f"{secrets.token_hex(_DROPPED_BYTES)}_dropped"
        try:
            Path(root.join(folder)).rename(root.join(gone))
        except OSError:
            # Not there any more, or somewhere else by way of a link.
            gone = folder
        root.remove_folder(gone)
        return
    root.remove_folder(f"{folder}/{VERSIONS_DIR}")
    marker = f"{folder}/{DEREGISTERED}"
    rest = (entry.path for entry in root.list_objects(folder) if entry.path != marker)
    while group := list(islice(rest, _PATHS_AT_ONCE)):
        refused = root.delete_many(group)
        if refused:
            raise StorageError(root.join(refused[0]), f"it and {len(refused) - 1} other(s) could not be removed")
    root.delete(marker)


def remove_hollow(root: Store, folder: str) -> None:
    """Remove the folders, without any file, that a failed write leaves on a local file system."""
    if not root.is_local:
        return
    for parent, _, _ in os.walk(root.join(folder), topdown=False):
        # Refused by the system unless it is empty.
        with suppress(OSError):
            Path(parent).rmdir()

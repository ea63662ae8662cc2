"""Removing a folder with everything in it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lancelet.errors import StorageError
from lancelet.store.deleting import delete_objects
from lancelet.store.local import LocalStore

if TYPE_CHECKING:
    from lancelet.store.base import Store

_GROUP = 1000


def remove_below(store: Store, folder: str, *, keep: Collection[str] = (), last: str | None = None) -> None:
    """Remove a folder, but for the folders ``keep`` somewhere below it.

    What is in the folder ``last`` goes after everything else. Links are removed, not followed. No error when there
    is nothing.

    Examples
    --------
    >>> from lancelet.store import open_store
    >>> store = open_store("memory://removal")
    >>> for path in ("a/x", "a/b/y", "a/c/z"):
    ...     store.put(path, b"")
    >>> remove_below(store, "a", keep=["a/b"])
    >>> [entry.path for entry in store.list_objects()]
    ['a/b/y']
    """
    for spared in [keep] if last is None else [[*keep, last], keep]:
        if isinstance(store, LocalStore):
            _remove_local(store, folder, frozenset(map(store.join, spared)))
        else:
            _remove_objects(store, folder, tuple(f"{path}/" for path in spared))


def _remove_objects(store: Store, folder: str, spared: tuple[str, ...]) -> None:
    paths = (entry.path for entry in store.list_objects(folder))
    for group in _groups(path for path in paths if not path.startswith(spared)):
        refused = delete_objects(store, group)
        if refused:
            raise StorageError(store.join(refused[0]), f"it and {len(refused) - 1} other(s) could not be removed")


def _groups(paths: Iterator[str]) -> Iterator[list[str]]:
    group: list[str] = []
    for path in paths:
        group.append(path)
        if len(group) == _GROUP:
            yield group
            group = []
    if group:
        yield group


def _remove_local(store: LocalStore, folder: str, spared: frozenset[str]) -> None:
    try:
        _remove_folder(store.join(folder), spared)
    except OSError as error:
        raise StorageError(error.filename or store.join(folder), error.strerror or str(error)) from None
    # Folders are nothing to a table, so those that lead to what is gone need not stay.
    for parent in PurePosixPath(folder).parents:
        if parent.name:
            _remove_if_empty(store.join(str(parent)))


def _remove_folder(folder: str, spared: frozenset[str]) -> None:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        if entry.path in spared:
            continue
        if entry.is_dir(follow_symlinks=False):
            _remove_folder(entry.path, spared)
        else:
            Path(entry.path).unlink(missing_ok=True)
    _remove_if_empty(folder)


def _remove_if_empty(folder: str) -> None:
    """A folder stays when something in it was to be kept, or came meanwhile."""
    with suppress(OSError):
        Path(folder).rmdir()

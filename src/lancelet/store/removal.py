"""Removing a folder with everything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from lancelet.store.base import Store


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
    if last is not None:
        store.remove_folder(folder, [*keep, last])
    store.remove_folder(folder, keep)

"""What stores do by their plain operations when they have no better way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancelet.errors import StorageError, UncertainPut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lancelet.store.base import Store

_GROUP = 1000


def put_own(store: Store, path: str, data: bytes) -> None:
    """Write an object whose name is ours alone: when the store does not say whether it did, a second try settles it."""
    try:
        store.put_if_absent(path, data)
    except UncertainPut:
        store.put_if_absent(path, data)


def delete_each(store: Store, paths: Sequence[str]) -> list[str]:
    """Remove objects one by one; returns the paths of those that the store refused to remove."""
    failed = []
    for path in paths:
        try:
            store.delete(path)
        except StorageError:
            failed.append(path)
    return failed


def remove_listed(store: Store, folder: str, spared: Collection[str]) -> None:
    """Remove all objects that are listed below a folder, but for those in some folders."""
    kept = tuple(f"{path}/" for path in spared)
    paths = (entry.path for entry in store.list_objects(folder))
    for group in _groups(path for path in paths if not path.startswith(kept)):
        refused = store.delete_many(group)
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

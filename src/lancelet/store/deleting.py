"""Removing many objects."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import obstore

from lancelet.errors import MissingFile, StorageError
from lancelet.store.local import LocalStore, sync_folder
from lancelet.store.remote import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancelet.store.base import Store

_MANY = 500


def delete_objects(store: Store, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
    """Remove objects, as many with one request as the store allows; returns the paths of those that it refused to remove.

    Objects that are not there are no failures. On a local file system, folders two levels down that become empty go
    away as well (``_indices/<uuid>``); a ``lasting`` removal is on the disk once this returns, before any later one.
    """
    if isinstance(store, LocalStore):
        return _delete_local(store, paths, lasting=lasting)
    if isinstance(store, RemoteStore) and len(paths) > 1:
        try:
            with store.failures(paths[0]) as client:
                obstore.delete(client, [store.key(path) for path in paths])
            store.count(1, 0)
        except (StorageError, MissingFile):
            # One of them was refused or missing, and what became of the others is not said.
            return _delete_each(store, paths)
        return []
    return _delete_each(store, paths)


def _delete_each(store: Store, paths: Sequence[str]) -> list[str]:
    failed = []
    for path in paths:
        try:
            store.delete(path)
        except StorageError:
            failed.append(path)
    return failed


def _delete_local(store: LocalStore, paths: Sequence[str], *, lasting: bool) -> list[str]:
    if len(paths) < _MANY:
        failed = _unlink(store, paths)
    else:
        # Two at a time keep the file system busy; more get into each other's way.
        with ThreadPoolExecutor(2, thread_name_prefix="lancelet-delete") as pool:
            halves = pool.map(_unlink, (store, store), (paths[::2], paths[1::2]))
            failed = [path for half in halves for path in half]
    for folder in {path.rpartition("/")[0] for path in paths}:
        if "/" in folder:
            with suppress(OSError):
                # Refused by the system unless it is empty.
                os.rmdir(store.join(folder))  # noqa: PTH106
        elif lasting:
            with suppress(FileNotFoundError):
                sync_folder(store.join(folder))
    return failed


def _unlink(store: LocalStore, paths: Sequence[str]) -> list[str]:
    failed = []
    for path in paths:
        try:
            os.unlink(store.join(path))  # noqa: PTH108
        except FileNotFoundError:
            continue
        except OSError:
            failed.append(path)
    return failed

"""The files of a write that is not committed yet.

Their names are drawn at random, so that no other writer has them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lancelet.errors import StorageError, UncertainPut

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet.store import Store


def put_own(store: Store, path: str, data: bytes) -> None:
    """Write a file whose name is ours alone: when the store does not say whether it did, a second try settles it."""
    try:
        store.put_if_absent(path, data)
    except UncertainPut:
        store.put_if_absent(path, data)


class WrittenFiles:
    """Remembers the files that a write makes, and removes them if the write fails.

    Used as a context: leaving it with an error removes the files, unless a commit that refers to them may have
    taken place.

    Examples
    --------
    >>> from lancelet.store import open_store
    >>> store = open_store("memory://written")
    >>> try:
    ...     with WrittenFiles(store) as files:
    ...         files.add("data/x.lance")
    ...         store.put("data/x.lance", b"")
    ...         raise RuntimeError("no more input")
    ... except RuntimeError:
    ...     store.exists("data/x.lance")
    False
    """

    __slots__ = ("_held", "_paths", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._paths: list[str] = []
        self._held = False

    def __enter__(self) -> WrittenFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.remove()

    def add(self, path: str) -> None:
        """Remember a file, before it is written: half a file is to be removed too."""
        self._paths.append(path)

    def hold(self) -> None:
        """From here on the files may belong to a version: keep them, whatever happens."""
        self._held = True

    def release(self) -> None:
        """The commit is known not to have taken place."""
        self._held = False

    def forget(self) -> None:
        """The files belong to a version."""
        self._paths.clear()

    def remove(self) -> None:
        """Remove the files, as far as the store lets us: what stays behind is found by cleanup."""
        if self._held:
            return
        for path in self._paths:
            with suppress(StorageError):
                self._store.delete(path)
        self._paths.clear()

"""The files of a write that is not committed yet.

Their names are drawn at random, so that no other writer has them. They are made lasting all together: before
a version may refer to them, or before others are told their names.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING

from lancelet.errors import StorageError
from lancelet.runtime.interrupts import critical, deferred

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet.store import Store


class WrittenFiles:
    """Remembers the files that a write makes, and removes them if the write fails.

    Used as a context: leaving it with an error removes the files, unless a commit that refers to them may have
    taken place. Leaving it without makes those lasting that no commit has. Interrupts wait for a good moment meanwhile.

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

    __slots__ = ("_deferred", "_held", "_passing", "_paths", "_settled", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._paths: list[tuple[Store, str]] = []
        self._passing: set[str] = set()
        self._settled = 0
        self._held = False
        self._deferred = deferred()

    def __enter__(self) -> WrittenFiles:
        self._deferred.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.settle()
        except BaseException:
            self.remove()
            raise
        else:
            if kind is not None:
                self.remove()
        finally:
            self._deferred.__exit__(kind, error, traceback)

    @property
    def paths(self) -> list[str]:
        """The files in the table's own folder."""
        return [path for store, path in self._paths if store is self._store]

    def add(self, path: str, store: Store | None = None) -> None:
        """Remember a file, before it is written: half a file is to be removed too.

        ``store`` is where it is when that is not the table's folder.
        """
        self._paths.append((store or self._store, path))

    def put(self, path: str, data: bytes, *, lasting: bool = True) -> None:
        """Write a small file and remember it. One that need not be ``lasting`` may be lost when the machine crashes."""
        self.add(path)
        if not lasting:
            self._passing.add(path)
        self._store.put_new(path, data)

    def settle(self) -> None:
        """Have the files survive a crash of the machine."""
        if self._settled == len(self._paths):
            return
        waiting = [file for file in self._paths[self._settled :] if file[1] not in self._passing]
        for _, files in groupby(waiting, lambda file: id(file[0])):
            stores, paths = zip(*files, strict=True)
            stores[0].settle(paths)
        self._settled = len(self._paths)

    def hold(self) -> None:
        """From here on the files may belong to a version: keep them, whatever happens."""
        self._held = True

    def release(self) -> None:
        """The commit is known not to have taken place."""
        self._held = False

    def forget(self) -> None:
        """The files belong to a version."""
        self._paths.clear()
        self._settled = 0

    def discard(self, path: str) -> None:
        """Remove one file of the table's folder now, if it was written: it is of no use any more. Its blobs go along."""
        beside = f"{path.removesuffix('.lance')}/"
        kept, settled = [], 0
        for at, (store, written) in enumerate(self._paths):
            if store is self._store and (written == path or written.startswith(beside)):
                with suppress(StorageError):
                    store.delete(written)
                continue
            kept.append((store, written))
            settled += at < self._settled
        self._paths, self._settled = kept, settled

    def remove(self) -> None:
        """Remove the files, as far as the store lets us: what stays behind is found by cleanup."""
        if self._held:
            return
        with critical():
            for _, files in groupby(self._paths, lambda file: id(file[0])):
                stores, paths = zip(*files, strict=True)
                with suppress(StorageError):
                    stores[0].delete_many(paths)
            self._paths.clear()
            self._settled = 0

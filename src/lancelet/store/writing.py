"""Writing an object piece by piece: local files, and streams to object stores and memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import obstore

from lancelet.errors import NotSupported, StorageError
from lancelet.store.local import LocalStore, make_folder, sync_folder
from lancelet.store.remote import RemoteStore

if TYPE_CHECKING:
    from lancelet.store.base import Store

_BUFFER = 1 << 20
_PART = 8 << 20


class Sink(Protocol):
    """An object under construction. Nobody sees it before :meth:`finish`, or it is of no use before that."""

    @property
    def path(self) -> str:
        """Full path or URI, for error texts."""

    def write(self, data: Any) -> None:
        """Append the bytes of anything with the buffer protocol."""

    def tell(self) -> int:
        """Bytes written so far."""

    def finish(self) -> None:
        """Make the object complete and lasting."""

    def abort(self) -> None:
        """Give up: what was written goes away. Does nothing after :meth:`finish`."""


def open_sink(store: Store, path: str) -> Sink:
    """Begin an object that must not exist yet."""
    if isinstance(store, LocalStore):
        return LocalSink(store.join(path))
    if isinstance(store, RemoteStore):
        return RemoteSink(store, path)
    raise NotSupported(f"{store.uri}: this kind of store cannot be written piece by piece")


class LocalSink:
    """A local file, synced when it is finished."""

    __slots__ = ("_done", "_file", "_size", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._size = 0
        self._done = False
        try:
            make_folder(path.rpartition("/")[0])
            self._file = Path(path).open("xb", buffering=_BUFFER)  # noqa: SIM115
        except OSError as error:
            raise StorageError(path, error.strerror or str(error)) from None

    def write(self, data: Any) -> None:
        view = memoryview(data)
        try:
            self._file.write(view)
        except OSError as error:
            raise StorageError(self.path, error.strerror or str(error)) from None
        self._size += view.nbytes

    def tell(self) -> int:
        return self._size

    def finish(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            sync_folder(self.path.rpartition("/")[0] or "/")
        except OSError as error:
            raise StorageError(self.path, error.strerror or str(error)) from None
        self._done = True

    def abort(self) -> None:
        if self._done:
            return
        self._done = True
        # A full disk also fails to take what was buffered; the file goes away all the same.
        with contextlib.suppress(OSError):
            self._file.close()
        Path(self.path).unlink(missing_ok=True)


class RemoteSink:
    """A stream to an object store or to memory: parts go up while more are written."""

    __slots__ = ("_done", "_name", "_size", "_store", "_writer", "path")

    def __init__(self, store: RemoteStore, name: str) -> None:
        self.path = store.join(name)
        self._store = store
        self._name = name
        self._size = 0
        self._done = False
        with store.failures(name) as client:
            self._writer = obstore.open_writer(client, store._key(name), buffer_size=_PART)

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        with self._store.failures(self._name):
            self._writer.write(view)
        self._size += view.nbytes

    def tell(self) -> int:
        return self._size

    def finish(self) -> None:
        with self._store.failures(self._name):
            self._writer.close()
        self._store.count(1, 0)
        self._done = True

    def abort(self) -> None:
        # Without a close no object comes to be; the store drops parts of unfinished uploads by its own rules.
        self._done = True

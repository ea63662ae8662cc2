"""Writing an object piece by piece; local files are here, streams to object stores in ``remote_sink``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lancelet.errors import NotSupported, StorageError, UncertainPut
from lancelet.store.local import LocalStore, write_all
from lancelet.store.writeback import start_writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lancelet.store.base import Store

_STEP = 1 << 20
_WORTHWHILE = 256 << 10
"""A sync takes care of fewer bytes than this as fast."""


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
        """Make the object complete; :func:`settle` makes it lasting."""

    def abort(self) -> None:
        """Give up: what was written goes away. Does nothing after :meth:`finish`."""


def open_sink(store: Store, path: str) -> Sink:
    """Begin an object that must not exist yet."""
    if isinstance(store, LocalStore):
        return LocalSink(store, path)
    # Programs that only touch local files have no need of obstore.
    from lancelet.store.remote import RemoteStore
    from lancelet.store.remote_sink import RemoteSink

    if isinstance(store, RemoteStore):
        return RemoteSink(store, path)
    raise NotSupported(f"{store.uri}: this kind of store cannot be written piece by piece")


def settle(store: Store, paths: Sequence[str]) -> None:
    """Have finished objects survive a crash of the machine. Object stores see to that by themselves."""
    if isinstance(store, LocalStore) and paths:
        store.settle(paths)


def put_new(store: Store, path: str, data: bytes) -> None:
    """Write a small object whose name is ours alone; like a sink's, it lasts after :func:`settle`."""
    if isinstance(store, LocalStore):
        store.put_new(path, data)
        return
    try:
        store.put_if_absent(path, data)
    except UncertainPut:
        # Nobody says whether it was written: a second try settles it.
        store.put_if_absent(path, data)


def put_hint(store: Store, path: str, data: bytes) -> None:
    """Write an object that nothing depends on, replacing an existing one."""
    if isinstance(store, LocalStore):
        store.put_hint(path, data)
    else:
        store.put(path, data)


class LocalSink:
    """A local file. Small pieces are gathered; whatever is written begins its way to the disk at once."""

    __slots__ = ("_begun", "_done", "_file", "_size", "_small", "path")

    def __init__(self, store: LocalStore, path: str) -> None:
        self.path = store.join(path)
        self._size = 0
        self._begun = 0
        self._done = False
        self._small = bytearray()
        self._file = store.begin(path)

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        self._size += view.nbytes
        if len(self._small) + view.nbytes < _STEP:
            self._small += view
            return
        self._flush()
        for start in range(0, view.nbytes, _STEP):
            self._put(view[start : start + _STEP])

    def tell(self) -> int:
        return self._size

    def finish(self) -> None:
        self._flush()
        self._done = True
        try:
            os.close(self._file)
        except OSError as error:
            Path(self.path).unlink(missing_ok=True)
            raise StorageError(self.path, error.strerror or str(error)) from None

    def abort(self) -> None:
        if self._done:
            return
        self._done = True
        # A full disk may fail to take what was written; the file goes away all the same.
        with contextlib.suppress(OSError):
            os.close(self._file)
        Path(self.path).unlink(missing_ok=True)

    def _flush(self) -> None:
        small, self._small = self._small, bytearray()
        if small:
            self._put(memoryview(small))

    def _put(self, view: memoryview) -> None:
        try:
            write_all(self._file, view)
        except OSError as error:
            raise StorageError(self.path, error.strerror or str(error)) from None
        if view.nbytes >= _WORTHWHILE:
            start_writing(self._file, self._begun, view.nbytes)
        self._begun += view.nbytes

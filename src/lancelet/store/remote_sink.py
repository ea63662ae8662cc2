"""Writing an object piece by piece to an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import obstore

from lancelet.runtime.metrics import finished, measured

if TYPE_CHECKING:
    from lancelet.store.remote import RemoteStore

_PART = 8 << 20


class RemoteSink:
    """A stream to an object store: parts go up while more are written."""

    __slots__ = ("_done", "_name", "_size", "_store", "_writer", "path")

    def __init__(self, store: RemoteStore, name: str) -> None:
        self.path = store.join(name)
        self._store = store
        self._name = name
        self._size = 0
        self._done = False
        with store.failures(name) as client:
            self._writer = obstore.open_writer(client, store.key(name), buffer_size=_PART)

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        with self._store.failures(self._name):
            self._store.change(lambda: self._writer.write(view))
        self._size += view.nbytes

    def tell(self) -> int:
        return self._size

    @property
    def scheme(self) -> str:
        return self._store.scheme

    @measured("put", finished)
    def finish(self) -> None:
        with self._store.failures(self._name):
            self._store.change(self._writer.close)
        self._store.count(1, 0)
        self._store.count_write(self._size)
        self._done = True

    def abort(self) -> None:
        # Without a close no object comes to be; the store drops parts of unfinished uploads by its own rules.
        self._done = True

"""The interface of a store: a folder of immutable objects, local or remote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lancelet.store.source import ByteSource, Counters


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object."""

    path: str
    """Relative to the store's folder."""
    size: int
    modified: datetime


class Sink(Protocol):
    """An object under construction. Nobody sees it before :meth:`finish`, or it is of no use before that."""

    @property
    def path(self) -> str:
        """Full path or URI, for error texts."""

    def write(self, data: object) -> None:
        """Append the bytes of anything with the buffer protocol."""

    def tell(self) -> int:
        """Bytes written so far."""

    def finish(self) -> None:
        """Make the object complete; :meth:`Store.settle` makes it lasting."""

    def abort(self) -> None:
        """Give up: what was written goes away. Does nothing after :meth:`finish`."""


class Store(Protocol):
    """A folder on some store. Paths are relative to it, with ``/`` between their parts.

    A store is picklable and may be used from several threads. A missing object raises ``MissingFile``, any
    other failure ``StorageError``; both name the full path.
    """

    @property
    def uri(self) -> str:
        """The folder, as it appears in error texts."""

    @property
    def options(self) -> Mapping[str, str]:
        """The storage options that it was opened with."""

    @property
    def counters(self) -> Counters: ...

    @property
    def is_local(self) -> bool: ...

    @property
    def lists_in_order(self) -> bool:
        """Whether a listing comes sorted by key, so that its beginning alone is worth reading."""

    def join(self, path: str) -> str:
        """Full path or URI of an object."""

    def child(self, path: str) -> Store:
        """The store of a folder below this one."""

    def open(self, path: str, size: int | None = None) -> ByteSource:
        """Open an object for ranged reads; a known ``size`` saves a request."""

    def read_all(self, path: str) -> bytes:
        """The whole object."""

    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        """Up to the last ``nbytes`` of an object, and the object's size, in one request."""

    def size_of(self, path: str) -> int: ...

    def exists(self, path: str) -> bool: ...

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects below a folder, sorted by path, fetched as they are consumed. A missing folder is empty."""

    def list_names(self, prefix: str) -> Iterable[str]:
        """Names of the objects directly in a folder, sorted when ``lists_in_order``, fetched as they are consumed."""

    def list_folders(self, prefix: str = "") -> list[str]:
        """Names of the folders directly below a folder, sorted."""

    def put(self, path: str, data: bytes) -> None:
        """Write an object, replacing an existing one. Nobody sees half of it."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object only if there is none; False when there is.

        ``UncertainPut`` says that nobody knows whether the object was written; any other error, that it was not.
        """

    def put_new(self, path: str, data: bytes) -> None:
        """Write a small object whose name is ours alone; like a sink's, it lasts after :meth:`settle`."""

    def put_hint(self, path: str, data: bytes) -> None:
        """Write an object that nothing depends on, replacing an existing one."""

    def open_sink(self, path: str) -> Sink:
        """Begin an object that must not exist yet, to be written piece by piece."""

    def settle(self, paths: Sequence[str]) -> None:
        """Have finished objects survive a crash of the machine."""

    def copy(self, source: str, target: str) -> None: ...

    def copy_from(self, source: Store, path: str, target: str, size: int | None = None) -> bool:
        """Copy an object of another store by the system's or the store's own means, replacing what is there.

        False when there are none and its bytes must be carried over. The copy lasts after :meth:`settle`; a known
        ``size`` saves a request.
        """

    def delete(self, path: str) -> None:
        """Remove an object; no error when it is not there."""

    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        """Remove objects, as many with one request as the store allows; returns the paths of those it refused to remove.

        Objects that are not there are no failures. On a local file system, folders two levels down that become empty
        go away as well (``_indices/<uuid>``); a ``lasting`` removal is on the disk once this returns, before any
        later one.
        """

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        """Remove everything below a folder, but for what is in some folders below it. No error when there is nothing."""

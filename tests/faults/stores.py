"""Stores that fail on purpose, around one that works."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lancelet.errors import StorageError, UncertainPut
from lancelet.store import ByteSource, Counters, ObjectInfo, Store


class Killed(BaseException):
    """The process is gone: nothing that it would do afterwards happens."""


class Fault(enum.Enum):
    """What happens to one operation of a store."""

    REFUSED = "not done, and the store says so"
    LOST = "not done, and the store says nothing"
    ANSWER_LOST = "done, and the store says nothing"
    KILLED_BEFORE = "the process dies before it"
    KILLED_AFTER = "the process dies after it"


class FaultyStore:
    """Counts what it is asked to do, and lets one of these operations fail."""

    is_local = False

    def __init__(self, inner: Store, at: int = -1, fault: Fault = Fault.REFUSED) -> None:
        self.inner = inner
        self.at = at
        self.fault = fault
        self.calls: list[str] = []
        self.dead = False

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def options(self) -> Mapping[str, str]:
        return self.inner.options

    @property
    def counters(self) -> Counters:
        return self.inner.counters

    @property
    def lists_in_order(self) -> bool:
        return self.inner.lists_in_order

    def join(self, path: str) -> str:
        return self.inner.join(path)

    def child(self, path: str) -> Store:
        return self.inner.child(path)

    def open(self, path: str, size: int | None = None) -> ByteSource:
        return self._do("open", path, lambda: self.inner.open(path, size))

    def read_all(self, path: str) -> bytes:
        return self._do("read_all", path, lambda: self.inner.read_all(path))

    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        return self._do("read_tail", path, lambda: self.inner.read_tail(path, nbytes))

    def size_of(self, path: str) -> int:
        return self._do("size_of", path, lambda: self.inner.size_of(path))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self.inner.exists(path))

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._do("list", prefix, lambda: self.inner.list_objects(prefix))

    def list_names(self, prefix: str) -> Iterable[str]:
        return self._do("list", prefix, lambda: list(self.inner.list_names(prefix)))

    def list_folders(self, prefix: str = "") -> list[str]:
        return self._do("list", prefix, lambda: self.inner.list_folders(prefix))

    def put(self, path: str, data: bytes) -> None:
        self._do("put", path, lambda: self.inner.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._do("put_if_absent", path, lambda: self.inner.put_if_absent(path, data))

    def copy(self, source: str, target: str) -> None:
        self._do("copy", source, lambda: self.inner.copy(source, target))

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self.inner.delete(path))

    def _do(self, what: str, path: str, act: Callable[[], Any]) -> Any:
        if self.dead:
            raise Killed
        number = len(self.calls)
        self.calls.append(f"{what} {path}")
        if number != self.at:
            return act()
        if self.fault is Fault.KILLED_BEFORE:
            self.dead = True
            raise Killed
        if self.fault in (Fault.ANSWER_LOST, Fault.KILLED_AFTER):
            act()
        if self.fault is Fault.KILLED_AFTER:
            self.dead = True
            raise Killed
        if self.fault is Fault.REFUSED or what != "put_if_absent":
            raise StorageError(self.join(path), "fault on purpose")
        raise UncertainPut(self.join(path), "fault on purpose")

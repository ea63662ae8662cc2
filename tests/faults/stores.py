"""Stores that fail on purpose, around one that works, and changes of tables that are tried on them."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lancelet
from lancelet.errors import CommitOutcomeUnknown, LanceletError, StorageError, UncertainPut
from lancelet.store import ByteSource, Counters, ObjectInfo, Sink, Store, open_store
from lancelet.store.local_sink import LocalSink
from lancelet.store.objects import delete_each, put_own, remove_listed


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

    def put_new(self, path: str, data: bytes) -> None:
        put_own(self, path, data)

    def put_hint(self, path: str, data: bytes) -> None:
        self._do("put_hint", path, lambda: self.inner.put_hint(path, data))

    def open_sink(self, path: str) -> Sink:
        return FaultySink(self, path)

    def settle(self, paths: Sequence[str]) -> None:
        self._do("settle", ", ".join(paths), lambda: self.inner.settle(paths))

    def copy(self, source: str, target: str) -> None:
        self._do("copy", source, lambda: self.inner.copy(source, target))

    def copy_from(self, source: Store, path: str, target: str, size: int | None = None) -> bool:
        origin = source.inner if isinstance(source, FaultyStore) else source
        return self._do("copy_from", path, lambda: self.inner.copy_from(origin, path, target, size))

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self.inner.delete(path))

    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        return delete_each(self, paths)

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        remove_listed(self, folder, spared)

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


class FaultySink:
    """A sink whose operations count as those of its store."""

    def __init__(self, store: FaultyStore, path: str) -> None:
        self.path = store.join(path)
        self._store = store
        self._name = path
        self._sink: Any = None
        try:
            store._do("begin", path, self._begin)
        except BaseException:
            self._close()
            raise

    def _begin(self) -> None:
        self._sink = self._store.inner.open_sink(self._name)

    def _close(self) -> None:
        """What the end of a process does."""
        if isinstance(self._sink, LocalSink) and not self._sink._done:
            self._sink._done = True
            os.close(self._sink._file)

    def write(self, data: Any) -> None:
        self._store._do("write", self._name, lambda: self._sink.write(data))

    def tell(self) -> int:
        return self._sink.tell()

    def finish(self) -> None:
        self._store._do("finish", self._name, self._sink.finish)

    def abort(self) -> None:
        if self._store.dead:
            self._close()
        else:
            self._sink.abort()


@dataclass(frozen=True)
class Attempt:
    """A change of a table that was tried once."""

    where: Path
    existing: list[str]
    """The table's files before."""
    calls: list[str]
    """What the store was asked to do."""
    error: BaseException | None
    label: str

    def check(self, found: object, old: object, new: object, *, versions: int = 1) -> None:
        """The new content, or an error and the old one; either, where nobody can know.

        No file is there that nobody refers to, except that a change of several ``versions`` keeps those that it made.
        """
        if self.error is None:
            assert found == new, self.label
            assert row_files(self.where) == referenced(self.where), self.label
        elif isinstance(self.error, (Killed, CommitOutcomeUnknown)):
            assert found in (old, new), self.label
        else:
            assert found == old, self.label
            if versions == 1:
                assert without_hint(files_below(self.where)) == without_hint(self.existing), self.label


Prepare = Callable[[Path], object]
"""Makes the table to change, if there is to be one."""
Act = Callable[[FaultyStore], object]


def attempt(where: Path, prepare: Prepare, act: Act, at: int = -1, fault: Fault = Fault.REFUSED) -> Attempt:
    """Make a table and change it, with one operation of its store failing."""
    prepare(where)
    existing = files_below(where)
    store = FaultyStore(open_store(where), at, fault)
    error: BaseException | None = None
    try:
        act(store)
    except (Killed, LanceletError) as caught:
        error = caught
    label = f"{fault.name} at {at}: {store.calls[at]}: {error!r}"
    return Attempt(where, existing, store.calls, error, label)


def attempts(folder: Path, prepare: Prepare, act: Act, fault: Fault, calls: Sequence[str]) -> Iterator[Attempt]:
    """The change tried again for each operation that it takes, with that one failing."""
    for at in range(len(calls)):
        yield attempt(folder / str(at), prepare, act, at, fault)


def files_below(where: Path) -> list[str]:
    return sorted(str(path.relative_to(where)) for path in where.rglob("*") if path.is_file())


def row_files(where: Path) -> set[str]:
    """Data and deletion files that are there."""
    return {file for file in files_below(where) if file.startswith(("data/", "_deletions/"))}


def referenced(where: Path) -> set[str]:
    """Data and deletion files that some version refers to."""
    found = set()
    for entry in lancelet.dataset(where).versions():
        for fragment in lancelet.dataset(where, entry["version"]).get_fragments():
            found |= {f"data/{file.path}" for file in fragment.data_files()}
            found |= {fragment.deletion_file()} - {None}
    return found


def without_hint(files: list[str]) -> list[str]:
    return [file for file in files if not file.endswith("hint.json")]

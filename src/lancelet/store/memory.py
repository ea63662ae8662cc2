"""Tables in the memory of this process: ``memory://name/...``.

A name leads to the same objects everywhere in the process. Who has them open keeps them also when the name is given to
a new table (:meth:`MemoryStore.publish`). Nothing here needs a thread or a lock, so that it survives a fork: the child
has what was there, and each goes on with objects of its own.
"""

from __future__ import annotations

import uuid
import weakref
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from lancelet.errors import MissingFile, StorageError
from lancelet.runtime.metrics import answered, fetched, given, measured
from lancelet.store.base import ObjectInfo
from lancelet.store.objects import delete_each, put_own, remove_listed
from lancelet.store.ranged_source import RangedSource
from lancelet.store.source import ByteSource, Counters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lancelet.store.base import Store


class _Space:
    """Objects by their keys, and the stores that look at them."""

    __slots__ = ("__weakref__", "id", "objects", "stores")

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        # No function in Python is called when an object is collected: an interrupt that is raised in one gets lost.
        self.stores: set[weakref.ref[MemoryStore]] = set()
        _ALIVE[self.id] = weakref.ref(self, partial(_ALIVE.pop, self.id))

    def viewers(self) -> list[MemoryStore]:
        return [store for reference in self.stores.copy() if (store := reference()) is not None]


_ALIVE: dict[str, weakref.ref[_Space]] = {}
_NAMED: dict[str, _Space] = {}


class MemoryStore:
    """A folder in memory."""

    __slots__ = ("__weakref__", "_prefix", "_root", "_space", "counters", "options")

    scheme = "memory"
    is_local = False
    lists_in_order = True

    def __init__(
        self, root: str, prefix: str = "", options: Mapping[str, str] | None = None, space: _Space | None = None
    ) -> None:
        self._root = root
        self._prefix = prefix.strip("/")
        self.options: Mapping[str, str] = dict(options or {})
        self.counters = Counters()
        self._look_at(_NAMED.setdefault(root, _Space()) if space is None else space)

    def _look_at(self, space: _Space) -> None:
        self._space = space
        space.stores.add(weakref.ref(self, space.stores.discard))

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._root, self._prefix, self.options, self._space.id)

    def __repr__(self) -> str:
        return f"MemoryStore({self.uri!r})"

    @property
    def uri(self) -> str:
        return f"{self._root}/{self._prefix}" if self._prefix else self._root

    def join(self, path: str) -> str:
        return f"{self.uri}/{path}" if path else self.uri

    def child(self, path: str) -> MemoryStore:
        store = MemoryStore(self._root, self._key(path), self.options, self._space)
        store.counters = self.counters
        return store

    def beside(self, path: str, options: Mapping[str, str]) -> MemoryStore:
        """Another folder of the same objects."""
        return MemoryStore(self._root, path, options, self._space)

    # Names that are given anew

    def private(self) -> MemoryStore:
        """An empty folder of the same name, which only this object leads to before it is published."""
        return MemoryStore(self._root, self._prefix, self.options, _Space())

    def publish(self, folders: Collection[str]) -> None:
        """Let the name lead here. What was in some folders there stays with those who have it open."""
        mine, named = self._space, _NAMED.setdefault(self._root, _Space())
        if mine is named:
            return
        left = _Space()
        inside = tuple(f"{self._key(folder)}/" for folder in folders)
        for key in [key for key in list(named.objects) if key.startswith(inside)]:
            left.objects[key] = named.objects.pop(key)
        for store in named.viewers():
            if store._prefix == self._prefix or store._prefix.startswith(inside):
                store._look_at(left)
        named.objects.update(mine.objects)
        for store in mine.viewers():
            store._look_at(named)

    # Reading

    def open(self, path: str, size: int | None = None) -> ByteSource:
        if not size:
            return RangedSource(self, path, self.size_of(path), known=True)
        return RangedSource(self, path, size, known=False)

    @measured("get", answered)
    def read_all(self, path: str) -> bytes:
        data = self._get(path)
        self._count(1, len(data))
        return data

    @measured("get", answered)
    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        data = self._get(path)
        tail = data[-nbytes:] if nbytes else b""
        self._count(1, len(tail))
        return tail, len(data)

    @measured("get", fetched)
    def fetch(self, path: str, parts: list[tuple[int, int]]) -> list[Any]:
        """The bytes of each (start, stop)."""
        data = memoryview(self._get(path))
        self._count(len(parts), sum(stop - start for start, stop in parts))
        return [data[start:stop] for start, stop in parts]

    @measured("head")
    def size_of(self, path: str) -> int:
        data = self._get(path)
        self._count(1, 0)
        return len(data)

    @measured("head")
    def exists(self, path: str) -> bool:
        self._count(1, 0)
        return self._key(path) in self._space.objects

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        cut = len(self._prefix) + 1 if self._prefix else 0
        objects = self._space.objects
        for key in self._listed(f"{self._key(prefix)}/".lstrip("/")):
            entry = objects.get(key)
            if entry is not None:
                yield ObjectInfo(key[cut:], len(entry[0]), entry[1])

    @measured("list")
    def _listed(self, below: str) -> list[str]:
        self.counters.lists += 1
        return sorted(key for key in list(self._space.objects) if key.startswith(below))

    def list_names(self, prefix: str) -> Iterator[str]:
        cut = len(prefix) + 1 if prefix else 0
        return (entry.path[cut:] for entry in self.list_objects(prefix) if "/" not in entry.path[cut:])

    def list_folders(self, prefix: str = "") -> list[str]:
        cut = len(prefix) + 1 if prefix else 0
        names = (entry.path[cut:].partition("/") for entry in self.list_objects(prefix))
        return sorted({name for name, slash, _ in names if slash})

    # Writing

    @measured("put", given)
    def put(self, path: str, data: bytes) -> None:
        self._count(1, 0)
        self._space.objects[self._key(path)] = bytes(data), datetime.now(timezone.utc)

    @measured("put", given)
    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._count(1, 0)
        entry = bytes(data), datetime.now(timezone.utc)
        return self._space.objects.setdefault(self._key(path), entry) is entry

    def put_new(self, path: str, data: bytes) -> None:
        put_own(self, path, data)

    def put_hint(self, path: str, data: bytes) -> None:
        self.put(path, data)

    def open_sink(self, path: str) -> MemorySink:
        return MemorySink(self, path)

    def settle(self, paths: Sequence[str]) -> None:
        """Memory does not last."""

    def copy(self, source: str, target: str) -> None:
        self.put(target, self._get(source))

    def copy_from(self, source: Store, path: str, target: str, size: int | None = None) -> bool:
        if not isinstance(source, MemoryStore) or source._root != self._root:
            return False
        self.put(target, source._get(path))
        return True

    @measured("delete")
    def delete(self, path: str) -> None:
        self._count(1, 0)
        self._space.objects.pop(self._key(path), None)

    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        return delete_each(self, paths)

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        remove_listed(self, folder, spared)

    def _get(self, path: str) -> bytes:
        entry = self._space.objects.get(self._key(path))
        if entry is None:
            raise MissingFile(self.join(path))
        return entry[0]

    def _key(self, path: str) -> str:
        if ".." in path and ".." in path.split("/"):
            raise StorageError(self.join(path), "a path has no parts that lead upwards")
        return "/".join(part for part in (self._prefix, path) if part)

    def _count(self, requests: int, nbytes: int) -> None:
        self.counters.count_reads(requests, nbytes)


class MemorySink:
    """An object in pieces, until it is finished."""

    __slots__ = ("_data", "_name", "_store", "path")

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.path = store.join(name)
        self._store = store
        self._name = name
        self._data: bytearray | None = bytearray()

    def write(self, data: Any) -> None:
        assert self._data is not None, "a sink that is done takes no more"
        self._data += memoryview(data).cast("B")

    def tell(self) -> int:
        return len(self._data or b"")

    def finish(self) -> None:
        if self._data is not None:
            self._store.put(self._name, bytes(self._data))
        self._data = None

    def abort(self) -> None:
        self._data = None


def _restored(root: str, prefix: str, options: Mapping[str, str], space: str) -> MemoryStore:
    """The store that was pickled, if its objects are in this process; otherwise the one with its name."""
    reference = _ALIVE.get(space)
    return MemoryStore(root, prefix, options, None if reference is None else reference())

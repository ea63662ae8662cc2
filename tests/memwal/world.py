"""A store with bad days for many actors, step by step in an order drawn from a seed.

Every request of every actor is a step, after which any other may come. Requests are refused, lost, heard without an answer, heard
late, or made twice by the client; and an actor may die at any of them. Listings and reads tell the truth of the moment, as those
of object stores do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from faults.simulated import Baton, Source
from lancelet.errors import MissingFile, StorageError, UncertainPut
from lancelet.memwal.names import MEM_WAL_DIR, is_staged
from lancelet.store import ByteSource, Counters, ObjectInfo
from lancelet.store.objects import delete_each, put_own, remove_listed

NAPS, NAP = 0.04, 120
"""How likely an actor falls asleep at a step, and for how many turns at most."""
ROWS = ("data/", "_deletions/", "_pk_index/")


class Killed(BaseException):
    """The process of an actor is gone; nothing that it would do afterwards happens."""


@dataclass
class World:
    """What all stores share."""

    baton: Baton
    trouble: float
    """How likely each kind of trouble is."""
    objects: dict[str, bytes] = field(default_factory=dict)
    late: list[tuple[str, bytes]] = field(default_factory=list)
    calm: bool = True
    lives: dict[int, int] = field(default_factory=dict)
    """How many steps an actor has until it dies, for those that do."""

    @property
    def actor(self) -> int | None:
        return None if self.calm else getattr(threading.current_thread(), "number", None)

    def step(self, path: str) -> None:
        """One request: others may come first, late ones arrive, the actor may die, and it may be refused."""
        actor = self.actor
        if actor is None:
            return
        left = self.lives.get(actor)
        if left is not None:
            if left <= 0:
                raise Killed
            self.lives[actor] = left - 1
        self.baton.pause()
        if self.baton.chance.random() < NAPS:
            # An actor that is stopped for long: others do whole pieces of work meanwhile.
            for _ in range(self.baton.chance.randrange(NAP)):
                self.baton.pause()
        while self.late and self.baton.chance.random() < 0.3:
            self.objects.setdefault(*self.late.pop())
        if self.baton.chance.random() < self.trouble:
            raise StorageError(path, "503 slow down")

    def create(self, path: str, data: bytes) -> bool:
        """Write an object that must not be there, on a day like this."""
        self.step(path)
        chance = self.baton.chance
        if self.actor is None or chance.random() >= 4 * self.trouble:
            return self._new(path, data)
        match chance.randrange(4):
            case 0:
                raise UncertainPut(path, "time-out before it was heard")
            case 1:
                self.late.append((path, data))
                raise UncertainPut(path, "time-out, and still on its way")
            case 2:
                self._new(path, data)
                raise UncertainPut(path, "time-out after it was heard")
        return self._new(path, data) and self._new(path, data)

    def _new(self, path: str, data: bytes) -> bool:
        return self.objects.setdefault(path, data) is data


@dataclass
class WorldStore:
    """A folder of the world."""

    world: World
    prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)
    is_local = False
    lists_in_order = True

    @property
    def uri(self) -> str:
        return f"world://{self.prefix}"

    def join(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def child(self, path: str) -> WorldStore:
        return WorldStore(self.world, self._key(path), self.options, self.counters)

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self.prefix, path) if part)

    def open(self, path: str, size: int | None = None) -> ByteSource:
        return Source(self.join(path), self.read_all(path))

    def read_all(self, path: str) -> bytes:
        # Rows are read inside of locks that threads of a process share; an actor that paused there would stop all others.
        if not path.startswith(ROWS):
            self.world.step(path)
        data = self.world.objects.get(self._key(path))
        if data is None:
            raise MissingFile(self.join(path))
        return data

    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        data = self.read_all(path)
        return data[-nbytes:], len(data)

    def size_of(self, path: str) -> int:
        return len(self.read_all(path))

    def exists(self, path: str) -> bool:
        self.world.step(path)
        return self._key(path) in self.world.objects

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self.world.step(prefix)
        below = f"{self._key(prefix)}/"
        cut = len(self.prefix) + 1 if self.prefix else 0
        for key in sorted(key for key in self.world.objects if key.startswith(below)):
            if key in self.world.objects:
                yield ObjectInfo(key[cut:], len(self.world.objects[key]), _written(key))

    def list_names(self, prefix: str) -> Iterable[str]:
        cut = len(prefix) + 1 if prefix else 0
        return [entry.path[cut:] for entry in self.list_objects(prefix) if "/" not in entry.path[cut:]]

    def list_folders(self, prefix: str = "") -> list[str]:
        cut = len(prefix) + 1 if prefix else 0
        names = (entry.path[cut:].partition("/") for entry in self.list_objects(prefix))
        return sorted({name for name, slash, _ in names if slash})

    def put(self, path: str, data: bytes) -> None:
        self.world.step(path)
        self.world.objects[self._key(path)] = bytes(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.world.create(self._key(path), bytes(data))

    def put_new(self, path: str, data: bytes) -> None:
        put_own(self, path, data)

    def put_hint(self, path: str, data: bytes) -> None:
        self.put(path, data)

    def open_sink(self, path: str) -> _Sink:
        return _Sink(self, path)

    def settle(self, paths: Sequence[str]) -> None:
        """Every object lasts."""

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.read_all(source))

    def copy_from(self, source: Any, path: str, target: str, size: int | None = None) -> bool:
        return False

    def delete(self, path: str) -> None:
        self.world.step(path)
        self.world.objects.pop(self._key(path), None)

    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        return delete_each(self, paths)

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        remove_listed(self, folder, spared)


def _written(key: str) -> datetime:
    """When an object came: in a MemWAL long ago, as it seems after a long sleep, but for batches, whose jobs end in time."""
    is_old = f"/{MEM_WAL_DIR}/" in key and not is_staged(key.split("/")[3])
    return datetime(2000, 1, 1, tzinfo=timezone.utc) if is_old else datetime.now(timezone.utc)


class _Sink:
    def __init__(self, store: WorldStore, name: str) -> None:
        self.path = store.join(name)
        self._store, self._name, self._data = store, name, bytearray()

    def write(self, data: Any) -> None:
        self._data += memoryview(data).cast("B")

    def tell(self) -> int:
        return len(self._data)

    def finish(self) -> None:
        self._store.put(self._name, bytes(self._data))

    def abort(self) -> None:
        self._data.clear()


def new_world(seed: int, trouble: float) -> World:
    return World(Baton(random.Random(seed)), trouble)

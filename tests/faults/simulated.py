"""Many writers on one simulated store, step by step in an order drawn from a seed.

Every request of every writer is one step; between two steps any other writer may take its own. The store answers as
object stores do on a bad day: refusals, time-outs with and without effect, requests that arrive late, listings that
lag behind, clients that repeat a request whose first answer was lost.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lancelet.errors import MissingFile, StorageError, UncertainPut
from lancelet.store import ByteSource, Counters, ObjectInfo, Sink, Store
from lancelet.store.objects import delete_each, put_own

# The objects of the first version, which every listing shows.
FIRST = 2


class Baton:
    """Lets one thread run at a time. Whoever pauses chooses the next one by chance, and wakes only that."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps = 0
        self._lock = threading.Lock()
        self._gates: list[threading.Lock] = []
        self._waiting: set[int] = set()
        self._alive: set[int] = set()
        self.failures: list[BaseException] = []

    def run(self, actors: list[Callable[[], None]]) -> None:
        """Run all actors to their end."""
        threads = [threading.Thread(target=self._act, args=(number, act)) for number, act in enumerate(actors)]
        self._alive = set(range(len(actors)))
        self._gates = [threading.Lock() for _ in actors]
        for gate in self._gates:
            gate.acquire()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def pause(self) -> None:
        """Wait for the next turn of this thread."""
        number = threading.current_thread().number  # type: ignore[attr-defined]
        with self._lock:
            self._waiting.add(number)
            self._pass_on()
        self._gates[number].acquire()

    def _pass_on(self) -> None:
        """Wake one thread, when all wait."""
        if self._alive and self._waiting == self._alive:
            turn = self.chance.choice(sorted(self._waiting))
            self.steps += 1
            self._waiting.discard(turn)
            self._gates[turn].release()

    def _act(self, number: int, act: Callable[[], None]) -> None:
        threading.current_thread().number = number  # type: ignore[attr-defined]
        try:
            self.pause()
            act()
        except BaseException as error:
            self.failures.append(error)
        finally:
            with self._lock:
                self._alive.discard(number)
                self._pass_on()


@dataclass
class Weather:
    """How likely each kind of trouble is."""

    refused: float = 0.02
    lost: float = 0.02
    answer_lost: float = 0.02
    late: float = 0.01
    repeated: float = 0.02
    lagging: float = 0.1


@dataclass
class SimulatedStore:
    """Objects in a dict. ``history`` remembers when each came, for listings that lag behind."""

    baton: Baton
    weather: Weather
    lists_in_order: bool = True
    objects: dict[str, bytes] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    delayed: list[tuple[str, bytes]] = field(default_factory=list)
    calm: bool = False
    is_local = False
    uri = "sim://table"
    options: Mapping[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)

    def join(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def child(self, path: str) -> Store:
        raise NotImplementedError

    def open(self, path: str, size: int | None = None) -> ByteSource:
        return Source(self.join(path), self.read_all(path))

    def read_all(self, path: str) -> bytes:
        self._step(path)
        if path not in self.objects:
            raise MissingFile(self.join(path))
        return self.objects[path]

    def read_tail(self, path: str, nbytes: int) -> tuple[bytes, int]:
        data = self.read_all(path)
        return data[-nbytes:], len(data)

    def size_of(self, path: str) -> int:
        return len(self.read_all(path))

    def exists(self, path: str) -> bool:
        self._step(path)
        return path in self.objects

    def list_objects(self, prefix: str = "") -> Iterator[ObjectInfo]:
        raise NotImplementedError

    def list_names(self, prefix: str) -> Iterable[str]:
        self._step(prefix)
        seen = self.history
        if not self.calm and self.baton.chance.random() < self.weather.lagging:
            seen = [*seen[:FIRST], *seen[FIRST : max(len(seen) - self.baton.chance.randrange(4), FIRST)]]
        names = [path.rpartition("/")[2] for path in seen if path.startswith(f"{prefix}/") and path in self.objects]
        return sorted(names)

    def list_folders(self, prefix: str = "") -> list[str]:
        raise NotImplementedError

    def put(self, path: str, data: bytes) -> None:
        self._step(path)
        self._keep(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._step(path)
        chance, weather = self.baton.chance, self.weather
        if self.calm:
            return self._create(path, data)
        if chance.random() < weather.lost:
            raise UncertainPut(self.join(path), "time-out")
        if chance.random() < weather.late:
            self.delayed.append((path, data))
            raise UncertainPut(self.join(path), "time-out")
        done = self._create(path, data)
        if chance.random() < weather.answer_lost:
            raise UncertainPut(self.join(path), "time-out")
        return done and chance.random() >= weather.repeated

    def put_new(self, path: str, data: bytes) -> None:
        put_own(self, path, data)

    def put_hint(self, path: str, data: bytes) -> None:
        self.put(path, data)

    def open_sink(self, path: str) -> Sink:
        raise NotImplementedError

    def settle(self, paths: Sequence[str]) -> None:
        """Every object lasts."""

    def copy(self, source: str, target: str) -> None:
        raise NotImplementedError

    def copy_from(self, source: Store, path: str, target: str, size: int | None = None) -> bool:
        raise NotImplementedError

    def delete(self, path: str) -> None:
        self._step(path)
        self.objects.pop(path, None)

    def delete_many(self, paths: Sequence[str], *, lasting: bool = False) -> list[str]:
        return delete_each(self, paths)

    def remove_folder(self, folder: str, spared: Collection[str] = ()) -> None:
        raise NotImplementedError

    def _create(self, path: str, data: bytes) -> bool:
        if path in self.objects:
            return False
        self._keep(path, data)
        return True

    def _keep(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self.history.append(path)

    def _step(self, path: str) -> None:
        """One request: others may come first, late ones arrive, and it may be refused."""
        if self.calm:
            return
        self.baton.pause()
        while self.delayed and self.baton.chance.random() < 0.3:
            self._create(*self.delayed.pop())
        if self.baton.chance.random() < self.weather.refused:
            raise StorageError(self.join(path), "503 slow down")


class Source:
    """Bytes of a simulated object."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.size = len(data)
        self.mapped: Any = None
        self._data = np.frombuffer(data, np.uint8)

    def read(self, ranges: Any) -> list[Any]:
        return [self._data[offset : offset + length] for offset, length in ranges]

    def release(self, start: int, stop: int) -> None:
        """Nothing is kept."""

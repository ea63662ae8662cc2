"""Open files, kept for the next read and bounded in bytes.

What is kept is what locates bytes: footers, column metadata, chunk tables,
dictionaries; and, under a bound of their own, open indices. A pickled cache arrives empty.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lancelet.file.checksums import asked_by_environment, check_file
from lancelet.file.reader import FileReader, open_file
from lancelet.store import ByteSource

DEFAULT_BYTES = 1 << 30
DEFAULT_INDEX_BYTES = 6 << 30
_MAX_FILES = 16384
_CHECK_EVERY = 64


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is held open, and what reads it."""

    source: ByteSource
    reader: FileReader


class Sized(Protocol):
    """Something that knows how many bytes it keeps, which may become more with use."""

    @property
    def nbytes(self) -> int: ...


class ObjectCache:
    """Objects by key, bounded in bytes; the least recently used go first, the last one stays unless nothing may."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.hits = 0
        self.misses = 0
        self._objects: OrderedDict[object, Sized] = OrderedDict()
        self._uses = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(held.nbytes for held in self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: object, make: Callable[[], Any]) -> Any:
        """The object under a key, made now if it is not there."""
        with self._lock:
            found = self._objects.get(key)
            if found is not None:
                self.hits += 1
                self._objects.move_to_end(key)
                return found
            self.misses += 1
        made = make()
        with self._lock:
            self._objects[key] = made
            self._evict()
        return made

    def put(self, key: object, held: Sized) -> None:
        """Keep an object, in place of the one under its key."""
        with self._lock:
            self._objects[key] = held
            self._objects.move_to_end(key)
            self._evict()

    def trim(self) -> None:
        """Let go of what is too much, now and then: objects grow with use."""
        with self._lock:
            self._uses += 1
            if self._uses % _CHECK_EVERY == 0:
                self._evict()

    def _evict(self) -> None:
        total = sum(held.nbytes for held in self._objects.values())
        while total > self.max_bytes and len(self._objects) > bool(self.max_bytes):
            _, gone = self._objects.popitem(last=False)
            total -= gone.nbytes


class FileCache:
    """Least recently used files go first."""

    def __init__(
        self, max_bytes: int = DEFAULT_BYTES, index_bytes: int = DEFAULT_INDEX_BYTES, checked: bool | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self.checked = asked_by_environment() if checked is None else checked
        """Whether files are compared with their checksums, those that have some, when they are opened."""
        self.indices = ObjectCache(index_bytes)
        self._files: OrderedDict[object, OpenFile] = OrderedDict()
        self._lock = threading.Lock()
        self._opened = 0

    def __reduce__(self) -> tuple[object, ...]:
        return FileCache, (self.max_bytes, self.indices.max_bytes, self.checked)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        with self._lock:
            return sum(file.reader.nbytes for file in self._files.values())

    def open(self, path: str, columns: Mapping[int, int], source: Callable[[], ByteSource]) -> OpenFile:
        """The file at ``path``, opened now if it is not yet."""
        key = (path, frozenset(columns.items()))
        with self._lock:
            found = self._files.get(key)
            if found is not None:
                self._files.move_to_end(key)
                return found
        opened = source()
        if self.checked:
            check_file(opened)
        file = OpenFile(opened, open_file(opened, columns))
        with self._lock:
            self._files[key] = file
            self._opened += 1
            self._evict()
        return file

    def _evict(self) -> None:
        while len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)
        if not self.max_bytes:
            self._files.clear()
        elif self._opened % _CHECK_EVERY == 0:
            total = sum(file.reader.nbytes for file in self._files.values())
            while total > self.max_bytes and len(self._files) > 1:
                _, gone = self._files.popitem(last=False)
                total -= gone.reader.nbytes

"""Open files, kept for the next read and bounded in bytes.

What is kept is what locates bytes: footers, column metadata, chunk tables,
dictionaries. A pickled cache arrives empty.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lancelet.file.reader import FileReader, open_file
from lancelet.store import ByteSource

DEFAULT_BYTES = 1 << 30
_MAX_FILES = 16384
_CHECK_EVERY = 64


@dataclass(frozen=True, slots=True)
class OpenFile:
    source: ByteSource
    reader: FileReader


class FileCache:
    """Least recently used files go first."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self._files: OrderedDict[object, OpenFile] = OrderedDict()
        self._lock = threading.Lock()
        self._opened = 0

    def __reduce__(self) -> tuple[object, ...]:
        return FileCache, (self.max_bytes,)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def nbytes(self) -> int:
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
        file = OpenFile(opened, open_file(opened, columns))
        with self._lock:
            self._files[key] = file
            self._opened += 1
            self._evict()
        return file

    def _evict(self) -> None:
        while len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)
        if self._opened % _CHECK_EVERY == 0:
            total = sum(file.reader.nbytes for file in self._files.values())
            while total > self.max_bytes and len(self._files) > 1:
                _, gone = self._files.popitem(last=False)
                total -= gone.reader.nbytes

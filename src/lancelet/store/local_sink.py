"""Writing a local file piece by piece."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lancelet.errors import StorageError
from lancelet.runtime.metrics import finished, measured
from lancelet.store.local_files import write_all
from lancelet.store.writeback import start_writing

if TYPE_CHECKING:
    from lancelet.store.source import Counters

_STEP = 1 << 20
WORTHWHILE = 256 << 10
"""A sync takes care of fewer bytes than this as fast."""


class LocalSink:
    """A local file. Small pieces are gathered; whatever is written begins its way to the disk at once."""

    __slots__ = ("_begun", "_counters", "_done", "_file", "_size", "_small", "path")

    scheme = "file"

    def __init__(self, path: str, file: int, counters: Counters) -> None:
        self._counters = counters
        self.path = path
        self._size = 0
        self._begun = 0
        self._done = False
        self._small = bytearray()
        self._file = file

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

    @measured("put", finished)
    def finish(self) -> None:
        self._flush()
        self._done = True
        try:
            os.close(self._file)
        except OSError as error:
            Path(self.path).unlink(missing_ok=True)
            raise StorageError(self.path, error.strerror or str(error)) from None
        self._counters.writes += 1
        self._counters.written += self._size

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
        if view.nbytes >= WORTHWHILE:
            start_writing(self._file, self._begun, view.nbytes)
        self._begun += view.nbytes

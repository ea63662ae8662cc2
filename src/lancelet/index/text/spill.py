"""Runs of postings on their way into a part: in memory as long as they fit, then in a temporary file.

What is in memory is put together into one run before it goes to the file, so that there are few of them; ``packing.pyx``
draws a run.
"""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from lancelet.index.text.packing import Merger

_ALIGNED: Final = 8
_NO_LENGTHS: Final = np.empty(0, np.uint32)
_ANY_BLOCK: Final = 128


@dataclass(frozen=True, slots=True)
class Run:
    """Postings of some documents."""

    terms: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]
    lasts: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    base: int
    """The number of the document from which it counts."""

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.terms, self.counts, self.lasts, self.offsets, self.data

    @property
    def parts(self) -> tuple[Any, ...]:
        """As a :class:`~lancelet.index.text.packing.Merger` takes it."""
        return (*self.arrays, self.base)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)


class Runs:
    """Runs in the order of their documents. Used as a context: leaving it removes the temporary file."""

    def __init__(self, with_positions: bool, limit: int) -> None:
        self._with_positions = with_positions
        self._limit = limit
        self._held: list[Run] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._written: list[list[tuple[int, np.dtype[Any], int]]] = []
        """For each run in the file: where its arrays are, their types and sizes."""

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def spilled(self) -> int:
        """How many runs are in the temporary file."""
        return len(self._written)

    def add(self, run: Run) -> None:
        """The next run."""
        self._held.append(run)
        self._size += run.nbytes
        if self._size > self._limit:
            self._spill()

    def _spill(self) -> None:
        merger = self._merger(self._held)
        while (found := merger.joined(self._limit)) is not None:
            self._write(found)
        self._held, self._size = [], 0

    def _merger(self, runs: list[Run]) -> Merger:
        return Merger([run.parts for run in runs], _NO_LENGTHS, _ANY_BLOCK, 0, self._with_positions)

    def _write(self, arrays: tuple[npt.NDArray[Any], ...]) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="lancelet-texts-")  # noqa: SIM115 - closed when this is left
        places = []
        for array in arrays:
            place = self._file.tell()
            places.append((place, array.dtype, len(array)))
            self._file.write(np.ascontiguousarray(array).view(np.uint8).data)
            self._file.write(bytes(-self._file.tell() % _ALIGNED))
        self._written.append(places)

    def parts(self) -> list[tuple[Any, ...]]:
        """All runs, as a merger takes them."""
        found: list[tuple[Any, ...]] = []
        if self._file is not None:
            self._file.flush()
            whole = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            for places in self._written:
                arrays = [np.frombuffer(whole, dtype, count, place) for place, dtype, count in places]
                found.append((*arrays, 0))
        return found + [run.parts for run in self._held]

"""Arrays that a build needs again: in memory as long as they fit, then all in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

_Shape = tuple[int, ...]


class SpilledArrays:
    """Arrays in the order in which they came. Used as a context: leaving it removes the temporary file.

    Examples
    --------
    >>> with SpilledArrays(limit=100) as arrays:
    ...     for start in range(0, 40, 10):
    ...         arrays.add(np.arange(start, start + 10))
    ...     arrays.is_spilled, [int(array[0]) for array in arrays]
    (True, [0, 10, 20, 30])
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[npt.NDArray[Any]] = []
        self._size = 0
        self._file: IO[bytes] | None = None
        self._written: list[tuple[int, _Shape, np.dtype[Any]]] = []

    def __enter__(self) -> SpilledArrays:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self._written) + len(self._held)

    @property
    def is_spilled(self) -> bool:
        """Whether they are in a file."""
        return self._file is not None

    def add(self, array: npt.NDArray[Any]) -> None:
        """The next array."""
        self._held.append(array)
        self._size += array.nbytes
        if self._size > self._limit or self._file is not None:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="lancelet-arrays-", buffering=0)  # noqa: SIM115 - closed when this is left
        for array in self._held:
            place = self._file.seek(0, 2)
            self._written.append((place, array.shape, array.dtype))
            left = np.ascontiguousarray(array).view(np.uint8).reshape(-1).data
            while left:
                left = left[self._file.write(left) :]
        self._held, self._size = [], 0

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        for number in range(len(self)):
            yield self.part(number, 0, None)

    def part(self, number: int, start: int, stop: int | None) -> npt.NDArray[Any]:
        """Some of the rows of an array."""
        if self._file is None:
            return self._held[number][start:stop]
        place, shape, dtype = self._written[number]
        end = shape[0] if stop is None else stop
        width = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        found = np.empty((end - start, *shape[1:]), dtype)
        self._file.seek(place + start * width)
        left = found.view(np.uint8).reshape(-1).data
        while left:
            count = self._file.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise OSError(f"a temporary file in {tempfile.gettempdir()} ends too early; was it cut by somebody?")
            left = left[count:]
        return found

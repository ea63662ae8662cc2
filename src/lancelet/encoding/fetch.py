"""How decoders get at bytes.

A mapped file is its own answer: decoders index into it and nothing is asked of
the store. Otherwise the ranges are joined where they touch and yielded, and the
bytes that come back are laid end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lancelet.encoding.kernels import fullzip
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices, Ranges, Step

_MANY_PIECES = 5


class Reader(Protocol):
    """Where bytes come from; the store's sources fit."""

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Bytes]: ...


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The file that a decoder reads from."""

    path: str
    size: int
    mapped: Bytes | None
    """The whole file where it is mapped into memory."""
    read_pieces: Callable[[Indices, Indices, Bytes], bool] | None = None
    """Copies scattered pieces of a mapped file without making it resident."""

    def fetch(
        self, starts: Indices, sizes: Indices, place: Place
    ) -> Generator[Ranges, list[Bytes], tuple[Bytes, Indices]]:
        """Bytes of many pieces, as one array and the position of each piece in it; a piece may come several times."""
        if self.mapped is not None:
            # Kernels check every position against the array that they are given.
            return self.mapped, starts
        if len(starts) == 0:
            return np.empty(0, np.uint8), starts
        if starts.min() < 0 or sizes.min() < 0 or (starts > self.size - sizes).any():
            raise place.corrupt(f"a buffer lies outside of the file's {self.size} bytes")
        ends = starts + sizes
        # Pieces come sorted; a new run begins where a piece does not touch the one before, nor is the same.
        apart = (starts[1:] != ends[:-1]) & (starts[1:] != starts[:-1])
        first = np.flatnonzero(np.concatenate(([True], apart)))
        last = np.append(first[1:], len(starts)) - 1
        run_starts, run_sizes = starts[first], ends[last] - starts[first]
        parts = yield list(zip(run_starts.tolist(), run_sizes.tolist(), strict=True))
        bases = np.concatenate(([0], np.cumsum(run_sizes)[:-1])) - run_starts
        positions = starts + np.repeat(bases, np.diff(np.append(first, len(starts))))
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)), positions

    def fetch_joined(self, starts: Indices, sizes: Indices, place: Place) -> Generator[Ranges, list[Bytes], Bytes]:
        """Bytes of many pieces laid end to end; for wide values, each of which would make its surroundings resident."""
        total = int(sizes.sum())
        out = np.empty(total, np.uint8)
        if self.read_pieces is not None and len(starts) >= _MANY_PIECES and self.read_pieces(starts, sizes, out):
            return out
        data, positions = yield from self.fetch(starts, sizes, place)
        if self.mapped is None and len(data) == total:
            return data
        if fullzip.gather_slices(data, positions, sizes, 0, out) >= 0:
            raise place.corrupt(f"a buffer lies outside of the file's {self.size} bytes")
        return out

    def fetch_one(self, start: int, size: int, place: Place) -> Generator[Ranges, list[Bytes], Bytes]:
        """The bytes of one piece."""
        if start < 0 or size < 0 or start > self.size - size:
            raise place.corrupt(f"a buffer of {size} bytes at {start} lies outside of the file's {self.size} bytes")
        if self.mapped is not None:
            return self.mapped[start : start + size]
        (part,) = yield [(start, size)]
        return part


def gather(steps: Sequence[Step]) -> Generator[Ranges, list[Bytes], list[Any]]:
    """Run several decoders side by side; what they ask for at the same time goes out together."""
    results: list[Any] = [None] * len(steps)
    waiting: list[tuple[int, Step, int]] = []
    wanted: Ranges = []

    def advance(index: int, step: Step, answer: list[Bytes] | None) -> None:
        try:
            ranges = next(step) if answer is None else step.send(answer)
        except StopIteration as stop:
            results[index] = stop.value
        else:
            waiting.append((index, step, len(ranges)))
            wanted.extend(ranges)

    for index, step in enumerate(steps):
        advance(index, step, None)
    while waiting:
        answers = iter((yield wanted))
        asked, waiting, wanted = waiting, [], []
        for index, step, count in asked:
            advance(index, step, [next(answers) for _ in range(count)])
    return results


def run(step: Step, source: Reader) -> Any:
    """Drive one decoder to its end with the bytes of one file."""
    try:
        ranges = next(step)
        while True:
            ranges = step.send(source.read(ranges))
    except StopIteration as stop:
        return stop.value

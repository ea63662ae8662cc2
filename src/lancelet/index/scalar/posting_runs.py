"""Postings on their way into a new file: sorted runs in a temporary file, merged token by token.

A run holds tokens in ascending order and, for each, the rows that have it. Rows are put down as they are, or as
32-bit places in a list of the run's rows, which takes half the space. The temporary file is as large as the postings;
memory holds the runs' tokens, and the postings of a few tokens at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from lancelet.index.row_set import RowSet
from lancelet.index.row_set_wire import scatter_spans, sort_spans, write_sets

Tokens = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

_AT_ONCE = 1 << 22
"""Postings that are merged at once."""
_DENSE = 1 << 24
"""Postings of one token from which on they are merged as sets, which are smaller."""


@dataclass(slots=True)
class _Run:
    tokens: Tokens
    starts: Longs
    """For each token, and after the last one, its place among the postings of the run."""
    at: int
    """The place of the postings in the file."""
    rows: int | None
    """The place of the list of rows, if there is one."""
    row_count: int

    def span(self, first: int, last: int) -> slice:
        """The tokens from ``first`` to before ``last``."""
        return slice(*np.searchsorted(self.tokens, [first, last]).tolist())


class PostingRuns:
    """Collects runs, and merges them. Used as a context: leaving it removes the temporary file."""

    def __init__(self, token_limit: int) -> None:
        self._counts = np.zeros(token_limit, np.int64)
        self._runs: list[_Run] = []
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._size = 0

    def __enter__(self) -> PostingRuns:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add_places(self, tokens: Tokens, sizes: Longs, places: npt.NDArray[np.uint32], rows: Rows) -> None:
        """Add a run whose postings are places in ``rows``."""
        at = self._put(places)
        self._add(tokens, sizes, at, self._put(rows), len(rows))

    def begin_rows(self) -> RowRun:
        """Begin a run whose postings are rows, which is filled in several steps."""
        return RowRun(self, self._size)

    def _put(self, data: npt.NDArray[Any]) -> int:
        at = self._size
        if len(data):
            self._file.write(np.ascontiguousarray(data).data.cast("B"))
        self._size += data.nbytes
        return at

    def _get(self, at: int, count: int, dtype: type[np.uint32] | type[np.uint64]) -> npt.NDArray[Any]:
        self._file.seek(at)
        data = self._file.read(count * np.dtype(dtype).itemsize)
        return np.frombuffer(data, dtype, count)

    def _add(self, tokens: Tokens, sizes: Longs, at: int, rows: int | None, row_count: int) -> None:
        self._counts[tokens] += sizes
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self._runs.append(_Run(tokens, starts, at, rows, row_count))

    def merged(self) -> Iterator[tuple[Tokens, Bytes, Longs]]:
        """Tokens in ascending order, the stored sets of their rows, and where each of these begins and the last ends."""
        self._file.flush()
        present = np.flatnonzero(self._counts)
        first = 0
        while first < len(present):
            last = first + 1
            if self._counts[present[first]] >= _DENSE:
                yield self._dense(int(present[first]))
            else:
                total = np.cumsum(self._counts[present[first : first + _AT_ONCE]])
                last = first + max(int(np.searchsorted(total, _AT_ONCE, side="right")), 1)
                yield self._block(present[first:last])
            first = last

    def _dense(self, token: int) -> tuple[Tokens, Bytes, Longs]:
        parts = [
            RowSet.of(rows) for run in self._runs for _, rows in [self._postings(run, token, token + 1)] if len(rows)
        ]
        data = np.frombuffer(RowSet.union(parts).serialize(), np.uint8)
        return np.array([token], np.uint32), data, np.array([0, len(data)], np.int64)

    def _block(self, tokens: Longs) -> tuple[Tokens, Bytes, Longs]:
        counts = self._counts[tokens]
        ends = np.cumsum(counts)
        rows, places = np.empty(int(ends[-1]), np.uint64), ends - counts
        for run in self._runs:
            span, found = self._postings(run, int(tokens[0]), int(tokens[-1]) + 1)
            if len(found):
                starts = run.starts[span.start : span.stop + 1] - run.starts[span.start]
                codes = np.searchsorted(tokens, run.tokens[span])
                scatter_spans(rows, places, codes, starts[:-1], starts[1:], found)
        sort_spans(rows, ends)
        data, offsets = write_sets(rows, ends)
        return tokens.astype(np.uint32), data, offsets

    def _postings(self, run: _Run, first: int, last: int) -> tuple[slice, Rows]:
        span = run.span(first, last)
        start, stop = int(run.starts[span.start]), int(run.starts[span.stop])
        if run.rows is None:
            return span, self._get(run.at + 8 * start, stop - start, np.uint64)
        if start == stop:
            return span, np.empty(0, np.uint64)
        places = self._get(run.at + 4 * start, stop - start, np.uint32)
        return span, self._get(run.rows, run.row_count, np.uint64)[places]


class RowRun:
    """A run under construction; tokens come in ascending order, the last one may come again."""

    def __init__(self, runs: PostingRuns, at: int) -> None:
        self._runs = runs
        self._at = at
        self._tokens: list[Tokens] = []
        self._sizes: list[Longs] = []

    def add(self, tokens: Tokens, sizes: Longs, rows: Rows) -> None:
        self._runs._put(rows)
        self._tokens.append(tokens)
        self._sizes.append(sizes)

    def finish(self) -> None:
        if not self._tokens:
            return
        tokens, sizes = np.concatenate(self._tokens), np.concatenate(self._sizes)
        begins = np.flatnonzero(np.append(True, tokens[1:] != tokens[:-1])) if len(tokens) else np.empty(0, np.int64)
        if len(begins):
            self._runs._add(tokens[begins], np.add.reduceat(sizes, begins), self._at, None, 0)

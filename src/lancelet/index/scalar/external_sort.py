"""Rows sorted by their value, in bounded memory.

Rows are collected up to a limit and sorted, as a run, on another thread while more are read. Runs stay in memory as long
as they are few, further ones go to temporary files; then they are merged. A merge keeps a batch of each run at hand,
the head. What is not above the smallest of the heads' last values cannot be preceded by anything that is still to
come: it is sorted and handed out, and heads that are used up are replaced::

    run 1   [ 1  4  7 | 9 ...        last 7
    run 2   [ 2  3  5  8 | 11 ...    last 8       out: 1 2 3 4 5 6 7, then run 1 gives its next batch
    run 3   [ 6 12 15 | 20 ...       last 15

Rows are batches with the columns ``value`` and ``row``. Nulls come first.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa

from lancelet.encoding.plain import arrow_array
from lancelet.index.kind import ROW, VALUE
from lancelet.index.scalar.sort_keys import key_at, order_of, places_of
from lancelet.runtime.threads import Pool, Task, outside

_RUN_SHARE: Final = 5
"""What part of the memory is sorted at once: with what sorting needs beside, it is about three times as much. Twice as
much holds sorted runs."""
_THREADS: Final = 2
_POOL: Final = Pool("lancelet-sort", _THREADS)
_BATCH_BYTES: Final = 2 << 20
_LEAST_BYTES: Final = 64 << 10
_MOST_ROWS: Final = 1 << 17
_FAN_IN: Final = 16
"""How many streams are merged at once: each has a batch in memory, and is looked at for every batch that comes out."""


def sorted_within(batches: Iterable[pa.RecordBatch], memory_limit: int) -> Iterator[pa.RecordBatch]:
    """Rows by ascending value, sorted in about so much memory; see :func:`sorted_rows`."""
    return sorted_rows(batches, memory_limit // _RUN_SHARE, 2 * memory_limit // _RUN_SHARE)


def sorted_rows(batches: Iterable[pa.RecordBatch], run_bytes: int, kept_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows by ascending value; those of equal values in no promised order.

    ``run_bytes`` are sorted at once, and of the sorted runs ``kept_bytes`` stay in memory.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    with ExitStack() as stack:
        runs: _Runs | None = None
        for batch in batches:
            if size and size + batch.nbytes > run_bytes:
                runs = runs or _Runs(stack, kept_bytes)
                runs.add(held)
                held, size = [], 0
            held.append(batch)
            size += batch.nbytes
        if runs is None:
            yield from _sort(held)
        else:
            runs.add(held)
            del held
            yield from runs.merged()


def merge_sorted(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """One sorted stream out of several."""
    while len(streams) > _FAN_IN:
        streams = [merge_sorted(streams[at : at + _FAN_IN]) for at in range(0, len(streams), _FAN_IN)]
    return streams[0] if len(streams) == 1 else _merge(streams)


def batch_rows(nbytes: int, rows: int, streams: int = 1) -> int:
    """How many of ``rows`` rows, which have ``nbytes`` bytes together, make a batch where so many streams are merged."""
    each = max(1, nbytes // max(rows, 1))
    most = max(_LEAST_BYTES, min(_BATCH_BYTES, _FAN_IN * _BATCH_BYTES // max(streams, 1)))
    return max(1, min(_MOST_ROWS, most // each))


def _sort(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sort batches, which are let go."""
    if not held:
        return
    values = pa.concat_arrays([batch.column(VALUE) for batch in held])
    rows = pa.concat_arrays([batch.column(ROW) for batch in held])
    held.clear()
    step = batch_rows(values.nbytes + rows.nbytes, len(values))
    if values.null_count:
        missing = rows.filter(values.is_null())
        for start in range(0, len(missing), step):
            part = missing.slice(start, step)
            yield _batch(pa.nulls(len(part), values.type), part)
        present = values.is_valid()
        values, rows = values.filter(present), rows.filter(present)
    order = arrow_array(outside(order_of, values))
    for start in range(0, len(values), step):
        part = order.slice(start, step)
        yield _batch(values.take(part), rows.take(part))


class _Runs:
    """Sorted runs. As many as are merged at once become one of the next level."""

    def __init__(self, stack: ExitStack, kept_bytes: int) -> None:
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lancelet-sort-")))
        self._sorting: deque[Task[list[pa.RecordBatch]]] = deque()
        stack.callback(self._cancel)
        self._levels: list[list[Iterator[pa.RecordBatch]]] = [[]]
        self._room = kept_bytes
        self._files = 0

    def add(self, held: list[pa.RecordBatch]) -> None:
        """Sort a run, which is let go."""
        if len(self._sorting) == _THREADS:
            self._collect()
        self._sorting.append(_POOL.submit(lambda: list(_sort(held))))

    def merged(self) -> Iterator[pa.RecordBatch]:
        """All rows in order."""
        while self._sorting:
            self._collect()
        # Higher levels have the older runs.
        return merge_sorted([run for level in reversed(self._levels) for run in level])

    def _cancel(self) -> None:
        for task in self._sorting:
            task.cancel()

    def _collect(self) -> None:
        run = self._sorting.popleft().result()
        size = sum(batch.nbytes for batch in run)
        if size <= self._room:
            self._room -= size
            self._put(0, self._kept(run))
        else:
            self._put(0, self._stored(run))

    def _put(self, level: int, run: Iterator[pa.RecordBatch]) -> None:
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(run)
        if len(runs) == _FAN_IN:
            self._levels[level] = []
            self._put(level + 1, self._stored(merge_sorted(runs)))

    def _kept(self, run: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches of a run, each of which is let go when the next one is asked for."""
        run.reverse()
        while run:
            batch = run.pop()
            self._room += batch.nbytes
            yield batch

    def _stored(self, run: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a run to a file now, and read it batch by batch."""
        path = self._folder / str(self._files)
        self._files += 1
        with pa.OSFile(str(path), "wb") as file, ExitStack() as stack:
            writer = None
            for batch in run:
                writer = writer or stack.enter_context(pa.ipc.new_stream(file, batch.schema))
                # What comes out of a merge may be long, and whoever reads it has one batch in memory.
                step = batch_rows(batch.nbytes, batch.num_rows)
                for start in range(0, batch.num_rows, step):
                    writer.write_batch(batch.slice(start, step))
        stored = _read(path)
        # A merge that fails in the middle has begun to read some.
        self._stack.callback(stored.close)
        return stored


def _read(path: Path) -> Generator[pa.RecordBatch, None, None]:
    """The batches of a run, which is removed after the last of them."""
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_stream(file) as reader:
        yield from reader
    path.unlink()


class _Head:
    """The batch of a sorted stream that is next."""

    __slots__ = ("_stream", "key", "rows", "values")

    def __init__(self, stream: Iterator[pa.RecordBatch]) -> None:
        self._stream = stream

    @property
    def last(self) -> pa.Array:
        """The last value of the batch."""
        return self.values.slice(len(self.values) - 1)

    def load(self) -> bool:
        """Take the next batch that has rows; False after the last one."""
        for batch in self._stream:
            if batch.num_rows:
                self._hold(batch.column(VALUE), batch.column(ROW))
                return True
        return False

    def _hold(self, values: pa.Array, rows: pa.Array) -> None:
        self.values, self.rows = values, rows
        if len(values) and not values.null_count:
            self.key = key_at(values, len(values) - 1)

    def nulls(self) -> Iterator[pa.RecordBatch]:
        """The nulls at the beginning of the stream. After them ``values`` has none, and is empty at the end."""
        while count := self.values.null_count:
            yield self.cut(count)
            if not len(self.values) and not self.load():
                return

    def cut(self, count: int) -> pa.RecordBatch:
        """Take off some rows."""
        taken = _batch(self.values.slice(0, count), self.rows.slice(0, count))
        self._hold(self.values.slice(count), self.rows.slice(count))
        return taken

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All that is left of the stream."""
        yield _batch(self.values, self.rows)
        yield from self._stream


def _merge(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    heads = [head for head in map(_Head, streams) if head.load()]
    for head in heads:
        yield from head.nulls()
    heads = [head for head in heads if len(head.values)]
    while len(heads) > 1:
        bound = min(heads, key=lambda head: head.key).last
        yield _sorted_union([head.cut(int(places_of(head.values, bound, True)[0])) for head in heads])
        heads = [head for head in heads if len(head.values) or head.load()]
    for head in heads:
        yield from head.rest()


def _sorted_union(pieces: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [piece for piece in pieces if piece.num_rows]
    if len(filled) == 1:
        return filled[0]
    values = pa.concat_arrays([piece.column(VALUE) for piece in filled])
    rows = pa.concat_arrays([piece.column(ROW) for piece in filled])
    order = arrow_array(outside(order_of, values))
    return _batch(values.take(order), rows.take(order))


def _batch(values: pa.Array, rows: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([values, rows], names=[VALUE, ROW])

"""The rows of a merge's source, held so that they can be read more than once.

What is in memory already stays there. A stream is kept in memory up to a limit;
beyond it all of it goes to a temporary file, which is mapped: then only the keys
are in memory.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.editing.merge.keys import plain
from lancelet.encoding.picking import keep_rows, pick_rows
from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import Indices
from lancelet.format.extensions import storage_field, storage_of
from lancelet.writing.source import open_source

IN_MEMORY = 128 << 20
"""Streams longer than this go to a temporary file."""
_STEP_ROWS = 1 << 16
_STEP_BYTES = 8 << 20


class MergeSource:
    """Rows with their numbers, from 0. Closing it lets go of the temporary file."""

    def __init__(self, data: object, schema: pa.Schema | None = None, *, in_memory: int = IN_MEMORY) -> None:
        source = open_source(data, schema)
        self.schema: pa.Schema = source.schema
        self._stored = pa.schema([storage_field(field) for field in source.schema])
        self._map: mmap.mmap | None = None
        stored = (self._as_stored(batch) for batch in source.batches if batch.num_rows)
        try:
            self._batches = list(stored) if _is_in_memory(data) else self._kept(_grown(stored), in_memory)
        except BaseException:
            self.close()
            raise
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])

    def __enter__(self) -> MergeSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._batches = []
        # The mapping itself goes with the last array that looks into it.
        self._map = None

    @property
    def num_rows(self) -> int:
        return int(self._starts[-1])

    @property
    def is_spilled(self) -> bool:
        return self._map is not None

    def column(self, name: str) -> pa.Array:
        """A whole column, without extension types and dictionaries."""
        parts = [batch.column(name) for batch in self._batches]
        return plain(pa.chunked_array(parts, self._stored.field(name).type))

    def chosen(self, rows: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """The marked rows, in order."""
        for number, batch in enumerate(self._batches):
            here = rows[self._starts[number] : self._starts[number + 1]]
            count = int(np.count_nonzero(here))
            if count == batch.num_rows:
                yield batch
            elif count:
                yield keep_rows(batch, arrow_array(here))
            self._let_go()

    def take(self, rows: Indices, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Single rows in the order given; rows may repeat."""
        chosen = list(self._stored.names if names is None else names)
        parts, places = [], []
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        for owner in np.unique(owners).tolist():
            here = np.flatnonzero(owners == owner)
            batch = self._batches[owner].select(chosen)
            parts.append(pick_rows(batch, arrow_array(rows[here] - self._starts[owner])))
            places.append(here)
        self._let_go()
        if not parts:
            return pa.RecordBatch.from_pylist([], schema=pa.schema([self._stored.field(name) for name in chosen]))
        if len(parts) == 1:
            return parts[0]
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(places)] = np.arange(len(rows))
        return pick_rows(joined_batches(parts), arrow_array(back))

    def _let_go(self) -> None:
        """What was read of the temporary file need not stay in memory."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _as_stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.equals(self._stored):
            return batch
        columns = [storage_of(column) for column in batch.columns]
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self._stored, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._stored)

    def _kept(self, batches: Iterator[pa.RecordBatch], limit: int) -> list[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size > limit:
                return self._spilled(held, batches)
        return held

    def _spilled(self, first: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        # It has no name, so that nothing is left of it however the process ends.
        with tempfile.TemporaryFile(prefix="lancelet-merge-", buffering=0) as file, pa.PythonFile(file, "w") as sink:
            # The stream format, since batches may have dictionaries of their own.
            with pa.ipc.new_stream(sink, self._stored) as writer:
                while first:
                    writer.write_batch(first.pop(0))
                for batch in rest:
                    writer.write_batch(batch)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return list(pa.ipc.open_stream(pa.py_buffer(self._map)))


def joined_batches(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches as one; those of dictionary columns get one dictionary."""
    table = pa.Table.from_batches(parts)
    if any(pa.types.is_dictionary(field.type) for field in table.schema):
        table = table.unify_dictionaries()
    arrays = [column.combine_chunks() for column in table.columns]
    arrays = [array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks) for array in arrays]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _is_in_memory(data: object) -> bool:
    if isinstance(data, (pa.Table, pa.RecordBatch, dict)):
        return True
    if isinstance(data, list):
        return not data or isinstance(data[0], dict)
    return type(data).__name__ == "DataFrame" and type(data).__module__.partition(".")[0] in ("pandas", "polars")


def _grown(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches put together, so that there are not too many of them."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _STEP_ROWS or size >= _STEP_BYTES:
            yield waiting[0] if len(waiting) == 1 else joined_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield waiting[0] if len(waiting) == 1 else joined_batches(waiting)

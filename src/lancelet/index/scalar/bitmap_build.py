"""Building the file of BITMAP and LABEL_LIST indices in bounded memory.

Pairs of a key and a row are gathered into runs, each with its distinct keys in order and their rows. Runs stay in memory
up to a limit, then they are temporary files, mapped. At the end all runs are merged, a range of keys at a time::

    pairs     b 1, a 2, b 3 | c 4, a 5
    runs      a: 2, b: 1 3  | a: 5, c: 4
    file      a: {2, 5}, b: {1, 3}, c: {4}
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.index.folder import BUILD_MEMORY
from lancelet.index.row_set import RowSet, StoredEntries, scan_stored
from lancelet.index.row_set_wire import group_rows, read_entries, scatter_spans, sort_spans, write_sets
from lancelet.index.scalar.bitmap_file import (
    BITMAPS,
    FILE,
    KEYS,
    STATISTICS,
    BitmapFile,
)
from lancelet.index.scalar.dictionaries import StoredForm, plain_values
from lancelet.index.scalar.sort_keys import compared, order_of, places_of
from lancelet.index.scalar.value_types import key_type

if TYPE_CHECKING:
    from types import TracebackType

    from lancelet.index.folder import SegmentWriter
    from lancelet.index.kind import Source
    from lancelet.index.row_set import RowNumbers

_INTEGERS = {2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
_SAMPLE: Final = 1 << 16
_MOSTLY: Final = 0.9
"""When more than this share of a sample is distinct, sorting is quicker than a hash table."""
_LEAST: Final = 1024
"""Runs of fewer bytes or rows would be files without end."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """What is in memory at once, each about; small ones are for tests."""

    run_rows: int = 1 << 20
    run_bytes: int = 32 << 20
    """Pairs of a run while they are gathered."""
    runs_bytes: int = 96 << 20
    """Runs that are not temporary files."""
    merge_keys: int = 1 << 19
    merge_bytes: int = 16 << 20
    """Keys that are merged at once."""
    merge_rows: int = 1 << 19
    """Rows whose sets are made at once."""

    @classmethod
    def within(cls, memory_limit: int) -> BuildLimits:
        """The same shares of another amount of memory; the ones above are of ``BUILD_MEMORY``."""
        whole = cls()
        return cls(*(max(_LEAST, getattr(whole, field.name) * memory_limit // BUILD_MEMORY) for field in fields(whole)))


@dataclass(frozen=True, slots=True)
class _Run:
    """Distinct keys, the null key first, then ascending, and their rows."""

    keys: pa.Array
    ends: npt.NDArray[np.int64]
    """Where the rows of each key end."""
    rows: RowNumbers
    """By key; in any order within one."""

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.ends.nbytes + self.rows.nbytes)

    @property
    def num_keys(self) -> int:
        return len(self.keys)

    @property
    def key_bytes(self) -> int:
        return int(self.keys.nbytes)

    def open(self) -> _Run:
        return self


@dataclass(frozen=True, slots=True)
class _StoredRun:
    """A run in two files."""

    path: Path
    num_keys: int
    key_bytes: int

    @classmethod
    def of(cls, run: _Run, path: Path) -> _StoredRun:
        batch = pa.record_batch({"keys": run.keys, "ends": run.ends})
        with pa.ipc.new_file(path.with_suffix(".arrow"), batch.schema) as out:
            out.write_batch(batch)
        run.rows.tofile(path.with_suffix(".rows"))
        return cls(path, run.num_keys, run.key_bytes)

    def open(self) -> _Run:
        """The run in mapped files; what was looked at is let go with the last of its arrays."""
        batch = pa.ipc.open_file(pa.memory_map(str(self.path.with_suffix(".arrow")))).get_batch(0)
        rows = np.memmap(self.path.with_suffix(".rows"), np.uint64, "r")
        return _Run(batch.column(0), numpy_array(batch.column(1)), rows)


class BitmapBuilder:
    """Gathers pairs of a key and a row and writes the file. Used as a context: leaving it removes temporary files."""

    def __init__(self, dtype: pa.DataType, limits: BuildLimits | None = None) -> None:
        self.dtype = dtype
        """The type of the keys in the file."""
        self._plain = key_type(dtype)
        self._limits = limits or BuildLimits()
        self._values: list[pa.Array] = []
        self._numbers: list[RowNumbers] = []
        self._gathered_rows = self._gathered_bytes = 0
        self._runs: list[_Run | _StoredRun] = []
        self._runs_bytes = 0
        self._folder: Path | None = None

    def __enter__(self) -> BitmapBuilder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._runs = []
        if self._folder is not None:
            shutil.rmtree(self._folder)

    def add_rows(self, values: pa.Array, rows: RowNumbers) -> None:
        """Add rows with their values, of which each may be null."""
        values = plain_values(values)
        for start in range(0, len(values), self._limits.run_rows):
            part = values[start : start + self._limits.run_rows]
            self._values.append(part)
            self._numbers.append(rows[start : start + len(part)])
            self._gathered_rows += len(part)
            self._gathered_bytes += part.nbytes
            if self._gathered_rows >= self._limits.run_rows or self._gathered_bytes >= self._limits.run_bytes:
                self._end_run()

    def _end_run(self) -> None:
        if not self._gathered_rows:
            return
        keys, groups = _ranked(pa.chunked_array(self._values, self._plain))
        self._values = []
        rows, ends = group_rows(groups, len(keys), np.concatenate(self._numbers))
        self._numbers = []
        self._gathered_rows = self._gathered_bytes = 0
        self._keep(_Run(keys, ends, rows))

    def add_file(self, file: BitmapFile, source: Source) -> None:
        """Add the pairs of another file, whose rows may have other names now or may be gone."""
        for keys, data, offsets in file.blocks():
            entries = scan_stored(data, offsets, file.reader.path, BITMAPS)
            distinct, groups = _ranked(pa.chunked_array([keys.cast(self._plain)]))
            for sets, rows in self._entry_rows(data, entries, source):
                of = groups[sets]
                if source.rename is not None:
                    rows, kept = source.rename(rows)
                    rows, of = rows[kept], of[kept]
                grouped, ends = group_rows(of, len(distinct), rows)
                self._keep(_without_empty(_Run(distinct, ends, grouped)))

    def _entry_rows(
        self, data: npt.NDArray[np.uint8], entries: StoredEntries, source: Source
    ) -> Iterator[tuple[npt.NDArray[np.int64], RowNumbers]]:
        """The rows of stored sets, about as many at once as a run has, and the set of each row."""
        whole = entries.sizes < 0
        for number, high in zip(entries.sets[whole].tolist(), entries.highs[whole].tolist(), strict=True):
            for rows in source.all_rows(high):
                yield np.full(len(rows), number), rows
        entries = StoredEntries(*(column[~whole] for column in entries)) if whole.any() else entries
        ends = np.cumsum(entries.sizes)
        start = 0
        while start < len(ends):
            before = ends[start] - entries.sizes[start]
            stop = max(start + 1, int(np.searchsorted(ends, before + self._limits.run_rows, side="right")))
            part = slice(start, stop)
            rows = read_entries(data, *(column[part] for column in entries[1:]))
            yield np.repeat(entries.sets[part], entries.sizes[part]), rows
            start = stop

    def _keep(self, run: _Run) -> None:
        if not len(run.keys):
            return
        if self._runs_bytes + run.nbytes <= self._limits.runs_bytes:
            self._runs.append(run)
            self._runs_bytes += run.nbytes
            return
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="lancelet-bitmap-"))
        self._runs.append(_StoredRun.of(run, self._folder / str(len(self._runs))))

    def write(self, out: SegmentWriter, buffers: Mapping[str, bytes]) -> None:
        """Write all pairs into the file of a segment; ``buffers`` are named by keys of the file's metadata."""
        self._end_run()
        schema = pa.schema([pa.field(KEYS, self.dtype), pa.field(BITMAPS, pa.binary())])
        form = StoredForm(self.dtype)
        count = 0
        with out.create(FILE, schema) as writer:
            for keys, bitmaps in self._merged():
                writer.write(pa.RecordBatch.from_arrays([form.of(keys), bitmaps], schema=schema))
                count += len(keys)
            for name, data in buffers.items():
                writer.add_metadata(name, str(writer.add_global_buffer(data)))
            writer.add_metadata(STATISTICS, json.dumps({"num_bitmaps": count}, separators=(",", ":")))

    def _merged(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Keys and their stored sets, in order."""
        for starts, stops in self._ranges():
            runs = [
                _part(run.open(), start, stop)
                for run, start, stop in zip(self._runs, starts, stops, strict=True)
                if start < stop
            ]
            if runs:
                yield from self._united(runs)

    def _united(self, runs: list[_Span]) -> Iterator[tuple[pa.Array, pa.Array]]:
        keys, groups = _ranked(pa.chunked_array([run.keys for run in runs], self._plain))
        places = np.split(groups.astype(np.int64), np.cumsum([len(run.keys) for run in runs])[:-1])
        counts = np.zeros(len(keys), np.int64)
        for run, of in zip(runs, places, strict=True):
            counts[of] += run.ends - run.starts
        ends = np.cumsum(counts)
        first = 0
        while first < len(keys):
            before = ends[first] - counts[first]
            last = max(first + 1, int(np.searchsorted(ends, before + self._limits.merge_rows, side="right")))
            if counts[first] > self._limits.merge_rows:
                bitmaps = pa.array([self._large_set(runs, places, first)], pa.binary())
            else:
                rows = np.empty(ends[last - 1] - before, np.uint64)
                free = ends[first:last] - counts[first:last] - before
                for run, of in zip(runs, places, strict=True):
                    here = slice(*np.searchsorted(of, (first, last)))
                    scatter_spans(rows, free, of[here] - first, run.starts[here], run.ends[here], run.rows)
                sort_spans(rows, ends[first:last] - before)
                bitmaps = _binary(*write_sets(rows, ends[first:last] - before))
            yield keys[first:last], bitmaps
            first = last

    def _large_set(self, runs: list[_Span], places: list[npt.NDArray[np.int64]], key: int) -> bytes:
        """The set of a key with very many rows, which are gathered as bitmaps."""
        found = RowSet()
        for run, of in zip(runs, places, strict=True):
            at = int(np.searchsorted(of, key))
            if at < len(of) and of[at] == key:
                rows = run.rows[run.starts[at] : run.ends[at]]
                for start in range(0, len(rows), self._limits.merge_rows):
                    found |= RowSet.of(rows[start : start + self._limits.merge_rows])
        return found.serialize()

    def _ranges(self) -> Iterator[tuple[list[int], list[int]]]:
        """Where in each run the ranges of keys that are merged together start and stop."""
        sizes = [run.num_keys for run in self._runs]
        total_bytes = sum(run.key_bytes for run in self._runs)
        parts = max(sum(sizes) // self._limits.merge_keys, total_bytes // self._limits.merge_bytes) + 1
        if parts == 1:
            yield [0] * len(sizes), sizes
            return
        # Of keys at even steps of all runs, every so many: no range has more than twice its share.
        step = max(1, sum(sizes) // (parts * len(sizes)))
        candidates, _ = _ranked(pa.chunked_array([_every(run.open().keys, step) for run in self._runs], self._plain))
        borders = candidates[:: len(sizes)]
        splits = np.array([_borders(run.open().keys, borders) for run in self._runs]).T.tolist()
        starts = [0] * len(sizes)
        for stops in [*splits, sizes]:
            yield starts, stops
            starts = stops


@dataclass(frozen=True, slots=True)
class _Span:
    """Some of the keys of a run."""

    keys: pa.Array
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    rows: RowNumbers
    """All rows of the run."""


def _part(run: _Run, start: int, stop: int) -> _Span:
    first = run.ends[start - 1 : start] if start else np.zeros(1, np.int64)
    starts = np.concatenate([first, run.ends[start : stop - 1]])
    return _Span(run.keys[start:stop], starts, run.ends[start:stop], run.rows)


def _ranked(values: pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """The distinct values in order, the null first, and for each of the values which of them it is."""
    if not len(values):
        return pa.nulls(0, values.type), np.empty(0, np.int32)
    plain = values
    if pa.types.is_floating(values.type):
        # As floats all NaN would be one value.
        bits = _INTEGERS[values.type.bit_width // 8]
        plain = pa.chunked_array([chunk.view(bits) for chunk in values.chunks], bits)
    step = -(-len(plain) // _SAMPLE)
    sample = plain.take(arrow_array(np.arange(0, len(plain), step)))
    if step > 1 and len(sample.unique()) > _MOSTLY * len(sample):
        return _ranked_by_order(values.combine_chunks())
    return _ranked_by_hash(plain, values.type)


def _ranked_by_hash(values: pa.ChunkedArray, dtype: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    encoded = values.dictionary_encode(null_encoding="encode")
    distinct = encoded.chunk(encoded.num_chunks - 1).dictionary.view(dtype)
    order = _order(distinct)
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return distinct.take(arrow_array(order)), ranks[
        np.concatenate([numpy_array(chunk.indices) for chunk in encoded.chunks])
    ]


def _ranked_by_order(values: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    order = _order(values)
    ordered = values.take(arrow_array(order))
    nulls = values.null_count
    first = np.zeros(len(ordered), np.bool_)
    first[0] = first[nulls : nulls + 1] = True
    plain = ordered[nulls:]
    first[nulls + 1 :] = compared(plain[1:], plain[:-1]) > 0
    groups = np.empty(len(ordered), np.int32)
    groups[order] = np.cumsum(first, dtype=np.int32) - np.int32(1)
    return ordered.filter(arrow_array(first)), groups


def _order(values: pa.Array) -> npt.NDArray[np.int64]:
    """The places of values in order, those of nulls first."""
    if not values.null_count:
        return order_of(values).astype(np.int64)
    missing = numpy_array(values.is_null())
    return np.concatenate([np.flatnonzero(missing), np.flatnonzero(~missing)[order_of(values.drop_null())]])


def _without_empty(run: _Run) -> _Run:
    """The run without keys that have no row."""
    filled = np.diff(run.ends, prepend=0) > 0
    return run if filled.all() else _Run(run.keys.filter(arrow_array(filled)), run.ends[filled], run.rows)


def _borders(keys: pa.Array, borders: pa.Array) -> list[int]:
    """Where sorted keys reach each of the borders."""
    nulls = keys.null_count
    found: list[int] = (places_of(keys[nulls:], borders, after=False) + nulls).tolist()
    return found


def _every(keys: pa.Array, step: int) -> pa.Array:
    return keys.take(arrow_array(np.arange(keys.null_count + step, len(keys), step)))


def _binary(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.Array:
    places = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, places, pa.py_buffer(data)])

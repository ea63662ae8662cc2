"""Rewriting fragments: the rows that are left, in order, with all columns in one file for each new fragment.

Ranges of rows are read side by side and written as they come, so that memory holds
a few of them and the pages under construction. Columns go from file to file as they are
stored: JSON is not parsed, and what no file has is written as null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import keep_rows
from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import RowIndices, RowRange
from lancelet.errors import CorruptFile
from lancelet.execution.blobs import has_blobs
from lancelet.execution.carried_blobs import blob_pieces
from lancelet.execution.fragment_reader import FragmentReader
from lancelet.execution.threads import core_count, ordered_map
from lancelet.file.checksums import are_wanted
from lancelet.log import debug
from lancelet.maintenance.compaction.lineage import HIDDEN, lineage_of, spilled, traced
from lancelet.maintenance.compaction.options import CompactionSettings, check_output
from lancelet.maintenance.compaction.plan import even_parts
from lancelet.runtime.steps import ROWS_WRITTEN, expect
from lancelet.table.manifest.flags import check_writable
from lancelet.table.manifest.fragment import Fragment
from lancelet.table.manifest.mending import refuse_mixed
from lancelet.table.rows.lineage import inline_bytes
from lancelet.writing.defaults import ROWS_PER_GROUP
from lancelet.writing.fragments import Limits, write_fragment_files

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Schema
    from lancelet.table.commit.written import WrittenFiles

_UNIT_BYTES = 16 << 20
_MIN_UNIT_ROWS = 1024
_MAX_UNIT_ROWS = 1 << 17
_DECODED = 2
"""How much larger columns are in memory than in files, roughly."""
_FEW = 0.3
"""When fewer rows than this are left of a range, they are read one by one."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Fragments, and those with the same rows that are to replace them; those have no ids yet."""

    read_version: int
    old: tuple[Fragment, ...]
    new: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class _Unit:
    reader: FragmentReader
    rows: RowRange


def rewrite_fragments(
    table: TableReader,
    fragments: Sequence[Fragment],
    settings: CompactionSettings,
    files: WrittenFiles,
    stem: bytes = b"",
) -> Rewritten:
    """Write the rows of neighbouring fragments anew. Nothing is committed; an error leaves no files.

    The names of the new files begin with ``stem``.
    """
    snapshot = table.snapshot
    manifest = snapshot.manifest
    check_writable(manifest.path, manifest.head.writer_feature_flags)
    refuse_mixed(manifest)
    version = check_output(settings, snapshot.uri)
    readers = [FragmentReader(snapshot, fragment, table.cache) for fragment in fragments]
    rows = sum(reader.num_rows for reader in readers)
    expect(ROWS_WRITTEN, rows)
    lineage = lineage_of(readers) if manifest.has_stable_row_ids else None
    stream = _Stream(_batches(readers, manifest.schema, settings))
    limits = Limits(
        nbytes=settings.bytes_per_file,
        step=settings.max_rows_per_group or ROWS_PER_GROUP,
        checksums=are_wanted(manifest.config),
    )
    new: list[Fragment] = []
    done = 0
    for count in even_parts(rows, settings.target_rows_per_fragment):
        part = None if lineage is None else lineage.slice(done, done + count)
        hidden = part is not None and len(part.encoded) > inline_bytes(manifest)
        schema, batches = manifest.schema, stream.take(count)
        if hidden and part is not None:
            schema = replace(schema, fields=(*schema.fields, *HIDDEN))
            batches = part.beside(batches)
        written = write_fragment_files(
            snapshot.store,
            schema,
            batches,
            version=version,
            limits=replace(limits, rows=count),
            files=files,
            stem=stem,
        )
        if sum(fragment.physical_rows or 0 for fragment in written) != count:
            raise CorruptFile(manifest.path, f"fragments {_named(fragments)} have fewer than {rows} rows left")
        if part is not None:
            written = spilled(written) if hidden else traced(written, part)
        new.extend(written)
        done += count
    debug("wrote %d rows of %d fragments of %s anew, as %d", rows, len(fragments), snapshot.uri, len(new))
    return Rewritten(snapshot.version, tuple(fragments), tuple(new))


def _named(fragments: Sequence[Fragment]) -> str:
    return ", ".join(str(fragment.id) for fragment in fragments)


def _batches(
    readers: Sequence[FragmentReader], schema: Schema, settings: CompactionSettings
) -> Iterator[pa.RecordBatch]:
    """The live rows of fragments as they are stored, in order; blobs with their bytes."""
    threads = settings.num_threads or core_count()
    blobs = any(has_blobs(field) for field in schema.fields)

    def read(unit: _Unit) -> tuple[FragmentReader, pa.Table]:
        return unit.reader, _live_rows(unit, schema)

    units = (unit for reader in readers for unit in _units(reader, schema, settings.batch_size))
    for reader, part in ordered_map(read, units, threads + 1 if threads > 1 else 1):
        if part.num_rows == 0:
            continue
        for piece in blob_pieces(reader, schema, part) if blobs else (part,):
            yield from piece.to_batches()


def _units(reader: FragmentReader, schema: Schema, batch_size: int | None) -> Iterator[_Unit]:
    """Ranges of rows of about the same size in memory."""
    rows = reader.physical_rows
    if rows == 0:
        return
    step = int(min(max(_UNIT_BYTES / max(_row_bytes(reader, schema), 1), _MIN_UNIT_ROWS), _MAX_UNIT_ROWS))
    if batch_size is not None:
        step = min(step, batch_size)
    for start in range(0, rows, step):
        yield _Unit(reader, RowRange(start, min(start + step, rows)))


def _row_bytes(reader: FragmentReader, schema: Schema) -> float:
    """Roughly the bytes of a row in memory; as far as the manifest tells, so that files are opened by who reads them."""
    sizes = [file.size for file in reader.fragment.files]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        return _DECODED * sum(known) / reader.physical_rows
    return max(reader.row_bytes(schema.fields))


def _live_rows(unit: _Unit, schema: Schema) -> pa.Table:
    live = unit.reader.live(unit.rows)
    names = schema.names
    if live is None:
        return pa.Table.from_arrays(unit.reader.read(schema.fields, unit.rows), names=names)
    if np.count_nonzero(live) < _FEW * len(unit.rows):
        rows = RowIndices(np.flatnonzero(live) + unit.rows.start)
        if len(rows) == 0:
            return pa.table({})
        return pa.Table.from_arrays(unit.reader.read(schema.fields, rows), names=names)
    whole = pa.Table.from_arrays(unit.reader.read(schema.fields, unit.rows), names=names)
    return keep_rows(whole, arrow_array(live))


class _Stream:
    """Batches, handed out by number of rows."""

    __slots__ = ("_batches", "_left")

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.RecordBatch | None = None

    def take(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The next ``rows`` rows."""
        while rows > 0:
            batch = self._left if self._left is not None else next(self._batches, None)
            if batch is None:
                return
            self._left = batch.slice(rows) if batch.num_rows > rows else None
            taken = batch.slice(0, rows)
            rows -= taken.num_rows
            yield taken

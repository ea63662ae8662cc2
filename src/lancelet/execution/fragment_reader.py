"""Reading one fragment: columns from its files, rows that are deleted, system columns.

A fragment's columns may lie in several files of equal row counts; a field's
leaves too, when a nested column was added later. What no file has is null.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.fetch import gather, run
from lancelet.encoding.plain import arrow_array
from lancelet.encoding.rows import Bytes, Indices, RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.column import PlacedRows, Records
from lancelet.encoding.v2_1.leaf_batch import BoundBatch, is_small
from lancelet.errors import CorruptFile
from lancelet.execution.costs import (
    BIG_COLUMN,
    COPIED_AT_ONCE,
    FEW_TAKEN,
    MOST_COPIED,
    NOT_RESIDENT,
    RANGES_AT_ONCE,
    TAKE_PIECE,
    WHOLE_PAGES_BYTES,
)
from lancelet.execution.overlays import apply_overlays
from lancelet.execution.shown import stored_type
from lancelet.execution.split_fields import merged, pruned
from lancelet.file import FileCache, OpenFile
from lancelet.file.reader import LegacyFile, StructuralFile
from lancelet.format.schema import Field
from lancelet.format.system_columns import (
    CREATED_AT,
    CREATED_AT_FIELD,
    LAST_UPDATED_AT,
    LAST_UPDATED_AT_FIELD,
    ROW_ADDRESS,
    ROW_ID,
    ROW_ID_FIELD,
)
from lancelet.runtime.attributes import cached_property
from lancelet.store import FAULT_AROUND, Extent, WholeRanges
from lancelet.table.manifest.fragment import Fragment, Spilled
from lancelet.table.manifest.snapshot import Snapshot
from lancelet.table.rows.addresses import row_addresses
from lancelet.table.rows.deletions import NO_DELETIONS, DeletionVector, read_deletions
from lancelet.table.rows.row_ids import (
    RowIdSequence,
    VersionSequence,
    read_created_at,
    read_last_updated_at,
    read_row_ids,
)

Column: TypeAlias = pa.Array | pa.ChunkedArray
_SPILLED_IDS = {ROW_ID: ROW_ID_FIELD, CREATED_AT: CREATED_AT_FIELD, LAST_UPDATED_AT: LAST_UPDATED_AT_FIELD}


@dataclass(frozen=True)
class FragmentReader:
    """Rows of one fragment. Safe to use from several threads."""

    snapshot: Snapshot
    fragment: Fragment
    cache: FileCache
    scanned: WholePages | None = None
    """What is about to be read in units, of remote files."""

    @cached_property
    def files(self) -> tuple[OpenFile, ...]:
        return tuple(self._open(index) for index in range(len(self.fragment.files)))

    @cached_property
    def _columns(self) -> tuple[dict[int, int], ...]:
        """Field id to column number, for each file; a field belongs to the first file that lists it."""
        taken: set[int] = set()
        maps = []
        for file in self.fragment.files:
            # Files of some releases list structs and lists too, without a column.
            own = {
                field: column
                for field, column in file.columns().items()
                if field not in taken and (column >= 0 or field in self._owners)
            }
            taken.update(own)
            maps.append(own)
        return tuple(maps)

    @cached_property
    def _owners(self) -> frozenset[int]:
        """Ids of fields without which a file has no value for them."""
        return frozenset(node.id for node in self.snapshot.manifest.schema.walk() if node.owns_column)

    @cached_property
    def physical_rows(self) -> int:
        """Rows in the files, deleted ones included."""
        rows = self.fragment.physical_rows
        if rows is not None:
            return rows
        if not self.fragment.files:
            raise CorruptFile(self.snapshot.manifest.path, "has no files", f"fragment {self.fragment.id}")
        return self._open(0).reader.num_rows

    @property
    def groups(self) -> tuple[int, ...]:
        """Rows of each batch of a fragment of legacy files, which new files of it are to have as well."""
        if not self.fragment.files or not self.fragment.files[0].is_legacy:
            return ()
        reader = self.files[0].reader
        return reader.groups if isinstance(reader, LegacyFile) else ()

    @cached_property
    def deletions(self) -> DeletionVector:
        if self.fragment.deletion_file is None:
            return NO_DELETIONS
        return read_deletions(self.snapshot.places, self.fragment, self.physical_rows)

    @property
    def num_rows(self) -> int:
        """Live rows."""
        known = self.fragment.num_rows
        return self.physical_rows - len(self.deletions) if known is None else known

    @cached_property
    def row_ids(self) -> RowIdSequence | None:
        """Stable row ids; None when ids are addresses or a hidden column."""
        if not self.snapshot.manifest.has_stable_row_ids or self.fragment.row_ids is Spilled.COLUMN:
            return None
        return read_row_ids(self.fragment, self.physical_rows, self.snapshot.manifest.path)

    @cached_property
    def _versions(self) -> dict[str, VersionSequence]:
        path = self.snapshot.manifest.path
        found = {}
        if self.fragment.created_at is not Spilled.COLUMN:
            found[CREATED_AT] = read_created_at(self.fragment, self.physical_rows, path)
        if self.fragment.last_updated_at is not Spilled.COLUMN:
            found[LAST_UPDATED_AT] = read_last_updated_at(self.fragment, self.physical_rows, path)
        return found

    def row_bytes(self, fields: Sequence[Field]) -> tuple[float, float]:
        """Roughly the bytes of a row, in the files and in memory."""
        stored = decoded = 0.0
        for field in fields:
            for index in self._holders(field):
                more = self.files[index].reader.row_bytes(field)
                stored += more[0]
                decoded += more[1]
        return stored, decoded

    def scanning(self, fields: Sequence[Field], rows: RowRange, largest: int = WHOLE_PAGES_BYTES) -> FragmentReader:
        """A reader for somebody who is about to read some rows in units, each of which is to be released once.

        Pages of these fields, unless some are larger than that, come whole where they are fetched.
        """
        return replace(self, scanned=WholePages(tuple(fields), rows, largest))

    def release(self, rows: RowRange) -> None:
        """Let go of the pages that are kept for some rows."""
        if self.scanned is not None:
            for pages in self.scanned.by_file(self).values():
                pages.release(rows.start, rows.stop)

    def extents(self, field: Field, rows: RowRange) -> Iterator[tuple[int, list[list[Extent]]]]:
        """The files that a field is fetched from, each with the places of the pages of its columns there."""
        holders = self._holders(field)
        for index in holders:
            file = self.files[index]
            own = pruned(field, self._columns[index]) if len(holders) > 1 else field
            if own is not None and file.source.mapped is None and isinstance(file.reader, StructuralFile):
                yield index, file.reader.extents(own, rows)

    def records(self, field: Field, offsets: Indices) -> PlacedRows | None:
        """Values of a column as they lie in a mapped file; None: they are not there as they are, and have to be read."""
        stored = self._stored(field)
        if stored is None:
            return None
        file, found = stored
        places, count = found.at(offsets), len(offsets)
        if file.source.size >= NOT_RESIDENT and count * found.size <= MOST_COPIED:
            # Pages that were dropped since the last time, or never mapped, take longer to map than these bytes to copy.
            copied = np.empty(count * found.size, np.uint8)
            if file.source.read_pieces(places, np.full(count, found.size, np.int64), copied):
                return PlacedRows(copied, found.size, np.arange(0, len(copied), found.size))
        file.source.reserve(0, min(found.size * self.physical_rows, count * FAULT_AROUND))
        return PlacedRows(found.data, found.size, places)

    def pieces(self, field: Field, rows: RowRange) -> Iterator[tuple[int, Bytes]] | None:
        """Neighbouring values of a column as they lie in a mapped file; None: they are not there as they are, and have to be read.

        They come as matrices of bytes, each with its place among the rows, and each to be looked at before the next one
        comes: what there is no room for in memory is copied piece by piece, which is less work than to map and to drop it.
        """
        stored = self._stored(field)
        return None if stored is None else _pieces(*stored, rows)

    def _stored(self, field: Field) -> tuple[OpenFile, Records] | None:
        """The file with the values of a column, and where they lie there as they are."""
        holders = self._holders(field)
        if len(holders) != 1 or self.fragment.overlays:
            return None
        file = self.files[holders[0]]
        found = file.reader.records(field) if isinstance(file.reader, StructuralFile) else None
        return None if found is None else (file, found)

    def bound(self, fields: Sequence[Field], count: int) -> BoundBatch | None:
        """Fields of a mapped file, of which so many single rows are about to be picked; None: they have to be read."""
        index = 0 if len(self.fragment.files) == 1 else self._common_holder(fields)
        if index is None or self.fragment.overlays:
            return None
        file = self.files[index]
        batch = file.reader.batch(fields) if isinstance(file.reader, StructuralFile) else None
        if batch is not None:
            file.source.reserve(0, min(batch.stored_bytes, len(fields) * count * FAULT_AROUND))
        return batch

    def read(self, fields: Sequence[Field], rows: Rows) -> list[Column]:
        """Physical rows of some top-level fields, deleted ones included."""
        found: list[Column | None] = [None] * len(fields)
        split: list[tuple[int, Sequence[int]]] = []
        by_file: dict[int, list[int]] = {}
        for position, field in enumerate(fields):
            holders = self._holders(field)
            if not holders:
                found[position] = pa.nulls(len(rows), stored_type(field))
            elif len(holders) == 1:
                by_file.setdefault(holders[0], []).append(position)
            else:
                split.append((position, holders))
        for index, positions in by_file.items():
            arrays = self._read_file(index, [fields[p] for p in positions], rows)
            for position, array in zip(positions, arrays, strict=True):
                found[position] = array
        for position, holders in split:
            found[position] = self._read_split(fields[position], holders, rows)
        if self.fragment.overlays:
            found = [self._overlaid(f, c, rows) for f, c in zip(fields, found, strict=True) if c is not None]
        return [column for column in found if column is not None]

    def system_column(self, name: str, rows: Rows) -> pa.Array:
        """Values of a system column for physical rows; ``_rowoffset`` needs the rows before and is not here."""
        if name == ROW_ADDRESS or (name == ROW_ID and not self.snapshot.manifest.has_stable_row_ids):
            return arrow_array(row_addresses(self.fragment.id, rows.to_indices()))
        if name == ROW_ID and self.row_ids is not None:
            return arrow_array(_pick(self.row_ids, rows))
        if name in self._versions:
            return arrow_array(_pick(self._versions[name], rows))
        hidden = Field(_SPILLED_IDS[name], name, "uint64", nullable=False)
        if not self._holders(hidden):
            raise CorruptFile(
                self.snapshot.manifest.path,
                f"says that {name} is a hidden column of the fragment's files, but none of them has field {hidden.id}",
                f"fragment {self.fragment.id}",
            )
        (column,) = self.read([hidden], rows)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    def live(self, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Which of the physical rows are not deleted; None when all are."""
        if self.fragment.deletion_file is None:
            return None
        if isinstance(rows, RowRange):
            if self.deletions.count(rows.start, rows.stop) == 0:
                return None
            return self.deletions.keep(rows.start, rows.stop)
        mask: npt.NDArray[np.bool_] = ~self.deletions.contains(rows.values)
        return None if mask.all() else mask

    def physical(self, live: Indices) -> Indices:
        """Physical rows of positions among the live rows."""
        if self.fragment.deletion_file is None:
            return live
        return self.deletions.physical(live)

    def _open(self, index: int) -> OpenFile:
        file = self.fragment.files[index]
        place = self.snapshot.places.data_file(file)
        # A legacy file is read by the places of its fields, those that another file has as well included.
        columns = file.columns() if file.is_legacy else self._columns[index]
        opened = self.cache.open(place.full_path, columns, lambda: place.open(file.size))
        if opened.reader.version != file.version:
            raise CorruptFile(
                place.full_path,
                f"it is a file of version {opened.reader.version}, the manifest says {file.version}",
                f"fragment {self.fragment.id}",
            )
        expected = self.fragment.physical_rows
        if expected is not None and opened.reader.num_rows != expected:
            raise CorruptFile(
                place.full_path,
                f"it has {opened.reader.num_rows} rows, the manifest says {expected}",
                f"fragment {self.fragment.id}",
            )
        return opened

    def check(self, field: Field) -> None:
        """Refuse a field that some file is said to have, and has not. Nothing is decoded."""
        for index in self._holders(field):
            own = pruned(field, self._columns[index]) if len(self._holders(field)) > 1 else field
            if own is not None:
                self.files[index].reader.check(own)

    def holder(self, field: Field) -> int | None:
        """The first file that has columns of a field."""
        return next(iter(self._holders(field)), None)

    def _common_holder(self, fields: Sequence[Field]) -> int | None:
        """The one file that has all columns of some fields."""
        index = self.holder(fields[0])
        return index if all(tuple(self._holders(field)) == (index,) for field in fields) else None

    def _holders(self, field: Field) -> Sequence[int]:
        """The files that have columns of a field."""
        if len(self._columns) == 1 and field.id in self._columns[0]:
            return (0,)
        ids = [node.id for node in field.walk()]
        return [index for index, columns in enumerate(self._columns) if any(i in columns for i in ids)]

    def _read_file(self, index: int, fields: Sequence[Field], rows: Rows) -> list[Column]:
        file = self.files[index]
        if file.source.mapped is None:
            steps = [file.reader.read(field, rows) for field in fields]
            pages = {} if self.scanned is None else self.scanned.by_file(self)
            arrays: list[Column] = run(gather(steps), pages.get(index, file.source))
            return arrays
        if not is_small(rows):
            return [_read_mapped(file, field, rows) for field in fields]
        together = _read_together(file, fields, rows)
        return [_read_mapped(file, f, rows) if c is None else c for f, c in zip(fields, together, strict=True)]

    def _read_split(self, field: Field, holders: Sequence[int], rows: Rows) -> Column:
        """A field whose leaves lie in several files."""
        parts = []
        for index in holders:
            own = pruned(field, self._columns[index])
            if own is not None:
                (column,) = self._read_file(index, [own], rows)
                parts.append(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
        live = self.live(rows)
        path = self.snapshot.places.data_file(self.fragment.files[holders[0]]).full_path
        return merged(field, parts, len(rows), None if live is None else ~live, path)

    def _overlaid(self, field: Field, column: Column, rows: Rows) -> Column:
        return apply_overlays(self.snapshot, self.fragment, self.cache, field, column, rows)


def _read_together(file: OpenFile, fields: Sequence[Field], rows: Rows) -> Sequence[Column | None]:
    """Few rows of many fields of a mapped file in one go; None for each that is to be read alone."""
    batch = file.reader.batch(fields) if isinstance(file.reader, StructuralFile) else None
    if batch is None:
        return [None] * len(fields)
    if isinstance(rows, RowRange):
        file.source.reserve(1, batch.stored_bytes * len(rows) // max(file.reader.num_rows, 1) * RANGES_AT_ONCE)
    else:
        file.source.reserve(0, min(batch.stored_bytes, len(fields) * len(rows) * FAULT_AROUND))
    return batch.read(rows)


def _read_mapped(file: OpenFile, field: Field, rows: Rows) -> Column:
    """One field of a mapped file, which is told how much of it is about to become resident."""
    if len(rows) == 1 or (isinstance(rows, RowIndices) and len(rows) <= FEW_TAKEN):
        file.source.reserve(len(rows), 0)
        return run(file.reader.read(field, rows), file.source)
    stored, decoded = file.reader.row_bytes(field)
    if isinstance(rows, RowRange):
        # Views of it are read again by whoever asked, while the next ranges are already under way.
        file.source.reserve(1, int(stored * len(rows)) * RANGES_AT_ONCE)
        return run(file.reader.read(field, rows), file.source)
    # Scattered rows make their surroundings resident, but never more than the column.
    whole = int(stored * file.reader.num_rows)
    # Wide values (those that ranges give as views) are copied out of the file where they are many.
    step = TAKE_PIECE if whole > BIG_COLUMN and decoded else len(rows)
    pieces = []
    for at in range(0, len(rows), step):
        piece = RowIndices(rows.values[at : at + step])
        file.source.reserve(0, min(whole, min(len(piece), TAKE_PIECE) * FAULT_AROUND))
        pieces.append(run(file.reader.read(field, piece), file.source))
    return pieces[0] if len(pieces) == 1 else _joined(pieces)


def _pieces(file: OpenFile, records: Records, rows: RowRange) -> Iterator[tuple[int, Bytes]]:
    size = records.size
    step = max(COPIED_AT_ONCE // size, 1)
    for run_of_rows, begin in records.runs(rows):
        end = begin + len(run_of_rows) * size
        place = run_of_rows.start - rows.start
        if file.source.hold(begin, end):
            yield place, records.data[begin:end].reshape(-1, size)
            continue
        buffer = np.empty(min(step * size, end - begin), np.uint8)
        for at in range(begin, end, len(buffer)):
            copied = buffer[: end - at]
            if not file.source.read_pieces(np.array([at]), np.array([len(copied)]), copied):
                # It was removed meanwhile, and is still mapped.
                file.source.reserve(1, len(copied))
                copied = records.data[at : at + len(copied)]
            yield place + (at - begin) // size, copied.reshape(-1, size)


class WholePages:
    """Small pages of remote files, which come whole; found when the first unit is read, not when it is planned."""

    __slots__ = ("_by_file", "_fields", "_largest", "_lock", "_rows")

    def __init__(self, fields: tuple[Field, ...], rows: RowRange, largest: int) -> None:
        self._fields = fields
        self._rows = rows
        self._largest = largest
        self._by_file: dict[int, WholeRanges] | None = None
        self._lock = threading.Lock()

    def by_file(self, reader: FragmentReader) -> Mapping[int, WholeRanges]:
        """The files that have such pages, by their place in the fragment."""
        with self._lock:
            if self._by_file is None:
                columns: dict[int, list[list[Extent]]] = {}
                for field in self._fields:
                    for index, extents in reader.extents(field, self._rows):
                        columns.setdefault(index, []).extend(extents)
                small = {index: _small_pages(extents, self._largest) for index, extents in columns.items()}
                self._by_file = {
                    index: WholeRanges(reader.files[index].source, pages) for index, pages in small.items() if pages
                }
            return self._by_file


def _small_pages(columns: Sequence[Sequence[Extent]], largest: int) -> list[Extent]:
    """The pages, in file order, of as many columns as may be in memory, those without large ones first."""
    found: list[Extent] = []
    left = WHOLE_PAGES_BYTES
    for pages in sorted(columns, key=_largest):
        left -= _largest(pages)
        if left < 0 or _largest(pages) > largest:
            break
        found += pages
    found.sort()
    # A file may say that pages share bytes.
    return found if all(one.stop <= other.start for one, other in pairwise(found)) else []


def _largest(pages: Sequence[Extent]) -> int:
    return max((page.stop - page.start for page in pages), default=0)


def _pick(sequence: RowIdSequence | VersionSequence, rows: Rows) -> npt.NDArray[np.uint64]:
    if isinstance(rows, RowRange):
        return sequence.slice(rows.start, rows.stop)
    return sequence.take(rows.values)


def _joined(parts: Sequence[Column]) -> Column:
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return (
        pa.chunked_array(chunks).unify_dictionaries()
        if pa.types.is_dictionary(chunks[0].type)
        else pa.concat_arrays(chunks)
    )

"""The files of an index segment: Lance files in a folder named by the segment's UUID."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.fetch import gather, run
from lancelet.encoding.rows import RowIndices, RowRange, Rows
from lancelet.errors import CorruptFile
from lancelet.file.checksums import check_file
from lancelet.file.container import Container
from lancelet.file.reader import open_file
from lancelet.file.writer import FileWriter
from lancelet.format.schema import schema_from_arrow
from lancelet.index.metadata import IndexFile
from lancelet.store import HeldSource
from lancelet.store.transfer import copy_object
from lancelet.table.manifest.names import INDICES_DIR

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.format.schema import Field
    from lancelet.index.metadata import IndexMetadata
    from lancelet.store import ByteSource, Store
    from lancelet.table.commit.written import WrittenFiles
    from lancelet.table.manifest.paths import FilePlace
    from lancelet.table.manifest.snapshot import Snapshot

BUILD_MEMORY = 160 << 20
"""What the build of a segment may hold when nobody says more or less."""


@dataclass(slots=True)
class ReadCount:
    """What was read of a segment's files."""

    parts: int = 0
    """Reads of some rows."""
    rows: int = 0


class IndexFileReader:
    """One file of a segment."""

    def __init__(self, source: ByteSource, count: ReadCount | None = None) -> None:
        self._source = source
        self._count = ReadCount() if count is None else count
        self._reader = open_file(source)
        self._fields = {field.name: field for field in self._reader.schema().fields}
        self.path = source.path
        self.num_rows = self._reader.num_rows
        self.metadata: Mapping[str, str] = dict(self._reader.schema().metadata)

    @property
    def nbytes(self) -> int:
        return self._reader.nbytes

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._source.size

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._fields)

    def type(self, column: str) -> pa.DataType:
        """The Arrow type of a column."""
        return self._field(column).arrow_field.type

    def read(self, columns: Iterable[str], rows: Rows | None = None) -> pa.RecordBatch:
        """Columns of all rows, or of some; what the columns need is asked for at once."""
        names = list(columns)
        wanted = RowRange(0, self.num_rows) if rows is None else rows
        self._count.parts += 1
        self._count.rows += len(wanted)
        arrays = run(gather([self._reader.read(self._field(name), wanted) for name in names]), self._source)
        return pa.RecordBatch.from_arrays([_whole(array) for array in arrays], names=names)

    def slices(self, column: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Array]:
        """One column of the rows from each start to before its stop, all asked for at once."""
        field = self._field(column)
        self._count.parts += len(ranges)
        self._count.rows += sum(stop - start for start, stop in ranges)
        steps = [self._reader.read(field, RowRange(start, stop)) for start, stop in ranges]
        return [_whole(array) for array in run(gather(steps), self._source)]

    def _field(self, column: str) -> Field:
        if column not in self._fields:
            raise CorruptFile(self.path, f"has no column {column!r}, only {list(self._fields)}")
        return self._fields[column]

    def slice(self, columns: Iterable[str], start: int, stop: int) -> pa.RecordBatch:
        """Columns of the rows from ``start`` to before ``stop``."""
        return self.read(columns, RowRange(start, stop))

    def take(self, columns: Iterable[str], rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Columns of single rows, given in ascending order."""
        return self.read(columns, RowIndices(rows))

    def global_buffer(self, number: int) -> bytes:
        """A buffer of the file; number 0 is its schema."""
        container = Container.read(self._source, self._source.size, self.path)
        if not 0 < number < len(container.global_buffers):
            raise CorruptFile(self.path, f"has no global buffer {number}, only {len(container.global_buffers)}")
        position, size = container.global_buffers[number].tolist()
        return container.piece(self._source, position, size)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """What was read in several pieces as one."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """Where the files of a segment are read."""

    snapshot: Snapshot
    entry: IndexMetadata
    count: ReadCount = field(default_factory=ReadCount, compare=False)
    held: dict[str, HeldSource] = field(default_factory=dict, compare=False)
    """Files that are in memory."""

    def hold(self) -> None:
        """Read all files of the segment into memory."""
        for file in self.entry.files:
            self.held[file.path] = HeldSource(self.place(file.path).open(file.size))

    @property
    def held_bytes(self) -> int:
        return sum(source.size for source in self.held.values())

    def place(self, name: str) -> FilePlace:
        """Where a file is."""
        return self.snapshot.places.index_file(str(self.entry.uuid), name, self.entry.base_id)

    def check_files(self) -> None:
        """Compare all files with their checksums, those that have some."""
        for file in self.entry.files:
            place = self.snapshot.places.index_file(str(self.entry.uuid), file.path, self.entry.base_id)
            check_file(place.open(file.size))

    def source(self, name: str) -> ByteSource:
        """The bytes of one of the files."""
        if name in self.held:
            return self.held[name]
        return self.place(name).open(self.size_of(name))

    def open(self, name: str) -> IndexFileReader:
        """Open one of the files."""
        return IndexFileReader(self.source(name), self.count)

    def size_of(self, name: str) -> int | None:
        """How large the entry says that a file is."""
        return next((file.size for file in self.entry.files if file.path == name), None)


@dataclass(slots=True)
class SegmentWriter:
    """Where a new segment is written."""

    store: Store
    uuid: UUID
    file_version: str
    """That of the table's data files."""
    files: WrittenFiles
    """Removes what was written when the build fails."""
    stable_row_ids: bool = False
    """Whether rows of the table have ids apart from their addresses; some kinds then have another version."""
    checksums: bool = False
    """Whether files end with their checksums."""
    memory_limit: int = BUILD_MEMORY
    """About how many bytes of rows a build may hold at once; the rest goes to temporary files. ZONEMAP and BLOOMFILTER
    hold no rows, only what they know of each zone."""
    written: list[IndexFile] = field(default_factory=list)
    folder: str = ""
    """Where the files go; by default where those of a segment of the table are."""

    def create(self, name: str, schema: pa.Schema) -> IndexFileWriter:
        """Begin a file; its schema metadata goes along."""
        path = f"{self.folder or f'{INDICES_DIR}/{self.uuid}'}/{name}"
        self.files.add(path)
        writer = FileWriter(
            self.store.open_sink(path), schema_from_arrow(schema), self.file_version, checksums=self.checksums
        )
        return IndexFileWriter(name, schema, writer, self.written)

    def copy(self, folder: IndexFolder, name: str, new_name: str) -> None:
        """Take over a file of another segment as it is."""
        place = folder.place(name)
        size = place.open(folder.size_of(name)).size
        path = f"{INDICES_DIR}/{self.uuid}/{new_name}"
        self.files.add(path)
        copy_object(place.store, place.path, self.store, path, size)
        self.written.append(IndexFile(new_name, size))

    def adopt(self, file: IndexFile) -> None:
        """Take in a file that another process wrote for the segment."""
        self.files.add(f"{INDICES_DIR}/{self.uuid}/{file.path}")
        self.written.append(file)


class IndexFileWriter:
    """One file of a segment under construction. Used as a context: leaving it finishes the file."""

    def __init__(self, name: str, schema: pa.Schema, writer: FileWriter, written: list[IndexFile]) -> None:
        self._name = name
        self._writer = writer
        self._written = written
        self.schema = schema

    def __enter__(self) -> IndexFileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        with self._writer:
            if kind is not None:
                return
            done = self._writer.finish()
        self._written.append(IndexFile(self._name, done.size))

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, in the columns of the schema."""
        self._writer.write_batch(batch)

    def end_pages(self) -> None:
        """Have what comes next in other pages than what came before."""
        self._writer.end_pages()

    def add_global_buffer(self, data: bytes) -> int:
        """Add a buffer and tell its number."""
        return self._writer.add_global_buffer(data)

    def add_metadata(self, key: str, value: str) -> None:
        """Add to the schema's metadata."""
        self._writer.add_schema_metadata(key, value)

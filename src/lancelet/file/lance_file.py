"""Single .lance files for users: rows, metadata and statistics, without a table around them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from lancelet.encoding.fetch import run
from lancelet.encoding.rows import RowIndices, RowRange, Rows
from lancelet.errors import CorruptFile, InvalidInput, MissingFile, NotFound, NotSupported, RowNotFound
from lancelet.file.container import Container
from lancelet.file.place import split_place
from lancelet.file.reader import open_file
from lancelet.format.file_versions import LEGACY, footer_numbers
from lancelet.format.proto import column_pb2, encodings20_pb2, encodings21_pb2
from lancelet.format.schema import Field, Schema, resolve_extensions
from lancelet.namespace_client.tables import vended
from lancelet.store import ByteSource, Store

_TABLE_ENTRY = 16


@dataclass(frozen=True)
class LanceBufferDescriptor:
    """Where a buffer is in the file."""

    position: int
    size: int


@dataclass(frozen=True)
class LanceColumnStatistics:
    """The pages of a column."""

    num_pages: int
    size_bytes: int


@dataclass(frozen=True)
class LanceFileStatistics:
    """The pages of all columns."""

    columns: list[LanceColumnStatistics]


@dataclass(frozen=True)
class LancePageMetadata:
    """A page: its buffers, and how they are encoded."""

    buffers: list[LanceBufferDescriptor]
    encoding: str
    """The description in the file, as text."""


@dataclass(frozen=True)
class LanceColumnMetadata:
    """A column: buffers of its own, and its pages."""

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass(frozen=True)
class LanceFileMetadata:
    """What a file says of itself."""

    schema: pa.Schema
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    major_version: int
    minor_version: int
    columns: list[LanceColumnMetadata]


class ReaderResults:
    """Rows of a file, as batches or as a table."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a reader of batches."""
        return self.reader

    def to_table(self) -> pa.Table:
        """All rows in memory."""
        return self.reader.read_all()


class LanceFileReader:
    """Reads one data file.

    Parameters
    ----------
    path
        A local path or a URI.
    storage_options
        See :func:`lancelet.store.open_store`.
    columns
        Names and nested paths; all columns by default.
    namespace_client, table_id
        A ``LanceNamespace`` and the id of the table whose file it is, for storage options where none are given.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancelet.file import LanceFileWriter
    >>> with LanceFileWriter("memory://docs/single/one.lance") as writer:
    ...     writer.write_batch(pa.table({"id": [1, 2, 3]}))
    >>> reader = LanceFileReader("memory://docs/single/one.lance")
    >>> reader.num_rows(), reader.take_rows([0, 2]).to_table()["id"].to_pylist()
    (3, [1, 3])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        namespace_client: object = None,
        table_id: Sequence[str] | None = None,
    ) -> None:
        options = vended(path, storage_options, namespace_client, table_id)
        self._open(*split_place(os.fspath(path), options), columns)

    @classmethod
    def at(cls, store: Store, name: str, columns: Sequence[str] | None = None) -> LanceFileReader:
        """A reader in a store that is open already."""
        made = cls.__new__(cls)
        made._open(store, name, columns)
        return made

    def _open(self, store: Store, name: str, columns: Sequence[str] | None) -> None:
        try:
            self._source: ByteSource = store.open(name)
        except MissingFile as error:
            raise NotFound(f"Not found: {error.path}") from None
        self._reader = open_file(self._source)
        if self._reader.version == LEGACY:
            raise NotSupported(f"{self._source.path} is a file of version 0.1, which reads only through its table")
        self._container = Container.read(self._source, self._source.size, self._source.path)
        schema = self._reader.schema()
        self._schema = schema if columns is None else schema.project(columns)

    def num_rows(self) -> int:
        """How many rows the file has."""
        return self._reader.num_rows

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """All rows."""
        return self.read_range(0, self._reader.num_rows, batch_size=batch_size)

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Rows from ``start`` on."""
        if start < 0 or num_rows < 0 or start + num_rows > self._reader.num_rows:
            raise RowNotFound(f"cannot read rows {start} to {start + num_rows} of {self._reader.num_rows}")
        stop = start + num_rows
        pieces = (RowRange(at, min(at + batch_size, stop)) for at in range(start, stop, _checked(batch_size)))
        return self._results(pieces)

    def take_rows(self, indices: object, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Single rows, in ascending order."""
        rows = np.asarray(indices, np.int64)
        if (np.diff(rows) <= 0).any():
            raise InvalidInput("the rows of a file are taken in ascending order, each once; sort them first")
        if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < self._reader.num_rows:
            raise RowNotFound(f"cannot take rows {int(rows[0])} to {int(rows[-1])} of {self._reader.num_rows}")
        step = _checked(batch_size)
        return self._results(RowIndices(rows[at : at + step]) for at in range(0, len(rows), step))

    def metadata(self) -> LanceFileMetadata:
        """Where the file's columns, pages and buffers are."""
        container = self._container
        major, minor = footer_numbers(self._reader.version)
        buffers = [LanceBufferDescriptor(int(at), int(size)) for at, size in container.global_buffers]
        return LanceFileMetadata(
            self._reader.schema().to_arrow(),
            self._reader.num_rows,
            buffers[0].position,
            int(container.columns[:, 1].sum()) + _TABLE_ENTRY * len(container.columns),
            sum(buffer.size for buffer in buffers),
            buffers,
            major,
            minor,
            [self.describe_column(index) for index in range(len(container.columns))],
        )

    def describe_column(self, index: int) -> LanceColumnMetadata:
        """Where the pages and buffers of one stored column are."""
        column = self._container.column(self._source, index)
        try:
            encodings = [_encoding(page.encoding.direct.encoding) for page in column.pages]
        except DecodeError as error:
            raise CorruptFile(self._source.path, f"an encoding does not parse: {error}", f"column {index}") from None
        pages = [LancePageMetadata(_buffers(page), text) for page, text in zip(column.pages, encodings, strict=True)]
        return LanceColumnMetadata(_buffers(column), pages)

    def file_statistics(self) -> LanceFileStatistics:
        """Pages and bytes of each column."""
        found = []
        for index in range(len(self._container.columns)):
            pages = self._container.column(self._source, index).pages
            found.append(LanceColumnStatistics(len(pages), sum(sum(page.buffer_sizes) for page in pages)))
        return LanceFileStatistics(found)

    def read_global_buffer(self, index: int) -> bytes:
        """One of the buffers that belong to the whole file; the first one is the file's descriptor."""
        if not 0 <= index < len(self._container.global_buffers):
            raise InvalidInput(f"there is no global buffer {index}; the file has {len(self._container.global_buffers)}")
        position, size = self._container.global_buffers[index].tolist()
        return self._container.piece(self._source, position, size)

    def _results(self, pieces: Iterator[Rows]) -> ReaderResults:
        schema = resolve_extensions(_shown(self._schema))
        return ReaderResults(pa.RecordBatchReader.from_batches(schema, self._batches(pieces)))

    def _batches(self, pieces: Iterator[Rows]) -> Iterator[pa.RecordBatch]:
        schema = _shown(self._schema)
        for rows in pieces:
            columns = [self._column(field, rows) for field in self._schema.fields]
            table = pa.Table.from_arrays(columns, schema=schema)
            for batch in table.combine_chunks().to_batches():
                yield pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__())

    def _column(self, field: Field, rows: Rows) -> pa.Array:
        array = run(self._reader.read(field, rows), self._source)
        if not field.is_blob:
            return array
        positions, sizes = (array.field(i).to_pylist() for i in range(2))
        valid = array.is_valid().to_pylist()
        parts = iter(self._source.read([p for p in zip(positions, sizes, strict=True) if p[1]]))
        values = [
            next(parts).tobytes() if size else (b"" if ok and position == 0 else None)
            for ok, position, size in zip(valid, positions, sizes, strict=True)
        ]
        return pa.array(values, pa.large_binary())


def _buffers(holder: Any) -> list[LanceBufferDescriptor]:
    return [
        LanceBufferDescriptor(at, size) for at, size in zip(holder.buffer_offsets, holder.buffer_sizes, strict=False)
    ]


def _encoding(packed: bytes) -> str:
    """The description of a page; of 2.0 in one language, of later versions in another."""
    message = column_pb2.AnyMessage.FromString(packed)
    kind: Any = (
        encodings20_pb2.ArrayEncoding if message.type_url.endswith("ArrayEncoding") else encodings21_pb2.PageLayout
    )
    return str(kind.FromString(message.value))


def _shown(schema: Schema) -> pa.Schema:
    """The columns in storage types; extension types are still names in the metadata."""
    return pa.schema([field.arrow_field for field in schema.fields], metadata=dict(schema.metadata) or None)


def _checked(batch_size: int) -> int:
    if batch_size < 1:
        raise InvalidInput(f"batch_size must be at least 1, got {batch_size}")
    return batch_size

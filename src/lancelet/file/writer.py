"""Writing one data file of version 2.0, 2.1 or 2.2 (spec file-format.md 1).

Batches are taken apart by column and kept until a column has about a page's worth
of bytes; then its leaves are encoded, side by side on threads, and the pages
go to the sink in the order in which they were begun. So memory holds the pages under
construction and no more, and the same input always makes the same file.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import TracebackType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancelet.encoding.legacy.encode import check_legacy_field
from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_0.encode import check_field, column_fields, encode_field, header_page
from lancelet.encoding.v2_1.encode.blobs import described_field, holds_blobs, place_blobs
from lancelet.encoding.v2_1.encode.messages import EncodedPage, described
from lancelet.encoding.v2_1.encode.options import EncodeOptions
from lancelet.encoding.v2_1.encode.page import encode_column
from lancelet.encoding.v2_1.encode.shred import leaves_of
from lancelet.encoding.v2_1.encode.small import WORDS
from lancelet.errors import LanceletError, NotSupported, UnfitData
from lancelet.file.checksums import SIDE_FILES, TRAILER_BYTES, HashedSink
from lancelet.file.column_messages import column_messages
from lancelet.file.container import MAGIC
from lancelet.file.side_blobs import SideBlobs
from lancelet.format.file_versions import DEFAULT_VERSION, LEGACY, V2_0, V2_1, VERSIONS, footer_numbers, is_writable
from lancelet.format.proto import column_pb2, file_pb2
from lancelet.format.schema import Field, Schema
from lancelet.format.schema_messages import metadata_bytes, schema_messages
from lancelet.runtime.threads import Pool, Task, checkpoint, core_count
from lancelet.store import Sink

PAGE_BYTES = 8 << 20
_LEAST_SHARE = 4096
ALIGNMENT = 64
_PAD = b"\x48" * ALIGNMENT
_PADS = [np.frombuffer(_PAD[:short], np.uint8) for short in range(ALIGNMENT)]
_LITTLE = 16 << 10
"""Buffers of a page that are no larger go to the sink together."""
_ENCODINGS = (
    column_pb2.AnyMessage(type_url="/lance.encodings.ColumnEncoding", value=value).SerializeToString()
    for value in (b"\x0a\x00", b"\x1a\x04\x0a\x02\x0a\x00")
)
_VALUES, _BLOBS = (
    column_pb2.ColumnMetadata(
        encoding=column_pb2.Encoding(direct=column_pb2.DirectEncoding(encoding=encoding))
    ).SerializeToString()
    for encoding in _ENCODINGS
)
"""Metadata of a column without pages."""
_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
_SMALL = 256 << 10
"""Less data than this is encoded on the spot: handing it to a thread takes longer."""
_KEPT_CHECKS = 64
"""So many schemas that were found good are not looked at again."""
_KEPT_FIELDS = 4096
_HELD = 64 << 20
"""Once batches of this size have come in, what still waits of them is copied, so that they can be freed."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a manifest needs to know about a finished file."""

    num_rows: int
    size: int
    fields: tuple[int, ...]
    """Ids of the fields that own a column."""
    column_indices: tuple[int, ...]
    """The column of each of them."""
    major: int
    minor: int


_Page: TypeAlias = tuple[int, int, bytes, list[int], list[int]]
"""Its length, its priority, its layout as a file has it, offsets and sizes of its buffers."""


@dataclass(slots=True)
class _Column:
    """A column: what is known of its pages."""

    field: Field
    head: bytes
    """Its metadata without pages."""
    pages: list[_Page] = dataclasses.field(default_factory=list)
    rows: int = 0


_Encode: TypeAlias = Callable[[list[pa.Array]], list[EncodedPage]]
_Encoder: TypeAlias = tuple[tuple[tuple[Field, bool], ...], _Encode]
"""The fields that own the columns, each with whether it is of blobs, and what makes pages of them."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns that are encoded together: a leaf, or a whole field of 2.0."""

    columns: list[_Column]
    encode: _Encode


@dataclass(slots=True)
class _Queue:
    """A top-level field: arrays that wait to become a page."""

    field: Field
    groups: list[_Group]
    blobs: bool
    arrays: list[pa.Array] = dataclasses.field(default_factory=list)
    nbytes: int = 0
    owned: int = 0
    """How many of the arrays are copies of our own."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A page under construction."""

    group: _Group
    pages: Task[list[EncodedPage]]
    nbytes: int


_POOL = Pool("lancelet-encode", core_count())


class FileWriter:
    """Writes batches of one schema into a file.

    Parameters
    ----------
    sink
        Where the bytes go, see :meth:`lancelet.store.Store.open_sink`.
    schema
        The fields with their ids.
    version
        The file version, "2.0", "2.1" or "2.2".
    page_bytes
        How much of a column makes a page.
    threads
        How many columns are encoded at once; as many as there are processors unless told.
    begin_side_file
        Begins the file of a number for large blobs, see :mod:`lancelet.file.side_blobs`; without it they are in this
        file.
    pack_bytes
        How large files become that blobs share; by default the fields tell.
    checksums
        Whether the file ends with its checksum, see :mod:`lancelet.file.checksums`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancelet.format.schema import schema_from_arrow
    >>> from lancelet.store import open_store
    >>> batch = pa.record_batch({"x": [1, 2, 3]})
    >>> sink = open_store("memory://docs").open_sink("data/x.lance")
    >>> with FileWriter(sink, schema_from_arrow(batch.schema)) as writer:
    ...     writer.write_batch(batch)
    ...     writer.finish().num_rows
    3
    """

    def __init__(
        self,
        sink: Sink,
        schema: Schema,
        version: str = DEFAULT_VERSION,
        *,
        page_bytes: int = PAGE_BYTES,
        threads: int | None = None,
        begin_side_file: Callable[[int], Sink] | None = None,
        pack_bytes: int | None = None,
        checksums: bool = False,
    ) -> None:
        self._hashed = HashedSink(sink) if checksums else None
        self._sink: Sink = sink if self._hashed is None else self._hashed
        self._side_files: dict[int, HashedSink] = {}
        if checksums and begin_side_file is not None:
            begin_side_file = partial(self._begin_side_file, begin_side_file)
        self._blobs = SideBlobs(begin_side_file, self._place, pack_bytes)
        self._schema = schema
        self._version = version
        self._page_bytes = page_bytes
        self._threads = threads or core_count()
        try:
            check_schema(schema, version)
            self._queues = [self._queue(top) for top in schema.fields]
        except LanceletError:
            sink.abort()
            raise
        self._tasks: deque[_Task] = deque()
        self._pending = 0
        self._held = 0
        self._globals: list[tuple[int, int]] = []
        self._metadata = dict(schema.metadata)
        self.num_rows = 0

    def _begin_side_file(self, begin: Callable[[int], Sink], number: int) -> Sink:
        self._side_files[number] = HashedSink(begin(number))
        return self._side_files[number]

    def _queue(self, top: Field) -> _Queue:
        encoders, blobs = _encoders(top, self._version)
        groups = [_Group([_column(*owner) for owner in owners], encode) for owners, encode in encoders]
        return _Queue(top, groups, blobs)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    @property
    def size(self) -> int:
        """Bytes that have gone to the sink, or wait to be encoded."""
        return self._sink.tell() + self._pending + sum(queue.nbytes for queue in self._queues)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Take in a batch whose columns are those of the schema, in any order."""
        checkpoint()
        names = batch.schema.names
        places = {name: place for place, name in enumerate(names)}
        if len(names) != len(self._queues) or any(queue.field.name not in places for queue in self._queues):
            raise UnfitData(f"a batch with the columns {names} does not fit a file of {self._schema.names}")
        if batch.num_rows == 0:
            return
        for queue in self._queues:
            array = batch.column(places[queue.field.name])
            if not queue.field.nullable and array.null_count:
                raise UnfitData(
                    f"Column '{queue.field.name}' is declared as non-nullable but contains null values; "
                    "declare the field nullable or fill the nulls"
                )
            size = _memory(array)
            self._held += size
            if queue.blobs:
                array = place_blobs(array, queue.field, self._blobs)
                size = _memory(array)
            self._append(queue, array, size)
        self.num_rows += batch.num_rows
        if self._held > _HELD:
            self._let_go()
        self._collect(self._most_pending())

    def _append(self, queue: _Queue, array: pa.Array, size: int) -> None:
        """Put an array of so many bytes in line, and make a page of what waits once it is enough."""
        if size > self._page_bytes:
            self._flush(queue)
            for piece in _cut(array, self._page_bytes):
                queue.arrays, queue.nbytes = [piece], _memory(piece)
                self._flush(queue)
            return
        queue.arrays.append(array)
        queue.nbytes += size
        if queue.nbytes >= self._page_bytes:
            self._flush(queue)

    def end_pages(self) -> None:
        """Make pages of what waits: what comes next is better off apart from it."""
        for queue in self._queues:
            self._flush(queue)

    def _let_go(self) -> None:
        """Copy what waits. The columns of a batch often share one allocation, and a small one would keep all of it."""
        self._held = 0
        for queue in self._queues:
            fresh = queue.arrays[queue.owned :]
            if fresh:
                queue.arrays[queue.owned :] = [pa.concat_arrays([*fresh, fresh[0].slice(0, 0)])]
                queue.owned = len(queue.arrays)

    def add_global_buffer(self, data: bytes) -> int:
        """Store a buffer that belongs to no column; returns its number."""
        self._collect(0)
        self._globals.append((self._place(np.frombuffer(data, np.uint8)), len(data)))
        return len(self._globals)

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add to the metadata of the file's schema."""
        self._metadata[key] = value

    def finish(self) -> WrittenFile:
        """Write what waits, and the end of the file."""
        self._blobs.finish()
        for queue in self._queues:
            self._flush(queue)
        self._collect(0)
        columns = [column for queue in self._queues for group in queue.groups for column in group.columns]
        if self._version == V2_0:
            self._add_headers(columns)
        if self._side_files:
            hashes = {str(number): f"{sink.digest():016x}" for number, sink in self._side_files.items()}
            self._metadata[SIDE_FILES] = json.dumps(hashes)
        self._write_end([(column.head, column.pages) for column in columns])
        size = self._sink.tell()
        self._sink.finish()
        major, minor = map(int, self._version.split("."))
        ids = tuple(column.field.id for column in columns)
        return WrittenFile(self.num_rows, size, ids, tuple(range(len(ids))), major, minor)

    def _add_headers(self, columns: list[_Column]) -> None:
        """Structs of 2.0 have a page even where there are no rows."""
        for column in columns:
            header = column.field.logical_type == "struct" and not column.field.is_packed
            if header and not column.pages:
                self._write_page(column, header_page(0, 0))

    def abort(self) -> None:
        """Give up: nothing of the file is left. Does nothing after :meth:`finish`."""
        for task in self._tasks:
            task.pages.cancel()
        self._tasks.clear()
        self._blobs.abort()
        self._sink.abort()

    def _flush(self, queue: _Queue) -> None:
        """Make a page of what waits."""
        if not queue.arrays:
            return
        arrays, nbytes = queue.arrays, queue.nbytes
        queue.arrays, queue.nbytes, queue.owned = [], 0, 0
        each = nbytes // len(queue.groups)
        for group in queue.groups:
            if not self._tasks and (self._threads == 1 or nbytes <= _SMALL):
                self._write_pages(group, group.encode(arrays))
                continue
            self._tasks.append(_Task(group, _POOL.submit(group.encode, arrays), each))
            self._pending += each
            self._collect(self._most_pending())

    def _most_pending(self) -> int:
        return (self._threads + 1) * self._page_bytes

    def _collect(self, limit: int) -> None:
        """Write finished pages, and wait for more until at most ``limit`` bytes are under construction."""
        while self._tasks and (self._pending > limit or limit == 0 or self._tasks[0].pages.done):
            task = self._tasks.popleft()
            self._pending -= task.nbytes
            self._write_pages(task.group, task.pages.result())

    def _write_pages(self, group: _Group, pages: list[EncodedPage]) -> None:
        for page in pages:
            self._write_page(group.columns[page.column], page)

    def _write_page(self, column: _Column, page: EncodedPage) -> None:
        if self._version == V2_0 and page.layout.WhichOneof("array_encoding") == "struct" and column.pages:
            # A struct of 2.0 has one header, whatever the number of pages below it.
            first = column.pages[0]
            column.pages[0] = (first[0] + page.length, *first[1:])
            return
        priority = 0 if self._version == V2_0 else column.rows
        column.pages.append((page.length, priority, page.described or described(page), *self._place_all(page.buffers)))
        column.rows += page.rows

    def _place_all(self, buffers: Sequence[Sequence[Bytes]]) -> tuple[list[int], list[int]]:
        """Write buffers, each at the next aligned position; little ones in one piece. Where they are, and their sizes."""
        begin = at = self._sink.tell()
        offsets, sizes, parts = [], [], []
        for pieces in buffers:
            short = -at % ALIGNMENT
            if short:
                parts.append(_PADS[short])
                at += short
            offsets.append(at)
            parts += pieces
            at += pieces[0].nbytes if len(pieces) == 1 else sum([piece.nbytes for piece in pieces])
            sizes.append(at - offsets[-1])
        if len(parts) > 1 and at - begin <= _LITTLE:
            self._sink.write(b"".join([part.data for part in parts]))
            return offsets, sizes
        for part in parts:
            self._sink.write(part)
        return offsets, sizes

    def _place(self, *pieces: Bytes) -> int:
        """Write a buffer at the next aligned position."""
        position = self._align()
        for piece in pieces:
            self._sink.write(piece)
        return position

    def _align(self) -> int:
        short = -self._sink.tell() % ALIGNMENT
        if short:
            self._sink.write(_PADS[short])
        return self._sink.tell()

    def _write_end(self, columns: list[tuple[bytes, list[_Page]]]) -> None:
        """File descriptor, column metadata, both tables, footer."""
        shown = Schema(tuple(described_field(top) for top in self._schema.fields))
        schema = file_pb2.Schema(fields=schema_messages(shown), metadata=metadata_bytes(self._metadata))
        descriptor = file_pb2.FileDescriptor(schema=schema, length=self.num_rows).SerializeToString()
        at = self._align()
        first = at + len(descriptor)
        messages, table = column_messages(columns, first)
        out = bytearray(descriptor) + messages + table
        tables = first + len(messages)
        globals_at = tables + len(table)
        buffers = [(at, len(descriptor)), *self._globals]
        if self._hashed is not None:
            end = globals_at + (len(buffers) + 1) * _ENTRY.size
            buffers.append((end + -end % ALIGNMENT, TRAILER_BYTES))
        for place in buffers:
            out += _ENTRY.pack(*place)
        major, minor = footer_numbers(self._version)
        footer = _FOOTER.pack(first, tables, globals_at, len(buffers), len(columns), major, minor, MAGIC)
        if self._hashed is None:
            self._sink.write(out + footer)
            return
        out += bytes(buffers[-1][0] - at - len(out))
        self._hashed.write(out)
        self._hashed.end(footer)


def page_size(columns: int, data_cache_bytes: int | None, max_page_bytes: int | None) -> int:
    """Bytes of a page: what all columns may collect together is shared by them, a page's own bound is kept to the byte."""
    pages = PAGE_BYTES if data_cache_bytes is None else max(_LEAST_SHARE, data_cache_bytes // max(1, columns))
    return pages if max_page_bytes is None else min(pages, max_page_bytes)


@lru_cache(maxsize=_KEPT_CHECKS)
def check_schema(schema: Schema, version: str) -> None:
    """Refuse what a file of this version cannot hold."""
    if not is_writable(version):
        raise NotSupported(f"files of version {version} cannot be written; choose one of {', '.join(VERSIONS)}")
    names = schema.names
    unique = len(set(names)) == len(names)
    for name in names:
        if "." in name:
            raise UnfitData(f"Top level field {name} cannot contain `.`. Maybe you meant to create a struct field?")
        if not unique and names.count(name) > 1:
            raise UnfitData(f'Duplicate field name "{name}" in schema; give every column its own name')
    if version in (LEGACY, V2_0):
        for top in schema.fields:
            (check_field if version == V2_0 else check_legacy_field)(top)
    for node in schema.walk():
        if "\0" in node.name:
            raise UnfitData(
                f"{node.name!r} cannot be the name of a field: Arrow's interfaces end a name at a NUL character"
            )
        if len({child.name for child in node.children}) != len(node.children):
            raise UnfitData(f"field '{node.name}' has two children of one name; give each its own")
        if version == V2_1 and node.logical_type == "map":
            raise NotSupported(f"field '{node.name}': files of version 2.1 hold no maps; use version 2.2")
        if version == V2_1 and node.logical_type.startswith("fixed_size_list:struct:"):
            raise NotSupported(
                f"field '{node.name}': files of version 2.1 hold no fixed-size lists of structs; use version 2.2"
            )
        if version == V2_1 and node.is_blob_v2:
            raise NotSupported(f"field '{node.name}': Blob v2 requires file version >= 2.2 (got 2.1)")
        if node.logical_type.startswith("dict:") and node.arrow_type.value_type.id == pa.bool_().id:
            raise NotSupported(f"field '{node.name}': dictionaries of booleans cannot be stored")


@lru_cache(maxsize=_KEPT_FIELDS)
def _encoders(top: Field, version: str) -> tuple[tuple[_Encoder, ...], bool]:
    """What the columns of a field are encoded by, and whether there are blobs in it."""
    if version == V2_0:
        owners = tuple((owner, owner.is_blob) for owner in column_fields(top))
        return ((owners, partial(encode_field, field=top)),), holds_blobs(top)
    found = []
    for leaf in leaves_of(top):
        options = EncodeOptions.of(version, leaf.path, leaf.field.metadata, top.metadata)
        found.append((((leaf.field, False),), partial(encode_column, leaf=leaf, options=options)))
    return tuple(found), holds_blobs(top)


def _column(owner: Field, blobs: bool) -> _Column:
    return _Column(owner, _BLOBS if blobs else _VALUES)


def _cut(array: pa.Array, page_bytes: int) -> Iterator[pa.Array]:
    """Pieces of about a page's size."""
    parts = min(-(-_memory(array) // page_bytes), len(array))
    if parts <= 1:
        yield array
        return
    step = -(-len(array) // parts)
    for start in range(0, len(array), step):
        yield array.slice(start, step)


def _memory(array: pa.Array) -> int:
    """Bytes of an array's own rows; nulls of no type have none, and still count for something."""
    bits = WORDS.get(array.type.id)
    if bits is not None and array.buffers()[0] is None:
        # Arrow takes ten times as long to say so.
        return len(array) * bits // 8
    return max(int(array.nbytes), len(array) // 8)

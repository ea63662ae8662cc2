"""Blobs of rows: as file-like objects, whole, in parts, and in data frames."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.rows import Indices, RowIndices
from lancelet.errors import InvalidInput, InvalidType, RowNotFound
from lancelet.execution.blobs import StoredBlob, find_blobs, has_blobs, read_blobs
from lancelet.execution.costs import BLOB_BUFFER_BYTES
from lancelet.execution.opening import open_scan
from lancelet.execution.row_numbers import row_numbers
from lancelet.expressions.expr import Column
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.table.rows.addresses import split_addresses

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import Buffer

    from lancelet.execution.plan import ScanPlan
    from lancelet.execution.table_reader import TableReader
    from lancelet.format.schema import Field

SELECTORS = ("ids", "addresses", "indices")


class BlobFile(io.BufferedIOBase):
    """One blob, read as it is asked for.

    :meth:`read_range` and :meth:`read_ranges` do not move the cursor.
    """

    def __init__(self, inner: StoredBlob, buffer_size: int = BLOB_BUFFER_BYTES) -> None:
        super().__init__()
        self._blob = inner
        self._buffer_size = _buffer_size(buffer_size)
        self._position = 0
        self._buffer = b""
        self._buffered_at = 0

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"

    def size(self) -> int:
        """Bytes of the blob."""
        return self._blob.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise InvalidInput(f"Invalid whence: {whence}")
        base = (0, self._position, self.size())[whence]
        if base + offset < 0:
            raise InvalidInput(f"negative seek value {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        self._check_open()
        left = max(self.size() - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted == 0:
            return b""
        data = self._bytes(self._position, wanted)
        self._position += len(data)
        return data

    def read1(self, size: int | None = -1) -> bytes:
        return self.read(io.DEFAULT_BUFFER_SIZE if size is None or size < 0 else size)

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, b: Buffer) -> int:
        """Fill a buffer from where the file is; returns how many bytes there were."""
        self._check_open()
        view = memoryview(b).cast("B")
        if view.readonly:
            raise InvalidType(f"readinto() needs a buffer that can be written, not {type(b).__name__}")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read_range(self, offset: int, length: int) -> bytes:
        """Some bytes of the blob; the cursor stays."""
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of many (offset, length) pairs, in their order; the cursor stays."""
        self._check_open()
        for offset, length in ranges:
            _check_range(offset, length, self.size())
        return [part.tobytes() for part in self._blob.read(ranges)]

    def _bytes(self, start: int, length: int) -> bytes:
        """Bytes through the buffer; what is larger than it goes past it."""
        at = start - self._buffered_at
        if at < 0 or at + length > len(self._buffer):
            if length >= self._buffer_size:
                return self._blob.read([(start, length)])[0].tobytes()
            ahead = min(self._buffer_size, self.size() - start)
            self._buffer = self._blob.read([(start, ahead)])[0].tobytes()
            self._buffered_at, at = start, 0
        return self._buffer[at : at + length]

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidInput("the blob is closed; take it again to read it")


def take_blobs(
    table: TableReader, column: str, selection: tuple[str, object], buffer_size: int = BLOB_BUFFER_BYTES
) -> list[BlobFile | None]:
    """Blobs of some rows as files, in the order of the rows; None where the value is null."""
    _buffer_size(buffer_size)
    blobs, _ = _blobs_of(table, column, *selection)
    return [None if blob is None else BlobFile(blob, buffer_size) for blob in blobs]


def read_whole_blobs(
    table: TableReader, column: str, selection: tuple[str, object], preserve_order: bool = True
) -> list[tuple[int, bytes | None]]:
    """Row addresses and whole blobs, in the order of the rows asked for, or else of their addresses."""
    blobs, addresses = _blobs_of(table, column, *selection)
    order = np.arange(len(blobs)) if preserve_order else np.argsort(addresses, kind="stable")
    contents = read_blobs([blobs[i] for i in order.tolist()])
    return [
        (int(addresses[i]), None if data is None else data.tobytes())
        for i, data in zip(order.tolist(), contents, strict=True)
    ]


def read_blob_ranges(
    table: TableReader,
    column: str,
    requests: Sequence[Any],
    selector: str,
    preserve_order: bool = True,
) -> list[tuple[int, int, bytes | None]]:
    """For each (row, offset, length): its number, the row's address and the bytes; None where the value is null."""
    if selector not in SELECTORS:
        raise InvalidInput(f"selector must be one of 'ids', 'addresses', or 'indices', got {selector!r}")
    for request in requests:
        if not isinstance(request, Sequence) or len(request) != 3:
            raise InvalidType(f"a request is a row, an offset and a length, not {request!r}")
    blobs, addresses = _blobs_of(table, column, selector, [row for row, _, _ in requests])
    pieces: list[StoredBlob | None] = []
    for number, (blob, (_, offset, length)) in enumerate(zip(blobs, requests, strict=True)):
        if blob is None:
            pieces.append(None)
            continue
        _check_range(offset, length, blob.size, f"request {number}: ")
        pieces.append(_Piece(blob, offset, length))
    order = np.arange(len(blobs)) if preserve_order else np.argsort(addresses, kind="stable")
    contents = read_blobs([pieces[i] for i in order.tolist()])
    return [
        (i, int(addresses[i]), None if data is None else data.tobytes())
        for i, data in zip(order.tolist(), contents, strict=True)
    ]


def choose_rows(ids: object, addresses: object, indices: object) -> tuple[str, Any]:
    """The one way in which a caller names rows."""
    selections = [
        (name, values)
        for name, values in (("ids", ids), ("addresses", addresses), ("indices", indices))
        if values is not None
    ]
    if len(selections) != 1:
        raise InvalidInput("Exactly one of ids, indices, or addresses must be specified")
    return selections[0]


def lazy_frame(
    table: TableReader, plan: ScanPlan, blobs: Mapping[str, tuple[str, ...]], kwargs: Mapping[str, object]
) -> pd.DataFrame:
    """The result of a plan as a data frame with files in place of the blobs of some outputs."""
    addressed = any(name == ROW_ADDRESS for name, _ in plan.outputs)
    if not addressed:
        plan = replace(plan, outputs=(*plan.outputs, (ROW_ADDRESS, Column((ROW_ADDRESS,), pa.uint64()))))
    result = open_scan(table, plan).to_table()
    fragments, _ = split_addresses(result.column(ROW_ADDRESS).to_numpy())
    place = table.snapshot.manifest.fragments.position
    places = {number: place(number) for number in np.unique(fragments).tolist()}
    owners = np.array([places[number] for number in fragments.tolist()], np.int64)
    files = {
        name: _files(table, plan.schema.field_by_path(path), result.column(name), owners)
        for name, path in blobs.items()
    }
    dropped = [] if addressed else [ROW_ADDRESS]
    frame = result.drop_columns([*files, *dropped]).to_pandas(**kwargs)
    if len(frame) != result.num_rows:
        frame = frame.reindex(range(result.num_rows))
    for position, name in enumerate(name for name, _ in plan.outputs if name not in dropped):
        if name in files:
            frame.insert(position, name, files[name])
    return frame


def _files(table: TableReader, field: Field, column: pa.ChunkedArray, owners: Indices) -> list[Any]:
    """A column as Python values, blobs as files, also where they are inside structs."""
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return _files_in(table, field, whole, owners)


def _files_in(table: TableReader, field: Field, array: pa.Array, owners: Indices) -> list[Any]:
    if field.is_blob or field.is_blob_v2:
        files: list[Any] = [None] * len(array)
        for owner in np.unique(owners).tolist():
            here = np.flatnonzero(owners == owner)
            blobs = find_blobs(table.reader(owner), field, array.take(pa.array(here)))
            for index, blob in zip(here.tolist(), blobs, strict=True):
                files[index] = None if blob is None else BlobFile(blob)
        return files
    if not has_blobs(field):
        values: list[Any] = array.to_pylist()
        return values
    children = [_files_in(table, child, array.field(i), owners) for i, child in enumerate(field.children)]
    names = [child.name for child in field.children]
    valid = array.is_valid().to_pylist()
    return [
        dict(zip(names, values, strict=True)) if ok else None
        for ok, values in zip(valid, zip(*children, strict=True), strict=True)
    ]


class _Piece(StoredBlob):
    """A part of a blob."""

    __slots__ = ()

    def __init__(self, blob: StoredBlob, offset: int, length: int) -> None:
        super().__init__(lambda: blob.source, blob.position + offset, length)


def _blobs_of(
    table: TableReader, column: str, selector: str, rows: object
) -> tuple[list[StoredBlob | None], npt.NDArray[np.uint64]]:
    """The blobs of some rows and the addresses of the rows."""
    schema = table.snapshot.manifest.schema
    chain = schema.resolve(column if column not in schema.names else (column,))
    field = chain[-1]
    if not (field.is_blob or field.is_blob_v2):
        raise InvalidInput(f"the column '{column}' is not a blob column; it is a {field.logical_type}")
    owners, offsets = _located(table, selector, row_numbers(rows))
    numbers = table.snapshot.manifest.fragments.ids
    addresses = (numbers[owners].astype(np.uint64) << np.uint64(32)) | offsets.astype(np.uint64)
    (top,) = schema.project([tuple(node.name for node in chain)]).fields
    blobs: list[StoredBlob | None] = [None] * len(owners)
    for owner in np.unique(owners).tolist():
        here = np.flatnonzero(owners == owner)
        distinct, back = np.unique(offsets[here], return_inverse=True)
        reader = table.reader(owner)
        (values,) = reader.read([top], RowIndices(distinct))
        array = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
        stored = find_blobs(reader, field, _descend(array, len(chain) - 1))
        for index, source in zip(here.tolist(), back.tolist(), strict=True):
            blobs[index] = stored[source]
    return blobs, addresses


def _descend(array: pa.Array, depth: int) -> pa.Array:
    """The only leaf of nested structs; null wherever a parent is."""
    for _ in range(depth):
        (array,) = array.flatten()
    return array


def _located(table: TableReader, selector: str, rows: Indices) -> tuple[Indices, Indices]:
    if selector == "indices":
        return table.locate(rows)
    numbers = rows.astype(np.uint64)
    if selector == "addresses":
        return table.locate_addresses(numbers)
    owners, offsets, live = table.locate_ids(numbers)
    if not live.all():
        missing = int(numbers[np.flatnonzero(~live)[0]])
        raise RowNotFound(f"row id {missing} was deleted or is not in version {table.snapshot.version} of the table")
    return owners, offsets


def _check_range(offset: int, length: int, size: int, where: str = "") -> None:
    if offset < 0 or length < 0:
        raise RowNotFound(f"{where}an offset and a length cannot be negative, got ({offset}, {length})")
    if offset + length > size:
        raise InvalidInput(f"{where}the range ends at byte {offset + length}, the blob has {size}")


def _buffer_size(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int):
        raise InvalidType(f"buffer_size is a number of bytes, not {size!r}")
    if size < 0:
        raise InvalidInput(f"buffer_size cannot be negative, got {size}")
    return size

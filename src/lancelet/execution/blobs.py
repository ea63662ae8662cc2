"""From blob descriptors to bytes (spec encodings.md 7.5).

===============  =====================================================================================
descriptor       bytes
===============  =====================================================================================
first kind       ``size`` bytes at ``position`` of the data file; size 0 is empty at 0, null elsewhere
second, kind 0   the same, and any position is good for an empty value
second, kind 1   a range of a file that many blobs share: ``<data file>/<blob_id>.blob``
second, kind 2   a file of the blob's own, named alike
second, kind 3   ``blob_uri``, absolute or below the base path ``blob_id``; size 0 is the whole object
second, kind 4   ``blob_uri`` below the base path ``blob_id``, or below the table when that is 0
===============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import Bytes
from lancelet.errors import CorruptFile, NotSupported
from lancelet.execution.fragment_reader import Column, FragmentReader
from lancelet.execution.shown import BlobForm, scan_field
from lancelet.format.blob_types import DEDICATED, EXTERNAL, INLINE, MANAGED, PACKED, side_file
from lancelet.format.schema import Field
from lancelet.store import ByteSource
from lancelet.table.manifest.paths import FilePlace, check_inside

_NOTHING: Bytes = np.empty(0, np.uint8)


class StoredBlob:
    """One value of a blob column. Its file is opened when somebody reads it."""

    __slots__ = ("_open", "_size", "_source", "position")

    def __init__(self, source: Callable[[], ByteSource], position: int, size: int | None) -> None:
        self.position = position
        self._open = source
        self._size = size
        self._source: ByteSource | None = None

    @property
    def source(self) -> ByteSource:
        if self._source is None:
            self._source = self._open()
        return self._source

    @property
    def size(self) -> int:
        """Bytes; an external object may have to be asked for them."""
        if self._size is None:
            self._size = max(self.source.size - self.position, 0)
        return self._size

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Bytes]:
        """Bytes of (offset, length) pairs inside the blob."""
        return self.source.read([(self.position + offset, length) for offset, length in ranges])


def has_blobs(field: Field) -> bool:
    """Whether a field is a blob, or a struct with blobs in it."""
    if field.is_blob or field.is_blob_v2:
        return True
    return field.logical_type == "struct" and any(has_blobs(child) for child in field.children)


def find_blobs(reader: FragmentReader, field: Field, descriptors: pa.StructArray) -> list[StoredBlob | None]:
    """The blobs that descriptors of one fragment stand for."""
    if reader.fragment.overlays and any(field.id in overlay.file.fields for overlay in reader.fragment.overlays):
        raise NotSupported(f"blobs of column '{field.name}' have overlays, which lancelet does not read yet")
    if len(descriptors) == 0 or descriptors.null_count == len(descriptors):
        return [None] * len(descriptors)
    places = _Places(reader, field)
    valid = descriptors.is_valid().to_pylist() if descriptors.null_count else [True] * len(descriptors)
    parts = [descriptors.field(i).to_pylist() for i in range(descriptors.type.num_fields)]
    if field.is_blob:
        return [
            None if not ok or (size == 0 and position) else StoredBlob(places.data_file, position, size)
            for ok, position, size in zip(valid, *parts, strict=True)
        ]
    return [
        None if not ok or row[0] is None else places.locate(*row)
        for ok, row in zip(valid, zip(*parts, strict=True), strict=True)
    ]


def read_blobs(blobs: Sequence[StoredBlob | None]) -> list[Bytes | None]:
    """The bytes of many blobs, with one read for each file."""
    found: list[Bytes | None] = [None] * len(blobs)
    by_file: dict[int, list[int]] = {}
    for index, blob in enumerate(blobs):
        if blob is None:
            continue
        if blob.size == 0:
            found[index] = _NOTHING
        else:
            by_file.setdefault(id(blob.source), []).append(index)
    for members in by_file.values():
        chosen = [blob for index in members if (blob := blobs[index]) is not None]
        parts = chosen[0].source.read([(blob.position, blob.size) for blob in chosen])
        for index, part in zip(members, parts, strict=True):
            found[index] = part
    return found


def as_binary(reader: FragmentReader, field: Field, column: Column) -> pa.Array:
    """A column of descriptors, or of structs with descriptors in them, with the bytes in their place."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if field.is_blob or field.is_blob_v2:
        return binary_of(read_blobs(find_blobs(reader, field, array)))
    if not has_blobs(field):
        return array
    children = [as_binary(reader, child, array.field(i)) for i, child in enumerate(field.children)]
    dtype = scan_field(field, BlobForm.BINARY).type
    return pa.StructArray.from_arrays(children, fields=list(dtype), mask=array.is_null() if array.null_count else None)


def binary_of(values: Sequence[Bytes | None]) -> pa.Array:
    """Payloads as one array."""
    lengths = np.fromiter((0 if v is None else len(v) for v in values), np.int64, len(values))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    parts = [v for v in values if v is not None and len(v)]
    data = np.concatenate(parts) if parts else _NOTHING
    validity = None
    if any(v is None for v in values):
        validity = pa.array([v is not None for v in values]).buffers()[1]
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


class _Places:
    """Files of the blobs of one column in one fragment; a file that many blobs share is opened once."""

    def __init__(self, reader: FragmentReader, field: Field) -> None:
        self._reader = reader
        self._holder = reader.holder(field)
        self._opened: dict[str, ByteSource] = {}

    def data_file(self) -> ByteSource:
        if self._holder is None:
            raise CorruptFile(self._reader.snapshot.manifest.path, "no file has the blob column")
        return self._reader.files[self._holder].source

    def locate(self, kind: int, position: int, size: int, number: int, uri: str) -> StoredBlob:
        if kind == INLINE:
            return StoredBlob(self.data_file, position, size)
        if kind in (PACKED, DEDICATED):
            return StoredBlob(partial(self._open, self._sidecar(number)), position, size)
        if kind == EXTERNAL:
            return StoredBlob(partial(self._open, self._external(number, uri)), position, size or None)
        if kind == MANAGED:
            return StoredBlob(partial(self._open, self._below(number or None, uri)), position, size)
        raise NotSupported(f"{self.data_file().path}: blobs of kind {kind} are not known")

    def _open(self, place: FilePlace) -> ByteSource:
        path = place.full_path
        source = self._opened.get(path)
        if source is None:
            source = self._opened.setdefault(path, place.open())
        return source

    def _sidecar(self, number: int) -> FilePlace:
        assert self._holder is not None, "descriptors come from a file"
        file = self._reader.fragment.files[self._holder]
        place = self._reader.snapshot.places.data_file(file)
        return FilePlace(place.store, side_file(place.path, number))

    def _external(self, base_id: int, uri: str) -> FilePlace:
        if base_id:
            return self._below(base_id, uri)
        _, slash, name = uri.rpartition("/")
        if not slash or not name:
            raise CorruptFile(self.data_file().path, f"an external blob is at {uri!r}, which names no object")
        return self._reader.snapshot.places.external(uri)

    def _below(self, base_id: int | None, path: str) -> FilePlace:
        snapshot = self._reader.snapshot
        check_inside(path, self.data_file().path)
        return FilePlace(snapshot.places.data_folder(base_id).store, path)

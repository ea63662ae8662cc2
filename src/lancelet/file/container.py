"""The container of 2.x files (spec file-format.md 1).

::

    data buffers | FileDescriptor | column metadata 0..C-1 | CMO table | GBO table | footer
                                                            {u64 position, u64 size} each

    footer, 40 bytes:  u64 column metadata 0 | u64 CMO | u64 GBO | u32 G | u32 C | u16 major | u16 minor | "LANC"
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from lancelet.encoding.fetch import Reader
from lancelet.encoding.rows import Bytes, Indices
from lancelet.errors import CorruptFile, NotSupported
from lancelet.format.file_versions import version_numbered
from lancelet.format.proto import column_pb2, file_pb2
from lancelet.format.schema import Schema

MAGIC = b"LANC"
SMALL_BYTES = 64 << 10
TAIL_BYTES = 60 << 10
_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
_NEAR_BYTES = 4096


def tail_length(size: int) -> int:
    """How much of the end of a file to read first: small files come whole, of others what most metadata fits into."""
    return size if size <= SMALL_BYTES else TAIL_BYTES


def file_version(major: int, minor: int, path: str) -> str:
    """The one name of a file version that footers and manifests number differently."""
    version = version_numbered(major, minor)
    if version is None:
        raise NotSupported(
            f"{path}: Unknown Lance storage version: {major}.{minor}; a newer version of lancelet may read it"
        )
    return version


def version_of_footer(tail: Bytes, path: str) -> str:
    """The file version that the last bytes of a file name."""
    if len(tail) < 8 or tail[-4:].tobytes() != MAGIC:
        raise CorruptFile(path, "it does not end with LANC, so it is not a Lance file or was cut short", "footer")
    major, minor = struct.unpack("<HH", tail[-8:-4].tobytes())
    return file_version(major, minor, path)


@dataclass(frozen=True, slots=True)
class Container:
    """What the end of a 2.x file says about the rest."""

    path: str
    version: str
    size: int
    columns: Indices
    """Position and size of each column's metadata."""
    global_buffers: Indices
    """Position and size of each global buffer."""
    tail: Bytes
    """The last bytes of the file, kept for the metadata in them."""

    @classmethod
    def read(cls, source: Reader, size: int, path: str, tail: Bytes | None = None) -> Container:
        """Read the footer and both tables."""
        if size < _FOOTER.size:
            raise CorruptFile(path, f"{size} bytes are too few for a Lance file", "footer")
        if tail is None:
            length = tail_length(size)
            (tail,) = source.read([(size - length, length)])
        version = version_of_footer(tail, path)
        first, cmo, gbo, buffers, columns, _, _, _ = _FOOTER.unpack(tail[-_FOOTER.size :].tobytes())
        end = size - _FOOTER.size
        if cmo + columns * 16 > end or gbo + buffers * 16 > end or first > end:
            raise CorruptFile(path, f"tables of {columns} columns and {buffers} buffers do not fit", "footer")
        base, start = size - len(tail), min(cmo, gbo, first)
        if start < base:
            if buffers and gbo >= base:
                # The file descriptor usually lies right before the columns' metadata.
                at, length = _ENTRY.unpack(tail[gbo - base : gbo - base + _ENTRY.size].tobytes())
                start = at if at < start <= at + length + _NEAR_BYTES else start
            (tail,) = source.read([(start, size - start)])
            base = start
        tables = [
            np.frombuffer(tail[at - base : at - base + count * 16], "<u8").reshape(count, 2)
            for at, count in ((cmo, columns), (gbo, buffers))
        ]
        for name, table in zip(("column metadata", "global buffer"), tables, strict=True):
            if len(table) and ((table > size).any() or (table[:, 0] + table[:, 1] > size).any()):
                raise CorruptFile(path, f"a {name} lies outside of the file", "footer")
        return cls(path, version, size, tables[0].astype(np.int64), tables[1].astype(np.int64), tail)

    @property
    def nbytes(self) -> int:
        """Bytes that it holds in memory."""
        return self.tail.nbytes + self.columns.nbytes + self.global_buffers.nbytes

    def piece(self, source: Reader, position: int, size: int) -> bytes:
        """Bytes of metadata, from the tail where it holds them."""
        base = self.size - len(self.tail)
        if position >= base:
            return self.tail[position - base : position - base + size].tobytes()
        (data,) = source.read([(position, size)])
        return data.tobytes()

    def column(self, source: Reader, index: int) -> column_pb2.ColumnMetadata:
        """Pages and buffers of one column."""
        if not 0 <= index < len(self.columns):
            raise CorruptFile(self.path, f"the manifest names column {index} of {len(self.columns)}", "columns")
        position, size = self.columns[index].tolist()
        try:
            return column_pb2.ColumnMetadata.FromString(self.piece(source, position, size))
        except DecodeError as error:
            raise CorruptFile(self.path, f"column metadata does not parse: {error}", f"column {index}") from None

    def descriptor(self, source: Reader) -> file_pb2.FileDescriptor:
        """Schema and number of rows."""
        if len(self.global_buffers) == 0:
            raise CorruptFile(self.path, "it has no file descriptor", "global buffer 0")
        position, size = self.global_buffers[0].tolist()
        try:
            return file_pb2.FileDescriptor.FromString(self.piece(source, position, size))
        except DecodeError as error:
            raise CorruptFile(self.path, f"the file descriptor does not parse: {error}", "global buffer 0") from None

    def schema(self, source: Reader) -> Schema:
        """The schema in the file."""
        message = self.descriptor(source).schema
        return Schema.from_proto(message.fields, message.metadata, path=self.path)

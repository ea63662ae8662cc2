"""One open data file of any version, ready to read rows of its fields."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from lancelet.encoding.fetch import FileBytes, Place, gather
from lancelet.encoding.rows import Bytes, Decode, Ranges, Rows
from lancelet.encoding.v2_1.assemble import leaf_types, read_field
from lancelet.encoding.v2_1.column import LeafColumn, LeafType
from lancelet.errors import CorruptFile
from lancelet.file.container import TAIL_BYTES, Container, version_of_footer
from lancelet.format.schema import Field, Schema
from lancelet.store import ByteSource


class FileReader(Protocol):
    """What the versions have in common. ``columns`` maps field ids to column numbers, as the manifest says."""

    @property
    def version(self) -> str: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """Memory held between reads."""
        ...

    def read(self, field: Field, columns: Mapping[int, int], rows: Rows) -> Decode:
        """One top-level field, its subtree possibly pruned."""
        ...

    def row_bytes(self, field: Field, columns: Mapping[int, int]) -> float:
        """Roughly how many bytes of the file one row of a field takes."""
        ...


def open_file(source: ByteSource) -> FileReader:
    """Read the end of a file and choose the reader of its version."""
    if source.size < 16:
        raise CorruptFile(source.path, f"{source.size} bytes are too few for a Lance file", "footer")
    length = min(source.size, TAIL_BYTES)
    (tail,) = source.read([(source.size - length, length)])
    version = version_of_footer(tail, source.path)
    container = Container.read(source, source.size, source.path, tail)
    return StructuralFile(source, container)


class StructuralFile:
    """A file of version 2.1 or later: one column a leaf, nesting in levels."""

    __slots__ = ("_bytes", "_columns", "_container", "_source", "num_rows", "version")

    def __init__(self, source: ByteSource, container: Container) -> None:
        self._source = source
        self._container = container
        self._bytes = FileBytes(source.path, source.size, source.mapped)
        self._columns: dict[tuple[int, LeafType], LeafColumn] = {}
        self.version = container.version
        self.num_rows = int(container.descriptor(source).length)

    @property
    def nbytes(self) -> int:
        return self._container.nbytes + sum(column.nbytes for column in list(self._columns.values()))

    def schema(self) -> Schema:
        return self._container.schema(self._source)

    def read(self, field: Field, columns: Mapping[int, int], rows: Rows) -> Decode:
        found = self._leaves(field, columns)
        return read_field(field, found, rows, Place(self._source.path))

    def row_bytes(self, field: Field, columns: Mapping[int, int]) -> float:
        return sum(leaf.stored_bytes for leaf in self._leaves(field, columns).values()) / max(self.num_rows, 1)

    def _leaves(self, field: Field, columns: Mapping[int, int]) -> dict[int, LeafColumn]:
        found = {}
        for leaf_id, leaf in leaf_types(field).items():
            index = columns.get(leaf_id)
            if index is None:
                continue
            column = self._columns.get((index, leaf))
            if column is None:
                column = LeafColumn(self._container.column(self._source, index), index, leaf, self._bytes)
                if column.rows != self.num_rows:
                    raise CorruptFile(
                        self._source.path, f"its pages hold {column.rows} of {self.num_rows} rows", f"column {index}"
                    )
                self._columns[index, leaf] = column
            found[leaf_id] = column
        return found


def read_fields(
    reader: FileReader, fields: Sequence[Field], columns: Mapping[int, int], rows: Rows
) -> Generator[Ranges, list[Bytes], list[pa.Array]]:
    """Several fields side by side."""
    return (yield from gather([reader.read(field, columns, rows) for field in fields]))

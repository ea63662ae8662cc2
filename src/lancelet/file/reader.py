"""One open data file of any version, ready to read rows of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, overload

import pyarrow as pa

from lancelet.encoding.fetch import FileBytes
from lancelet.encoding.grammars import open_page
from lancelet.encoding.kernels.page_plans import PagePlans
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Decode, RowRange, Rows
from lancelet.encoding.v2_1.assemble import leaf_types, read_field
from lancelet.encoding.v2_1.column import LeafColumn, LeafType, Records
from lancelet.encoding.v2_1.leaf_batch import BoundBatch, LeafBatch
from lancelet.errors import CorruptFile
from lancelet.file.container import Container, tail_length, version_of_footer
from lancelet.format.file_versions import LEGACY, V2_0
from lancelet.format.proto import column_pb2
from lancelet.format.schema import Field, Schema
from lancelet.store import ByteSource, Extent

_WIDE_BYTES = 256
_LEGACY_BYTES = 4096
_MAX_BOUND = 4096


class FileReader(Protocol):
    """What the versions have in common."""

    @property
    def version(self) -> str:
        """The file version, such as 2.1."""

    @property
    def num_rows(self) -> int:
        """How many rows the file has."""

    @property
    def nbytes(self) -> int:
        """Memory held between reads."""

    def schema(self) -> Schema:
        """The file's own schema."""

    def read(self, field: Field, rows: Rows) -> Decode:
        """One top-level field, its subtree possibly pruned; what the manifest does not give to the file is null."""

    def check(self, field: Field) -> None:
        """Refuse a field of which the manifest says that the file has it, and the file has not."""

    def row_bytes(self, field: Field) -> tuple[float, float]:
        """Roughly the bytes that a row of a field takes in the file, and in memory once decoded."""


def open_file(source: ByteSource, columns: Mapping[int, int] | None = None) -> FileReader:
    """Read the end of a file and choose the reader of its version.

    ``columns`` maps field ids to column numbers, as the table's manifest says; without it the file's own schema counts.
    For a legacy file the numbers are places in the manifest's list of its fields.
    """
    if source.size < 16:
        raise CorruptFile(source.path, f"{source.size} bytes are too few for a Lance file", "footer")
    length = tail_length(source.size)
    (tail,) = source.read([(source.size - length, length)])
    version = version_of_footer(tail, source.path)
    if version == LEGACY:
        return LegacyFile(source, columns)
    container = Container.read(source, source.size, source.path, tail)
    if version == V2_0:
        return FlatFile(source, container, columns)
    return StructuralFile(source, container, columns)


class StructuralFile:
    """A file of version 2.1 or later: one column a leaf, nesting in levels."""

    __slots__ = (
        "_batch",
        "_bound",
        "_bytes",
        "_column_of",
        "_columns",
        "_container",
        "_place",
        "_plans",
        "_source",
        "num_rows",
        "version",
    )

    def __init__(self, source: ByteSource, container: Container, columns: Mapping[int, int] | None) -> None:
        self._source = source
        self._container = container
        pieces = source.read_pieces if source.mapped is not None else None
        self._bytes = FileBytes(source.path, source.size, source.mapped, pieces)
        self._columns: dict[tuple[int, LeafType], LeafColumn] = {}
        self._bound: dict[int, tuple[Field, dict[int, LeafColumn]]] = {}
        self._batch: BoundBatch | None = None
        self._place = Place(source.path)
        self.version = container.version
        self.num_rows = int(container.descriptor(source).length)
        self._plans = None if source.mapped is None else PagePlans(source.mapped, container.columns, self.num_rows)
        if columns is None:
            owners = [leaf_id for field in self.schema().fields for leaf_id in leaf_types(field)]
            columns = {field_id: index for index, field_id in enumerate(owners)}
        self._column_of = columns

    @property
    def nbytes(self) -> int:
        plans = 0 if self._plans is None else self._plans.nbytes
        return self._container.nbytes + plans + sum(column.nbytes for column in list(self._columns.values()))

    def schema(self) -> Schema:
        return self._container.schema(self._source)

    def read(self, field: Field, rows: Rows) -> Decode:
        return read_field(field, self._leaves(field), rows, self._place)

    def batch(self, fields: Sequence[Field]) -> BoundBatch | None:
        """Some fields of a mapped file, to read few rows of all of them in one go; kept while the same are asked for."""
        if self._plans is None:
            return None
        leaves = LeafBatch.of(fields)
        # Other threads may ask for other fields meanwhile.
        batch = self._batch
        if batch is None or batch.leaves is not leaves:
            batch = self._batch = leaves.bind(self._plans, self._column_of, self._place)
        return batch

    def check(self, field: Field) -> None:
        self._leaves(field)

    def records(self, field: Field) -> Records | None:
        """Where the values of a column of lists of fixed size lie in a mapped file, if they do as they are."""
        leaves = self._leaves(field)
        return leaves[field.id].records() if len(leaves) == 1 and field.id in leaves else None

    def extents(self, field: Field, rows: RowRange) -> list[list[Extent]]:
        """Of each column of a field, where the pages lie of which all rows are in a range."""
        return [
            [Extent(start, stop, inside.start, inside.stop) for start, stop, inside in leaf.extents(rows)]
            for leaf in self._leaves(field).values()
        ]

    def row_bytes(self, field: Field) -> tuple[float, float]:
        stored = self._stored_bytes(field) / max(self.num_rows, 1)
        # Wide plain values of a mapped file are handed out as they lie there.
        viewed = (
            self._bytes.mapped is not None
            and field.owns_column
            and stored >= _WIDE_BYTES
            and pa.types.is_fixed_size_list(field.arrow_type)
        )
        return stored, 0 if viewed else 2 * stored

    def _stored_bytes(self, field: Field) -> int:
        index = self._column_of.get(field.id, -1)
        if self._plans is not None and not field.children and (stored := self._plans.stored_bytes(index)) >= 0:
            return stored
        return sum(leaf.stored_bytes for leaf in self._leaves(field).values())

    def _leaves(self, field: Field) -> dict[int, LeafColumn]:
        """The columns of a field; kept for as long as the same field object is asked for."""
        bound = self._bound.get(id(field))
        if bound is None or bound[0] is not field:
            if len(self._bound) >= _MAX_BOUND:
                self._bound = {}
            bound = self._bound[id(field)] = (field, self._find_leaves(field))
        return bound[1]

    def _find_leaves(self, field: Field) -> dict[int, LeafColumn]:
        found = {}
        for leaf_id, leaf in leaf_types(field).items():
            index = self._column_of.get(leaf_id)
            if index is None:
                continue
            if not 0 <= index < len(self._container.columns):
                raise _no_column(self._source.path, field, leaf_id, index, len(self._container.columns))
            column = self._columns.get((index, leaf))
            if column is None:
                column = LeafColumn(self._container.column(self._source, index), index, leaf, self._bytes, open_page)
                if column.rows != self.num_rows:
                    raise CorruptFile(
                        self._source.path, f"its pages hold {column.rows} of {self.num_rows} rows", f"column {index}"
                    )
                self._columns[index, leaf] = column
            found[leaf_id] = column
        for node in field.walk():
            self._check_parent(node, found)
        return found

    def _check_parent(self, node: Field, found: Mapping[int, LeafColumn]) -> None:
        """Refuse a field that the manifest gives to the file without any of its leaves, and a map without keys."""
        if node.owns_column:
            return
        index = self._column_of.get(node.id)
        if index is not None and not any(below.id in found for below in node.walk()):
            raise _no_column(self._source.path, node, node.id, index, len(self._container.columns))
        if node.logical_type == "map":
            key, value = node.key_and_value
            halves = [any(below.id in found for below in half.walk()) for half in (key, value)]
            if halves[0] != halves[1]:
                lost = value if halves[0] else key
                raise CorruptFile(
                    self._source.path, f"the manifest says that it has a map without its {lost.name}", f"'{node.name}'"
                )


class FlatFile:
    """A file of version 2.0: one column a field."""

    __slots__ = ("_container", "_reader", "_source", "num_rows", "version")

    def __init__(self, source: ByteSource, container: Container, columns: Mapping[int, int] | None) -> None:
        self._source = source
        self._container = container
        self.version = container.version
        self.num_rows = int(container.descriptor(source).length)
        # Old versions are only loaded when a file has them: it keeps the first use of a new table quick.
        from lancelet.encoding.v2_0.reader import ColumnReader20

        schema = self.schema()
        if columns is None:
            columns = {field_id: index for index, field_id in enumerate(_flat_owners(schema.fields))}
        self._reader = ColumnReader20(
            source.path,
            _Columns(container, source),
            columns,
            source.size,
            schema=schema,
            file_buffers=[(int(start), int(size)) for start, size in container.global_buffers],
            **({"gap": source.size} if source.mapped is not None else {}),
        )

    @property
    def nbytes(self) -> int:
        return self._container.nbytes

    def schema(self) -> Schema:
        return self._container.schema(self._source)

    def read(self, field: Field, rows: Rows) -> Decode:
        return self._reader.read(field, rows)

    def check(self, field: Field) -> None:
        for node in field.walk():
            self._reader.check(node)

    def row_bytes(self, field: Field) -> tuple[float, float]:
        each = self._source.size / max(self.num_rows, 1) / max(len(self._container.columns), 1)
        return each, each


class LegacyFile:
    """A file of version 0.1."""

    __slots__ = ("_reader", "_source", "version")

    def __init__(self, source: ByteSource, columns: Mapping[int, int] | None) -> None:
        from lancelet.encoding.legacy.reader import LegacyReader

        self._source = source
        self._reader = LegacyReader(source, field_ids=_listed(columns or {}))
        self.version = LEGACY

    @property
    def num_rows(self) -> int:
        return self._reader.num_rows

    @property
    def nbytes(self) -> int:
        return _LEGACY_BYTES

    @property
    def groups(self) -> tuple[int, ...]:
        """Rows of each batch."""
        return self._reader.batch_rows

    def schema(self) -> Schema:
        if self._reader.schema is None:
            raise CorruptFile(self._source.path, "it has no schema of its own; open it through its table")
        return self._reader.schema

    def read(self, field: Field, rows: Rows) -> Decode:
        return self._reader.read(field, rows)

    def check(self, field: Field) -> None:
        self._reader.check(field)

    def row_bytes(self, field: Field) -> tuple[float, float]:
        each = self._source.size / max(self.num_rows, 1)
        return each, each


class _Columns(Sequence[column_pb2.ColumnMetadata]):
    """Column metadata, parsed when first asked for."""

    def __init__(self, container: Container, source: ByteSource) -> None:
        self._container = container
        self._source = source
        self._parsed: dict[int, column_pb2.ColumnMetadata] = {}

    def __len__(self) -> int:
        return len(self._container.columns)

    @overload
    def __getitem__(self, index: int) -> column_pb2.ColumnMetadata: ...
    @overload
    def __getitem__(self, index: slice) -> list[column_pb2.ColumnMetadata]: ...
    def __getitem__(self, index: int | slice) -> column_pb2.ColumnMetadata | list[column_pb2.ColumnMetadata]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index not in self._parsed:
            self._parsed[index] = self._container.column(self._source, index)
        return self._parsed[index]


def _flat_owners(fields: Sequence[Field]) -> list[int]:
    """Ids of the fields that own a column in a 2.0 file, in the order of the columns."""
    owners = []
    for field in fields:
        owners.append(field.id)
        if not field.is_packed:
            owners.extend(_flat_owners(field.children))
    return owners


def _listed(places: Mapping[int, int]) -> list[int]:
    """The fields of a legacy file in the manifest's order; -2 where it has none."""
    listed = [-2] * (max(places.values(), default=-1) + 1)
    for field_id, place in places.items():
        listed[place] = field_id
    return listed


def _no_column(path: str, field: Field, field_id: int, index: int, columns: int) -> CorruptFile:
    name = next(node.name for node in field.walk() if node.id == field_id)
    where = f"as column {index}" if index >= 0 else "without a column"
    return CorruptFile(
        path,
        f"the manifest says that it has field {field_id} {where}, but its columns are {columns}",
        f"field '{name}'",
    )

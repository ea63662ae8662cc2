"""Columns that tables with blobs have besides: ``<column>__blob_pos``, ``<column>__blob_size`` and ``<column>__blob_bytes``.

The first two tell where a blob is in its file, and how long it is; the last one is read whole. SQL knows it as
``lance_blob(column)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from lancelet.format.extensions import storage_of
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    from lancelet.format.schema import Schema

BYTES = "bytes"
_PARTS = {"pos": "position", "size": "size"}
_MARK = "__blob_"
_COMMENTS = {
    "pos": "where the blob of {} begins in its file",
    "size": "how many bytes the blob of {} has",
    BYTES: "the blob of {}, read whole",
}


@dataclass(frozen=True, slots=True)
class BlobColumn:
    """One of these columns."""

    name: str
    source: str
    """The column of blobs."""
    part: str
    """``pos``, ``size`` or ``bytes``."""

    @property
    def field(self) -> st.StructField:
        """The column of Spark."""
        dtype = st.BinaryType() if self.part == BYTES else st.LongType()
        return st.StructField(self.name, dtype, True, {"comment": _COMMENTS[self.part].format(self.source)})


def blob_columns(schema: Schema) -> list[BlobColumn]:
    """Those of a table, but for names that it has columns of."""
    found = [
        BlobColumn(f"{field.name}{_MARK}{part}", field.name, part)
        for field in schema.fields
        if field.is_blob or field.is_blob_v2
        for part in _COMMENTS
    ]
    return [column for column in found if column.name not in schema.names]


def wanted_columns(requested: st.StructType, schema: Schema) -> tuple[BlobColumn, ...]:
    """Those that a read asks for."""
    names = [name for name in requested.names if _MARK in name]
    return tuple(column for column in blob_columns(schema) if column.name in names) if names else ()


def with_parts(batches: Iterable[pa.RecordBatch], columns: Sequence[BlobColumn]) -> Iterator[pa.RecordBatch]:
    """Batches in which descriptors have become the parts of them that are asked for."""
    parts = {column.name: _PARTS[column.part] for column in columns if column.part != BYTES}
    for batch in batches:
        arrays = [
            _part(column, parts[name]) if name in parts else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _part(descriptors: pa.Array, name: str) -> pa.Array:
    stored = storage_of(descriptors)
    return pc.struct_field(stored, [stored.type.get_field_index(name)]).cast(pa.int64())

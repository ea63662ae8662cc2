"""Blobs on their way into other files.

Descriptors point into a data file or beside it, so what a table keeps itself is read and
written anew. What is outside of the table stays there: its reference is carried over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import arrow_array, numpy_array
from lancelet.execution.blobs import as_binary, binary_of, find_blobs, has_blobs, read_blobs
from lancelet.execution.costs import BLOB_PIECE_BYTES
from lancelet.format.blob_types import EXTERNAL
from lancelet.runtime import compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.format.schema import Field, Schema

_REFERENCE = pa.struct(
    [
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("blob_id", pa.uint32()),
    ]
)


def blob_pieces(reader: FragmentReader, schema: Schema, rows: pa.Table) -> Iterator[pa.Table]:
    """Rows of one fragment with the bytes of their blobs, in pieces that fit into memory."""
    fields = {at: field for at, field in enumerate(schema.fields) if has_blobs(field)}
    rows = rows.combine_chunks()
    sizes = sum((_sizes(field, _array(rows.column(at))) for at, field in fields.items()), np.zeros(len(rows), np.int64))
    # The number of the piece that each row belongs to.
    number = (np.cumsum(sizes) - sizes) // BLOB_PIECE_BYTES
    starts = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        piece = rows.slice(start, stop - start)
        for at, field in fields.items():
            piece = piece.set_column(at, field.name, _carried(reader, field, _array(piece.column(at))))
        yield piece


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _sizes(field: Field, array: pa.StructArray) -> npt.NDArray[np.int64]:
    """Bytes of the blobs in each row."""
    if field.is_blob or field.is_blob_v2:
        sizes = numpy_array(array.field("size").fill_null(0)).astype(np.int64)
        if field.is_blob_v2:
            sizes[_are_external(array)] = 0
        return sizes
    total: npt.NDArray[np.int64] = np.zeros(len(array), np.int64)
    for at, child in enumerate(field.children):
        if has_blobs(child):
            total += _sizes(child, array.field(at))
    return total


def _are_external(descriptors: pa.StructArray) -> npt.NDArray[np.bool_]:
    marks: npt.NDArray[np.bool_] = numpy_array(pc.equal(descriptors.field("kind"), EXTERNAL).fill_null(False))
    if descriptors.null_count:
        marks = marks & numpy_array(descriptors.is_valid())
    return marks


def _carried(reader: FragmentReader, field: Field, array: pa.StructArray) -> pa.Array:
    """A column of descriptors as a writer takes it."""
    if field.is_blob_v2:
        outside = _are_external(array)
        return _with_references(reader, field, array, outside) if outside.any() else as_binary(reader, field, array)
    if field.is_blob:
        return as_binary(reader, field, array)
    if not has_blobs(field):
        return array
    children = [_carried(reader, child, array.field(at)) for at, child in enumerate(field.children)]
    fields = [pa.field(child.name, made.type) for child, made in zip(field.children, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)


def _with_references(
    reader: FragmentReader, field: Field, array: pa.StructArray, outside: npt.NDArray[np.bool_]
) -> pa.Array:
    blobs = find_blobs(reader, field, array)
    payloads = read_blobs([None if out else blob for blob, out in zip(blobs, outside.tolist(), strict=True)])
    marks = arrow_array(outside)
    parts = [
        binary_of(payloads),
        pc.if_else(marks, array.field("blob_uri"), pa.scalar(None, pa.string())),
        array.field("position"),
        array.field("size"),
        pc.if_else(marks, array.field("blob_id"), pa.scalar(0, pa.uint32())),
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(_REFERENCE), mask=mask)

"""How stored columns look to those who scan them.

===============  ======================================  ====================================
field            stored                                  scanned
===============  ======================================  ====================================
JSON             JSONB in large binary                   text of the type ``arrow.json``
blob, first      (position, size) in a column            the same, as descriptors
blob, second     descriptor struct                       the same, as descriptors
the rest         storage type                            the same, or its extension type
===============  ======================================  ====================================
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import pyarrow as pa

from lancelet.encoding.jsonb import decode_jsonb
from lancelet.format.logical_types import EXTENSION_NAME
from lancelet.format.schema import BLOB_KEY, BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR, Field

_JSON_METADATA = {EXTENSION_NAME: "arrow.json", "ARROW:extension:metadata": ""}


class BlobForm(enum.Enum):
    """How blobs are shown."""

    DESCRIPTOR = enum.auto()
    BINARY = enum.auto()
    LOGICAL = enum.auto()
    """As the schema has them."""


def scan_field(field: Field, blobs: BlobForm = BlobForm.DESCRIPTOR, *, json: bool = True) -> pa.Field:
    """The Arrow field of a scan; extension types are still names in its metadata. Without ``json``, JSON is as stored."""
    is_blob = field.is_blob or field.is_blob_v2
    if is_blob and blobs is BlobForm.LOGICAL:
        return field.arrow_field
    if is_blob and blobs is BlobForm.BINARY:
        metadata = {key: value for key, value in field.metadata.items() if key != EXTENSION_NAME}
        return pa.field(field.name, pa.large_binary(), field.nullable, metadata or None)
    if field.is_blob_v2:
        return pa.field(
            field.name, BLOB_V2_DESCRIPTOR, field.nullable, {BLOB_KEY: "true", "lance-encoding:packed": "true"}
        )
    if field.is_blob:
        return pa.field(field.name, BLOB_V1_DESCRIPTOR, field.nullable, dict(field.metadata))
    if field.is_json and json:
        metadata = {key: value for key, value in field.metadata.items() if not key.startswith("ARROW:extension")}
        return pa.field(field.name, pa.string(), field.nullable, {**metadata, **_JSON_METADATA})
    if not field.children:
        return field.arrow_field
    children = [scan_field(child, blobs, json=json) for child in field.children]
    dtype = field.arrow_type
    if pa.types.is_struct(dtype):
        dtype = pa.struct(children)
    elif pa.types.is_fixed_size_list(dtype):
        dtype = pa.list_(children[0], dtype.list_size)
    elif pa.types.is_large_list(dtype):
        dtype = pa.large_list(children[0])
    elif pa.types.is_list(dtype):
        dtype = pa.list_(children[0])
    else:
        dtype = pa.map_(children[0].type.field(0).with_nullable(False), children[0].type.field(1))
    return pa.field(field.name, dtype, field.nullable, dict(field.metadata) or None)


def texts_type(chain: Sequence[Field]) -> pa.DataType:
    """The type of the values of the last of some fields, each inside of the one before: of those in items of lists, lists."""
    dtype = scan_field(chain[-1]).type
    return pa.list_(dtype) if any(field.is_list for field in chain[:-1]) else dtype


def stored_type(field: Field) -> pa.DataType:
    """What decoders return for a field."""
    return scan_field(field, json=False).type


def has_json(field: Field) -> bool:
    return field.is_json or any(map(has_json, field.children))


def show_column(field: Field, column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Turn a stored column into what scans show."""
    if not has_json(field):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_show_array(field, chunk) for chunk in column.chunks], scan_field(field).type)
    return _show_array(field, column)


def _show_array(field: Field, array: pa.Array) -> pa.Array:
    if field.is_json:
        return decode_jsonb(array)
    if not has_json(field):
        return array
    dtype = scan_field(field).type
    if pa.types.is_struct(dtype):
        children = [_show_array(child, array.field(i)) for i, child in enumerate(field.children)]
    else:
        # Offsets refer to all values, so the values are taken with the list's own offset left in place.
        children = [_show_array(field.children[0], array.values)]
        buffers = array.buffers()[: 1 if pa.types.is_fixed_size_list(dtype) else 2]
        return pa.Array.from_buffers(dtype, len(array), buffers, array.null_count, array.offset, children=children)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(dtype), mask=mask)


def resolve_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Let pyarrow find the extension types that field metadata names; nothing is copied."""
    return pa.RecordBatch._import_from_c_capsule(*batch.__arrow_c_array__())

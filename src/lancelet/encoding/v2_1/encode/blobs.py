"""Blob columns: payloads lie outside of the pages, the pages hold where (spec encodings.md 7.5).

::

    v1   struct<position, size> in chunks; size 0: empty at position 0, else null with position = def << 16 | rep
    v2   struct<kind, position, size, blob_id, blob_uri>, a variable packed struct; nulls are ordinary levels
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.encode.chunks import mini_block_page
from lancelet.encoding.v2_1.encode.messages import EncodedPage
from lancelet.encoding.v2_1.encode.records import encode_records
from lancelet.encoding.v2_1.encode.shred import Shredded
from lancelet.encoding.v2_1.encode.values import Record, Words
from lancelet.errors import NotSupported, UnfitData
from lancelet.format.logical_types import format_logical_type
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.schema import BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR, Field

INLINE, EXTERNAL = 0, 3
"""Kinds of v2 blobs that a file writer makes: in this file, or at a URI of the user's."""

_DESCRIBED = {"lance-encoding:packed": "true", "lance-encoding:blob": "true"}

Place = Callable[[Bytes], int]
"""Writes a payload into the file and says where."""


def holds_blobs(field: Field) -> bool:
    return any(node.is_blob or node.is_blob_v2 for node in field.walk())


def described_field(field: Field) -> Field:
    """The field as the file's own schema shows it: a v2 blob is the packed struct of its descriptor."""
    if not holds_blobs(field):
        return field
    if field.is_blob_v2:
        children = [Field(-1, f.name, format_logical_type(f.type), nullable=False) for f in BLOB_V2_DESCRIPTOR]
        return Field(field.id, field.name, "struct", field.nullable, tuple(children), _DESCRIBED)
    return replace(field, children=tuple(described_field(child) for child in field.children))


def place_blobs(array: pa.Array, field: Field, place: Place) -> pa.Array:
    """The column with every payload written, and descriptors in their stead."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if field.is_blob:
        return _place_v1(array, field, place)
    if field.is_blob_v2:
        return _place_v2(array, field, place)
    if not holds_blobs(field):
        return array
    if field.logical_type != "struct":
        raise NotSupported(f"field '{field.name}': blobs within lists cannot be stored")
    children = [place_blobs(array.field(i), child, place) for i, child in enumerate(field.children)]
    fields = [pa.field(child.name, made.type) for child, made in zip(field.children, children, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _place_v1(array: pa.Array, field: Field, place: Place) -> pa.Array:
    if array.type not in (pa.large_binary(), pa.binary()):
        raise UnfitData(f"blob column '{field.name}': Expected LargeBinary array, got {array.type}")
    positions, sizes = _payloads(array, place)
    return _described([pa.array(positions), pa.array(sizes)], BLOB_V1_DESCRIPTOR, array)


def _place_v2(array: pa.Array, field: Field, place: Place) -> pa.Array:
    """Data goes into this file; a URI is kept as it is."""
    if array.type == BLOB_V2_DESCRIPTOR:
        return array
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return _descriptors(array, None, None, array, place)
    if not pa.types.is_struct(array.type) or array.type.get_field_index("data") < 0:
        raise UnfitData(f"blob column '{field.name}': data of type {array.type}; it must be binary or a blob struct")
    parts = {name: array.field(name) if array.type.get_field_index(name) >= 0 else None for name in _PARTS}
    data, uri = parts["data"], parts["uri"]
    spans = None
    if parts["position"] is not None and parts["size"] is not None:
        spans = (parts["position"], parts["size"])
    return _descriptors(data, uri, spans, array, place, parts["blob_id"])


_PARTS = ("data", "uri", "position", "size", "blob_id")
"""What a value may have; ``blob_id`` is the base path that its URI is relative to."""


def _descriptors(
    data: pa.Array,
    uri: pa.Array | None,
    spans: tuple[pa.Array, pa.Array] | None,
    outer: pa.Array,
    place: Place,
    bases: pa.Array | None = None,
) -> pa.Array:
    count = len(data)
    positions, sizes = _payloads(data, place)
    kinds = np.full(count, INLINE, np.uint8)
    texts = pa.array([""] * count, pa.string())
    if uri is not None and uri.null_count < count:
        there = (uri.is_valid().to_numpy(zero_copy_only=False)) & data.is_null().to_numpy(zero_copy_only=False)
        kinds[there] = EXTERNAL
        texts = pa.array(
            [text if there[i] and text is not None else "" for i, text in enumerate(uri.to_pylist())], pa.string()
        )
        if spans is not None:
            positions = np.where(there, _numbers(spans[0]), positions)
            sizes = np.where(there, _numbers(spans[1]), sizes)
    ids = pa.array(np.zeros(count, np.uint32)) if bases is None else bases.fill_null(0)
    parts = [pa.array(kinds), pa.array(positions), pa.array(sizes), ids, texts]
    missing = data.is_null().to_numpy(zero_copy_only=False) & (kinds == INLINE)
    return _described(parts, BLOB_V2_DESCRIPTOR, outer, missing)


def _numbers(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    found: np.ndarray[tuple[int], np.dtype[np.uint64]] = array.fill_null(0).to_numpy().astype(np.uint64)
    return found


def _payloads(
    array: pa.Array, place: Place
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], np.ndarray[tuple[int], np.dtype[np.uint64]]]:
    """Write what is there; where, and how long it is."""
    count = len(array)
    positions, sizes = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    if count == 0:
        return positions, sizes
    wide = pa.types.is_large_binary(array.type)
    _, where, content = array.buffers()
    offsets = np.frombuffer(where, np.int64 if wide else np.int32)[array.offset : array.offset + count + 1]
    data = np.frombuffer(content or b"", np.uint8)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(valid & (np.diff(offsets) > 0)).tolist():
        start, stop = int(offsets[row]), int(offsets[row + 1])
        positions[row] = place(data[start:stop])
        sizes[row] = stop - start
    return positions, sizes


def _described(
    parts: list[pa.Array],
    dtype: pa.StructType,
    outer: pa.Array,
    missing: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
) -> pa.Array:
    nulls = outer.is_null().to_numpy(zero_copy_only=False)
    if missing is not None:
        nulls = nulls | missing
    mask = pa.array(nulls) if nulls.any() else None
    return pa.StructArray.from_arrays(parts, fields=list(dtype), mask=mask)


def blob_page(page: Shredded, version: str) -> EncodedPage:
    """A page of v1 descriptors: the levels of its nulls are in the positions."""
    positions, sizes = (page.values.field(i).to_numpy(zero_copy_only=False).copy() for i in range(2))
    if page.defs is not None:
        null = page.defs != 0
        positions[null] = page.defs[null].astype(np.uint64) << np.uint64(16)
        sizes[null] = 0
    words = tuple(Words(part.view(np.uint8), 64, len(part)) for part in (positions, sizes))
    record = Record(words, len(positions))
    plain = replace(page, reps=None, defs=None, layers=(pb.REPDEF_ALL_VALID_ITEM,), max_visible=0)
    inner = mini_block_page(plain, encode_records(record, [64, 64]), None, version)
    assert inner is not None
    assert isinstance(inner.layout, pb.PageLayout)
    layout = pb.PageLayout(blob_layout=pb.BlobLayout(inner_layout=inner.layout, layers=page.layers))
    return replace(inner, layout=layout)

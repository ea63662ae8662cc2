"""Blob columns: payloads lie outside of the pages, the pages hold where (spec encodings.md 7.5).

::

    v1   struct<position, size> in chunks; size 0: empty at position 0, else null with position = def << 16 | rep
    v2   struct<kind, position, size, blob_id, blob_uri>, a variable packed struct; nulls are ordinary levels

Payloads of v1 are in the data file; those of v2 may be in files beside it, by their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.encode.chunks import mini_block_page
from lancelet.encoding.v2_1.encode.messages import EncodedPage
from lancelet.encoding.v2_1.encode.records import encode_records
from lancelet.encoding.v2_1.encode.shred import Shredded
from lancelet.encoding.v2_1.encode.values import Record, Words
from lancelet.errors import NotSupported, UnfitData
from lancelet.format.blob_types import EXTERNAL, INLINE, MANAGED, MANAGED_IN_BASE, PREPARED, BlobSizes
from lancelet.format.extensions import storage_of
from lancelet.format.logical_types import format_logical_type
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.schema import BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR, Field

_DESCRIBED = {"lance-encoding:packed": "true", "lance-encoding:blob": "true"}

_Numbers = np.ndarray[tuple[int], np.dtype[np.uint64]]


class BlobPlace(NamedTuple):
    """Where a payload is."""

    kind: int
    position: int
    blob_id: int = 0


class BlobPlaces(Protocol):
    """Where payloads go."""

    def inline(self, data: Bytes) -> int:
        """Write a payload into the data file and say where."""

    def store(self, data: Bytes, sizes: BlobSizes) -> BlobPlace:
        """Write a payload into the data file or beside it."""


def holds_blobs(field: Field) -> bool:
    return field.is_blob or field.is_blob_v2 or any(map(holds_blobs, field.children))


def described_field(field: Field) -> Field:
    """The field as the file's own schema shows it: a v2 blob is the packed struct of its descriptor."""
    if not holds_blobs(field):
        return field
    if field.is_blob_v2:
        children = [Field(-1, f.name, format_logical_type(f.type), nullable=False) for f in BLOB_V2_DESCRIPTOR]
        return Field(field.id, field.name, "struct", field.nullable, tuple(children), _DESCRIBED)
    return replace(field, children=tuple(described_field(child) for child in field.children))


def place_blobs(array: pa.Array, field: Field, places: BlobPlaces) -> pa.Array:
    """The column with every payload written, and descriptors in their stead."""
    array = storage_of(array)
    if field.is_blob:
        return _place_v1(array, field, places)
    if field.is_blob_v2:
        return _place_v2(array, field, places)
    if not holds_blobs(field):
        return array
    if field.logical_type != "struct":
        raise NotSupported(f"field '{field.name}': blobs within lists cannot be stored")
    children = [place_blobs(array.field(i), child, places) for i, child in enumerate(field.children)]
    fields = [pa.field(child.name, made.type) for child, made in zip(field.children, children, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _place_v1(array: pa.Array, field: Field, places: BlobPlaces) -> pa.Array:
    if array.type not in (pa.large_binary(), pa.binary()):
        raise UnfitData(f"blob column '{field.name}': Expected LargeBinary array, got {array.type}")
    stored = _payloads(array, lambda data: BlobPlace(INLINE, places.inline(data)))
    return _described([pa.array(stored.positions), pa.array(stored.sizes)], BLOB_V1_DESCRIPTOR, array)


def _place_v2(array: pa.Array, field: Field, places: BlobPlaces) -> pa.Array:
    """Data goes into this file or beside it; a URI is kept as it is."""
    if array.type == BLOB_V2_DESCRIPTOR:
        return array
    if array.type == PREPARED:
        return _place_prepared(array, places)
    sizes = BlobSizes.of(field.name, field.metadata)

    def put(data: Bytes) -> BlobPlace:
        return places.store(data, sizes)

    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return _descriptors(array, None, None, array, put)
    if not pa.types.is_struct(array.type) or array.type.get_field_index("data") < 0:
        raise UnfitData(f"blob column '{field.name}': data of type {array.type}; it must be binary or a blob struct")
    parts = {name: array.field(name) if array.type.get_field_index(name) >= 0 else None for name in _PARTS}
    data, uri = parts["data"], parts["uri"]
    spans = None
    if parts["position"] is not None and parts["size"] is not None:
        spans = (parts["position"], parts["size"])
    return _descriptors(data, uri, spans, array, put, parts["blob_id"])


def _place_prepared(array: pa.StructArray, places: BlobPlaces) -> pa.Array:
    """Payloads that are in the data go into this file; what is told of others is kept."""
    kinds = _numbers(array.field("kind")).astype(np.uint8)
    stored = _payloads(array.field("data"), lambda data: BlobPlace(INLINE, places.inline(data)))
    inline = kinds == INLINE
    kinds[kinds == MANAGED_IN_BASE] = MANAGED
    parts = [
        pa.array(kinds),
        pa.array(np.where(inline, stored.positions, _numbers(array.field("position")))),
        pa.array(np.where(inline, stored.sizes, _numbers(array.field("blob_size")))),
        array.field("blob_id").fill_null(0),
        array.field("uri").fill_null(""),
    ]
    return _described(parts, BLOB_V2_DESCRIPTOR, array, array.field("kind").is_null().to_numpy(zero_copy_only=False))


_PARTS = ("data", "uri", "position", "size", "blob_id")
"""What a value may have; ``blob_id`` is the base path that its URI is relative to."""


def _descriptors(
    data: pa.Array,
    uri: pa.Array | None,
    spans: tuple[pa.Array, pa.Array] | None,
    outer: pa.Array,
    put: Callable[[Bytes], BlobPlace],
    bases: pa.Array | None = None,
) -> pa.Array:
    count = len(data)
    stored = _payloads(data, put)
    kinds, positions, sizes, numbers = stored
    texts = pa.array([""] * count, pa.string())
    if uri is not None and uri.null_count < count:
        there = numpy_array(uri.is_valid()) & numpy_array(data.is_null())
        kinds[there] = EXTERNAL
        texts = pa.array(
            [text if there[i] and text is not None else "" for i, text in enumerate(uri.to_pylist())], pa.string()
        )
        if spans is not None:
            positions = np.where(there, _numbers(spans[0]), positions)
            sizes = np.where(there, _numbers(spans[1]), sizes)
        if bases is not None:
            numbers = np.where(there, _numbers(bases), numbers)
    parts = [pa.array(kinds), pa.array(positions), pa.array(sizes), pa.array(numbers.astype(np.uint32)), texts]
    missing = numpy_array(data.is_null()) & (kinds != EXTERNAL)
    return _described(parts, BLOB_V2_DESCRIPTOR, outer, missing)


def _numbers(array: pa.Array) -> _Numbers:
    found: _Numbers = array.fill_null(0).to_numpy().astype(np.uint64)
    return found


class _Stored(NamedTuple):
    """Where the payloads of a column are, and how long they are."""

    kinds: np.ndarray[tuple[int], np.dtype[np.uint8]]
    positions: _Numbers
    sizes: _Numbers
    blob_ids: _Numbers


def _payloads(array: pa.Array, put: Callable[[Bytes], BlobPlace]) -> _Stored:
    """Write what is there; empty payloads are nowhere."""
    count = len(array)
    stored = _Stored(np.full(count, INLINE, np.uint8), *(np.zeros(count, np.uint64) for _ in range(3)))
    if count == 0:
        return stored
    wide = pa.types.is_large_binary(array.type)
    _, where, content = array.buffers()
    offsets = np.frombuffer(where, np.int64 if wide else np.int32)[array.offset : array.offset + count + 1]
    data = np.frombuffer(content or b"", np.uint8)
    valid = numpy_array(array.is_valid())
    for row in np.flatnonzero(valid & (np.diff(offsets) > 0)).tolist():
        start, stop = int(offsets[row]), int(offsets[row + 1])
        stored.kinds[row], stored.positions[row], stored.blob_ids[row] = put(data[start:stop])
        stored.sizes[row] = stop - start
    return stored


def _described(
    parts: list[pa.Array],
    dtype: pa.StructType,
    outer: pa.Array,
    missing: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
) -> pa.Array:
    nulls = numpy_array(outer.is_null())
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

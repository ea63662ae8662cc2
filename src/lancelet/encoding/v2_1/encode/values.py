"""Values of a leaf as plain numpy, ready for the codecs: the mirror of :mod:`lancelet.encoding.v2_1.values`.

Nothing is copied that already lies in one piece; slots under nulls hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.jsonb import encode_jsonb
from lancelet.encoding.kernels import pack
from lancelet.encoding.kernels.fullzip import gather_slices
from lancelet.encoding.picking import drop_nulls
from lancelet.encoding.plain import numpy_array
from lancelet.encoding.rows import Bytes
from lancelet.errors import NotSupported, UnfitData
from lancelet.format.extensions import storage_of, storage_type
from lancelet.format.schema import BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR, Field

Offsets: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Validity: TypeAlias = npt.NDArray[np.bool_] | None

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_WIDE = (pa.large_string(), pa.large_binary())
_NARROW = (pa.string(), pa.binary())


@dataclass(frozen=True, slots=True)
class Words:
    """``count`` values of ``bits`` bits each; single bits are a bitmap that starts at bit 0."""

    data: Bytes
    bits: int
    count: int

    @property
    def nbytes(self) -> int:
        return (self.count * self.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class Strings:
    """Byte strings: value i is data[offsets[i]:offsets[i + 1]]."""

    offsets: Offsets
    data: Bytes
    wide: bool
    """Whether the type has 64-bit offsets."""
    text: bool

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return int(self.offsets[-1]) - int(self.offsets[0])

    @property
    def word(self) -> int:
        return 8 if self.wide else 4


@dataclass(frozen=True, slots=True)
class Lists:
    """``count`` lists of ``size`` items; ``validity`` of the items, None when no item of a valid list is null."""

    items: Words | Lists
    size: int
    validity: Validity
    count: int

    @property
    def nbytes(self) -> int:
        return self.items.nbytes + (0 if self.validity is None else len(self.validity) // 8)


@dataclass(frozen=True, slots=True)
class Indexed:
    """A column that is a dictionary by its type."""

    indices: Words
    items: pa.Array


@dataclass(frozen=True, slots=True)
class Record:
    """A packed struct: one shape a child."""

    children: tuple[Values, ...]
    count: int


Values: TypeAlias = Words | Strings | Lists | Indexed | Record


def plain_storage(array: pa.Array, field: Field, path: str) -> pa.Array:
    """The array as the file stores its type: without extension, views as offsets, JSON text as JSONB."""
    array = storage_of(array)
    dtype = array.type
    if dtype in _VIEWS:
        array = array.cast(_VIEWS[dtype])
    elif field.is_json and dtype != pa.large_binary():
        return encode_jsonb(array)
    if not field.owns_column:
        if not _same_nesting(array.type, field):
            raise UnfitData(f"column '{path}': data of type {array.type} where the schema has {field.arrow_type}")
    elif not same_storage(array.type, _stored_type(field)):
        raise UnfitData(f"column '{path}': data of type {array.type} where the schema has {field.arrow_type}")
    return array


def _stored_type(field: Field) -> pa.DataType:
    """The type of a leaf's array; blobs have become descriptors by now."""
    if field.is_blob:
        return BLOB_V1_DESCRIPTOR
    return BLOB_V2_DESCRIPTOR if field.is_blob_v2 else field.arrow_type


def _same_nesting(dtype: pa.DataType, field: Field) -> bool:
    """Whether an array is of the kind that a field with children wants; the children are looked at when reached."""
    wanted = field.arrow_type
    if pa.types.is_struct(wanted):
        return bool(pa.types.is_struct(dtype) and [f.name for f in dtype] == [f.name for f in wanted])
    if pa.types.is_fixed_size_list(wanted):
        return bool(pa.types.is_fixed_size_list(dtype) and dtype.list_size == wanted.list_size)
    return bool(dtype.id == wanted.id)


def same_storage(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether two leaf types store alike: names and nullability of list items do not matter."""
    left = storage_type(left)
    if pa.types.is_fixed_size_list(left) and pa.types.is_fixed_size_list(right):
        return left.list_size == right.list_size and same_storage(left.value_type, right.value_type)
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        names = [f.name for f in left] == [f.name for f in right]
        return names and all(same_storage(a.type, b.type) for a, b in zip(left, right, strict=True))
    if pa.types.is_dictionary(left) and pa.types.is_dictionary(right):
        return bool(left.index_type == right.index_type and left.value_type == right.value_type)
    return bool(left == right)


def leaf_values(array: pa.Array, valid: Validity) -> Values:
    """The values of a leaf; ``valid`` says which of them count."""
    array = storage_of(array)
    dtype = array.type
    if dtype in _VIEWS:
        array = array.cast(_VIEWS[dtype])
        dtype = array.type
    if dtype in _WIDE or dtype in _NARROW:
        return _strings(array, valid)
    if pa.types.is_fixed_size_list(dtype):
        return _lists(array, valid)
    if pa.types.is_dictionary(dtype):
        return _indexed(array, valid)
    if pa.types.is_struct(dtype):
        return Record(tuple(leaf_values(array.field(i), valid) for i in range(dtype.num_fields)), len(array))
    return _words(array)


def _words(array: pa.Array) -> Words:
    dtype = array.type
    try:
        bits = dtype.bit_width
    except ValueError:
        raise NotSupported(f"Unsupported data type: {dtype}; Lance has no encoding for it") from None
    count, start = len(array), array.offset
    if count == 0:
        return Words(np.empty(0, np.uint8), bits, 0)
    data = np.frombuffer(array.buffers()[1], np.uint8)
    if bits > 1:
        size = bits // 8
        return Words(_aligned(data[start * size : (start + count) * size], min(size & -size, 8)), bits, count)
    if start % 8 == 0:
        return Words(data[start // 8 : start // 8 + (count + 7) // 8], 1, count)
    out = np.empty((count + 7) // 8, np.uint8)
    pack.slice_bits(data, start, np.array([count], np.int64), out)
    return Words(out, 1, count)


def _aligned(data: Bytes, size: int) -> Bytes:
    """The same bytes at an address that words of ``size`` bytes can have; Arrow only recommends it."""
    return data.copy() if data.ctypes.data % size else data


def _strings(array: pa.Array, valid: Validity) -> Strings:
    wide = array.type in _WIDE
    text = array.type in (pa.string(), pa.large_string())
    dtype = np.int64 if wide else np.int32
    if len(array) == 0:
        return Strings(np.zeros(1, dtype), np.empty(0, np.uint8), wide, text)
    _, where, data = array.buffers()
    size = 8 if wide else 4
    table = np.frombuffer(where, np.uint8)[array.offset * size : (array.offset + len(array) + 1) * size]
    offsets = _aligned(table, size).view(dtype)
    if valid is not None and np.diff(offsets)[~valid].any():
        # Bytes beneath nulls would be stored for nothing.
        return _without(offsets, data, valid, wide, text)
    return Strings(offsets, np.frombuffer(data or b"", np.uint8), wide, text)


def _without(offsets: Offsets, data: pa.Buffer, valid: npt.NDArray[np.bool_], wide: bool, text: bool) -> Strings:
    """Strings whose null slots are empty."""
    lengths = np.where(valid, np.diff(offsets), 0)
    moved = np.zeros(len(offsets), offsets.dtype)
    np.cumsum(lengths, out=moved[1:])
    out = np.empty(int(moved[-1]), np.uint8)
    gather_slices(np.frombuffer(data, np.uint8), offsets[:-1].astype(np.int64), lengths.astype(np.int64), 0, out)
    return Strings(moved, out, wide, text)


def _lists(array: pa.Array, valid: Validity) -> Lists:
    size, count = array.type.list_size, len(array)
    if size == 0:
        raise NotSupported("a fixed-size list of 0 items holds nothing that could be stored")
    items = array.values.slice(array.offset * size, count * size)
    items = storage_of(items)
    validity: Validity = None
    if items.null_count:
        validity = numpy_array(items.is_valid())
        below = numpy_array(array.is_valid()) if valid is None and array.null_count else valid
        if below is not None:
            validity = validity | ~np.repeat(below, size)
        validity = None if validity.all() else validity
    if pa.types.is_fixed_size_list(items.type):
        inner = numpy_array(items.is_valid()) if items.null_count else None
        if valid is not None:
            outer = np.repeat(valid, size)
            inner = outer if inner is None else inner & outer
        return Lists(_lists(items, inner), size, validity, count)
    if pa.types.is_nested(items.type) or items.type in _WIDE or items.type in _NARROW or pa.types.is_null(items.type):
        raise NotSupported(f"Unsupported data type: {array.type}; fixed-size lists hold values of fixed width")
    return Lists(_words(items), size, validity, count)


def _indexed(array: pa.Array, valid: Validity) -> Indexed:
    """Indices as unsigned words; null slots get index 0, and nulls leave the dictionary's values."""
    indices, items = array.indices, array.dictionary
    bits = indices.type.bit_width
    words = _words(indices)
    if valid is None and items.null_count == 0:
        return Indexed(words, items)
    numbers = words.data.view(f"<u{bits // 8}").copy()
    if valid is not None:
        numbers[~valid] = 0
    if items.null_count:
        kept = numpy_array(items.is_valid())
        moved = np.cumsum(kept) - 1
        # A null slot may have no value left to name: index 0 of no items at all.
        numbers = np.maximum(moved, 0).astype(numbers.dtype)[numbers] if len(items) else numbers
        items = drop_nulls(items)
    return Indexed(Words(numbers.view(np.uint8), bits, words.count), items)

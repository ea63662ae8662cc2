"""Extension types as what they are stored as: a storage type, and their name and parameters in field metadata.

pyarrow shows the parameters of its own extension types in different ways, and of
some not at all; the C data interface shows those of any type in one way::

    int32 number of pairs, then for each: int32 length, key, int32 length, value
"""

from __future__ import annotations

import ctypes
import struct

import pyarrow as pa


class _CSchema(ctypes.Structure):
    """The beginning of an ``ArrowSchema``."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)


def storage_of(array: pa.Array) -> pa.Array:
    """The array without an extension type around it."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def storage_type(dtype: pa.DataType) -> pa.DataType:
    """The type without an extension around it."""
    return dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype


def storage_field(field: pa.Field) -> pa.Field:
    """The field without extension types, at any depth."""
    dtype, metadata = field.type, field.metadata
    if isinstance(dtype, pa.BaseExtensionType):
        dtype, metadata = dtype.storage_type, _metadata(field)
    elif dtype.num_fields == 0:
        return field
    return pa.field(field.name, _nested_storage(dtype), field.nullable, metadata)


def _nested_storage(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(dtype):
        return pa.struct([storage_field(child) for child in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(storage_field(dtype.value_field))
    if pa.types.is_large_list(dtype):
        return pa.large_list(storage_field(dtype.value_field))
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(storage_field(dtype.value_field), dtype.list_size)
    if pa.types.is_map(dtype):
        return pa.map_(storage_field(dtype.key_field), storage_field(dtype.item_field), dtype.keys_sorted)
    return dtype


def _metadata(field: pa.Field) -> dict[bytes, bytes]:
    """All metadata of a field, with the name and parameters of its extension type."""
    capsule = field.__arrow_c_schema__()
    at = _CSchema.from_address(_pointer_of(capsule, b"arrow_schema")).metadata
    if at is None:
        return {}

    def number() -> int:
        nonlocal at
        found: int = struct.unpack("=i", ctypes.string_at(at, 4))[0]
        at += 4
        return found

    def text() -> bytes:
        nonlocal at
        length = number()
        found = ctypes.string_at(at, length)
        at += length
        return found

    return {text(): text() for _ in range(number())}

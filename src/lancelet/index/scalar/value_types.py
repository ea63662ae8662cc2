"""Which types of values scalar indices can be on."""

from __future__ import annotations

import pyarrow as pa

from lancelet.index.scalar.arrow_bytes import is_text_or_bytes


def has_order(dtype: pa.DataType) -> bool:
    """Whether values of a type can be sorted here."""
    return has_words(dtype) or is_bytes(dtype) or pa.types.is_decimal128(dtype) or bool(pa.types.is_decimal256(dtype))


def has_words(dtype: pa.DataType) -> bool:
    """Whether keys of a type are words."""
    return (
        pa.types.is_integer(dtype)
        or pa.types.is_floating(dtype)
        or pa.types.is_boolean(dtype)
        or (pa.types.is_temporal(dtype) and not pa.types.is_interval(dtype))
    )


def is_bytes(dtype: pa.DataType) -> bool:
    """Whether values of a type are texts or bytes."""
    return bool(
        pa.types.is_string(dtype)
        or pa.types.is_large_string(dtype)
        or pa.types.is_binary(dtype)
        or pa.types.is_large_binary(dtype)
        or pa.types.is_fixed_size_binary(dtype)
    )


def is_ordered(dtype: pa.DataType) -> bool:
    """Whether values of a type have a least and a greatest one."""
    types = pa.types
    return bool(
        types.is_integer(dtype)
        or types.is_floating(dtype)
        or types.is_boolean(dtype)
        or types.is_temporal(dtype)
        or types.is_decimal128(dtype)
        or types.is_decimal256(dtype)
        or is_text_or_bytes(dtype)
    )


def stored_type(dtype: pa.DataType) -> pa.DataType:
    """The type without an extension around it."""
    return dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype


def key_type(dtype: pa.DataType) -> pa.DataType:
    """The type in which keys of a column are compared: without a dictionary around them."""
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype

"""Which Arrow types meet in a comparison or in arithmetic, and in what type they meet.

The rules are those of DataFusion, which pylance uses::

    integers        the wider one; signed with unsigned goes to the next wider signed type,
                    uint64 with a signed type to decimal128(20, 0)
    with a float    the float (the wider of two floats)
    with a decimal  a decimal with room for both; in arithmetic a float makes it a double
    text            large_string if either is, else string
    bytes           large_binary if either is, else binary; text with bytes meet as bytes
    text with a number, date, time or timestamp    the other type (the text is parsed)
    date with timestamp                            the timestamp type
    timestamps      the coarser unit; with and without a time zone meet in the zone
    durations       the finer unit
"""

from __future__ import annotations

import pyarrow as pa

__all__ = [
    "arithmetic_type",
    "common_type",
    "decimal_like",
    "decimal_result",
    "describe",
    "is_list_like",
    "is_number",
    "is_text",
    "value_type",
]

UNITS = ("s", "ms", "us", "ns")
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400

_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_FLOATS = (pa.float16(), pa.float32(), pa.float64())


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column's values are computed with.

    A dictionary stands for its value type, an extension for its storage, a view
    for the plain type, which more kernels know.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return value_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return value_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_list_like(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def describe(kind: pa.DataType) -> str:
    """A type in words for an error text."""
    if pa.types.is_null(kind):
        return "NULL"
    if pa.types.is_struct(kind):
        return "a struct"
    if is_list_like(kind):
        return f"a list of {describe(kind.value_type)}"
    return str(kind)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of both types can be compared, or None."""
    left, right = value_type(left), value_type(right)
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if is_text(left) and is_text(right):
        return pa.large_string() if is_large(left) or is_large(right) else pa.string()
    if (is_text(left) or is_bytes(left)) and (is_text(right) or is_bytes(right)):
        return pa.large_binary() if is_large(left) or is_large(right) else pa.binary()
    for text, other in ((left, right), (right, left)):
        if is_text(text) and (is_number(other) or _is_point_in_time(other)):
            return other
    if is_list_like(left) and is_list_like(right):
        item = common_type(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    return _common_time(left, right)


def _is_point_in_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind))


def _common_time(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_date(left) and pa.types.is_date(right):
        return pa.date64()
    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        return pa.timestamp(min(left.unit, right.unit, key=UNITS.index), left.tz or right.tz)
    for date, other in ((left, right), (right, left)):
        if pa.types.is_date(date) and pa.types.is_timestamp(other):
            return other
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return pa.duration(max(left.unit, right.unit, key=UNITS.index))
    return None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        return _common_decimal(as_decimal(left), as_decimal(right))
    for kind in reversed(_FLOATS):
        if kind in (left, right):
            return kind
    signed = [kind for kind in (left, right) if kind in _SIGNED]
    if len(signed) != 1:
        return max(left, right, key=lambda kind: int(kind.bit_width))
    unsigned = left if left in _UNSIGNED else right
    if unsigned == pa.uint64():
        return pa.decimal128(20, 0)
    return max(signed[0], _SIGNED[_UNSIGNED.index(unsigned) + 1], key=lambda kind: int(kind.bit_width))


# The decimal that holds every value of an integer type; the one that stands for a float.
_AS_DECIMAL = {
    pa.int8(): (3, 0),
    pa.uint8(): (3, 0),
    pa.int16(): (5, 0),
    pa.uint16(): (5, 0),
    pa.int32(): (10, 0),
    pa.uint32(): (10, 0),
    pa.int64(): (20, 0),
    pa.uint64(): (20, 0),
    pa.float16(): (6, 3),
    pa.float32(): (14, 7),
    pa.float64(): (30, 15),
}


def as_decimal(kind: pa.DataType) -> pa.DataType:
    return kind if pa.types.is_decimal(kind) else pa.decimal128(*_AS_DECIMAL[kind])


def decimal_like(precision: int, scale: int, like: pa.DataType) -> pa.DataType:
    """A decimal as wide in bits as ``like``, with at most the digits that such a type can have."""
    if pa.types.is_decimal256(like):
        return pa.decimal256(min(precision, 76), scale)
    return pa.decimal128(min(precision, 38), scale)


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal_like(whole + scale, scale, max(left, right, key=lambda kind: int(kind.bit_width)))


def arithmetic_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two numbers are added, subtracted, multiplied or divided, or None."""
    left, right = value_type(left), value_type(right)
    if pa.types.is_null(left) and pa.types.is_null(right):
        return pa.int64()
    if pa.types.is_null(left):
        return right if is_number(right) else None
    if pa.types.is_null(right):
        return left if is_number(left) else None
    if pa.types.is_decimal(left) != pa.types.is_decimal(right) and (
        pa.types.is_floating(left) or pa.types.is_floating(right)
    ):
        return pa.float64()
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    return None


def decimal_result(name: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of ``left op right`` for two decimals, as arrow-rs computes it."""
    widest = max(left, right, key=lambda kind: int(kind.bit_width))
    if name == "multiply":
        return decimal_like(left.precision + right.precision + 1, left.scale + right.scale, widest)
    if name == "divide":
        scale = left.scale + 4
        return decimal_like(scale - left.scale + right.scale + left.precision, scale, widest)
    scale = max(left.scale, right.scale)
    if name == "modulo":
        return decimal_like(min(left.precision - left.scale, right.precision - right.scale) + scale, scale, widest)
    return decimal_like(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale, widest)

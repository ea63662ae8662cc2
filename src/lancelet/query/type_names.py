"""The names of types: in SQL (``BIGINT UNSIGNED``) and as ``arrow_cast`` takes them (``Timestamp(Second, None)``)."""

from __future__ import annotations

import re

import pyarrow as pa

from lancelet.errors import InvalidInput

__all__ = ["arrow_name", "parse_arrow_name", "sql_name", "timestamp_of"]

SQL_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "TINYINT UNSIGNED": pa.uint8(),
    "SMALLINT UNSIGNED": pa.uint16(),
    "INT UNSIGNED": pa.uint32(),
    "BIGINT UNSIGNED": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
}
_SQL_NAMES = {kind: name for name, kind in SQL_TYPES.items()}
_PRECISIONS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_DIGITS = {unit: digits for digits, unit in _PRECISIONS.items()}

_ARROW_TYPES: dict[str, pa.DataType] = {
    "Null": pa.null(),
    "Boolean": pa.bool_(),
    **{
        f"Int{bits}": kind
        for bits, kind in zip((8, 16, 32, 64), (pa.int8(), pa.int16(), pa.int32(), pa.int64()), strict=True)
    },
    **{
        f"UInt{bits}": kind
        for bits, kind in zip((8, 16, 32, 64), (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), strict=True)
    },
    "Float16": pa.float16(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Utf8View": pa.string_view(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "BinaryView": pa.binary_view(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
_ARROW_NAMES = {kind: name for name, kind in _ARROW_TYPES.items()}
_UNIT_NAMES = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_UNITS = {name: unit for unit, name in _UNIT_NAMES.items()} | {unit: unit for unit in _UNIT_NAMES} | {"µs": "us"}
_TIME = re.compile(r"(Time32|Time64|Duration)\(\s*(\w+)\s*\)")
_TIMESTAMP = re.compile(r"Timestamp\(\s*(\w+)\s*(?:,\s*(?:None|Some\(\s*\"([^\"]+)\"\s*\)|\"([^\"]+)\"))?\s*\)")
_DECIMAL = re.compile(r"Decimal(128|256)\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_FIXED = re.compile(r"FixedSizeBinary\(\s*(\d+)\s*\)")
_LIST = re.compile(r"(Large)?List\(\s*(?:nullable\s+)?(.+)\)", re.DOTALL)


def timestamp_of(digits: int) -> pa.DataType:
    """TIMESTAMP(digits)."""
    if digits not in _PRECISIONS:
        raise InvalidInput(f"TIMESTAMP({digits}) is no type; the precision is 0, 3, 6 or 9")
    return pa.timestamp(_PRECISIONS[digits])


def sql_name(kind: pa.DataType) -> str | None:
    """How ``CAST(x AS ...)`` spells the type, or None when SQL has no name for it."""
    if kind in _SQL_NAMES:
        return _SQL_NAMES[kind]
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return f"TIMESTAMP({_DIGITS[kind.unit]})"
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return None


def arrow_name(kind: pa.DataType) -> str:
    """How ``arrow_cast(x, '...')`` spells the type."""
    if kind in _ARROW_NAMES:
        return _ARROW_NAMES[kind]
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        return f"Timestamp({_UNIT_NAMES[kind.unit]}, {zone})"
    if pa.types.is_time(kind):
        return f"Time{kind.bit_width}({_UNIT_NAMES[kind.unit]})"
    if pa.types.is_duration(kind):
        return f"Duration({_UNIT_NAMES[kind.unit]})"
    if pa.types.is_decimal(kind):
        return f"Decimal{kind.bit_width}({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"FixedSizeBinary({kind.byte_width})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{'Large' * pa.types.is_large_list(kind)}List({arrow_name(kind.value_type)})"
    return str(kind)


def parse_arrow_name(text: str) -> pa.DataType:
    """The type that ``arrow_cast`` means by ``text``."""
    text = text.strip()
    kind = _ARROW_TYPES.get(text) or _parametric(text)
    if kind is None:
        raise InvalidInput(f"arrow_cast() knows no type {text!r}; an example is 'Timestamp(Microsecond, None)'")
    return kind


def _parametric(text: str) -> pa.DataType | None:
    if match := _LIST.fullmatch(text):
        item = parse_arrow_name(match[2])
        return pa.large_list(item) if match[1] else pa.list_(item)
    try:
        if match := _TIME.fullmatch(text):
            makers = {"Time32": pa.time32, "Time64": pa.time64, "Duration": pa.duration}
            return makers[match[1]](_UNITS[match[2]])
        if match := _TIMESTAMP.fullmatch(text):
            return pa.timestamp(_UNITS[match[1]], match[2] or match[3])
        if match := _DECIMAL.fullmatch(text):
            maker = pa.decimal128 if match[1] == "128" else pa.decimal256
            return maker(int(match[2]), int(match[3]))
        if match := _FIXED.fullmatch(text):
            return pa.binary(int(match[1]))
    except (KeyError, ValueError):
        return None
    return None

"""The names of types in SQL (``BIGINT UNSIGNED``, ``TIMESTAMP(3)``)."""

from __future__ import annotations

import pyarrow as pa

from lancelet.errors import InvalidInput

__all__ = ["SQL_TYPES", "sql_name", "timestamp_of"]

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

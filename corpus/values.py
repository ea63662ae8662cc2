"""Arrow values as JSON, without loss.

::

    null                         null
    booleans, texts              as they are
    integers                     as numbers up to 2**53, as texts beyond
    floats                       as texts: the shortest that gives the same number back, "NaN", "Infinity", "-Infinity"
    decimals                     as texts
    bytes                        as texts in hexadecimal
    dates, times, timestamps,    as whole numbers in the unit of their type
    durations
    lists, vectors               as lists
    structs                      as objects; maps as lists of pairs
    dictionaries                 as the values that they stand for
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

_EXACT = 2**53


def rows_of(table: pa.Table) -> list[list[Any]]:
    """Rows as lists of values, in the order of the columns."""
    columns = [[value_of(item) for item in column] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(table.num_rows)]


def schema_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Columns: name, Arrow type as text, whether they may be null, metadata."""
    return [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "metadata": {key.decode(): value.decode() for key, value in sorted((field.metadata or {}).items())},
        }
        for field in schema
    ]


def value_of(scalar: pa.Scalar) -> Any:
    """One value."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if isinstance(kind, pa.BaseExtensionType):
        return value_of(scalar.value)
    if pa.types.is_dictionary(kind):
        return value_of(scalar.dictionary[scalar.index.as_py()])
    if pa.types.is_struct(kind):
        return {field.name: value_of(scalar[field.name]) for field in kind}
    if pa.types.is_map(kind):
        return [[value_of(entry["key"]), value_of(entry["value"])] for entry in scalar.values]
    if isinstance(scalar, pa.ListScalar):
        return [value_of(item) for item in scalar.values]
    if pa.types.is_temporal(kind):
        return _integer(scalar.value)
    return _plain(scalar.as_py())


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(value)
    return value if isinstance(value, (bool, str)) else str(value)


def _integer(value: int) -> int | str:
    return value if abs(value) <= _EXACT else str(value)

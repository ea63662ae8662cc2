"""Values of tables as JSON and terminals have them."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Final

import pyarrow as pa

# JSON lets these stand as they are: marks that steer a terminal, end a line, or turn the direction of a text.
_STEERING: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes in base64, times in ISO's form, numbers that are none as null.

    Examples
    --------
    >>> plain({1: float("nan"), "data": b"kelp"})
    {'1': None, 'data': 'a2VscA=='}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def json_text(value: Any, indent: int | None = None, *, only_ascii: bool = False) -> str:
    """A value as JSON, which any reader takes and any terminal shows."""
    text = json.dumps(plain(value), ensure_ascii=only_ascii, indent=indent, allow_nan=False)
    return _STEERING.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows for JSON. Entries of maps are objects with a key and a value, which readers of JSON take for a list of structs.

    Examples
    --------
    >>> json_rows(pa.record_batch({"m": pa.array([[("kelp", 1)]], pa.map_(pa.string(), pa.int64()))}))
    [{'m': [{'key': 'kelp', 'value': 1}]}]
    """
    kinds = [_without_maps(kind) for kind in batch.schema.types]
    if kinds == batch.schema.types:
        return rows_of(batch)
    columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
    return rows_of(pa.RecordBatch.from_arrays(columns, batch.schema.names))


def _without_maps(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        entry = [("key", _without_maps(kind.key_type)), ("value", _without_maps(kind.item_type))]
        return pa.list_(pa.struct(entry))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_maps(field.type)) for field in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_without_maps(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return make(kind.value_field.with_type(_without_maps(kind.value_type)))
    return kind


def rows_of(batch: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Rows with Python's values; times that Python does not have are texts."""
    try:
        found: list[dict[str, Any]] = batch.to_pylist()
    except (ValueError, OverflowError):
        columns = [_values(column) for column in batch.columns]
        found = [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        # Arrow says of such a value that it is out of range, and how many units it has.
        wide = column.cast(pa.int64()) if pa.types.is_duration(column.type) else column
        found = wide.cast(pa.string()).to_pylist()
    return found

"""Values in CSV and JSON, which do not tell their types: how they are written, and read with those of a table.

Arrow reads some types from such files itself; others arrive as texts or numbers that are cast afterwards. Bytes are in
base64, in both.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import time

import pyarrow as pa

from lancelet._naming.plain_values import plain
from lancelet.errors import UnfitData

_of = pa.types
_NUMBERS = (_of.is_integer, _of.is_float32, _of.is_float64, _of.is_decimal128)
_READ = (*_NUMBERS, _of.is_boolean, _of.is_string, _of.is_large_string, _of.is_timestamp)
_CAST = (_of.is_date, _of.is_time, _of.is_decimal256, _of.is_dictionary)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        test(kind) for test in (_of.is_binary, _of.is_large_binary, _of.is_fixed_size_binary, _of.is_binary_view)
    )


def _carrier(kind: pa.DataType) -> pa.DataType | None:
    """As what Arrow reads values of a type; None for those that it has to find out about itself."""
    if any(test(kind) for test in _READ):
        return kind
    if _of.is_float16(kind):
        return pa.float64()
    if any(test(kind) for test in _CAST) or _is_bytes(kind):
        return pa.string()
    if _of.is_list(kind) or _of.is_fixed_size_list(kind):
        item = kind.value_type
        # What is in base64 or has to be taken apart in other ways is so in columns of its own only.
        if any(test(item) for test in (*_READ, _of.is_float16)):
            return pa.list_(kind.value_field.with_type(_carrier(item)))
    return None


def carriers(types: pa.Schema | None, *, lists: bool) -> dict[str, pa.DataType]:
    """The types that Arrow is told to read columns with, so that those of a table come out of them."""
    found = ((field.name, _carrier(field.type)) for field in types or ())
    return {name: kind for name, kind in found if kind is not None and (lists or not _of.is_nested(kind))}


def typed_schema(schema: pa.Schema, types: pa.Schema | None, *, of_texts: bool = True) -> pa.Schema:
    """The columns of a file with the types that they get from a table; a file that tells its types keeps them."""
    for number, field in enumerate(schema):
        wanted = None if types is None or field.name not in types.names else types.field(field.name).type
        # Types are equal whatever the items of lists are called.
        if wanted is not None and (field.type == wanted or (of_texts and field.type == _carrier(wanted))):
            schema = schema.set(number, field.with_type(wanted))
    return schema


def typed(batch: pa.RecordBatch, schema: pa.Schema, file: str) -> pa.RecordBatch:
    """Rows of a file with those types."""
    try:
        columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise UnfitData(f"{file} has values that the types of the table cannot hold: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if _is_bytes(kind) and not _is_bytes(column.type):
        return _made(column, kind, lambda text: base64.b64decode(text, validate=True))
    if _of.is_time(kind) and _of.is_string(column.type):
        return _made(column, kind, time.fromisoformat)
    return column.cast(kind)


def _made(column: pa.Array, kind: pa.DataType, make: Callable[[str], object]) -> pa.Array:
    return pa.array([None if text is None else make(text) for text in column.to_pylist()], kind)


def bytes_as_texts(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Columns of bytes in base64, for files that have none."""
    at = [number for number, kind in enumerate(reader.schema.types) if _is_bytes(kind)]
    schema = reader.schema
    for number in at:
        schema = schema.set(number, schema.field(number).with_type(pa.string()))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = batch.columns
            for number in at:
                columns[number] = pa.array([plain(value) for value in columns[number].to_pylist()], pa.string())
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())

"""Rows picked out of arrays, batches and tables of any type.

Arrow's ``take``, ``filter`` and ``drop_null`` (seen in 21 to 26) forget where a slice begins when fixed-size lists of fixed-size
lists hold numbers without nulls: they give values of other rows, or of no row at all. Where lists begin at their first value they
give the right ones, so that here such lists are made to begin there; no value is copied. All other types go to Arrow as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lancelet.encoding.plain import numpy_array

Rows = TypeVar("Rows", pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)


def pick_rows(rows: Rows, places: pa.Array) -> Rows:
    """The rows at some places, in their order; a row of nulls where the place is null.

    Examples
    --------
    >>> pairs = pa.array([[[1, 2]], [[3, 4]], [[5, 6]]], pa.list_(pa.list_(pa.int8(), 2), 1))
    >>> pick_rows(pairs[1:], pa.array([1, None])).to_pylist()
    [[[5, 6]], None]
    """
    return _each(rows, lambda column: column.take(places)) if _is_misread(rows) else rows.take(places)


def keep_rows(rows: Rows, chosen: pa.Array | pa.ChunkedArray) -> Rows:
    """The rows for which a mask is true.

    Examples
    --------
    >>> keep_rows(pa.table({"n": [1, 2, 3]}), pa.array([True, None, True])).to_pydict()
    {'n': [1, 3]}
    """
    if not _is_misread(rows):
        return rows.filter(chosen)
    mask = _in_one(chosen) if isinstance(chosen, pa.ChunkedArray) else chosen
    return _each(rows, lambda column: column.filter(mask))


def drop_nulls(values: pa.Array) -> pa.Array:
    """The values that are not null.

    Examples
    --------
    >>> drop_nulls(pa.array([1, None, 3])).to_pylist()
    [1, 3]
    """
    return (_anchored(values) if _is_misread(values) else values).drop_null()


def _is_misread(rows: Rows) -> bool:
    if isinstance(rows, (pa.RecordBatch, pa.Table)):
        return any(map(_has_nested_lists, rows.schema.types))
    return _has_nested_lists(rows.type)


def _has_nested_lists(dtype: pa.DataType) -> bool:
    """Whether a type has fixed-size lists of fixed-size lists."""
    if isinstance(dtype, pa.BaseExtensionType):
        return _has_nested_lists(dtype.storage_type)
    if pa.types.is_fixed_size_list(dtype) and pa.types.is_fixed_size_list(dtype.value_type):
        return True
    return any(_has_nested_lists(dtype.field(place).type) for place in range(dtype.num_fields))


def _each(rows: Rows, picked: Callable[[Any], Any]) -> Rows:
    """Rows with what is picked from each column, none of whose chunks Arrow may slice."""
    if isinstance(rows, pa.Array):
        return picked(_anchored(rows))
    if isinstance(rows, pa.ChunkedArray):
        return pa.chunked_array([picked(_anchored(_in_one(rows)))], rows.type)
    columns = [_each(column, picked) if _has_nested_lists(column.type) else picked(column) for column in rows.columns]
    return type(rows).from_arrays(columns, schema=rows.schema)


def _in_one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _anchored(array: pa.Array) -> pa.Array:
    """The same values, of which no fixed-size list begins behind the first value that it has."""
    dtype = array.type
    if not _has_nested_lists(dtype) and not pa.types.is_fixed_size_list(dtype):
        return array
    if isinstance(dtype, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(dtype, _anchored(array.storage))
    if pa.types.is_fixed_size_list(dtype):
        size = dtype.list_size
        return _with_children(array, [array.values.slice(array.offset * size, len(array) * size)])
    if pa.types.is_struct(dtype):
        return _with_children(array, [array.field(place) for place in range(dtype.num_fields)])
    # Lists of other sizes begin where their offsets say: only what is in them is made to begin anew.
    values = _entries(array) if pa.types.is_map(dtype) else array.values
    return pa.Array.from_buffers(
        dtype, len(array), array.buffers()[:2], array.null_count, array.offset, [_anchored(values)]
    )


def _with_children(array: pa.Array, children: list[pa.Array]) -> pa.Array:
    """Structs or fixed-size lists over other children, which begin with the first row."""
    valid = None
    if array.null_count:
        valid = pa.py_buffer(np.packbits(numpy_array(array.is_valid()), bitorder="little"))
    return pa.Array.from_buffers(
        array.type, len(array), [valid], array.null_count, 0, [_anchored(child) for child in children]
    )


def _entries(maps: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([maps.keys, maps.items], fields=[maps.type.key_field, maps.type.item_field])

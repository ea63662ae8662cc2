"""Arrow arrays between the types of a table and those that Spark exchanges.

Nested arrays are taken apart and put together again over the same buffers; only
leaves whose values change are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from lancelet.encoding.picking import pick_rows
from lancelet.encoding.plain import arrow_array
from lancelet.errors import UnfitData
from lancelet.format.extensions import storage_field, storage_of
from lancelet.runtime import compute as pc

_NARROW = 32
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def conformed_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches under another schema; columns are found by name."""
    target = pa.schema([storage_field(field) for field in schema])
    source: pa.Schema | None = None
    places: list[int] = []
    for batch in batches:
        if source is None or not batch.schema.equals(source):
            source = batch.schema
            places = _places(source, target.names)
        columns = [_column(batch, at, field) for at, field in zip(places, target, strict=True)]
        if columns:
            yield pa.RecordBatch.from_arrays(columns, schema=target)
        elif batch.num_rows:
            yield batch.select([])


def _column(batch: pa.RecordBatch, at: int, field: pa.Field) -> pa.Array:
    if at < 0:
        raise UnfitData(f"there is no column '{field.name}' among {', '.join(batch.schema.names)}")
    column = batch.column(at)
    try:
        return conform(column, field.type)
    except pa.ArrowInvalid as error:
        raise UnfitData(f"column '{field.name}' has a value that does not fit into {field.type}: {error}") from error
    except UnfitData as error:
        raise UnfitData(f"column '{field.name}': {error}") from None


def _places(parts: pa.Schema | pa.StructType, names: Iterable[str]) -> list[int]:
    """Where the parts with some names are, each in any case if not in this one; -1 when there is none, or several."""
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for at, part in enumerate(parts):
        exact.setdefault(part.name, []).append(at)
        folded.setdefault(part.name.lower(), []).append(at)
    alike = (exact.get(name) or folded.get(name.lower(), []) for name in names)
    return [places[0] if len(places) == 1 else -1 for places in alike]


def conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    """An array as another type with the same meaning: other widths, units, kinds of lists, names of nested fields.

    Parts of a unit that the target has not are cut off. A value that the target cannot hold is an error.
    """
    array = storage_of(array)
    source = array.type
    if source.equals(target, check_metadata=False):
        return array
    if pa.types.is_null(source):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(source):
        return conform(array.dictionary_decode(), target)
    if pa.types.is_dictionary(target):
        values = conform(array, target.value_type)
        return pc.dictionary_encode(values).cast(target)
    if pa.types.is_struct(target):
        return _struct(array, target)
    if pa.types.is_fixed_size_list(target):
        return _vectors(array, target)
    if pa.types.is_list(target) or pa.types.is_large_list(target):
        return _list(array, target)
    if pa.types.is_map(target):
        return _map(array, target)
    if _is_clock(source) and _is_clock(target):
        return _clock(array, target)
    if pa.types.is_date64(source):
        return _ticks(array, 24 * 3600 * 1000, pa.int32(), target)
    return array.cast(target)


def _struct(array: pa.Array, target: pa.StructType) -> pa.Array:
    """Fields by name; those that are not asked for are left out, those that are missing are null."""
    children = []
    places = _places(array.type, [field.name for field in target])
    for at, field in zip(places, target, strict=True):
        found = pa.nulls(len(array), field.type) if at < 0 else conform(array.field(at), field.type)
        children.append(found)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _list(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    small = pa.types.is_list(target)
    if pa.types.is_fixed_size_list(source):
        size = source.list_size
        values = array.values.slice(array.offset * size, len(array) * size)
        offsets = np.arange(len(array) + 1, dtype=np.int32 if small else np.int64) * size
        kind = pa.ListArray if small else pa.LargeListArray
        mask = array.is_null() if array.null_count else None
        return kind.from_arrays(arrow_array(offsets), conform(values, target.value_type), type=target, mask=mask)
    if pa.types.is_list(source) != small:
        array = array.cast(pa.list_(source.value_field) if small else pa.large_list(source.value_field))
    values = conform(array.values, target.value_type)
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _map(array: pa.Array, target: pa.DataType) -> pa.Array:
    entries = pa.struct([target.key_field, target.item_field])
    pairs = pa.StructArray.from_arrays(
        [conform(array.keys, target.key_type), conform(array.items, target.item_type)], fields=list(entries)
    )
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], array.null_count, array.offset, [pairs])


def _vectors(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Lists of one length; nulls take their place too."""
    size = target.list_size
    if pa.types.is_fixed_size_list(array.type):
        if array.type.list_size != size:
            raise UnfitData(f"vectors of {array.type.list_size} values do not fit into vectors of {size}")
        values = array.values.slice(array.offset * size, len(array) * size)
    else:
        lengths = pc.list_value_length(array)
        wrong = pc.filter(lengths, pc.not_equal(lengths, size))
        if len(wrong):
            raise UnfitData(f"a vector has {wrong[0]} values where the table has {size} in each")
        values = array.flatten()
        if array.null_count:
            values = pick_rows(values, _with_gaps(array, size))
    mask = array.is_null() if array.null_count else None
    return pa.FixedSizeListArray.from_arrays(conform(values, target.value_type), type=target, mask=mask)


def _with_gaps(array: pa.Array, size: int) -> pa.Array:
    """Where each value of each row is among those of the valid rows; null for the values of null rows."""
    valid = np.repeat(array.is_valid().to_numpy(zero_copy_only=False), size)
    places = np.cumsum(valid) - 1
    return pa.array(places, pa.int64(), mask=~valid)


def _is_clock(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype) or pa.types.is_time(dtype))


def _clock(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Times in another unit, and times of day as the time since midnight; coarser units round down."""
    source = array.type
    if pa.types.is_time(source) != pa.types.is_time(target):
        # Neither is a cast that pyarrow knows: go by the numbers.
        wide = array.view(pa.int32()).cast(pa.int64()) if source.bit_width == _NARROW else array.view(pa.int64())
        if pa.types.is_time(target):
            limit = 86_400 * _NANOS["s"] // _NANOS[source.unit]
            if pc.any(pc.or_(pc.less(wide, 0), pc.greater_equal(wide, limit))).as_py():
                raise UnfitData("an interval is no time of day: it is negative, or a day or longer")
        return (
            _clock(wide.view(pa.duration(source.unit)), pa.duration(target.unit))
            .view(pa.int64())
            .cast(pa.int32() if target.bit_width == _NARROW else pa.int64())
            .view(target)
        )
    factor = _NANOS[target.unit] // _NANOS[source.unit]
    if factor <= 1:
        return array.cast(target)
    return _ticks(array, factor, pa.int32() if target.bit_width == _NARROW else pa.int64(), target)


def _ticks(array: pa.Array, factor: int, width: pa.DataType, target: pa.DataType) -> pa.Array:
    """Counts of a unit in one that is ``factor`` times as long."""
    counts = array.view(pa.int32() if array.type.bit_width == _NARROW else pa.int64())
    plain = counts.fill_null(0).to_numpy(zero_copy_only=False)
    made = pa.array(np.floor_divide(plain, factor), pa.int64(), mask=counts.is_null().to_numpy(zero_copy_only=False))
    return made.cast(width).view(target)

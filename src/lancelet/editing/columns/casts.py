"""Columns cast to another type of the same sort, without loss.

::

    integers            integers
    floats              floats                        rounded, but never to infinity
    decimals            decimals
    text, dictionaries  text, dictionaries of text
    bytes               bytes                         of variable length
    date, timestamp     date, timestamp               a timestamp also to a time of day
    time                time
    duration            duration
    lists               lists                         of any kind, when their items can be cast

A value that the new type does not have is refused, and so are fractions that a
coarser unit or a smaller scale would cut off. Only the step from a timestamp to
its date or its time of day leaves something out, which is its purpose.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from lancelet.errors import InvalidChange, InvalidInput
from lancelet.expressions.casting import cast_datum
from lancelet.expressions.coercion import TICKS, is_bytes, is_list_like, is_text
from lancelet.format.schema import Field
from lancelet.runtime import compute as pc


def can_recast(origin: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a column of one type can become one of another."""
    if pa.types.is_dictionary(origin) or pa.types.is_dictionary(kind):
        return can_recast(_values(origin), _values(kind))
    if is_list_like(origin) and is_list_like(kind):
        sizes = {t.list_size for t in (origin, kind) if pa.types.is_fixed_size_list(t)}
        return len(sizes) < 2 and can_recast(origin.value_type, kind.value_type)
    if pa.types.is_nested(origin) or pa.types.is_nested(kind):
        return False
    if pa.types.is_timestamp(origin) and pa.types.is_time(kind):
        return True
    return origin == kind or (_sort(origin) is not None and _sort(origin) == _sort(kind))


def recast(column: pa.Array, field: Field) -> pa.Array:
    """A column under the type of ``field``, whose nested fields may have been cast too."""
    kind = field.arrow_type
    if column.type == kind:
        return column
    if isinstance(column, pa.ExtensionArray):
        return recast(column.storage, field)
    if field.children and pa.types.is_struct(kind):
        children = [recast(child, below) for child, below in zip(_children(column), field.children, strict=True)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if is_list_like(kind):
        return _recast_lists(column, kind, field.children[0] if field.children else None)
    return _recast_values(column, kind)


def _children(column: pa.StructArray) -> list[pa.Array]:
    return [column.field(at) for at in range(column.type.num_fields)]


def _recast_lists(column: pa.Array, kind: pa.DataType, item: Field | None) -> pa.Array:
    if not is_list_like(column.type):
        raise InvalidChange(f"cannot cast {column.type} to {kind}")
    # Items first, then the kind of list around them; hidden items below a null do not count.
    if pa.types.is_fixed_size_list(column.type):
        width = column.type.list_size
        items = column.values.slice(column.offset * width, len(column) * width)
        if column.null_count:
            column = _rebuilt_fixed(column, items)
            items = column.values
    else:
        items = column.flatten()
    recasted = recast(items, item) if item is not None else _recast_values(items, kind.value_type)
    return _listed(column, recasted, kind)


def _rebuilt_fixed(column: pa.Array, items: pa.Array) -> pa.Array:
    """The same vectors with nulls for the items below a null."""
    width = column.type.list_size
    keep = pc.cast(column.is_valid(), pa.int8()).to_numpy(zero_copy_only=False).repeat(width).astype(bool)
    clean = pc.if_else(pa.array(keep), items, pa.scalar(None, items.type))
    return pa.FixedSizeListArray.from_arrays(clean, type=column.type, mask=column.is_null())


def _listed(column: pa.Array, items: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists as they were, around other items."""
    mask = column.is_null() if column.null_count else None
    if pa.types.is_fixed_size_list(column.type):
        same = pa.FixedSizeListArray.from_arrays(items, column.type.list_size, mask=mask)
    else:
        lengths = pc.list_value_length(column).fill_null(0).cast(pa.int64())
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
        same = pa.LargeListArray.from_arrays(offsets, items, mask=mask)
    try:
        return same.cast(kind)
    except pa.ArrowException as error:
        raise InvalidChange(f"cannot cast {column.type} to {kind}: {error}") from error


def _recast_values(column: pa.Array, kind: pa.DataType) -> pa.Array:
    origin = column.type
    if pa.types.is_integer(origin) and pa.types.is_integer(kind):
        with suppress(pa.ArrowInvalid):
            return pc.cast(column, kind)
    try:
        if pa.types.is_dictionary(kind):
            plain = cast_datum(column, kind.value_type, lenient=False)
            return plain.dictionary_encode().cast(kind)
        result = cast_datum(column, kind, lenient=False)
    except (InvalidInput, pa.ArrowException) as error:
        raise InvalidChange(str(error)) from error
    if pa.types.is_floating(kind):
        finite = _finite(result)
        if pc.all(finite, min_count=0).as_py():
            return result
        lost = pc.and_(_finite(column), pc.invert(finite))
    elif _sort(kind) == "decimal":
        lost = pc.not_equal(cast_datum(result, origin, lenient=False), column)
    elif _is_coarser(origin, kind):
        step = TICKS[origin.unit] // TICKS[kind.unit]
        ticks = column.view(pa.int32() if origin.bit_width == 32 else pa.int64()).cast(pa.int64())
        lost = pc.not_equal(pc.multiply(pc.divide(ticks, step), step), ticks)
    else:
        return result
    at = pc.index(lost.fill_null(False), True).as_py()
    if at >= 0:
        raise InvalidChange(f"cannot cast {column[at].as_py()!r} from {origin} to {kind} without loss")
    return result


def _finite(values: pa.Array) -> pa.Array:
    wide = cast_datum(values, pa.float64(), lenient=False) if pa.types.is_float16(values.type) else values
    return pc.is_finite(wide)


def _is_coarser(origin: pa.DataType, kind: pa.DataType) -> bool:
    """Whether both count units of time, the new one larger ones."""
    alike = any(test(origin) and test(kind) for test in (pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration))
    return alike and TICKS[origin.unit] > TICKS[kind.unit]


def _values(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _sort(kind: pa.DataType) -> str | None:
    for name, test in (
        ("integer", pa.types.is_integer),
        ("float", pa.types.is_floating),
        ("decimal", pa.types.is_decimal),
        ("text", is_text),
        ("time", pa.types.is_time),
        ("duration", pa.types.is_duration),
        ("date", pa.types.is_temporal),
    ):
        if test(kind):
            return name
    return "bytes" if is_bytes(kind) and not pa.types.is_fixed_size_binary(kind) else None

"""The order of lists and structs: item by item, field by field; a list comes before its longer ones.

Values become keys that Python compares, so that types of any depth need no kernels of their own.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.expressions.coercion import is_list_like, value_type
from lancelet.expressions.list_parts import take_apart
from lancelet.expressions.sort import total_order

__all__ = ["compare_nested", "has_order", "nested_ranks"]

Key = tuple[Any, ...]

_TESTS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FIRST: Key = (0,)
_LAST: Key = (2,)


def has_order(kind: pa.DataType) -> bool:
    """Whether values of a type can be compared: plain ones, and lists and structs of such."""
    kind = value_type(kind)
    if is_list_like(kind):
        return has_order(kind.value_type)
    if pa.types.is_struct(kind):
        return all(has_order(field.type) for field in kind)
    return not pa.types.is_nested(kind)


def compare_nested(op: str, left: pa.Array, right: pa.Array, nulls_last: bool = False) -> pa.Array:
    """``left op right`` for two columns of one type; null where either is null.

    Nulls inside of them are before everything, or after it.
    """
    test, null = _TESTS[op], _LAST if nulls_last else _FIRST
    pairs = zip(_keys(left, null), _keys(right, null), strict=True)
    return pa.array([None if null in pair else test(*pair) for pair in pairs], pa.bool_())


def nested_ranks(values: pa.Array) -> npt.NDArray[np.int64]:
    """A number for each value in the order of the values, in which nulls inside of them are after everything."""
    keys = _keys(values, _LAST)
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], np.int64)


def _keys(values: pa.Array, null: Key) -> list[Key]:
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return _keys(values.storage, null)
    if pa.types.is_dictionary(kind):
        return _keys(values.dictionary_decode(), null)
    if is_list_like(kind):
        lists = take_apart(values, len(values))
        items = _keys(lists.items(), null)
        ends = np.cumsum(lists.lengths)
        bounds = zip((ends - lists.lengths).tolist(), ends.tolist(), lists.valid.tolist(), strict=True)
        return [(1, *items[start:end]) if valid else null for start, end, valid in bounds]
    valid = values.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        fields = [_keys(field, null) for field in values.flatten()]
        rows = zip(*fields, strict=True) if fields else iter([()] * len(values))
        return [(1, *row) if some else null for row, some in zip(rows, valid, strict=True)]
    if pa.types.is_floating(kind):
        values = total_order(pa.chunked_array([values])).combine_chunks()
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == _HALF_WORD else pa.int64())
    return [(1, value) if some else null for value, some in zip(values.to_pylist(), valid, strict=True)]


_HALF_WORD = 32

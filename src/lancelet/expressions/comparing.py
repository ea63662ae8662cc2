"""Comparisons and membership over Arrow values, with the order that SQL in pylance has.

Floats compare in a total order: NaN equals NaN and is above infinity, and
``-0.0`` equals ``0.0``. pyarrow follows IEEE 754, where NaN compares with
nothing; ``x > c`` is therefore computed as ``not (x <= c)``, which is true for
NaN and still null for null.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.picking import keep_rows, pick_rows
from lancelet.encoding.plain import arrow_scalar
from lancelet.expressions.casting import Datum, cast_datum
from lancelet.expressions.coercion import is_list_like
from lancelet.expressions.membership import among
from lancelet.expressions.nested_order import compare_nested
from lancelet.expressions.signature import as_array
from lancelet.runtime import compute as pc

__all__ = ["FLIPPED", "compare", "is_in"]

KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FEW = 4
_FALSE = arrow_scalar(False, pa.bool_())
_OPPOSITE = {">": "<=", ">=": "<", "!=": "="}


def compare(op: str, left: Datum, right: Datum) -> Datum:
    """``left op right`` for two values of the same type; null where either is null."""
    kind = left.type
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Array):
        return compare(FLIPPED[op], right, left)
    if pa.types.is_float16(kind):
        return compare(op, cast_datum(left, pa.float32(), False), cast_datum(right, pa.float32(), False))
    if pa.types.is_floating(kind):
        return _compare_floats(op, left, right)
    if pa.types.is_nested(kind):
        return _compare_nested(op, left, right)
    return KERNELS[op](left, right)


def _compare_floats(op: str, left: Datum, right: Datum) -> Datum:
    if op in _OPPOSITE:
        return pc.invert(_compare_floats(_OPPOSITE[op], left, right))
    if isinstance(right, pa.Scalar) and right.is_valid:
        if not math.isnan(right.as_py()):
            return KERNELS[op](left, right)
        is_nan = pc.is_nan(left)
        if op == "=":
            return is_nan
        return pc.invert(is_nan) if op == "<" else pc.or_(is_nan, pc.invert(is_nan))
    plain = KERNELS[op](left, right)
    right_nan = pc.is_nan(right)
    if op == "<=":
        return pc.or_(plain, right_nan)
    left_nan = pc.is_nan(left)
    return pc.or_(plain, pc.and_(right_nan, left_nan if op == "=" else pc.invert(left_nan)))


def _compare_nested(op: str, left: Datum, right: Datum) -> Datum:
    if isinstance(left, pa.Scalar):
        return _compare_nested(op, as_array(left, 1), right)[0]
    if isinstance(right, pa.Scalar) and is_list_like(left.type) and op in ("=", "!="):
        return _compare_lists(op, left, right)
    return compare_nested(op, left, as_array(right, len(left)))


def _compare_lists(op: str, left: pa.Array, right: pa.Scalar) -> pa.Array:
    """A list column with a constant list: the same length and, place by place, the same value or both null."""
    if not right.is_valid:
        return pa.nulls(len(left), pa.bool_())
    wanted = right.values
    lengths = pc.list_value_length(left)
    same = pc.equal(lengths, len(wanted))
    candidates = keep_rows(left, same.fill_null(False))
    flat = candidates.flatten()
    hits = pa.repeat(True, len(candidates))
    for place, value in enumerate(wanted):
        items = pick_rows(flat, pa.array(range(place, len(flat), len(wanted)), pa.int64()))
        equal = compare("=", items, value).fill_null(False) if value.is_valid else items.is_null()
        hits = pc.and_(hits, equal)
    result = pc.replace_with_mask(same, same.fill_null(False), hits)
    return result if op == "=" else pc.invert(result)


def distinct(values: pa.Array) -> pa.Array:
    """Each value once, in the order in which they come; half floats by their bits, since older releases of pyarrow hash none.

    Examples
    --------
    >>> distinct(pa.array([2, 1, 2])).to_pylist()
    [2, 1]
    """
    if pa.types.is_float16(values.type):
        return values.view(pa.uint16()).unique().view(values.type)
    return values.unique()


def is_in(values: pa.Array, wanted: pa.Array, match_null: bool = False) -> pa.Array:
    """Whether each value is among ``wanted``; for a null value whether a null is (or False)."""
    kind = values.type
    if pa.types.is_float16(kind):
        values, wanted = (cast_datum(array, pa.float32(), False) for array in (values, wanted))
    if pa.types.is_floating(wanted.type) and pc.any(pc.equal(wanted, 0.0)).as_py():
        wanted = pa.concat_arrays([wanted, pa.array([0.0, -0.0], wanted.type)])
    elif 0 < len(wanted) <= _FEW and not wanted.null_count:
        # A few comparisons are quicker than a hash lookup.
        return reduce(pc.or_, [compare("=", values, value) for value in wanted]).fill_null(_FALSE)
    elif wanted.type == kind and _has_words(kind):
        return _is_in_words(values, wanted, match_null)
    return pc.is_in(values, value_set=wanted, skip_nulls=not match_null)


def _has_words(kind: pa.DataType) -> bool:
    """Whether values are the same where their bits are, and there are as many of these as a number has."""
    return pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _is_in_words(values: pa.Array, wanted: pa.Array, match_null: bool) -> pa.Array:
    bits = among(_words(values), _words(wanted.drop_null()))
    found = pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    if not values.null_count:
        return found
    if match_null and wanted.null_count:
        return pc.or_(found, values.is_null())
    return pc.and_(found, values.is_valid())


def _words(values: pa.Array) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The bits of each value, whatever a null has."""
    size = values.type.bit_width // 8
    data = values.buffers()[1]
    if data is None:
        return np.zeros(len(values), f"u{size}")
    return np.frombuffer(data, f"u{size}", len(values), values.offset * size)

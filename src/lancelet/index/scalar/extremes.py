"""The least and the greatest value of each stretch of a column.

Values are compared as numbers where they are numbers underneath, and as byte strings
otherwise. Floats are ordered by their bits, so that ``-0.0`` is below ``0.0``; NaN is left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import masked_array
from lancelet.index.scalar.arrow_bytes import Bytes, Longs, fixed, is_text_or_bytes, spans, validity
from lancelet.index.scalar.text_extremes import extremes as byte_extremes
from lancelet.index.scalar.value_types import is_ordered

Numbers = npt.NDArray[np.integer[Any]]

_SIGN = 0x80


@dataclass(frozen=True, slots=True)
class Extremes:
    """Of each stretch; null where it has no value, or its type no order."""

    low: pa.Array
    high: pa.Array
    nans: Longs


def find_extremes(values: pa.Array, begins: Longs) -> Extremes:
    """Extremes of the stretches from each beginning to the next; the first one is 0."""
    dtype = values.type
    nans = np.zeros(len(begins), np.int64)
    if not is_ordered(dtype):
        return Extremes(pa.nulls(len(begins), dtype), pa.nulls(len(begins), dtype), nans)
    valid = validity(values)
    if is_text_or_bytes(dtype) or pa.types.is_decimal(dtype):
        data, offsets = spans(values) if is_text_or_bytes(dtype) else _decimal_spans(values)
        least, most = byte_extremes(data, offsets, valid, begins)
        return Extremes(_taken(values, least), _taken(values, most), nans)
    if pa.types.is_floating(dtype):
        numbers = _ordered_bits(values)
        is_nan = np.isnan(fixed(values)[0].view(f"f{numbers.itemsize}"))
        if is_nan.any():
            here = valid.view(np.bool_) if len(valid) else np.ones(len(values), np.bool_)
            nans = np.add.reduceat((is_nan & here).astype(np.int64), begins)
            valid = (here & ~is_nan).view(np.uint8)
    else:
        numbers = _whole_numbers(values)
    low, high, some = _reduced(numbers, valid, begins)
    return Extremes(_typed(low, some, dtype), _typed(high, some, dtype), nans)


def _reduced(numbers: Numbers, valid: Bytes, begins: Longs) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
    """The least and the greatest numbers, and which stretches have any."""
    if not len(valid):
        low, high = np.minimum.reduceat(numbers, begins), np.maximum.reduceat(numbers, begins)
        return low, high, np.ones(len(begins), np.bool_)
    limits = np.iinfo(numbers.dtype)
    here = valid.view(np.bool_)
    low = np.minimum.reduceat(np.where(here, numbers, numbers.dtype.type(limits.max)), begins)
    high = np.maximum.reduceat(np.where(here, numbers, numbers.dtype.type(limits.min)), begins)
    return low, high, np.logical_or.reduceat(here, begins)


def _whole_numbers(values: pa.Array) -> Numbers:
    if pa.types.is_boolean(values.type):
        return np.asarray(values.cast(pa.uint8()).fill_null(0))
    data, width = fixed(values)
    return data.view(f"{'u' if pa.types.is_unsigned_integer(values.type) else 'i'}{width}")


def _ordered_bits(values: pa.Array) -> Numbers:
    """Integers in the order of floats: the bits of negative ones, other than the sign, turned over."""
    data, width = fixed(values)
    bits = data.view(f"i{width}")
    mask = bits.dtype.type(np.iinfo(bits.dtype).max)
    ordered: Numbers = bits ^ ((bits >> bits.dtype.type(8 * width - 1)) & mask)
    return ordered


def _typed(numbers: Numbers, some: npt.NDArray[np.bool_], dtype: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(dtype):
        return masked_array(numbers, ~some).cast(dtype)
    if pa.types.is_floating(dtype):
        mask = numbers.dtype.type(np.iinfo(numbers.dtype).max)
        numbers = numbers ^ ((numbers >> numbers.dtype.type(8 * numbers.itemsize - 1)) & mask)
    return masked_array(numbers, ~some).view(dtype)


def _decimal_spans(values: pa.Array) -> tuple[Bytes, Longs]:
    """Decimals as byte strings of the same order: big-endian, the sign turned over."""
    data, width = fixed(values)
    strings = np.ascontiguousarray(data.reshape(-1, width)[:, ::-1])
    strings[:, 0] ^= np.uint8(_SIGN)
    return strings.reshape(-1), np.arange(len(values) + 1) * width


def _taken(values: pa.Array, at: Longs) -> pa.Array:
    return values.take(masked_array(at, at < 0))

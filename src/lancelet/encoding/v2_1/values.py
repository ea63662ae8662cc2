"""Decoded values of one leaf before they become Arrow: plain numpy, no validity.

A codec tree decodes into one of these shapes, and :func:`to_arrow` gives it the
leaf's type. Slots under nulls hold anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import bit_width, fixed_buffer
from lancelet.encoding.kernels import miniblock
from lancelet.encoding.place import Place
from lancelet.encoding.rows import Bytes, Indices

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Fixed:
    """``count`` values of ``bits`` bits; single bits are a bitmap."""

    data: Bytes | pa.Buffer
    bits: int
    count: int


@dataclass(frozen=True, slots=True)
class Variable:
    """Byte strings: value i is data[offsets[i]:offsets[i + 1]]."""

    offsets: Indices
    data: Bytes | pa.Buffer

    @property
    def count(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class FixedList:
    """``count`` lists of ``size`` items, with the items' validity where they have one."""

    items: Values
    size: int
    item_validity: Bytes | None
    count: int


@dataclass(frozen=True, slots=True)
class Record:
    """Packed structs: one shape a child."""

    children: tuple[Values, ...]
    count: int


Values: TypeAlias = Fixed | Variable | FixedList | Record


def allocate(size: int) -> tuple[pa.Buffer, Bytes]:
    """A fresh Arrow buffer and a writable view of it."""
    buffer = pa.allocate_buffer(size)
    return buffer, np.frombuffer(buffer, np.uint8)


def to_arrow(values: Values, dtype: pa.DataType, place: Place) -> pa.Array:
    """An array without nulls of type ``dtype``; shapes that do not fit the type are corrupt."""
    match values:
        case Fixed():
            return _fixed(values, dtype, place)
        case Variable():
            return _variable(values, dtype, place)
        case FixedList():
            if not pa.types.is_fixed_size_list(dtype) or dtype.list_size != values.size:
                raise place.corrupt(f"lists of {values.size} items in a column of {dtype}")
            items = to_arrow(values.items, dtype.value_type, place)
            if values.item_validity is not None:
                items = with_validity(items, pa.py_buffer(values.item_validity), -1)
            return pa.Array.from_buffers(dtype, values.count, [None], 0, children=[items])
        case Record():
            if not pa.types.is_struct(dtype) or dtype.num_fields != len(values.children):
                raise place.corrupt(f"packed structs of {len(values.children)} fields in a column of {dtype}")
            children = [to_arrow(c, dtype.field(i).type, place) for i, c in enumerate(values.children)]
            return pa.Array.from_buffers(dtype, values.count, [None], 0, children=children)


def _fixed(values: Fixed, dtype: pa.DataType, place: Place) -> pa.Array:
    if pa.types.is_fixed_size_list(dtype):
        return _fixed_as_lists(values, dtype, place)
    if pa.types.is_boolean(dtype) and values.bits == 8:
        bitmap = np.packbits(np.frombuffer(values.data, np.uint8)[: values.count], bitorder="little")
        return pa.Array.from_buffers(dtype, values.count, [None, pa.py_buffer(bitmap)], 0)
    # The width of a dictionary type is that of its keys, but keys without a dictionary are no array.
    if bit_width(dtype) != values.bits or values.bits == 0:
        raise place.corrupt(f"values of {values.bits} bits in a column of {dtype}")
    buffer = values.data if isinstance(values.data, pa.Buffer) else fixed_buffer(values.data, dtype)
    return pa.Array.from_buffers(dtype, values.count, [None, buffer], 0)


def _fixed_as_lists(values: Fixed, dtype: pa.DataType, place: Place) -> pa.Array:
    """Records without a list codec of their own, as children of packed structs have."""
    if dtype.list_size == 0 or values.bits % dtype.list_size:
        raise place.corrupt(f"values of {values.bits} bits in a column of {dtype}")
    items = Fixed(values.data, values.bits // dtype.list_size, values.count * dtype.list_size)
    return pa.Array.from_buffers(dtype, values.count, [None], 0, children=[_fixed(items, dtype.value_type, place)])


def _variable(values: Variable, dtype: pa.DataType, place: Place) -> pa.Array:
    wide = pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype)
    if not wide and not pa.types.is_string(dtype) and not pa.types.is_binary(dtype):
        raise place.corrupt(f"values of varying length in a column of {dtype}")
    offsets = pa.py_buffer(values.offsets)
    if not wide:
        if values.offsets[-1] > _INT32_MAX:
            raise place.too_large(f"{values.offsets[-1]} bytes of {dtype}")
        narrow = np.empty(len(values.offsets), np.int32)
        miniblock.narrow(values.offsets, narrow)
        offsets = pa.py_buffer(narrow)
    data = values.data if isinstance(values.data, pa.Buffer) else pa.py_buffer(values.data)
    array = pa.Array.from_buffers(dtype, values.count, [None, offsets, data], 0)
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        first, last = int(values.offsets[0]), int(values.offsets[-1])
        check_utf8(array, np.frombuffer(values.data, np.uint8)[first:last], place)
    return array


def check_utf8(array: pa.Array, data: Bytes, place: Place) -> None:
    """Text that is not UTF-8 must not reach Arrow's string kernels. ASCII, the usual case, is found out quickly."""
    if len(data) == 0 or int(data.max()) < 128:
        return
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise place.corrupt(f"text is not UTF-8: {error}") from None


def with_validity(array: pa.Array, bitmap: pa.Buffer, nulls: int) -> pa.Array:
    """The same values under a validity bitmap that starts at bit 0."""
    if nulls == 0:
        return array
    dtype, count = array.type, len(array)
    if pa.types.is_null(dtype):
        return array
    if pa.types.is_dictionary(dtype):
        return pa.DictionaryArray.from_arrays(with_validity(array.indices, bitmap, nulls), array.dictionary, safe=False)
    if pa.types.is_struct(dtype):
        children = [array.field(i) for i in range(dtype.num_fields)]
        return pa.Array.from_buffers(dtype, count, [bitmap], nulls, children=children)
    if pa.types.is_fixed_size_list(dtype):
        size = dtype.list_size
        items = array.values.slice(array.offset * size, count * size)
        return pa.Array.from_buffers(dtype, count, [bitmap], nulls, children=[items])
    buffers = array.buffers()
    if array.offset:
        buffers = [None, *_rebase(array, buffers)]
    return pa.Array.from_buffers(dtype, count, [bitmap, *buffers[1:]], nulls)


def _rebase(array: pa.Array, buffers: list[pa.Buffer]) -> list[pa.Buffer]:
    """Buffers of a sliced array, moved so that its offset is 0."""
    dtype, start, count = array.type, array.offset, len(array)
    if pa.types.is_boolean(dtype):
        bits = np.unpackbits(np.frombuffer(buffers[1], np.uint8), bitorder="little")[start : start + count]
        return [pa.py_buffer(np.packbits(bits, bitorder="little"))]
    if len(buffers) == 3:
        step = 8 if pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype) else 4
        return [buffers[1].slice(start * step, (count + 1) * step), buffers[2]]
    step = dtype.bit_width // 8
    return [buffers[1].slice(start * step, count * step)]

"""Arrow arrays from decoded numpy buffers, checked so that Arrow never sees a buffer that lies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.place import Place
from lancelet.encoding.plain import numpy_type
from lancelet.encoding.rows import Bytes, Indices

MAX_INT32 = 2**31 - 1
MAX_IMPLICIT_BYTES = 4 << 30
"""The most memory that values without any bytes of their own (nulls) may ask for in one read."""


def bit_width(dtype: pa.DataType) -> int:
    """Bits of one value of a fixed-width type, lists of fixed size included; 0 for all other types."""
    if pa.types.is_fixed_size_list(dtype):
        return int(dtype.list_size) * bit_width(dtype.value_type)
    if pa.types.is_null(dtype) or pa.types.is_dictionary(dtype):
        return 0
    try:
        return int(dtype.bit_width)
    except ValueError:
        return 0


def is_variable(dtype: pa.DataType) -> bool:
    """Strings and binary, with offsets of either width."""
    return dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def shift_bits(data: Bytes, skip: int, count: int) -> Bytes:
    """``count`` bits from bit ``skip`` (below 8) on, moved to bit 0."""
    size = (count + 7) // 8
    if skip == 0:
        return data[:size]
    moved: Bytes = data[:size] >> np.uint8(skip)
    spill = data[1 : size + 1] << np.uint8(8 - skip)
    moved[: len(spill)] |= spill
    return moved


def pick_bits(data: Bytes, bits: Indices) -> Bytes:
    """The bits at these positions, packed."""
    return np.packbits((data[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1, bitorder="little")


def nulls(count: int, dtype: pa.DataType, place: Place) -> pa.Array:
    """An array of nulls; its memory is bounded because no bytes of the file vouch for it."""
    needed = count * max(bit_width(dtype), 8) // 8
    if needed > MAX_IMPLICIT_BYTES:
        raise place.corrupt(f"{count} null values would need {needed} bytes of memory")
    return pa.nulls(count, dtype)


def fixed_buffer(data: Bytes, dtype: pa.DataType) -> pa.Buffer:
    """A value buffer; copied only if the values do not lie at their natural alignment."""
    width = bit_width(dtype) // 8
    natural = 8 if width % 8 == 0 else width & -width
    if pa.types.is_fixed_size_binary(dtype):
        natural = 1
    if natural > 1 and data.__array_interface__["data"][0] % natural:
        data = data.copy()
    return pa.py_buffer(data)


def fixed_array(dtype: pa.DataType, count: int, data: Bytes, validity: Bytes | None = None) -> pa.Array:
    """Fixed-width values, or fixed-size lists of them, from the bytes of their innermost values."""
    bitmap = None if validity is None else pa.py_buffer(validity)
    if pa.types.is_fixed_size_list(dtype):
        items = fixed_array(dtype.value_type, count * dtype.list_size, data)
        return pa.Array.from_buffers(dtype, count, [bitmap], children=[items])
    return pa.Array.from_buffers(dtype, count, [bitmap, fixed_buffer(data, dtype)])


def variable_array(dtype: pa.DataType, offsets: Indices, data: Bytes, valid: Bytes | None, place: Place) -> pa.Array:
    """Strings or binary from offsets that were checked against ``data`` and begin at 0.

    ``valid`` is a bitmap; the values of null rows are empty.
    """
    count = len(offsets) - 1
    text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
    if text:
        _check_utf8(offsets, data, place)
    if pa.types.is_string(dtype) or pa.types.is_binary(dtype):
        if offsets[-1] > MAX_INT32:
            raise place.too_large(f"{int(offsets[-1])} bytes of {dtype} values")
        ends = pa.py_buffer(offsets.astype(np.int32))
    else:
        ends = pa.py_buffer(np.ascontiguousarray(offsets))
    bitmap = None if valid is None else pa.py_buffer(valid)
    return pa.Array.from_buffers(dtype, count, [bitmap, ends, pa.py_buffer(data)])


def list_array(dtype: pa.DataType, lengths: Indices, valid: Bytes | None, items: pa.Array, place: Place) -> pa.Array:
    """Lists from the number of items of each; the items lie side by side."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if pa.types.is_list(dtype):
        if offsets[-1] > MAX_INT32:
            raise place.too_large(f"{int(offsets[-1])} list items")
        offsets = offsets.astype(np.int32)
    bitmap = None if valid is None else pa.py_buffer(valid)
    return pa.Array.from_buffers(dtype, len(lengths), [bitmap, pa.py_buffer(offsets)], children=[items])


def struct_array(dtype: pa.DataType, count: int, children: list[pa.Array]) -> pa.Array:
    """Structs, all of them valid."""
    return pa.Array.from_buffers(dtype, count, [None], children=children)


def dictionary_array(keys: pa.Array, values: pa.Array, dtype: pa.DataType, place: Place) -> pa.Array:
    """Keys that point to a null value become null themselves; the values keep no null, so that they can be unified."""
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    numbers: Indices = keys.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    used = numbers[valid]
    if len(used) and (used.min() < 0 or used.max() >= len(values)):
        raise place.corrupt(f"dictionary keys from {used.min()} to {used.max()}, but only {len(values)} values")
    if values.null_count == 0:
        return pa.DictionaryArray.from_arrays(keys, values)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    valid &= present[numbers]
    numbers = np.where(valid, (np.cumsum(present) - 1)[numbers], 0)
    indices = pa.array(numbers.astype(numpy_type(dtype.index_type)), dtype.index_type, mask=~valid)
    return pa.DictionaryArray.from_arrays(indices, values.drop_null())


def concat(arrays: list[pa.Array], dtype: pa.DataType, place: Place) -> pa.Array:
    """Pages of one column end to end; dictionaries are unified."""
    if len(arrays) == 1:
        return arrays[0]
    if not arrays:
        return pa.array([], dtype)
    try:
        return pa.concat_arrays(arrays)
    except (pa.ArrowInvalid, pa.ArrowCapacityError):
        what = "the union of the dictionaries" if pa.types.is_dictionary(dtype) else f"the column of {dtype}"
        raise place.too_large(what) from None


def pack_validity(valid: npt.NDArray[np.bool_]) -> Bytes | None:
    """A bitmap from booleans, or None if all are true."""
    return None if bool(valid.all()) else np.packbits(valid, bitorder="little")


def _check_utf8(offsets: Indices, data: Bytes, place: Place) -> None:
    """All bytes as one text, and no value may begin inside a character."""
    total = int(offsets[-1])
    if total == 0 or data[:total].max() < 0x80:
        return
    whole = pa.LargeStringArray.from_buffers(1, pa.py_buffer(np.array([0, total], np.int64)), pa.py_buffer(data))
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        raise place.corrupt("a string is not UTF-8") from None
    starts = offsets[:-1]
    inside = data[starts[starts < total]] & np.uint8(0xC0) == 0x80
    if bool(inside.any()):
        raise place.corrupt("a string begins inside a UTF-8 character")

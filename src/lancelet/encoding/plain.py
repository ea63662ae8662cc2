"""Plain arrays between numpy and Arrow, by their buffers.

``pa.array``, ``pa.scalar`` and ``Array.to_numpy`` look for pandas first, and import it where it
is installed; a process that reads its first rows should not wait for that.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NUMPY_TYPES: dict[pa.DataType, type[np.generic]] = {
    pa.from_numpy_dtype(kind): kind
    for kind in (
        np.bool_,
        *(np.int8, np.int16, np.int32, np.int64),
        *(np.uint8, np.uint16, np.uint32, np.uint64),
        *(np.float16, np.float32, np.float64),
    )
}


def numpy_type(kind: pa.DataType) -> Any:
    """Numpy's type for numbers or booleans; ``DataType.to_pandas_dtype`` needs pandas in older releases of pyarrow.

    Examples
    --------
    >>> numpy_type(pa.uint16())
    <class 'numpy.uint16'>
    """
    return _NUMPY_TYPES[kind]


def arrow_array(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers or booleans, without nulls and, but for booleans, without a copy."""
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    dtype = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def numpy_array(array: pa.Array) -> npt.NDArray[Any]:
    """Numbers or booleans that have no nulls."""
    assert array.null_count == 0, "nulls have no place in a plain array"
    data = array.buffers()[1]
    if pa.types.is_boolean(array.type):
        if data is None:
            return np.empty(0, np.bool_)
        bits = np.frombuffer(data, np.uint8)
        stop = array.offset + len(array)
        return np.unpackbits(bits, count=stop, bitorder="little")[array.offset :].view(np.bool_)
    kind = numpy_type(array.type)
    if data is None:
        return np.empty(0, kind)
    return np.frombuffer(data, kind, len(array), array.offset * np.dtype(kind).itemsize)


def masked_array(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pa.Array:
    """Numbers, some of which are null."""
    array = arrow_array(values)
    valid = arrow_array(~missing).buffers()[1]
    return pa.Array.from_buffers(array.type, len(array), [valid, array.buffers()[1]])


def sequence_array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    """What ``pa.array`` makes; of integers and texts alone that fit without a look for pandas.

    Examples
    --------
    >>> sequence_array([3, 1], pa.int16()).to_pylist()
    [3, 1]
    """
    if not values:
        return pa.nulls(0, kind)
    if pa.types.is_integer(kind):
        numbers, limits = [value for value in values if type(value) is int], np.iinfo(numpy_type(kind))
        if len(numbers) == len(values) and limits.min <= min(numbers) and max(numbers) <= limits.max:
            return arrow_array(np.array(numbers, limits.dtype))
    elif pa.types.is_string(kind):
        texts = [value.encode() for value in values if type(value) is str]
        ends = np.cumsum([0, *map(len, texts)])
        if len(texts) == len(values) and ends[-1] < 1 << 31:
            buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(texts))]
            return pa.Array.from_buffers(kind, len(texts), buffers)
    return pa.array(values, kind)


def list_offsets(lists: pa.Array) -> npt.NDArray[Any]:
    """Where each list begins among the values, and where the last one ends; no lists may come without a buffer."""
    if len(lists) == 0:
        return np.zeros(1, np.int64 if pa.types.is_large_list(lists.type) else np.int32)
    return numpy_array(lists.offsets)


def arrow_scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    """What ``pa.scalar`` makes; integers, doubles, booleans and texts of their own types without a look for pandas.

    Examples
    --------
    >>> arrow_scalar(7, pa.int16())
    <pyarrow.Int16Scalar: 7>
    """
    data: list[bytes] = []
    if type(value) is int and pa.types.is_integer(kind):
        signed, bits = pa.types.is_signed_integer(kind), kind.bit_width
        if -(1 << bits - 1) <= value < 1 << bits - 1 if signed else 0 <= value < 1 << bits:
            data = [value.to_bytes(bits // 8, "little", signed=signed)]
    elif type(value) is float and pa.types.is_float64(kind):
        data = [struct.pack("<d", value)]
    elif type(value) is bool and pa.types.is_boolean(kind):
        data = [struct.pack("?", value)]
    elif type(value) is str and pa.types.is_string(kind):
        text = value.encode()
        data = [struct.pack("<ii", 0, len(text)), text]
    if not data:
        return pa.scalar(value, kind)
    return pa.Array.from_buffers(kind, 1, [None, *map(pa.py_buffer, data)])[0]

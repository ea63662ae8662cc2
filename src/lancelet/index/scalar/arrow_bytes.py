"""The bytes of Arrow arrays, as kernels take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

_NOTHING = np.empty(0, np.uint8)


def is_text_or_bytes(dtype: pa.DataType) -> bool:
    """Whether values are spans of bytes between offsets."""
    types = pa.types
    return bool(
        types.is_string(dtype) or types.is_large_string(dtype) or types.is_binary(dtype) or types.is_large_binary(dtype)
    )


def spans(array: pa.Array) -> tuple[Bytes, Longs]:
    """The bytes of texts or binary values, and where each begins and the last ends."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, places, data = array.buffers()
    if places is None or not len(array):
        return _NOTHING, np.zeros(len(array) + 1, np.int64)
    offsets = np.frombuffer(places, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    return _NOTHING if data is None else np.frombuffer(data, np.uint8), offsets.astype(np.int64, copy=False)


def fixed(array: pa.Array) -> tuple[Bytes, int]:
    """The bytes of values of one width, and that width; what stands in the place of nulls is anything."""
    width = array.type.byte_width
    data = array.buffers()[1]
    if data is None or not len(array):
        return _NOTHING, width
    return np.frombuffer(data, np.uint8)[array.offset * width : (array.offset + len(array)) * width], width


def validity(array: pa.Array) -> Bytes:
    """1 for each value and 0 for each null; empty when there is no null."""
    if not array.null_count:
        return _NOTHING
    return numpy_array(array.is_valid()).view(np.uint8)

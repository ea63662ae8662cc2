"""Plain arrays between numpy and Arrow, by their buffers.

``pa.array`` and ``Array.to_numpy`` look for pandas first, and import it where it
is installed; a process that reads its first rows should not wait for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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
    kind = array.type.to_pandas_dtype()
    if data is None:
        return np.empty(0, kind)
    return np.frombuffer(data, kind, len(array), array.offset * np.dtype(kind).itemsize)

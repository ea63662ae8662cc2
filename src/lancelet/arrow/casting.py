"""Arrow's casts, and those from and to bfloat16."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lancelet.arrow.bfloat16 import NAME, BFloat16Type, array_of, bits_of, narrow, widen
from lancelet.errors import InvalidInput
from lancelet.runtime import compute as pc

_SHORT: Final = ("bfloat16", "bf16")


def cast(
    arr: pa.Array | pa.ChunkedArray, target_type: pa.DataType | str, *args: Any, **kwargs: Any
) -> pa.Array | pa.ChunkedArray:
    """An array in another type.

    As :func:`pyarrow.compute.cast`, and also between bfloat16 and other floating-point numbers, alone or in lists of a
    fixed size. A number goes to the nearest bfloat16. Nulls stay null.

    Raises
    ------
    ValueError
        There is no such cast.

    Examples
    --------
    >>> cast(pa.array([1.1, None]), "bfloat16").to_pylist()
    [1.1015625, None]
    >>> cast(cast(pa.array([1.1]), "bfloat16"), pa.float32()).to_pylist()
    [1.1015625]
    """
    target = _type_named(target_type)
    source = arr.type
    if isinstance(arr, pa.ChunkedArray):
        return pa.chunked_array([cast(chunk, target, *args, **kwargs) for chunk in arr.chunks], target)
    if source == target or not (_holds_bfloat16(source) or _holds_bfloat16(target)):
        return pc.cast(arr, target, *args, **kwargs)
    if pa.types.is_fixed_size_list(source) and pa.types.is_fixed_size_list(target):
        if source.list_size != target.list_size:
            raise InvalidInput(f"Only support casting fixed size lists of the same size, got: {source} to {target}")
        items = arr.values.slice(arr.offset * source.list_size, len(arr) * source.list_size)
        missing = arr.is_null() if arr.null_count else None
        return pa.FixedSizeListArray.from_arrays(cast(items, target.value_type), type=target, mask=missing)
    if _is_bfloat16(target):
        if not pa.types.is_floating(source):
            raise InvalidInput(f"Only support casting floating array to bfloat16 array, got: {source}")
        numbers = pc.fill_null(pc.cast(arr, pa.float32(), safe=False), 0.0).to_numpy(zero_copy_only=False)
        return array_of(narrow(numbers), arr.is_null().to_numpy(zero_copy_only=False))
    if not pa.types.is_floating(target):
        raise InvalidInput(f"Only support casting bfloat16 array to floating array, got: {target}")
    missing = arr.is_null().to_numpy(zero_copy_only=False)
    return pc.cast(pa.array(widen(bits_of(arr)), pa.float32(), mask=missing), target, *args, **kwargs)


def _type_named(target: pa.DataType | str) -> pa.DataType:
    if not isinstance(target, str):
        return target
    return BFloat16Type() if target in _SHORT else pa.type_for_alias(target)


def _is_bfloat16(dtype: pa.DataType) -> bool:
    return getattr(dtype, "extension_name", None) == NAME


def _holds_bfloat16(dtype: pa.DataType) -> bool:
    return _is_bfloat16(dtype.value_type if pa.types.is_fixed_size_list(dtype) else dtype)

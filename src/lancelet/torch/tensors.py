"""Arrow columns as tensors.

=================================  ==================================================================
column                             tensor
=================================  ==================================================================
numbers, booleans                  one dimension; where there are nulls, 64-bit floats with NaN
uint64                             int64, which torch can do more with
vectors of numbers, tensors        two dimensions; a vector that is null is NaN
bfloat16, also in vectors          the same in bfloat16
blobs                              a list of files
=================================  ==================================================================

A tensor can be written to, so what the table maps into memory is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lancelet.errors import InvalidInput
from lancelet.format.extensions import storage_of
from lancelet.format.logical_types import EXTENSION_NAME

_BFLOAT16 = "lance.bfloat16"
_BFLOAT16_NAN = 0x7FC0


def to_tensor(
    batch: pa.RecordBatch | Mapping[str, Any],
    *,
    uint64_as_int64: bool = True,
    hf_converter: Any = None,
    use_blob_api: bool = False,
    **kwargs: Any,
) -> Any:
    """The columns of a batch by name; the tensor itself when there is but one.

    Examples
    --------
    >>> to_tensor(pa.record_batch({"x": [1, 2]}))
    tensor([1, 2])
    """
    fields = list(batch.schema) if isinstance(batch, pa.RecordBatch) else [_field(*column) for column in batch.items()]
    tensors = {}
    for field in fields:
        values = batch[field.name]
        is_array = hf_converter is not None and isinstance(values, pa.Array)
        shown = hf_converter.to_pytorch(field.name, values) if is_array else None
        tensors[field.name] = _column(field, values, uint64_as_int64) if shown is None else shown
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors


def _field(name: str, values: Any) -> pa.Field:
    return pa.field(name, values.type if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.null())


def _column(field: pa.Field, values: Any, uint64_as_int64: bool) -> Any:
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        # Blobs, which are read when they are asked for.
        return values
    array = storage_of(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values)
    dtype = array.type
    if _is_bfloat16(field):
        return _bfloat16(array)
    if pa.types.is_fixed_size_list(dtype) and (_is_number(dtype.value_type) or _is_bfloat16(dtype.value_field)):
        return _vectors(array)
    if _is_number(dtype) or pa.types.is_boolean(dtype):
        found = np.array(array.to_numpy(zero_copy_only=False))
        if found.dtype == object:
            # Booleans with nulls.
            found = np.array(array.cast(pa.float64()).to_numpy(zero_copy_only=False))
        if found.dtype == np.uint64 and uint64_as_int64:
            found = found.view(np.int64)
        return torch.from_numpy(found)
    raise InvalidInput(
        f"column {field.name!r} is {values.type}: tensors are made of numbers, booleans, and vectors of numbers; leave it "
        f"out with columns=..., or give a to_tensor_fn of your own"
    )


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))


def _is_bfloat16(field: pa.Field) -> bool:
    """Arrow knows the type only where somebody registered it; elsewhere the field tells."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == _BFLOAT16)
    return (field.metadata or {}).get(EXTENSION_NAME.encode()) == _BFLOAT16.encode()


def _vectors(array: pa.FixedSizeListArray) -> Any:
    length = array.type.list_size
    inner = array.values.slice(array.offset * length, len(array) * length)
    if _is_bfloat16(array.type.value_field):
        found = _bfloat16(inner).reshape(len(array), length)
        missing: Any = torch.tensor(float("nan"), dtype=torch.bfloat16)
    else:
        values = np.array(inner.to_numpy(zero_copy_only=False)).reshape(len(array), length)
        if array.null_count and values.dtype.kind != "f":
            values = values.astype(np.float64)
        found = torch.from_numpy(values)
        missing = float("nan")
    if array.null_count:
        found[torch.from_numpy(np.array(array.is_null().to_numpy(zero_copy_only=False)))] = missing
    return found


def _bfloat16(array: pa.Array) -> Any:
    stored = storage_of(array)
    bits = np.frombuffer(stored.buffers()[1], np.int16, len(stored), stored.offset * 2).copy()
    if stored.null_count:
        bits[stored.is_null().to_numpy(zero_copy_only=False)] = _BFLOAT16_NAN
    return torch.from_numpy(bits).view(torch.bfloat16)

"""Dictionary pages; the schema tells two meanings apart (spec file-format.md 3.7).

====================  =========================  ==============================
schema type           indices                    null rows
====================  =========================  ==============================
``dict:V:K:false``    keys of type K, from 0     point to a null item
``string``            u8, item k - 1             have index 0
====================  =========================  ==============================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.assemble import MAX_INT32
from lancelet.encoding.lockstep import together
from lancelet.encoding.rows import Decode, RowRange, Rows
from lancelet.encoding.v2_0.fixed import decode_fixed, fetch_flat, flat_of
from lancelet.encoding.v2_0.page import Page
from lancelet.format.proto import encodings20_pb2 as pb

DecodeItems = Callable[[Page, pb.ArrayEncoding, pa.DataType, Rows], Decode]


def decode_dictionary(page: Page, message: pb.Dictionary, dtype: pa.DataType, rows: Rows, items: DecodeItems) -> Decode:
    """Rows of a dictionary type; null items leave the dictionary and become null keys."""
    item_count = message.num_dictionary_items
    found, keys = yield from together(
        [
            items(page.with_length(item_count), message.items, dtype.value_type, RowRange(0, item_count)),
            decode_fixed(page, message.indices, dtype.index_type, rows),
        ]
    )
    numbers = keys.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    _check_keys(page, numbers[valid], item_count)
    if found.null_count:
        present = found.is_valid().to_numpy(zero_copy_only=False)
        valid &= present[numbers]
        numbers = (np.cumsum(present) - 1)[numbers]
        found = found.drop_null()
    numbers = np.where(valid, numbers, 0)
    native = numbers.astype(dtype.index_type.to_pandas_dtype())
    indices = pa.array(native, dtype.index_type, mask=None if bool(valid.all()) else ~valid)
    return pa.DictionaryArray.from_arrays(indices, found)


def decode_dictionary_strings(
    page: Page, message: pb.Dictionary, dtype: pa.DataType, rows: Rows, items: DecodeItems
) -> Decode:
    """Rows of a plain string column that the writer stored with a dictionary."""
    item_count = message.num_dictionary_items
    found, data = yield from together(
        [
            items(page.with_length(item_count), message.items, dtype, RowRange(0, item_count)),
            fetch_flat(page, flat_of(page, message.indices, 8), rows),
        ]
    )
    valid = data > 0
    _check_keys(page, data, item_count + 1)
    longest = int(np.diff(np.frombuffer(found.buffers()[1], np.int32, item_count + 1)).max(initial=0))
    if longest * len(rows) > MAX_INT32:
        lengths = np.diff(np.frombuffer(found.buffers()[1], np.int32, item_count + 1)).astype(np.int64)
        if int(lengths[data[valid] - 1].sum()) > MAX_INT32:
            raise page.place.too_large(f"{len(rows)} values of {dtype}")
    every = bool(valid.all())
    indices = pa.array(data - np.uint8(1), mask=None if every else ~valid)
    return found.take(indices)


def _check_keys(page: Page, keys: npt.NDArray[Any], count: int) -> None:
    if len(keys) and (keys.min() < 0 or keys.max() >= count):
        raise page.place.corrupt(f"dictionary keys from {keys.min()} to {keys.max()}, but only {count} items")

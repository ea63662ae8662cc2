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

import numpy as np
import pyarrow as pa

from lancelet.encoding.assemble import MAX_INT32, dictionary_array
from lancelet.encoding.fetch import gather
from lancelet.encoding.rows import Decode, RowRange, Rows
from lancelet.encoding.v2_0.fixed import decode_fixed, fetch_flat, flat_of
from lancelet.encoding.v2_0.page import Page
from lancelet.format.proto import encodings20_pb2 as pb
from lancelet.runtime import compute as pc

DecodeItems = Callable[[Page, pb.ArrayEncoding, pa.DataType, Rows], Decode]


def decode_dictionary(page: Page, message: pb.Dictionary, dtype: pa.DataType, rows: Rows, items: DecodeItems) -> Decode:
    """Rows of a dictionary type; null items leave the dictionary and become null keys."""
    item_count = message.num_dictionary_items
    found, keys = yield from gather(
        [
            items(page.with_length(item_count), message.items, dtype.value_type, RowRange(0, item_count)),
            decode_fixed(page, message.indices, dtype.index_type, rows),
        ]
    )
    return dictionary_array(keys, found, dtype, page.place)


def decode_dictionary_strings(
    page: Page, message: pb.Dictionary, dtype: pa.DataType, rows: Rows, items: DecodeItems
) -> Decode:
    """Rows of a plain string column that the writer stored with a dictionary."""
    item_count = message.num_dictionary_items
    found, data = yield from gather(
        [
            items(page.with_length(item_count), message.items, dtype, RowRange(0, item_count)),
            fetch_flat(page, flat_of(page, message.indices, 8), rows),
        ]
    )
    valid = data > 0
    if len(data) and data.max() > item_count:
        raise page.place.corrupt(f"dictionary index {data.max()}, but only {item_count} items")
    lengths = pc.binary_length(found).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if lengths.max(initial=0) * len(rows) > MAX_INT32 and lengths[data[valid] - 1].sum() > MAX_INT32:
        raise page.place.too_large(f"{len(rows)} values of {dtype}")
    every = bool(valid.all())
    indices = pa.array(data - np.uint8(1), mask=None if every else ~valid)
    return found.take(indices)

"""Dictionaries of mini-block pages (spec encodings.md 7.1): items once a page, indices in the chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.kernels import dictionary as kernel
from lancelet.encoding.picking import pick_rows
from lancelet.encoding.place import Place
from lancelet.encoding.plain import arrow_array, numpy_type
from lancelet.encoding.rows import Bytes
from lancelet.encoding.v2_1.levels import Levels
from lancelet.encoding.v2_1.values import allocate

_LIMITS = {pa.string(): 2**31 - 1, pa.binary(): 2**31 - 1, pa.large_string(): 2**62, pa.large_binary(): 2**62}


@dataclass(frozen=True, slots=True)
class PageDictionary:
    """The items of one page."""

    items: pa.Array
    offsets: npt.NDArray[np.signedinteger[Any]] | None
    """Of the items' bytes, for strings."""
    data: Bytes

    @classmethod
    def of(cls, items: pa.Array) -> PageDictionary:
        if items.type not in _LIMITS:
            return cls(items, None, np.empty(0, np.uint8))
        _, offsets, data = items.buffers()
        width = np.int32 if _LIMITS[items.type] < 2**31 else np.int64
        own = np.frombuffer(offsets, width)[: len(items) + 1] if len(items) else np.zeros(1, width)
        padded = np.zeros(int(own[-1]) + kernel.SPARE, np.uint8)
        padded[: own[-1]] = np.frombuffer(data or b"", np.uint8)[: own[-1]]
        return cls(items, own, padded)

    @property
    def nbytes(self) -> int:
        return int(self.items.nbytes) + self.data.nbytes

    def look_up(self, indices: npt.NDArray[Any], defs: Levels | None, dtype: pa.DataType, place: Place) -> pa.Array:
        """The items that ``indices`` name; a column that is a dictionary itself keeps both."""
        if len(indices) and int(indices.max()) >= len(self.items):
            if len(self.items) == 0 and defs is not None and defs.all():
                return pa.nulls(len(indices), dtype)
            indices = self._without_nulls(indices, defs, place)
        if pa.types.is_dictionary(dtype):
            index_type = numpy_type(dtype.index_type)
            if len(indices) and int(indices.max()) > np.iinfo(index_type).max:
                raise place.corrupt(f"dictionary index {indices.max()} in a column of {dtype}")
            keys = arrow_array(indices.astype(index_type))
            return pa.DictionaryArray.from_arrays(keys, self.items, safe=False)
        if self.offsets is None:
            return pick_rows(self.items, arrow_array(indices))
        out_offsets = np.empty(len(indices) + 1, self.offsets.dtype)
        total = kernel.look_up_offsets(indices, self.offsets, out_offsets, _LIMITS[dtype])
        if total < 0:
            raise place.too_large(f"text of {len(indices)} values")
        buffer, out = allocate(total + kernel.SPARE)
        if kernel.look_up_bytes(indices, self.offsets, self.data, out_offsets, out) >= 0:
            raise place.corrupt("dictionary items do not lie in their buffer")
        buffers = [None, pa.py_buffer(out_offsets), buffer.slice(0, total)]
        return pa.Array.from_buffers(dtype, len(indices), buffers, 0)

    def _without_nulls(self, indices: npt.NDArray[Any], defs: Levels | None, place: Place) -> npt.NDArray[Any]:
        """Slots under nulls may hold any index; the others may not."""
        if defs is not None:
            indices = np.where(defs > 0, np.zeros(1, indices.dtype), indices)
        if int(indices.max()) >= len(self.items):
            raise place.corrupt(f"dictionary index {indices.max()} of {len(self.items)} items")
        return indices

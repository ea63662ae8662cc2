"""Vectors of a column as kernels see them: rows of bytes, which belong to the column's own buffers.

::

    struct          validity ─┐
      fixed_size_list  validity ─┴─ valid, one for each vector          list of vectors: ends, and a list of vectors below
        elements     d * size bytes for each vector, back to back
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.errors import CorruptFile

if TYPE_CHECKING:
    from lancelet.execution.nearest_plan import VectorColumn

Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Vectors:
    """Some rows of a column of vectors."""

    rows: int
    data: npt.NDArray[np.uint8]
    """A row of bytes for each vector."""
    keep: Marks | None
    """Which rows have a value; None: all."""
    ends: npt.NDArray[np.int64] | None = None
    """For lists of vectors: where the first vector of each row is, and where the last row ends."""
    valid: Marks | None = None
    """For lists of vectors: which vectors there are; None: all."""

    @classmethod
    def of(cls, column: VectorColumn, array: pa.Array) -> Vectors:
        """The vectors of a top-level column, or of the part of it that was read."""
        array = _stored(array)
        rows, keep = len(array), _present(array)
        for name in column.path[1:]:
            array = _stored(array.field(name))
            keep = _both(keep, _present(array))
        if not column.is_multi:
            data, whole = _elements(column, array)
            return cls(rows, data, _both(keep, whole))
        ends = numpy_array(array.offsets).astype(np.int64) if rows else np.zeros(1, np.int64)
        first, last = int(ends[0]), int(ends[-1])
        inner = array.values.slice(first, last - first)
        data, whole = _elements(column, inner)
        return cls(rows, data, keep, ends - first, _both(_present(inner), whole))


def pieces(column: pa.Array | pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    """The arrays of a column, each with the number of rows before it."""
    if isinstance(column, pa.Array):
        yield 0, column
        return
    before = 0
    for chunk in column.chunks:
        yield before, chunk
        before += len(chunk)


def _elements(column: VectorColumn, array: pa.Array) -> tuple[npt.NDArray[np.uint8], Marks | None]:
    """The bytes of vectors, and which of them are there with all of their elements."""
    values = array.values
    size = 2 if column.element == "bfloat16" else column.dtype.itemsize
    width, count = column.dimension * size, len(array)
    keep = _present(array)
    if count == 0 or (keep is not None and not keep.any()):
        return np.zeros((count, width), np.uint8), keep
    buffer = values.buffers()[1]
    start = (values.offset + array.offset * column.dimension) * size
    if buffer is None or buffer.size < start + count * width:
        raise CorruptFile(
            "table", f"column '{column.name}' has fewer elements than vectors of {column.dimension}", "vectors"
        )
    data: npt.NDArray[np.uint8] = np.frombuffer(buffer, np.uint8, count * width, start).reshape(count, width)
    if values.null_count:
        inside = _present(values.slice(array.offset * column.dimension, count * column.dimension))
        if inside is not None:
            keep = _both(keep, np.all(inside.reshape(count, column.dimension), axis=1))
    return data, keep


def _present(array: pa.Array) -> Marks | None:
    """Which values are not null; None: all."""
    if array.null_count == 0:
        return None
    buffer = array.buffers()[0]
    if buffer is None:
        return np.zeros(len(array), np.bool_)
    bits = np.frombuffer(buffer, np.uint8)
    return np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :].view(np.bool_)


def _both(left: Marks | None, right: Marks | None) -> Marks | None:
    if left is None or right is None:
        return right if left is None else left
    found: Marks = left & right
    return found


def _stored(array: Any) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array

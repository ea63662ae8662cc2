"""One leaf column: finds the pages that hold the rows, and joins what they give."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancelet.encoding.fetch import FileBytes, Place, gather
from lancelet.encoding.rows import Bytes, Ranges, RowIndices, RowRange, Rows
from lancelet.encoding.v2_1.constant import zero_slots
from lancelet.encoding.v2_1.layouts import open_page
from lancelet.encoding.v2_1.levels import Entries, join_entries
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder, PageRows
from lancelet.format.proto import column_pb2


@dataclass(frozen=True, slots=True)
class LeafType:
    """What the schema says of a leaf: its type, the layers around it, rows per page row."""

    dtype: pa.DataType
    kinds: tuple[int, ...]
    """Innermost first."""
    multiplier: int = 1
    """Level entries a row where the leaf sits in a fixed-size list of structs."""


class LeafColumn:
    """Reads rows of one leaf column."""

    __slots__ = ("_bounds", "_decoders", "_file", "_index", "_metadata", "leaf")

    def __init__(self, metadata: column_pb2.ColumnMetadata, index: int, leaf: LeafType, file: FileBytes) -> None:
        self._metadata = metadata
        self._index = index
        self._file = file
        self.leaf = leaf
        lengths = [page.length for page in metadata.pages]
        if any(length > 2**40 for length in lengths):
            raise Place(file.path, index).corrupt("a page of an impossible number of rows")
        self._bounds = np.cumsum([0, *lengths], dtype=np.int64)
        self._decoders: list[PageDecoder | None] = [None] * len(lengths)

    @property
    def nbytes(self) -> int:
        return int(self._bounds.nbytes) + sum(d.nbytes for d in self._decoders if d is not None)

    @property
    def rows(self) -> int:
        """Rows that the pages hold."""
        return int(self._bounds[-1]) // self.leaf.multiplier

    @property
    def stored_bytes(self) -> int:
        return sum(sum(page.buffer_sizes) for page in self._metadata.pages)

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        """Level entries and visible values of some rows."""
        rows = self._scaled(rows)
        if len(rows) == 0:
            return PageRows(Entries(0, None, None), zero_slots(self.leaf.dtype, 0))
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, RowRange) else (rows.values[0], rows.values[-1])
        if first < 0 or last >= self._bounds[-1]:
            raise Place(self._file.path, self._index).corrupt(f"the pages hold {self._bounds[-1]} rows, not row {last}")
        begin, end = np.searchsorted(self._bounds, (first, last), "right") - 1
        if begin == end:
            inside = rows.within(int(self._bounds[begin]), int(self._bounds[begin + 1]))
            return (yield from self._decoder(int(begin)).read(inside))
        steps = []
        for page in range(int(begin), int(end) + 1):
            inside = rows.within(int(self._bounds[page]), int(self._bounds[page + 1]))
            if len(inside):
                steps.append(self._decoder(page).read(inside))
        parts = yield from gather(steps)
        return PageRows(join_entries([p.entries for p in parts]), join_values([p.values for p in parts]))

    def _scaled(self, rows: Rows) -> Rows:
        times = self.leaf.multiplier
        if times == 1:
            return rows
        if isinstance(rows, RowRange):
            return RowRange(rows.start * times, rows.stop * times)
        return RowIndices((rows.values[:, None] * times + np.arange(times)).reshape(-1))

    def _decoder(self, page: int) -> PageDecoder:
        decoder = self._decoders[page]
        if decoder is None:
            message = self._metadata.pages[page]
            place = Place(self._file.path, self._index, page)
            if len(message.buffer_offsets) != len(message.buffer_sizes):
                raise place.corrupt("buffer offsets and sizes differ in number")
            context = PageContext(
                self._file,
                place,
                tuple(message.buffer_offsets),
                tuple(message.buffer_sizes),
                message.length,
                self.leaf.dtype,
                self.leaf.kinds,
            )
            decoder = self._decoders[page] = open_page(message.encoding, context)
        return decoder


def join_values(parts: list[pa.Array]) -> pa.Array:
    """Values of several pages; dictionaries are unified."""
    if not pa.types.is_dictionary(parts[0].type):
        return pa.concat_arrays(parts)
    dtype = parts[0].type
    joined = pa.chunked_array([_wide_keys(part) for part in parts]).unify_dictionaries().combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0)
    if len(joined.dictionary) - 1 > _max_key(dtype.index_type):
        raise ValueError(f"{len(joined.dictionary)} dictionary items do not fit into {dtype.index_type} keys")
    return pa.DictionaryArray.from_arrays(joined.indices.cast(dtype.index_type), joined.dictionary, safe=False)


def _wide_keys(array: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int64()), array.dictionary, safe=False)


def _max_key(dtype: pa.DataType) -> int:
    return int(np.iinfo(dtype.to_pandas_dtype()).max)

"""Columns and pages of a 2.0 file: which buffers, which encoding (spec file-format.md 1.4, 3.1, 3.12)::

ColumnMetadata
  encoding    > direct > Any("/lance.encodings.ColumnEncoding")    values, or a wrapper around it
  pages[k]
    length                                    items k covers, right after those of page k - 1
    buffer_offsets, buffer_sizes              absolute positions in the file
    encoding  > direct > Any("/lance.encodings.ArrayEncoding")     a tree; its leaves name buffers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from lancelet.encoding.place import Place
from lancelet.encoding.rows import Indices, RowIndices, RowRange, Rows
from lancelet.format.proto import column_pb2
from lancelet.format.proto import encodings20_pb2 as pb

MAX_PAGE_LENGTH = 2**40
"""Far beyond any file; keeps sums of page lengths inside 64 bits."""

Extent = tuple[int, int]
"""Offset and size of a buffer."""
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a column that one encoding tree describes."""

    place: Place
    length: int
    encoding: pb.ArrayEncoding
    buffers: Sequence[Extent]
    column_buffers: Sequence[Extent]
    file_buffers: Sequence[Extent]
    file_size: int
    gap: int

    def buffer(self, message: pb.Buffer) -> Extent:
        """The extent of a buffer that the encoding names, inside the file."""
        kinds = {pb.Buffer.page: self.buffers, pb.Buffer.column: self.column_buffers, pb.Buffer.file: self.file_buffers}
        found = kinds.get(message.buffer_type)
        if found is None or message.buffer_index >= len(found):
            raise self.place.corrupt(
                f"the encoding names buffer {message.buffer_index} of kind {message.buffer_type}, which is not there"
            )
        offset, size = found[message.buffer_index]
        if offset + size > self.file_size:
            raise self.place.corrupt(
                f"buffer {message.buffer_index} ends at {offset + size}, the file at {self.file_size}"
            )
        return offset, size

    def with_length(self, length: int) -> Page:
        """The same buffers seen as another number of values (the items of a dictionary)."""
        return replace(self, length=length)


class PagedColumn:
    """One column: its pages by row number. Encodings are parsed when a page is first used."""

    __slots__ = ("_file_buffers", "_file_size", "_gap", "_message", "_pages", "is_blob", "place", "starts")

    def __init__(
        self, path: str, number: int, message: column_pb2.ColumnMetadata, file_buffers: Sequence[Extent],
        file_size: int, gap: int,
    ) -> None:  # fmt: skip
        self.place = Place(path, f"column {number}")
        self.is_blob = _is_blob(message.encoding, self.place)
        self._message = message
        self._file_buffers = file_buffers
        self._file_size = file_size
        self._gap = gap
        self._pages: dict[int, Page] = {}
        lengths = np.fromiter((page.length for page in message.pages), np.uint64, len(message.pages))
        if len(lengths) and lengths.max() > MAX_PAGE_LENGTH:
            raise self.place.corrupt(f"a page claims {lengths.max()} values")
        self.starts: Indices = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths.astype(np.int64), out=self.starts[1:])

    @property
    def length(self) -> int:
        return int(self.starts[-1])

    def page(self, number: int) -> Page:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = self._parse(number)
        return page

    def split(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """The pages that hold rows, each with its part of them, counted from the page's first row."""
        if len(rows) == 0:
            return
        first, last = (rows.start, rows.stop - 1) if isinstance(rows, RowRange) else (rows.values[0], rows.values[-1])
        if first < 0 or last >= self.length:
            raise self.place.corrupt(f"the column has {self.length} values, but value {int(last)} is needed")
        if isinstance(rows, RowRange):
            begin = int(np.searchsorted(self.starts, first, "right")) - 1
            end = int(np.searchsorted(self.starts, last, "right"))
            for number in range(begin, end):
                part = rows.within(int(self.starts[number]), int(self.starts[number + 1]))
                if len(part):
                    yield number, part
        else:
            borders = np.searchsorted(rows.values, self.starts)
            for number in np.flatnonzero(borders[1:] > borders[:-1]).tolist():
                chosen = rows.values[borders[number] : borders[number + 1]]
                yield number, RowIndices(chosen - self.starts[number])

    def _parse(self, number: int) -> Page:
        message = self._message.pages[number]
        place = Place(self.place.path, f"{self.place.where} page {number}")
        return Page(
            place,
            message.length,
            unpack(message.encoding, pb.ArrayEncoding, place),
            _extents(message.buffer_offsets, message.buffer_sizes, place),
            _extents(self._message.buffer_offsets, self._message.buffer_sizes, self.place),
            self._file_buffers,
            self._file_size,
            self._gap,
        )


def unpack(encoding: column_pb2.Encoding, kind: type[M], place: Place) -> M:
    """The message inside an Encoding, which must be of the kind that 2.0 files use at that place."""
    location = encoding.WhichOneof("location")
    if location != "direct":
        raise place.unsupported(f"the encoding is stored as '{location}', not in place")
    try:
        wrapped = column_pb2.AnyMessage.FromString(encoding.direct.encoding)
        if wrapped.type_url.rpartition("/")[2] != kind.DESCRIPTOR.full_name:
            raise place.unsupported(f"the encoding is a '{wrapped.type_url}', not a {kind.DESCRIPTOR.full_name}")
        return kind.FromString(wrapped.value)
    except DecodeError:
        raise place.corrupt("the encoding is not a protobuf message") from None


def _is_blob(encoding: column_pb2.Encoding, place: Place) -> bool:
    """Unwrap the column encoding; statistics of the zone index are not needed to read values."""
    inner = unpack(encoding, pb.ColumnEncoding, place)
    blob = False
    while True:
        match inner.WhichOneof("column_encoding"):
            case "values":
                return blob
            case "zone_index":
                inner = inner.zone_index.inner
            case "blob":
                blob, inner = True, inner.blob.inner
            case _:
                raise place.unsupported("the column encoding is of an unknown kind")


def _extents(offsets: Sequence[int], sizes: Sequence[int], place: Place) -> list[Extent]:
    if len(offsets) != len(sizes):
        raise place.corrupt(f"{len(offsets)} buffer offsets, but {len(sizes)} sizes")
    return list(zip(offsets, sizes, strict=True))

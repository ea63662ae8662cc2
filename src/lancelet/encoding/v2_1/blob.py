"""Blob pages of file version 2.1 (spec encodings.md 7.5).

The inner page holds (position, size) pairs. A size of 0 is an empty value at
position 0, and anything else is a null whose position is ``def << 16 | rep``.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from lancelet.encoding.rows import Bytes, Ranges, Rows
from lancelet.encoding.v2_1.constant import ConstantPage
from lancelet.encoding.v2_1.levels import ITEM, Entries, PageLevels
from lancelet.encoding.v2_1.miniblock import MiniBlockPage, MiniBlockRun, Recipe
from lancelet.encoding.v2_1.pages import PageContext, PageDecoder, PageRows
from lancelet.format.proto import encodings21_pb2 as pb
from lancelet.format.schema import BLOB_V1_DESCRIPTOR


class BlobPage:
    """Decoder of one blob page: gives descriptors, not the values themselves."""

    __slots__ = ("_context", "_inner", "_shape")

    def __init__(self, layout: pb.BlobLayout, context: PageContext) -> None:
        self._context = context
        self._shape = PageLevels.of(layout.layers, context.kinds, context.place)
        if context.dtype != BLOB_V1_DESCRIPTOR:
            raise context.place.corrupt(f"a page of blobs in a column of {context.dtype}")
        if self._shape.lists:
            raise context.place.unsupported("lists of blobs are not supported")
        inner = replace(context, dtype=BLOB_V1_DESCRIPTOR, kinds=(ITEM,))
        self._inner: PageDecoder
        match layout.inner_layout.WhichOneof("layout"):
            case "mini_block_layout":
                page = MiniBlockPage(layout.inner_layout.mini_block_layout, inner, 0)
                self._inner = MiniBlockRun((page,), Recipe.of(page.layout, inner.kinds, inner.place))
            case "constant_layout":
                self._inner = ConstantPage(layout.inner_layout.constant_layout, inner)
            case kind:
                raise context.place.unsupported(f"blob descriptors in a {kind} page are not supported")

    @property
    def nbytes(self) -> int:
        return self._inner.nbytes

    def read(self, rows: Rows) -> Generator[Ranges, list[Bytes], PageRows]:
        part = yield from self._inner.read(rows)
        if part.entries.defs is not None and part.entries.defs.any():
            raise self._context.place.corrupt("null descriptors in a blob page")
        positions, sizes = (part.values.field(i).to_numpy() for i in range(2))
        levels = np.where(sizes == 0, positions >> np.uint64(16), np.uint64(0))
        if len(levels) and int(levels.max()) > 2**16 - 1:
            raise self._context.place.corrupt("a blob descriptor with an impossible level")
        defs = self._shape.common(levels.astype(np.uint16), self._context.place)
        return PageRows(Entries(len(positions), None, defs), part.values)

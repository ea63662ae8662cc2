"""BITMAP: for each distinct value the rows that have it. Best for columns of few values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lancelet.errors import InvalidType
from lancelet.index.kind import Built, Moves, NewRows, ScalarKind, Source
from lancelet.index.questions import Between, Holds, IsIn, Missing, Question, StartsWith
from lancelet.index.scalar.options import refuse_options
from lancelet.index.scalar.value_types import has_order, is_bytes, key_type

if TYPE_CHECKING:
    from lancelet.index.folder import IndexFolder, SegmentWriter
    from lancelet.index.scalar.bitmap_segment import BitmapSegment


class BitmapKind(ScalarKind):
    """The kind of index that users call ``BITMAP``."""

    name = "BITMAP"
    type_url = "/lance.table.BitmapIndexDetails"
    marks = ("bitmap_page_lookup.lance",)
    last_version_with_ids = 0
    moves = Moves.REWRITTEN
    is_exact = True
    rank = 0

    def check(self, column: pa.Field, options: Mapping[str, object]) -> None:
        if not has_order(key_type(column.type)):
            raise InvalidType(
                f"column {column.name!r} is {column.type}; a BITMAP index takes integers, floats, booleans, texts, "
                "bytes, decimals, dates and times, also from a dictionary"
            )
        refuse_options(self.name, options)

    def takes(self, question: Question, dtype: pa.DataType) -> bool:
        dtype = key_type(dtype)
        match question:
            case IsIn() | Between() | Missing():
                return has_order(dtype)
            case StartsWith():
                return is_bytes(dtype)
            case Holds():
                return dtype in (pa.string(), pa.large_string())
            case _:
                return False

    def open(self, folder: IndexFolder, dtype: pa.DataType) -> BitmapSegment:
        from lancelet.index.scalar.bitmap_file import BitmapFile
        from lancelet.index.scalar.bitmap_segment import BitmapSegment

        return BitmapSegment(BitmapFile.open(folder, dtype))

    def write(
        self, sources: Sequence[Source], rows: NewRows, out: SegmentWriter, options: Mapping[str, object]
    ) -> Built:
        from lancelet.index.scalar.bitmap_segment import write_segment

        write_segment(sources, rows, out)
        return Built()


KIND: Final = BitmapKind()

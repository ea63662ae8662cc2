"""Segments of BITMAP indices (:mod:`lancelet.index.scalar.bitmap`), open and written.

The file is that of :mod:`lancelet.index.scalar.bitmap_file`, with the values of the column as keys. Rows are named by
their stable row ids where a table has those, by their addresses elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.index.kind import ROW, VALUE, Entries, NewRows, Source
from lancelet.index.questions import Answer, Between, Holds, IsIn, Missing, Question, StartsWith
from lancelet.index.row_set import RowSet
from lancelet.index.scalar.bitmap_build import BitmapBuilder, BuildLimits
from lancelet.index.scalar.bitmap_file import BitmapFile, Places
from lancelet.index.scalar.digests import bitmap_entries, value_digests

if TYPE_CHECKING:
    from lancelet.index.folder import SegmentWriter

_FEW_KEYS = 4096


@dataclass(frozen=True, slots=True)
class BitmapSegment:
    """An open segment."""

    file: BitmapFile

    @property
    def nbytes(self) -> int:
        return self.file.nbytes

    def ask(self, question: Question) -> Answer:
        nulls = self.file.null_rows
        if isinstance(question, Missing):
            return Answer(nulls, True, RowSet())
        exact = not isinstance(question, Holds) or question.exact
        return Answer(self.file.rows_of(self._keys(question)), exact, nulls)

    def share(self, question: Question) -> float:
        """Sets cost little unless there are many of them."""
        if isinstance(question, Missing) or len(self.file.keys) <= _FEW_KEYS:
            return 0.0
        count = len(self._keys(question))
        return 0.0 if count <= _FEW_KEYS else count / len(self.file.keys)

    def _keys(self, question: Question) -> Places:
        """The sorted keys for which something holds."""
        keys = self.file.keys
        match question:
            case IsIn(values):
                return keys.equal_to(values)
            case Between(low, high, with_low, with_high):
                start = 0 if low is None else keys.first_from(low, with_low)
                return np.arange(start, len(keys) if high is None else keys.first_from(high, not with_high))
            case StartsWith(prefix):
                return np.arange(*keys.starting_with(prefix.encode() if isinstance(prefix, str) else prefix))
            case Holds(pieces):
                return keys.holding(pieces)
            case _:
                raise TypeError(f"a BITMAP index is not asked {question}")

    def entries(self, source: Source) -> Iterator[Entries]:
        return bitmap_entries(self.file, source)

    def digests(self, values: pa.Array) -> tuple[npt.NDArray[np.uint64], None]:
        return value_digests(values), None

    def statistics(self) -> Mapping[str, Any]:
        return {"num_bitmaps": self.file.reader.num_rows}


def write_segment(sources: Sequence[Source], rows: NewRows, out: SegmentWriter) -> None:
    """Write a segment of the entries of older ones and of new rows."""
    with BitmapBuilder(rows.dtype, BuildLimits.within(out.memory_limit)) as builder:
        for source in sources:
            assert isinstance(source.segment, BitmapSegment)
            builder.add_file(source.segment.file, source)
        for batch in rows.batches:
            builder.add_rows(batch.column(VALUE), numpy_array(batch.column(ROW)).astype(np.uint64, copy=False))
        builder.write(out, {})

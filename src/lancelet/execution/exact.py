"""Exact search: every vector that may be an answer is compared with the queries.

Vectors are read in units, as a scan reads them, and compared in the threads that read them; what is kept is the nearest few
rows, so that memory does not grow with the table. Rows that are deleted or do not pass the filter are passed over where
they lie, or not read at all where they are many.

Rows go by their row ids: those break ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.encoding.plain import numpy_array
from lancelet.encoding.rows import Indices, RowIndices, RowRange, Rows
from lancelet.execution.costs import SPARSE_SHARE, SPARSE_WIDE_SHARE
from lancelet.execution.vectors import Marks, Vectors, pieces
from lancelet.format.system_columns import ROW_ID
from lancelet.index.vector.distances import Queries
from lancelet.index.vector.top import Top
from lancelet.table.rows.addresses import row_address

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.execution.nearest_plan import Nearest
    from lancelet.execution.scan import Scan
    from lancelet.execution.table_reader import TableReader
    from lancelet.execution.units import Unit
    from lancelet.format.schema import Field
    from lancelet.index.vector.metric import Metric
    from lancelet.index.vector.query import SearchUse

RowIds = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ExactSearch:
    """Vectors of one column against the queries of a search."""

    nearest: Nearest
    queries: Queries
    field: Field
    """The top-level field of the column, pruned to it."""
    count: int
    """How many rows are kept at most."""
    by_id: bool
    """Whether row ids are not addresses."""

    @classmethod
    def of(cls, table: TableReader, nearest: Nearest, metric: Metric, count: int) -> ExactSearch:
        manifest = table.snapshot.manifest
        field = nearest.column.read_field(manifest.schema)
        queries = Queries(nearest.queries, nearest.column.element, metric.value)
        return cls(nearest, queries, field, max(min(count, table.num_rows), 1), manifest.has_stable_row_ids)

    def new_tops(self, limits: Sequence[float] = ()) -> list[Top]:
        """Where the nearest rows are collected, for each answer; rows farther than ``limits`` need not be in it."""
        nearest, answers = self.nearest, 1 if self.nearest.column.is_multi else len(self.queries)
        tops = []
        for at in range(answers):
            upper = nearest.upper
            if limits and limits[at] < np.inf and (upper is None or limits[at] < upper):
                upper = float(np.nextafter(np.float32(limits[at]), np.float32(np.inf)))
            tops.append(Top(self.count, nearest.lower, upper))
        return tops

    def run(self, scan: Scan, use: SearchUse, tops: list[Top] | None = None) -> list[Top]:
        """Compare all rows of a scan, and add the nearest to ``tops``."""
        total = self.new_tops() if tops is None else tops

        def compare(unit: Unit, chosen: Indices | None) -> list[Top]:
            found = self.new_tops([top.limit for top in total])
            done = self.compare(unit.reader, unit.rows, chosen, found)
            rows = len(unit.rows) if chosen is None else len(chosen)
            use.note(refined=done, missing=0 if self.nearest.column.is_multi else rows - done)
            return found

        for found in scan.selections(compare):
            for top, more in zip(total, found, strict=True):
                top.add(*more.sorted())
        return total

    def compare(self, reader: FragmentReader, rows: RowRange, chosen: Indices | None, tops: list[Top]) -> int:
        """Some rows of a fragment: places in ``rows`` (None: all). Tells how many vectors were compared."""
        wanted: Rows = rows
        keep: Marks | None = None
        if chosen is not None:
            views = reader.row_bytes([self.field])[1] == 0
            if len(chosen) < (SPARSE_SHARE if views else SPARSE_WIDE_SHARE) * len(rows):
                wanted = RowIndices(chosen + rows.start)
            else:
                keep = np.zeros(len(rows), np.bool_)
                keep[chosen] = True
        first: int | None = None
        ids: RowIds | None = None
        if self.by_id or isinstance(wanted, RowIndices):
            ids = numpy_array(reader.system_column(ROW_ID, wanted))
        else:
            first = row_address(reader.fragment.id, rows.start)
        done = 0
        for before, part in self._parts(reader, wanted):
            here = slice(before, before + part.rows)
            marks = part.keep if keep is None else keep[here] if part.keep is None else keep[here] & part.keep
            number = 0 if first is None else first + before
            done += self._offer(part, tops, number, None if ids is None else ids[here], marks)
        return done

    def _parts(self, reader: FragmentReader, rows: Rows) -> Iterator[tuple[int, Vectors]]:
        """The vectors of some rows in parts, each with the number of rows before it; a part is gone when the next one comes."""
        column = self.nearest.column
        if isinstance(rows, RowRange) and not column.is_multi and len(column.path) == 1:
            found = reader.pieces(self.field, rows)
            if found is not None:
                for before, data in found:
                    yield before, Vectors(len(data), data, None)
                return
        (values,) = reader.read([self.field], rows)
        for before, array in pieces(values):
            yield before, Vectors.of(column, array)

    def compare_rows(self, table: TableReader, rows: RowIds, tops: list[Top], *, by_id: bool = False) -> int:
        """Single rows by address, or by row id; those that are gone are passed over. Tells how many vectors were compared."""
        rows = np.unique(rows)
        if by_id:
            owners, offsets, found = table.locate_ids(rows)
        else:
            owners, offsets, found = table.locate_live(rows)
        owners, offsets, rows = owners[found], offsets[found], rows[found]
        done = 0
        for owner in np.unique(owners).tolist():
            reader = table.reader(owner)
            here = owners == owner
            # These rows are known by their row ids, unless addresses were given and ids are others.
            if (by_id or not self.by_id) and self._compare_records(reader, offsets[here], rows[here], tops):
                done += len(rows[here])
            else:
                done += self.compare(reader, RowRange(0, reader.physical_rows), np.unique(offsets[here]), tops)
        return done

    def _compare_records(self, reader: FragmentReader, offsets: Indices, ids: RowIds, tops: list[Top]) -> bool:
        """Compare vectors of one query where they lie in a file; False: they have to be read."""
        column = self.nearest.column
        if len(tops) != 1 or len(self.queries) != 1 or column.is_multi or len(column.path) > 1:
            return False
        records = reader.records(self.field, offsets)
        if records is None or records.size != self.queries.width:
            return False
        self.queries.scan_at(records.data, records.places, tops[0], ids)
        return True

    def _offer(self, part: Vectors, tops: list[Top], first: int, ids: RowIds | None, keep: Marks | None) -> int:
        if part.ends is None:
            return self.queries.scan(part.data, tops, first, ids, keep)
        return self.queries.scan_groups(part.data, part.ends, tops[0], first, ids, keep, part.valid)

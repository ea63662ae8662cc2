"""Documents of text segments whose rows say something else by now.

Where a table has stable row ids, a row that is updated keeps its id. When pylance merges segments that cover all
fragments, it takes the documents of all of them::

    segment {0, 1}: row 7 "a b"  ─┐
    segment {2}:    row 7 "x"    ─┴─►  segment {0, 1, 2}: row 7 "a b", row 7 "x"

So a row may have several documents, or, where its text of today has no tokens, only an old one. Rows that were never
updated are as they were; of the others the texts are looked at, once for a segment. Segments that lancelet wrote have no such
documents, and say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.plain import numpy_array
from lancelet.encoding.rows import RowRange
from lancelet.execution.plan import ScanPlan
from lancelet.execution.scan import Scan
from lancelet.expressions.expr import Column
from lancelet.format.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ID

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.index.metadata import IndexMetadata
    from lancelet.index.row_set import RowNumbers
    from lancelet.index.segments import Whereabouts
    from lancelet.index.text.segment import TextSegment

Marks = npt.NDArray[np.bool_]
_ROWS_AT_ONCE: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Outdated:
    """The documents of a segment that do not count."""

    marks: Mapping[int | None, Marks]
    """By the number of their part; parts all of whose documents count are not here."""

    @property
    def nbytes(self) -> int:
        return sum(marks.nbytes for marks in self.marks.values())


NO_OUTDATED: Final = Outdated({})


def outdated_documents(
    table: TableReader, where: Whereabouts, entry: IndexMetadata, path: Sequence[str], segment: TextSegment
) -> Outdated:
    """The documents of a segment whose texts are not those that their rows have now."""
    if segment.head.is_current or not where.names_ids(entry) or not segment.num_documents:
        return NO_OUTDATED
    documents = _Documents.of(segment)
    suspects = documents.repeated | _among(documents.rows, _updated_rows(table, where, entry))
    if suspects.any():
        # What is not in its fragments does not count in any case.
        addresses, known = where.addresses(entry, documents.rows[suspects])
        suspects[suspects] = known
        addresses = addresses[known]
    numbers = np.flatnonzero(suspects)
    if not len(numbers):
        return NO_OUTDATED
    now = _digests_of_rows(table, path, segment, addresses, documents.items[numbers])
    outdated = np.zeros(len(documents.rows), np.bool_)
    outdated[numbers] = now == 0
    repeated = documents.repeated[numbers] & (now != 0)
    if repeated.any():
        outdated[_others(documents, segment, numbers[repeated], now[repeated])] = True
    parts: dict[int | None, Marks] = {}
    for part, start, stop in zip(segment.partitions, documents.bounds, documents.bounds[1:], strict=False):
        if outdated[start:stop].any():
            parts[part.number] = outdated[start:stop].copy()
    return Outdated(parts)


def _among(rows: RowNumbers, known: RowNumbers) -> Marks:
    """Which rows are among others, which ascend."""
    if not len(known):
        return np.zeros(len(rows), np.bool_)
    found: Marks = known[np.minimum(np.searchsorted(known, rows), len(known) - 1)] == rows
    return found


@dataclass(frozen=True, slots=True)
class _Documents:
    """Those of all parts, one part after the other."""

    rows: RowNumbers
    items: npt.NDArray[np.uint32]
    bounds: list[int]
    repeated: Marks
    """Which have the row, and the item, of another one."""

    @classmethod
    def of(cls, segment: TextSegment) -> _Documents:
        parts = [part.documents for part in segment.partitions]
        rows = np.concatenate([part.rows for part in parts])
        none = [np.zeros(len(part.rows), np.uint32) if part.items is None else part.items for part in parts]
        items = np.concatenate(none)
        bounds = np.cumsum([0, *(len(part.rows) for part in parts)]).tolist()
        return cls(rows, items, bounds, _repeated(rows, items))


def _repeated(rows: RowNumbers, items: npt.NDArray[np.uint32]) -> Marks:
    repeated = np.zeros(len(rows), np.bool_)
    ordered = rows if (rows[1:] > rows[:-1]).all() else np.sort(rows)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        some = np.flatnonzero(_among(rows, twice))
        order = some[np.lexsort((items[some], rows[some]))]
        same = (np.diff(rows[order]) == 0) & (np.diff(items[order]) == 0)
        repeated[order[1:][same]] = repeated[order[:-1][same]] = True
    return repeated


def _updated_rows(table: TableReader, where: Whereabouts, entry: IndexMetadata) -> RowNumbers:
    """Row ids of the rows of a segment's fragments that were changed after they were created, or that do not tell."""
    found = [np.empty(0, np.uint64)]
    for reader in table.readers(sorted(where.coverage(entry))):
        fragment, rows = reader.fragment, RowRange(0, reader.physical_rows)
        told = fragment.created_at is not None and fragment.last_updated_at is not None
        if told and fragment.created_at == fragment.last_updated_at and isinstance(fragment.created_at, bytes):
            # The same bytes say the same of all rows; most fragments are so.
            continue
        ids = numpy_array(reader.system_column(ROW_ID, rows))
        if told:
            created, updated = (reader.system_column(name, rows) for name in (CREATED_AT, LAST_UPDATED_AT))
            ids = ids[numpy_array(created) != numpy_array(updated)]
        found.append(ids)
    return np.unique(np.concatenate(found))


def _digests_of_rows(
    table: TableReader,
    path: Sequence[str],
    segment: TextSegment,
    addresses: RowNumbers,
    items: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint64]:
    """What the documents of some rows, or of items of their lists, would be now; 0 where they have no tokens."""
    scan = Scan(table, ScanPlan(table.snapshot.manifest.schema, (("text", Column(tuple(path), segment.dtype)),)))
    once, places = np.unique(addresses, return_inverse=True)
    found = np.zeros(len(addresses), np.uint64)
    order = np.argsort(places, kind="stable")
    for start in range(0, len(once), _ROWS_AT_ONCE):
        some = once[start : start + _ROWS_AT_ONCE]
        (column,) = scan.take(*table.locate_addresses(some)).columns
        low, high = np.searchsorted(places[order], [start, start + len(some)])
        mine = order[low:high]
        values = pa.concat_arrays(column.chunks)
        found[mine] = segment.digests_of_items(values, places[mine] - start, items[mine])
    return found


def _others(
    documents: _Documents, segment: TextSegment, numbers: npt.NDArray[np.int64], now: npt.NDArray[np.uint64]
) -> npt.NDArray[np.int64]:
    """Of documents that have the row of another one, all but the last that says what the row says; if none does, but the last."""
    wanted = np.zeros(len(documents.rows), np.bool_)
    wanted[numbers] = True
    bounds = documents.bounds
    digests = np.concatenate(
        [
            segment.digests_of_documents(part, wanted[start:stop])
            for part, start, stop in zip(segment.partitions, bounds, bounds[1:], strict=False)
        ]
    )[numbers]
    rows, items = documents.rows[numbers], documents.items[numbers]
    order = np.lexsort((numbers, digests == now, items, rows))
    is_last = np.append((np.diff(rows[order]) != 0) | (np.diff(items[order]) != 0), True)
    others: npt.NDArray[np.int64] = numbers[order[~is_last]]
    return others

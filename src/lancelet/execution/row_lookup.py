"""Rows that a filter names by id or address: found without reading any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.errors import InvalidInput
from lancelet.format.system_columns import ROW_ADDRESS
from lancelet.index.questions import Between, IsIn, Question
from lancelet.index.row_set import RowSet
from lancelet.table.rows.addresses import OFFSET_MASK, fragments_of, row_address

if TYPE_CHECKING:
    from lancelet.execution.table_reader import TableReader
    from lancelet.table.rows.row_id_index import RowIdIndex

_END = 1 << 64


def named_rows(table: TableReader, column: str, question: Question, fragments: Sequence[int] | None) -> RowSet:
    """The rows whose address, or id, is one of some numbers or in a range; only of ``fragments`` when they are given."""
    by_address = column == ROW_ADDRESS or not table.snapshot.manifest.has_stable_row_ids
    if isinstance(question, IsIn):
        numbers: npt.NDArray[np.uint64] = question.values.to_numpy(zero_copy_only=False).astype(np.uint64)
        if by_address:
            return _present(table, RowSet.of(np.unique(numbers)), fragments)
        addresses, found = _ids(table, fragments).lookup(numbers)
        return RowSet.of(addresses[found])
    if not isinstance(question, Between):
        raise InvalidInput(f"row numbers are not asked {question}")
    start = 0 if question.low is None else question.low.as_py() + (not question.with_low)
    stop = _END if question.high is None else question.high.as_py() + question.with_high
    if by_address:
        return _between(table, start, stop, _wanted(table, fragments))
    return _ids_between(_ids(table, fragments), start, stop)


def _wanted(table: TableReader, fragments: Sequence[int] | None) -> Iterable[int]:
    return table.all_rows.fragments if fragments is None else fragments


def _ids(table: TableReader, fragments: Sequence[int] | None) -> RowIdIndex:
    return table.row_id_index if fragments is None else table.row_ids_of(fragments)


def _present(table: TableReader, rows: RowSet, fragments: Sequence[int] | None) -> RowSet:
    """Those that are there."""
    here = rows.within(_wanted(table, fragments))
    whole = (
        RowSet.ranges(*zip(*((n, 0, table.physical_rows(n)) for n in here.fragments), strict=True)) if here else here
    )
    return here & whole


def _between(table: TableReader, start: int, stop: int, fragments: Iterable[int]) -> RowSet:
    whole, ends = [], []
    for number in fragments:
        first = row_address(number, 0)
        if start <= first and stop > first + OFFSET_MASK:
            whole.append(number)
        elif start <= first + OFFSET_MASK and stop > first:
            last = min(stop - first, table.physical_rows(number))
            begin = max(start - first, 0)
            if begin == 0 and last == table.physical_rows(number):
                whole.append(number)
            elif begin < last:
                ends.append((number, begin, last))
    return RowSet.whole(whole) | (RowSet.ranges(*zip(*ends, strict=True)) if ends else RowSet())


def _ids_between(index: RowIdIndex, start: int, stop: int) -> RowSet:
    """The runs of ids inside a range, each at its addresses."""
    if start >= stop or start >= _END:
        return RowSet()
    low, high = np.uint64(start), np.uint64(stop - 1)
    inside = np.flatnonzero((index.starts <= high) & (index.stops > low))
    begins = np.maximum(index.starts[inside], low)
    counts = np.minimum(index.stops[inside] - np.uint64(1), high) - begins + np.uint64(1)
    firsts = index.addresses[inside] + (begins - index.starts[inside])
    offsets = (firsts & np.uint64(OFFSET_MASK)).tolist()
    return RowSet.ranges(
        fragments_of(firsts).tolist(),
        offsets,
        [o + n for o, n in zip(offsets, counts.tolist(), strict=True)],
    )

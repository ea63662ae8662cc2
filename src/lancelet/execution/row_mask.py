"""Rows that a scan is restricted to from outside, by their row ids.

A mask is two sets of row ids in the form that indices store (:mod:`lancelet.index.row_set`): rows that are
allowed, and rows that are not. Ids are addresses, or stable ids where the table has them. It becomes part of
what is known about the filter's candidates, so that a scan reads no more than the rows that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancelet.encoding.rows import Indices, RowRange
from lancelet.errors import CorruptFile, InvalidInput, InvalidType, NotSupported
from lancelet.execution.candidates import Bounds, Candidates, Search
from lancelet.execution.open_indices import IndexUse
from lancelet.expressions.expr import Expr, Literal
from lancelet.format.system_columns import ROW_ID
from lancelet.index.row_set import RowSet
from lancelet.table.rows.addresses import fragments_of, row_addresses
from lancelet.table.rows.row_ids import RowIdSequence

if TYPE_CHECKING:
    from lancelet.execution.fragment_reader import FragmentReader
    from lancelet.execution.table_reader import TableReader

_EVERYTHING = Literal(True, pa.bool_())


@dataclass(frozen=True, slots=True)
class RowMask:
    """Row ids that are allowed (None: all) and row ids that are not (None: none), in their stored form."""

    allowed: bytes | None
    blocked: bytes | None

    @classmethod
    def of(cls, ids: npt.NDArray[np.uint64]) -> RowMask:
        """Only rows with some ids."""
        return cls(RowSet.of(ids).serialize(), None)

    def check(self) -> None:
        """Raise unless both are sets of rows."""
        _stored(self.allowed, "allowlist")
        _stored(self.blocked, "blocklist")

    def rows(self, table: TableReader, fragments: Sequence[int] | None) -> RowSet:
        """The addresses of the rows that are left, deleted ones included."""
        if table.ids_repeat:
            raise NotSupported(f"fragments of {table.snapshot.uri} share ids, so that single rows cannot be named")
        wanted = table.all_rows if fragments is None else RowSet.whole(fragments)
        if (allowed := _stored(self.allowed, "allowlist")) is not None:
            wanted &= _addresses(table, allowed, wanted)
        if (blocked := _stored(self.blocked, "blocklist")) is not None:
            counts = {number: table.physical_rows(number) for number in wanted.fragments}
            wanted &= _addresses(table, blocked, wanted).inverted(counts)
        return wanted


def masked(
    table: TableReader,
    mask: RowMask,
    condition: Expr | None,
    fragments: Sequence[int] | None,
    found: Candidates | None,
) -> Candidates:
    """The candidates of a filter among the rows that a mask leaves; ``found`` is what is known without the mask."""
    rows = mask.rows(table, fragments)
    if found is not None:
        return replace(found, bounds=found.bounds & Bounds(rows, rows))
    search = Search(table, condition or _EVERYTHING, (), () if condition is None else (condition,), None)
    return Candidates(Bounds(rows if condition is None else RowSet(), rows), (), search.rest, search, IndexUse())


def _stored(data: bytes | None, what: str) -> RowSet | None:
    if data is None:
        return None
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidType(f"row_addr_{what} is bytes: a stored set of row ids, not {type(data)}")
    try:
        return RowSet.deserialize(bytes(data), f"row_addr_{what}", "row ids")
    except CorruptFile as error:
        raise InvalidInput(f"row_addr_{what} is not a stored set of row ids: {error.reason}") from error


def _addresses(table: TableReader, ids: RowSet, wanted: RowSet) -> RowSet:
    """Where the rows with some ids are, in the fragments of ``wanted``."""
    if not table.snapshot.manifest.has_stable_row_ids:
        return _in_files(table, ids & wanted)
    whole = np.array([high for high in ids.fragments if ids.is_whole(high)], np.uint64)
    single = ids.within(ids.fragments.difference(whole.tolist())).numbers()
    found = []
    for reader in table.readers(sorted(wanted.fragments)):
        offsets = _with_ids(_ids_of(reader), single, whole)
        found.append(row_addresses(reader.fragment.id, offsets))
    return RowSet.of(np.concatenate(found)) if found else RowSet()


def _in_files(table: TableReader, rows: RowSet) -> RowSet:
    """The addresses that the files have rows for."""
    whole = [number for number in rows.fragments if rows.is_whole(number)]
    single = sorted(rows.fragments.difference(whole))
    counts = [table.physical_rows(number) for number in single]
    return rows & (RowSet.whole(whole) | RowSet.ranges(single, [0] * len(single), counts))


def _ids_of(reader: FragmentReader) -> RowIdSequence:
    ids = reader.row_ids
    if ids is not None:
        return ids
    return RowIdSequence.from_values(reader.system_column(ROW_ID, RowRange(0, reader.physical_rows)).to_numpy())


def _with_ids(ids: RowIdSequence, single: npt.NDArray[np.uint64], whole: npt.NDArray[np.uint64]) -> Indices:
    """The physical rows, in any order, that have one of some ascending ids, or one with one of some high halves."""
    lengths = np.diff(ids.bounds)
    first = np.searchsorted(single, ids.starts)
    last = np.searchsorted(single, ids.starts + (lengths - 1).astype(np.uint64), side="right")
    counts = np.maximum(last - first, 0)
    run = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts) + first[run]
    offsets: Indices = ids.bounds[run] + (single[place] - ids.starts[run]).astype(np.int64)
    if not len(whole):
        return offsets
    high = fragments_of(ids.slice(0, len(ids)))
    return np.union1d(offsets, np.flatnonzero(np.isin(high, whole)))

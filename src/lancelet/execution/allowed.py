"""Which rows a search through an index may find: those that are there, and pass what comes before the search.

An index knows rows that are deleted, or that a filter does not want. What it finds is asked here, many rows at a time: a
bit for each row of the fragments that are asked about, made when the first row of a fragment comes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.index.row_set import RowSet
from lancelet.index.vector.query import KeyedRename
from lancelet.table.rows.addresses import split_addresses

if TYPE_CHECKING:
    from uuid import UUID

    from lancelet.encoding.rows import Indices
    from lancelet.execution.scan import Scan
    from lancelet.execution.table_reader import TableReader
    from lancelet.execution.units import Unit
    from lancelet.execution.vector_indices import VectorPart
    from lancelet.index.row_set import RowNumbers

Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class AllowedRows:
    """Live rows of some fragments, or some of these rows."""

    table: TableReader
    fragments: frozenset[int]
    rows: RowSet | None = None
    """None: all."""
    key: Hashable = None
    """What is made of them may be kept under it; None: it is not kept."""
    _bits: dict[int, npt.NDArray[np.uint8] | bool] = field(default_factory=dict)
    _renames: dict[UUID, KeyedRename] = field(default_factory=dict)

    def rename(self, part: VectorPart) -> KeyedRename:
        """Row ids of a segment's rows, and which of these count."""
        found = self._renames.get(part.entry.uuid)
        if found is None:
            where, whole = self.table.vector_indices.where, self._whole(part)
            renamed = partial(self._renamed, part, part.fragments <= whole.keys())
            keeps_names = where.keeps_names(part.entry) or where.names_ids(part.entry)
            found = KeyedRename(renamed, self.key, whole=whole, keeps_names=keeps_names)
            self._renames[part.entry.uuid] = found
        return found

    def _renamed(self, part: VectorPart, is_whole: bool, rows: RowNumbers) -> tuple[RowNumbers, Marks]:
        where = self.table.vector_indices.where
        addresses, counted = where.addresses(part.entry, rows)
        if not is_whole:
            known = counted.copy()
            counted[known] = self.marks(addresses[known])
        return (rows if where.names_ids(part.entry) else addresses), counted

    def _whole(self, part: VectorPart) -> dict[int, int]:
        """The fragments all of whose rows are there, allowed, and called as a segment calls them, with their rows.

        A segment may have rows of others, whose vectors are not those of its codes any more.
        """
        if self.rows is not None or not self.table.vector_indices.where.keeps_names(part.entry):
            return {}
        readers = self.table.readers(sorted(part.fragments & self.fragments))
        return {r.fragment.id: r.physical_rows for r in readers if r.fragment.deletion_file is None}

    def marks(self, addresses: RowNumbers) -> Marks:
        """Which of some addresses are allowed."""
        numbers, offsets = split_addresses(addresses)
        found = np.zeros(len(addresses), np.bool_)
        if not len(addresses):
            return found
        order: Indices | None = None
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")
            numbers, offsets = numbers[order], offsets[order]
        edges = np.flatnonzero(np.diff(numbers)) + 1
        begins, ends = [0, *edges.tolist()], [*edges.tolist(), len(numbers)]
        for begin, end in zip(begins, ends, strict=True):
            bits = self._of(int(numbers[begin]))
            here = offsets[begin:end]
            allowed = bits if isinstance(bits, bool) else ((bits[here >> 3] >> (here & 7)) & 1).astype(np.bool_)
            found[begin:end] = allowed
        if order is not None:
            back = np.empty_like(found)
            back[order] = found
            return back
        return found

    def _of(self, number: int) -> npt.NDArray[np.uint8] | bool:
        """The bits of a fragment; True and False for all and none of its rows."""
        bits = self._bits.get(number)
        if bits is None:
            bits = self._bits[number] = self._made(number)
        return bits

    def _made(self, number: int) -> npt.NDArray[np.uint8] | bool:
        if number not in self.fragments or (self.rows is not None and number not in self.rows.fragments):
            return False
        (reader,) = self.table.readers((number,))
        count = reader.physical_rows
        keep = reader.deletions.keep(0, count) if reader.fragment.deletion_file is not None else None
        if self.rows is not None and not self.rows.is_whole(number):
            passing = np.zeros(count, np.bool_)
            passing[self.rows.offsets(number)] = True
            keep = passing if keep is None else keep & passing
        return True if keep is None else np.packbits(keep, bitorder="little")

    def count_up_to(self, most: int) -> int | None:
        """How many rows are allowed, if they are known one by one and not more than ``most``; deleted ones may count."""
        if self.rows is None or self.rows.has_whole:
            return None
        count = len(self.rows)
        return count if count <= most else None


def passing_rows(scan: Scan) -> RowSet:
    """The rows that a scan would give, by address; deleted ones may be among them."""
    candidates = scan.candidates
    if candidates is not None and candidates.is_decided:
        return candidates.bounds.sure

    def found(unit: Unit, chosen: Indices | None) -> RowSet:
        number, start = unit.reader.fragment.id, unit.rows.start
        if chosen is None:
            return RowSet.ranges([number], [start], [unit.rows.stop])
        first, last = start + int(chosen[0]), start + int(chosen[-1]) + 1
        if last - first == len(chosen):
            return RowSet.ranges([number], [first], [last])
        return RowSet.of_fragment(number, chosen + start)

    return RowSet.union(scan.selections(found))

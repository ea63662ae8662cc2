"""Addresses in indices that were built before fragments were rewritten (spec indices.md 15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from lancelet.errors import CorruptFile
from lancelet.table.addresses import OFFSET_BITS
from lancelet.table.fragment_reuse import Group, Version, read_rewrites

if TYPE_CHECKING:
    from lancelet.table.snapshot import Snapshot

Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class FragmentReuse:
    """Where rows went in the rewrites that a table remembers."""

    rewrites: tuple[Version, ...]
    """The oldest first."""
    path: str
    """The manifest, for error texts."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> FragmentReuse | None:
        """What a version remembers; None when that is nothing."""
        rewrites = read_rewrites(snapshot)
        return cls(rewrites, snapshot.manifest.path) if rewrites else None

    def follow(self, addresses: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Present addresses of rows, and whether they still have one. Rows that were never moved keep theirs."""
        found = np.array(addresses, np.uint64)
        kept = np.ones(len(found), np.bool_)
        for rewrite in self.rewrites:
            for group in rewrite.groups:
                self._move(found, kept, group)
        return found, kept

    def _move(self, found: Addresses, kept: npt.NDArray[np.bool_], group: Group) -> None:
        old = np.array([fragment.id for fragment in group.old_fragments], np.uint64)
        here = np.flatnonzero(kept & np.isin(found >> np.uint64(OFFSET_BITS), old))
        if not len(here):
            return
        survivors = self._survivors(group)
        at = np.searchsorted(survivors, found[here])
        live = at < len(survivors)
        live[live] = survivors[at[live]] == found[here][live]
        kept[here[~live]] = False
        # Rows are numbered through the new fragments, which they fill one after another.
        ids = np.array([fragment.id for fragment in group.new_fragments], np.uint64)
        ends = np.cumsum([fragment.physical_rows for fragment in group.new_fragments], dtype=np.int64)
        if int(ends[-1] if len(ends) else 0) != len(survivors):
            raise CorruptFile(self.path, f"{len(survivors)} rows became another number", "fragment-reuse index")
        rows = at[live]
        owner = np.searchsorted(ends, rows, side="right")
        offsets = rows - np.concatenate([np.zeros(1, np.int64), ends])[owner]
        found[here[live]] = ids[owner] << np.uint64(OFFSET_BITS) | offsets.astype(np.uint64)

    def _survivors(self, group: Group) -> Addresses:
        """Old addresses in the order in which the rows were written: that of the old fragments, then of their rows."""
        try:
            values = BitMap64.deserialize(group.changed_row_addrs)
        except ValueError as error:
            raise CorruptFile(self.path, f"not a 64-bit Roaring bitmap: {error}", "fragment-reuse index") from None
        return np.fromiter(values, np.uint64, len(values))

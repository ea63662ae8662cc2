"""Addresses in indices that were built before fragments were rewritten (spec indices.md 15)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from lancelet.errors import CorruptFile
from lancelet.table.commit.fragment_reuse import Group, Version, read_rewrites
from lancelet.table.rows.addresses import OFFSET_BITS, fragments_of

if TYPE_CHECKING:
    from lancelet.table.manifest.snapshot import Snapshot

Addresses = npt.NDArray[np.uint64]

_FEW = 512
"""So many rows are looked up one by one, without spelling out all that moved."""


@dataclass(frozen=True, slots=True)
class FragmentReuse:
    """Where rows went in the rewrites that a table remembers."""

    rewrites: tuple[Version, ...]
    """The oldest first."""
    path: str
    """The manifest, for error texts."""
    _read: dict[tuple[int, int], BitMap64] = field(default_factory=dict, compare=False, repr=False)
    """Old addresses of the rows that were kept, by the number of the rewrite and of the group."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> FragmentReuse | None:
        """What a version remembers; None when that is nothing."""
        rewrites = read_rewrites(snapshot)
        return cls(rewrites, snapshot.manifest.path) if rewrites else None

    def follow(self, addresses: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Present addresses of rows, and whether they still have one. Rows that were never moved keep theirs."""
        found = np.array(addresses, np.uint64)
        kept = np.ones(len(found), np.bool_)
        for key, group in self._groups():
            self._move(found, kept, group, key)
        return found, kept

    def _groups(self) -> Iterator[tuple[tuple[int, int], Group]]:
        for number, rewrite in enumerate(self.rewrites):
            for place, group in enumerate(rewrite.groups):
                yield (number, place), group

    def _move(self, found: Addresses, kept: npt.NDArray[np.bool_], group: Group, key: tuple[int, int]) -> None:
        old = np.array([fragment.id for fragment in group.old_fragments], np.uint64)
        here = np.flatnonzero(kept & np.isin(fragments_of(found), old))
        if not len(here):
            return
        survivors = self._survivors(group, key)
        at, live = _ranks(survivors, found[here])
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

    def _survivors(self, group: Group, key: tuple[int, int]) -> BitMap64:
        """Old addresses in the order in which the rows were written: that of the old fragments, then of their rows."""
        if key not in self._read:
            try:
                self._read[key] = BitMap64.deserialize(group.changed_row_addrs)
            except ValueError as error:
                raise CorruptFile(self.path, f"not a 64-bit Roaring bitmap: {error}", "fragment-reuse index") from None
        return self._read[key]


def _ranks(survivors: BitMap64, addresses: Addresses) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The place of each address among the survivors, and whether it is one of them."""
    if len(addresses) <= _FEW:
        live = np.array([address in survivors for address in addresses.tolist()], np.bool_)
        return np.array([survivors.rank(address) - 1 for address in addresses.tolist()], np.int64), live
    every = np.frombuffer(survivors.to_array(), np.uint64)
    at = np.searchsorted(every, addresses)
    live = at < len(every)
    live[live] = every[at[live]] == addresses[live]
    return at, live

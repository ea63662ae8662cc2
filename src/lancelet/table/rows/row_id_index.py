"""From a stable row id to the address of its row.

Spec table-format.md 5.3. The index is a sorted list of runs: rows whose ids and
addresses both ascend by one. A table that was only appended to has one run a
fragment; deletions and updates add runs. Only live rows count: an updated row
leaves its id behind in its old, deleted place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.errors import CorruptFile
from lancelet.table.rows.addresses import row_addresses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lancelet.table.rows.deletions import DeletionVector
    from lancelet.table.rows.row_ids import RowIdSequence

Ids = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class RowIdIndex:
    """Run *k*: ids ``starts[k]`` to ``stops[k]`` (not included) are at ``addresses[k]`` onwards."""

    starts: Ids
    stops: Ids
    addresses: Ids

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.stops.nbytes + self.addresses.nbytes

    def __len__(self) -> int:
        """Live rows."""
        return int((self.stops - self.starts).sum())

    def lookup(self, row_ids: npt.ArrayLike) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """Addresses of row ids, and for each whether there is such a row (where not, the address means nothing)."""
        ids = np.asarray(row_ids, np.uint64)
        if not len(self.starts):
            return np.zeros(len(ids), np.uint64), np.zeros(len(ids), np.bool_)
        run = np.searchsorted(self.starts, ids, side="right") - 1
        found = (run >= 0) & (ids < self.stops[run])
        return self.addresses[run] + (ids - self.starts[run]), found


def build_row_id_index(parts: Iterable[tuple[int, RowIdSequence, DeletionVector]], path: str) -> RowIdIndex:
    """Index the live rows of fragments, given as (fragment id, row ids, deleted rows); ``path`` is the manifest's."""
    starts, lengths, addresses = [], [], []
    for fragment_id, sequence, deletions in parts:
        ids, offsets, counts = _live_runs(sequence, deletions)
        starts.append(ids)
        lengths.append(counts)
        addresses.append(row_addresses(fragment_id, offsets))
    if not starts:
        nothing = np.empty(0, np.uint64)
        return RowIdIndex(nothing, nothing, nothing)
    begins, counts, places = np.concatenate(starts), np.concatenate(lengths), np.concatenate(addresses)
    order = np.argsort(begins, kind="stable")
    begins, counts, places = begins[order], counts[order], places[order]
    ends = begins + counts.astype(np.uint64)
    overlap = np.flatnonzero(begins[1:] < ends[:-1])
    if len(overlap):
        raise CorruptFile(path, f"row id {int(begins[overlap[0] + 1])} belongs to two live rows", "row ids")
    return RowIdIndex(begins, ends, places)


def _live_runs(
    sequence: RowIdSequence, deletions: DeletionVector
) -> tuple[Ids, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First id, first row offset and length of each run of live rows."""
    bounds = sequence.bounds
    if not len(deletions):
        return sequence.starts, bounds[:-1], np.diff(bounds)
    # Cut at the beginning of every run, at every deleted row and behind it; then leave the deleted rows out.
    gone = deletions.offsets.astype(np.int64)
    cuts = np.unique(np.concatenate([bounds, gone, gone + 1]))
    begins, ends = cuts[:-1], cuts[1:]
    live = ~deletions.contains(begins)
    begins, ends = begins[live], ends[live]
    return sequence.take(begins), begins, ends - begins

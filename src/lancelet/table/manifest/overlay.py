"""Overlays: new values for single cells of a fragment (spec table-format.md 8.9).

For a row and a field the newest overlay that covers the cell has its value: the
greatest committed version, and of equal ones the last in the list. Within the
overlay's file the values of a field are packed: the value of a row is at the
number of covered rows before it. Deleted rows stay deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lancelet.errors import CorruptFile

if TYPE_CHECKING:
    import numpy.typing as npt

    from lancelet.table.manifest.fragment import DataFile, Fragment


@dataclass(frozen=True, slots=True, eq=False)
class OverlayPatch:
    """Cells of one field whose values come from one overlay file."""

    file: DataFile
    rows: npt.NDArray[np.uint32]
    """Physical row offsets, ascending."""
    positions: npt.NDArray[np.int64]
    """Where the values are in the file's column, ascending."""


def overlay_patches(fragment: Fragment, field_id: int, physical_rows: int, path: str) -> tuple[OverlayPatch, ...]:
    """What to put over a field's column, one patch for each overlay that still shows; no cell is in two patches."""
    order = sorted(enumerate(fragment.overlays), key=lambda entry: (entry[1].committed_version, entry[0]), reverse=True)
    covered: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
    patches = []
    for _, overlay in order:
        rows = overlay.rows(field_id, path)
        if rows is None or not len(rows):
            continue
        if int(rows[-1]) >= physical_rows:
            raise CorruptFile(
                path, f"an overlay covers row {int(rows[-1])} of {physical_rows}", f"fragment {fragment.id}"
            )
        positions = np.flatnonzero(~np.isin(rows, covered, assume_unique=True))
        if len(positions):
            patches.append(OverlayPatch(overlay.file, rows[positions], positions))
        covered = np.union1d(covered, rows)
    return tuple(patches)

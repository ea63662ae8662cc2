"""Partitions of rows, and maybe their codes, that somebody worked out before the build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lancelet.errors import InvalidInput

if TYPE_CHECKING:
    from lancelet.index.row_set import RowNumbers


@dataclass(frozen=True)
class Precomputed:
    """What is known of some rows; what is not known of the others is worked out.

    Examples
    --------
    >>> known = Precomputed.of(np.array([7, 3], np.uint64), np.array([0, 1], np.uint32))
    >>> known.partitions[known.find(np.array([3, 4], np.uint64))[0]].tolist()
    [1]
    """

    rows: RowNumbers
    """Ascending."""
    partitions: npt.NDArray[np.uint32]
    codes: npt.NDArray[np.uint8] | None = None
    """A row each."""

    @classmethod
    def of(
        cls, rows: RowNumbers, partitions: npt.NDArray[np.uint32], codes: npt.NDArray[np.uint8] | None = None
    ) -> Precomputed:
        """Of rows in any order; each may be there once."""
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        if np.any(rows[1:] == rows[:-1]):
            twice = int(rows[1:][rows[1:] == rows[:-1]][0])
            raise InvalidInput(f"row {twice} has two partitions; name each row once")
        return cls(rows, partitions[order], None if codes is None else codes[order])

    def check(self, count: int) -> None:
        """Raise where there are not so many partitions."""
        if len(self.partitions) and int(self.partitions.max()) >= count:
            raise InvalidInput(
                f"partition ID {int(self.partitions.max())} is out of range [0, {count}): the partitions were worked out "
                "with other centroids than ivf_centroids"
            )

    def find(self, rows: RowNumbers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Places of the rows that are known, and which these are."""
        if not len(self.rows):
            return np.empty(0, np.int64), np.zeros(len(rows), np.bool_)
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        there: npt.NDArray[Any] = self.rows[places] == rows
        return places[there], there

"""Kinds whose answer is ranked: the best few rows, each with a distance or a score.

Segments of an index are asked side by side, and each gives its own best rows; the best of these are the answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from lancelet.index.kind import Kind, Rename, Segment
from lancelet.runtime.threads import Pool, core_count

if TYPE_CHECKING:
    import pyarrow as pa

    from lancelet.index.folder import IndexFolder
    from lancelet.index.row_set import RowNumbers

_POOL: Final = Pool("lancelet-ranked", core_count())


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows by their addresses, the best one first."""

    rows: RowNumbers
    marks: npt.NDArray[np.float32]
    """The distance or the score of each."""


class Ranking(Segment, Protocol):
    """A segment that knows which rows are best."""

    def best(self, wanted: Any, count: int, rename: Rename) -> Ranked:
        """Its best rows. Those that ``rename`` does not keep are gone, and take no other row's place."""


class RankedKind(Kind):
    """A kind that searches ask, not filters."""

    descending: bool = False
    """Whether a greater mark is better: scores. Of distances the least are best."""

    @abstractmethod
    def open(self, folder: IndexFolder, dtype: pa.DataType) -> Ranking:
        """Open a segment over values of a type."""


def best_rows(kind: RankedKind, segments: Sequence[tuple[Ranking, Rename]], wanted: Any, count: int) -> Ranked:
    """The best rows of an index; of equally good ones those with the lower addresses."""
    asked = [partial(segment.best, wanted, count, rename) for segment, rename in segments]
    found = _POOL.all(asked)
    rows = np.concatenate([np.empty(0, np.uint64), *(part.rows for part in found)])
    marks = np.concatenate([np.empty(0, np.float32), *(part.marks for part in found)])
    order = np.lexsort((rows, -marks if kind.descending else marks))[:count]
    return Ranked(rows[order], marks[order])

"""The pieces that a scan is read in.

A unit is a range of physical rows of one fragment, small enough that a few of
them fit into the read-ahead. Where candidates are known, a unit goes around some
of them: dense ones are cut like all rows, and where there are none for long; few ones make one unit, however far apart.
Units of little work are read in groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lancelet.encoding.rows import Indices, RowIndices, RowRange
from lancelet.execution.costs import FEWEST_TOGETHER, GAP_ROWS, MIN_UNIT_ROWS, MOST_TOGETHER
from lancelet.execution.fragment_reader import Column, FragmentReader

if TYPE_CHECKING:
    from lancelet.execution.candidates import Candidates
    from lancelet.execution.filtering import Stage
    from lancelet.format.schema import Field


@dataclass(frozen=True, slots=True)
class UnitSize:
    """How large a unit may get."""

    decoded: int
    stored: int
    rows: int


LOCAL_UNIT = UnitSize(16 << 20, 48 << 20, 1 << 17)
# Every column of a unit is at least one request.
REMOTE_UNIT = UnitSize(64 << 20, 64 << 20, 1 << 20)


@dataclass(frozen=True, slots=True)
class Unit:
    """Some rows of one fragment."""

    reader: FragmentReader
    rows: RowRange
    rows_before: int
    """Live rows of earlier fragments; only counted when somebody asks for row offsets."""
    stages: Sequence[Stage] = ()
    """What the rows have to pass."""
    chosen: Indices | None = None
    """Places in the range of the live rows to look at; None: all that are live."""
    sure: npt.NDArray[np.bool_] | None = None
    """Which of the chosen rows pass untested; None: none."""
    columns: Mapping[Field, Column] = field(default_factory=dict, compare=False)
    """What was read of it before."""

    @property
    def is_whole(self) -> bool:
        """Whether all of its rows that are live are looked at."""
        return self.chosen is None and self.sure is None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Candidates of one fragment."""

    offsets: Indices
    """Physical rows; only live ones, unless deleted ones are wanted too."""
    sure: npt.NDArray[np.bool_] | None
    """Which of them pass untested; None: none."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def share(self) -> float:
        """Of the rows from the first to the last of them, how many they are."""
        return len(self.offsets) / int(self.offsets[-1] - self.offsets[0] + 1)

    def part(self, start: int, stop: int) -> Chosen:
        """Some of them by place."""
        return Chosen(self.offsets[start:stop], None if self.sure is None else self.sure[start:stop])


def choose(
    reader: FragmentReader, candidates: Candidates, first: int, last: int, *, with_deleted: bool = False
) -> Chosen:
    """The candidates among some physical rows of a fragment, which is not one as a whole."""
    number, bounds = reader.fragment.id, candidates.bounds
    offsets = bounds.maybe.offsets(number)
    if first > 0 or (len(offsets) and last <= offsets[-1]):
        begin, end = np.searchsorted(offsets, (first, last)).tolist()
        offsets = offsets[begin:end]
    if not len(offsets):
        return Chosen(offsets, None)
    live = None if with_deleted else reader.live(RowIndices(offsets))
    if live is not None:
        offsets = offsets[live]
    if bounds.decides(number) or number not in bounds.sure.fragments:
        return Chosen(offsets, None)
    known = bounds.sure.offsets(number)
    at = np.minimum(np.searchsorted(known, offsets), len(known) - 1)
    return Chosen(offsets, known[at] == offsets)


def cut(chosen: Chosen, step: int, few: int = MIN_UNIT_ROWS) -> Iterator[tuple[RowRange, Chosen]]:
    """Ranges of at most ``step`` rows, or wider ones with ``few`` candidates; each with its candidates as places in it."""
    offsets = chosen.offsets
    if len(offsets) > few:
        gaps = np.flatnonzero(np.diff(offsets) > GAP_ROWS) + 1
        if 0 < len(gaps) <= len(offsets) // MIN_UNIT_ROWS:
            # Stretches of candidates, as zones are: what is between them need not be read.
            for begin, end in pairwise([0, *gaps.tolist(), len(offsets)]):
                yield from _cut(chosen.part(begin, end), step, few)
            return
    yield from _cut(chosen, step, few)


def _cut(chosen: Chosen, step: int, few: int) -> Iterator[tuple[RowRange, Chosen]]:
    offsets = chosen.offsets
    if len(offsets) <= few or int(offsets[-1] - offsets[0]) < step:
        yield _placed(chosen)
        return
    edges = np.append(np.arange(int(offsets[0]), int(offsets[-1]) + 1, step), int(offsets[-1]) + 1)
    bounds = np.searchsorted(offsets, edges).tolist()
    begin = 0
    for at, end in enumerate(bounds[1:], start=1):
        # Neighbours stay together while they have few rows.
        following = bounds[at + 1] if at + 1 < len(bounds) else None
        if end > begin and (following is None or following - begin > few):
            yield _placed(chosen.part(begin, end))
            begin = end


def _placed(chosen: Chosen) -> tuple[RowRange, Chosen]:
    first, last = int(chosen.offsets[0]), int(chosen.offsets[-1])
    return RowRange(first, last + 1), Chosen(chosen.offsets - first, chosen.sure)


def group(units: Iterable[Unit], most_rows: int) -> Iterator[list[Unit]]:
    """Neighbouring units with few rows, to be read together; groups grow, so that the first rows do not wait for many.

    ``most_rows`` are such as the first unit has: of fragments whose files have more bytes for a row, each counts as more.
    """
    waiting: list[Unit] = []
    rows, most = 0.0, FEWEST_TOGETHER
    usual: float | None = None
    for unit in units:
        width = row_width(unit.reader)
        usual = usual or width
        own = len(unit.rows) * max(width / usual, 1) if width and usual else math.inf
        if waiting and (rows + own > most_rows or len(waiting) == most):
            yield waiting
            waiting, rows, most = [], 0, min(2 * most, MOST_TOGETHER)
        waiting.append(unit)
        rows += own
    if waiting:
        yield waiting


def row_width(reader: FragmentReader) -> float | None:
    """Bytes of a row in the files of a fragment; None where the manifest does not tell."""
    sizes = [file.size or 0 for file in reader.fragment.files]
    return sum(sizes) / max(reader.physical_rows, 1) if all(sizes) else None
